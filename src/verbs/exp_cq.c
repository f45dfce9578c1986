/* SPDX-License-Identifier: BSD-2-Clause */
/* Experimental completion queues: attributes, and completions with more fields.
 * ibv_poll_cq() serves them as well. */
#include <errno.h>
#include <string.h>

#include "verbs/convert.h"
#include "verbs/cq.h"
#include "verbs/exp.h"
#include "verbs/ops.h"

#define INIT_KNOWN (IBV_EXP_CQ_INIT_ATTR_RESERVED1 - 1u)

static int check_init(const struct ibv_exp_cq_init_attr *a)
{
	uint32_t flags =
		a->comp_mask & IBV_EXP_CQ_INIT_ATTR_FLAGS ? a->flags : 0;

	if (a->comp_mask & ~INIT_KNOWN ||
	    flags & ~(uint32_t)IBV_EXP_CQ_CREATE_FLAGS_MASK)
		return -EINVAL;
	if (a->comp_mask & ~(uint32_t)IBV_EXP_CQ_INIT_ATTR_FLAGS ||
	    flags & ~(uint32_t)(IBV_EXP_CQ_TIMESTAMP |
				IBV_EXP_CQ_CREATE_CROSS_CHANNEL))
		return -EOPNOTSUPP;
	return 0;
}

struct ibv_cq *urv_exp_create_cq(struct ibv_context *context, int cqe,
				 struct ibv_comp_channel *channel,
				 int comp_vector,
				 struct ibv_exp_cq_init_attr *attr)
{
	int rc = check_init(attr);
	struct urv_cq *cq;

	if (!rc && (cqe <= 0 || comp_vector < 0))
		rc = -EINVAL;
	if (!rc && channel)
		rc = urv_check(URV_CHANNEL, channel);
	/* As urv_cq_create() */
	if (!rc && channel &&
	    urv_context(channel->context)->adapter !=
		    urv_context(context)->adapter)
		rc = -EINVAL;
	if (rc)
		return urv_null(rc);
	cq = urv_cq_create(urv_context(context), (uint32_t)cqe, NULL,
			   (uint32_t)comp_vector);
	if (!cq)
		return NULL;
	/* The caller has the lock that counting the channel's CQs needs. */
	if (channel) {
		cq->ibv.channel = channel;
		cq->core.channel = &urv_channel(channel)->evq;
	}
	cq->core.stamped = (attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_FLAGS) &&
			   (attr->flags & IBV_EXP_CQ_TIMESTAMP);
	return &cq->ibv;
}

/* The bits of `mask` and of comp_mask are the same. */
int urv_exp_modify_cq(struct ibv_cq *ibcq, struct ibv_exp_cq_attr *attr,
		      int mask)
{
	struct ibv_modify_cq_attr in = {
		.moderate = { .cq_count = attr->moderation.cq_count,
			      .cq_period = attr->moderation.cq_period },
	};
	uint32_t set = (uint32_t)mask;
	int rc;

	if (attr->comp_mask >= IBV_EXP_CQ_ATTR_RESERVED ||
	    set & ~attr->comp_mask)
		return urv_errno(-EINVAL);
	if ((set & IBV_EXP_CQ_CAP_FLAGS) &&
	    attr->cq_cap_flags & ~(uint32_t)IBV_EXP_CQ_CAP_MASK)
		return urv_errno(-EINVAL);
	if (set & IBV_EXP_CQ_MODERATION)
		in.attr_mask = IBV_CQ_ATTR_MODERATE;
	rc = urv_modify_cq(ibcq, &in);
	if (!rc && (set & IBV_EXP_CQ_CAP_FLAGS))
		ur_cq_ignore_overrun(&urv_cq(ibcq)->core,
				     attr->cq_cap_flags &
					     IBV_EXP_CQ_IGNORE_OVERRUN);
	return rc;
}

/* The numbers that differ.  ATOMIC WRITE has none: its standard one is that of
 * another operation. */
static enum ibv_exp_wc_opcode opcode(uint8_t op)
{
	if (op >= UR_WC_TM_ADD && op <= UR_WC_TM_NO_TAG)
		return (enum ibv_exp_wc_opcode)(IBV_EXP_WC_TM_ADD + op -
						UR_WC_TM_ADD);
	if (op == UR_WC_TSO)
		return IBV_EXP_WC_TSO;
	if (op == UR_WC_MASKED_COMP_SWAP)
		return IBV_EXP_WC_MASKED_COMP_SWAP;
	if (op == UR_WC_MASKED_FETCH_ADD)
		return IBV_EXP_WC_MASKED_FETCH_ADD;
	if (op == UR_WC_UMR)
		return IBV_EXP_WC_UMR;
	if (op == UR_WC_ATOMIC_WRITE)
		return IBV_EXP_WC_RDMA_WRITE;
	return (enum ibv_exp_wc_opcode)op;
}

