/* SPDX-License-Identifier: BSD-2-Clause */
/* What the iWARP device does not have of the experimental verbs, and attributes of queue
 * pairs that it takes without effect. */
#ifndef URNIC_TESTS_EXP_IWARP_H
#define URNIC_TESTS_EXP_IWARP_H

#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <stddef.h>

#include "vt.h"

/* Of a connected queue pair */
static inline void iwarp_attributes(struct ibv_qp *qp)
{
	struct ibv_exp_qp_attr a = { .qp_state = IBV_QPS_RTS,
				     .cur_qp_state = IBV_QPS_RTS,
				     .path_mtu = IBV_MTU_1024,
				     .port_num = 1,
				     .alt_port_num = 1,
				     .path_mig_state = IBV_MIG_REARM };
	const uint64_t taken =
		IBV_EXP_QP_STATE | IBV_EXP_QP_CUR_STATE |
		IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT | IBV_EXP_QP_QKEY |
		IBV_EXP_QP_AV | IBV_EXP_QP_PATH_MTU | IBV_EXP_QP_DEST_QPN |
		IBV_EXP_QP_RQ_PSN | IBV_EXP_QP_SQ_PSN | IBV_EXP_QP_TIMEOUT |
		IBV_EXP_QP_RETRY_CNT | IBV_EXP_QP_RNR_RETRY |
		IBV_EXP_QP_MIN_RNR_TIMER | IBV_EXP_QP_MAX_QP_RD_ATOMIC |
		IBV_EXP_QP_MAX_DEST_RD_ATOMIC | IBV_EXP_QP_ALT_PATH |
		IBV_EXP_QP_PATH_MIG_STATE;

	VT_TRUE(ibv_exp_modify_qp(qp, &a, taken) == 0);
	VT_TRUE(ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_RATE_LIMIT) == EOPNOTSUPP);
	VT_TRUE(ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_DC_KEY) == EOPNOTSUPP);
	VT_TRUE(ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_CAP) == EOPNOTSUPP);
}

static inline void iwarp_lacks_fields(struct ibv_context *ctx)
{
	struct ibv_exp_device_attr a = {
		.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
			     IBV_EXP_DEVICE_ATTR_TSO_CAPS |
			     IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS |
			     IBV_EXP_DEVICE_DC_RD_REQ |
			     IBV_EXP_DEVICE_DC_RD_RES |
			     IBV_EXP_DEVICE_ATTR_MAX_DCT,
	};

	VT_TRUE(ibv_exp_query_device(ctx, &a) == 0);
	VT_TRUE(a.comp_mask == IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS);
	VT_TRUE(!(a.exp_device_cap_flags & IBV_EXP_DEVICE_DC_TRANSPORT));
}

/* Queue pairs of other types than RC, and targets of DC: EOPNOTSUPP */
static inline void iwarp_lacks_types(struct ibv_context *ctx, struct ibv_pd *pd,
				     struct ibv_cq *cq)
{
	static const enum ibv_qp_type lacks[] = {
		IBV_QPT_UC,
		IBV_QPT_UD,
		IBV_QPT_XRC_SEND,
		IBV_QPT_RAW_PACKET,
		(enum ibv_qp_type)IBV_EXP_QPT_DC_INI,
	};
	struct ibv_srq_init_attr queue = { .attr = { 4, 1, 0 } };
	struct ibv_exp_dct_init_attr target = {
		.pd = pd, .cq = cq, .port = 1, .mtu = IBV_MTU_1024
	};
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
	};

	for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		struct ibv_exp_qp_init_attr a = {
			.send_cq = cq,
			.recv_cq = cq,
			.cap = { .max_send_wr = 1, .max_send_sge = 1 },
			.qp_type = lacks[i],
			.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
				     IBV_EXP_QP_INIT_ATTR_INL_RECV,
			.pd = pd,
		};

		errno = 0;
		VT_TRUE(!ibv_exp_create_qp(ctx, &a) && errno == EOPNOTSUPP);
	}
	/* So there is nothing for IBV_EXP_QP_INIT_ATTR_XRCD. */
	errno = 0;
	VT_TRUE(!ibv_open_xrcd(ctx, &domain) && errno == EOPNOTSUPP);
	target.srq = ibv_create_srq(pd, &queue);
	VT_TRUE(target.srq);
	errno = 0;
	VT_TRUE(!ibv_exp_create_dct(ctx, &target) && errno == EOPNOTSUPP);
	VT_TRUE(ibv_destroy_srq(target.srq) == 0);
}

/* Requests that RC has on RoCE, and segmentation: EINVAL */
static inline void iwarp_lacks_requests(struct ibv_qp *qp)
{
	struct ibv_exp_send_wr *bad, wr = { .wr_id = 1 };

	wr.exp_opcode = IBV_EXP_WR_SEND_WITH_IMM;
	VT_TRUE(ibv_exp_post_send(qp, &wr, &bad) == EINVAL);
	wr.exp_opcode = IBV_EXP_WR_TSO;
	VT_TRUE(ibv_exp_post_send(qp, &wr, &bad) == EINVAL);
	wr.exp_opcode = IBV_EXP_WR_SEND;
	wr.exp_send_flags = IBV_EXP_SEND_IP_CSUM;
	VT_TRUE(ibv_exp_post_send(qp, &wr, &bad) == EINVAL);
}

#endif
