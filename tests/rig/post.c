/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting work requests as the ABI layer does it. */
#include <errno.h>
#include <string.h>

#include "core/masked.h"
#include "rig/rig.h"

static uint32_t total(const struct ur_sge *sge, uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += sge[i].length;
	return sum;
}

static void wqe_data(struct ur_swqe *w, const struct rig_wr *wr)
{
	uint8_t *to = w->data.inline_data;
	struct ur_sge *sge = w->data.sge;

	w->length = total(wr->sge, wr->nsge);
	w->num_sge = 0;
	if (!(wr->flags & UR_SEND_INLINE)) {
		w->num_sge = (uint16_t)wr->nsge;
		for (uint32_t i = 0; i < wr->nsge; i++)
			sge[i] = wr->sge[i];
		return;
	}
	for (uint32_t i = 0; i < wr->nsge; i++) {
		if (wr->sge[i].length)
			memcpy(to, (void *)(uintptr_t)wr->sge[i].addr,
			       wr->sge[i].length);
		to += wr->sge[i].length;
	}
}

static void wqe_remote(struct ur_swqe *w, const struct rig_wr *wr, bool ud)
{
	if (ud) {
		w->wr.ud.av = *wr->av;
		w->wr.ud.dqpn = wr->dqpn;
		w->wr.ud.qkey = wr->qkey;
		return;
	}
	if (wr->opcode == UR_WR_BIND_MW) {
		if (wr->bind)
			w->wr.bind = *wr->bind;
		return;
	}
	w->wr.rdma.srqn = wr->srqn;
	if (ur_swqe_is_atomic(w)) {
		w->wr.atomic.remote_addr = wr->remote_addr;
		w->wr.atomic.rkey = wr->rkey;
		w->wr.atomic.compare_add = wr->compare_add;
		w->wr.atomic.swap = wr->swap;
	} else {
		w->wr.rdma.remote_addr = wr->remote_addr;
		w->wr.rdma.rkey = wr->rkey;
	}
	if (wr->opcode == UR_WR_FLUSH) {
		w->num_sge = 0;
		w->wr.flush.placement = wr->placement;
		w->wr.flush.level = wr->level;
	}
}

int rig_post_send(struct ur_qp *qp, const struct rig_wr *wr)
{
	struct ur_swqe *w;

	ur_latch_lock(&qp->sq.lock);
	w = ur_sq_stage(&qp->sq);
	if (w) {
		w->wr_id = wr->wr_id;
		w->opcode = wr->opcode;
		w->flags = wr->flags;
		w->imm_be = wr->imm_be;
		if (qp->sq_sig_all)
			w->flags |= UR_SEND_SIGNALED;
		wqe_data(w, wr);
		wqe_remote(w, wr, qp->type == UR_QPT_UD);
		if (ur_swqe_is_masked(w))
			*ur_swqe_masked(&qp->sq, w) = *wr->masked;
		if (qp->dc)
			*ur_qp_dc_target(qp, qp->sq.staged - 1) = *wr->dc;
		ur_sq_commit(&qp->sq);
	}
	ur_latch_unlock(&qp->sq.lock);
	return w ? 0 : -ENOMEM;
}

int rig_post_recv(struct ur_rq *rq, uint64_t wr_id, const struct ur_sge *sge,
		  uint32_t nsge)
{
	struct ur_rwqe *w;

	ur_latch_lock(&rq->lock);
	w = ur_rq_stage(rq);
	if (w) {
		w->wr_id = wr_id;
		w->num_sge = nsge;
		w->length = total(sge, nsge);
		for (uint32_t i = 0; i < nsge; i++)
			w->sge[i] = sge[i];
		ur_rq_commit(rq);
	}
	ur_latch_unlock(&rq->lock);
	return w ? 0 : -ENOMEM;
}
