/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Assigns queue pairs to channels, queues those that wait for ring space, and
 * sends what each still owes.  Overview: shm.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "shm/export.h"
#include "shm/internal.h"

#define BUDGET 64u /* descriptors of a channel per turn */
/* Slots reserved for control descriptors: UR_SHM_READY to UR_SHM_DONE. */
#define SPARE  64u

/* Acknowledgements and refusals do not wait behind a ring full of requests. */
static uint32_t spare_of(enum ur_shm_kind kind)
{
	return kind >= UR_SHM_READY && kind <= UR_SHM_DONE ? 0 : SPARE;
}

struct ur_desc *ur_shm_desc(struct ur_rqp *q, enum ur_shm_kind kind, bool asks)
{
	const struct ur_shm_qp *n = q->shm;
	struct ur_shm_peer *p = n->peer;
	struct ur_desc *c;
	uint8_t epoch = asks ? n->epoch : n->serves_epoch;

	if (!p || p->broken)
		return NULL;
	if (!ur_spsc_has_room(&p->chan.tx, spare_of(kind))) {
		ur_shm_wait_room(q);
		return NULL;
	}
	c = ur_chan_desc(&p->chan);
	c->kind = (uint8_t)kind;
	c->flags = 0;
	c->len = 0;
	c->to = q->qp->attr.dest_qpn | (uint32_t)epoch << UR_SHM_EPOCH_SHIFT;
	c->from = q->qp->qpn;
	return c;
}

void ur_shm_send(struct ur_rqp *q, struct ur_desc *c)
{
	struct ur_shm_qp *n = q->shm;
	struct ur_shm_peer *p = n->peer;
	bool mark;

	if (n->serves) {
		c->flags |= UR_SHM_ACK;
		c->ack = n->done;
		n->acked_done = n->done;
		n->ack_requested = false;
		ur_list_del(&n->acking);
	}
	mark = n->wired > p->synced;
	if (mark) {
		c->flags |= UR_SHM_BEHIND;
		/*
		 * Record only what this QP has sent: packets of other QPs,
		 * counted in ur_shm.wire, may not have left yet.
		 */
		p->synced = n->wired;
	}
	if (__builtin_expect(q->r->tap != NULL, 0))
		ur_shm_tap_sent(q, c);
	ur_spsc_publish(&p->chan.tx);
	if (mark)
		p->marked = p->chan.tx.head;
	p->dirty = true;
}

/* Has the peer made room since waiting QPs last found the ring full? */
static bool has_moved(struct ur_shm_peer *p)
{
	ur_spsc_refresh(&p->chan.tx);
	return p->chan.tx.tail != p->seen_tail ||
	       p->chan.tx.data_tail != p->seen_data_tail;
}

static void note_room(struct ur_shm_peer *p)
{
	p->seen_tail = p->chan.tx.tail;
	p->seen_data_tail = p->chan.tx.data_tail;
}

void ur_shm_wait_room(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;

	if (ur_list_empty(&n->peer->full) && !n->peer->serving)
		note_room(n->peer);
	if (ur_list_empty(&n->full))
		ur_list_add_tail(&n->peer->full, &n->full);
	/*
	 * The peer need not signal a lane that is awake: each poll looks for
	 * room, and so does ur_shm_sleep().
	 */
	if (!q->r->shm->asleep)
		return;
	ur_spsc_want_room(&n->peer->chan.tx);
	q->r->shm->look = true;
}

/* A descriptor without payload; false: no room. */
static bool send_bare(struct ur_rqp *q, enum ur_shm_kind kind, bool asks,
		      uint32_t index)
{
	struct ur_desc *c = ur_shm_desc(q, kind, asks);
	bool dirty, tells;

	if (!c)
		return false;
	dirty = q->shm->peer->dirty;
	tells = q->shm->serves && q->shm->done != q->shm->acked_done;
	c->body.index = index;
	ur_shm_send(q, c);
	/*
	 * Setup descriptors do not signal the peer; it is woken by the first
	 * packets anyway.
	 */
	if (kind <= UR_SHM_READY && !tells)
		q->shm->peer->dirty = dirty;
	return true;
}

