/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs, completion queues, tasks and DC targets of the experimental
 * verbs.  Programs include infiniband/verbs_exp.h. */
#ifndef INFINIBAND_VERBS_EXP_QP_H
#define INFINIBAND_VERBS_EXP_QP_H

#include <infiniband/verbs_exp_types.h>
#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_exp_peer_direct_attr;
struct ibv_exp_rwq_ind_table;

struct ibv_exp_res_domain {
	struct ibv_context *context;
};

/* Queue pairs */

enum ibv_exp_qp_init_attr_comp_mask {
	IBV_EXP_QP_INIT_ATTR_PD = 1 << 0,
	IBV_EXP_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_EXP_QP_INIT_ATTR_INL_RECV = 1 << 3,
	IBV_EXP_QP_INIT_ATTR_QPG = 1 << 4,
	IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG = 1 << 5,
	IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS = 1 << 6,
	IBV_EXP_QP_INIT_ATTR_RESERVED = 1 << 7, /* of old programs */
	IBV_EXP_QP_INIT_ATTR_RES_DOMAIN = 1 << 7,
	IBV_EXP_QP_INIT_ATTR_RX_HASH = 1 << 8,
	IBV_EXP_QP_INIT_ATTR_PORT = 1 << 9,
	IBV_EXP_QP_INIT_ATTR_PEER_DIRECT = 1 << 10,
	IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 11,
	IBV_EXP_QP_INIT_ATTR_ASSOCIATED_QPN = 1 << 12,
	IBV_EXP_QP_INIT_ATTR_RESERVED1 = 1 << 13,
};

enum ibv_exp_qp_create_flags {
	IBV_EXP_QP_CREATE_CROSS_CHANNEL = 1 << 2,
	IBV_EXP_QP_CREATE_MANAGED_SEND = 1 << 3,
	IBV_EXP_QP_CREATE_MANAGED_RECV = 1 << 4,
	IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW = 1 << 6,
	IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW = 1 << 7,
	IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY = 1 << 8,
	IBV_EXP_QP_CREATE_UMR = 1 << 9,
	IBV_EXP_QP_CREATE_MASK = 0x13fdc, /* all of that release */
};

enum ibv_exp_qpg_type {
	IBV_EXP_QPG_NONE = 0,
	IBV_EXP_QPG_PARENT = 1 << 0,
	IBV_EXP_QPG_CHILD_RX = 1 << 1,
	IBV_EXP_QPG_CHILD_TX = 1 << 2,
};

struct ibv_exp_qpg_init_attrib {
	uint32_t tss_child_count;
	uint32_t rss_child_count;
};

IBV_EXP_EXTENSION struct ibv_exp_qpg {
	uint32_t qpg_type; /* enum ibv_exp_qpg_type */
	union {
		struct ibv_qp *qpg_parent;
		struct ibv_exp_qpg_init_attrib parent_attrib;
	};
};

struct ibv_exp_rx_hash_conf {
	uint8_t rx_hash_function;
	uint8_t rx_hash_key_len;
	uint8_t *rx_hash_key;
	uint64_t rx_hash_fields_mask;
	struct ibv_exp_rwq_ind_table *rwq_ind_tbl;
};

/* Up to sq_sig_all as struct ibv_qp_init_attr */
struct ibv_exp_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	uint32_t comp_mask; /* enum ibv_exp_qp_init_attr_comp_mask */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t exp_create_flags; /* enum ibv_exp_qp_create_flags */
	uint32_t max_inl_recv;	   /* in: wanted, out: granted */
	struct ibv_exp_qpg qpg;
	uint32_t max_atomic_arg; /* bytes */
	uint32_t max_inl_send_klms;
	struct ibv_exp_res_domain *res_domain;
	struct ibv_exp_rx_hash_conf *rx_hash_conf;
	uint8_t port_num;
	struct ibv_exp_peer_direct_attr *peer_direct_attrs;
	uint16_t max_tso_header;
	uint32_t associated_qpn;
};

