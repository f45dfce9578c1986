/* SPDX-License-Identifier: BSD-2-Clause */
/* The effect of messages on a connection. Each action returns true if the state
 * changes to that of its cell in the table, false if the message is invalid. */
#include <string.h>

#include "cm/internal.h"

static void stop_timer(struct ur_cm_id *id)
{
	ur_timer_cancel(&id->cm->timers, &id->timer);
}

bool ur_cm_on_dup(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	id->cm->counters.duplicates++;
	return true;
}

/* A connection that has ended is remembered until the peer has been quiet for
 * UR_CM_LINGER_NS. */
bool ur_cm_on_again(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	id->cm->counters.duplicates++;
	ur_cm_send_again(id);
	if (id->state == UR_CMS_REJ_SENT || id->state == UR_CMS_SIDR_REP_SENT)
		ur_cm_arm_linger(id, rx->now_ns);
	return true;
}

/* IBTA 12.9: the owner has not answered yet; extend the peer's timeout. */
bool ur_cm_on_pending(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	id->cm->counters.duplicates++;
	ur_cm_send_mra(id, rx->m.attr == UR_CM_REP ? UR_CM_ABOUT_REP
						   : UR_CM_ABOUT_REQ);
	return true;
}

static void rej_of_request(const struct ur_cm_id *id, struct ur_cm_msg *m,
			   enum ur_cm_rej reason)
{
	ur_cm_msg_init(id, m, UR_CM_REJ, id->tid);
	m->u.rej.about = UR_CM_ABOUT_REQ;
	m->u.rej.reason = (uint16_t)reason;
}

/*
 * A delayed REQ of an ended connection must not start it again (IBTA 12.4.1).
 */
bool ur_cm_on_stale(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	struct ur_cm_msg m;

	id->cm->counters.stale++;
	rej_of_request(id, &m, UR_CM_REJ_STALE_CONN);
	ur_cm_send(id, &m);
	return true;
}

/* We ended it before the peer got our REP. */
bool ur_cm_on_req_ended(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	struct ur_cm_msg m;

	id->cm->counters.duplicates++;
	rej_of_request(id, &m, UR_CM_REJ_CONSUMER);
	ur_cm_send(id, &m);
	return true;
}

/* Which message do we wait with, and is the MRA about it? */
static bool mra_fits(const struct ur_cm_id *id, unsigned int about)
{
	if (id->state == UR_CMS_REQ_SENT)
		return about == UR_CM_ABOUT_REQ;
	if (id->state == UR_CMS_REP_SENT)
		return about == UR_CM_ABOUT_REP;
	return about == UR_CM_ABOUT_OTHER && id->lap == UR_CM_LAP_SENT;
}

bool ur_cm_on_mra(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	if (!mra_fits(id, rx->m.u.mra.about)) {
		id->cm->counters.drop_state++;
		return false;
	}
	ur_timer_arm(&id->cm->timers, &id->timer,
		     rx->now_ns + ur_cm_code_ns(rx->m.u.mra.service_timeout) +
			     2 * ur_cm_code_ns(UR_CM_LIFETIME));
	return true;
}

static void post_rejected(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	struct ur_cm_event *ev =
		ur_cm_post(id, UR_CM_REJECTED, rx->m.u.rej.reason);

	ur_cm_post_private(ev, rx->m.private_data, UR_CM_PRIVATE_REJ);
}

bool ur_cm_on_rej(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	post_rejected(id, rx);
	return true;
}

/* The peer gave up before it was established. A REQ of it may still be in
 * flight, and must not open the connection again. */
bool ur_cm_on_rej_early(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	struct ur_cm_msg m;

	post_rejected(id, rx);
	rej_of_request(id, &m, UR_CM_REJ_STALE_CONN);
	ur_cm_msg_encode(&m, id->mad);
	ur_cm_arm_linger(id, rx->now_ns);
	return true;
}

/* The QP may have sent already, so the connection ends through TIMEWAIT. */
bool ur_cm_on_rej_late(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	post_rejected(id, rx);
	ur_cm_arm_timewait(id, rx->now_ns);
	return true;
}

/* The peer does not know the connection (any more): equivalent to a DREP. */
bool ur_cm_on_rej_dreq(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	ur_cm_post(id, UR_CM_DISCONNECTED, 0);
	ur_cm_arm_timewait(id, rx->now_ns);
	return true;
}

static uint8_t at_most(uint8_t v, uint8_t limit)
{
	return v < limit ? v : limit;
}

static uint32_t qpn_of(const struct ur_cm_id *id,
		       const struct ur_cm_msg_rep *rep)
{
	return id->qp_type == UR_QPT_XRC_SEND ? rep->local_eecn : rep->qpn;
}

/* The depths that the peer grants, from our view, limited to those requested,
 * for which the owner's QP was created. */
