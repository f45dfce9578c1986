/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 for one lane: a pure protocol object. No thread, clock, socket or
 * system call: time is an argument, packets enter by ur_roce_input() and leave
 * by ur_roce_output(), randomness comes from a seed, and memory, queues and
 * keys are those of core/. The engine runs it under the lane's lock; the
 * simulator and the fuzzers run it without any.
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
 * XRC between processes (docs/wire/xrc.md): delegates a target's requests, with
 * the responder's state, to the process that has the queue they name. Messages
 * are opaque; `via` is the caller's identifier of the link to the other
 * process. All are called under the lane's lock.
 */
struct ur_xrc_ops {
	/* Send a delegation to the process that has the queue of that number: 0
	 * and *via; -EAGAIN: later; -ENOENT: no such queue in the domain. */
	int (*delegate)(void *arg, const struct ur_qp *target, uint32_t srqn,
			const void *msg, size_t len, uint32_t *via);
	/* Return the state to the owner, for ur_roce_delegation_returned(). */
	void (*return_state)(void *arg, uint32_t via, uint32_t qpn,
			     const void *msg, size_t len);
	/* The target has ended or failed, for ur_roce_dismiss(). */
	void (*dismiss)(void *arg, uint32_t via, uint32_t qpn);
};

struct ur_roce_config {
	uint32_t slot;	   /* upper ten bits of our QP numbers */
	uint64_t seed;	   /* for the order of QP numbers, and jitter */
	uint64_t rx_bytes; /* receive buffer of the link */
	/* Packets that the link has lost for want of room in it, a counter that
	 * lives as long as the lane; NULL: unknown. */
	const uint64_t *rx_overflow;
	/* Bursts that the link has fragmented, since the interface's MTU has become
	 * smaller; NULL: it cannot, so no packet exceeds the path MTU. */
	const uint64_t *fragmented;
	struct ur_mr_table *mrs;
	struct ur_srq_table *srqs; /* XRC queues; NULL: none */
	/* A QP got its first packet in RTR; may be NULL. */
	void (*comm_est)(uint32_t qpn);
	/* A QP is connected to that slot of this host: requests a channel to it
	 * (shm/shm.h). NULL: no shared memory. */
	void (*want_peer)(void *arg, uint16_t slot);
	void *want_arg;
	/* Objects that local peers may access; or NULL. */
	struct ur_export *export;
	const struct ur_xrc_ops *xrc; /* NULL: XRC domains are local */
	void *xrc_arg;
};

int ur_roce_create(const struct ur_roce_config *cfg, struct ur_roce **out);
void ur_roce_destroy(struct ur_roce *r); /* all QPs must be gone */

/* Our own address of a packet of which rx has none; false: unknown. */
bool ur_roce_destination(const struct ur_roce *r, const struct ur_rx *rx,
			 uint8_t dst[16]);

/* The UDP source ports of our packets; the ICRC covers them. */
void ur_roce_set_sports(struct ur_roce *r, const struct ur_sports *sports);

/* Assign a number and protocol state. -ENOSPC: the lane is full. */
int ur_roce_qp_attach(struct ur_roce *r, struct ur_qp *qp);

/* Detach qp; nothing of it is sent, received or completed any more. */
void ur_roce_qp_detach(struct ur_roce *r, struct ur_qp *qp);

/* The attached QP of that number, or NULL. */
struct ur_qp *ur_roce_qp_find(const struct ur_roce *r, uint32_t qpn);

/*
 * ibv_modify_qp(3): the caller has resolved address vectors
 * (ur_dev_resolve_av()) and checked device limits.  -EINVAL: transition or
 * attribute not allowed.
 */
int ur_roce_qp_modify(struct ur_roce *r, struct ur_qp *qp,
		      const struct ur_qp_attr *attr, uint32_t mask,
		      uint64_t now_ns);

/*
 * RC, whenever its path was set: packets may be as long as an interface MTU of that
 * many bytes permits, if the peer agrees (docs/wire/roce.md, "Full packets").
 */
void ur_roce_qp_fill(struct ur_qp *qp, uint32_t mtu);

/* ibv_query_qp(3): current values of everything. */
void ur_roce_qp_query(const struct ur_roce *r, const struct ur_qp *qp,
		      struct ur_qp_attr *attr);

/* Multicast: deliver group `gid` to qp.  -EINVAL, -ENOMEM; detach -EINVAL. */
int ur_roce_mcast_attach(struct ur_roce *r, struct ur_qp *qp,
			 const uint8_t gid[16]);
int ur_roce_mcast_detach(struct ur_roce *r, struct ur_qp *qp,
			 const uint8_t gid[16]);

