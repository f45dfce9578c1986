/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, memory, send requests and completions of the experimental verbs.
 * Programs include infiniband/verbs_exp.h. */
#ifndef INFINIBAND_VERBS_EXP_TYPES_H
#define INFINIBAND_VERBS_EXP_TYPES_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IBV_EXP_IMPLICIT_MR_SIZE (~((size_t)0))

/* Enumerators of 64 bits, structures without a name in unions. */
#define IBV_EXP_EXTENSION __extension__

/* Beyond the values of the standard enumerations and flags */
IBV_EXP_EXTENSION enum ibv_exp_start_values {
	IBV_EXP_START_ENUM = 0x40,
	IBV_EXP_START_FLAG_LOC = 0x20,
	IBV_EXP_START_FLAG = 1ULL << IBV_EXP_START_FLAG_LOC,
};

/* In that release, and in our <infiniband/verbs.h> for programs, these are members of
 * enum ibv_qp_type, */
#ifndef URNIC_EXP_VERBS_H
#define IBV_EXP_QP_TYPE_START ((enum ibv_qp_type)32)
#define IBV_EXP_QPT_DC_INI    ((enum ibv_qp_type)32)

/* and these of enum ibv_event_type. */
enum ibv_exp_event_type {
	IBV_EXP_EVENT_DCT_KEY_VIOLATION = 32,
	IBV_EXP_EVENT_DCT_ACCESS_ERR,
	IBV_EXP_EVENT_DCT_REQ_ERR,
};
#endif

/* Device */

enum ibv_exp_atomic_cap {
	IBV_EXP_ATOMIC_NONE = IBV_ATOMIC_NONE,
	IBV_EXP_ATOMIC_HCA = IBV_ATOMIC_HCA,
	IBV_EXP_ATOMIC_GLOB = IBV_ATOMIC_GLOB,
	IBV_EXP_ATOMIC_HCA_REPLY_BE = IBV_EXP_START_ENUM,
};

