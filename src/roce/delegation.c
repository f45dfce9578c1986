/* SPDX-License-Identifier: BSD-2-Clause */
/* The owner's side of delegation.h: holds, delegates and takes back. */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "roce/delegation.h"

#define DELEGATION_MSG_MAX                                                     \
	(UR_DELEGATION_BYTES + 8192u) /* with terms and state */

int ur_delegation_open(struct ur_rqp *q)
{
	struct ur_roce *r = q->r;
	struct ur_delegation *l;

	if (!r->xrc || !q->qp->xrcd || !q->qp->xrcd->shared)
		return 0;
	if (!r->delegation_buf)
		r->delegation_buf = malloc(DELEGATION_MSG_MAX);
	l = calloc(1, sizeof(*l));
	if (!l || !r->delegation_buf) {
		free(l);
		return -ENOMEM;
	}
	l->q = q;
	ur_list_init(&l->pending);
	ur_list_init(&l->held);
	ur_list_add_tail(&r->delegations, &l->node);
	q->delegation = l;
	return 0;
}

static void held_drop(struct ur_delegation *l, struct ur_held *h)
{
	ur_list_del(&h->node);
	l->count--;
	free(h);
}

static void held_drop_all(struct ur_delegation *l)
{
	ur_list_each_safe(struct ur_held, h, &l->held, node)
		held_drop(l, h);
	ur_list_del(&l->pending);
}

void ur_delegation_stop(struct ur_rqp *q)
{
	struct ur_delegation *l = q->delegation;

	held_drop_all(l);
	if (l->out || l->under_way)
		q->r->xrc->dismiss(q->r->xrc_arg, l->via, q->qp->qpn);
	l->out = false;
	l->under_way = false;
}

void ur_delegation_close(struct ur_rqp *q)
{
	ur_delegation_stop(q);
	ur_list_del(&q->delegation->node);
	free(q->delegation);
	q->delegation = NULL;
}

bool ur_delegation_is_settled(const struct ur_rqp *q)
{
	if (q->rsp.ack_due)
		return false;
	for (uint32_t i = 0; i < q->rsp.res_size; i++) {
		if (q->rsp.res[i].active)
			return false;
	}
	return true;
}

void ur_delegation_execute(struct ur_rqp *q, const void *pkt, uint32_t len,
			   uint64_t now_ns)
{
	struct ur_rx rx = { .data = pkt, .len = len, .icrc_checked = true };
	struct ur_in in = { .rx = &rx, .now_ns = now_ns };

	if (ur_hdr_decode(&in.hdr, pkt, len, &in.payload, &in.payload_len) ||
	    in.hdr.op->transport != UR_TP_XRC ||
	    !(in.hdr.op->headers & UR_HDR_XRCETH)) {
		q->r->cnt.drop_malformed++;
		return;
	}
	ur_rc_request(q, &in);
	ur_rqp_check_overrun(q);
}

static bool hold(struct ur_delegation *l, const struct ur_in *in)
{
	struct ur_held *h;

	if (l->count >= UR_HELD_PKTS || in->rx->len > UR_DELEGATION_PKT)
		return false;
	h = malloc(sizeof(*h) + in->rx->len);
	if (!h)
		return false;
	h->srqn = in->hdr.srqn;
	h->len = in->rx->len;
	memcpy(h->data, in->rx->data, in->rx->len);
	ur_list_add_tail(&l->held, &h->node);
	l->count++;
	return true;
}

/* A request for a local queue is executed directly, unless packets are held. */
void ur_delegation_request(struct ur_rqp *q, struct ur_in *in)
{
	struct ur_delegation *l = q->delegation;

	if (!l->out && ur_list_empty(&l->held) && ur_xrc_srq(q, in->hdr.srqn)) {
		ur_rc_request(q, in);
		return;
	}
	if (!hold(l, in)) {
		q->r->cnt.drop_xrc_held++;
		return;
	}
	if (!l->out && ur_list_empty(&l->pending))
		ur_list_add_tail(&q->r->pending_delegations, &l->pending);
}

/* clang-tidy does not see that an entry is unlinked before it is freed.
 * NOLINTBEGIN(clang-analyzer-unix.Malloc) */
static struct ur_held *first_held(const struct ur_delegation *l)
{
	return ur_container_of(l->held.next, struct ur_held, node);
}
/* NOLINTEND(clang-analyzer-unix.Malloc) */

/* The oldest packets for the same process, as many as fit. */
static uint32_t put_packets(struct ur_wr *w, const struct ur_delegation *l)
{
	uint32_t slot = first_held(l)->srqn >> UR_SLOT_SHIFT;
	uint32_t n = 0, bytes = 0;

	ur_list_each(const struct ur_held, h, &l->held, node) {
		uint8_t *to;

		bytes += h->len;
		if (n == UR_DELEGATION_PKTS || bytes > UR_DELEGATION_BYTES ||
		    h->srqn >> UR_SLOT_SHIFT != slot)
			break;
		ur_wr_be16(w, (uint16_t)h->len);
		to = ur_wr_bytes(w, h->len);
		if (to)
			memcpy(to, h->data, h->len);
		n++;
	}
	return n;
}