/* Is any QP attached to the group? */
bool ur_roce_mcast_has(struct ur_roce *r, const uint8_t gid[16]);
/* A group that the QP is attached to; false: none. */
bool ur_roce_mcast_of(const struct ur_roce *r, struct ur_qp *qp,
		      uint8_t gid[16]);

/*
 * The next request of the QP goes over to shared memory and could overtake an
 * acknowledgement of the QP that still waits: send that first
 * (ur_roce_flush_acks()).  A program with one channel for both completion queues
 * relies on their order.
 */
bool ur_roce_leaves_wire(const struct ur_qp *qp);

/* New send requests were committed on qp->sq (or receives, after an RNR). */
void ur_roce_kick(struct ur_roce *r, struct ur_qp *qp, uint64_t now_ns);
/* Is any packet of a reliable QP unacknowledged, of qp or of others with the
 * same path? */
bool ur_roce_is_under_way(const struct ur_qp *qp);

/*
 * The delegate's side of ur_xrc_ops. _accept_delegation: executes a delegation;
 * on failure the caller closes the link. _link_gone: the link is closed. The
 * lane sends afterwards.
 */
struct ur_delegated {
	uint32_t via;
	uint32_t qpn;	      /* the target's */
	struct ur_xrcd *xrcd; /* our domain object of the link */
	const void *msg;
	size_t len;
};
int ur_roce_accept_delegation(struct ur_roce *r, const struct ur_delegated *b,
			      uint64_t now_ns);
void ur_roce_delegation_returned(struct ur_roce *r, uint32_t via, uint32_t qpn,
				 const void *msg, size_t len, uint64_t now_ns);
void ur_roce_dismiss(struct ur_roce *r, uint32_t via, uint32_t qpn,
		     uint64_t now_ns);
void ur_roce_link_gone(struct ur_roce *r, uint32_t via, uint64_t now_ns);

/* The four entry points. */
/* A packet has arrived. False: it was dropped before it changed anything. */
bool ur_roce_input(struct ur_roce *r, const struct ur_rx *rx, uint64_t now_ns);

/* Fill the next burst; false if there is nothing to send now. */
bool ur_roce_output(struct ur_roce *r, struct ur_burst *burst, uint64_t now_ns);

/*
 * The threads that answer sleep until a packet comes, so that an answer takes
 * longer and an acknowledgement is worth more: alone it wakes a peer that has
 * nothing to do yet.
 */
void ur_roce_answers_late(struct ur_roce *r, bool late);

/* A thread that looks every 4 ms runs the timers: an earlier one has to wake it. */
void ur_roce_timers_late(struct ur_roce *r, bool late);

/*
 * So many threads wait for each processor of this host: peers on it answer later,
 * and ack timeouts are longer by that factor, up to UR_ROCE_LOAD_MAX.
 */
#define UR_ROCE_LOAD_MAX 4u /* IBTA C9-141 */
void ur_roce_set_load(struct ur_roce *r, uint32_t load);

/* Everything sent in reaction to the packets that arrived at arrived_ns had left
 * by now_ns: the application could not see and answer them before. */
void ur_roce_replies_sent(struct ur_roce *r, uint64_t arrived_ns,
			  uint64_t now_ns);
uint64_t ur_roce_deadline(const struct ur_roce *r);
/* Without acknowledgements that wait for an answer (ur_roce_flush_acks()). */
uint64_t ur_roce_timers(const struct ur_roce *r);
/* Does output certainly have nothing to send? Cheap. */
bool ur_roce_is_quiet(const struct ur_roce *r);
void ur_roce_expire(struct ur_roce *r, uint64_t now_ns);

/*
 * Send acknowledgements that wait for a packet to piggyback on: their QP, or
 * the process, is about to end, and completed messages must not look lost to
 * the peer.
 */
void ur_roce_flush_acks(struct ur_roce *r, uint64_t now_ns);

/* At the exit of the process: the records of QPs that are gone and of those that
 * exist (timewait.h); how many, up to cap. */
uint32_t ur_roce_timewait(const struct ur_roce *r, uint64_t now_ns,
			  struct ur_timewait *out, uint32_t cap);

const struct ur_roce_counters *ur_roce_counters(const struct ur_roce *r);

/* For `urnic show`: calls fn for every attached QP. */
void ur_roce_for_each_qp(struct ur_roce *r,
			 void (*fn)(void *arg, const struct ur_qp *qp),
			 void *arg);

/* Defined by shm/: signal peers that sleep and have received descriptors. */
void ur_shm_signal(struct ur_roce *r);

#endif
