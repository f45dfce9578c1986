/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/convert.h"

#include <string.h>

void urv_av_from_ah(struct ur_av *av, const struct ibv_ah_attr *ah)
{
	*av = (struct ur_av){
		.dlid = ah->dlid,
		.sl = ah->sl,
		.src_path_bits = ah->src_path_bits,
		.static_rate = ah->static_rate,
		.port_num = ah->port_num,
		.is_global = ah->is_global != 0,
	};
	/* Without a GRH the other fields may be uninitialised. */
	if (!ah->is_global)
		return;
	memcpy(av->dgid, ah->grh.dgid.raw, sizeof(av->dgid));
	av->flow_label = ah->grh.flow_label;
	av->sgid_index = ah->grh.sgid_index;
	av->hop_limit = ah->grh.hop_limit;
	av->tclass = ah->grh.traffic_class;
}

void urv_av_to_ah(struct ibv_ah_attr *ah, const struct ur_av *av)
{
	*ah = (struct ibv_ah_attr){
		.dlid = av->dlid,
		.sl = av->sl,
		.src_path_bits = av->src_path_bits,
		.static_rate = av->static_rate,
		.port_num = av->port_num,
		.is_global = av->is_global,
	};
	/* The address derived from a LID is not shown to the application. */
	if (!av->is_global)
		return;
	memcpy(ah->grh.dgid.raw, av->dgid, sizeof(av->dgid));
	ah->grh.flow_label = av->flow_label;
	ah->grh.sgid_index = av->sgid_index;
	ah->grh.hop_limit = av->hop_limit;
	ah->grh.traffic_class = av->tclass;
}

void urv_cap_from_ibv(struct ur_qp_cap *out, const struct ibv_qp_cap *in)
{
	*out = (struct ur_qp_cap){
		.max_send_wr = in->max_send_wr,
		.max_recv_wr = in->max_recv_wr,
		.max_send_sge = in->max_send_sge,
		.max_recv_sge = in->max_recv_sge,
		.max_inline = in->max_inline_data,
	};
}

void urv_cap_to_ibv(struct ibv_qp_cap *out, const struct ur_qp_cap *in)
{
	*out = (struct ibv_qp_cap){
		.max_send_wr = in->max_send_wr,
		.max_recv_wr = in->max_recv_wr,
		.max_send_sge = in->max_send_sge,
		.max_recv_sge = in->max_recv_sge,
		.max_inline_data = in->max_inline,
	};
}

/* The attributes of a QP that have the same names here and there. */
#define SAME_QP_ATTRS(in)                                                      \
	.path_mtu = (in)->path_mtu, .qkey = (in)->qkey,                        \
	.rq_psn = (in)->rq_psn, .sq_psn = (in)->sq_psn,                        \
	.pkey_index = (in)->pkey_index,                                        \
	.alt_pkey_index = (in)->alt_pkey_index,                                \
	.max_rd_atomic = (in)->max_rd_atomic,                                  \
	.max_dest_rd_atomic = (in)->max_dest_rd_atomic,                        \
	.min_rnr_timer = (in)->min_rnr_timer, .port_num = (in)->port_num,      \
	.timeout = (in)->timeout, .retry_cnt = (in)->retry_cnt,                \
	.rnr_retry = (in)->rnr_retry, .alt_port_num = (in)->alt_port_num,      \
	.alt_timeout = (in)->alt_timeout

/* Scalars are copied whatever the mask: the adapter uses those in the mask.
 * Only fields that older callers' structures lack are guarded. */
void urv_qp_attr_from_ibv(struct ur_qp_attr *out, const struct ibv_qp_attr *in,
			  uint32_t mask)
{
	*out = (struct ur_qp_attr){
		SAME_QP_ATTRS(in),
		.state = (enum ur_qp_state)in->qp_state,
		.cur_state = (enum ur_qp_state)in->cur_qp_state,
		.path_mig_state = (enum ur_mig_state)in->path_mig_state,
		.dest_qpn = in->dest_qp_num,
		.access = in->qp_access_flags,
		.en_sqd_async_notify = in->en_sqd_async_notify != 0,
	};
	urv_cap_from_ibv(&out->cap, &in->cap);
	if (mask & IBV_QP_AV)
		urv_av_from_ah(&out->av, &in->ah_attr);
	if (mask & IBV_QP_ALT_PATH)
		urv_av_from_ah(&out->alt_av, &in->alt_ah_attr);
	if (mask & IBV_QP_RATE_LIMIT)
		out->rate_limit = in->rate_limit;
}

void urv_qp_attr_to_ibv(struct ibv_qp_attr *out, const struct ur_qp_attr *in)
{
	*out = (struct ibv_qp_attr){
		SAME_QP_ATTRS(in),
		.qp_state = (enum ibv_qp_state)in->state,
		.cur_qp_state = (enum ibv_qp_state)in->cur_state,
		.path_mig_state = (enum ibv_mig_state)in->path_mig_state,
		.dest_qp_num = in->dest_qpn,
		.qp_access_flags = in->access,
		.en_sqd_async_notify = in->en_sqd_async_notify,
		.sq_draining = in->sq_draining,
		.rate_limit = in->rate_limit,
	};
	urv_cap_to_ibv(&out->cap, &in->cap);
	urv_av_to_ah(&out->ah_attr, &in->av);
	urv_av_to_ah(&out->alt_ah_attr, &in->alt_av);
}