IBV_EXP_EXTENSION enum ibv_exp_device_cap_flags {
	IBV_EXP_DEVICE_RESIZE_MAX_WR = IBV_DEVICE_RESIZE_MAX_WR,
	IBV_EXP_DEVICE_BAD_PKEY_CNTR = IBV_DEVICE_BAD_PKEY_CNTR,
	IBV_EXP_DEVICE_BAD_QKEY_CNTR = IBV_DEVICE_BAD_QKEY_CNTR,
	IBV_EXP_DEVICE_RAW_MULTI = IBV_DEVICE_RAW_MULTI,
	IBV_EXP_DEVICE_AUTO_PATH_MIG = IBV_DEVICE_AUTO_PATH_MIG,
	IBV_EXP_DEVICE_CHANGE_PHY_PORT = IBV_DEVICE_CHANGE_PHY_PORT,
	IBV_EXP_DEVICE_UD_AV_PORT_ENFORCE = IBV_DEVICE_UD_AV_PORT_ENFORCE,
	IBV_EXP_DEVICE_CURR_QP_STATE_MOD = IBV_DEVICE_CURR_QP_STATE_MOD,
	IBV_EXP_DEVICE_SHUTDOWN_PORT = IBV_DEVICE_SHUTDOWN_PORT,
	IBV_EXP_DEVICE_INIT_TYPE = IBV_DEVICE_INIT_TYPE,
	IBV_EXP_DEVICE_PORT_ACTIVE_EVENT = IBV_DEVICE_PORT_ACTIVE_EVENT,
	IBV_EXP_DEVICE_SYS_IMAGE_GUID = IBV_DEVICE_SYS_IMAGE_GUID,
	IBV_EXP_DEVICE_RC_RNR_NAK_GEN = IBV_DEVICE_RC_RNR_NAK_GEN,
	IBV_EXP_DEVICE_SRQ_RESIZE = IBV_DEVICE_SRQ_RESIZE,
	IBV_EXP_DEVICE_N_NOTIFY_CQ = IBV_DEVICE_N_NOTIFY_CQ,
	IBV_EXP_DEVICE_XRC = IBV_DEVICE_XRC,
	IBV_EXP_DEVICE_DC_TRANSPORT = IBV_EXP_START_FLAG << 0,
	IBV_EXP_DEVICE_QPG = IBV_EXP_START_FLAG << 1,
	IBV_EXP_DEVICE_UD_RSS = IBV_EXP_START_FLAG << 2,
	IBV_EXP_DEVICE_UD_TSS = IBV_EXP_START_FLAG << 3,
	IBV_EXP_DEVICE_EXT_ATOMICS = IBV_EXP_START_FLAG << 4,
	IBV_EXP_DEVICE_NOP = IBV_EXP_START_FLAG << 5,
	IBV_EXP_DEVICE_UMR = IBV_EXP_START_FLAG << 6,
	IBV_EXP_DEVICE_ODP = IBV_EXP_START_FLAG << 7,
	IBV_EXP_DEVICE_EXT_MASKED_ATOMICS = IBV_EXP_START_FLAG << 14,
	IBV_EXP_DEVICE_MEM_WINDOW = IBV_EXP_START_FLAG << 17,
	IBV_EXP_DEVICE_DC_INFO = IBV_EXP_START_FLAG << 22,
	IBV_EXP_DEVICE_MW_TYPE_2A = IBV_EXP_START_FLAG << 23,
	IBV_EXP_DEVICE_MW_TYPE_2B = IBV_EXP_START_FLAG << 24,
	IBV_EXP_DEVICE_CROSS_CHANNEL = IBV_EXP_START_FLAG << 28,
	IBV_EXP_DEVICE_MANAGED_FLOW_STEERING = IBV_EXP_START_FLAG << 29,
	IBV_EXP_DEVICE_MR_ALLOCATE = IBV_EXP_START_FLAG << 30,
	IBV_EXP_DEVICE_SHARED_MR = IBV_EXP_START_FLAG << 31,
};

/* ibv_exp_device_attr.comp_mask: in, the fields wanted; out, the fields filled */
IBV_EXP_EXTENSION enum ibv_exp_device_attr_comp_mask {
	IBV_EXP_DEVICE_ATTR_CALC_CAP = 1 << 0,
	IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK = 1 << 1,
	IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK = 1 << 2,
	IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS = 1 << 3,
	IBV_EXP_DEVICE_DC_RD_REQ = 1 << 4,
	IBV_EXP_DEVICE_DC_RD_RES = 1 << 5,
	IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ = 1 << 6,
	IBV_EXP_DEVICE_ATTR_RSS_TBL_SZ = 1 << 7,
	IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS = 1 << 8,
	IBV_EXP_DEVICE_ATTR_UMR = 1 << 9,
	IBV_EXP_DEVICE_ATTR_ODP = 1 << 10,
	IBV_EXP_DEVICE_ATTR_MAX_DCT = 1 << 11,
	IBV_EXP_DEVICE_ATTR_MAX_CTX_RES_DOMAIN = 1 << 12,
	IBV_EXP_DEVICE_ATTR_RX_HASH = 1 << 13,
	IBV_EXP_DEVICE_ATTR_MAX_WQ_TYPE_RQ = 1 << 14,
	IBV_EXP_DEVICE_ATTR_MAX_DEVICE_CTX = 1 << 15,
	IBV_EXP_DEVICE_ATTR_MP_RQ = 1 << 16,
	IBV_EXP_DEVICE_ATTR_VLAN_OFFLOADS = 1 << 17,
	IBV_EXP_DEVICE_ATTR_EC_CAPS = 1 << 18,
	IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS = 1 << 19,
	IBV_EXP_DEVICE_ATTR_RX_PAD_END_ALIGN = 1 << 20,
	IBV_EXP_DEVICE_ATTR_TSO_CAPS = 1 << 21,
	IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS = 1 << 22,
	IBV_EXP_DEVICE_ATTR_EC_GF_BASE = 1 << 23,
	IBV_EXP_DEVICE_ATTR_OOO_CAPS = 1 << 24,
	IBV_EXP_DEVICE_ATTR_SW_PARSING_CAPS = 1 << 25,
	IBV_EXP_DEVICE_ATTR_ODP_MAX_SIZE = 1 << 26,
	IBV_EXP_DEVICE_ATTR_TM_CAPS = 1 << 27,
	IBV_EXP_DEVICE_ATTR_TUNNEL_OFFLOADS_CAPS = 1 << 28,
	IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE = 1 << 29,
	IBV_EXP_DEVICE_ATTR_TUNNELED_ATOMIC = 1 << 30,
	IBV_EXP_DEVICE_ATTR_COMP_MASK_2 = 1u << 31,
};

