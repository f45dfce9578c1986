/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching: senders whose queue pairs end at one SRQ with a list of tags,
 * and an application there that keeps the list of unexpected messages.
 *
 *  *	tags.c         creation and posting
 *  *	tags_oracle.c  completions and their invariants
 */
#ifndef TESTS_SIM_TAGS_H
#define TESTS_SIM_TAGS_H

#include "core/tm.h"
#include "sim/sim.h"

#define TAGS_SENDERS   3u
#define TAGS_MSGS      64u /* of a sender */
#define TAGS_WANTS     (2u * TAGS_SENDERS * TAGS_MSGS)
#define TAGS_FIFO      1024u
#define TAGS_TMH       16u
#define TAGS_RVH       32u /* with the header before it */
#define TAGS_NOTE      24u
#define TAGS_NOTE_BYTE 0x99u
#define TAGS_SLOTS     64u /* of a sender's receives */
/* In the wr_id of receives of tags and of operations on the list. */
#define TAGS_WANT_ID   (1ul << 41)
#define TAGS_OP_ID     (1ul << 42)

enum tags_kind {
	TAGS_EAGER,
	TAGS_RNDV,
	TAGS_RNDV_LONG, /* of many packets: nothing may match it */
	TAGS_NO_TAG,
	TAGS_BARE, /* shorter than a header */
	TAGS_IMM,  /* an empty WRITE with immediate data */
};

struct tags_msg {
	enum tags_kind kind;
	uint64_t tag;
	uint32_t len;  /* of the data for a buffer */
	uint32_t size; /* total */
	int32_t want;  /* -1: none yet */
	bool waiting;  /* in the application's list */
	bool owed;     /* a FIN is outstanding */
	bool fin;
};

enum tags_state {
	TAGS_LISTED,
	TAGS_READING, /* matched, a rendezvous */
	TAGS_DONE,    /* has a message, matched by either side */
	TAGS_CANCELLED,
};

/* A buffer that the application wants filled. */
struct tags_want {
	enum tags_state state;
	uint64_t tag;
	uint64_t mask;
	uint32_t len;
	uint32_t handle;
	uint32_t sender; /* of its message */
	uint32_t msg;
	bool gone; /* matched, according to the adapter */
};

struct tags_sender {
	struct sim_tags *t;
	struct sim_lane *lane;
	struct ur_cq cq;
	struct ur_qp qp;
	struct rig_link link;
	struct rig_buf src;  /* messages, a slot for each */
	struct rig_buf data; /* data of rendezvous */
	struct rig_buf rq;
	struct tags_msg msg[TAGS_MSGS];
	uint32_t mtu;
	uint32_t posted;
	uint32_t retired;
	uint32_t arrived; /* at the application */
	uint32_t notes_seen;
	/* The other end. */
	struct ur_qp peer;
	struct rig_link peer_link;
	uint32_t notes_posted;
	uint32_t notes_retired;
};

struct sim_tags {
	struct sim_world *w;
	struct sim_lane *lane;
	struct ur_srq srq;
	struct ur_cq cq;
	struct ur_cq notes_cq;
	struct rig_buf recv;
	struct rig_buf dst; /* a slot for each want */
	struct rig_buf notes;
	uint32_t slot; /* bytes of each */
	uint32_t free_recv;
	struct tags_sender sender[TAGS_SENDERS];
	uint32_t nsenders;
	struct tags_want want[TAGS_WANTS];
	uint32_t nwants;
	uint32_t planned_wants;
	/* The application's list of unexpected messages: sender, message. */
	uint32_t waiting[TAGS_SENDERS * TAGS_MSGS][2];
	uint32_t nwaiting;
	uint16_t seen;
	uint16_t told; /* reported with the last such operation */
	bool need_sync;
	/* Completions taken from the queue and not yet checked. */
	struct ur_cqe fifo[TAGS_FIFO];
	uint32_t head;
	uint32_t tail;
};

static inline bool tags_fit(const struct tags_want *r, uint64_t tag)
{
	return ((r->tag ^ tag) & r->mask) == 0;
}

/* The message has a tag, and may match. */
static inline bool tags_matchable(const struct tags_msg *m)
{
	return m->kind == TAGS_EAGER || m->kind == TAGS_RNDV;
}

static inline uint8_t *tags_at(const struct rig_buf *b, uint32_t i,
			       uint32_t slot)
{
	return b->p + (size_t)i * slot;
}

/* tags.c */
void tags_sync(struct sim_tags *t);
/* Remove it from the list; false: it was matched already. */
bool tags_delete(struct sim_tags *t, uint32_t want);
void tags_recv_sender(struct tags_sender *s, uint32_t slot);

/* tags_oracle.c */
void tags_take_queue(struct sim_tags *t);
/* By the application itself, without the list. */
void tags_take(struct sim_tags *t, uint32_t want, uint32_t sender,
	       uint32_t msg);

#endif
