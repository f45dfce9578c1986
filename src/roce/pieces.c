/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The payload of a packet from memory in many pieces (core/umr.h). A burst has
 * room for UR_MAX_SGE pieces of a packet; more of them are copied into one.
 */
#include <errno.h>
#include <stdlib.h>

#include "roce/internal.h"

/* Room for the payload of a packet, which is copied into the burst before the
 * next one is made. */
static uint8_t *scratch(struct ur_roce *r)
{
	if (!r->scratch)
		r->scratch = malloc(UR_BURST_BYTES);
	return r->scratch;
}

int ur_req_pieces(struct ur_rqp *q, const struct ur_swqe *w, uint32_t off,
		  uint32_t len, struct iovec *iov, bool *stable)
{
	int n = ur_sge_gather(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge,
			      off, len, iov, UR_MAX_SGE);
	int err;

	if (n != -E2BIG)
		return n;
	*stable = false;
	iov[0] = (struct iovec){ scratch(q->r), len };
	if (!iov[0].iov_base)
		return -ENOMEM;
	err = ur_sge_collect(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge,
			     off, iov[0].iov_base, len);
	return err ? err : 1;
}

int ur_resp_pieces(struct ur_rqp *q, const struct ur_resource *x, uint32_t off,
		   uint32_t len, struct iovec *iov)
{
	struct ur_mr_ref m = { .t = q->qp->mrs,
			       .pd = ur_resp_pd(q, x->srqn),
			       .qp = q->qp,
			       .key = x->rkey,
			       .va = x->va + off };
	int n = ur_mr_pieces(&m, len, UR_ACCESS_REMOTE_READ, iov, UR_MAX_SGE);
	int err;

	if (n != -E2BIG)
		return n;
	iov[0] = (struct iovec){ scratch(q->r), len };
	if (!iov[0].iov_base)
		return -ENOMEM;
	err = ur_mr_get(&m, iov[0].iov_base, len);
	return err ? err : 1;
}

int ur_resp_put(struct ur_rqp *q, uint32_t rkey, uint64_t va, const void *from,
		uint32_t len)
{
	const struct ur_mr_ref m = { .t = q->qp->mrs,
				     .pd = ur_resp_pd(q, q->rsp.srqn),
				     .qp = q->qp,
				     .key = rkey,
				     .va = va };

	return ur_mr_put(&m, from, len);
}
