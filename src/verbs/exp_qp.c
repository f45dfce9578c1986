/* SPDX-License-Identifier: BSD-2-Clause */
/* Experimental attributes of queue pairs. */
#include <errno.h>
#include <string.h>

#include "core/cross.h"
#include "verbs/convert.h"
#include "verbs/exp.h"
#include "verbs/objects.h"
#include "verbs/ops.h"
#include "verbs/send.h"

#define INIT_KNOWN (IBV_EXP_QP_INIT_ATTR_RESERVED1 - 1u)
#define INIT_SUPPORTED                                                         \
	(IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_XRCD |                 \
	 IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_INL_RECV |   \
	 IBV_EXP_QP_INIT_ATTR_QPG | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG |         \
	 IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS |                                   \
	 IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER)

#define CROSS_FLAGS                                                            \
	((uint32_t)(IBV_EXP_QP_CREATE_CROSS_CHANNEL |                          \
		    IBV_EXP_QP_CREATE_MANAGED_SEND |                           \
		    IBV_EXP_QP_CREATE_MANAGED_RECV |                           \
		    IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW |                     \
		    IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW))

static int check_create_flags(uint32_t flags, enum ibv_qp_type type)
{
	bool has_cross = type == IBV_QPT_RC || type == IBV_QPT_UC ||
			 type == IBV_QPT_XRC_SEND;

	if (flags & ~(uint32_t)IBV_EXP_QP_CREATE_MASK)
		return -EINVAL;
	return flags & ~(IBV_EXP_QP_CREATE_UMR | (has_cross ? CROSS_FLAGS : 0u))
		       ? -EOPNOTSUPP
		       : 0;
}

static int check_init(const struct urv_context *c,
		      const struct ibv_exp_qp_init_attr *a)
{
	uint32_t mask = a->comp_mask;
	int rc;

	if (mask & ~INIT_KNOWN)
		return -EINVAL;
	if (mask & ~(uint32_t)INIT_SUPPORTED)
		return -EOPNOTSUPP;
	if ((mask & IBV_EXP_QP_INIT_ATTR_QPG) &&
	    a->qpg.qpg_type != IBV_EXP_QPG_NONE)
		return -EOPNOTSUPP;
	if ((mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG) &&
	    a->max_atomic_arg > urv_exp_max_atomic_arg(c))
		return -EINVAL;
	if ((mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS) &&
	    (rc = check_create_flags(a->exp_create_flags, a->qp_type)))
		return rc;
	return urv_umr_check_qp(a);
}

/* Makes a new queue pair one of cross-channel requests. */
static int set_cross(struct ibv_qp *qp, const struct ibv_exp_qp_init_attr *a)
{
	uint32_t in = a->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS
			      ? a->exp_create_flags
			      : 0;
	uint32_t flags = 0;

	if (in & IBV_EXP_QP_CREATE_CROSS_CHANNEL)
		flags |= UR_CROSS_MASTER;
	if (in & IBV_EXP_QP_CREATE_MANAGED_SEND)
		flags |= UR_CROSS_MANAGED_SEND;
	if (in & IBV_EXP_QP_CREATE_MANAGED_RECV)
		flags |= UR_CROSS_MANAGED_RECV;
	return flags ? ur_adapter_qp_cross(&urv_qp(qp)->core, flags) : 0;
}

static uint32_t twice(const struct urv_context *c, uint32_t max_wr)
{
	const uint32_t most = c->device->spec->max.max_qp_wr;

	return max_wr > most ? max_wr : max_wr > most / 2 ? most : 2 * max_wr;
}

/*
 * Without the check of the vendor's library a queue takes requests for slots that are
 * not free yet, and programs post a whole queue's receives again when the last few are
 * left.  Ours is checked all the same, but has room for twice as many.
 */
