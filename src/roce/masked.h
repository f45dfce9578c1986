/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomics with masks on RC, by opcodes of our own (docs/wire/roce.md).  In the
 * responder they are atomics of another length, and pass through the same
 * functions.
 */
#ifndef UR_ROCE_MASKED_H
#define UR_ROCE_MASKED_H

#include "core/masked.h"
#include "roce/internal.h"

/* Bytes of the operand of an inbound atomic. */
static inline uint32_t ur_atomic_len(const struct ur_hdr *h)
{
	return ur_op_is_masked(h->op) ? h->dma_len : 8;
}

/* Responder: the peer, size, length of the packet, and alignment (IBTA 9.4.5). */
enum ur_fault ur_atomic_check(const struct ur_rqp *q, const struct ur_in *in);
/* 0; -EFAULT; -EINVAL: not aligned in our memory. */
int ur_atomic_execute(const struct ur_in *in, uint8_t *at, uint64_t old[2]);

/* The standard ones have no length. */
static inline bool ur_resource_is_masked(const struct ur_resource *x)
{
	return ur_op_is_atomic(x->kind) && x->len;
}
enum ur_emit ur_masked_answer(struct ur_rqp *q, struct ur_resource *x,
			      struct ur_burst *t);

/*
 * Requester: the old value of the atomic w in its response; returns its length, 0:
 * not a response to w.
 */
uint32_t ur_atomic_old(const struct ur_swqe *w, const struct ur_in *in,
		       uint8_t old[UR_MASKED_MAX]);

/*
 * Requester: may w, which has masks, be sent now?  If the peer does not execute
 * it, w fails as soon as it is the oldest request.  While the peer is unknown, w
 * is sent alone, and _emit sends a question in its place; _peer_known: a packet
 * has answered it.
 */
bool ur_masked_may_send(struct ur_rqp *q, const struct ur_swqe *w);
enum ur_emit ur_masked_emit(struct ur_rqp *q, struct ur_swqe *w,
			    struct ur_burst *t, uint32_t psn, bool selective);
void ur_masked_peer_known(struct ur_rqp *q, uint64_t now_ns);

#endif
