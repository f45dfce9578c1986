/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands of the owner of an id. */
#include <errno.h>
#include <string.h>

#include "cm/internal.h"

#define QPN_MASK   0xffffffu
#define NO_LID	   0xffffu /* RoCE has none; the kernel's value */
#define FULL_PKEY  0xffffu
#define RETRY_MAX  7u
#define FLOW_LABEL 0xfffffu

int ur_cm_id_create(struct ur_cm *cm, uint16_t port_space, void *user,
		    struct ur_cm_id **out)
{
	struct ur_cm_id *id;

	id = ur_cm_id_new(cm, port_space);
	if (!id)
		return cm->nids >= UR_CM_MAX_IDS ? -ENOSPC : -ENOMEM;
	id->user = user;
	*out = id;
	return 0;
}

void ur_cm_id_set_user(struct ur_cm_id *id, void *user)
{
	id->user = user;
}

int ur_cm_listen(struct ur_cm_id *id, const uint8_t addr[16], uint16_t port,
		 bool v6_only, int backlog)
{
	uint64_t service_id = ur_cm_service_id(id->port_space, port);

	if (id->state != UR_CMS_IDLE)
		return -EINVAL;
	if (ur_cm_listener_exists(id->cm, service_id, addr, v6_only))
		return -EADDRINUSE;
	id->service_id = service_id;
	memcpy(id->addr, addr, 16);
	id->v6_only = v6_only;
	id->backlog = UR_CM_BACKLOG_MAX;
	if (backlog > 0 && (uint32_t)backlog < UR_CM_BACKLOG_MAX)
		id->backlog = (uint32_t)backlog;
	ur_cm_enter_service(id);
	ur_cm_set_state(id, UR_CMS_LISTEN);
	return 0;
}

static bool private_fits(const void *data, uint8_t len, unsigned int space)
{
	return len <= space && (data || !len);
}

static uint8_t at_most_7(uint8_t v)
{
	return v < RETRY_MAX ? v : RETRY_MAX;
}

/* The CMA header followed by the owner's data. */
static void fill_private(const struct ur_cm_id *id, struct ur_cm_msg *m,
			 const struct ur_cm_param *param)
{
	struct ur_cma_hdr hdr = { .ip_version =
					  ur_addr_is_v4(id->path.local) ? 4 : 6,
				  .port = id->path.local_port };

	memcpy(hdr.src, id->path.local, 16);
	memcpy(hdr.dst, id->path.remote, 16);
	ur_cma_hdr_encode(&hdr, m->private_data);
	if (param->private_len)
		memcpy(m->private_data + UR_CMA_HDR_LEN, param->private_data,
		       param->private_len);
}

static void fill_path(const struct ur_cm_id *id, const struct ur_cm_path *path,
		      uint8_t ack_timeout, struct ur_cm_wire_path *w)
{
	w->local_lid = NO_LID;
	w->remote_lid = NO_LID;
	memcpy(w->local_gid, path->local, 16);
	memcpy(w->remote_gid, path->remote, 16);
	w->flow_label = id->flow_label;
	w->traffic_class = path->tclass;
	w->hop_limit = path->hop_limit;
	w->ack_timeout = ack_timeout;
}

/* Annex A14: XRC is the first of the extended transports. */
static void fill_transport(const struct ur_cm_id *id, struct ur_cm_msg_req *req)
{
	req->transport = UR_CM_TRANSPORT_RC;
	if (id->qp_type == UR_QPT_UC)
		req->transport = UR_CM_TRANSPORT_UC;
	if (id->qp_type != UR_QPT_XRC_SEND)
		return;
	req->transport = UR_CM_TRANSPORT_EXTENDED;
	req->extended_transport = UR_CM_EXTENDED_XRC;
}

static void fill_req(const struct ur_cm_id *id, const struct ur_cm_param *p,
		     struct ur_cm_msg *m)
{
	struct ur_cm_msg_req *req = &m->u.req;