static void make_room(const struct urv_context *c, struct ibv_qp_cap *cap,
		      const struct ibv_exp_qp_init_attr *a)
{
	uint32_t flags = a->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS
				 ? a->exp_create_flags
				 : 0;

	if (flags & IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW)
		cap->max_send_wr = twice(c, cap->max_send_wr);
	if (flags & IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW)
		cap->max_recv_wr = twice(c, cap->max_recv_wr);
}

static bool has_receives(enum ibv_qp_type type)
{
	return type != IBV_QPT_XRC_SEND &&
	       type != (enum ibv_qp_type)IBV_EXP_QPT_DC_INI;
}

struct ibv_qp *urv_exp_create_qp(struct ibv_context *context,
				 struct ibv_exp_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = { 0 };
	int rc = check_init(urv_context(context), attr);
	uint32_t max_atomic_arg = 0;
	struct ibv_qp *qp;

	if (rc)
		return urv_null(rc);
	/* The same up to comp_mask (abi_check.c) */
	memcpy(&ex, attr, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	make_room(urv_context(context), &ex.cap, attr);
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_PD) {
		ex.comp_mask |= IBV_QP_INIT_ATTR_PD;
		ex.pd = attr->pd;
	}
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_XRCD) {
		ex.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		ex.xrcd = attr->xrcd;
	}
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER) {
		ex.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
		ex.max_tso_header = attr->max_tso_header;
	}
	if ((attr->comp_mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG) &&
	    attr->qp_type == IBV_QPT_RC)
		max_atomic_arg = attr->max_atomic_arg;
	qp = urv_create_qp_sized(context, &ex, max_atomic_arg);
	if (!qp)
		return NULL;
	rc = urv_umr_enable(urv_qp(qp), attr);
	if (!rc)
		rc = set_cross(qp, attr);
	if (rc) {
		ibv_destroy_qp(qp);
		return urv_null(rc);
	}
	attr->cap = ex.cap;
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_INL_RECV)
		attr->max_inl_recv =
			has_receives(attr->qp_type)
				? urv_exp_inline_recv(attr->max_inl_recv)
				: 0;
	return qp;
}

#define STANDARD_MASK                                                          \
	((uint64_t)(IBV_QP_STATE | IBV_QP_CUR_STATE |                          \
		    IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_ACCESS_FLAGS |         \
		    IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY |            \
		    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT |             \
		    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN |      \
		    IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ALT_PATH |                \
		    IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN |                     \
		    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_PATH_MIG_STATE |        \
		    IBV_QP_CAP | IBV_QP_DEST_QPN))

/* Attributes that only other adapters have */
#define FOREIGN_MASK                                                           \
	(IBV_EXP_QP_GROUP_RSS | IBV_EXP_QP_FLOW_ENTROPY |                      \
	 IBV_EXP_QP_OOO_RW_DATA_PLACEMENT)

int urv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr,
		      uint64_t exp_mask)
{
	struct ibv_qp_attr in = { 0 };
	int mask = (int)(exp_mask & STANDARD_MASK);

	if ((exp_mask & ~(STANDARD_MASK | FOREIGN_MASK | IBV_EXP_QP_DC_KEY |
			  IBV_EXP_QP_RATE_LIMIT)) ||
	    attr->comp_mask >= IBV_EXP_QP_ATTR_RESERVED)
		return urv_errno(-EINVAL);
	if ((exp_mask & FOREIGN_MASK) || attr->comp_mask ||
	    ((exp_mask & IBV_EXP_QP_DC_KEY) &&
	     qp->qp_type != IBV_EXP_QPT_DC_INI))
		return urv_errno(-EOPNOTSUPP);
	/* The same up to alt_timeout (abi_check.c) */
	memcpy(&in, attr, offsetof(struct ibv_qp_attr, alt_timeout) + 1);
	if (exp_mask & IBV_EXP_QP_RATE_LIMIT) {
		mask |= IBV_QP_RATE_LIMIT;
		in.rate_limit = attr->rate_limit;
	}
	return urv_modify_qp(qp, &in, (uint32_t)mask,
			     exp_mask & IBV_EXP_QP_DC_KEY ? &attr->dct_key
							  : NULL);
}
