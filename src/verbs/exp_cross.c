/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting of waits, enablings and calculations. */
#include <errno.h>

#include "core/cross.h"
#include "core/xrc.h"
#include "verbs/cross.h"
#include "verbs/send.h"

#define CONTROL_FLAGS                                                          \
	((uint64_t)(IBV_SEND_FENCE | IBV_SEND_SIGNALED) |                      \
	 IBV_EXP_SEND_WAIT_EN_LAST)
#define CALC_FLAGS                                                             \
	((uint64_t)(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED) | \
	 IBV_EXP_SEND_WITH_CALC)

bool urv_is_cross(const struct ibv_exp_send_wr *x)
{
	return x->exp_opcode == IBV_EXP_WR_CQE_WAIT ||
	       x->exp_opcode == IBV_EXP_WR_SEND_ENABLE ||
	       x->exp_opcode == IBV_EXP_WR_RECV_ENABLE ||
	       x->exp_send_flags & IBV_EXP_SEND_WITH_CALC;
}

/* --- counts; under the context's cross_lock --- */

static void save(struct urv_count *k, struct urv_tasks *tasks)
{
	if (!tasks || k->saved)
		return;
	k->saved = true;
	k->old_base = k->base;
	k->old_pending = k->pending;
	k->next_saved = tasks->changed;
	tasks->changed = k;
}

void urv_cross_end_counts(struct urv_tasks *tasks, bool restore)
{
	struct urv_count *k = tasks->changed;

	for (; k; k = k->next_saved) {
		k->saved = false;
		if (!restore)
			continue;
		k->base = k->old_base;
		k->pending = k->old_pending;
	}
	tasks->changed = NULL;
}

/* What the request waits for or enables. */
static uint64_t advance(struct urv_count *k, uint32_t count, bool last,
			struct urv_tasks *tasks)
{
	uint64_t until = k->base + count;

	save(k, tasks);
	if (count > k->pending)
		k->pending = count;
	if (last) {
		k->base += k->pending;
		k->pending = 0;
	}
	return until;
}

void urv_cross_reset(struct urv_qp *qp)
{
	struct urv_context *c = urv_context(qp->ibv.context);

	ur_lock(&c->cross_lock);
	qp->sends = (struct urv_count){ .base = ur_sq_posted(&qp->core.sq) };
	qp->receives = (struct urv_count){ .base = ur_rq_posted(&qp->core.rq) };
	ur_unlock(&c->cross_lock);
}

/* --- requests --- */

static int fill_wait(struct urv_qp *qp, struct ur_swqe *w,
		     const struct ibv_exp_send_wr *x, struct urv_tasks *tasks)
{
	struct ibv_cq *ibcq = x->task.cqe_wait.cq;
	struct urv_cq *cq = ibcq ? urv_cq(ibcq) : NULL;

	if (!cq || ibcq->context != qp->ibv.context ||
	    x->task.cqe_wait.cq_count < 0)
		return EINVAL;
	w->opcode = UR_CROSS_WAIT;
	w->wr.wait.cq = &cq->core;
	w->wr.wait.until =
		advance(&cq->waits, (uint32_t)x->task.cqe_wait.cq_count,
			x->exp_send_flags & IBV_EXP_SEND_WAIT_EN_LAST, tasks);
	ur_cross_hold_cq(&cq->core);
	return 0;
}

/* One past the newest request that is posted, or was by an earlier task. */
static uint32_t accepted(struct urv_qp *of, const struct urv_qp *by, bool sends,
			 const struct urv_tasks *tasks)
{
	const struct urv_task_queue *e;

	if (tasks) {
		e = urv_tasks_find(tasks, sends ? &of->core.sq.lock
						: &of->core.rq.lock);
		if (e)
			return sends ? e->sq->staged : e->staged;
	}
	if (sends && of == by)
		return of->core.sq.staged;
	return sends ? ur_sq_posted(&of->core.sq) : ur_rq_posted(&of->core.rq);
}

static int fill_enable(struct urv_qp *qp, struct ur_swqe *w,
		       const struct ibv_exp_send_wr *x, struct urv_tasks *tasks)
{
	bool sends = x->exp_opcode == IBV_EXP_WR_SEND_ENABLE;
	uint32_t managed =
		sends ? UR_CROSS_MANAGED_SEND : UR_CROSS_MANAGED_RECV;
	int32_t count = x->task.wqe_enable.wqe_count;
	struct ibv_qp *ibqp = x->task.wqe_enable.qp;
	struct urv_qp *of = ibqp ? urv_qp(ibqp) : NULL;
	struct urv_count *k;
	uint32_t base, end, until;

	if (!of || ibqp->context != qp->ibv.context || count < 0 ||
	    !of->core.cross || !(of->core.cross->flags & managed))
		return EINVAL;
	k = sends ? &of->sends : &of->receives;
	end = accepted(of, qp, sends, tasks);
	base = (uint32_t)k->base;
	until = count ? base + (uint32_t)count : end;
	if ((int32_t)(end - until) < 0)
		return EINVAL;
	(void)advance(k, until - base,
		      x->exp_send_flags & IBV_EXP_SEND_WAIT_EN_LAST, tasks);
	w->opcode = sends ? UR_CROSS_SEND_ENABLE : UR_CROSS_RECV_ENABLE;
	w->wr.enable.of = ur_cross_hold(of->core.cross);
	w->wr.enable.until = until;
	return 0;
}