/* Programs that want every field: IBV_EXP_DEVICE_ATTR_RESERVED - 1. */
#define IBV_EXP_DEVICE_ATTR_RESERVED (1ULL << 32)

/* comp_mask_2, which IBV_EXP_DEVICE_ATTR_COMP_MASK_2 makes valid */
enum ibv_exp_device_attr_comp_mask_2 {
	IBV_EXP_DEVICE_ATTR_UMR_FIXED_SIZE_CAPS = 1 << 0,
	IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS = 1 << 1,
	IBV_EXP_DEVICE_ATTR_RESERVED_2 = 1 << 2,
};

/* Bit 1 << value of the enumerations of calculations, below */
struct ibv_exp_device_calc_cap {
	uint64_t data_types;
	uint64_t data_sizes;
	uint64_t int_ops;
	uint64_t uint_ops;
	uint64_t fp_ops;
};

/* The bit of a size has the value of its bytes. */
struct ibv_exp_ext_atomics_params {
	uint64_t log_atomic_arg_sizes;
	uint32_t max_fa_bit_boundary;
	uint32_t log_max_atomic_inline;
};

struct ibv_exp_masked_atomic_params {
	uint32_t max_fa_bit_boundary;
	uint32_t log_max_atomic_inline;
	uint64_t masked_log_atomic_arg_sizes;
	uint64_t masked_log_atomic_arg_sizes_network_endianness;
};

enum ibv_odp_general_cap_bits {
	IBV_EXP_ODP_SUPPORT = 1 << 0,
	IBV_EXP_ODP_SUPPORT_IMPLICIT = 1 << 1,
};

enum ibv_exp_odp_transport_cap_bits {
	IBV_EXP_ODP_SUPPORT_SEND = 1 << 0,
	IBV_EXP_ODP_SUPPORT_RECV = 1 << 1,
	IBV_EXP_ODP_SUPPORT_WRITE = 1 << 2,
	IBV_EXP_ODP_SUPPORT_READ = 1 << 3,
	IBV_EXP_ODP_SUPPORT_ATOMIC = 1 << 4,
	IBV_EXP_ODP_SUPPORT_SRQ_RECV = 1 << 5,
};

struct ibv_exp_umr_caps {
	uint32_t max_klm_list_size;
	uint32_t max_send_wqe_inline_klms;
	uint32_t max_umr_recursion_depth;
	uint32_t max_umr_stride_dimension;
};

struct ibv_exp_odp_caps {
	uint64_t general_odp_caps;
	struct {
		uint32_t rc_odp_caps;
		uint32_t uc_odp_caps;
		uint32_t ud_odp_caps;
		uint32_t dc_odp_caps;
		uint32_t xrc_odp_caps;
		uint32_t raw_eth_odp_caps;
	} per_transport_caps;
};

struct ibv_exp_rx_hash_caps {
	uint32_t max_rwq_indirection_tables;
	uint32_t max_rwq_indirection_table_size;
	uint8_t supported_hash_functions;
	uint64_t supported_packet_fields;
	uint32_t supported_qps;
};

