/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC (IBTA annex A14) is RC in two halves. An initiator is its requester, a
 * target its responder, which serves many shared receive queues: each request
 * names one. The target has no protection domain: remote keys belong to that of
 * the queue, and so do local keys of the receives taken from it.
 */
#include "roce/internal.h"

/* Looked up for each packet: the queue may have been destroyed. */
struct ur_srq *ur_xrc_srq(const struct ur_rqp *q, uint32_t srqn)
{
	return q->r->srqs ? ur_srq_lookup(q->r->srqs, srqn, q->qp->xrcd) : NULL;
}
