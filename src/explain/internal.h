/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_EXPLAIN_INTERNAL_H
#define UR_EXPLAIN_INTERNAL_H

#include "explain/explain.h"

/* A queue pair as it was read. */
struct ur_xp_qp {
	uint32_t process; /* index in the set */
	struct ur_record_qp qp;
	uint32_t n;
	struct ur_record_event event[UR_RECORD_EVENTS]; /* oldest first */
};

/* Everything that conditions and texts look at. */
struct ur_xp {
	const struct ur_xp_set *set;
	struct ur_xp_qp own;
	struct ur_xp_qp peer;
	bool has_peer;
	bool peer_here;		     /* its address is one of this host's */
	struct ur_record_event e;    /* the evidence */
	bool of_peer;		     /* it is from the peer's ring */
	struct ur_record_event seen; /* the own completion; number 0: none */
	struct ur_record_key key; /* of the evidence's process; key 0: none */
	uint32_t key_process;
	bool delegated; /* own is a target of XRC: its delegate has a fault */
};

enum ur_condition {
	UR_C_NONE,
	UR_C_KEY_ZERO,
	UR_C_KEY_GONE,	  /* it was deregistered */
	UR_C_KEY_CHANGED, /* it was re-registered, and fitted before */
	UR_C_KEY_UNBOUND,
	UR_C_KEY_ELSEWHERE, /* it was of another process or device */
	UR_C_BEFORE_START,
	UR_C_BEYOND_END,
	UR_C_ZERO_BASED,
	UR_C_NEED_WRITE,
	UR_C_NEED_READ,
	UR_C_NEED_ATOMIC,
	UR_C_NO_READS, /* none was agreed */
	UR_C_PEER_GONE,
	UR_C_PEER_ENDED,
	UR_C_NO_TARGET,	 /* DC: no such target on this host */
	UR_C_PEER_EARLY, /* not in RTR yet */
	UR_C_PEER_ERR,
	UR_C_PEER_OTHER, /* connected to another queue pair */
	UR_C_PEER_NONE,	 /* no such queue pair on this host */
	UR_C_PEER_PSN,
	UR_C_PEER_STUCK,	 /* here, right, and does not answer */
	UR_C_SESSION_UNANSWERED, /* DC: nothing of the session was */
	UR_C_NEVER_ANSWERED,
	UR_C_SRQ,
	UR_C_RNR_ENDLESS,
	UR_C_RNR_SENT,
	UR_C_STATE_RESET,
	UR_C_STATE_EARLY,
	UR_C_DISCONNECTED,
	UR_C_DELEGATED,	 /* XRC: another process has refused the request */
	UR_C_NOT_CALLED, /* the process has not changed the state itself */
	UR_C_COUNT,
};

bool ur_condition_holds(enum ur_condition c, const struct ur_xp *x);

/* The peer's state at the evidence; of a stall, the last. */
uint8_t ur_xp_peer_state(const struct ur_xp *x);
/* Nothing that this queue pair has sent was acknowledged, and the peer did not
 * expect its first PSN. */
bool ur_xp_psn_differs(const struct ur_xp *x);

/* The first cause that the evidence fits; NULL: none. */
const struct ur_cause *ur_cause_find(const struct ur_xp *x);

/* The evidence's queue pair. */
static inline const struct ur_xp_qp *ur_xp_at(const struct ur_xp *x)
{
	return x->of_peer ? &x->peer : &x->own;
}

/* Index of the first event since the queue pair was last in RESET or INIT. */
uint32_t ur_xp_life(const struct ur_xp_qp *q);

/* The last event of that kind about a connection of the queue pair. */
bool ur_xp_note_of(const struct ur_xp_process *p, uint32_t qpn,
		   enum ur_record_cm what, struct ur_record_event *out);

/* text.c */
struct ur_text {
	char *at;
	size_t size;
};
void ur_text(struct ur_text *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static inline struct ur_text ur_text_in(char to[UR_XP_TEXT])
{
	to[0] = 0;
	return (struct ur_text){ to, UR_XP_TEXT };
}
void ur_text_ago(struct ur_text *t, uint64_t then_ns, uint64_t now_ns);
void ur_text_access(struct ur_text *t, uint32_t access);
const char *ur_text_status(uint8_t status);
const char *ur_text_wr(uint64_t opcode);
const char *ur_text_state(uint64_t state);
/* what, why, expected, found, before and change of the verdict. */
void ur_xp_words(const struct ur_xp *x, struct ur_verdict *v);

#endif