void ur_shm_ack_last(struct ur_rqp *q)
{
	if (ur_shm_peer_of(q) && q->shm->serves &&
	    q->shm->done != q->shm->acked_done)
		(void)send_bare(q, UR_SHM_DONE, false, 0);
}

/* Best effort, dropped if there is no room: the peer asks again. */
static void send_rndv_ok(struct ur_rqp *q)
{
	struct ur_desc *c = ur_shm_desc(q, UR_SHM_RNDV_OK, false);

	if (!c)
		return;
	c->body.rkey = q->shm->rndv_key;
	ur_shm_send(q, c);
}

static bool send_due(struct ur_rqp *q, enum ur_shm_due due)
{
	switch (due) {
	case UR_SHM_DUE_HELLO:
		return send_bare(q, UR_SHM_HELLO, true, 0);
	case UR_SHM_DUE_ASK:
		return send_bare(q, UR_SHM_ASK, true, q->qp->attr.sq_psn);
	case UR_SHM_DUE_READY:
		return send_bare(q, UR_SHM_READY, false, 0);
	case UR_SHM_DUE_REFUSED:
		if (!send_bare(q, UR_SHM_REFUSED, false, q->shm->rndv_failed))
			return false;
		ur_shm_stop_serving(q);
		return true;
	case UR_SHM_DUE_FAULT:
		return send_bare(q, UR_SHM_FAULT, false, UR_WC_REM_ACCESS_ERR);
	case UR_SHM_DUE_DONE:
		return send_bare(q, UR_SHM_DONE, false, 0);
	case UR_SHM_DUE_RNDV_OK:
		send_rndv_ok(q);
		return true;
	}
	return true;
}

/*
 * In the order of the bits of enum ur_shm_due, which the peer relies on.  A
 * refusal follows the answers to all requests that were done before it.
 */
static void send_all_due(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;

	if (n->res_count && !ur_shm_answer(q))
		return;
	for (unsigned int bit = UR_SHM_DUE_HELLO; bit <= UR_SHM_DUE_RNDV_OK;
	     bit <<= 1) {
		if (!(n->due & bit))
			continue;
		if (!send_due(q, (enum ur_shm_due)bit))
			return;
		n->due &= (uint8_t)~bit;
	}
}

void ur_shm_send_due(struct ur_rqp *q, enum ur_shm_due due)
{
	if (!q->shm->peer)
		return;
	q->shm->due |= (uint8_t)due;
	send_all_due(q);
}

void ur_shm_broken(struct ur_rqp *q)
{
	q->shm->peer->broken = true;
}

static bool connects(enum ur_qp_state s)
{
	return s == UR_QPS_RTR || s == UR_QPS_RTS || s == UR_QPS_SQD;
}

/* Announce our state (HELLO), or ask the peer to accept our requests (ASK). */
static void greet(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;
	enum ur_qp_state s = ur_rqp_state(q);

	if (q->qp->type != UR_QPT_RC)
		return;
	if (s == UR_QPS_RTR)
		ur_shm_send_due(q, UR_SHM_DUE_HELLO);
	if ((s == UR_QPS_RTS || s == UR_QPS_SQD) && !n->ready && !n->again) {
		n->epoch++;
		ur_shm_send_due(q, UR_SHM_DUE_ASK);
	}
}

static uint16_t slot_of(const struct ur_rqp *q)
{
	return (uint16_t)(q->qp->attr.dest_qpn >> UR_SLOT_SHIFT);
}

/* May q use shared memory: right type and state, peer on this host? */
static bool on_shm(const struct ur_rqp *q)
{
	return q->r->want_peer &&
	       (q->qp->type == UR_QPT_RC || q->qp->type == UR_QPT_UC) &&
	       q->qp->attr.av.is_local && connects(ur_rqp_state(q)) &&
	       !ur_tm_is_on(q);
}

static const char *why_not(const struct ur_rqp *q)
{
	enum ur_qp_type type = q->qp->type;

	if (type != UR_QPT_RC && type != UR_QPT_UC && type != UR_QPT_UD)
		return "this type of queue pair has no shared memory";
	if (!q->r->want_peer)
		return "shared memory is off for this process";
	if (type == UR_QPT_UD)
		return "the datagrams' peers are on other hosts, or have no "
		       "channel";
	if (!connects(ur_rqp_state(q)))
		return "it is not connected";
	if (!q->qp->attr.av.is_local)
		return "the peer is on another host";
	if (ur_tm_is_on(q))
		return "tag matching uses packets";
	if (q->r->shm_paused)
		return "faults of packets are in force";
	return NULL;
}