/* Not WITH_SL, WITH_SLID: Ethernet has neither; `sl` of a datagram is the kind of
 * its RoCE header. */
static uint64_t flags_of(const struct urv_cq *cq, const struct ur_cqe *c)
{
	static const struct {
		uint8_t ur;
		uint64_t exp;
	} same[] = {
		{ UR_WC_GRH, IBV_EXP_WC_GRH },
		{ UR_WC_WITH_IMM, IBV_EXP_WC_WITH_IMM },
		{ UR_WC_WITH_INV, IBV_EXP_WC_WITH_INV },
		{ UR_WC_IP_CSUM_OK,
		  IBV_EXP_WC_RX_IP_CSUM_OK | IBV_EXP_WC_RX_TCP_UDP_CSUM_OK },
		{ UR_WC_TM_SYNC_REQ, IBV_EXP_WC_TM_SYNC_REQ },
		{ UR_WC_TM_MATCH, IBV_EXP_WC_TM_MATCH },
		{ UR_WC_TM_DATA_VALID, IBV_EXP_WC_TM_DATA_VALID },
	};
	uint64_t flags = cq->core.stamped ? IBV_EXP_WC_WITH_TIMESTAMP : 0;

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		if (c->flags & same[i].ur)
			flags |= same[i].exp;
	return flags;
}

/* The owner is not dereferenced: only its handle's address is computed. */
static void set_owner(struct ibv_exp_wc *wc, const struct ur_cqe *c)
{
	uintptr_t owner = (uintptr_t)c->qp;

	if (!owner)
		return;
	if (c->owner == UR_CQE_QP) {
		wc->qp = (struct ibv_qp *)(owner -
					   offsetof(struct urv_qp, core));
		wc->exp_wc_flags |= IBV_EXP_WC_QP;
	} else if (c->owner == UR_CQE_SRQ) {
		wc->srq = (struct ibv_srq *)(owner -
					     offsetof(struct urv_srq, core));
		wc->exp_wc_flags |= IBV_EXP_WC_SRQ;
	} else if (c->owner == UR_CQE_DCT) {
		wc->dct =
			(struct ibv_exp_dct *)(owner -
					       offsetof(struct urv_dct, core));
		wc->exp_wc_flags |= IBV_EXP_WC_DCT;
	}
}

static void convert(struct ibv_exp_wc *wc, const struct urv_cq *cq,
		    const struct ur_cqe *c)
{
	*wc = (struct ibv_exp_wc){
		.wr_id = c->wr_id,
		.status = (enum ibv_wc_status)c->status,
		.exp_opcode = opcode(c->opcode),
		.vendor_err = c->vendor_err,
		.byte_len = c->byte_len,
		.imm_data = c->imm_be,
		.qp_num = c->qpn,
		.src_qp = c->src_qp,
		.pkey_index = c->pkey_index,
		.slid = c->slid,
		.sl = c->sl,
		.dlid_path_bits = c->dlid_path_bits,
		.exp_wc_flags = flags_of(cq, c),
		.tm_info = { .tag = c->tm_tag, .priv = c->tm_priv },
	};
	if (cq->core.stamped)
		wc->timestamp = c->ts_ns;
	set_owner(wc, c);
}

int urv_exp_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_exp_wc *wc,
		    uint32_t wc_size)
{
	struct urv_cq *cq = urv_cq(ibcq);
	uint32_t held, want = n > 0 ? (uint32_t)n : 0;
	struct ibv_exp_wc one;
	size_t known = wc_size < sizeof(one) ? wc_size : sizeof(one);

	if (cq->generation != urv_generation)
		return -ENODEV;
	if (!urv_cq_has_work(cq))
		return 0;
	held = ur_cq_open(&cq->core);
	if (want > held)
		want = held;
	/* The caller's elements may have fewer fields, or more. */
	for (uint32_t i = 0; i < want; i++) {
		uint8_t *out = (uint8_t *)wc + (size_t)i * wc_size;

		convert(&one, cq, ur_cq_entry(&cq->core, i));
		memcpy(out, &one, known);
		memset(out + known, 0, wc_size - known);
	}
	ur_cq_close(&cq->core, want);
	return (int)want;
}
