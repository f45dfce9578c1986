/* SPDX-License-Identifier: BSD-2-Clause */
/* The QP's attributes for each state, as the kernel's CM gives them to
 * rdma_init_qp_attr. */
#include <errno.h>
#include <string.h>

#include "cm/internal.h"

/* The caller knows the device, and so the port of the path's address. */
#define PORT 1

void ur_cm_path_av(const struct ur_cm_id *id, const struct ur_cm_path *path,
		   struct ur_av *av)
{
	*av = (struct ur_av){ .scope_id = path->scope_id,
			      .flow_label = id->flow_label,
			      .tclass = path->tclass,
			      .hop_limit = path->hop_limit,
			      .port_num = PORT,
			      .is_global = true };
	memcpy(av->sgid, path->local, 16);
	memcpy(av->dgid, path->remote, 16);
}

/* Are the negotiated parameters known? */
static bool is_negotiated(const struct ur_cm_id *id)
{
	return id->state == UR_CMS_REQ_RCVD || id->state == UR_CMS_REP_SENT ||
	       id->state == UR_CMS_REP_RCVD || id->state == UR_CMS_ESTABLISHED;
}

static void to_init(const struct ur_cm_id *id, struct ur_qp_attr *attr,
		    uint32_t *mask)
{
	attr->state = UR_QPS_INIT;
	attr->pkey_index = 0;
	attr->port_num = PORT;
	*mask = UR_QP_STATE | UR_QP_PKEY_INDEX | UR_QP_PORT;
	if (ur_cm_is_datagram(id)) {
		attr->qkey = id->qkey;
		*mask |= UR_QP_QKEY;
		return;
	}
	attr->access = 0;
	*mask |= UR_QP_ACCESS_FLAGS;
	if (id->state == UR_CMS_IDLE)
		return;
	attr->access = UR_ACCESS_REMOTE_WRITE;
	if (id->responder_resources && id->qp_type != UR_QPT_UC)
		attr->access |= UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC;
}

/*
 * The RNR timer that the peer uses when we have no receive for it. A peer with
 * infinite retries may retry soon. One that gives up after a few retries should
 * find a receive even if our program is not scheduled at once: the kernel's CM
 * uses the longest timer. Both sides are assumed to have the same count.
 */
static uint8_t rnr_timer(const struct ur_cm_id *id)
{
	return id->rnr_retry_count == UR_CM_RNR_INFINITE ? UR_CM_MIN_RNR_TIMER
							 : UR_CM_LONG_RNR_TIMER;
}

static void to_rtr(const struct ur_cm_id *id, struct ur_qp_attr *attr,
		   uint32_t *mask)
{
	attr->state = UR_QPS_RTR;
	*mask = UR_QP_STATE;
	if (ur_cm_is_datagram(id))
		return;
	ur_cm_path_av(id, &id->path, &attr->av);
	attr->path_mtu = id->path.mtu;
	attr->dest_qpn = id->remote_qpn;
	attr->rq_psn = id->rq_psn;
	*mask |= UR_QP_AV | UR_QP_PATH_MTU | UR_QP_DEST_QPN | UR_QP_RQ_PSN;
	if (id->qp_type != UR_QPT_RC && id->qp_type != UR_QPT_XRC_RECV)
		return;
	attr->max_dest_rd_atomic = id->responder_resources;
	attr->min_rnr_timer = rnr_timer(id);
	*mask |= UR_QP_MAX_DEST_RD_ATOMIC | UR_QP_MIN_RNR_TIMER;
}

static uint8_t ack_timeout(const struct ur_cm_id *id)
{
	return id->ack_timeout_set ? id->ack_timeout_set : id->ack_timeout;
}

static void to_rts(const struct ur_cm_id *id, struct ur_qp_attr *attr,
		   uint32_t *mask)
{
	attr->state = UR_QPS_RTS;
	attr->sq_psn = id->sq_psn;
	*mask = UR_QP_STATE | UR_QP_SQ_PSN;
	if (id->qp_type == UR_QPT_UC || ur_cm_is_datagram(id))
		return;
	attr->timeout = ack_timeout(id);
	*mask |= UR_QP_TIMEOUT;
	if (id->qp_type == UR_QPT_XRC_RECV)
		return;
	attr->retry_cnt = id->retry_count;
	attr->rnr_retry = id->rnr_retry_count;
	attr->max_rd_atomic = id->initiator_depth;
	*mask |= UR_QP_RETRY_CNT | UR_QP_RNR_RETRY | UR_QP_MAX_QP_RD_ATOMIC;
}

/* LAP and APR have negotiated another path: load it and rearm. */
static void load_alternate(const struct ur_cm_id *id, struct ur_qp_attr *attr,
			   uint32_t *mask)
{
	ur_cm_path_av(id, &id->alt, &attr->alt_av);
	attr->alt_pkey_index = 0;
	attr->alt_port_num = PORT;
	attr->alt_timeout = id->alt.ack_timeout;
	attr->path_mig_state = UR_MIG_REARM;
	*mask = UR_QP_ALT_PATH | UR_QP_PATH_MIG_STATE;
}

/* An unconnected QP may go to INIT before the peer is known. */
static bool init_allowed(const struct ur_cm_id *id)
{
	return ur_cm_is_datagram(id) || id->state == UR_CMS_IDLE ||
	       id->state == UR_CMS_REQ_SENT || is_negotiated(id);
}

int ur_cm_qp_attr(const struct ur_cm_id *id, enum ur_qp_state state,
		  struct ur_qp_attr *attr, uint32_t *mask)
{
	bool more = ur_cm_is_datagram(id) || is_negotiated(id);

	if (state == UR_QPS_INIT && init_allowed(id))
		to_init(id, attr, mask);
	else if (state == UR_QPS_RTR && more)
		to_rtr(id, attr, mask);
	else if (state == UR_QPS_RTS && more && id->has_alt)
		load_alternate(id, attr, mask);
	else if (state == UR_QPS_RTS && more)
		to_rts(id, attr, mask);
	else
		return -EINVAL;
	return 0;
}

void ur_cm_id_set_ack_timeout(struct ur_cm_id *id, uint8_t code)
{
	id->ack_timeout_set = code < 31 ? code : 31;
}
