/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of the device and its ports. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/tm.h"
#include "iwarp/iwarp.h"
#include "verbs/convert.h"
#include "verbs/objects.h"
#include "verbs/ops.h"
#include "verbs/query.h"

/* verbs.h wraps it to reach the extended call. */
#undef ibv_query_port

#define HW_VERSION	   1u
#define LOCAL_CA_ACK_DELAY 15u
#define CORE_CLOCK_KHZ	   1000000u /* time stamps count nanoseconds */

/* Bytes of ibv_port_attr in IBVERBS_1.1: up to and with `flags`. */
#define COMPAT_PORT_ATTR_LEN   48u
#define ACTIVE_SPEED_EX_OFFSET 52u

#define PHYS_STATE_DISABLED 3u
#define PHYS_STATE_LINK_UP  5u

#define DEVICE_CAPS                                                            \
	(IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |                 \
	 IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |         \
	 IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |               \
	 IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_RAW_IP_CSUM |                   \
	 IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_SRQ_RESIZE |            \
	 IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |                              \
	 IBV_DEVICE_MEM_WINDOW_TYPE_2B)

#define IWARP_CAPS                                                             \
	(IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |            \
	 IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW |                       \
	 IBV_DEVICE_MEM_WINDOW_TYPE_2B)

/* The kernel's names: IB_UVERBS_DEVICE_* */
#define CAP_FLUSH_GLOBAL (UINT64_C(1) << 38)
#define CAP_ATOMIC_WRITE (UINT64_C(1) << 40)

#define ODP_RC                                                                 \
	(IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | \
	 IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |                       \
	 IBV_ODP_SUPPORT_SRQ_RECV)
/* IBV_ODP_SUPPORT_FLUSH and _ATOMIC_WRITE, which older headers lack. */
#define ODP_PLACED (1u << 6 | 1u << 7)
#define ODP_UC                                                                 \
	(IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | \
	 IBV_ODP_SUPPORT_SRQ_RECV)
#define ODP_UD                                                                 \
	(IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV)

/* Link widths and speeds as IBTA's PortInfo has them, slowest first. */
static const struct {
	uint32_t mbps;
	uint8_t width; /* 1: 1x, 2: 4x, 4: 8x */
	uint8_t speed; /* of a lane: 1, 2, 4: 2.5, 5, 10 Gbit/s; 16: 14 and so on */
} link_rates[] = {
	{ 2500, 1, 1 },	   { 5000, 1, 2 },     { 10000, 1, 4 },
	{ 20000, 2, 2 },   { 25000, 1, 32 },   { 40000, 2, 4 },
	{ 50000, 1, 64 },  { 56000, 2, 16 },   { 100000, 2, 32 },
	{ 200000, 2, 64 }, { 400000, 2, 128 }, { 800000, 4, 128 },
};

int urv_check_port(const struct ibv_context *context, uint32_t port_num)
{
	return ur_dev_has_port(urv_context(context)->dev, port_num) ? 0
								    : -EINVAL;
}

static void fill_limits(struct ibv_device_attr *a,
			const struct ur_dev_limits *max)
{
	a->max_qp = (int)max->max_qp;
	a->max_qp_wr = (int)max->max_qp_wr;
	a->max_sge = UR_MAX_SGE;
	a->max_sge_rd = UR_MAX_SGE;
	a->max_cq = (int)max->max_cq;
	a->max_cqe = (int)max->max_cqe;
	a->max_mr = (int)max->max_mr;
	a->max_mw = UR_MAX_MW;
	a->max_pd = (int)max->max_pd;
	a->max_qp_rd_atom = UR_MAX_RD_ATOMIC;
	a->max_res_rd_atom = UR_MAX_RD_ATOMIC * UR_MAX_QP_PER_LANE;
	a->max_qp_init_rd_atom = UR_MAX_RD_ATOMIC;
	a->max_mcast_grp = UR_MAX_MCAST_GRP;
	a->max_mcast_qp_attach = UR_MAX_MCAST_QP;
	a->max_total_mcast_qp_attach = UR_MAX_MCAST_GRP * UR_MAX_MCAST_QP;
	a->max_ah = (int)max->max_ah;
	a->max_srq = (int)max->max_srq;
	a->max_srq_wr = (int)max->max_srq_wr;
	a->max_srq_sge = UR_MAX_SGE;
	a->max_pkeys = UR_PKEY_TABLE_LEN;
	a->local_ca_ack_delay = LOCAL_CA_ACK_DELAY;
	a->device_cap_flags = DEVICE_CAPS;
}

