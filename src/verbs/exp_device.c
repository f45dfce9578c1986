/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of the experimental verbs, and the capabilities of the device. */
#include <errno.h>
#include <string.h>

#include "verbs/convert.h"
#include "verbs/cross.h"
#include "verbs/exp.h"
#include "verbs/objects.h"
#include "verbs/ops.h"

void urv_exp_fill(struct verbs_context *v, struct verbs_context_exp *exp)
{
	*exp = (struct verbs_context_exp){
		.sz = sizeof(*exp),
		.lib_exp_query_device = urv_exp_query_device,
		.lib_exp_create_qp = urv_exp_create_qp,
		.lib_exp_modify_qp = urv_exp_modify_qp,
		.exp_create_cq = urv_exp_create_cq,
		.lib_exp_modify_cq = urv_exp_modify_cq,
		.lib_exp_post_task = urv_exp_post_task,
		.drv_exp_ibv_poll_cq = urv_exp_poll_cq,
		.drv_exp_post_send = urv_exp_post_send,
		.create_dct = urv_exp_create_dct,
		.destroy_dct = urv_exp_destroy_dct,
		.query_dct = urv_exp_query_dct,
		.lib_exp_arm_dct = urv_exp_arm_dct,
		.lib_exp_bind_mw = urv_exp_bind_mw,
		.lib_exp_reg_mr = urv_exp_reg_mr,
		.lib_exp_create_mr = urv_exp_create_mr,
		.lib_exp_query_mkey = urv_exp_query_mkey,
		.lib_exp_alloc_mkey_list_memory = urv_exp_alloc_mkey_list,
		.lib_exp_dealloc_mkey_list_memory = urv_exp_dealloc_mkey_list,
	};
	v->_ABI_placeholder3 |= VERBS_CONTEXT_EXP;
}

/* The experimental transport bits are the first six of the standard ones. */
#define ODP_BITS                                                               \
	(IBV_EXP_ODP_SUPPORT_SEND | IBV_EXP_ODP_SUPPORT_RECV |                 \
	 IBV_EXP_ODP_SUPPORT_WRITE | IBV_EXP_ODP_SUPPORT_READ |                \
	 IBV_EXP_ODP_SUPPORT_ATOMIC | IBV_EXP_ODP_SUPPORT_SRQ_RECV)

static void fill_odp(struct ibv_exp_odp_caps *out,
		     const struct ibv_device_attr_ex *in)
{
	*out = (struct ibv_exp_odp_caps){
		.general_odp_caps = in->odp_caps.general_caps,
	};
	out->per_transport_caps.rc_odp_caps =
		in->odp_caps.per_transport_caps.rc_odp_caps & ODP_BITS;
	out->per_transport_caps.uc_odp_caps =
		in->odp_caps.per_transport_caps.uc_odp_caps & ODP_BITS;
	out->per_transport_caps.ud_odp_caps =
		in->odp_caps.per_transport_caps.ud_odp_caps & ODP_BITS;
	out->per_transport_caps.xrc_odp_caps = in->xrc_odp_caps & ODP_BITS;
}

static void fill_raw(struct ibv_exp_device_attr *a,
		     const struct ibv_device_attr_ex *in, uint32_t want)
{
	if (want & IBV_EXP_DEVICE_ATTR_TSO_CAPS)
		a->tso_caps = (struct ibv_exp_tso_caps){
			.max_tso = in->tso_caps.max_tso,
			.supported_qpts = in->tso_caps.supported_qpts,
		};
	if (want & IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS)
		a->packet_pacing_caps = (struct ibv_exp_packet_pacing_caps){
			.qp_rate_limit_min =
				in->packet_pacing_caps.qp_rate_limit_min,
			.qp_rate_limit_max =
				in->packet_pacing_caps.qp_rate_limit_max,
			.supported_qpts = in->packet_pacing_caps.supported_qpts,
		};
}

#define FIELDS                                                                 \
	(IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK |                             \
	 IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK |                             \
	 IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_ODP |         \
	 IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ |                                  \
	 IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS |                                 \
	 IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS | IBV_EXP_DEVICE_ATTR_UMR |        \
	 IBV_EXP_DEVICE_ATTR_CALC_CAP)
#define ROCE_FIELDS                                                            \
	(IBV_EXP_DEVICE_ATTR_TSO_CAPS |                                        \
	 IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS | IBV_EXP_DEVICE_DC_RD_REQ |   \
	 IBV_EXP_DEVICE_DC_RD_RES | IBV_EXP_DEVICE_ATTR_MAX_DCT)

#define EXP_CAPS                                                               \
	(IBV_EXP_DEVICE_NOP | IBV_EXP_DEVICE_ODP | IBV_EXP_DEVICE_MEM_WINDOW | \
	 IBV_EXP_DEVICE_MW_TYPE_2B | IBV_EXP_DEVICE_MR_ALLOCATE |              \
	 IBV_EXP_DEVICE_EXT_ATOMICS | IBV_EXP_DEVICE_EXT_MASKED_ATOMICS |      \
	 IBV_EXP_DEVICE_UMR | IBV_EXP_DEVICE_CROSS_CHANNEL)