static void take_reply(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	const struct ur_cm_msg_rep *rep = &rx->m.u.rep;

	id->remote_id = rx->m.local_id;
	id->remote_guid = rep->ca_guid;
	id->remote_qpn = qpn_of(id, rep);
	id->sq_psn = rep->starting_psn;
	id->initiator_depth =
		at_most(rep->responder_resources, id->initiator_depth);
	id->responder_resources =
		at_most(rep->initiator_depth, id->responder_resources);
	id->rnr_retry_count = rep->rnr_retry_count;
	id->ack_timeout =
		ur_cm_ack_timeout(id->ack_timeout - 1u, rep->target_ack_delay);
}

static uint32_t rep_vendor(const struct ur_cm_msg_rep *rep)
{
	return (uint32_t)rep->vendor_id_h << 16 |
	       (uint32_t)rep->vendor_id_m << 8 | rep->vendor_id_l;
}

/*
 * IBTA 12.4.1, 12.9.8.3.1: the peer connects again with a QP that we consider
 * connected, so it has forgotten the connection. The new request is refused,
 * and the old connection ends by a DREQ, which the peer answers in any case.
 */
void ur_cm_end_stale(struct ur_cm_id *old, uint64_t now_ns)
{
	old->cm->counters.stale++;
	ur_cm_send_dreq(old, now_ns);
	ur_cm_set_state(old, UR_CMS_DREQ_SENT);
}

static void refuse_reply(struct ur_cm_id *id)
{
	struct ur_cm_msg m;

	ur_cm_msg_init(id, &m, UR_CM_REJ, id->tid);
	m.u.rej.about = UR_CM_ABOUT_REP;
	m.u.rej.reason = UR_CM_REJ_STALE_CONN;
	ur_cm_send(id, &m);
	ur_cm_post(id, UR_CM_REJECTED, UR_CM_REJ_STALE_CONN);
	ur_cm_set_state(id, UR_CMS_CLOSED);
}

bool ur_cm_on_rep(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	const struct ur_cm_msg_rep *rep = &rx->m.u.rep;
	struct ur_cm_id *old = ur_cm_find_qpn(rx->cm, id->path.remote,
					      rep->ca_guid, qpn_of(id, rep));
	struct ur_cm_event *ev;

	if (rx->m.local_id == 0) {
		id->cm->counters.drop_malformed++;
		return false;
	}
	stop_timer(id);
	take_reply(id, rx);
	if (old && id->remote_qpn) {
		ur_cm_end_stale(old, rx->now_ns);
		refuse_reply(id);
		return false;
	}
	ur_cm_enter_remote(id);
	ur_cm_enter_qpn(id);
	ev = ur_cm_post(id, UR_CM_RESPONSE, 0);
	ev->param.responder_resources = id->responder_resources;
	ev->param.initiator_depth = id->initiator_depth;
	ev->param.flow_control = rep->flow_control;
	ev->param.retry_count = id->retry_count;
	ev->param.rnr_retry_count = rep->rnr_retry_count;
	ev->param.srq = rep->srq;
	ev->param.qpn = id->remote_qpn;
	ev->param.qp_type = id->qp_type;
	ev->param.ece_vendor = rep_vendor(rep);
	ev->param.ece_options = rx->m.attr_mod;
	ur_cm_post_private(ev, rx->m.private_data, UR_CM_PRIVATE_REP);
	return true;
}

/* Our RTU was lost. */
bool ur_cm_on_rep_dup(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	id->cm->counters.duplicates++;
	if (id->active)
		ur_cm_send_rtu(id);
	return true;
}

bool ur_cm_on_rtu(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	struct ur_cm_event *ev = ur_cm_post(id, UR_CM_ESTABLISHED, 0);

	stop_timer(id);
	ur_cm_post_private(ev, rx->m.private_data,
			   ur_cm_private_size(UR_CM_RTU));
	return true;
}

bool ur_cm_on_dreq(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	struct ur_cm_event *ev;

	if (rx->m.u.dreq.remote_qpn != id->local_qpn) {
		id->cm->counters.drop_wrong_peer++;
		return false;
	}
	stop_timer(id);
	id->lap = UR_CM_LAP_NONE;
	id->answer_tid = rx->m.tid;
	ev = ur_cm_post(id, UR_CM_DISCONNECTED, 0);
	ur_cm_post_private(ev, rx->m.private_data,
			   ur_cm_private_size(UR_CM_DREQ));
	return true;
}

/* The peer accepted, disconnected, and its REP was lost. To our owner, which
 * never saw the acceptance, that is a rejection. */