/* iWARP has no datagrams, so no address handles, groups or partitions. */
static void limit_to_iwarp(struct ibv_device_attr *a)
{
	a->max_qp_rd_atom = UR_IW_MAX_IRD;
	a->max_res_rd_atom = (int)(UR_IW_MAX_IRD * UR_MAX_QP_PER_LANE);
	a->max_qp_init_rd_atom = UR_IW_MAX_IRD;
	a->max_mcast_grp = 0;
	a->max_mcast_qp_attach = 0;
	a->max_total_mcast_qp_attach = 0;
	a->max_ah = 0;
	a->max_pkeys = 0;
	a->local_ca_ack_delay = 0;
	a->device_cap_flags = IWARP_CAPS;
}

const char *urv_fw_ver(const struct ur_dev *dev)
{
	return dev->spec.fw_ver[0] ? dev->spec.fw_ver : UR_VERSION;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *a)
{
	struct urv_context *c = urv_context(context);
	struct ur_dev *dev = c->dev;
	long page = sysconf(_SC_PAGESIZE);
	int rc = urv_context_check(context);

	if (rc)
		return urv_errno(rc);
	memset(a, 0, sizeof(*a));
	snprintf(a->fw_ver, sizeof(a->fw_ver), "%s", urv_fw_ver(dev));
	a->node_guid = htobe64(dev->node_guid);
	a->sys_image_guid = htobe64(dev->sys_image_guid);
	a->max_mr_size = UINT64_MAX;
	a->page_size_cap = ~((uint64_t)page - 1);
	a->vendor_id = dev->spec.vendor_id;
	a->vendor_part_id = dev->spec.vendor_part_id;
	a->hw_ver = HW_VERSION;
	a->atomic_cap = IBV_ATOMIC_HCA;
	a->phys_port_cnt = (uint8_t)dev->spec.nports;
	fill_limits(a, &dev->spec.max);
	if (urv_is_iwarp(c))
		limit_to_iwarp(a);
	return 0;
}

/* Raw packet capabilities, for devices that have them. */
static void fill_raw(struct ibv_device_attr_ex *a)
{
	const uint32_t raw = 1u << IBV_QPT_RAW_PACKET;

	a->tso_caps = (struct ibv_tso_caps){ UR_MAX_TSO, raw };
	a->rss_caps = (struct ibv_rss_caps){
		.supported_qpts = raw,
		.max_rwq_indirection_tables = UR_MAX_RWQ_TABLES,
		.max_rwq_indirection_table_size = UR_MAX_RWQ_TABLE,
		.rx_hash_fields_mask = UR_RSS_FIELDS,
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	};
	a->max_wq_type_rq = UR_MAX_WQ;
	a->raw_packet_caps =
		IBV_RAW_PACKET_CAP_CVLAN_STRIPPING | IBV_RAW_PACKET_CAP_IP_CSUM;
}

static void fill_tm(struct ibv_tm_caps *t)
{
	t->max_rndv_hdr_size = UR_TM_MAX_RNDV_HDR;
	t->max_num_tags = UR_TM_MAX_TAGS;
	t->flags = IBV_TM_CAP_RC;
	t->max_ops = UR_TM_MAX_OPS;
	t->max_sge = UR_TM_MAX_SGE;
}

/* Registration pins nothing, so every region has on-demand paging. */
static void fill_extended(struct ibv_device_attr_ex *a, bool iwarp)
{
	a->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	a->max_dm_size = UR_MAX_DM_BYTES;
	a->odp_caps.per_transport_caps.rc_odp_caps = ODP_RC;
	if (!iwarp) {
		a->odp_caps.per_transport_caps.rc_odp_caps |= ODP_PLACED;
		a->odp_caps.per_transport_caps.uc_odp_caps = ODP_UC;
		a->odp_caps.per_transport_caps.ud_odp_caps = ODP_UD;
		a->xrc_odp_caps = ODP_RC;
		fill_tm(&a->tm_caps);
		fill_raw(a);
	}
	a->cq_mod_caps.max_cq_count = UINT16_MAX;
	a->cq_mod_caps.max_cq_period = UINT16_MAX;
	a->completion_timestamp_mask = UINT64_MAX;
	a->hca_core_clock = CORE_CLOCK_KHZ;
	a->device_cap_flags_ex = a->orig_attr.device_cap_flags;
	if (!iwarp)
		a->device_cap_flags_ex |= CAP_FLUSH_GLOBAL | CAP_ATOMIC_WRITE;
	a->phys_port_cnt_ex = a->orig_attr.phys_port_cnt;
}

