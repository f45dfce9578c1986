/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 for one lane: a pure protocol object.  No thread, clock, socket or
 * system call: time is an argument, packets come by ur_roce_input() and leave
 * by ur_roce_output(), chance is a seed, and memory, queues and keys are those
 * of core/.  The engine runs it under the lane's lock; the simulator and the
 * fuzzers run it without any.
 */
#ifndef UR_ROCE_ROCE_H
#define UR_ROCE_ROCE_H

#include <stdint.h>

#include "core/mr.h"
#include "core/packet.h"
#include "core/qp.h"
#include "core/xrc.h"
#include "roce/counters.h"
#include "roce/timewait.h"

struct ur_export;
struct ur_roce;

/*
 * XRC between processes (docs/wire/xrc.md): how a target's requests come to
 * the process whose queue they name, with all that its responder knows.  The
 * messages are opaque; `via` is the caller's name for the way to the other
 * process.  All are called under the lane's lock.
 */
struct ur_xrc_ops {
	/* Hand a loan over to the process that has the queue of that number:
	 * 0 and *via; -EAGAIN: later; -ENOENT: the domain has no such one. */
	int (*lend)(void *arg, const struct ur_qp *target, uint32_t srqn,
		    const void *msg, size_t len, uint32_t *via);
	/* Back to the lender, for ur_roce_delegation_back(). */
	void (*give_back)(void *arg, uint32_t via, uint32_t qpn,
			  const void *msg, size_t len);
	/* The target has ended or failed, for ur_roce_dismiss(). */
	void (*dismiss)(void *arg, uint32_t via, uint32_t qpn);
};

struct ur_roce_config {
	uint32_t slot;	   /* upper ten bits of our QP numbers */
	uint64_t seed;	   /* for QP numbers' order, jitter */
	uint64_t rx_bytes; /* what the link can hold for us unread */
	struct ur_mr_table *mrs;
	struct ur_srq_table *srqs; /* of XRC; NULL: there are none */
	/* A QP got its first packet in RTR; may be NULL. */
	void (*comm_est)(uint32_t qpn);
	/* A QP is connected to that slot of this host: a channel to it is
	 * wanted (shm/shm.h).  NULL: there are none. */
	void (*want_peer)(void *arg, uint16_t slot);
	void *want_arg;
	/* The link leaves payload where it is, if it stays there, and so would
	 * that of this region, if it had a mapping of ours (ur_mr_set_pin()).
	 * NULL: it copies. */
	void (*want_pin)(void *arg, uint32_t lkey);
	void *want_pin_arg;
	struct ur_export *export;     /* what such peers may do here; or NULL */
	const struct ur_xrc_ops *xrc; /* NULL: domains end here */
	void *xrc_arg;
};

int ur_roce_create(const struct ur_roce_config *cfg, struct ur_roce **out);
void ur_roce_destroy(struct ur_roce *r); /* all QPs must be gone */

/* The UDP source ports of our packets, which the ICRC covers. */
void ur_roce_set_sports(struct ur_roce *r, const struct ur_sports *sports);

/* Give qp a number and protocol state.  -ENOSPC: the lane is full. */
int ur_roce_qp_attach(struct ur_roce *r, struct ur_qp *qp);

/* Take qp out; nothing of it is sent, received or completed any more. */
void ur_roce_qp_detach(struct ur_roce *r, struct ur_qp *qp);

/* The attached one of that number, or NULL. */
struct ur_qp *ur_roce_qp_find(const struct ur_roce *r, uint32_t qpn);

/*
 * ibv_modify_qp(3): the caller has resolved address vectors
 * (ur_dev_resolve_av()) and checked device limits.  -EINVAL: transition or
 * attribute not allowed.
 */
int ur_roce_qp_modify(struct ur_roce *r, struct ur_qp *qp,
		      const struct ur_qp_attr *attr, uint32_t mask,
		      uint64_t now_ns);

/* ibv_query_qp(3): current values of everything. */
void ur_roce_qp_query(const struct ur_roce *r, const struct ur_qp *qp,
		      struct ur_qp_attr *attr);

/* Multicast: deliver group `gid` to qp.  -EINVAL, -ENOMEM; detach -EINVAL. */
int ur_roce_mcast_attach(struct ur_roce *r, struct ur_qp *qp,
			 const uint8_t gid[16]);
int ur_roce_mcast_detach(struct ur_roce *r, struct ur_qp *qp,
			 const uint8_t gid[16]);

/* Is any QP still attached to the group? */
bool ur_roce_mcast_member(const struct ur_roce *r, const uint8_t gid[16]);

/* New send requests were committed on qp->sq (or receives, after an RNR). */
void ur_roce_kick(struct ur_roce *r, struct ur_qp *qp, uint64_t now_ns);
/* Has anything left, on qp or others with the same path, that a reliable peer
 * has not answered yet? */
bool ur_roce_is_under_way(const struct ur_qp *qp);

/*
 * What ur_xrc_ops brings to the other side.  borrow: execute what was lent; a
 * failure means that the link is to be given up.  link_gone: nothing comes or
 * goes by it any more.  The lane sends afterwards.
 */
struct ur_borrow {
	uint32_t via;
	uint32_t qpn;	      /* of the target */
	struct ur_xrcd *xrcd; /* the domain here, which the link is for */
	const void *msg;
	size_t len;
};
int ur_roce_borrow(struct ur_roce *r, const struct ur_borrow *b,
		   uint64_t now_ns);
void ur_roce_delegation_back(struct ur_roce *r, uint32_t via, uint32_t qpn,
			     const void *msg, size_t len, uint64_t now_ns);
void ur_roce_dismiss(struct ur_roce *r, uint32_t via, uint32_t qpn,
		     uint64_t now_ns);
void ur_roce_link_gone(struct ur_roce *r, uint32_t via, uint64_t now_ns);

/* The four entry points (STYLE, state machines 6). */
/* A packet has come.  False: it was dropped before it reached anything. */
bool ur_roce_input(struct ur_roce *r, const struct ur_rx *rx, uint64_t now_ns);

/* Fill the next burst; false if there is nothing to send now. */
bool ur_roce_output(struct ur_roce *r, struct ur_burst *burst, uint64_t now_ns);

/*
 * What followed on the packets that came at came_ns had left by now_ns: until
 * then nobody could see them who might answer.
 */
void ur_roce_left(struct ur_roce *r, uint64_t came_ns, uint64_t now_ns);
uint64_t ur_roce_deadline(const struct ur_roce *r);
/* Has output certainly nothing to give?  Cheap. */
bool ur_roce_is_quiet(const struct ur_roce *r);
void ur_roce_expire(struct ur_roce *r, uint64_t now_ns);

/*
 * Answers that wait for a ride are due now: their QP, or the process, is about
 * to end, and what it has completed must not look lost to the peer.
 */
void ur_roce_settle(struct ur_roce *r, uint64_t now_ns);

/* At the exit of the process: the records of QPs that are gone and of those that
 * exist (timewait.h); how many, up to cap. */
uint32_t ur_roce_timewait(const struct ur_roce *r, uint64_t now_ns,
			  struct ur_timewait *out, uint32_t cap);

const struct ur_roce_counters *ur_roce_counters(const struct ur_roce *r);

/* For `urnic show`: calls fn for every attached QP. */
void ur_roce_for_each_qp(struct ur_roce *r,
			 void (*fn)(void *arg, const struct ur_qp *qp),
			 void *arg);

#endif
