/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC between processes (docs/wire/xrc.md).  Packets of a target come to the
 * process that has made it, its home.  Requests for a queue of another process
 * are lent there: the state of the responder goes along, its guest executes
 * and answers them, and the state comes back.  A target is lent to one process
 * at a time, and what comes meanwhile is held; it is not lent, and not given
 * back, before all answers have left.  So whoever has the state is the
 * responder, and the order of what the peer sees is that of one.
 *
 * Both sides belong to one user, but neither believes the other: what comes is
 * decoded and checked like a peer's packets.
 */
#ifndef UR_ROCE_DELEGATION_H
#define UR_ROCE_DELEGATION_H

#include "roce/internal.h"

#define UR_DELEGATION_PKTS     32u    /* of one loan */
#define UR_DELEGATION_BYTES    61440u /* of its packets */
#define UR_HELD_PKTS	       256u /* of a target, that wait; more are dropped */
#define UR_DELEGATION_PKT      4200u /* the longest packet: MTU 4096 and headers */
#define UR_DELEGATION_AGAIN_NS 200000u

/* A packet that waits for its turn. */
struct ur_held {
	struct ur_list node;
	uint32_t srqn;
	uint32_t len;
	uint8_t data[];
};

/* What a home keeps of a target whose domain other processes share. */
struct ur_delegation {
	struct ur_rqp *q;
	struct ur_list node;	/* of ur_roce.lenders */
	struct ur_list pending; /* of ur_roce.loans: something is held */
	struct ur_list held;	/* ur_held, in the order they came in */
	uint32_t count;
	bool out;
	uint32_t seq;	/* of the loan */
	uint32_t via;	/* the link to the process that has, or had it */
	bool under_way; /* a receive of that process is in use */
};

/* What the other side keeps while it has the state or a receive in use. */
struct ur_delegate {
	struct ur_list node; /* of ur_roce.guests */
	struct ur_list done; /* of ur_roce.returns: to be given back */
	uint32_t via;
	uint32_t qpn; /* of the target */
	uint32_t seq;
	int event; /* that a failure has raised; -1: none */
	struct ur_qp qp;
};

/* What of the target the other side has to know. */
struct ur_delegation_terms {
	uint32_t seq;
	struct ur_path_key path;
	uint32_t dest_qpn;
	uint32_t access;
	uint32_t mtu; /* code */
	uint32_t resources;
	uint8_t min_rnr_timer;
};

/* How a loan has ended. */
struct ur_delegation_end {
	uint32_t seq;
	bool failed;	/* the target has to fail … */
	int event;	/* … with this event; -1: none */
	bool under_way; /* a receive stays with the other side */
};

struct ur_rd;
struct ur_wr;

/* delegation_state.c.  get: false, and nothing is changed, if it makes no sense. */
void ur_delegation_put_state(struct ur_wr *w, const struct ur_responder *p);
bool ur_delegation_get_state(struct ur_rd *r, struct ur_rqp *q);
void ur_delegation_put_terms(struct ur_wr *w,
			     const struct ur_delegation_terms *t);
bool ur_delegation_get_terms(struct ur_rd *r, struct ur_delegation_terms *t);
void ur_delegation_put_end(struct ur_wr *w, const struct ur_delegation_end *e);
bool ur_delegation_get_end(struct ur_rd *r, struct ur_delegation_end *e);

/* Has all been answered that has come? */
bool ur_delegation_is_settled(const struct ur_rqp *q);
/* A request that was held, or lent, by our own responder. */
void ur_delegation_execute(struct ur_rqp *q, const void *pkt, uint32_t len,
			   uint64_t now_ns);

/* guest.c */
void ur_delegates_return(struct ur_roce *r);
void ur_delegates_gone(struct ur_roce *r, uint32_t via);

#endif