struct ibv_exp_mp_rq_caps {
	uint32_t supported_qps;
	uint32_t allowed_shifts;
	uint8_t min_single_wqe_log_num_of_strides;
	uint8_t max_single_wqe_log_num_of_strides;
	uint8_t min_single_stride_log_num_of_bytes;
	uint8_t max_single_stride_log_num_of_bytes;
};

struct ibv_exp_ec_caps {
	uint32_t max_ec_data_vector_count;
	uint32_t max_ec_calc_inflight_calcs;
};

/* supported_qpts: bits of enum ibv_qp_type */
struct ibv_exp_tso_caps {
	uint32_t max_tso;
	uint32_t supported_qpts;
};

/* Rates in kbit/s */
struct ibv_exp_packet_pacing_caps {
	uint32_t qp_rate_limit_min;
	uint32_t qp_rate_limit_max;
	uint32_t supported_qpts;
	uint8_t cap_flags;
	uint8_t reserved[3];
};

/* Bits of ibv_exp_ooo_caps */
enum ibv_exp_ooo_flags {
	IBV_EXP_OOO_SUPPORT_RW_DATA_PLACEMENT = 1 << 0,
};

struct ibv_exp_ooo_caps {
	uint32_t rc_caps;
	uint32_t xrc_caps;
	uint32_t dc_caps;
	uint32_t ud_caps;
};

struct ibv_exp_sw_parsing_caps {
	uint32_t sw_parsing_offloads;
	uint32_t supported_qpts;
};

struct ibv_exp_tm_caps {
	uint32_t max_rndv_hdr_size;
	uint32_t max_num_tags;
	uint32_t capability_flags;
	uint32_t max_ops;
	uint32_t max_sge;
};

struct ibv_exp_umr_fixed_size_caps {
	uint64_t max_entity_size;
};

struct ibv_exp_pci_atomic_caps {
	uint16_t fetch_add;
	uint16_t swap;
	uint16_t compare_swap;
};

/* Up to phys_port_cnt as struct ibv_device_attr; always filled so far. */
struct ibv_exp_device_attr {
	char fw_ver[64];
	uint64_t node_guid;
	uint64_t sys_image_guid;
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;
	int reserved;
	int max_sge;
	int max_sge_rd;
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom;
	int max_ee_rd_atom;
	int max_res_rd_atom;
	int max_qp_init_rd_atom;
	int max_ee_init_rd_atom;
	enum ibv_exp_atomic_cap exp_atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach;
	int max_total_mcast_qp_attach;
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay;
	uint8_t phys_port_cnt;
	uint32_t comp_mask; /* enum ibv_exp_device_attr_comp_mask */
	struct ibv_exp_device_calc_cap calc_cap;
	uint64_t timestamp_mask;
	uint64_t hca_core_clock;       /* kHz */
	uint64_t exp_device_cap_flags; /* enum ibv_exp_device_cap_flags */
	int max_dc_req_rd_atom;
	int max_dc_res_rd_atom;
	int inline_recv_sz;
	uint32_t max_rss_tbl_sz;
	struct ibv_exp_ext_atomics_params ext_atom;
	struct ibv_exp_umr_caps umr_caps;
	struct ibv_exp_odp_caps odp_caps;
	int max_dct;
	int max_ctx_res_domain;
	struct ibv_exp_rx_hash_caps rx_hash_caps;
	uint32_t max_wq_type_rq;
	int max_device_ctx;
	struct ibv_exp_mp_rq_caps mp_rq_caps;
	uint16_t wq_vlan_offloads_cap;
	struct ibv_exp_ec_caps ec_caps;
	struct ibv_exp_masked_atomic_params masked_atomic;
	int rx_pad_end_addr_align;
	struct ibv_exp_tso_caps tso_caps;
	struct ibv_exp_packet_pacing_caps packet_pacing_caps;
	uint32_t ec_w_mask;
	struct ibv_exp_ooo_caps ooo_caps;
	struct ibv_exp_sw_parsing_caps sw_parsing_caps;
	uint64_t odp_mr_max_size;
	struct ibv_exp_tm_caps tm_caps;
	uint32_t tunnel_offloads_caps;
	uint64_t max_dm_size;
	uint32_t tunneled_atomic_caps;
	uint64_t comp_mask_2; /* enum ibv_exp_device_attr_comp_mask_2 */
	struct ibv_exp_umr_fixed_size_caps umr_fixed_size_caps;
	struct ibv_exp_pci_atomic_caps pci_atomic_caps;
};