	m->attr_mod = p->ece_options;
	req->vendor_id = p->ece_vendor;
	req->service_id = id->service_id;
	req->ca_guid = id->cm->cfg.ca_guid;
	req->qpn = id->local_qpn;
	req->responder_resources = id->responder_resources;
	req->initiator_depth = id->initiator_depth;
	req->remote_response_timeout = id->response_timeout;
	fill_transport(id, req);
	req->flow_control = p->flow_control;
	req->starting_psn = id->rq_psn;
	req->local_response_timeout = UR_CM_RESPONSE_TIMEOUT;
	req->retry_count = id->retry_count;
	req->pkey = FULL_PKEY;
	req->mtu = id->path.mtu;
	req->rnr_retry_count = at_most_7(p->rnr_retry_count);
	req->max_cm_retries = UR_CM_MAX_RETRIES;
	req->srq = p->srq;
	fill_path(id, &id->path,
		  ur_cm_ack_timeout(id->ack_timeout - 1u,
				    id->cm->cfg.ack_delay),
		  &req->primary);
}

static void send_req(struct ur_cm_id *id, const struct ur_cm_param *param,
		     uint64_t now_ns)
{
	struct ur_cm_msg m;

	id->qp_type = UR_QPT_RC;
	if (param->qp_type == UR_QPT_UC || param->qp_type == UR_QPT_XRC_SEND)
		id->qp_type = param->qp_type;
	id->local_qpn = param->qpn & QPN_MASK;
	id->rq_psn = ur_cm_draw_psn(id->cm);
	/* an XRC initiator responds to no requests */
	if (id->qp_type != UR_QPT_XRC_SEND)
		id->responder_resources = param->responder_resources;
	id->initiator_depth = param->initiator_depth;
	id->retry_count = at_most_7(param->retry_count);
	ur_cm_msg_init(id, &m, UR_CM_REQ, id->tid);
	fill_req(id, param, &m);
	fill_private(id, &m, param);
	ur_cm_send_timed(id, &m, now_ns);
	ur_cm_set_state(id, UR_CMS_REQ_SENT);
}

static void send_sidr_req(struct ur_cm_id *id, const struct ur_cm_param *param,
			  uint64_t now_ns)
{
	struct ur_cm_msg m;

	if (param->qkey)
		id->qkey = param->qkey;
	ur_cm_msg_init(id, &m, UR_CM_SIDR_REQ, id->tid);
	m.u.sidr_req.pkey = FULL_PKEY;
	m.u.sidr_req.service_id = id->service_id;
	fill_private(id, &m, param);
	ur_cm_send_timed(id, &m, now_ns);
	ur_cm_set_state(id, UR_CMS_SIDR_REQ_SENT);
}

int ur_cm_connect(struct ur_cm_id *id, const struct ur_cm_path *path,
		  const struct ur_cm_param *param, uint64_t now_ns)
{
	bool datagram = ur_cm_is_datagram(id);
	unsigned int space =
		datagram ? UR_CM_PRIVATE_SIDR_REQ : UR_CM_PRIVATE_REQ;

	if (id->state != UR_CMS_IDLE || path->mtu < 1 || path->mtu > 5 ||
	    path->ack_timeout > 31 ||
	    ur_addr_is_v4(path->local) != ur_addr_is_v4(path->remote))
		return -EINVAL;
	if (!private_fits(param->private_data, param->private_len, space))
		return -EINVAL;
	id->active = true;
	id->path = *path;
	if (!id->path.hop_limit)
		id->path.hop_limit = UR_CM_HOP_LIMIT;
	id->flow_label =
		(path->local_port * 31u + path->remote_port) & FLOW_LABEL;
	id->ack_timeout =
		path->ack_timeout ? path->ack_timeout : UR_CM_LIFETIME + 1;
	id->service_id = ur_cm_service_id(id->port_space, path->remote_port);
	id->tid = ur_cm_tid(id);
	if (datagram)
		send_sidr_req(id, param, now_ns);
	else
		send_req(id, param, now_ns);
	return 0;
}

