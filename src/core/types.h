/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Constants and types of the adapter. Numbers equal those of infiniband/verbs.h
 * (verbs/abi_check.c asserts it), so that the ABI layer converts by copying;
 * but nothing below verbs/ includes that header.
 */
#ifndef UR_CORE_TYPES_H
#define UR_CORE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of a QP, or of an XRC SRQ: slot << UR_SLOT_SHIFT | index. */
#define UR_SLOT_SHIFT	 14u
#define UR_QPN_SLOT(qpn) ((qpn) >> UR_SLOT_SHIFT)

enum ur_qp_type {
	UR_QPT_RC = 2,
	UR_QPT_UC = 3,
	UR_QPT_UD = 4,
	UR_QPT_RAW_PACKET = 8,
	UR_QPT_XRC_SEND = 9,  /* initiator: no receives */
	UR_QPT_XRC_RECV = 10, /* target: no sends, receives of XRC SRQs */
	/* Ours: the experimental verbs have another number for the initiator, and
	 * the target is no queue pair there. */
	UR_QPT_DC_INI = 11, /* initiator: no receives */
	UR_QPT_DC_TGT = 12, /* target: no sends, receives of an SRQ */
};

enum ur_qp_state {
	UR_QPS_RESET,
	UR_QPS_INIT,
	UR_QPS_RTR,
	UR_QPS_RTS,
	UR_QPS_SQD,
	UR_QPS_SQE,
	UR_QPS_ERR,
	UR_QPS_COUNT,
};

enum ur_mig_state {
	UR_MIG_MIGRATED,
	UR_MIG_REARM,
	UR_MIG_ARMED,
};

enum ur_wr_opcode {
	UR_WR_RDMA_WRITE = 0,
	UR_WR_RDMA_WRITE_IMM = 1,
	UR_WR_SEND = 2,
	UR_WR_SEND_IMM = 3,
	UR_WR_RDMA_READ = 4,
	UR_WR_CMP_SWP = 5,
	UR_WR_FETCH_ADD = 6,
	UR_WR_LOCAL_INV = 7,
	UR_WR_BIND_MW = 8,
	UR_WR_SEND_INV = 9,
	UR_WR_TSO = 10,
	UR_WR_FLUSH = 14,
	UR_WR_ATOMIC_WRITE = 15,
	/* Ours: no ibv_wr_opcode has them. */
	UR_WR_NOP = 16,
	UR_WR_MASKED_CMP_SWP = 17,
	UR_WR_MASKED_FETCH_ADD = 18,
	UR_WR_UMR_FILL = 19,
	UR_WR_UMR_INVALIDATE = 20,
};

enum ur_send_flags {
	UR_SEND_FENCE = 1 << 0,
	UR_SEND_SIGNALED = 1 << 1,
	UR_SEND_SOLICITED = 1 << 2,
	UR_SEND_INLINE = 1 << 3,
	UR_SEND_IP_CSUM = 1 << 4,
};

enum ur_wc_status {
	UR_WC_SUCCESS = 0,
	UR_WC_LOC_LEN_ERR = 1,
	UR_WC_LOC_QP_OP_ERR = 2,
	UR_WC_LOC_EEC_OP_ERR = 3,
	UR_WC_LOC_PROT_ERR = 4,
	UR_WC_WR_FLUSH_ERR = 5,
	UR_WC_MW_BIND_ERR = 6,
	UR_WC_BAD_RESP_ERR = 7,
	UR_WC_LOC_ACCESS_ERR = 8,
	UR_WC_REM_INV_REQ_ERR = 9,
	UR_WC_REM_ACCESS_ERR = 10,
	UR_WC_REM_OP_ERR = 11,
	UR_WC_RETRY_EXC_ERR = 12,
	UR_WC_RNR_RETRY_EXC_ERR = 13,
	UR_WC_REM_INV_RD_REQ_ERR = 15,
	UR_WC_REM_ABORT_ERR = 16,
	UR_WC_FATAL_ERR = 19,
	UR_WC_RESP_TIMEOUT_ERR = 20,
	UR_WC_GENERAL_ERR = 21,
	UR_WC_TM_ERR = 22,
	UR_WC_TM_RNDV_INCOMPLETE = 23,
};

