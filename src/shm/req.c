/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC requester of the channel.  Requests leave in the order in which they were
 * posted and complete in that order: SENDs and WRITEs when the peer has
 * acknowledged them, READs and atomics when their answer is there as well.
 * While a request is outstanding here, its first_psn tells whether the answer
 * is complete, and last_psn how many bytes of it came.
 */
#include <errno.h>

#include "base/guard.h"
#include "core/masked.h"
#include "shm/internal.h"

/*
 * Timer checks per ack timeout.  The timer does not know when the last answer
 * came, only that one came since the last check: a QP may fail this much late.
 */
#define LOOKS 4u

static uint32_t outstanding(const struct ur_rqp *q)
{
	return q->shm->sent - q->shm->completed;
}

/* Requests that the channel carries; the others go by the wire. */
static bool is_known(const struct ur_rqp *q, const struct ur_swqe *w)
{
	switch ((enum ur_wr_opcode)w->opcode) {
	case UR_WR_RDMA_WRITE:
	case UR_WR_RDMA_WRITE_IMM:
	case UR_WR_SEND:
	case UR_WR_SEND_IMM:
	case UR_WR_RDMA_READ:
	case UR_WR_CMP_SWP:
	case UR_WR_FETCH_ADD:
	case UR_WR_MASKED_CMP_SWP:
	case UR_WR_MASKED_FETCH_ADD:
		return !q->qp->attr.rate_limit && !q->wire_only;
	case UR_WR_LOCAL_INV:
	case UR_WR_BIND_MW:
	case UR_WR_SEND_INV:
	case UR_WR_TSO:
	case UR_WR_FLUSH:
	case UR_WR_ATOMIC_WRITE:
	case UR_WR_NOP:
	case UR_WR_UMR_FILL:
	case UR_WR_UMR_INVALIDATE:
		break;
	}
	return false;
}

void ur_shm_req_stop(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;

	if (!n)
		return;
	ur_shm_rndv_end(q);
	n->ready = false;
	q->qp->on_shm = false;
	n->again = false;
	n->off = 0;
	n->sent = 0;
	n->acked = 0;
	n->completed = 0;
	n->answers = 0;
	n->stuck = 0;
	n->since_ns = 0;
	n->draining = false;
}

/* The wire continues where the channel has ended. */
void ur_shm_leave(struct ur_rqp *q)
{
	bool was_on = q->qp->on_shm;

	ur_shm_req_stop(q);
	if (!was_on)
		return;
	q->req.cur = ur_sq_head(&q->qp->sq);
	q->req.fresh = q->req.cur;
	if (q->req.cur != ur_sq_tail(&q->qp->sq) && ur_list_empty(&q->sending))
		ur_rqp_want_send(q);
}

bool ur_shm_is_ready(const struct ur_rqp *q)
{
	return q->shm && q->shm->ready;
}

bool ur_shm_busy(const struct ur_rqp *q)
{
	return q->shm && ur_shm_outstanding(q->shm);
}

bool ur_shm_takes(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;
	struct ur_requester *s = &q->req;

	if (!n || !n->ready || s->cur == ur_sq_tail(&q->qp->sq) ||
	    !is_known(q, ur_sq_slot(&q->qp->sq, s->cur)))
		return false;
	if (s->una != s->end || s->rnr_wait)
		return true;
	/* Packets have acknowledged requests of the peer.  These complete there
	 * before the receive for what follows does (ur_roce_leaves_wire()). */
	if (q->rsp.msn)
		ur_shm_sent_by_wire(q);
	q->qp->on_shm = true;
	ur_shm_pump(q);
	return q->qp->on_shm;
}

void ur_shm_take_ready(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;

	if (n->ready)
		return;
	ur_shm_req_stop(q);
	n->ready = true;
	if (q->req.cur != ur_sq_tail(&q->qp->sq) && !q->req.window_wait &&
	    ur_list_empty(&q->sending) && ur_rqp_state(q) == UR_QPS_RTS)
		ur_rqp_want_send(q);
}

/* All that was done before it has been acknowledged and answered. */
void ur_shm_take_refused(struct ur_rqp *q, bool pull)
{
	uint32_t head = ur_sq_head(&q->qp->sq);

	q->r->cnt.shm_refused++;
	if (pull)
		ur_shm_rndv_refused(q);
	ur_shm_leave(q);
	q->shm->refused = head;
	q->shm->again = true;
}

