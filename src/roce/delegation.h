/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC between processes (docs/wire/xrc.md). Packets of a target arrive in the
 * process that created it, its owner. Requests for a queue of another process
 * are delegated: the owner sends them with the responder's state, the delegate
 * executes and answers them, and the state returns. A target is delegated to
 * one process at a time, and packets that come meanwhile are held. It is
 * neither delegated nor returned before all responses have left. So the process
 * that has the state is the only responder, and the peer sees the order of one.
 *
 * Both processes belong to one user, but neither trusts the other: messages are
 * decoded and checked like a peer's packets.
 */
#ifndef UR_ROCE_DELEGATION_H
#define UR_ROCE_DELEGATION_H

#include "roce/internal.h"

#define UR_DELEGATION_PKTS     32u    /* per delegation */
#define UR_DELEGATION_BYTES    61440u /* total length of its packets */
#define UR_HELD_PKTS	       256u   /* held per target; more are dropped */
#define UR_DELEGATION_PKT      4200u /* the longest packet: MTU 4096 and headers */
#define UR_DELEGATION_AGAIN_NS 200000u

/* A packet held until the state returns. */
struct ur_held {
	struct ur_list node;
	uint32_t srqn;
	uint32_t len;
	uint8_t data[];
};

/* The owner's record of a target whose domain other processes share. */
struct ur_delegation {
	struct ur_rqp *q;
	struct ur_list node; /* in ur_roce.delegations */
	/* In ur_roce.pending_delegations: packets are held. */
	struct ur_list pending;
	struct ur_list held; /* ur_held, in the order of arrival */
	uint32_t count;
	bool out;
	uint32_t seq; /* of the delegation */
	/* Link to the process that has the state, or had it last. */
	uint32_t via;
	bool under_way; /* a receive of that process is in use */
};

/* The delegate's record, while it has the state or a receive in use. */
struct ur_delegate {
	struct ur_list node; /* in ur_roce.delegates */
	struct ur_list done; /* in ur_roce.finished: state to be returned */
	uint32_t via;
	uint32_t qpn; /* the target's */
	uint32_t seq;
	int event; /* raised by a failure; -1: none */
	struct ur_qp qp;
};

/* Attributes of the target that the delegate needs. */
struct ur_delegation_terms {
	uint32_t seq;
	struct ur_path_key path;
	uint32_t dest_qpn;
	uint32_t access;
	uint32_t mtu; /* path MTU code */
	uint32_t resources;
	uint8_t min_rnr_timer;
};

/* The result of a delegation. */
struct ur_delegation_end {
	uint32_t seq;
	bool failed;	/* the target has to fail */
	int event;	/* event of the failure; -1: none */
	bool under_way; /* a receive of the delegate stays in use */
};

struct ur_rd;
struct ur_wr;

/* delegation_state.c. get: false, and nothing is changed, if it is invalid. */
void ur_delegation_put_state(struct ur_wr *w, const struct ur_responder *p);
bool ur_delegation_get_state(struct ur_rd *r, struct ur_rqp *q);
void ur_delegation_put_terms(struct ur_wr *w,
			     const struct ur_delegation_terms *t);
bool ur_delegation_get_terms(struct ur_rd *r, struct ur_delegation_terms *t);
void ur_delegation_put_end(struct ur_wr *w, const struct ur_delegation_end *e);
bool ur_delegation_get_end(struct ur_rd *r, struct ur_delegation_end *e);

/* Have all accepted requests been answered? */
bool ur_delegation_is_settled(const struct ur_rqp *q);
/* Executes a held or returned request in our own responder. */
void ur_delegation_execute(struct ur_rqp *q, const void *pkt, uint32_t len,
			   uint64_t now_ns);

/* delegate.c */
void ur_delegates_return(struct ur_roce *r);
void ur_delegates_gone(struct ur_roce *r, uint32_t via);

#endif
