/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended atomics: compare and swap, and fetch and add, with masks.
 *
 * iWARP has the operands of RFC 7306, which have 8 bytes.  The sizes on RoCE are
 * those of the processor's compare and swap.
 */
#include <errno.h>
#include <string.h>

#include "core/masked.h"
#include "verbs/exp.h"
#include "verbs/objects.h"
#include "verbs/send.h"

#define FLAGS                                                                  \
	((uint64_t)(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED))

uint32_t urv_exp_max_atomic_arg(const struct urv_context *c)
{
	return urv_is_iwarp(c) ? 8 : ur_masked_max();
}

bool urv_exp_is_masked(const struct ibv_exp_send_wr *wr)
{
	return wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP ||
	       wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
}

/* Up to 8 bytes the field is the operand, else the address of its words. */
static void set_operand(uint64_t to[2], uint64_t field, uint32_t len)
{
	if (len > 8)
		memcpy(to, (const void *)(uintptr_t)field, len);
	else
		to[0] = field;
}

static void set_operands(struct ur_masked *m, const struct ibv_exp_send_wr *wr,
			 uint32_t len)
{
	const struct ibv_exp_cmp_swap *cas =
		&wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;
	const struct ibv_exp_fetch_add *add =
		&wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;

	memset(m, 0, sizeof(*m));
	if (wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD) {
		set_operand(m->value, add->add_val, len);
		set_operand(m->mask, add->field_boundary, len);
		return;
	}
	set_operand(m->value, cas->swap_val, len);
	set_operand(m->compare, cas->compare_val, len);
	set_operand(m->mask, cas->swap_mask, len);
	set_operand(m->compare_mask, cas->compare_mask, len);
}

/* The operand's bytes, if the queue pair has room for such operands; 0: EINVAL. */
static uint32_t size_of(const struct urv_qp *qp,
			const struct ibv_exp_send_wr *wr)
{
	uint32_t log = wr->ext_op.masked_atomics.log_arg_sz, len;

	if (log > 31)
		return 0;
	len = 1u << log;
	if (len > qp->core.max_atomic_arg || !ur_masked_is_size(len) ||
	    (len != 8 && qp->op_type == URV_OPS_IWARP))
		return 0;
	return len;
}

static int check(const struct urv_qp *qp, const struct ibv_exp_send_wr *wr,
		 uint32_t opcode)
{
	if (wr->comp_mask || wr->num_sge < 0 ||
	    wr->exp_send_flags & ~(FLAGS | IBV_EXP_SEND_EXT_ATOMIC_INLINE) ||
	    !(wr->exp_send_flags & IBV_EXP_SEND_EXT_ATOMIC_INLINE))
		return EINVAL;
	/* The release has them on XRC too. */
	if (qp->op_type == UR_QPT_XRC_SEND)
		return EOPNOTSUPP;
	if (urv_op_kind(qp->op_type, opcode) == URV_OP_NONE)
		return EINVAL;
	return size_of(qp, wr) ? 0 : EINVAL;
}

int urv_exp_stage_masked(struct urv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	bool cas = wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP;
	uint32_t opcode = cas ? UR_WR_MASKED_CMP_SWP : UR_WR_MASKED_FETCH_ADD;
	int rc = check(qp, wr, opcode);
	struct ur_sq *sq = &qp->core.sq;
	struct ur_swqe *w;
	uint32_t len;

	if (rc)
		return rc;
	len = size_of(qp, wr);
	w = ur_sq_stage(sq);
	if (!w)
		return ENOMEM;
	w->wr_id = wr->wr_id;
	w->opcode = (uint8_t)opcode;
	w->flags = (uint8_t)(wr->exp_send_flags & FLAGS);
	w->imm_be = 0;
	w->num_sge = 0;
	w->length = 0;
	w->wr.atomic.remote_addr = wr->ext_op.masked_atomics.remote_addr;
	w->wr.atomic.rkey = wr->ext_op.masked_atomics.rkey;
	w->wr.atomic.srqn = 0;
	rc = urv_wqe_add_sges(qp, w, (const struct ur_sge *)(void *)wr->sg_list,
			      (size_t)wr->num_sge);
	/* As for the standard atomics: the list is as long as the old value. */
	if (!rc && w->length != len)
		rc = EINVAL;
	if (rc) {
		sq->staged--;
		return rc;
	}
	set_operands(ur_swqe_masked(sq, w), wr, len);
	return 0;
}
