/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two iWARP QPs and a byte stream each way, without threads or sockets. The
 * streams accept and return bytes in pieces of any size, so that a test decides
 * where TCP splits. Either side can be left out and simulated by hand.
 */
#ifndef TESTS_UNIT_IWARP_FIXTURE_H
#define TESTS_UNIT_IWARP_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "iwarp/iwarp.h"
#include "rig/rig.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

struct pipe {
	uint8_t *data;
	uint32_t head;
	uint32_t len; /* bytes after head */
	uint32_t cap;
	uint32_t room; /* limit of unread bytes; 0: none */
	bool fin;      /* the sender has closed */
};

struct side {
	struct rig_host host;
	struct ur_iwarp *w;
	struct ur_cq cq;
	struct ur_srq *srq;
	struct ur_qp qp;
	struct pipe out;
	bool attached;
	bool reset; /* the link was told to reset */
};

struct pair {
	struct side a; /* initiator */
	struct side b;
	struct ur_rng rng;
	/* TCP accepts at most this many bytes at once; 0: any. */
	uint32_t tx_max;
	uint32_t rx_max; /* returns at most this many */
	uint64_t now_ns;
};

struct ur_iw_params pair_params(bool initiator);

/* Creates and connects both sides; bp NULL: as ap, but a responder. */
void pair_init(struct pair *p, const struct ur_iw_params *ap,
	       const struct ur_iw_params *bp);
/* Lanes created next let a SEND wait for its receive. */
extern bool pair_patient;
/* Sent bytes are not acknowledged by the peer's TCP. */
extern bool pair_undelivered;

/* Created, but not connected: QPs in RESET. */
void pair_init_raw(struct pair *p, bool with_srq);
void pair_connect(struct pair *p, const struct ur_iw_params *ap,
		  const struct ur_iw_params *bp);
void pair_fini(struct pair *p);

void pipe_put(struct pipe *s, const void *data, uint32_t len);
uint32_t pipe_get(struct pipe *s, void *data, uint32_t len);

/* Send pending bytes of s; true if anything happened. */
bool side_send(struct pair *p, struct side *s);
/* Receive from the peer's stream. */
bool side_recv(struct pair *p, struct side *s, struct pipe *from);
/* Both, until nothing happens any more. */
void pair_run(struct pair *p);

void side_post_send(struct pair *p, struct side *s, const struct rig_wr *wr);
void side_post_recv(struct side *s, uint64_t wr_id, const struct ur_sge *sge,
		    uint32_t nsge);
/* The next completion has this id and status; it is returned. */
struct ur_cqe side_cqe(struct side *s, uint64_t wr_id, uint8_t status);
void side_no_cqe(struct side *s);
/* The next asynchronous event is of that type; -1: there is none. */
void side_event(struct side *s, int type);

/* The next FPDU in the stream of s, decoded and checked. */
struct fpdu {
	struct ur_ddp_hdr h;
	uint32_t len; /* of the payload */
	uint8_t payload[65536];
};
bool fpdu_get(struct pipe *s, struct fpdu *f, bool crc);
/* A hand-made FPDU, with the correct CRC. */
void fpdu_put(struct pipe *s, const struct ur_ddp_hdr *h, const void *payload,
	      uint32_t len);
struct ur_ddp_hdr hdr_tagged(enum ur_rdmap_opcode op, uint32_t stag,
			     uint64_t to);
struct ur_ddp_hdr hdr_untagged(enum ur_rdmap_opcode op, uint32_t msn,
			       uint32_t mo);
/* s has sent a TERMINATE with that content as its last message. */
void expect_terminate(struct pipe *s, uint8_t layer, uint8_t etype,
		      uint8_t code, struct ur_terminate *t);

#endif