void ur_shm_wire_done(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;

	if (!n || !n->again || n->refused == ur_sq_head(&q->qp->sq))
		return;
	n->again = false;
	n->epoch++;
	ur_shm_send_due(q, UR_SHM_DUE_ASK);
}

void ur_shm_take_fault(struct ur_rqp *q, uint32_t status)
{
	if (!outstanding(q))
		return;
	q->r->cnt.req_remote_access_errors++;
	ur_req_fail(q, status == UR_WC_REM_ACCESS_ERR ? UR_WC_REM_ACCESS_ERR
						      : UR_WC_REM_OP_ERR);
}

/*
 * The timer runs while requests are outstanding, and is not re-armed for each.
 */
static void watch(struct ur_rqp *q)
{
	uint64_t t;

	if (q->timer.at_ns != UR_NEVER)
		return;
	t = ur_rc_ack_timeout_ns(q);
	if (t == UR_NEVER)
		return;
	q->shm->at_seen = q->shm->peer ? q->shm->peer->chan.tx.tail : 0;
	ur_timer_arm(&q->r->timers, &q->timer, q->r->now_ns + t / LOOKS);
}

/*
 * A descriptor may name much data, so the acknowledgement can be late: that the
 * peer took descriptors counts as progress, until all of ours are taken.
 */
static bool has_taken(struct ur_shm_qp *n)
{
	uint32_t was = n->at_seen;

	if (!n->peer)
		return false;
	ur_spsc_refresh(&n->peer->chan.tx);
	return n->rndv_open && n->peer->chan.tx.tail != was &&
	       n->last - was - 1 < UR_CHAN_DESCS;
}

bool ur_shm_timeout(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;
	bool taken = has_taken(n);

	if (n->progress != n->progress_seen || taken) {
		n->progress_seen = n->progress;
		n->stuck = 0;
	} else if (++n->stuck % LOOKS == 0) {
		q->r->cnt.local_ack_timeout_err++;
		if (n->stuck / LOOKS > q->qp->attr.retry_cnt) {
			q->r->cnt.retry_exceeded_err++;
			ur_shm_rndv_end(q);
			ur_req_fail(q, UR_WC_RETRY_EXC_ERR);
			return false;
		}
	}
	watch(q);
	return true;
}

/* --- sending --- */

enum sent {
	SENT,
	NO_ROOM,
	NO_MEMORY, /* the request's own is not accessible */
};

/* [off, off + len) of the request's data. */
int ur_shm_copy_out(const struct ur_rqp *q, const struct ur_swqe *w,
		    uint32_t off, uint32_t len, uint8_t *to)
{
	if (w->flags & UR_SEND_INLINE) {
		memcpy(to, w->data.inline_data + off, len);
		return 0;
	}
	return ur_sge_collect(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge,
			      off, to, len);
}

static uint8_t message_flags(const struct ur_swqe *w, bool first, bool last)
{
	bool imm = w->opcode == UR_WR_SEND_IMM ||
		   w->opcode == UR_WR_RDMA_WRITE_IMM;

	return (uint8_t)((first ? UR_SHM_FIRST : 0) | (last ? UR_SHM_LAST : 0) |
			 (last && imm ? UR_SHM_IMM : 0) |
			 (last && (w->flags & UR_SEND_SOLICITED)
				  ? UR_SHM_SOLICITED
				  : 0));
}

/* Is the payload in the descriptor itself? */
static bool fits_body(bool write, uint8_t flags, uint32_t len)
{
	if (write)
		return len <= UR_SHM_WRITE_BODY;
	return len <= UR_CHAN_BODY && (flags & UR_SHM_FIRST) &&
	       (flags & UR_SHM_LAST);
}

/*
 * Where the payload goes; *at is its position if it is outside the body.  NULL:
 * no room.
 */
static uint8_t *payload_place(struct ur_rqp *q, struct ur_desc *c, bool write,
			      bool in_body, uint32_t len, uint32_t *at)
{
	uint8_t *to;

	if (in_body)
		return write ? (uint8_t *)c->body.value : c->body.bytes;
	to = ur_spsc_data(&q->shm->peer->chan.tx, len, at);
	if (!to)
		ur_shm_wait_room(q);
	return to;
}

