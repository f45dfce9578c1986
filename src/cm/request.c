/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A new REQ. The first check in the list that fails gives the reason of the
 * REJ.
 *
 * The addresses in a REQ must be those of its datagram, all three of them (IP,
 * primary path, CMA header): otherwise a host could direct us to another one.
 */
#include <string.h>

#include "cm/internal.h"
#include "cm/route.h"

#define DROP UINT16_MAX

bool ur_cm_check_hdr(const struct ur_cm_rx *rx, struct ur_cma_hdr *hdr)
{
	return ur_cma_hdr_decode(hdr, rx->m.private_data) == 0 &&
	       ur_addr_equal(hdr->src, rx->in->src) &&
	       ur_addr_equal(hdr->dst, rx->in->dst);
}

/* Our QP type for the peer's; 0: unsupported transport. */
static enum ur_qp_type passive_type(const struct ur_cm_msg_req *req)
{
	if (req->transport == UR_CM_TRANSPORT_RC)
		return UR_QPT_RC;
	if (req->transport == UR_CM_TRANSPORT_UC)
		return UR_QPT_UC;
	if (req->transport == UR_CM_TRANSPORT_EXTENDED &&
	    req->extended_transport == UR_CM_EXTENDED_XRC)
		return UR_QPT_XRC_RECV;
	return 0;
}

/* Checks of the REQ alone; 0: valid. */
static uint16_t check_form(const struct ur_cm_rx *rx, struct ur_cma_hdr *hdr)
{
	const struct ur_cm_msg_req *req = &rx->m.u.req;

	if (rx->m.local_id == 0)
		return DROP;
	if (!passive_type(req))
		return UR_CM_REJ_INVALID_TRANSPORT;
	if (!ur_addr_equal(req->primary.local_gid, rx->in->src) ||
	    !ur_addr_equal(req->primary.remote_gid, rx->in->dst))
		return UR_CM_REJ_INVALID_GID;
	if (req->mtu < 1 || req->mtu > 5)
		return UR_CM_REJ_INVALID_MTU;
	/* as the kernel's rdma_cm answers an invalid header */
	if (!ur_cm_check_hdr(rx, hdr))
		return UR_CM_REJ_CONSUMER;
	return 0;
}

/* Is the peer's QP in use by a connection that has not ended? */
static uint16_t check_stale(const struct ur_cm_rx *rx)
{
	const struct ur_cm_msg_req *req = &rx->m.u.req;
	struct ur_cm_id *old;

	if (!req->qpn)
		return 0;
	old = ur_cm_find_qpn(rx->cm, rx->in->src, req->ca_guid, req->qpn);
	if (!old)
		return 0;
	ur_cm_end_stale(old, rx->now_ns);
	return UR_CM_REJ_STALE_CONN;
}

static void send_rej(const struct ur_cm_rx *rx, uint16_t reason)
{
	struct ur_cm_msg m = { .attr = UR_CM_REJ,
			       .tid = rx->m.tid,
			       .remote_id = rx->m.local_id,
			       .u.rej.about = UR_CM_ABOUT_REQ,
			       .u.rej.reason = reason };
	struct ur_cm_dgram out;

	/* otherwise the answer is that for a REQ without a listener */
	if (!ur_cm_refuse(rx->in, &out))
		return;
	ur_cm_msg_encode(&m, out.mad);
	rx->cm->counters.rejects_sent++;
	ur_cm_send_back(rx->cm, &out);
}

struct ur_cm_id *ur_cm_child(struct ur_cm_id *listener,
			     const struct ur_cm_rx *rx,
			     const struct ur_cma_hdr *hdr)
{
	struct ur_cm *cm = rx->cm;
	struct ur_cm_id *id;

	if (listener->pending >= listener->backlog) {
		cm->counters.drop_backlog++;
		return NULL;
	}
	id = ur_cm_id_new(cm, listener->port_space);
	if (!id) {
		cm->counters.drop_resources++;
		return NULL;
	}
	id->listener = listener;
	ur_list_add_tail(&listener->children, &id->sibling);
	listener->pending++;
	id->event_pending = true;
	id->service_id = listener->service_id;
	id->tid = rx->m.tid;
	id->remote_id = rx->m.local_id;
	memcpy(id->path.local, rx->in->dst, 16);
	memcpy(id->path.remote, rx->in->src, 16);
	id->path.local_port = (uint16_t)listener->service_id;
	id->path.remote_port = hdr->port;
	id->path.scope_id = rx->in->scope_id;
	id->path.tclass = rx->in->tclass;
	id->path.hop_limit = UR_CM_HOP_LIMIT;
	return id;
}

/* The depths from our view, and our side's part for the peer. */
static void take_request(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	const struct ur_cm_msg_req *req = &rx->m.u.req;

	id->qp_type = passive_type(req);
	id->remote_guid = req->ca_guid;
	id->remote_qpn = req->qpn;
	id->sq_psn = req->starting_psn;
	id->rq_psn = ur_cm_draw_psn(id->cm);
	id->responder_resources = req->initiator_depth;
	id->initiator_depth = req->responder_resources;
	id->retry_count = req->retry_count;
	id->rnr_retry_count = req->rnr_retry_count;
	id->response_timeout = req->local_response_timeout;
	id->max_retries = req->max_cm_retries;
	id->ack_timeout = UR_CM_LIFETIME + 1;
	if (req->primary.ack_timeout) /* 0 would be an infinite timeout */
		id->ack_timeout = req->primary.ack_timeout;
	id->flow_label = req->primary.flow_label;
	id->failover = !ur_addr_is_zero(req->alternate.local_gid);
	id->path.tclass = req->primary.traffic_class;
	id->path.mtu = req->mtu;
	id->path.ack_timeout = req->primary.ack_timeout;
	if (req->primary.hop_limit)
		id->path.hop_limit = req->primary.hop_limit;
}

static void post_request(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	const struct ur_cm_msg_req *req = &rx->m.u.req;
	struct ur_cm_event *ev = ur_cm_post(id, UR_CM_REQUEST, 0);

	ev->path = id->path;
	ev->param.responder_resources = id->responder_resources;
	ev->param.initiator_depth = id->initiator_depth;
	ev->param.flow_control = req->flow_control;
	ev->param.retry_count = req->retry_count;
	ev->param.rnr_retry_count = req->rnr_retry_count;
	ev->param.srq = req->srq;
	ev->param.qpn = req->qpn;
	ev->param.qp_type = id->qp_type;
	ev->param.ece_vendor = req->vendor_id;
	ev->param.ece_options = rx->m.attr_mod;
	ur_cm_post_private(ev, rx->m.private_data + UR_CMA_HDR_LEN,
			   UR_CM_PRIVATE_REQ);
}

void ur_cm_on_request(const struct ur_cm_rx *rx)
{
	struct ur_cm_id *listener, *id;
	struct ur_cma_hdr hdr;
	uint16_t reason;

	listener = ur_cm_find_listener(rx->cm, false, rx->m.u.req.service_id,
				       rx->in->dst);
	reason = listener ? check_form(rx, &hdr) : UR_CM_REJ_INVALID_SERVICE_ID;
	if (!reason)
		reason = check_stale(rx);
	if (reason == DROP) {
		rx->cm->counters.drop_malformed++;
		return;
	}
	if (reason) {
		send_rej(rx, reason);
		return;
	}
	id = ur_cm_child(listener, rx, &hdr);
	if (!id)
		return;
	take_request(id, rx);
	ur_cm_enter_remote(id);
	post_request(id, rx);
	ur_cm_set_state(id, UR_CMS_REQ_RCVD);
}
