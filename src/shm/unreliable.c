/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requesters of UC and UD in a channel.  A request is complete when it is in
 * the ring: there is no acknowledgement, and a receiver that cannot take it
 * drops it.
 *
 * The order between two queue pairs holds across both paths.  A requester that
 * leaves the wire marks its first descriptor, and the receiver takes that only
 * when its link is empty; earlier packets are there by then, since they came
 * over loopback.  A requester that leaves the channel waits until the peer has
 * taken its descriptors.
 *
 * A full ring makes the sender wait, as pacing does on the wire.  But a
 * receiver that is stopped does not block it for ever: after PATIENCE_NS
 * without progress requests to it are lost, as its socket would lose them.
 */
#include <errno.h>

#include "shm/internal.h"

#define PATIENCE_NS 1000000000u

static struct ur_swqe *next_request(const struct ur_rqp *q)
{
	struct ur_sq *sq = &q->qp->sq;

	if (q->req.cur == ur_sq_tail(sq))
		return NULL;
	return ur_sq_slot(sq, q->req.cur);
}

/* As RC, but requests without acknowledgement only. */
static struct ur_shm_peer *uc_peer(const struct ur_rqp *q,
				   const struct ur_swqe *w)
{
	const struct ur_shm_qp *n = q->shm;

	if (!n || !n->peer || n->peer->broken || q->wire_only ||
	    q->qp->attr.rate_limit || ur_swqe_is_local(w))
		return NULL;
	return n->peer;
}

static struct ur_shm_peer *peer_for(struct ur_rqp *q, const struct ur_swqe *w)
{
	return q->qp->type == UR_QPT_UD ? ur_shm_ud_peer(q, w) : uc_peer(q, w);
}

bool ur_shm_unreliable_may(struct ur_rqp *q)
{
	const struct ur_swqe *w;

	if (__builtin_expect(ur_list_empty(&q->r->shm->peers), 1))
		return false;
	w = next_request(q);
	return w && ur_rqp_state(q) == UR_QPS_RTS && peer_for(q, w);
}

bool ur_shm_unreliable_takes(struct ur_rqp *q)
{
	if (!ur_shm_unreliable_may(q))
		return false;
	q->qp->on_shm = true;
	ur_shm_unreliable_pump(q);
	return q->qp->on_shm || !next_request(q);
}

void ur_shm_sent_by_wire(struct ur_rqp *q)
{
	uint64_t wired = ++q->r->shm->wire;

	if (q->shm)
		q->shm->wired = wired;
}

static void stop_waiting(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;

	if (!n->since_ns)
		return;
	n->since_ns = 0;
	ur_list_del(&n->full);
	ur_timer_cancel(&q->r->timers, &q->timer);
}

static void go_wire(struct ur_rqp *q)
{
	stop_waiting(q);
	q->qp->on_shm = false;
	if (q->qp->type == UR_QPT_UD)
		ur_ud_route(q);
	ur_rqp_want_send(q);
}

/* Wait for the consumer. False: that took too long. */
static bool wait(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;
	struct ur_shm_peer *p = n->peer;
	uint64_t now = q->r->now_ns;

	ur_spsc_refresh(&p->chan.tx);
	if (p->stalled && p->stalled_tail == p->chan.tx.tail)
		return false;
	p->stalled = false;
	if (!n->since_ns || n->at_tail != p->chan.tx.tail) {
		n->since_ns = now;
		n->at_tail = p->chan.tx.tail;
	} else if ((int64_t)(now - n->since_ns) >= (int64_t)PATIENCE_NS) {
		p->stalled = true;
		p->stalled_tail = n->at_tail;
		return false;
	}
	ur_shm_wait_room(q);
	if (q->timer.at_ns == UR_NEVER)
		ur_timer_arm(&q->r->timers, &q->timer,
			     n->since_ns + PATIENCE_NS);
	return true;
}

/* Its destination has none of q's descriptors; a UC QP has one destination. */
static bool is_elsewhere(const struct ur_rqp *q, const struct ur_swqe *w)
{
	return q->qp->type == UR_QPT_UD &&
	       w->wr.ud.dqpn >> UR_SLOT_SHIFT != q->shm->peer->slot;
}

/*
 * Has the peer taken all descriptors before `at`? Derived from the content of
 * the ring, since other queue pairs may have sent any number meanwhile.
 */