IBV_EXP_EXTENSION enum ibv_exp_qp_attr_mask {
	IBV_EXP_QP_STATE = IBV_QP_STATE,
	IBV_EXP_QP_CUR_STATE = IBV_QP_CUR_STATE,
	IBV_EXP_QP_EN_SQD_ASYNC_NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	IBV_EXP_QP_ACCESS_FLAGS = IBV_QP_ACCESS_FLAGS,
	IBV_EXP_QP_PKEY_INDEX = IBV_QP_PKEY_INDEX,
	IBV_EXP_QP_PORT = IBV_QP_PORT,
	IBV_EXP_QP_QKEY = IBV_QP_QKEY,
	IBV_EXP_QP_AV = IBV_QP_AV,
	IBV_EXP_QP_PATH_MTU = IBV_QP_PATH_MTU,
	IBV_EXP_QP_TIMEOUT = IBV_QP_TIMEOUT,
	IBV_EXP_QP_RETRY_CNT = IBV_QP_RETRY_CNT,
	IBV_EXP_QP_RNR_RETRY = IBV_QP_RNR_RETRY,
	IBV_EXP_QP_RQ_PSN = IBV_QP_RQ_PSN,
	IBV_EXP_QP_MAX_QP_RD_ATOMIC = IBV_QP_MAX_QP_RD_ATOMIC,
	IBV_EXP_QP_ALT_PATH = IBV_QP_ALT_PATH,
	IBV_EXP_QP_MIN_RNR_TIMER = IBV_QP_MIN_RNR_TIMER,
	IBV_EXP_QP_SQ_PSN = IBV_QP_SQ_PSN,
	IBV_EXP_QP_MAX_DEST_RD_ATOMIC = IBV_QP_MAX_DEST_RD_ATOMIC,
	IBV_EXP_QP_PATH_MIG_STATE = IBV_QP_PATH_MIG_STATE,
	IBV_EXP_QP_CAP = IBV_QP_CAP,
	IBV_EXP_QP_DEST_QPN = IBV_QP_DEST_QPN,
	IBV_EXP_QP_GROUP_RSS = IBV_EXP_START_FLAG << 21,
	IBV_EXP_QP_DC_KEY = IBV_EXP_START_FLAG << 22,
	IBV_EXP_QP_FLOW_ENTROPY = IBV_EXP_START_FLAG << 23,
	IBV_EXP_QP_OOO_RW_DATA_PLACEMENT = IBV_EXP_START_FLAG << 24,
	IBV_EXP_QP_RATE_LIMIT = IBV_EXP_START_FLAG << 25,
};

enum ibv_exp_qp_attr_comp_mask {
	IBV_EXP_QP_ATTR_FLOW_ENTROPY = 1 << 0,
	IBV_EXP_QP_ATTR_BURST_INFO = 1 << 1,
	IBV_EXP_QP_ATTR_RESERVED = 1 << 2,
};

struct ibv_exp_burst_info {
	uint32_t max_burst_sz;
	uint16_t typical_pkt_sz;
};

/* Up to alt_timeout as struct ibv_qp_attr */
struct ibv_exp_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_qp_state cur_qp_state;
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	int qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint64_t dct_key;
	uint32_t comp_mask; /* enum ibv_exp_qp_attr_comp_mask */
	uint32_t flow_entropy;
	uint32_t rate_limit; /* kbit/s */
	struct ibv_exp_burst_info burst_info;
};

/* Completion queues */

enum ibv_exp_cq_create_flags {
	IBV_EXP_CQ_CREATE_CROSS_CHANNEL = 1 << 0,
	IBV_EXP_CQ_TIMESTAMP = 1 << 1,
	IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME = 1 << 2,
	IBV_EXP_CQ_COMPRESSED_CQE = 1 << 3,
	IBV_EXP_CQ_AS_NOTIFY = 1 << 4,
	IBV_EXP_CQ_CREATE_FLAGS_MASK = 0x1f,
};

enum ibv_exp_cq_init_attr_mask {
	IBV_EXP_CQ_INIT_ATTR_FLAGS = 1 << 0,
	IBV_EXP_CQ_INIT_ATTR_RESERVED = 1 << 1, /* of old programs */
	IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN = 1 << 1,
	IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT = 1 << 2,
	IBV_EXP_CQ_INIT_ATTR_RESERVED1 = 1 << 3,
};

struct ibv_exp_cq_init_attr {
	uint32_t comp_mask; /* enum ibv_exp_cq_init_attr_mask */
	uint32_t flags;	    /* enum ibv_exp_cq_create_flags */
	struct ibv_exp_res_domain *res_domain;
	struct ibv_exp_peer_direct_attr *peer_direct_attrs;
};

