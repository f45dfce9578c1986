/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compile-time checks of the layer's assumptions: equal numbers on both sides
 * of the ABI, and the layouts that inline functions of old and new headers were
 * compiled with.
 */
#include <pthread.h>
#include <stddef.h>

#include "core/calc.h"
#include "verbs/objects.h"

#define SAME(ur, ibv)                                                          \
	_Static_assert((int)(ur) == (int)(ibv), #ur " is not " #ibv)
#define SIZE(type, size)                                                       \
	_Static_assert(sizeof(type) == (size), "size of " #type)
#define AT(type, member, offset)                                               \
	_Static_assert(offsetof(type, member) == (offset),                     \
		       "offset of " #member " in " #type)
/* The offsets are those of x86-64; behind a mutex those of others differ by: */
#define M (sizeof(pthread_mutex_t) - 40)

SAME(UR_QPT_RC, IBV_QPT_RC);
SAME(UR_QPT_UC, IBV_QPT_UC);
SAME(UR_QPT_UD, IBV_QPT_UD);
SAME(UR_QPT_RAW_PACKET, IBV_QPT_RAW_PACKET);
SAME(UR_QPT_XRC_SEND, IBV_QPT_XRC_SEND);
SAME(UR_QPT_XRC_RECV, IBV_QPT_XRC_RECV);

SAME(UR_QPS_RESET, IBV_QPS_RESET);
SAME(UR_QPS_INIT, IBV_QPS_INIT);
SAME(UR_QPS_RTR, IBV_QPS_RTR);
SAME(UR_QPS_RTS, IBV_QPS_RTS);
SAME(UR_QPS_SQD, IBV_QPS_SQD);
SAME(UR_QPS_SQE, IBV_QPS_SQE);
SAME(UR_QPS_ERR, IBV_QPS_ERR);

SAME(UR_MIG_MIGRATED, IBV_MIG_MIGRATED);
SAME(UR_MIG_REARM, IBV_MIG_REARM);
SAME(UR_MIG_ARMED, IBV_MIG_ARMED);

SAME(UR_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE);
SAME(UR_WR_RDMA_WRITE_IMM, IBV_WR_RDMA_WRITE_WITH_IMM);
SAME(UR_WR_SEND, IBV_WR_SEND);
SAME(UR_WR_SEND_IMM, IBV_WR_SEND_WITH_IMM);
SAME(UR_WR_RDMA_READ, IBV_WR_RDMA_READ);
SAME(UR_WR_CMP_SWP, IBV_WR_ATOMIC_CMP_AND_SWP);
SAME(UR_WR_FETCH_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD);
SAME(UR_WR_LOCAL_INV, IBV_WR_LOCAL_INV);
SAME(UR_WR_BIND_MW, IBV_WR_BIND_MW);
SAME(UR_WR_SEND_INV, IBV_WR_SEND_WITH_INV);
SAME(UR_WR_TSO, IBV_WR_TSO);
SAME(UR_WR_ATOMIC_WRITE, IBV_WR_ATOMIC_WRITE);

SAME(UR_SEND_FENCE, IBV_SEND_FENCE);
SAME(UR_SEND_SIGNALED, IBV_SEND_SIGNALED);
SAME(UR_SEND_SOLICITED, IBV_SEND_SOLICITED);
SAME(UR_SEND_INLINE, IBV_SEND_INLINE);
SAME(UR_SEND_IP_CSUM, IBV_SEND_IP_CSUM);

SAME(UR_WC_SUCCESS, IBV_WC_SUCCESS);
SAME(UR_WC_LOC_LEN_ERR, IBV_WC_LOC_LEN_ERR);
SAME(UR_WC_LOC_QP_OP_ERR, IBV_WC_LOC_QP_OP_ERR);
SAME(UR_WC_LOC_EEC_OP_ERR, IBV_WC_LOC_EEC_OP_ERR);
SAME(UR_WC_LOC_PROT_ERR, IBV_WC_LOC_PROT_ERR);
SAME(UR_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR);
SAME(UR_WC_MW_BIND_ERR, IBV_WC_MW_BIND_ERR);
SAME(UR_WC_BAD_RESP_ERR, IBV_WC_BAD_RESP_ERR);
SAME(UR_WC_LOC_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR);
SAME(UR_WC_REM_INV_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
SAME(UR_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
SAME(UR_WC_REM_OP_ERR, IBV_WC_REM_OP_ERR);
SAME(UR_WC_RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR);
SAME(UR_WC_RNR_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR);
SAME(UR_WC_REM_INV_RD_REQ_ERR, IBV_WC_REM_INV_RD_REQ_ERR);
SAME(UR_WC_REM_ABORT_ERR, IBV_WC_REM_ABORT_ERR);
SAME(UR_WC_FATAL_ERR, IBV_WC_FATAL_ERR);
SAME(UR_WC_RESP_TIMEOUT_ERR, IBV_WC_RESP_TIMEOUT_ERR);
SAME(UR_WC_GENERAL_ERR, IBV_WC_GENERAL_ERR);

SAME(UR_WC_SEND, IBV_WC_SEND);
SAME(UR_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE);
SAME(UR_WC_RDMA_READ, IBV_WC_RDMA_READ);
SAME(UR_WC_COMP_SWAP, IBV_WC_COMP_SWAP);
SAME(UR_WC_FETCH_ADD, IBV_WC_FETCH_ADD);
SAME(UR_WC_BIND_MW, IBV_WC_BIND_MW);
SAME(UR_WC_LOCAL_INV, IBV_WC_LOCAL_INV);
SAME(UR_WC_TSO, IBV_WC_TSO);
SAME(UR_WC_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE);
SAME(UR_WC_RECV, IBV_WC_RECV);
SAME(UR_WC_RECV_RDMA_WITH_IMM, IBV_WC_RECV_RDMA_WITH_IMM);
SAME(UR_WC_TM_ADD, IBV_WC_TM_ADD);
SAME(UR_WC_TM_DEL, IBV_WC_TM_DEL);
SAME(UR_WC_TM_SYNC, IBV_WC_TM_SYNC);
SAME(UR_WC_TM_RECV, IBV_WC_TM_RECV);
SAME(UR_WC_TM_NO_TAG, IBV_WC_TM_NO_TAG);
SAME(UR_WC_TM_ERR, IBV_WC_TM_ERR);
SAME(UR_WC_TM_RNDV_INCOMPLETE, IBV_WC_TM_RNDV_INCOMPLETE);
SAME(UR_WC_TM_SYNC_REQ, IBV_WC_TM_SYNC_REQ);
SAME(UR_WC_TM_MATCH, IBV_WC_TM_MATCH);
SAME(UR_WC_TM_DATA_VALID, IBV_WC_TM_DATA_VALID);

SAME(UR_WC_GRH, IBV_WC_GRH);
SAME(UR_WC_WITH_IMM, IBV_WC_WITH_IMM);
SAME(UR_WC_IP_CSUM_OK, IBV_WC_IP_CSUM_OK);
SAME(UR_WC_WITH_INV, IBV_WC_WITH_INV);

SAME(UR_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE);
SAME(UR_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE);
SAME(UR_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ);
SAME(UR_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC);
SAME(UR_ACCESS_MW_BIND, IBV_ACCESS_MW_BIND);
SAME(UR_ACCESS_ZERO_BASED, IBV_ACCESS_ZERO_BASED);
SAME(UR_ACCESS_ON_DEMAND, IBV_ACCESS_ON_DEMAND);
SAME(UR_ACCESS_HUGETLB, IBV_ACCESS_HUGETLB);
SAME(UR_ACCESS_OPTIONAL, IBV_ACCESS_OPTIONAL_RANGE);

SAME(UR_REREG_TRANSLATION, IBV_REREG_MR_CHANGE_TRANSLATION);
SAME(UR_REREG_PD, IBV_REREG_MR_CHANGE_PD);
SAME(UR_REREG_ACCESS, IBV_REREG_MR_CHANGE_ACCESS);

SAME(UR_QP_STATE, IBV_QP_STATE);
SAME(UR_QP_CUR_STATE, IBV_QP_CUR_STATE);
SAME(UR_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_EN_SQD_ASYNC_NOTIFY);
SAME(UR_QP_ACCESS_FLAGS, IBV_QP_ACCESS_FLAGS);
SAME(UR_QP_PKEY_INDEX, IBV_QP_PKEY_INDEX);
SAME(UR_QP_PORT, IBV_QP_PORT);
SAME(UR_QP_QKEY, IBV_QP_QKEY);
SAME(UR_QP_AV, IBV_QP_AV);
SAME(UR_QP_PATH_MTU, IBV_QP_PATH_MTU);
SAME(UR_QP_TIMEOUT, IBV_QP_TIMEOUT);
SAME(UR_QP_RETRY_CNT, IBV_QP_RETRY_CNT);
SAME(UR_QP_RNR_RETRY, IBV_QP_RNR_RETRY);
SAME(UR_QP_RQ_PSN, IBV_QP_RQ_PSN);
SAME(UR_QP_MAX_QP_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC);
SAME(UR_QP_ALT_PATH, IBV_QP_ALT_PATH);
SAME(UR_QP_MIN_RNR_TIMER, IBV_QP_MIN_RNR_TIMER);
SAME(UR_QP_SQ_PSN, IBV_QP_SQ_PSN);
SAME(UR_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_DEST_RD_ATOMIC);
SAME(UR_QP_PATH_MIG_STATE, IBV_QP_PATH_MIG_STATE);
SAME(UR_QP_CAP, IBV_QP_CAP);
SAME(UR_QP_DEST_QPN, IBV_QP_DEST_QPN);
SAME(UR_QP_RATE_LIMIT, IBV_QP_RATE_LIMIT);

SAME(UR_EVENT_CQ_ERR, IBV_EVENT_CQ_ERR);
SAME(UR_EVENT_QP_FATAL, IBV_EVENT_QP_FATAL);
SAME(UR_EVENT_QP_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
SAME(UR_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
SAME(UR_EVENT_COMM_EST, IBV_EVENT_COMM_EST);
SAME(UR_EVENT_SQ_DRAINED, IBV_EVENT_SQ_DRAINED);
SAME(UR_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG);
SAME(UR_EVENT_PATH_MIG_ERR, IBV_EVENT_PATH_MIG_ERR);
SAME(UR_EVENT_DEVICE_FATAL, IBV_EVENT_DEVICE_FATAL);
SAME(UR_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ACTIVE);
SAME(UR_EVENT_PORT_ERR, IBV_EVENT_PORT_ERR);
SAME(UR_EVENT_LID_CHANGE, IBV_EVENT_LID_CHANGE);
SAME(UR_EVENT_PKEY_CHANGE, IBV_EVENT_PKEY_CHANGE);
SAME(UR_EVENT_SM_CHANGE, IBV_EVENT_SM_CHANGE);
SAME(UR_EVENT_SRQ_ERR, IBV_EVENT_SRQ_ERR);
SAME(UR_EVENT_SRQ_LIMIT_REACHED, IBV_EVENT_SRQ_LIMIT_REACHED);
SAME(UR_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_QP_LAST_WQE_REACHED);
SAME(UR_EVENT_CLIENT_REREGISTER, IBV_EVENT_CLIENT_REREGISTER);
SAME(UR_EVENT_GID_CHANGE, IBV_EVENT_GID_CHANGE);
SAME(UR_EVENT_WQ_FATAL, IBV_EVENT_WQ_FATAL);

SIZE(struct ur_sge, sizeof(struct ibv_sge));
AT(struct ur_sge, addr, offsetof(struct ibv_sge, addr));
AT(struct ur_sge, length, offsetof(struct ibv_sge, length));
AT(struct ur_sge, lkey, offsetof(struct ibv_sge, lkey));

/* The extended structures begin with the ordinary ones. */
AT(struct ibv_qp_init_attr_ex, comp_mask,
   offsetof(struct ibv_qp_init_attr, sq_sig_all) + sizeof(int));
AT(struct ibv_cq_ex, comp_mask, sizeof(struct ibv_cq));

/* So do the experimental ones. */
AT(struct ibv_exp_device_attr, phys_port_cnt,
   offsetof(struct ibv_device_attr, phys_port_cnt));
AT(struct ibv_exp_device_attr, exp_atomic_cap,
   offsetof(struct ibv_device_attr, atomic_cap));
AT(struct ibv_exp_device_attr, reserved,
   offsetof(struct ibv_device_attr, device_cap_flags));
AT(struct ibv_exp_qp_init_attr, comp_mask,
   offsetof(struct ibv_qp_init_attr_ex, comp_mask));
AT(struct ibv_exp_qp_attr, alt_timeout,
   offsetof(struct ibv_qp_attr, alt_timeout));

SIZE(struct ibv_device, 664);
AT(struct urv_device, provider_ops, 664);
AT(struct ibv_device, node_type, 16);
AT(struct ibv_device, transport_type, 20);
AT(struct ibv_device, name, 24);
AT(struct ibv_device, dev_name, 88);
AT(struct ibv_device, dev_path, 152);
AT(struct ibv_device, ibdev_path, 408);

SIZE(struct ibv_context, 328 + M);
AT(struct ibv_context, device, 0);
AT(struct ibv_context, ops.alloc_mw, 64);
AT(struct ibv_context, ops.bind_mw, 72);
AT(struct ibv_context, ops.dealloc_mw, 80);
AT(struct ibv_context, ops.poll_cq, 96);
AT(struct ibv_context, ops.req_notify_cq, 104);
AT(struct ibv_context, ops.post_srq_recv, 168);
AT(struct ibv_context, ops.post_send, 208);
AT(struct ibv_context, ops.post_recv, 216);
AT(struct ibv_context, cmd_fd, 264);
AT(struct ibv_context, async_fd, 268);
AT(struct ibv_context, num_comp_vectors, 272);
AT(struct ibv_context, abi_compat, 320 + M);

/* Operations are found by their offset before the context. */
#define BEFORE(op, distance)                                                   \
	_Static_assert(offsetof(struct verbs_context, context) -               \
				       offsetof(struct verbs_context, op) ==   \
			       (distance),                                     \
		       "place of " #op)

BEFORE(sz, 8);
BEFORE(_ABI_placeholder3, 16);
BEFORE(close_xrcd, 24);
BEFORE(create_srq_ex, 40);
BEFORE(create_qp_ex, 56);
BEFORE(query_device_ex, 104);
BEFORE(create_cq_ex, 120);
BEFORE(query_rt_values, 128);
BEFORE(query_port, 320);
_Static_assert(offsetof(struct urv_context, ibv.context) -
			       offsetof(struct urv_context, newer) +
			       sizeof(struct ibv_context) >=
		       URV_SIZEOF_VERBS_CONTEXT,
	       "room for every operation of the newest release");

_Static_assert(offsetof(struct urv_context, exp) +
			       sizeof(struct verbs_context_exp) ==
		       offsetof(struct urv_context, newer),
	       "the experimental operations end where the others begin");

SAME(UR_CALC_ADD, IBV_EXP_CALC_OP_ADD);
SAME(UR_CALC_BAND, IBV_EXP_CALC_OP_BAND);
SAME(UR_CALC_BXOR, IBV_EXP_CALC_OP_BXOR);
SAME(UR_CALC_BOR, IBV_EXP_CALC_OP_BOR);
SAME(UR_CALC_INT, IBV_EXP_CALC_DATA_TYPE_INT);
SAME(UR_CALC_UINT, IBV_EXP_CALC_DATA_TYPE_UINT);
SAME(UR_CALC_FLOAT, IBV_EXP_CALC_DATA_TYPE_FLOAT);

SIZE(struct ibv_pd, 16);
SIZE(struct ibv_mr, 48);
SIZE(struct ibv_ah, 24);
SIZE(struct ibv_cq, 128 + M);
SIZE(struct ibv_srq, 128 + M);
SIZE(struct ibv_qp, 160 + M);
SIZE(struct ibv_comp_channel, 16);
SIZE(struct ibv_wc, 48);
SIZE(struct ibv_send_wr, 128);
SIZE(struct ibv_recv_wr, 32);
SIZE(struct ibv_gid_entry, 32);
SIZE(struct ibv_async_event, 16);
SIZE(struct ibv_device_attr, 232);
SIZE(struct ibv_qp_attr, 144);

SIZE(struct ibv_cq_ex, 288 + M);
AT(struct ibv_cq_ex, status, 132 + M);
AT(struct ibv_cq_ex, wr_id, 136 + M);
AT(struct ibv_cq_ex, start_poll, 144 + M);
AT(struct ibv_cq_ex, read_opcode, 168 + M);
AT(struct ibv_cq_ex, read_completion_wallclock_ns, 280 + M);

_Static_assert(sizeof(((struct urv_qp *)0)->newest) >= sizeof(struct ibv_qp_ex),
	       "room for the newest builders");
AT(struct ibv_qp_ex, wr_id, 168 + M);
AT(struct ibv_qp_ex, wr_flags, 176 + M);
AT(struct ibv_qp_ex, wr_atomic_cmp_swp, 184 + M);
AT(struct ibv_qp_ex, wr_send, 240 + M);
AT(struct ibv_qp_ex, wr_start, 320 + M);
AT(struct ibv_qp_ex, wr_abort, 336 + M);
