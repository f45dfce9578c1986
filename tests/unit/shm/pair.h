/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two lanes of one host, each with a queue pair that sends to the other's, and
 * perhaps a channel between them.  What leaves by the wire is kept until the
 * test delivers it.
 */
#ifndef TESTS_UNIT_ROCE_NEAR_PAIR_H
#define TESTS_UNIT_ROCE_NEAR_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/timer.h"
#include "rig/rig.h"
#include "shm/shm.h"

#define PAIR_QKEY  0x5678u
#define PAIR_BUF   65536u
#define PAIR_HALF  (PAIR_BUF / 2)
#define PAIR_PKTS  64u
#define PAIR_DEPTH 128u
#define MS	   1000000ul

struct pair;

struct pair_side {
	struct pair *pair;
	struct rig_lane lane;
	struct ur_cq cq;
	struct ur_qp qp;
	struct rig_link link;
	struct rig_buf buf; /* all rights; the first half is sent from */
	struct ur_shm_peer peer;
	uint32_t asked; /* how often it wanted a channel … */
	uint16_t slot;	/* … and to which slot, the last time */
	uint32_t rings;
};

/* [0] sends, [1] receives. */
struct ur_umr_block;

struct pair {
	struct rig_host host;
	struct pair_side side[2];
	void *mem; /* NULL: no channel */
	uint64_t now_ns;
	struct rig_pkt wire[PAIR_PKTS]; /* from side 0, not delivered */
	bool mute;			/* side 1 has no send queue */
	uint32_t npkts;
};

struct pair *pair_new(enum ur_qp_type type, bool v6);
/* Side 1 stays in RTR. */
struct pair *pair_new_waiting(enum ur_qp_type type);
/* Nothing can be posted to be sent by side 1. */
struct pair *pair_new_mute(enum ur_qp_type type);
void pair_free(struct pair *p);
void pair_open(struct pair *p);
void pair_close(struct pair *p);
/* Side 0 uses only 256 KiB of its stretch of payload. */
void pair_narrow(struct pair *p);
int pair_teardown(void **state);

/* Side 0 posts a SEND of len bytes from the start of its buffer; UD's goes to
 * side 1.  Fields of *extra that are not zero override. */
void pair_post(struct pair *p, uint64_t wr_id, uint32_t len,
	       const struct rig_wr *extra);
/* Side 1 posts a receive of len bytes in the second half of its buffer. */
void pair_recv(struct pair *p, uint64_t wr_id, uint32_t off, uint32_t len);
/* Side 0's packets into p->wire; returns how many there are. */
uint32_t pair_leave(struct pair *p);
/* They arrive; then side 1 finds its link dry. */
void pair_deliver(struct pair *p);
/* A side polls its channel; returns how many descriptors it took. */
int pair_look(struct pair *p, unsigned int side);
/* Time passes for side 0. */
void pair_sleep(struct pair *p, uint64_t ns);
/* The side's next completion. */
struct ur_cqe pair_cqe(struct pair *p, unsigned int side, uint64_t wr_id,
		       uint8_t status);
void pair_no_cqe(const struct pair *p, unsigned int side);
const struct ur_roce_counters *pair_counters(const struct pair *p,
					     unsigned int side);

/* An indirect key of one block that is repeated, which peers may write. */
struct ur_mr *pair_key(struct pair *p, uint64_t iova,
		       const struct ur_umr_block *block, uint32_t repeats);

#endif