int ur_cm_establish(struct ur_cm_id *id, uint64_t now_ns)
{
	if (id->state != UR_CMS_REP_RCVD)
		return -EINVAL;
	ur_cm_send_rtu(id);
	ur_cm_set_state(id, UR_CMS_ESTABLISHED);
	return 0;
}

static void fill_rep(const struct ur_cm_id *id, const struct ur_cm_param *p,
		     struct ur_cm_msg *m)
{
	struct ur_cm_msg_rep *rep = &m->u.rep;

	m->attr_mod = p->ece_options;
	rep->vendor_id_h = (uint8_t)(p->ece_vendor >> 16);
	rep->vendor_id_m = (uint8_t)(p->ece_vendor >> 8);
	rep->vendor_id_l = (uint8_t)p->ece_vendor;
	/* A14: the target's number is in the EE context field */
	if (id->qp_type == UR_QPT_XRC_RECV)
		rep->local_eecn = id->local_qpn;
	else
		rep->qpn = id->local_qpn;
	rep->starting_psn = id->rq_psn;
	rep->responder_resources = id->responder_resources;
	rep->initiator_depth = id->initiator_depth;
	rep->target_ack_delay = id->cm->cfg.ack_delay;
	rep->failover_accepted = id->failover;
	rep->flow_control = p->flow_control;
	rep->rnr_retry_count = at_most_7(p->rnr_retry_count);
	rep->srq = p->srq || id->qp_type == UR_QPT_XRC_RECV;
	rep->ca_guid = id->cm->cfg.ca_guid;
}

static void send_rep(struct ur_cm_id *id, const struct ur_cm_param *param,
		     uint64_t now_ns)
{
	struct ur_cm_msg m;

	id->local_qpn = param->qpn & QPN_MASK;
	id->responder_resources = param->responder_resources;
	id->initiator_depth = param->initiator_depth;
	ur_cm_msg_init(id, &m, UR_CM_REP, id->tid);
	fill_rep(id, param, &m);
	ur_cm_set_private(&m, param->private_data, param->private_len);
	ur_cm_enter_qpn(id);
	ur_cm_send_timed(id, &m, now_ns);
	ur_cm_set_state(id, UR_CMS_REP_SENT);
}

static void send_sidr_rep(struct ur_cm_id *id, enum ur_cm_sidr status,
			  const struct ur_cm_param *p, uint64_t now_ns)
{
	struct ur_cm_msg m;

	ur_cm_msg_init(id, &m, UR_CM_SIDR_REP, id->tid);
	m.attr_mod = p->ece_options;
	m.u.sidr_rep.status = (uint8_t)status;
	m.u.sidr_rep.vendor_id_h = (uint16_t)(p->ece_vendor >> 8);
	m.u.sidr_rep.vendor_id_l = (uint8_t)p->ece_vendor;
	m.u.sidr_rep.service_id = id->service_id;
	if (status == UR_CM_SIDR_SUCCESS) {
		m.u.sidr_rep.qpn = p->qpn & QPN_MASK;
		m.u.sidr_rep.qkey = id->qkey;
	}
	ur_cm_set_private(&m, p->private_data, p->private_len);
	ur_cm_send_kept(id, &m);
	ur_cm_arm_linger(id, now_ns);
	ur_cm_set_state(id, UR_CMS_SIDR_REP_SENT);
}

int ur_cm_accept(struct ur_cm_id *id, const struct ur_cm_param *param,
		 uint64_t now_ns)
{
	bool datagram = id->state == UR_CMS_SIDR_REQ_RCVD;
	unsigned int space =
		datagram ? UR_CM_PRIVATE_SIDR_REP : UR_CM_PRIVATE_REP;

	if (!datagram && id->state != UR_CMS_REQ_RCVD)
		return -EINVAL;
	if (!private_fits(param->private_data, param->private_len, space))
		return -EINVAL;
	ur_cm_request_seen(id);
	if (!datagram) {
		send_rep(id, param, now_ns);
		return 0;
	}
	if (param->qkey)
		id->qkey = param->qkey;
	send_sidr_rep(id, UR_CM_SIDR_SUCCESS, param, now_ns);
	return 0;
}