/* EOPNOTSUPP: the release has it for these types. */
static int check_operation(const struct ibv_exp_send_wr *x)
{
	switch (x->op.calc.calc_op) {
	case IBV_EXP_CALC_OP_ADD:
	case IBV_EXP_CALC_OP_BAND:
	case IBV_EXP_CALC_OP_BXOR:
	case IBV_EXP_CALC_OP_BOR:
		return 0;
	case IBV_EXP_CALC_OP_MAXLOC:
		return x->op.calc.data_type == IBV_EXP_CALC_DATA_TYPE_UINT
			       ? EOPNOTSUPP
			       : EINVAL;
	case IBV_EXP_CALC_OP_NUMBER:
		break;
	}
	return EINVAL;
}

static int check_calc(const struct ibv_exp_send_wr *x)
{
	if ((x->exp_opcode != IBV_EXP_WR_SEND &&
	     x->exp_opcode != IBV_EXP_WR_RDMA_WRITE &&
	     x->exp_opcode != IBV_EXP_WR_RDMA_WRITE_WITH_IMM) ||
	    x->num_sge < 1 ||
	    (unsigned int)x->op.calc.data_type >=
		    IBV_EXP_CALC_DATA_TYPE_NUMBER ||
	    x->op.calc.data_size != IBV_EXP_CALC_DATA_SIZE_64_BIT)
		return EINVAL;
	for (int i = 0; i < x->num_sge; i++)
		if (x->sg_list[i].length != UR_CALC_BYTES)
			return EINVAL;
	return check_operation(x);
}

static int fill_calc(const struct urv_qp *qp, struct ur_swqe *w,
		     const struct ibv_exp_send_wr *x)
{
	uint8_t into = (uint8_t)x->exp_opcode; /* as the standard one */
	int rc = check_calc(x);

	if (!rc && urv_op_kind(qp->op_type, into) == URV_OP_NONE)
		rc = EINVAL;
	if (rc)
		return rc;
	w->opcode = UR_CROSS_CALC;
	w->imm_be = x->ex.imm_data;
	w->wr.calc.remote_addr = x->wr.rdma.remote_addr;
	w->wr.calc.rkey = x->wr.rdma.rkey;
	w->wr.calc.into = into;
	w->wr.calc.op = (uint8_t)x->op.calc.calc_op;
	w->wr.calc.type = (uint8_t)x->op.calc.data_type;
	w->wr.calc.srqn = x->qp_type.xrc.remote_srqn & UR_SRQN_MASK;
	/* ibv_sge and ur_sge have the same layout (abi_check.c). */
	return urv_wqe_add_sges(qp, w,
				(const struct ur_sge *)(void *)x->sg_list,
				(size_t)x->num_sge);
}

static int fill(struct urv_qp *qp, struct ur_swqe *w,
		const struct ibv_exp_send_wr *x, struct urv_tasks *tasks)
{
	struct ur_lock *lock = &urv_context(qp->ibv.context)->cross_lock;
	int rc;

	if (x->exp_send_flags & IBV_EXP_SEND_WITH_CALC)
		return fill_calc(qp, w, x);
	if (!tasks)
		ur_lock(lock);
	rc = x->exp_opcode == IBV_EXP_WR_CQE_WAIT
		     ? fill_wait(qp, w, x, tasks)
		     : fill_enable(qp, w, x, tasks);
	if (!tasks)
		ur_unlock(lock);
	return rc;
}

int urv_cross_stage(struct urv_qp *qp, const struct ibv_exp_send_wr *x,
		    struct urv_tasks *tasks)
{
	uint64_t flags = x->exp_send_flags & IBV_EXP_SEND_WITH_CALC
				 ? CALC_FLAGS
				 : CONTROL_FLAGS;
	struct ur_swqe *w;
	int rc;

	if (!qp->core.cross || !(qp->core.cross->flags & UR_CROSS_MASTER) ||
	    x->comp_mask || x->exp_send_flags & ~flags)
		return EINVAL;
	w = ur_sq_stage(&qp->core.sq);
	if (!w)
		return ENOMEM;
	w->wr_id = x->wr_id;
	w->flags = (uint8_t)(x->exp_send_flags & 0xff);
	w->imm_be = 0;
	w->num_sge = 0;
	w->length = 0;
	rc = fill(qp, w, x, tasks);
	if (rc)
		qp->core.sq.staged--;
	return rc;
}
