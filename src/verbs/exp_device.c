/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of the experimental verbs, and the capabilities of the device. */
#include <errno.h>
#include <string.h>

#include "verbs/convert.h"
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
		.drv_exp_ibv_poll_cq = urv_exp_poll_cq,
		.drv_exp_post_send = urv_exp_post_send,
		.lib_exp_bind_mw = urv_exp_bind_mw,
		.lib_exp_reg_mr = urv_exp_reg_mr,
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
	 IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_ODP)
#define ROCE_FIELDS                                                            \
	(IBV_EXP_DEVICE_ATTR_TSO_CAPS | IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS)

#define EXP_CAPS                                                               \
	(IBV_EXP_DEVICE_NOP | IBV_EXP_DEVICE_ODP | IBV_EXP_DEVICE_MEM_WINDOW | \
	 IBV_EXP_DEVICE_MW_TYPE_2B | IBV_EXP_DEVICE_MR_ALLOCATE)

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
			in.orig_attr.device_cap_flags | EXP_CAPS;
	if (want & IBV_EXP_DEVICE_ATTR_ODP)
		fill_odp(&a->odp_caps, &in);
	fill_raw(a, &in, want);
	if (second)
		a->comp_mask_2 = 0; /* of its fields: none */
	a->comp_mask = want;
	return 0;
}
