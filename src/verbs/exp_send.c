/* SPDX-License-Identifier: BSD-2-Clause */
/* Experimental send requests: converted one by one to standard ones. */
#include <errno.h>

#include "core/umr.h"
#include "verbs/cross.h"
#include "verbs/exp.h"
#include "verbs/objects.h"
#include "verbs/send.h"

#define STANDARD_FLAGS                                                         \
	((uint64_t)(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED |  \
		    IBV_SEND_INLINE))

/* Without a standard opcode: the errno. */
static int check_opcode(enum ibv_exp_wr_opcode op)
{
	switch (op) {
	case IBV_EXP_WR_RDMA_WRITE:
	case IBV_EXP_WR_RDMA_WRITE_WITH_IMM:
	case IBV_EXP_WR_SEND:
	case IBV_EXP_WR_SEND_WITH_IMM:
	case IBV_EXP_WR_RDMA_READ:
	case IBV_EXP_WR_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_EXP_WR_LOCAL_INV:
	case IBV_EXP_WR_BIND_MW:
	case IBV_EXP_WR_SEND_WITH_INV:
	case IBV_EXP_WR_TSO:
	case IBV_EXP_WR_NOP:
	case IBV_EXP_WR_UMR_FILL:
	case IBV_EXP_WR_UMR_INVALIDATE:
		return 0;
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD:
		return EINVAL;	     /* staged before: exp_atomic.c */
	case IBV_EXP_WR_SEND_ENABLE: /* cross.h */
	case IBV_EXP_WR_RECV_ENABLE:
	case IBV_EXP_WR_CQE_WAIT:
		/* As mlx5: the queue pair was created without their flag. */
		break;
	}
	return EINVAL;
}

static int set_bind(struct ibv_send_wr *w, const struct ibv_exp_send_wr *x)
{
	const struct ibv_exp_mw_bind_info *in = &x->bind_mw.bind_info;
	uint32_t access;
	int rc = urv_exp_access(in->exp_mw_access_flags,
				IBV_EXP_ACCESS_MW_ZERO_BASED, &access);

	if (rc)
		return -rc;
	w->bind_mw.mw = x->bind_mw.mw;
	w->bind_mw.rkey = x->bind_mw.rkey;
	w->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = in->mr,
		.addr = in->addr,
		.length = in->length,
		.mw_access_flags = access,
	};
	return 0;
}

/* Only the members that the opcode uses may be set. */
static int set_operation(struct ibv_send_wr *w, const struct urv_qp *qp,
			 const struct ibv_exp_send_wr *x)
{
	switch (urv_op_kind(qp->op_type, w->opcode)) {
	case URV_OP_RDMA:
		w->wr.rdma.remote_addr = x->wr.rdma.remote_addr;
		w->wr.rdma.rkey = x->wr.rdma.rkey;
		return 0;
	case URV_OP_ATOMIC:
		w->wr.atomic.remote_addr = x->wr.atomic.remote_addr;
		w->wr.atomic.compare_add = x->wr.atomic.compare_add;
		w->wr.atomic.swap = x->wr.atomic.swap;
		w->wr.atomic.rkey = x->wr.atomic.rkey;
		return 0;
	case URV_OP_SEND:
		if (qp->core.type != UR_QPT_UD)
			return 0;
		w->wr.ud.ah = x->wr.ud.ah;
		w->wr.ud.remote_qpn = x->wr.ud.remote_qpn;
		w->wr.ud.remote_qkey = x->wr.ud.remote_qkey;
		return 0;
	case URV_OP_BIND:
		return set_bind(w, x);
	case URV_OP_TSO:
		w->tso.hdr = x->tso.hdr;
		w->tso.hdr_sz = x->tso.hdr_sz;
		w->tso.mss = x->tso.mss;
		return 0;
	case URV_OP_INV:
		return 0;
	case URV_OP_PUT:
	case URV_OP_FLUSH:
	case URV_OP_NOP:
	case URV_OP_MASKED:
	case URV_OP_UMR:
	case URV_OP_NONE:
		break;
	}
	return EINVAL;
}

static int stage_nop(struct urv_qp *qp, const struct ibv_exp_send_wr *x)
{
	struct ur_swqe *w;

	if (urv_op_kind(qp->op_type, UR_WR_NOP) == URV_OP_NONE ||
	    x->exp_send_flags & ~(uint64_t)(IBV_SEND_FENCE | IBV_SEND_SIGNALED))
		return EINVAL;
	w = ur_sq_stage(&qp->core.sq);
	if (!w)
		return ENOMEM;
	w->wr_id = x->wr_id;
	w->opcode = UR_WR_NOP;
	w->flags = (uint8_t)x->exp_send_flags;
	w->num_sge = 0;
	w->length = 0;
	w->imm_be = 0;
	w->wr.nop.status = UR_WC_SUCCESS;
	return 0;
}

