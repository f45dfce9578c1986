/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows. ibv_mw.rkey is the key of the newest bind that was posted, of
 * either type; if that bind fails, the key is invalid.
 *
 * As with mlx5, posting a bind checks only the calling conventions. Domain,
 * key, range and rights are those at the time of execution; errors are reported
 * by the completion (core/mw: MW_BIND_ERR).
 */
#include "verbs/mw.h"
#include "fault/state.h"

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
	int rc = urv_check(URV_PD, pd);
	struct urv_context *c;
	struct urv_mw *mw;
	uint32_t handle;

	if (!rc)
		rc = ur_fault_call(UR_FAULT_alloc_mw);
	if (rc)
		return urv_null(rc);
	c = urv_context(pd->context);
	mw = urv_object_new(c, calloc(1, sizeof(*mw)), NULL, 0, &handle);
	if (!mw)
		return NULL;
	rc = ur_mw_create(c->mrs, &urv_pd(pd)->core, (enum ur_mw_type)type,
			  &mw->core);
	if (rc) {
		urv_object_drop(c, mw, NULL);
		return urv_null(rc);
	}
	mw->ibv.handle = handle;
	mw->ibv.context = pd->context;
	mw->ibv.pd = pd;
	mw->ibv.rkey = mw->core->win.key;
	mw->ibv.type = type;
	urv_object_add(&mw->entry, URV_MW, &mw->ibv);
	return &mw->ibv;
}

int urv_dealloc_mw(struct ibv_mw *ibmw)
{
	struct urv_mw *mw = urv_mw(ibmw);
	int rc = urv_ending(URV_MW, ibmw);
	struct urv_context *c;

	if (rc)
		return urv_errno(rc);
	c = urv_context(ibmw->context);
	rc = urv_ended(&mw->entry,
		       c->generation == urv_generation ? 0 : -ENODEV);
	if (rc)
		return urv_errno(rc);
	ur_mw_destroy(c->mrs, mw->core);
	urv_object_free(c, URV_MW, mw, NULL);
	return 0;
}

/* The upper 24 bits of a key are never zero. */
#define NO_WINDOW 0u
#define NO_REGION 1u

/* The keys of another adapter's window or region belong to another table. */
static uint32_t window_key(const struct urv_qp *qp, const struct ibv_mw *mw)
{
	return urv_context(mw->context)->mrs == qp->core.mrs
		       ? urv_mw(mw)->core->win.key
		       : NO_WINDOW;
}

static uint32_t region_key(const struct urv_qp *qp,
			   const struct ibv_mw_bind_info *info)
{
	/* A bind of length 0 frees the window, whatever the region. */
	if (!info->mr || !info->length)
		return 0;
	return urv_context(info->mr->context)->mrs == qp->core.mrs
		       ? info->mr->lkey
		       : NO_REGION;
}

int urv_bind_fill(const struct urv_qp *qp, struct ur_mw_bind *b,
		  struct ibv_mw *mw, uint32_t rkey,
		  const struct ibv_mw_bind_info *info)
{
	if (!mw)
		return EINVAL;
	*b = (struct ur_mw_bind){ .addr = info->addr,
				  .length = info->length,
				  .window = window_key(qp, mw),
				  .key = rkey,
				  .lkey = region_key(qp, info),
				  .access = info->mw_access_flags,
				  .old_rkey = mw->rkey,
				  .object = mw };
	return 0;
}

void urv_bind_posted(const struct ur_mw_bind *b)
{
	struct ibv_mw *mw = b->object;

	mw->rkey = (mw->rkey & ~0xffu) | (b->key & 0xffu);
}

void urv_bind_undo(const struct ur_mw_bind *b)
{
	struct ibv_mw *mw = b->object;

	mw->rkey = b->old_rkey;
}

static int stage_bind(struct urv_qp *qp, struct ibv_mw *mw,
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
	rc = urv_bind_fill(qp, &w->wr.bind, mw, ibv_inc_rkey(mw->rkey),
			   &bind->bind_info);
	if (rc) {
		ur_sq_abort(sq);
		return rc;
	}
	urv_bind_posted(&w->wr.bind);
	ur_sq_commit(sq);
	return 0;
}

/* As mlx5 refuses at this call. verbs.h has checked the type of the window and
 * the domain of the region. */
static int check_bind(const struct urv_qp *qp, const struct ibv_mw_bind *bind)
{
	const struct ibv_mr *mr = bind->bind_info.mr;
	struct ur_mr region;

	if (urv_op_kind(qp->op_type, UR_WR_BIND_MW) == URV_OP_NONE ||
	    bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return EINVAL;
	if (mr && ur_mr_peek(qp->core.mrs, mr->lkey, &region) == 0 &&
	    region.access & UR_ACCESS_ZERO_BASED)
		return EINVAL;
	return 0;
}

int urv_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw,
		struct ibv_mw_bind *bind)
{
	struct urv_qp *qp = urv_qp(ibqp);
	int rc = urv_send_state(qp);

	if (!rc)
		rc = check_bind(qp, bind);
	if (rc)
		return urv_errno(-rc);
	ur_latch_lock(&qp->core.sq.lock);
	rc = stage_bind(qp, mw, bind);
	ur_latch_unlock(&qp->core.sq.lock);
	if (rc)
		return urv_errno(-rc);
	urv_send_kick(qp);
	return 0;
}