/* The message to be refused; -1: none in this state. */
static int refused_message(const struct ur_cm_id *id)
{
	if (id->state == UR_CMS_REQ_RCVD)
		return UR_CM_ABOUT_REQ;
	if (id->state == UR_CMS_REP_RCVD)
		return UR_CM_ABOUT_REP;
	return id->state == UR_CMS_REP_SENT ? UR_CM_ABOUT_OTHER : -1;
}

static void send_rej(struct ur_cm_id *id, uint16_t reason, const void *data,
		     uint8_t len, uint64_t now_ns)
{
	struct ur_cm_msg m;

	ur_cm_msg_init(id, &m, UR_CM_REJ, id->tid);
	m.u.rej.about = (uint8_t)refused_message(id);
	m.u.rej.reason = reason ? reason : UR_CM_REJ_CONSUMER;
	ur_cm_set_private(&m, data, len);
	ur_cm_send_kept(id, &m);
	ur_cm_arm_linger(id, now_ns);
	ur_cm_set_state(id, UR_CMS_REJ_SENT);
}

int ur_cm_reject(struct ur_cm_id *id, uint16_t reason, const void *private_data,
		 uint8_t private_len, uint64_t now_ns)
{
	struct ur_cm_param param = { .private_data = private_data,
				     .private_len = private_len };
	bool datagram = id->state == UR_CMS_SIDR_REQ_RCVD;
	unsigned int space =
		datagram ? UR_CM_PRIVATE_SIDR_REP : UR_CM_PRIVATE_REJ;

	if (!datagram && refused_message(id) < 0)
		return -EINVAL;
	if (!private_fits(private_data, private_len, space))
		return -EINVAL;
	ur_cm_request_seen(id);
	if (datagram)
		send_sidr_rep(id, UR_CM_SIDR_REJECT, &param, now_ns);
	else
		send_rej(id, reason, private_data, private_len, now_ns);
	return 0;
}

static void answer_dreq(struct ur_cm_id *id, uint64_t now_ns)
{
	ur_cm_send_drep(id, id->answer_tid);
	ur_cm_arm_timewait(id, now_ns);
	ur_cm_set_state(id, UR_CMS_TIMEWAIT);
}

static void ask_dreq(struct ur_cm_id *id, uint64_t now_ns)
{
	id->lap = UR_CM_LAP_NONE;
	ur_cm_send_dreq(id, now_ns);
	ur_cm_set_state(id, UR_CMS_DREQ_SENT);
}

int ur_cm_disconnect(struct ur_cm_id *id, uint64_t now_ns)
{
	if (id->state == UR_CMS_ESTABLISHED || id->state == UR_CMS_REP_SENT)
		ask_dreq(id, now_ns);
	else if (id->state == UR_CMS_DREQ_RCVD)
		answer_dreq(id, now_ns);
	else if (id->state != UR_CMS_DREQ_SENT && id->state != UR_CMS_TIMEWAIT)
		return -EINVAL;
	return 0;
}

int ur_cm_notify(struct ur_cm_id *id, uint64_t now_ns)
{
	if (id->state == UR_CMS_ESTABLISHED)
		return 0;
	if (id->state != UR_CMS_REP_SENT)
		return -EINVAL;
	if (ur_cm_spare(id->cm) < 0)
		return -ENOMEM;
	ur_timer_cancel(&id->cm->timers, &id->timer);
	ur_cm_post(id, UR_CM_ESTABLISHED, 0);
	ur_cm_set_state(id, UR_CMS_ESTABLISHED);
	return 0;
}