/* The argument of ibv_exp_modify_cq() */
enum ibv_exp_cq_attr_mask {
	IBV_EXP_CQ_MODERATION = 1 << 0,
	IBV_EXP_CQ_CAP_FLAGS = 1 << 1,
};

enum ibv_exp_cq_cap_flags {
	IBV_EXP_CQ_IGNORE_OVERRUN = 1 << 0,
	IBV_EXP_CQ_CAP_MASK = 0x1,
};

enum ibv_exp_cq_attr_comp_mask {
	IBV_EXP_CQ_ATTR_MODERATION = 1 << 0,
	IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS = 1 << 1,
	IBV_EXP_CQ_ATTR_RESERVED = 1 << 2,
};

struct ibv_exp_cq_attr {
	uint32_t comp_mask; /* enum ibv_exp_cq_attr_comp_mask */
	struct {
		uint16_t cq_count;
		uint16_t cq_period; /* microseconds */
	} moderation;
	uint32_t cq_cap_flags; /* enum ibv_exp_cq_cap_flags */
};

/* Tasks */

enum ibv_exp_task_type {
	IBV_EXP_TASK_SEND = 0,
	IBV_EXP_TASK_RECV = 1,
};

enum ibv_exp_task_comp_mask {
	IBV_EXP_TASK_RESERVED = 1 << 0,
};

IBV_EXP_EXTENSION struct ibv_exp_task {
	enum ibv_exp_task_type task_type;
	struct {
		struct ibv_qp *qp;
		union {
			struct ibv_exp_send_wr *send_wr;
			struct ibv_recv_wr *recv_wr;
		};
	} item;
	struct ibv_exp_task *next;
	uint32_t comp_mask; /* 0 */
};

/* DC targets */

enum ibv_exp_dct_init_attr_comp_mask {
	IBV_EXP_DCT_INIT_ATTR_RESERVED = 1 << 0,
};

enum ibv_exp_dct_create_flags {
	IBV_EXP_DCT_OOO_RW_DATA_PLACEMENT = 1 << 0,
	IBV_EXP_DCT_CREATE_FLAGS_MASK = IBV_EXP_DCT_OOO_RW_DATA_PLACEMENT,
};

struct ibv_exp_dct_init_attr {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint64_t dc_key;
	uint8_t port;
	uint32_t access_flags; /* enum ibv_access_flags */
	uint8_t min_rnr_timer;
	uint8_t tclass;
	uint32_t flow_label;
	enum ibv_mtu mtu;
	uint8_t pkey_index;
	uint8_t gid_index;
	uint8_t hop_limit;
	uint32_t inline_size;
	uint32_t create_flags; /* enum ibv_exp_dct_create_flags */
	uint32_t comp_mask;    /* 0 */
};

enum {
	IBV_EXP_DCT_STATE_ACTIVE = 0,
	IBV_EXP_DCT_STATE_DRAINING = 1,
	IBV_EXP_DCT_STATE_DRAINED = 2,
};

enum ibv_exp_dct_attr_comp_mask {
	IBV_EXP_DCT_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_dct_attr {
	uint64_t dc_key;
	uint8_t port;
	uint32_t access_flags; /* enum ibv_access_flags */
	uint8_t min_rnr_timer;
	uint8_t tclass;
	uint32_t flow_label;
	enum ibv_mtu mtu;
	uint8_t pkey_index;
	uint8_t gid_index;
	uint8_t hop_limit;
	uint32_t key_violations;
	uint8_t state; /* IBV_EXP_DCT_STATE_ */
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	uint32_t comp_mask; /* 0 */
};

struct ibv_exp_dct {
	struct ibv_context *context;
	uint32_t handle;
	uint32_t dct_num;
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

enum ibv_exp_arm_attr_comp_mask {
	IBV_EXP_ARM_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_arm_attr {
	uint32_t comp_mask; /* 0 */
};

enum {
	IBV_EXP_NUM_DC_INFO_LIDS = 30,
};

struct ibv_exp_dc_info_ent {
	uint16_t lid[IBV_EXP_NUM_DC_INFO_LIDS];
	uint32_t seqnum;
};

#ifdef __cplusplus
}
#endif

#endif