/* A piece that the peer gets by direct access. */
static enum sent send_rndv(struct ur_rqp *q, const struct ur_swqe *w,
			   const struct ur_shm_rndv_data *p)
{
	struct ur_shm_qp *n = q->shm;
	bool write = ur_swqe_is_write(w);
	struct ur_desc *c =
		ur_shm_desc(q, write ? UR_SHM_RNDV_WRITE : UR_SHM_RNDV, true);

	if (!c)
		return NO_ROOM;
	if (!ur_shm_rndv_room(n->peer, p->len)) {
		ur_shm_wait_room(q);
		return NO_ROOM;
	}
	c->flags = message_flags(w, n->off == 0, n->off + p->len == w->length);
	c->imm_be = w->imm_be;
	c->body.va = write ? w->wr.rdma.remote_addr : p->va;
	c->body.rkey = write ? w->wr.rdma.rkey : p->key;
	if (write) {
		c->body.at = p->key;
		c->body.value[0] = p->va;
	}
	c->body.total = w->length;
	c->body.index = p->len;
	ur_shm_send(q, c);
	ur_shm_rndv_sent(n->peer, p->len);
	n->last = n->peer->chan.tx.head;
	n->off += p->len;
	return SENT;
}

/*
 * A piece that goes through the ring.  `ask`: the region that the peer is asked
 * about, or 0.
 */
static enum sent send_bytes(struct ur_rqp *q, const struct ur_swqe *w,
			    uint32_t ask)
{
	struct ur_shm_qp *n = q->shm;
	bool write = ur_swqe_is_write(w);
	uint32_t left = w->length - n->off;
	uint32_t len = left < UR_SHM_CHUNK ? left : UR_SHM_CHUNK;
	struct ur_desc *c =
		ur_shm_desc(q, write ? UR_SHM_WRITE : UR_SHM_SEND, true);
	uint8_t flags = message_flags(w, n->off == 0, len == left) |
			ur_shm_ack_late(q, w);
	bool in_body = fits_body(write, flags, len);
	uint32_t at = 0;
	uint8_t *to;

	if (!c)
		return NO_ROOM;
	c->flags = in_body ? flags | UR_SHM_IN_BODY : flags;
	c->len = (uint16_t)len;
	c->imm_be = w->imm_be;
	if (len) {
		to = payload_place(q, c, write, in_body, len, &at);
		if (!to)
			return NO_ROOM;
		if (ur_shm_copy_out(q, w, n->off, len, to))
			return NO_MEMORY;
	}
	if (write) {
		c->body.va = w->wr.rdma.remote_addr;
		c->body.rkey = w->wr.rdma.rkey;
	}
	if (write || !in_body)
		c->body.total = w->length;
	if (!in_body) {
		if (write)
			c->body.value[0] = ask;
		else
			c->body.rkey = ask;
		c->body.at = at;
		ur_spsc_data_used(&n->peer->chan.tx, at, len);
	}
	ur_shm_send(q, c);
	n->off += len;
	return SENT;
}

static enum sent send_chunk(struct ur_rqp *q, const struct ur_swqe *w)
{
	struct ur_shm_rndv_data p = { .len = 0 };

	if (w->length - q->shm->off >= UR_SHM_RNDV_MIN)
		ur_shm_rndv_piece(q, w, &p);
	return p.len ? send_rndv(q, w, &p) : send_bytes(q, w, p.key);
}

static enum sent send_message(struct ur_rqp *q, const struct ur_swqe *w)
{
	struct ur_shm_qp *n = q->shm;
	enum sent s;

	do
		s = send_chunk(q, w);
	while (s == SENT && n->off < w->length);
	if (s == SENT)
		n->off = 0;
	return s;
}

int ur_shm_send_message(struct ur_rqp *q, const struct ur_swqe *w)
{
	enum sent s = send_message(q, w);

	return s == SENT ? 0 : s == NO_ROOM ? -EAGAIN : -EFAULT;
}

/* The operands of an atomic with masks; false: no room. */
static bool put_masked(struct ur_rqp *q, struct ur_swqe *w, struct ur_desc *c)
{
	const uint32_t len = sizeof(struct ur_masked);
	uint32_t at = 0;
	uint8_t *to = payload_place(q, c, false, false, len, &at);

	if (!to)
		return false;
	memcpy(to, ur_swqe_masked(&q->qp->sq, w), len);
	c->len = (uint16_t)len;
	c->body.at = at;
	ur_spsc_data_used(&q->shm->peer->chan.tx, at, len);
	return true;
}