/* Memory */

IBV_EXP_EXTENSION enum ibv_exp_access_flags {
	IBV_EXP_ACCESS_LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE,
	IBV_EXP_ACCESS_REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE,
	IBV_EXP_ACCESS_REMOTE_READ = IBV_ACCESS_REMOTE_READ,
	IBV_EXP_ACCESS_REMOTE_ATOMIC = IBV_ACCESS_REMOTE_ATOMIC,
	IBV_EXP_ACCESS_MW_BIND = IBV_ACCESS_MW_BIND,
	IBV_EXP_ACCESS_ALLOCATE_MR = IBV_EXP_START_FLAG << 5,
	IBV_EXP_ACCESS_SHARED_MR_USER_READ = IBV_EXP_START_FLAG << 6,
	IBV_EXP_ACCESS_SHARED_MR_USER_WRITE = IBV_EXP_START_FLAG << 7,
	IBV_EXP_ACCESS_SHARED_MR_GROUP_READ = IBV_EXP_START_FLAG << 8,
	IBV_EXP_ACCESS_SHARED_MR_GROUP_WRITE = IBV_EXP_START_FLAG << 9,
	IBV_EXP_ACCESS_SHARED_MR_OTHER_READ = IBV_EXP_START_FLAG << 10,
	IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE = IBV_EXP_START_FLAG << 11,
	IBV_EXP_ACCESS_NO_RDMA = IBV_EXP_START_FLAG << 12,
	IBV_EXP_ACCESS_MW_ZERO_BASED = IBV_EXP_START_FLAG << 13,
	IBV_EXP_ACCESS_ON_DEMAND = IBV_EXP_START_FLAG << 14,
	IBV_EXP_ACCESS_RELAXED = IBV_EXP_START_FLAG << 15,
	IBV_EXP_ACCESS_PHYSICAL_ADDR = IBV_EXP_START_FLAG << 16,
	IBV_EXP_ACCESS_TUNNELED_ATOMIC = IBV_EXP_START_FLAG << 17,
	IBV_EXP_ACCESS_RESERVED = IBV_EXP_START_FLAG << 18,
};

enum ibv_exp_reg_mr_in_comp_mask {
	IBV_EXP_REG_MR_CREATE_FLAGS = 1 << 0,
	IBV_EXP_REG_MR_DM = 1 << 1,
	IBV_EXP_REG_MR_RESERVED = 1 << 2,
};

enum ibv_exp_reg_mr_create_flags {
	IBV_EXP_REG_MR_CREATE_CONTIG = 1 << 0,
};

struct ibv_exp_dm;

struct ibv_exp_reg_mr_in {
	struct ibv_pd *pd;
	void *addr; /* NULL with IBV_EXP_ACCESS_ALLOCATE_MR */
	size_t length;
	uint64_t exp_access; /* enum ibv_exp_access_flags */
	uint32_t comp_mask;  /* enum ibv_exp_reg_mr_in_comp_mask */
	uint32_t create_flags;
	struct ibv_exp_dm *dm;
};

struct ibv_exp_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr;
	uint64_t length;
	uint64_t exp_mw_access_flags; /* enum ibv_exp_access_flags */
};

enum ibv_exp_bind_mw_comp_mask {
	IBV_EXP_BIND_MW_RESERVED = 1 << 0,
};