static bool has_passed(struct ur_chan *c, uint32_t at)
{
	if (c->tx.head - at >= c->tx.head - c->tx.tail)
		return true;
	ur_spsc_refresh(&c->tx);
	return c->tx.head - at >= c->tx.head - c->tx.tail;
}

/* Are all of q's descriptors taken? */
static bool is_taken(struct ur_rqp *q)
{
	return has_passed(&q->shm->peer->chan, q->shm->last);
}

/* ... or will they never be: then the wire may follow. */
static bool is_over(struct ur_rqp *q, const struct ur_swqe *w)
{
	const struct ur_shm_qp *n = q->shm;

	if (!n->peer || n->peer->broken || is_elsewhere(q, w))
		return true;
	return is_taken(q) || !wait(q);
}

/* It was sent, or is lost. */
static void complete(struct ur_rqp *q, struct ur_swqe *w,
		     enum ur_wc_status status)
{
	q->shm->off = 0;
	if (q->qp->type == UR_QPT_UD) {
		ur_ud_complete(q, w, status);
	} else if (status != UR_WC_SUCCESS) {
		ur_req_fail(q, status);
	} else {
		q->req.cur++;
		q->req.fresh++;
		ur_req_complete(q, w, status);
		ur_rc_check_drained(q);
	}
	if (status != UR_WC_SUCCESS)
		q->qp->on_shm = false;
}

static int send_one(struct ur_rqp *q, const struct ur_swqe *w)
{
	struct ur_shm_qp *n = q->shm;
	int err;

	/* It does not overtake queue pairs that wait for room. */
	if (!ur_list_empty(&n->peer->full) && !n->peer->serving)
		return -EAGAIN;
	if (!ur_list_empty(&n->peer->acks))
		ur_shm_ack_others(q);
	err = q->qp->type == UR_QPT_UD ? ur_shm_ud_send(q, w)
				       : ur_shm_send_message(q, w);
	n->last = n->peer->chan.tx.head;
	return err;
}

/* A WRITE of UC, if nothing is outstanding on either path. */
static bool do_directly(struct ur_rqp *q, const struct ur_swqe *w)
{
	const struct ur_shm_qp *n = q->shm;

	return q->qp->type == UR_QPT_UC && n->peer->direct && !n->off &&
	       w->opcode == UR_WR_RDMA_WRITE && n->wired <= n->peer->synced &&
	       has_passed(&n->peer->chan, n->peer->marked) && is_taken(q) &&
	       ur_shm_do_directly(q, w);
}

/* Send one request; false: the next one has to wait. */
static bool send_next(struct ur_rqp *q, struct ur_swqe *w)
{
	int err;

	if (!q->shm->off && !peer_for(q, w)) {
		if (is_over(q, w))
			go_wire(q);
		return false;
	}
	if (do_directly(q, w))
		return true;
	err = q->qp->type == UR_QPT_UD && !ur_ud_fits(w) ? -EMSGSIZE
							 : send_one(q, w);
	if (err == -EAGAIN) {
		if (wait(q))
			return false;
		q->r->cnt.shm_lost++;
	} else if (err) {
		stop_waiting(q);
		complete(q, w,
			 err == -EMSGSIZE ? UR_WC_LOC_LEN_ERR
					  : UR_WC_LOC_PROT_ERR);
		return false;
	}
	stop_waiting(q);
	q->r->cnt.shm_requests += !err;
	complete(q, w, UR_WC_SUCCESS);
	return true;
}

void ur_shm_unreliable_pump(struct ur_rqp *q)
{
	struct ur_swqe *w;

	q->shm->direct = 0;
	while (q->qp->on_shm && (w = next_request(q))) {
		enum ur_qp_state s = ur_rqp_state(q);

		/* As on the wire: SQD finishes a request that has begun. */
		if (s != UR_QPS_RTS && (s != UR_QPS_SQD || !q->shm->off))
			return;
		if (!send_next(q, w))
			return;
		if (q->shm->direct < UR_SHM_DIRECT_BYTES)
			continue;
		ur_shm_rest(q);
		return;
	}
}

/* A request that has begun there is lost; the rest goes by the wire. */
void ur_shm_unreliable_part(struct ur_rqp *q)
{
	struct ur_swqe *w = next_request(q);

	if (!q->qp->on_shm)
		return;
	if (q->shm->off && w) {
		q->r->cnt.shm_lost++;
		complete(q, w, UR_WC_SUCCESS);
	}
	go_wire(q);
}