static uint32_t log2_of(uint32_t bytes)
{
	return (uint32_t)__builtin_ctz(bytes);
}

/* The largest field is the whole operand, and four operands are in a request.
 * Old values are in the host's byte order. */
static void fill_atomics(struct ibv_exp_device_attr *a,
			 const struct urv_context *c, uint32_t want)
{
	uint32_t most = urv_exp_max_atomic_arg(c);
	uint64_t sizes = urv_is_iwarp(c) ? 8 : 4 | 8 | most;

	if (want & IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS)
		a->ext_atom = (struct ibv_exp_ext_atomics_params){
			.log_atomic_arg_sizes = sizes,
			.max_fa_bit_boundary = log2_of(most),
			.log_max_atomic_inline = log2_of(4 * most),
		};
	if (want & IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS)
		a->masked_atomic = (struct ibv_exp_masked_atomic_params){
			.max_fa_bit_boundary = log2_of(most),
			.log_max_atomic_inline = log2_of(4 * most),
			.masked_log_atomic_arg_sizes = sizes,
		};
}

#define CALC_OPS                                                               \
	(1u << IBV_EXP_CALC_OP_ADD | 1u << IBV_EXP_CALC_OP_BAND |              \
	 1u << IBV_EXP_CALC_OP_BXOR | 1u << IBV_EXP_CALC_OP_BOR)

static const struct ibv_exp_device_calc_cap calc_caps = {
	.data_types = 1u << IBV_EXP_CALC_DATA_TYPE_INT |
		      1u << IBV_EXP_CALC_DATA_TYPE_UINT |
		      1u << IBV_EXP_CALC_DATA_TYPE_FLOAT,
	.data_sizes = 1u << IBV_EXP_CALC_DATA_SIZE_64_BIT,
	.int_ops = CALC_OPS,
	.uint_ops = CALC_OPS,
	.fp_ops = CALC_OPS,
};

/* A target needs a number of a queue pair. */
static void fill_dc(struct ibv_exp_device_attr *a, uint32_t want)
{
	if (want & IBV_EXP_DEVICE_DC_RD_REQ)
		a->max_dc_req_rd_atom = UR_MAX_DC_RD_ATOMIC;
	if (want & IBV_EXP_DEVICE_DC_RD_RES)
		a->max_dc_res_rd_atom = UR_MAX_DC_RD_ATOMIC;
	if (want & IBV_EXP_DEVICE_ATTR_MAX_DCT)
		a->max_dct = a->max_qp;
}

/* Only wanted fields are written: the caller's structure may end before others.
 * The first part is that of ibv_device_attr (abi_check.c). */
int urv_exp_query_device(struct ibv_context *context,
			 struct ibv_exp_device_attr *a)
{
	bool iwarp = urv_is_iwarp(urv_context(context));
	uint32_t want =
		a->comp_mask & (FIELDS | (iwarp ? 0u : (uint32_t)ROCE_FIELDS));
	struct ibv_device_attr_ex in;
	bool second = a->comp_mask & IBV_EXP_DEVICE_ATTR_COMP_MASK_2;
	int rc;

	if (second && a->comp_mask_2 >= IBV_EXP_DEVICE_ATTR_RESERVED_2)
		return EINVAL;
	rc = urv_query_device_ex(context, NULL, &in, sizeof(in));
	if (rc)
		return rc;
	memcpy(a, &in.orig_attr,
	       offsetof(struct ibv_exp_device_attr, phys_port_cnt) + 1);
	a->reserved = 0;
	if (want & IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK)
		a->timestamp_mask = in.completion_timestamp_mask;
	if (want & IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK)
		a->hca_core_clock = in.hca_core_clock;
	if (want & IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS)
		a->exp_device_cap_flags =
			in.orig_attr.device_cap_flags | EXP_CAPS |
			(iwarp ? 0 : IBV_EXP_DEVICE_DC_TRANSPORT);
	fill_dc(a, want);
	if (want & IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ)
		a->inline_recv_sz = UR_MAX_INLINE;
	if (want & IBV_EXP_DEVICE_ATTR_CALC_CAP)
		a->calc_cap = calc_caps;
	if (want & IBV_EXP_DEVICE_ATTR_ODP)
		fill_odp(&a->odp_caps, &in);
	fill_atomics(a, urv_context(context), want);
	if (want & IBV_EXP_DEVICE_ATTR_UMR)
		urv_umr_caps(&a->umr_caps);
	fill_raw(a, &in, want);
	if (second)
		a->comp_mask_2 = 0; /* of its fields: none */
	a->comp_mask = want;
	return 0;
}