enum ur_shm_path ur_shm_path(const struct ur_qp *qp, const char **why)
{
	const struct ur_rqp *q = qp->proto;
	const struct ur_shm_peer *p = q && q->shm ? q->shm->peer : NULL;

	*why = q ? why_not(q) : "it is not attached";
	if (qp->on_shm) {
		*why = p && p->direct ? ""
				      : "no direct access to the peer's memory";
		return p && p->direct ? UR_SHM_DIRECT : UR_SHM_RING;
	}
	if (*why)
		return UR_SHM_NOT;
	*why = p ? "it has not changed over to shared memory"
		 : "no channel to the peer's process";
	return p ? UR_SHM_NOT : UR_SHM_NO_CHANNEL;
}

bool ur_shm_qp_make(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm ? q->shm : calloc(1, sizeof(*n));

	if (!n || q->shm)
		return n != NULL;
	n->q = q;
	/* Assume that all wire requests so far were this QP's. */
	n->wired = q->r->shm->wire;
	ur_list_init(&n->node);
	ur_list_init(&n->full);
	ur_list_init(&n->acking);
	ur_list_init(&n->more);
	q->shm = n;
	return true;
}

void ur_shm_qp_free(struct ur_shm_qp *n)
{
	if (!n)
		return;
	free(n->res);
	free(n);
}

int ur_shm_create(struct ur_shm **out)
{
	struct ur_shm *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	ur_list_init(&s->peers);
	ur_list_init(&s->more);
	*out = s;
	return 0;
}

void ur_shm_destroy(struct ur_shm *s)
{
	free(s);
}

static void join(struct ur_rqp *q, struct ur_shm_peer *p)
{
	if (!ur_shm_qp_make(q))
		return;
	q->shm->peer = p;
	ur_list_add_tail(&p->qps, &q->shm->node);
	if (q->qp->type == UR_QPT_UC)
		ur_shm_uc_join(q);
	greet(q);
}

void ur_shm_enter(struct ur_rqp *q, enum ur_qp_state state)
{
	struct ur_roce *r = q->r;

	if (!on_shm(q) || (state != UR_QPS_RTR && state != UR_QPS_RTS))
		return;
	if (ur_shm_peer_of(q)) {
		ur_shm_export_qp(q);
		greet(q);
		return;
	}
	ur_list_each(struct ur_shm_peer, p, &r->shm->peers, node) {
		if (p->slot == slot_of(q) && !p->broken) {
			join(q, p);
			return;
		}
	}
	if (state == UR_QPS_RTR)
		r->want_peer(r->want_arg, slot_of(q));
}

void ur_shm_stop(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;

	if (!n)
		return;
	ur_shm_req_stop(q);
	ur_shm_resp_stop(q);
	n->due = 0;
	ur_list_del(&n->full);
	ur_list_del(&n->more);
	ur_list_del(&n->node);
	n->peer = NULL;
}

/* The requester asks again when the wire has done what is refused, and gets no answer
 * before HELLO says that the pause is over. */
static void pause_qp(struct ur_rqp *q, bool paused)
{
	struct ur_shm_qp *n = q->shm;

	if (!paused) {
		ur_shm_export_qp(q);
		if (q->qp->type == UR_QPT_RC && connects(ur_rqp_state(q)))
			ur_shm_send_due(q, UR_SHM_DUE_HELLO);
		return;
	}
	ur_export_qp_set(q->r->export, q->qp->qpn, q->qp->pd, 0,
			 q->qp->attr.dest_qpn, false);
	if (!n->serves || q->qp->type != UR_QPT_RC)
		return;
	n->in_message = false;
	n->rndv_failed = false;
	ur_shm_send_due(q, UR_SHM_DUE_REFUSED);
}

