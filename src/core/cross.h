/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cross-channel queue pairs: requests that wait for completions of other queues
 * (CQE_WAIT) and that enable requests of other queues (SEND_ENABLE,
 * RECV_ENABLE), managed queues, and calculations on SENDs and WRITEs.
 *
 * The protocols know none of them. A poster of such a queue does not advance
 * sq.tail, which the protocols read, but sq.posted. ur_cross_run() passes the
 * requests in between, in order: a CQE_WAIT when the CQ has had the
 * completions, a request of a managed queue when it is enabled, a calculation
 * when its operands have been read. Then it advances sq.tail. What it has passed
 * is an ordinary request: a wait or an enabling has become a NOP, which
 * completes in order, and a calculation a SEND or WRITE with inline data. A
 * managed receive queue in the same manner shows its consumer rq.tail, at most
 * as far as it is enabled.
 *
 * A CQ lists the queue pairs that wait for it, under its lock, and reports each
 * by ur_cross.wake() when it has had the completions.
 */
#ifndef UR_CORE_CROSS_H
#define UR_CORE_CROSS_H

#include "base/lock.h"
#include "core/calc.h"
#include "core/qp.h"

/* Opcodes of ur_swqe before ur_cross_run() has passed it; they begin after
 * those of enum ur_wr_opcode. */
enum ur_cross_opcode {
	UR_CROSS_WAIT = 0x60,
	UR_CROSS_SEND_ENABLE,
	UR_CROSS_RECV_ENABLE,
	UR_CROSS_CALC,
};

enum ur_cross_flags {
	UR_CROSS_MASTER = 1 << 0, /* takes the requests above */
	UR_CROSS_MANAGED_SEND = 1 << 1,
	UR_CROSS_MANAGED_RECV = 1 << 2,
};

/*
 * The queue pair may go on: have the holder of its lane's lock call
 * ur_cross_run() and the requester. Called under any lock but the queue pair's
 * receive queue's; `held`: the caller holds the lock of this lane; or NULL.
 */
typedef void ur_cross_wake(struct ur_qp *qp, const struct ur_lane *held);

struct ur_cross {
	/* The queue pair's and one of each request that enables it */
	_Atomic uint32_t refs;
	struct ur_lock lock;	  /* lane > it > qp.rq; guards the next */
	struct ur_qp *qp;	  /* NULL: destroyed */
	uint32_t flags;		  /* UR_CROSS_; constant */
	ur_cross_wake *wake;	  /* constant */
	_Atomic uint32_t enabled; /* managed: sends before this may start */
	/* The lane's: */
	uint32_t next; /* first request not passed */
	bool fenced;   /* it waits until all before it are complete */
	bool ended;    /* being destroyed */
	/* The CQ that it waits for; NULL: none. Set and cleared by the lane;
	 * the node is under the CQ's lock. */
	struct ur_cq *waits_for;
	uint64_t until; /* the completions that it must have had */
	struct ur_list node;
};

/*
 * Before the queue pair is used: makes it one of those. 0, -ENOMEM; -EINVAL: it
 * has tag matching, or MANAGED_RECV and no receive queue of its own.
 */
int ur_cross_create(struct ur_qp *qp, uint32_t flags, ur_cross_wake *wake);

/* Under the lane's lock, before the lane gives it up: what can be passed has
 * been, it waits for no CQ, and nothing enables it any more. */
void ur_cross_end(struct ur_qp *qp);

/* After that, when no thread knows the queue pair. */
void ur_cross_destroy(struct ur_qp *qp);

/* Under the lane's lock. */
void ur_cross_run(struct ur_qp *qp);

/* Under the lane's lock: the queue pair is in ERR. All requests are visible to
 * the protocol, which flushes them. */
void ur_cross_error(struct ur_qp *qp);

/* Under the lane's lock, for ur_qp_clear(): what was posted refers to nothing
 * and is visible, and what is posted from now on is not enabled. */
void ur_cross_clear(struct ur_qp *qp);

/* For ur_cq_push(), under the CQ's lock: it has got cqe. */
void ur_cross_reached(struct ur_cq *cq, const struct ur_cqe *cqe);

/* Drop what a posted request refers to: it is not executed. */
void ur_cross_drop(struct ur_swqe *w);

/* A new request refers to the CQ, which cannot be destroyed then, or to the
 * queue pair. */
void ur_cross_hold_cq(struct ur_cq *cq);
struct ur_cross *ur_cross_hold(struct ur_cross *c);

#endif