int ur_cm_lap(struct ur_cm_id *id, const struct ur_cm_path *alt,
	      const void *private_data, uint8_t private_len, uint64_t now_ns)
{
	struct ur_cm_msg m;

	if (id->state != UR_CMS_ESTABLISHED || id->lap != UR_CM_LAP_NONE ||
	    !private_fits(private_data, private_len, UR_CM_PRIVATE_LAP))
		return -EINVAL;
	id->alt = *alt;
	if (!id->alt.hop_limit)
		id->alt.hop_limit = UR_CM_HOP_LIMIT;
	if (!id->alt.ack_timeout)
		id->alt.ack_timeout = id->ack_timeout;
	ur_cm_msg_init(id, &m, UR_CM_LAP, ur_cm_tid(id));
	m.u.lap.remote_qpn = id->remote_qpn;
	m.u.lap.remote_response_timeout = id->response_timeout;
	fill_path(id, &id->alt, id->alt.ack_timeout, &m.u.lap.alternate);
	ur_cm_set_private(&m, private_data, private_len);
	id->lap = UR_CM_LAP_SENT;
	ur_cm_send_timed(id, &m, now_ns);
	return 0;
}

int ur_cm_migrate(struct ur_cm_id *id)
{
	struct ur_cm_path was = id->path;

	if (id->state != UR_CMS_ESTABLISHED)
		return -EINVAL;
	if (!id->has_alt)
		return 0;
	id->path = id->alt;
	id->alt = was;
	ur_cm_path_changed(id);
	return 0;
}

int ur_cm_apr(struct ur_cm_id *id, enum ur_cm_apr status,
	      const void *private_data, uint8_t private_len, uint64_t now_ns)
{
	struct ur_cm_msg m;

	if (id->state != UR_CMS_ESTABLISHED || id->lap != UR_CM_LAP_RCVD ||
	    !private_fits(private_data, private_len, UR_CM_PRIVATE_APR))
		return -EINVAL;
	ur_cm_msg_init(id, &m, UR_CM_APR, id->answer_tid);
	m.u.apr.status = (uint8_t)status;
	ur_cm_set_private(&m, private_data, private_len);
	id->lap = UR_CM_LAP_NONE;
	id->has_alt = status == UR_CM_APR_SUCCESS;
	ur_cm_send(id, &m);
	return 0;
}

/* Sends the message that ends the connection in this state; the protocol then
 * finishes on its own. */
static void end(struct ur_cm_id *id, uint64_t now_ns)
{
	static const struct ur_cm_param none;

	id->owned = false;
	ur_cm_purge_events(id);
	ur_cm_request_seen(id);
	if (id->state == UR_CMS_REQ_RCVD || id->state == UR_CMS_REP_RCVD) {
		send_rej(id, UR_CM_REJ_CONSUMER, NULL, 0, now_ns);
	} else if (id->state == UR_CMS_SIDR_REQ_RCVD) {
		send_sidr_rep(id, UR_CM_SIDR_REJECT, &none, now_ns);
	} else if (id->state == UR_CMS_ESTABLISHED ||
		   id->state == UR_CMS_REP_SENT) {
		/* the peer may be established already, and a REJ is not
		 * repeated: send a DREQ until it answers */
		ask_dreq(id, now_ns);
	} else if (id->state == UR_CMS_DREQ_RCVD) {
		answer_dreq(id, now_ns);
	} else if (id->state == UR_CMS_REQ_SENT) {
		ur_cm_send_rej_timeout(id);
		ur_cm_set_state(id, UR_CMS_CLOSED);
	} else if (id->state == UR_CMS_IDLE || id->state == UR_CMS_LISTEN ||
		   id->state == UR_CMS_CLOSED ||
		   id->state == UR_CMS_SIDR_REQ_SENT) {
		ur_cm_id_free(id);
	} else {
		ur_cm_linger(id);
	}
}

/* A listener is destroyed: requests that were not reported are rejected. */
void ur_cm_id_destroy(struct ur_cm_id *id, uint64_t now_ns)
{
	ur_list_each_safe(struct ur_cm_id, child, &id->children, sibling) {
		if (child->event_pending)
			end(child, now_ns);
		else
			ur_cm_request_seen(child);
	}
	end(id, now_ns);
}