struct ibv_exp_mw_bind {
	struct ibv_qp *qp;
	struct ibv_mw *mw;
	uint64_t wr_id;
	uint64_t exp_send_flags; /* enum ibv_exp_send_flags */
	struct ibv_exp_mw_bind_info bind_info;
	uint32_t comp_mask; /* 0 */
};

enum ibv_exp_mr_create_flags {
	IBV_EXP_MR_SIGNATURE_EN = 1 << 0,
	IBV_EXP_MR_INDIRECT_KLMS = 1 << 1,
	IBV_EXP_MR_FIXED_BUFFER_SIZE = 1 << 2,
};

struct ibv_exp_mr_init_attr {
	uint32_t max_klm_list_size;
	uint32_t create_flags;	   /* enum ibv_exp_mr_create_flags */
	uint64_t exp_access_flags; /* enum ibv_exp_access_flags */
};

enum ibv_exp_create_mr_in_comp_mask {
	IBV_EXP_CREATE_MR_IN_RESERVED = 1 << 0,
};

struct ibv_exp_create_mr_in {
	struct ibv_pd *pd;
	struct ibv_exp_mr_init_attr attr;
	uint32_t comp_mask; /* 0 */
};

enum ibv_exp_mkey_attr_comp_mask {
	IBV_EXP_MKEY_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_mkey_attr {
	uint32_t max_klm_list_size;
	uint32_t comp_mask; /* 0 */
};

enum ibv_exp_mkey_list_type {
	IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR,
};

enum ibv_exp_alloc_mkey_list_comp_mask {
	IBV_EXP_MKEY_LIST_CONTAINER_RESERVED = 1 << 0,
};

struct ibv_exp_mkey_list_container_attr {
	struct ibv_pd *pd;
	uint32_t mkey_list_type; /* enum ibv_exp_mkey_list_type */
	uint32_t max_klm_list_size;
	uint32_t comp_mask; /* 0 */
};

struct ibv_exp_mkey_list_container {
	uint32_t max_klm_list_size;
	struct ibv_context *context;
};

struct ibv_exp_mem_region {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t length;
};

/* byte_count and stride: arrays of stride_dim entries */
struct ibv_exp_mem_repeat_block {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t *byte_count;
	size_t *stride;
};

enum ibv_exp_umr_wr_type {
	IBV_EXP_UMR_MR_LIST,
	IBV_EXP_UMR_REPEAT,
	IBV_EXP_UMR_MR_LIST_FIXED_SIZE,
};

/* Send requests */

enum ibv_exp_calc_op {
	IBV_EXP_CALC_OP_ADD = 0,
	IBV_EXP_CALC_OP_MAXLOC,
	IBV_EXP_CALC_OP_BAND,
	IBV_EXP_CALC_OP_BXOR,
	IBV_EXP_CALC_OP_BOR,
	IBV_EXP_CALC_OP_NUMBER,
};

enum ibv_exp_calc_data_type {
	IBV_EXP_CALC_DATA_TYPE_INT = 0,
	IBV_EXP_CALC_DATA_TYPE_UINT,
	IBV_EXP_CALC_DATA_TYPE_FLOAT,
	IBV_EXP_CALC_DATA_TYPE_NUMBER,
};

enum ibv_exp_calc_data_size {
	IBV_EXP_CALC_DATA_SIZE_64_BIT = 0,
	IBV_EXP_CALC_DATA_SIZE_NUMBER,
};

enum ibv_exp_wr_opcode {
	IBV_EXP_WR_RDMA_WRITE = IBV_WR_RDMA_WRITE,
	IBV_EXP_WR_RDMA_WRITE_WITH_IMM = IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_EXP_WR_SEND = IBV_WR_SEND,
	IBV_EXP_WR_SEND_WITH_IMM = IBV_WR_SEND_WITH_IMM,
	IBV_EXP_WR_RDMA_READ = IBV_WR_RDMA_READ,
	IBV_EXP_WR_ATOMIC_CMP_AND_SWP = IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_ATOMIC_FETCH_AND_ADD = IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_EXP_WR_LOCAL_INV = IBV_WR_LOCAL_INV,
	IBV_EXP_WR_BIND_MW = IBV_WR_BIND_MW,
	IBV_EXP_WR_SEND_WITH_INV = IBV_WR_SEND_WITH_INV,
	IBV_EXP_WR_TSO = 15 + IBV_EXP_START_ENUM,
	IBV_EXP_WR_SEND_ENABLE = 0x20 + IBV_EXP_START_ENUM,
	IBV_EXP_WR_RECV_ENABLE,
	IBV_EXP_WR_CQE_WAIT,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
	IBV_EXP_WR_NOP,
	IBV_EXP_WR_UMR_FILL,
	IBV_EXP_WR_UMR_INVALIDATE,
};

IBV_EXP_EXTENSION enum ibv_exp_send_flags {
	IBV_EXP_SEND_FENCE = IBV_SEND_FENCE,
	IBV_EXP_SEND_SIGNALED = IBV_SEND_SIGNALED,
	IBV_EXP_SEND_SOLICITED = IBV_SEND_SOLICITED,
	IBV_EXP_SEND_INLINE = IBV_SEND_INLINE,
	IBV_EXP_SEND_IP_CSUM = IBV_EXP_START_FLAG << 0,
	IBV_EXP_SEND_WITH_CALC = IBV_EXP_START_FLAG << 1,
	IBV_EXP_SEND_WAIT_EN_LAST = IBV_EXP_START_FLAG << 2,
	IBV_EXP_SEND_EXT_ATOMIC_INLINE = IBV_EXP_START_FLAG << 3,
};

struct ibv_exp_cmp_swap {
	uint64_t compare_mask;
	uint64_t compare_val;
	uint64_t swap_val;
	uint64_t swap_mask;
};

struct ibv_exp_fetch_add {
	uint64_t add_val;
	uint64_t field_boundary;
};

enum ibv_exp_send_wr_comp_mask {
	IBV_EXP_SEND_WR_ATTR_RESERVED = 1 << 0,
};

IBV_EXP_EXTENSION struct ibv_exp_send_wr {
	uint64_t wr_id;
	struct ibv_exp_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_exp_wr_opcode exp_opcode;
	int reserved;
	union {
		uint32_t imm_data; /* network byte order */
		uint32_t invalidate_rkey;
	} ex;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
	} wr;
	union {
		union {
			struct {
				uint32_t remote_srqn;
			} xrc;
		} qp_type;
		uint32_t xrc_remote_srq_num;
	};
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_cq *cq;
			int32_t cq_count;
		} cqe_wait;
		struct {
			struct ibv_qp *qp;
			int32_t wqe_count;
		} wqe_enable;
	} task;
	union {
		struct {
			enum ibv_exp_calc_op calc_op;
			enum ibv_exp_calc_data_type data_type;
			enum ibv_exp_calc_data_size data_size;
		} calc;
	} op;
	struct {
		struct ibv_ah *ah;
		uint64_t dct_access_key;
		uint32_t dct_number;
	} dc;
	union {
		struct {
			struct ibv_mw *mw;
			uint32_t rkey;
			struct ibv_exp_mw_bind_info bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz;
			uint16_t mss;
		} tso;
	};
	uint64_t exp_send_flags; /* enum ibv_exp_send_flags */
	uint32_t comp_mask;	 /* 0 */
	union {
		struct {
			uint32_t umr_type; /* enum ibv_exp_umr_wr_type */
			struct ibv_exp_mkey_list_container *memory_objects;
			uint64_t exp_access; /* enum ibv_exp_access_flags */
			struct ibv_mr *modified_mr;
			uint64_t base_addr;
			uint32_t num_mrs;
			union {
				struct ibv_exp_mem_region *mem_reg_list;
				struct {
					struct ibv_exp_mem_repeat_block
						*mem_repeat_block_list;
					size_t *repeat_count;
					uint32_t stride_dim;
				} rb;
			} mem_list;
		} umr;
		struct {
			uint32_t log_arg_sz; /* log2 of the operand's bytes */
			uint64_t remote_addr;
			uint32_t rkey;
			union {
				struct {
					union {
						struct ibv_exp_cmp_swap
							cmp_swap;
						struct ibv_exp_fetch_add
							fetch_add;
					} op;
				} inline_data;
			} wr_data;
		} masked_atomics;
	} ext_op;
};