static void fill_pacing(struct ibv_packet_pacing_caps *p)
{
	p->qp_rate_limit_min = UR_RATE_MIN_KBPS;
	p->qp_rate_limit_max = UR_RATE_MAX_KBPS;
	p->supported_qpts = 1u << IBV_QPT_RC | 1u << IBV_QPT_UC |
			    1u << IBV_QPT_UD | 1u << IBV_QPT_XRC_SEND |
			    1u << IBV_QPT_RAW_PACKET;
}

/* Copies as much as the caller's structure has room for; zeroes fields unknown
 * here. */
static void copy_sized(void *dst, size_t dst_len, const void *src,
		       size_t src_len)
{
	size_t n = dst_len < src_len ? dst_len : src_len;

	memcpy(dst, src, n);
	memset((uint8_t *)dst + n, 0, dst_len - n);
}

int urv_query_device_ex(struct ibv_context *context,
			const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex full;
	int rc;

	if (input && input->comp_mask)
		return urv_errno(-EINVAL);
	memset(&full, 0, sizeof(full));
	rc = ibv_query_device(context, &full.orig_attr);
	if (rc)
		return rc;
	fill_extended(&full, urv_is_iwarp(urv_context(context)));
	if (!urv_is_iwarp(urv_context(context)))
		fill_pacing(&full.packet_pacing_caps);
	copy_sized(attr, attr_size, &full, sizeof(full));
	return 0;
}

static void fill_rate(struct ibv_port_attr *a, uint64_t mbps)
{
	size_t i = 0;

	while (i + 1 < sizeof(link_rates) / sizeof(link_rates[0]) &&
	       link_rates[i + 1].mbps <= mbps)
		i++;
	a->active_width = link_rates[i].width;
	a->active_speed = link_rates[i].speed;
}

static void fill_port(const struct urv_context *c, struct ibv_port_attr *a,
		      const struct ur_port_attr *p)
{
	a->state = p->active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	a->max_mtu = p->max_mtu;
	a->active_mtu = p->active_mtu;
	a->gid_tbl_len = (int)urv_gid_table_len(c);
	a->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	a->max_msg_sz = UR_MAX_MSG_SIZE;
	ur_adapter_violations(c->adapter, &a->bad_pkey_cntr,
			      &a->qkey_viol_cntr);
	a->pkey_tbl_len = (uint16_t)urv_pkey_table_len(c);
	a->lid = p->lid;
	a->max_vl_num = 1;
	a->phys_state = p->active ? PHYS_STATE_LINK_UP : PHYS_STATE_DISABLED;
	a->link_layer = IBV_LINK_LAYER_ETHERNET;
	fill_rate(a, p->speed_mbps);
}

/* As the kernel's iWARP driver: no LIDs, lanes or partitions. */
static void limit_port_to_iwarp(struct ibv_port_attr *a)
{
	a->max_mtu = a->active_mtu;
	a->port_cap_flags = IBV_PORT_CM_SUP;
	a->lid = 0;
	a->max_vl_num = 0;
}

int urv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct ibv_port_attr *attr, size_t attr_len)
{
	struct {
		struct ibv_port_attr attr;
		uint8_t newer[URV_SIZEOF_PORT_ATTR];
	} full;
	struct urv_context *c = urv_context(context);
	struct ur_port_attr port;
	uint32_t speed;
	int rc = urv_context_check(context);

	if (!rc)
		rc = urv_check_port(context, port_num);
	if (rc)
		return urv_errno(rc);
	ur_dev_port(c->dev, port_num, &port);
	memset(&full, 0, sizeof(full));
	fill_port(c, &full.attr, &port);
	if (urv_is_iwarp(c))
		limit_port_to_iwarp(&full.attr);
	/* active_speed_ex, which the installed header may lack */
	speed = full.attr.active_speed;
	memcpy((uint8_t *)&full + ACTIVE_SPEED_EX_OFFSET, &speed,
	       sizeof(speed));
	copy_sized(attr, attr_len, &full, URV_SIZEOF_PORT_ATTR);
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *attr)
{
	return urv_query_port(context, port_num, (void *)attr,
			      COMPAT_PORT_ATTR_LEN);
}

/* As mlx5: the raw clock is a count of ticks, here nanoseconds, in tv_nsec. */
int urv_query_rt_values(struct ibv_context *context,
			struct ibv_values_ex *values)
{
	uint32_t got = 0;

	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return urv_errno(-EOPNOTSUPP);
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)ur_adapter_now();
		got |= IBV_VALUES_MASK_RAW_CLOCK;
	}
	values->comp_mask = got;
	return 0;
}