void ur_shm_pause(struct ur_roce *r, bool paused)
{
	if (r->shm_paused == paused)
		return;
	r->shm_paused = paused;
	for (uint32_t i = 0; i < 1u << UR_SLOT_SHIFT; i++) {
		struct ur_rqp *q = r->qps[i];

		if (!q)
			continue;
		q->wire_only &= (uint8_t)~UR_WIRE_FAULTS;
		q->wire_only |= paused ? UR_WIRE_FAULTS : 0;
		if (ur_shm_peer_of(q) && q->qp->type != UR_QPT_UD)
			pause_qp(q, paused);
		else if (!paused && on_shm(q))
			r->want_peer(r->want_arg, slot_of(q));
	}
	ur_shm_signal(r);
}

void ur_shm_open(struct ur_roce *r, struct ur_shm_peer *p)
{
	ur_list_init(&p->qps);
	ur_list_init(&p->full);
	ur_list_init(&p->acks);
	ur_list_add_tail(&r->shm->peers, &p->node);
	for (uint32_t i = 0; i < 1u << UR_SLOT_SHIFT; i++) {
		struct ur_rqp *q = r->qps[i];

		if (q && !ur_shm_peer_of(q) && on_shm(q) &&
		    slot_of(q) == p->slot)
			join(q, p);
	}
}

/*
 * Nothing tells whether outstanding requests of RC were executed, so they are
 * not sent again; they time out.
 */
static void part(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;

	ur_list_del(&n->node);
	ur_list_del(&n->full);
	ur_list_del(&n->more);
	n->peer = NULL;
	n->due = 0;
	ur_shm_resp_stop(q);
	if (q->qp->type != UR_QPT_RC)
		ur_shm_unreliable_part(q);
	else if (!ur_shm_outstanding(q->shm))
		ur_shm_leave(q);
}

bool ur_shm_wants(const struct ur_roce *r, uint16_t slot)
{
	for (uint32_t i = 0; i < 1u << UR_SLOT_SHIFT; i++) {
		const struct ur_rqp *q = r->qps[i];

		if (q && !ur_shm_peer_of(q) && on_shm(q) && slot_of(q) == slot)
			return true;
	}
	return ur_shm_ud_wants(r, slot);
}

void ur_shm_for_each(const struct ur_roce *r,
		     void (*fn)(void *arg, const struct ur_shm_peer *p),
		     void *arg)
{
	ur_list_each(struct ur_shm_peer, peer, &r->shm->peers, node)
		fn(arg, peer);
}

bool ur_shm_stalled(struct ur_roce *r)
{
	if (!r->shm->look)
		return false;
	r->shm->look = false;
	return ur_shm_pending(r);
}

bool ur_shm_any(const struct ur_roce *r)
{
	return !ur_list_empty(&r->shm->peers);
}

bool ur_shm_pending(const struct ur_roce *r)
{
	if (!ur_list_empty(&r->shm->more))
		return true;
	ur_list_each(struct ur_shm_peer, p, &r->shm->peers, node)
		if (!ur_spsc_is_empty(&p->chan.rx) ||
		    (!ur_list_empty(&p->full) && has_moved(p)))
			return true;
	return false;
}

/* The QP that the descriptor is for; NULL: it is gone, or has another peer. */
static struct ur_rqp *addressee(const struct ur_roce *r,
				const struct ur_shm_peer *p,
				const struct ur_desc *c)
{
	struct ur_rqp *q = ur_rqp_find(r, c->to & UR_QPN_MASK);

	if (!q || q->qp->type == UR_QPT_UD || !ur_shm_peer_of(q) ||
	    q->shm->peer->slot != p->slot || q->qp->attr.dest_qpn != c->from ||
	    !connects(ur_rqp_state(q)))
		return NULL;
	return q;
}

static void take_response(struct ur_rqp *q, const struct ur_desc *c)
{
	if ((uint8_t)(c->to >> UR_SHM_EPOCH_SHIFT) != q->shm->epoch)
		return;
	if (c->kind == UR_SHM_READY)
		ur_shm_take_ready(q);
	else if (!q->shm->ready)
		return;
	else if (c->kind == UR_SHM_REFUSED)
		ur_shm_take_refused(q, c->body.index == 1);
	else if (c->kind == UR_SHM_FAULT)
		ur_shm_take_fault(q, c->body.index);
	else if (c->kind == UR_SHM_RNDV_OK)
		ur_shm_rndv_take_ok(q, c);
	else if (c->kind != UR_SHM_DONE)
		ur_shm_take_answer(q, c);
}