static enum sent send_question(struct ur_rqp *q, struct ur_swqe *w)
{
	enum ur_shm_kind kind = ur_swqe_is_read(w)  ? UR_SHM_READ
				: ur_swqe_is_cas(w) ? UR_SHM_CMP_SWAP
						    : UR_SHM_FETCH_ADD;
	struct ur_desc *c = ur_shm_desc(q, kind, true);

	if (!c || (ur_swqe_is_masked(w) && !put_masked(q, w, c)))
		return NO_ROOM;
	c->flags = UR_SHM_FIRST | UR_SHM_LAST;
	c->body.index = q->req.cur;
	c->body.total = w->length;
	if (ur_swqe_is_read(w)) {
		c->body.va = w->wr.rdma.remote_addr;
		c->body.rkey = w->wr.rdma.rkey;
	} else {
		c->body.va = w->wr.atomic.remote_addr;
		c->body.rkey = w->wr.atomic.rkey;
	}
	if (ur_swqe_is_atomic(w) && !ur_swqe_is_masked(w)) {
		c->body.value[0] = w->wr.atomic.compare_add;
		c->body.value[1] = w->wr.atomic.swap;
	}
	w->first_psn = 0;
	w->last_psn = 0;
	q->shm->answers++;
	ur_shm_send(q, c);
	return SENT;
}

/*
 * As on the wire: SQD finishes a request that has begun, a fence waits for
 * answers.
 */
static bool may_start(const struct ur_rqp *q, const struct ur_swqe *w)
{
	const struct ur_shm_qp *n = q->shm;
	enum ur_qp_state state = ur_rqp_state(q);

	if (n->off)
		return state == UR_QPS_RTS || state == UR_QPS_SQD;
	if (state != UR_QPS_RTS || ((w->flags & UR_SEND_FENCE) && n->answers))
		return false;
	return !ur_swqe_is_answered(w) ||
	       n->answers < q->qp->attr.max_rd_atomic;
}

/* The request at the cursor has left. */
void ur_shm_sent(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;

	q->req.cur++;
	q->req.fresh++;
	n->sent++;
	if (n->just_received) {
		n->just_received = false;
		n->piggyback_score = UR_SHM_PIGGYBACK_SCORE;
	}
	q->r->cnt.shm_requests++;
}

/* Send one request; false: the next one has to wait. */
static bool send_next(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;
	struct ur_swqe *w = ur_sq_slot(&q->qp->sq, q->req.cur);
	enum sent e;

	if (!may_start(q, w))
		return false;
	if (!n->off && !is_known(q, w)) {
		if (outstanding(q))
			return false;
		q->qp->on_shm = false;
		ur_rqp_want_send(q);
		return false;
	}
	if (n->peer->direct && !n->off) {
		if (!ur_shm_outstanding(q->shm) && ur_shm_do_directly(q, w))
			return true;
		if (ur_shm_outstanding(q->shm) && ur_shm_waits_direct(q, w))
			return false;
	}
	/* It does not overtake queue pairs that wait for room. */
	if (!ur_list_empty(&n->peer->full) && !n->peer->serving) {
		ur_shm_wait_room(q);
		return false;
	}
	if (!ur_list_empty(&n->peer->acks))
		ur_shm_ack_others(q);
	e = ur_swqe_is_answered(w) ? send_question(q, w) : send_message(q, w);
	/* Completions stay in order: it fails when it is the oldest. */
	if (e == NO_MEMORY && !outstanding(q))
		ur_req_fail(q, UR_WC_LOC_PROT_ERR);
	if (e != SENT)
		return false;
	ur_shm_sent(q);
	return true;
}

/*
 * Direct access takes this lane's time while other queue pairs wait: yield
 * after a number of bytes.
 */
void ur_shm_rest(struct ur_rqp *q)
{
	if (ur_list_empty(&q->shm->more))
		ur_list_add_tail(&q->r->shm->more, &q->shm->more);
	q->r->shm->look = q->r->shm->asleep;
}

