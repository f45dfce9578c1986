/* SPDX-License-Identifier: BSD-2-Clause */
/* Initiators of DC (dc.h): sessions and their paths. */
#include "roce/dc.h"
#include "roce/psn_set.h"

static bool is_same_target(const struct ur_dc_target *a,
			   const struct ur_dc_target *b)
{
	return a->dctn == b->dctn && a->key == b->key &&
	       a->av.scope_id == b->av.scope_id &&
	       a->av.tclass == b->av.tclass &&
	       a->av.hop_limit == b->av.hop_limit &&
	       a->av.dc_mtu == b->av.dc_mtu &&
	       !memcmp(a->av.sgid, b->av.sgid, sizeof(a->av.sgid)) &&
	       !memcmp(a->av.dgid, b->av.dgid, sizeof(a->av.dgid));
}

/* All requests before the next one are complete. */
static bool is_idle(const struct ur_rqp *q)
{
	const struct ur_requester *s = &q->req;

	return s->una == s->end && ur_sq_head(&q->qp->sq) == s->cur;
}

/* A packet's PSN is compared with the session's first one, so it has to be less
 * than half of all PSNs behind that. */
static bool has_room(const struct ur_rqp *q, const struct ur_swqe *w)
{
	return ur_psn_count(q->dci->first_psn, q->req.psn) +
		       ur_swqe_pkts(w, q->mtu) <=
	       (UR_PSN_MASK + 1) / 2;
}

/* The path MTU is the queue pair's, or less: requests are longer than those of RC,
 * and addresses may be on other interfaces than that of the queue pair. */
static void take_mtu(struct ur_rqp *q)
{
	uint32_t most = q->dci->target.av.dc_mtu;

	q->dci->mtu = (uint8_t)q->qp->attr.path_mtu;
	if (most && most < q->dci->mtu)
		q->dci->mtu = (uint8_t)most;
	q->mtu = ur_mtu_bytes(q->dci->mtu);
}

/* False: no memory for its path. */
static bool set_target(struct ur_rqp *q, const struct ur_dc_target *to)
{
	struct ur_path *p = ur_path_get(q->r, &to->av, to->dctn, false);

	if (!p)
		return false;
	if (q->path)
		ur_path_put(q->r, q->path);
	q->path = p;
	q->dci->target = *to;
	q->qp->attr.dest_qpn = to->dctn;
	take_mtu(q);
	return true;
}

/*
 * The time since the host's start orders sessions also if the queue pair, or its
 * number, was used before.  No other queue pair has this number at this address.
 */
static void begin(struct ur_rqp *q)
{
	struct ur_dci *d = q->dci;

	d->session = q->r->now_ns > d->session ? q->r->now_ns : d->session + 1;
	d->first_psn = q->req.psn;
	d->heard_ns = q->r->now_ns;
}

bool ur_dci_route(struct ur_rqp *q)
{
	struct ur_requester *s = &q->req;
	const struct ur_sq *sq = &q->qp->sq;
	const struct ur_dc_target *to;

	while (s->cur == s->fresh) {
		const struct ur_swqe *w = ur_sq_slot(sq, s->cur);

		if (s->cur == ur_sq_tail(sq) || ur_rqp_state(q) != UR_QPS_RTS)
			return false;
		if (!ur_swqe_is_local(w))
			break;
		if (!ur_local_run(q, w))
			return false;
	}
	if (s->cur != s->fresh)
		return true; /* it was begun in this session */
	to = ur_qp_dc_target(q->qp, s->cur);
	if (!is_idle(q))
		return is_same_target(to, &q->dci->target) &&
		       has_room(q, ur_sq_slot(sq, s->cur));
	if ((!q->path || !is_same_target(to, &q->dci->target)) &&
	    !set_target(q, to)) {
		ur_req_fail(q, UR_WC_GENERAL_ERR);
		return false;
	}
	begin(q);
	return true;
}

/*
 * Might the target have executed the first packet, and have forgotten that?  Its
 * connection would be made again, and execute it twice.  Later packets are no
 * danger, since a new connection waits for the first one.
 */
static bool is_forgotten(const struct ur_rqp *q, uint64_t now_ns)
{
	const struct ur_requester *s = &q->req;

	return s->una != s->end && s->una == q->dci->first_psn &&
	       now_ns > q->dci->heard_ns + UR_DC_SILENT_NS;
}

bool ur_dci_gives_up(struct ur_rqp *q, uint64_t now_ns)
{
	if (!is_forgotten(q, now_ns))
		return false;
	q->r->cnt.retry_exceeded_err++;
	ur_req_fail(q, UR_WC_RETRY_EXC_ERR);
	return true;
}

/* The answer may wait in the socket, if the process was stopped: the timer decides,
 * which is due by then.  While nothing is sent (the path's window), none can come. */
enum ur_emit ur_dci_emit(struct ur_rqp *q, struct ur_burst *t, uint64_t now_ns)
{
	if (q->req.una == q->req.end)
		q->dci->heard_ns = now_ns;
	return is_forgotten(q, now_ns) ? UR_EMIT_IDLE
				       : ur_rc_emit(q, t, now_ns);
}

void ur_dci_response(struct ur_rqp *q, struct ur_in *in)
{
	bool held = is_forgotten(q, in->now_ns);

	if (ur_psn_diff(in->hdr.bth.psn, q->req.una) >= 0)
		q->dci->heard_ns = in->now_ns;
	ur_rc_response(q, in);
	if (held && ur_rqp_state(q) != UR_QPS_ERR)
		ur_rqp_want_send(q);
}

void ur_dci_stamp(const struct ur_rqp *q, struct ur_hdr *h)
{
	const struct ur_dci *d = q->dci;

	h->dc_version = UR_DC_VERSION;
	h->dc_key = d->target.key;
	h->dc_session = d->session;
	h->dc_first = d->first_psn;
	h->dc_mtu = d->mtu;
	h->sqpn = q->qp->qpn;
}