/*
 * Handle the carried acknowledgement first: its send completions precede the
 * receive's.
 */
static void take(struct ur_rqp *q, const struct ur_desc *c)
{
	if (q->qp->type == UR_QPT_UC) {
		ur_shm_uc_take(q, c);
		ur_rqp_check_overrun(q);
		return;
	}
	if (c->flags & UR_SHM_ACK)
		ur_shm_take_ack(q, c->ack);
	if (!connects(ur_rqp_state(q)))
		return; /* ur_shm_take_ack() put the QP into an error state */
	if (ur_shm_take_small(q, c)) {
		ur_rqp_check_overrun(q);
		return;
	}
	if (c->kind == UR_SHM_HELLO)
		greet(q);
	else if (c->kind == UR_SHM_ASK)
		ur_shm_take_ask(q, c);
	else if (c->kind >= UR_SHM_SEND)
		ur_shm_take_request(q, c);
	if (c->kind >= UR_SHM_READY && c->kind < UR_SHM_SEND)
		take_response(q, c);
	ur_rqp_check_overrun(q);
}

bool ur_shm_waits_link(const struct ur_roce *r)
{
	return r->shm->held;
}

void ur_shm_link_empty(struct ur_roce *r)
{
	r->shm->held = false;
	ur_list_each(struct ur_shm_peer, p, &r->shm->peers, node) {
		p->link_empty = p->held;
		p->held = false;
	}
}

/*
 * False: the sender sent packets before this descriptor; read the link until it
 * is empty, then try again.
 */
static bool may_take(struct ur_roce *r, struct ur_shm_peer *p,
		     const struct ur_desc *c)
{
	if (__builtin_expect(!(c->flags & UR_SHM_BEHIND), 1))
		return true;
	p->held = !p->link_empty;
	p->link_empty = false;
	r->shm->held |= p->held;
	return !p->held;
}

static bool take_oldest(struct ur_roce *r, struct ur_shm_peer *p)
{
	struct ur_desc c;
	struct ur_rqp *q;

	ur_spsc_copy(&p->chan.rx, &c);
	if (!may_take(r, p, &c))
		return false;
	r->shm->from = &p->chan;
	q = c.kind == UR_SHM_DATAGRAM ? NULL : addressee(r, p, &c);
	if (__builtin_expect(r->tap != NULL, 0) &&
	    (q || c.kind == UR_SHM_DATAGRAM))
		ur_shm_tap_taken(r, q, &c);
	if (q)
		take(q, &c);
	else if (c.kind == UR_SHM_DATAGRAM)
		ur_shm_ud_take(r, &c);
	if (c.len && !(c.flags & UR_SHM_IN_BODY))
		ur_spsc_data_done(&p->chan.rx, c.body.at, c.len);
	ur_spsc_consume(&p->chan.rx);
	return true;
}

void ur_shm_close(struct ur_roce *r, struct ur_shm_peer *p, uint64_t now_ns)
{
	r->now_ns = now_ns;
	/* Execute what the peer had published before the channel closed. */
	for (uint32_t i = 0;
	     i < UR_CHAN_DESCS && !p->broken && !ur_spsc_is_empty(&p->chan.rx);
	     i++) {
		p->link_empty = true;
		(void)take_oldest(r, p);
	}
	r->shm->held = false;
	r->shm->ud[p->slot % UR_SHM_SLOTS] = 0;
	ur_list_del(&p->node);
	while (!ur_list_empty(&p->qps))
		part(ur_container_of(p->qps.next, struct ur_shm_qp, node)->q);
}

/* Control descriptors of waiting queue pairs. False: no room for all. */
static bool send_waiting_due(struct ur_shm_peer *p)
{
	ur_list_each(struct ur_shm_qp, qp, &p->full, full) {
		struct ur_rqp *q = qp->q;

		if (!q->shm->due || q->shm->res_count)
			continue;
		send_all_due(q);
		if (q->shm->due)
			return false;
	}
	return true;
}