enum ur_wc_opcode {
	UR_WC_SEND = 0,
	UR_WC_RDMA_WRITE = 1,
	UR_WC_RDMA_READ = 2,
	UR_WC_COMP_SWAP = 3,
	UR_WC_FETCH_ADD = 4,
	UR_WC_BIND_MW = 5,
	UR_WC_LOCAL_INV = 6,
	UR_WC_TSO = 7,
	UR_WC_FLUSH = 8,
	UR_WC_ATOMIC_WRITE = 9,
	UR_WC_UMR = 32, /* ours: no ibv_wc_opcode has it */
	/* A bit beside the opcode, which ibv_poll_cq() does not show */
	UR_WC_MASKED = 1 << 6,
	UR_WC_MASKED_COMP_SWAP = UR_WC_MASKED | UR_WC_COMP_SWAP,
	UR_WC_MASKED_FETCH_ADD = UR_WC_MASKED | UR_WC_FETCH_ADD,
	UR_WC_RECV = 1 << 7,
	UR_WC_RECV_RDMA_WITH_IMM = (1 << 7) + 1,
	UR_WC_TM_ADD = (1 << 7) + 2,
	UR_WC_TM_DEL = (1 << 7) + 3,
	UR_WC_TM_SYNC = (1 << 7) + 4,
	UR_WC_TM_RECV = (1 << 7) + 5,
	UR_WC_TM_NO_TAG = (1 << 7) + 6,
};

enum ur_wc_flags {
	UR_WC_GRH = 1 << 0,
	UR_WC_WITH_IMM = 1 << 1,
	UR_WC_IP_CSUM_OK = 1 << 2,
	UR_WC_WITH_INV = 1 << 3,
	UR_WC_TM_SYNC_REQ = 1 << 4,
	UR_WC_TM_MATCH = 1 << 5,
	UR_WC_TM_DATA_VALID = 1 << 6,
};

enum ur_access {
	UR_ACCESS_LOCAL_WRITE = 1 << 0,
	UR_ACCESS_REMOTE_WRITE = 1 << 1,
	UR_ACCESS_REMOTE_READ = 1 << 2,
	UR_ACCESS_REMOTE_ATOMIC = 1 << 3,
	UR_ACCESS_MW_BIND = 1 << 4,
	UR_ACCESS_ZERO_BASED = 1 << 5,
	UR_ACCESS_ON_DEMAND = 1 << 6,
	UR_ACCESS_HUGETLB = 1 << 7,
	UR_ACCESS_FLUSH_GLOBAL = 1 << 8,
	UR_ACCESS_FLUSH_PERSISTENT = 1
				     << 9, /* QPs only: no memory supports it */
	UR_ACCESS_OPTIONAL = 0x3ff00000,   /* hints: ignored, never refused */
};

/* IBTA A19: placement type and selectivity of a FLUSH. */
#define UR_FLUSH_GLOBAL	    0x1u /* globally visible */
#define UR_FLUSH_PERSISTENT 0x2u /* persistent */
enum ur_flush_level {
	UR_FLUSH_RANGE,
	UR_FLUSH_MR,
};

enum ur_qp_attr_mask {
	UR_QP_STATE = 1 << 0,
	UR_QP_CUR_STATE = 1 << 1,
	UR_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
	UR_QP_ACCESS_FLAGS = 1 << 3,
	UR_QP_PKEY_INDEX = 1 << 4,
	UR_QP_PORT = 1 << 5,
	UR_QP_QKEY = 1 << 6,
	UR_QP_AV = 1 << 7,
	UR_QP_PATH_MTU = 1 << 8,
	UR_QP_TIMEOUT = 1 << 9,
	UR_QP_RETRY_CNT = 1 << 10,
	UR_QP_RNR_RETRY = 1 << 11,
	UR_QP_RQ_PSN = 1 << 12,
	UR_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	UR_QP_ALT_PATH = 1 << 14,
	UR_QP_MIN_RNR_TIMER = 1 << 15,
	UR_QP_SQ_PSN = 1 << 16,
	UR_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	UR_QP_PATH_MIG_STATE = 1 << 18,
	UR_QP_CAP = 1 << 19,
	UR_QP_DEST_QPN = 1 << 20,
	UR_QP_RATE_LIMIT = 1 << 25,
	UR_QP_DC_KEY = 1 << 26, /* ours: no ibv_qp_attr_mask has it */
};

