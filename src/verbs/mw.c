/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows.  ibv_mw.rkey of a type 1 window is the next bind's as soon
 * as that is posted, which is what other providers do; of a type 2 window it
 * is what the allocation gave, and the application keeps track.
 */
#include "verbs/mw.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/convert.h"
#include "verbs/ops.h"
#include "verbs/send.h"

static struct urv_mw *urv_mw(const struct ibv_mw *mw)
{
	return (struct urv_mw *)(uintptr_t)mw;
}

struct ibv_mw *urv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct urv_context *c = urv_context(pd->context);
	struct urv_mw *mw = calloc(1, sizeof(*mw));
	int rc;

	if (!mw)
		return urv_null(-ENOMEM);
	rc = urv_context_get(c, &mw->ibv.handle);
	if (rc)
		goto free_mw;
	rc = ur_mw_create(c->mrs, &urv_pd(pd)->core, (enum ur_mw_type)type,
			  &mw->core);
	if (rc)
		goto put_context;
	mw->ibv.context = pd->context;
	mw->ibv.pd = pd;
	mw->ibv.rkey = mw->core->win.key;
	mw->ibv.type = type;
	return &mw->ibv;

put_context:
	urv_context_put(c);
free_mw:
	free(mw);
	return urv_null(rc);
}

int urv_dealloc_mw(struct ibv_mw *ibmw)
{
	struct urv_context *c = urv_context(ibmw->context);
	struct urv_mw *mw = urv_mw(ibmw);

	if (c->generation != urv_generation)
		return urv_errno(-ENODEV);
	ur_mw_destroy(c->mrs, mw->core);
	free(mw);
	urv_context_put(c);
	return 0;
}

/*
 * The region is looked at by its key: another thread may re-register it, and
 * then the request is checked again when its turn comes.
 */
int urv_bind_fill(const struct urv_qp *qp, struct ur_mw_bind *b,
		  enum ur_mw_type type, const struct ibv_mw *ibmw,
		  uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	const struct ur_mw *mw;
	struct ur_mr mr;

	if (!ibmw)
		return EINVAL;
	mw = urv_mw(ibmw)->core;
	if (mw->type != type || mw->win.pd != qp->core.pd)
		return EINVAL;
	*b = (struct ur_mw_bind){ .addr = info->addr,
				  .length = info->length,
				  .window = mw->win.key,
				  .key = rkey,
				  .lkey = info->mr ? info->mr->lkey : 0,
				  .access = info->mw_access_flags };
	if (b->lkey &&
	    (ur_mr_peek(qp->core.mrs, b->lkey, &mr) || mr.pd != qp->core.pd))
		return EINVAL;
	return -ur_mw_check(type, b, b->lkey ? &mr : NULL);
}

static int stage_bind(struct urv_qp *qp, struct ibv_mw *mw, uint32_t rkey,
		      const struct ibv_mw_bind *bind)
{
	struct ur_sq *sq = &qp->core.sq;
	struct ur_swqe *w = ur_sq_stage(sq);
	int rc;

	if (!w)
		return ENOMEM;
	w->wr_id = bind->wr_id;
	w->opcode = UR_WR_BIND_MW;
	w->flags = (uint8_t)(bind->send_flags &
			     (UR_SEND_FENCE | UR_SEND_SIGNALED));
	w->num_sge = 0;
	w->length = 0;
	rc = urv_bind_fill(qp, &w->wr.bind, UR_MW_TYPE_1, mw, rkey,
			   &bind->bind_info);
	if (rc)
		ur_sq_abort(sq);
	else
		ur_sq_commit(sq);
	return rc;
}

/* verbs.h has looked at the type and at the domain of the region. */
int urv_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw,
		struct ibv_mw_bind *bind)
{
	struct urv_qp *qp = urv_qp(ibqp);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	int rc = urv_send_state(qp);

	if (!rc && urv_op_kind(qp->op_type, UR_WR_BIND_MW) == URV_OP_NONE)
		rc = EINVAL;
	if (rc)
		return urv_errno(-rc);
	ur_latch_lock(&qp->core.sq.lock);
	rc = stage_bind(qp, mw, rkey, bind);
	if (!rc)
		mw->rkey = rkey;
	ur_latch_unlock(&qp->core.sq.lock);
	if (rc)
		return urv_errno(-rc);
	urv_send_kick(qp);
	return 0;
}