/*
 * Retry until the ring is full again; those not reached keep their place.
 * Acknowledgements go before answers and requests, since a completion at the
 * peer must precede a request that depends on it.
 */
static void serve_waiting(struct ur_shm_peer *p)
{
	struct ur_list waiting;

	if (!has_moved(p))
		return;
	if (!send_waiting_due(p)) {
		note_room(p);
		return;
	}
	ur_list_init(&waiting);
	ur_list_move_all(&waiting, &p->full);
	p->serving = true;
	while (!ur_list_empty(&waiting)) {
		struct ur_rqp *q =
			ur_container_of(waiting.next, struct ur_shm_qp, full)
				->q;

		ur_list_del(&q->shm->full);
		q->shm->progress++; /* for the timeout: the peer made room */
		send_all_due(q);
		ur_shm_pump(q);
		ur_rqp_check_overrun(q);
		if (!ur_list_empty(&p->full))
			break;
	}
	/* Those that were not served come first. */
	ur_list_move_all(&waiting, &p->full);
	ur_list_move_all(&p->full, &waiting);
	p->serving = false;
	note_room(p);
}

static int poll_peer(struct ur_roce *r, struct ur_shm_peer *p)
{
	int n = 0;

	r->shm->rndv_bytes = 0;
	while (n < (int)BUDGET && r->shm->rndv_bytes < UR_SHM_DIRECT_BYTES) {
		if (ur_spsc_is_empty(&p->chan.rx)) {
			/*
			 * The next full slot begins a new row, and nothing is
			 * prefetched behind it.
			 */
			ur_spsc_row_ended(&p->chan.rx);
			break;
		}
		ur_spsc_prefetch(&p->chan.rx);
		if (!take_oldest(r, p))
			break;
		n++;
		ur_spsc_release_early(&p->chan.rx);
	}
	if (!ur_list_empty(&p->full))
		serve_waiting(p);
	while (p->broken && !ur_list_empty(&p->qps))
		part(ur_container_of(p->qps.next, struct ur_shm_qp, node)->q);
	if (n && ur_spsc_release(&p->chan.rx, &p->chan.tx))
		p->signal(p);
	return n;
}

/*
 * Each QP in the list gets one turn; a QP with work left is appended again.
 */
static void go_on(struct ur_roce *r)
{
	struct ur_list *last = r->shm->more.prev;
	bool end = ur_list_empty(&r->shm->more);

	while (!end) {
		struct ur_list *first = r->shm->more.next;
		struct ur_rqp *q =
			ur_container_of(first, struct ur_shm_qp, more)->q;

		end = first == last;
		ur_list_del(first);
		ur_shm_pump(q);
		ur_rqp_check_overrun(q);
	}
}

int ur_shm_poll(struct ur_roce *r, uint64_t now_ns)
{
	int n = 0;

	r->now_ns = now_ns;
	go_on(r);
	ur_list_each(struct ur_shm_peer, p, &r->shm->peers, node)
		n += poll_peer(r, p);
	/*
	 * Not only on the channels just read: both ends of a channel of this
	 * lane to itself are in this list, and a descriptor read at one end may
	 * be for a QP that has joined the other.
	 */
	if (n)
		ur_shm_ack_taken(r);
	ur_shm_signal(r);
	return n;
}

void ur_shm_signal(struct ur_roce *r)
{
	ur_list_each(struct ur_shm_peer, p, &r->shm->peers, node) {
		if (!p->dirty)
			continue;
		p->dirty = false;
		if (ur_spsc_must_signal(&p->chan.tx))
			p->signal(p);
	}
}

bool ur_shm_sleep(struct ur_roce *r, bool asleep)
{
	r->shm->asleep = asleep;
	ur_list_each(struct ur_shm_peer, p, &r->shm->peers, node) {
		ur_spsc_sleeps(&p->chan.rx, asleep);
		if (asleep && !ur_list_empty(&p->full))
			ur_spsc_want_room(&p->chan.tx);
	}
	return !asleep || !ur_shm_pending(r);
}

void ur_shm_polled(struct ur_roce *r)
{
	r->shm->asleep = false;
	ur_list_each(struct ur_shm_peer, p, &r->shm->peers, node)
		ur_spsc_polled(&p->chan.rx);
}