bool ur_cm_on_dreq_early(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	struct ur_cm_msg m = { .attr = UR_CM_DREP,
			       .tid = rx->m.tid,
			       .local_id = id->local_id,
			       .remote_id = rx->m.local_id };

	if (rx->m.u.dreq.remote_qpn != id->local_qpn) {
		id->cm->counters.drop_wrong_peer++;
		return false;
	}
	ur_cm_send(id, &m);
	ur_cm_post(id, UR_CM_REJECTED, UR_CM_REJ_CONSUMER);
	return true;
}

/* Both sides sent a DREQ; our owner has agreed by its own. */
bool ur_cm_on_dreq_cross(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	if (rx->m.u.dreq.remote_qpn != id->local_qpn) {
		id->cm->counters.drop_wrong_peer++;
		return false;
	}
	id->answer_tid = rx->m.tid;
	ur_cm_send_drep(id, rx->m.tid);
	ur_cm_post(id, UR_CM_DISCONNECTED, 0);
	ur_cm_arm_timewait(id, rx->now_ns);
	return true;
}

/* Our DREP was lost. */
bool ur_cm_on_dreq_dup(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	id->cm->counters.duplicates++;
	ur_cm_send_drep(id, rx->m.tid);
	return true;
}

bool ur_cm_on_drep(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	struct ur_cm_event *ev = ur_cm_post(id, UR_CM_DISCONNECTED, 0);

	ur_cm_post_private(ev, rx->m.private_data,
			   ur_cm_private_size(UR_CM_DREP));
	ur_cm_arm_timewait(id, rx->now_ns);
	return true;
}

/* Checks of an offered path before the owner is asked. */
static enum ur_cm_apr check_lap(const struct ur_cm_id *id,
				const struct ur_cm_msg_lap *lap)
{
	const struct ur_cm_wire_path *alt = &lap->alternate;

	if (lap->remote_qpn != id->local_qpn)
		return UR_CM_APR_INVALID_QPN;
	if (ur_addr_is_v4(alt->local_gid) != ur_addr_is_v4(alt->remote_gid) ||
	    ur_addr_is_zero(alt->local_gid) || ur_addr_is_zero(alt->remote_gid))
		return UR_CM_APR_INVALID_GID;
	if (ur_addr_equal(alt->local_gid, id->path.remote) &&
	    ur_addr_equal(alt->remote_gid, id->path.local))
		return UR_CM_APR_IS_CURRENT;
	return UR_CM_APR_SUCCESS;
}

/* Its owner has not answered the offer yet. */
static bool lap_again(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	struct ur_cm_msg mra;

	ur_cm_msg_init(id, &mra, UR_CM_MRA, rx->m.tid);
	mra.u.mra.about = UR_CM_ABOUT_OTHER;
	mra.u.mra.service_timeout = UR_CM_MRA_TIMEOUT;
	ur_cm_send(id, &mra);
	return ur_cm_on_dup(id, rx);
}

/* IBTA 12.8: the peer offers another path. */
bool ur_cm_on_lap(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	const struct ur_cm_msg_lap *lap = &rx->m.u.lap;
	enum ur_cm_apr status = check_lap(id, lap);
	struct ur_cm_event *ev;
	struct ur_cm_msg apr;

	if (id->lap == UR_CM_LAP_SENT) {
		id->cm->counters.drop_state++;
		return false;
	}
	if (status != UR_CM_APR_SUCCESS) {
		ur_cm_msg_init(id, &apr, UR_CM_APR, rx->m.tid);
		apr.u.apr.status = (uint8_t)status;
		ur_cm_send(id, &apr);
		return true;
	}
	if (id->lap == UR_CM_LAP_RCVD)
		return lap_again(id, rx);
	id->lap = UR_CM_LAP_RCVD;
	id->answer_tid = rx->m.tid;
	id->alt = id->path;
	memcpy(id->alt.local, lap->alternate.remote_gid, 16);
	memcpy(id->alt.remote, lap->alternate.local_gid, 16);
	id->alt.tclass = lap->alternate.traffic_class;
	id->alt.hop_limit = lap->alternate.hop_limit;
	id->alt.ack_timeout = lap->alternate.ack_timeout;
	ev = ur_cm_post(id, UR_CM_ALT_PATH, 0);
	ev->path = id->alt;
	ur_cm_post_private(ev, rx->m.private_data, UR_CM_PRIVATE_LAP);
	return true;
}

bool ur_cm_on_apr(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	struct ur_cm_event *ev;

	if (id->lap != UR_CM_LAP_SENT) {
		id->cm->counters.drop_state++;
		return false;
	}
	stop_timer(id);
	id->lap = UR_CM_LAP_NONE;
	id->has_alt = rx->m.u.apr.status == UR_CM_APR_SUCCESS;
	ev = ur_cm_post(id, UR_CM_ALT_PATH_RESULT, rx->m.u.apr.status);
	ev->path = id->alt;
	ur_cm_post_private(ev, rx->m.private_data, UR_CM_PRIVATE_APR);
	return true;
}
