/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive requests, of a queue pair and shared. */
#include <errno.h>

#include "base/barrier.h"
#include "fault/state.h"
#include "verbs/objects.h"
#include "verbs/ops.h"

static inline __attribute__((always_inline)) int
fill(const struct ur_rq *rq, struct ur_rwqe *w, const struct ibv_recv_wr *wr)
{
	uint64_t length = 0;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return EINVAL;
	if (!w)
		return ENOMEM;
	w->wr_id = wr->wr_id;
	w->num_sge = (uint32_t)wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *s = &wr->sg_list[i];

		w->sge[i] = (struct ur_sge){ s->addr, s->length, s->lkey };
		length += s->length;
	}
	w->length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
	return 0;
}

int urv_rwqe_fill(const struct ur_rq *rq, struct ur_rwqe *w,
		  const struct ibv_recv_wr *wr)
{
	return fill(rq, w, wr);
}

static int post_one(struct ur_rq *rq, const struct ibv_recv_wr *wr)
{
	int rc = fill(rq, ur_rq_stage(rq), wr);

	if (!rc)
		ur_rq_commit(rq);
	return rc;
}

int urv_post_rq(struct ur_rq *rq, struct ibv_recv_wr **wr)
{
	int rc = 0;

	ur_latch_lock(&rq->lock);
	while (*wr) {
		rc = post_one(rq, *wr);
		if (rc)
			break;
		*wr = (*wr)->next;
	}
	ur_latch_unlock(&rq->lock);
	return rc;
}

/*
 * A queue pair that goes to ERR meanwhile flushes its queue before or after
 * this post. A barrier separates our commit from our check of the state, and,
 * as a heavy one, its state change from its flush. So at least one side sees
 * the other, and no receive stays unflushed.
 */
void urv_recv_posted(struct urv_qp *qp)
{
	ur_barrier_light();
	if (atomic_load_explicit(&qp->core.state, memory_order_relaxed) ==
	    UR_QPS_ERR)
		ur_adapter_doorbell(&qp->core);
}

/* IBTA 10.8.3: none in RESET. iWARP takes them before its connection, and programs
 * with cross-channel requests post them first, as the vendor's library lets them. */
static bool takes_receives(const struct urv_qp *qp)
{
	if (qp->core.srq || !ur_qp_type_receives(qp->core.type))
		return false;
	return atomic_load_explicit(&qp->core.state, memory_order_relaxed) !=
		       UR_QPS_RESET ||
	       qp->op_type == URV_OPS_IWARP || qp->core.cross;
}

int urv_recv_state(const struct urv_qp *qp)
{
	if (qp->generation != urv_generation)
		return ENODEV;
	return takes_receives(qp) ? 0 : EINVAL;
}

int urv_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad_wr)
{
	struct urv_qp *qp = urv_qp(ibqp);
	int rc = urv_recv_state(qp);

	if (!rc)
		rc = -ur_fault_call(UR_FAULT_post_recv);
	if (!rc)
		rc = urv_post_rq(&qp->core.rq, &wr);
	if (__builtin_expect(rc, 0)) {
		ur_record_post(&qp->core, true, rc);
		*bad_wr = wr;
	}
	urv_recv_posted(qp);
	return rc;
}

int urv_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr)
{
	int rc = urv_srq(ibsrq)->generation == urv_generation ? 0 : ENODEV;

	if (!rc)
		rc = -ur_fault_call(UR_FAULT_post_srq_recv);
	if (!rc)
		rc = urv_post_rq(&urv_srq(ibsrq)->core.rq, &wr);
	if (rc)
		*bad_wr = wr;
	return rc;
}