static void terms_of(const struct ur_rqp *q, struct ur_delegation_terms *t)
{
	const struct ur_qp_attr *a = &q->qp->attr;

	*t = (struct ur_delegation_terms){ .seq = q->delegation->seq,
					   .path = q->path->key,
					   .dest_qpn = a->dest_qpn,
					   .access = a->access,
					   .mtu = a->path_mtu,
					   .resources = q->rsp.res_size,
					   .min_rnr_timer = a->min_rnr_timer };
}

/* 0, or the result of ur_xrc_ops.delegate. */
static int delegate(struct ur_rqp *q)
{
	struct ur_roce *r = q->r;
	struct ur_delegation *l = q->delegation;
	struct ur_wr w = ur_wr_init(r->delegation_buf, DELEGATION_MSG_MAX);
	struct ur_delegation_terms terms;
	uint32_t n;
	int err;

	l->seq = ++r->delegation_seq;
	terms_of(q, &terms);
	ur_delegation_put_terms(&w, &terms);
	ur_delegation_put_state(&w, &q->rsp);
	n = put_packets(&w, l);
	if (w.bad)
		return -ENOENT;
	err = r->xrc->delegate(r->xrc_arg, q->qp, first_held(l)->srqn,
			       r->delegation_buf,
			       (size_t)(w.p - (uint8_t *)r->delegation_buf),
			       &l->via);
	if (err)
		return err;
	l->out = true;
	while (n--)
		held_drop(l, first_held(l));
	return 0;
}

/* The local responder answers that there is no such queue. */
static void execute_first(struct ur_rqp *q, uint64_t now_ns)
{
	struct ur_held *h = first_held(q->delegation);

	ur_list_del(&h->node);
	q->delegation->count--;
	ur_delegation_execute(q, h->data, h->len, now_ns);
	free(h);
}

static void run(struct ur_rqp *q)
{
	struct ur_delegation *l = q->delegation;
	struct ur_roce *r = q->r;

	while (!l->out && !ur_list_empty(&l->held)) {
		int err = 0;

		if (!ur_xrc_srq(q, first_held(l)->srqn)) {
			if (!ur_delegation_is_settled(q))
				return; /* called again when these responses have left */
			err = delegate(q);
			if (err == -EAGAIN) {
				r->delegation_at_ns =
					r->now_ns + UR_DELEGATION_AGAIN_NS;
				return;
			}
			if (!err)
				break;
		}
		execute_first(q, r->now_ns);
	}
	ur_list_del(&l->pending);
}

bool ur_delegation_run(struct ur_roce *r)
{
	ur_delegates_return(r);
	ur_list_each_safe(struct ur_delegation, d, &r->pending_delegations,
			  pending)
		run(d->q);
	return !ur_list_empty(&r->paths);
}

static void resume(struct ur_delegation *l)
{
	if (!ur_list_empty(&l->held) && ur_list_empty(&l->pending))
		ur_list_add_tail(&l->q->r->pending_delegations, &l->pending);
}

/*
 * The delegate exited with the state. What it executed is unknown, so the
 * target fails. Its queue is gone too, so the peer gets that NAK, unless more
 * was acknowledged already: then it gets nothing.
 */
static void lost(struct ur_delegation *l)
{
	struct ur_rqp *q = l->q;

	l->out = false;
	l->under_way = false;
	ur_rc_ack_later(q, UR_AETH_NAK | UR_NAK_INV_REQ, q->rsp.epsn,
			q->r->now_ns);
	ur_rqp_fail(q, UR_EVENT_QP_REQ_ERR);
}

static struct ur_delegation *find(struct ur_roce *r, uint32_t via, uint32_t qpn)
{
	struct ur_rqp *q = ur_rqp_find(r, qpn);

	if (!q || !q->delegation || !q->delegation->out ||
	    q->delegation->via != via)
		return NULL;
	return q->delegation;
}

void ur_roce_delegation_returned(struct ur_roce *r, uint32_t via, uint32_t qpn,
				 const void *msg, size_t len, uint64_t now_ns)
{
	struct ur_delegation *l = find(r, via, qpn);
	struct ur_rd rd = ur_rd_init(msg, len);
	struct ur_delegation_end e;

	r->now_ns = now_ns;
	if (!l || !ur_delegation_get_end(&rd, &e)) {
		if (l)
			lost(l);
		return;
	}
	if (e.seq != l->seq)
		return; /* of a delegation that a reset has ended */
	if (!ur_delegation_get_state(&rd, l->q) || ur_rd_left(&rd)) {
		lost(l);
		return;
	}
	l->out = false;
	l->under_way = e.under_way;
	if (e.failed)
		ur_rqp_fail(l->q, e.event);
	resume(l);
}

void ur_roce_link_gone(struct ur_roce *r, uint32_t via, uint64_t now_ns)
{
	r->now_ns = now_ns;
	ur_list_each_safe(struct ur_delegation, l, &r->delegations, node) {
		if (l->via != via)
			continue;
		if (l->out)
			lost(l);
		l->under_way = false;
	}
	ur_delegates_gone(r, via);
}