enum ur_event_type {
	UR_EVENT_CQ_ERR,
	UR_EVENT_QP_FATAL,
	UR_EVENT_QP_REQ_ERR,
	UR_EVENT_QP_ACCESS_ERR,
	UR_EVENT_COMM_EST,
	UR_EVENT_SQ_DRAINED,
	UR_EVENT_PATH_MIG,
	UR_EVENT_PATH_MIG_ERR,
	UR_EVENT_DEVICE_FATAL,
	UR_EVENT_PORT_ACTIVE,
	UR_EVENT_PORT_ERR,
	UR_EVENT_LID_CHANGE,
	UR_EVENT_PKEY_CHANGE,
	UR_EVENT_SM_CHANGE,
	UR_EVENT_SRQ_ERR,
	UR_EVENT_SRQ_LIMIT_REACHED,
	UR_EVENT_QP_LAST_WQE_REACHED,
	UR_EVENT_CLIENT_REREGISTER,
	UR_EVENT_GID_CHANGE,
	UR_EVENT_WQ_FATAL,
	UR_EVENT_DCT_KEY_VIOLATION = 32, /* experimental verbs */
	UR_EVENT_DCT_ACCESS_ERR,
	UR_EVENT_DCT_REQ_ERR,
};

/* Path MTU codes as in verbs: 1 = 256 … 5 = 4096. */
#define UR_MTU_CODE_MAX 5u

static inline uint32_t ur_mtu_bytes(unsigned int code)
{
	return code >= 1 && code <= UR_MTU_CODE_MAX ? 128u << code : 0;
}

/* Same layout as struct ibv_sge. */
struct ur_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/* Address vector of a destination. Addresses as GIDs (IPv4 mapped). */
struct ur_av {
	uint8_t sgid[16];
	uint8_t dgid[16];
	uint32_t scope_id; /* interface to leave by; 0: the one of the route */
	uint32_t flow_label;
	uint16_t dlid;
	uint8_t sgid_index;
	uint8_t tclass;
	uint8_t hop_limit;
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate;
	uint8_t port_num;
	bool is_global; /* as the application gave it */
	bool is_local;	/* dgid is an address of this host */
	uint8_t mtu;	/* code of the path MTU; 0: not looked up */
	uint8_t dc_mtu; /* the same for requests of DC */
};

/* Limits of the adapter; each has a test that reaches and exceeds it. */
#define UR_MAX_QP_PER_LANE  16383u
#define UR_MAX_WR	    16384u
#define UR_MAX_SGE	    32u
#define UR_MAX_INLINE	    1024u
#define UR_MAX_CQE	    4194303u
#define UR_MAX_CQ	    65536u
#define UR_MAX_SRQ	    65536u
#define UR_MAX_SRQ_WR	    32768u
#define UR_MAX_MR	    1048576u
#define UR_MAX_MW	    65536u
#define UR_MAX_PD	    65536u
#define UR_MAX_DM_BYTES	    0x4000000u /* device memory, of a process */
#define UR_MAX_AH	    1048576u
#define UR_MAX_RD_ATOMIC    128u /* max_qp_rd_atom and max_qp_init_rd_atom */
#define UR_MAX_DC_RD_ATOMIC 16u	 /* max_dc_req_rd_atom and max_dc_res_rd_atom */
#define UR_MAX_MCAST_GRP    1024u
#define UR_MAX_MCAST_QP	    8192u /* QPs attached to one group */
#define UR_MAX_MSG_SIZE	    0x80000000u
#define UR_RATE_MIN_KBPS    1000u
#define UR_RATE_MAX_KBPS    100000000u
#define UR_MAX_LANES	    64u

#endif