static int stage_dc(struct urv_qp *qp, const struct ibv_exp_send_wr *x,
		    const struct ibv_send_wr *w)
{
	struct ur_sq *sq = &qp->core.sq;
	int rc;

	if (!x->dc.ah || x->dc.dct_number & ~0xffffffu)
		return EINVAL;
	rc = urv_send_stage(qp, w);
	if (!rc)
		*ur_qp_dc_target(&qp->core, sq->staged - 1) =
			(struct ur_dc_target){
				.av = urv_ah(x->dc.ah)->av,
				.dctn = x->dc.dct_number,
				.key = x->dc.dct_access_key,
			};
	return rc;
}

static int stage_standard(struct urv_qp *qp, const struct ibv_exp_send_wr *x,
			  struct urv_umr_lists *lists)
{
	struct ibv_send_wr w = {
		.wr_id = x->wr_id,
		.sg_list = x->sg_list,
		.num_sge = x->num_sge,
		.send_flags =
			(unsigned int)(x->exp_send_flags & STANDARD_FLAGS),
		.imm_data = x->ex.imm_data, /* or the key to invalidate */
		.qp_type.xrc.remote_srqn = x->qp_type.xrc.remote_srqn,
	};
	int rc;

	if (urv_exp_is_masked(x))
		return urv_exp_stage_masked(qp, x);
	rc = check_opcode(x->exp_opcode);
	/* The other flags belong to operations that are refused. */
	if (!rc &&
	    (x->comp_mask ||
	     x->exp_send_flags & ~(STANDARD_FLAGS | IBV_EXP_SEND_IP_CSUM)))
		rc = EINVAL;
	if (rc)
		return rc;
	if (x->exp_opcode == IBV_EXP_WR_NOP)
		return stage_nop(qp, x);
	if (x->exp_opcode == IBV_EXP_WR_UMR_FILL ||
	    x->exp_opcode == IBV_EXP_WR_UMR_INVALIDATE)
		return urv_umr_stage(qp, x, lists);
	w.opcode = x->exp_opcode == IBV_EXP_WR_TSO
			   ? IBV_WR_TSO
			   : (enum ibv_wr_opcode)x->exp_opcode;
	if (x->exp_send_flags & IBV_EXP_SEND_IP_CSUM)
		w.send_flags |= IBV_SEND_IP_CSUM;
	rc = set_operation(&w, qp, x);
	if (!rc && qp->core.type == UR_QPT_DC_INI)
		return stage_dc(qp, x, &w);
	return rc ? rc : urv_send_stage(qp, &w);
}

int urv_exp_stage(struct urv_qp *qp, const struct ibv_exp_send_wr *x,
		  struct urv_umr_lists *lists, struct urv_tasks *tasks)
{
	return urv_is_cross(x) ? urv_cross_stage(qp, x, tasks)
			       : stage_standard(qp, x, lists);
}

int urv_exp_post_send(struct ibv_qp *ibqp, struct ibv_exp_send_wr *wr,
		      struct ibv_exp_send_wr **bad_wr)
{
	struct urv_qp *qp = urv_qp(ibqp);
	struct urv_umr_lists lists = { 0 };
	int rc = urv_send_state(qp);
	bool posted = false;

	if (!rc) {
		urv_umr_prepare(&lists, qp, wr);
		ur_latch_lock(&qp->core.sq.lock);
		while (wr && !(rc = urv_exp_stage(qp, wr, &lists, NULL))) {
			posted = true;
			wr = wr->next;
		}
		ur_sq_commit(&qp->core.sq);
		ur_latch_unlock(&qp->core.sq.lock);
		urv_umr_end(&lists);
	}
	/* A rendezvous may wait for the queue (roce/tm.c). */
	if (posted || qp->core.sq.max_own)
		urv_send_kick(qp);
	if (qp->core.umr)
		ur_umr_reap(qp->core.mrs);
	if (rc) {
		ur_record_post(&qp->core, false, rc);
		*bad_wr = wr;
	}
	return rc;
}

/* verbs.h checks the type of the window and the domain of the region. */
int urv_exp_bind_mw(struct ibv_exp_mw_bind *mw_bind)
{
	uint32_t access;
	struct ibv_mw_bind bind;
	int rc = urv_exp_access(mw_bind->bind_info.exp_mw_access_flags,
				IBV_EXP_ACCESS_MW_ZERO_BASED, &access);

	if (!rc &&
	    (mw_bind->comp_mask || mw_bind->exp_send_flags & ~STANDARD_FLAGS))
		rc = -EINVAL;
	if (rc)
		return errno = -rc;
	bind = (struct ibv_mw_bind){
		.wr_id = mw_bind->wr_id,
		.send_flags = (unsigned int)mw_bind->exp_send_flags,
		.bind_info = { .mr = mw_bind->bind_info.mr,
			       .addr = mw_bind->bind_info.addr,
			       .length = mw_bind->bind_info.length,
			       .mw_access_flags = access },
	};
	return ibv_bind_mw(mw_bind->qp, mw_bind->mw, &bind);
}