void ur_shm_pump(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;

	if (__builtin_expect(q->qp->type != UR_QPT_RC, 0)) {
		ur_shm_unreliable_pump(q);
		return;
	}
	n->direct = 0;
	while (q->qp->on_shm && n->peer &&
	       q->req.cur != ur_sq_tail(&q->qp->sq) &&
	       (ur_shm_send_small(q) || send_next(q))) {
		if (n->direct < UR_SHM_DIRECT_BYTES)
			continue;
		/* Otherwise the helper would be woken for nothing. */
		if (q->req.cur != ur_sq_tail(&q->qp->sq))
			ur_shm_rest(q);
		break;
	}
	if (q->qp->on_shm && ur_shm_outstanding(q->shm))
		watch(q);
}

/* --- completing --- */

void ur_shm_complete_aside(struct ur_qp *qp)
{
	ur_watch_completes(qp, ur_sq_slot(&qp->sq, ur_sq_head(&qp->sq)));
	if (qp->cross)
		ur_cross_completes(qp);
}

static void complete(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;
	uint32_t before = n->completed;

	while (n->completed != n->acked) {
		struct ur_swqe *w =
			ur_sq_slot(&q->qp->sq, ur_sq_head(&q->qp->sq));

		if (ur_shm_ack_late(q, w) && !ur_swqe_is_answered(w)) {
			n->completed++;
			ur_shm_complete_silently(q);
			continue;
		}
		if (ur_swqe_is_answered(w) && !w->first_psn)
			break;
		n->completed++;
		ur_req_complete(q, w, UR_WC_SUCCESS);
	}
	if (n->completed == before)
		return;
	ur_rc_check_drained(q);
	if (q->qp->on_shm && q->req.cur != ur_sq_tail(&q->qp->sq))
		ur_shm_pump(q);
}

void ur_shm_take_ack(struct ur_rqp *q, uint32_t count)
{
	struct ur_shm_qp *n = q->shm;

	if (!n->ready || count == n->acked)
		return;
	if (count - n->acked > n->sent - n->acked) {
		ur_shm_broken(q);
		return;
	}
	n->progress++;
	n->acked = count;
	complete(q);
}

/*
 * The request that the answer is for, the oldest; NULL: none.  A queue without
 * requests may have no slots to read.
 */
static struct ur_swqe *asked(const struct ur_rqp *q, const struct ur_desc *c)
{
	uint32_t head = ur_sq_head(&q->qp->sq);
	struct ur_swqe *w;

	if (!outstanding(q) || c->body.index != head)
		return NULL;
	w = ur_sq_slot(&q->qp->sq, head);
	if (w->first_psn || ur_swqe_is_read(w) != (c->kind == UR_SHM_DATA) ||
	    ur_swqe_is_atomic(w) != (c->kind == UR_SHM_OLD))
		return NULL;
	if (c->kind == UR_SHM_OLD)
		return w;
	return c->body.total == w->last_psn && c->len <= w->length - w->last_psn
		       ? w
		       : NULL;
}

static const void *answer_bytes(const struct ur_rqp *q, const struct ur_desc *c)
{
	if (c->kind == UR_SHM_OLD)
		return &c->body.value[0];
	/* Without payload the descriptor has no position. */
	if ((c->flags & UR_SHM_IN_BODY) || !c->len)
		return c->len <= UR_SHM_WRITE_BODY ? &c->body.value : NULL;
	return ur_spsc_payload(&q->r->shm->from->rx, c->body.at, c->len);
}

void ur_shm_take_answer(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_swqe *w = asked(q, c);
	const void *from = w ? answer_bytes(q, c) : NULL;
	uint8_t old[UR_MASKED_MAX];
	uint32_t len = c->len;
	int err;

	if (!from) {
		ur_shm_broken(q);
		return;
	}
	q->shm->progress++;
	if (c->kind == UR_SHM_OLD) {
		len = ur_swqe_is_masked(w) ? w->length : 8;
		ur_masked_store(old, len, c->body.value);
		from = old;
	}
	err = ur_sge_scatter(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge,
			     w->last_psn, from, len);
	if (err) {
		ur_req_fail(q, err == -EMSGSIZE ? UR_WC_LOC_LEN_ERR
						: UR_WC_LOC_PROT_ERR);
		return;
	}
	w->last_psn += len;
	if (w->last_psn < w->length)
		return;
	w->first_psn = 1;
	q->shm->answers--;
	complete(q);
	if (q->qp->on_shm)
		ur_shm_pump(q);
}