/* Completions */

enum ibv_exp_wc_opcode {
	IBV_EXP_WC_SEND,
	IBV_EXP_WC_RDMA_WRITE,
	IBV_EXP_WC_RDMA_READ,
	IBV_EXP_WC_COMP_SWAP,
	IBV_EXP_WC_FETCH_ADD,
	IBV_EXP_WC_BIND_MW,
	IBV_EXP_WC_LOCAL_INV,
	IBV_EXP_WC_MASKED_COMP_SWAP = 9,
	IBV_EXP_WC_MASKED_FETCH_ADD = 10,
	IBV_EXP_WC_TSO,
	IBV_EXP_WC_UMR = 0x100,
	IBV_EXP_WC_RECV = 1 << 7, /* a bit of every receive */
	IBV_EXP_WC_RECV_RDMA_WITH_IMM,
	IBV_EXP_WC_TM_ADD = IBV_EXP_WC_RECV + IBV_EXP_START_ENUM,
	IBV_EXP_WC_TM_DEL,
	IBV_EXP_WC_TM_SYNC,
	IBV_EXP_WC_TM_RECV,
	IBV_EXP_WC_TM_NO_TAG,
};

IBV_EXP_EXTENSION enum ibv_exp_wc_flags {
	IBV_EXP_WC_GRH = IBV_WC_GRH,
	IBV_EXP_WC_WITH_IMM = IBV_WC_WITH_IMM,
	IBV_EXP_WC_WITH_INV = IBV_WC_WITH_INV,
	IBV_EXP_WC_WITH_SL = IBV_EXP_START_FLAG << 4,
	IBV_EXP_WC_WITH_SLID = IBV_EXP_START_FLAG << 5,
	IBV_EXP_WC_WITH_TIMESTAMP = IBV_EXP_START_FLAG << 6,
	IBV_EXP_WC_QP = IBV_EXP_START_FLAG << 7,
	IBV_EXP_WC_SRQ = IBV_EXP_START_FLAG << 8,
	IBV_EXP_WC_DCT = IBV_EXP_START_FLAG << 9,
	IBV_EXP_WC_RX_IP_CSUM_OK = IBV_EXP_START_FLAG << 10,
	IBV_EXP_WC_RX_TCP_UDP_CSUM_OK = IBV_EXP_START_FLAG << 11,
	IBV_EXP_WC_TM_SYNC_REQ = IBV_EXP_START_FLAG << 19,
	IBV_EXP_WC_TM_MATCH = IBV_EXP_START_FLAG << 21,
	IBV_EXP_WC_TM_DATA_VALID = IBV_EXP_START_FLAG << 22,
};

struct ibv_exp_dct;

IBV_EXP_EXTENSION struct ibv_exp_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_exp_wc_opcode exp_opcode;
	uint32_t vendor_err;
	union {
		uint32_t byte_len;
		struct {
			uint16_t strides_offset;
			uint16_t byte_len;
		} mp_wr;
	};
	uint32_t imm_data; /* network byte order, or the invalidated key */
	uint32_t qp_num;
	uint32_t src_qp;
	int reserved;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
	/* Valid if the flag of that name is in exp_wc_flags */
	uint64_t timestamp;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_exp_dct *dct;
	uint64_t exp_wc_flags; /* enum ibv_exp_wc_flags */
	struct {
		uint64_t tag;
		uint32_t priv;
	} tm_info;
};

#ifdef __cplusplus
}
#endif

#endif
