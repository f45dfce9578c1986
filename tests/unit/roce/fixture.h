/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One lane with one queue pair, and a peer simulated by hand: packets are built
 * with the codecs, fed to ur_roce_input(), and the output is decoded. Only the
 * public interface of roce/ is used.
 */
#ifndef TESTS_UNIT_ROCE_FIXTURE_H
#define TESTS_UNIT_ROCE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/timer.h"
#include "rig/rig.h"

#define PEER_QPN  0x8001u
#define PEER_SRQN 0x14002u
#define RQ_PSN	  1000u /* first PSN that the peer sends */
#define SQ_PSN	  5000u /* first PSN that we send */
#define MTU	  256u
#define QKEY	  0x1234u
#define BUF_LEN	  8192u
#define US	  1000ul
#define MS	  1000000ul
#define OUT_MAX	  640u

struct out {
	struct ur_hdr h;
	uint8_t tclass;
	uint32_t len; /* of the payload */
	uint8_t payload[4096];
};

struct fix {
	struct rig_host host;
	struct rig_lane lane;
	struct ur_cq cq;
	struct ur_srq srq;
	struct ur_qp qp;
	struct rig_link link;
	struct rig_buf remote; /* all rights */
	struct rig_buf local;  /* LOCAL_WRITE */
	struct rig_pkt pkt;    /* from the peer; addresses are set */
	uint64_t now_ns;
	struct out out[OUT_MAX];
	uint32_t nout;
	uint8_t data[4096]; /* 0, 1, 2 and so on */
};

/* A queue pair of the type in RTS, MTU 256; with_srq: receives by an SRQ. */
struct fix *fix_new(enum ur_qp_type type, bool with_srq);
/* RC, receives by a tag matching queue with a list of FIX_TAGS. */
#define FIX_TAGS 24u
struct fix *fix_new_tm(void);
/* The next one is a process that shares the XRC domain. */
void fix_share(uint32_t slot, const struct ur_xrc_ops *ops, void *arg);
void fix_free(struct fix *f);
/* The same with link parameters changed by the caller before it connects. */
struct fix *fix_new_reset(enum ur_qp_type type, bool with_srq);
void fix_connect(struct fix *f);

/* The usual fixtures for cmocka; *state is the struct fix. */
int rc_setup(void **state);
/* With a receive buffer as large as a socket's. */
int rc_setup_roomy(void **state);
int uc_setup(void **state);
int ud_setup(void **state);
int fix_teardown(void **state);

/* A packet from the peer: header first, payload of f->data. */
struct ur_hdr peer_hdr(const struct fix *f, uint8_t opcode, uint32_t psn);
void peer_send(struct fix *f, struct ur_hdr *h, uint32_t len);
/* SEND, MIDDLE … without further headers. */
void peer_plain(struct fix *f, uint8_t opcode, uint32_t psn, uint32_t len);
void peer_write(struct fix *f, uint8_t opcode, uint32_t psn, uint32_t len,
		uint32_t total);
void peer_read(struct fix *f, uint32_t psn, uint32_t len);
void peer_atomic(struct fix *f, uint8_t opcode, uint32_t psn, uint64_t add,
		 uint64_t compare);
void peer_ack(struct fix *f, uint32_t psn, uint8_t syndrome);

/* Collect what the lane wants to send now into f->out; returns how many. */
uint32_t fix_run(struct fix *f);
/* Advances time, serving timers; collects as fix_run() over the whole time. */
uint32_t fix_sleep(struct fix *f, uint64_t ns);
/* Assert that packet i of f->out is that. */
void expect_out(const struct fix *f, uint32_t i, uint8_t opcode, uint32_t psn);
void expect_aeth(const struct fix *f, uint32_t i, uint32_t psn,
		 uint8_t syndrome);

void fix_recv(struct fix *f, uint64_t wr_id, uint32_t off, uint32_t len);
void fix_post(struct fix *f, uint8_t opcode, uint64_t wr_id, uint32_t len,
	      uint8_t flags);
/* The same, not signaled unless the flags say so. */
void fix_post_quiet(struct fix *f, uint8_t opcode, uint64_t wr_id, uint32_t len,
		    uint8_t flags);
/* The next completion must exist and have that wr_id and status. */
struct ur_cqe expect_cqe(struct fix *f, uint64_t wr_id, uint8_t status);
void expect_no_cqe(struct fix *f);
void expect_event(struct fix *f, enum ur_event_type type);
void expect_no_event(struct fix *f);
const struct ur_roce_counters *counters(const struct fix *f);

#endif
