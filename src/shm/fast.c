/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast path of small messages: the payload is in one descriptor, or one
 * piece behind it, and in one piece of memory on each side.
 *
 * It decides nothing: any other request is left untouched to req.c and resp.c,
 * which handle all cases.  Without it SENDs of 64 B have 0.60 of the rate (0.72 with
 * 16 queue pairs), and 8 B take 1.25 times as long (19 rounds in turn, medians;
 * the rounds vary by a factor of 2).
 */
#include <errno.h>

#include "base/guard_word.h"
#include "shm/internal.h"

#define WHOLE (UR_SHM_FIRST | UR_SHM_LAST)

/* --- requester --- */

static bool is_small(const struct ur_swqe *w)
{
	switch (w->opcode) {
	case UR_WR_SEND:
	case UR_WR_SEND_IMM:
	case UR_WR_RDMA_WRITE:
	case UR_WR_RDMA_WRITE_IMM:
		return w->length <= UR_SPSC_FEW;
	default:
		return false;
	}
}

/* Do the states of queue pair and channel allow it? */
static bool may_go(const struct ur_rqp *q, const struct ur_swqe *w)
{
	const struct ur_shm_qp *n = q->shm;
	const struct ur_shm_peer *p = n->peer;

	if (ur_rqp_state(q) != UR_QPS_RTS || n->off || q->wire_only ||
	    q->qp->attr.rate_limit || !ur_list_empty(&p->full) || p->serving)
		return false;
	/* No other queue pair has an acknowledgement that must go first. */
	if (p->acks.next !=
		    (ur_list_empty(&n->acking) ? &p->acks : &n->acking) ||
	    p->acks.prev != p->acks.next)
		return false;
	return !(w->flags & UR_SEND_FENCE) || !n->answers;
}

static int fetch(struct ur_rqp *q, const struct ur_swqe *w, void *to)
{
	const uint8_t *from;

	if (w->flags & UR_SEND_INLINE) {
		memcpy(to, w->data.inline_data, w->length);
		return 0;
	}
	if (w->length == 0)
		return 0;
	from = w->num_sge == 1 ? ur_shm_piece(q, w->data.sge, w->length, 0,
					      &q->shm->out)
			       : NULL;
	return from ? ur_guard_copy_words(to, from, w->length) : -EAGAIN;
}

static uint8_t flags_of(const struct ur_rqp *q, const struct ur_swqe *w)
{
	bool imm = w->opcode == UR_WR_SEND_IMM ||
		   w->opcode == UR_WR_RDMA_WRITE_IMM;

	return (uint8_t)(WHOLE | (imm ? UR_SHM_IMM : 0) |
			 ur_shm_ack_late(q, w) |
			 (w->flags & UR_SEND_SOLICITED ? UR_SHM_SOLICITED : 0));
}

/*
 * Fill the descriptor and place the payload.  Without room req.c waits for
 * some.
 */
static bool fill(struct ur_rqp *q, const struct ur_swqe *w, struct ur_desc *c,
		 bool write)
{
	struct ur_chan *chan = &q->shm->peer->chan;
	uint32_t at;
	uint8_t *to;

	if (w->length <= (write ? UR_SHM_WRITE_BODY : UR_CHAN_BODY)) {
		c->flags = flags_of(q, w) | UR_SHM_IN_BODY;
		return !fetch(q, w,
			      write ? (void *)c->body.value : c->body.bytes);
	}
	to = ur_spsc_data(&chan->tx, w->length, &at);
	if (!to || fetch(q, w, to))
		return false;
	c->flags = flags_of(q, w);
	/* Of a SEND, and of a WRITE: it asks nothing. */
	c->body.rkey = 0;
	c->body.value[0] = 0;
	c->body.at = at;
	c->body.total = w->length;
	ur_spsc_data_used(&chan->tx, at, w->length);
	return true;
}

bool ur_shm_send_small(struct ur_rqp *q)
{
	const struct ur_swqe *w = ur_sq_slot(&q->qp->sq, q->req.cur);
	bool write = ur_swqe_is_write(w);
	struct ur_desc *c;

	/* Direct access may do it, now or soon. */
	if (w->opcode == UR_WR_RDMA_WRITE && q->shm->peer->direct &&
	    (!ur_shm_outstanding(q->shm) || ur_shm_waits_direct(q, w)))
		return false;
	if (!is_small(w) || !may_go(q, w))
		return false;
	c = ur_shm_desc(q, write ? UR_SHM_WRITE : UR_SHM_SEND, true);
	if (!c || !fill(q, w, c, write))
		return false;
	c->len = (uint16_t)w->length;
	c->imm_be = w->imm_be;
	if (write) {
		c->body.va = w->wr.rdma.remote_addr;
		c->body.rkey = w->wr.rdma.rkey;
		c->body.total = w->length;
	}
	ur_shm_send(q, c);
	ur_shm_sent(q);
	return true;
}

/*
 * Nothing else is to do when it is posted: it is the only new request, and its
 * timer runs already, so the time is not needed.
 */
bool ur_shm_kick_small(struct ur_qp *qp)
{
	struct ur_rqp *q = ur_rqp_of(qp);
	struct ur_shm_peer *p = q->shm->peer;

	if (qp->type != UR_QPT_RC || !p || q->overrun ||
	    (q->timer.at_ns == UR_NEVER && qp->attr.timeout) ||
	    q->req.cur + 1 != ur_sq_tail(&qp->sq) || !ur_shm_send_small(q))
		return false;
	p->dirty = false;
	if (ur_spsc_must_signal(&p->chan.tx))
		p->signal(p);
	return true;
}

/* --- responder --- */

static bool may_take(const struct ur_rqp *q, const struct ur_desc *c)
{
	const struct ur_shm_qp *n = q->shm;

	return c->kind == UR_SHM_SEND && (c->flags & WHOLE) == WHOLE &&
	       c->len <= UR_SPSC_FEW && n->serves && !n->in_message &&
	       n->serves_epoch == (uint8_t)(c->to >> UR_SHM_EPOCH_SHIFT) &&
	       !(n->due & (UR_SHM_DUE_REFUSED | UR_SHM_DUE_FAULT)) &&
	       !q->rsp.in_message && !q->rsp.rwqe && !q->qp->srq &&
	       (ur_rqp_state(q) != UR_QPS_RTR || q->rsp.comm_est);
}

/* The oldest receive, with the data placed in it; or NULL. */
static struct ur_rwqe *receive_for(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_rwqe *w = ur_rq_first(&q->qp->rq);
	const uint8_t *from;
	uint8_t *to;

	if (!w || c->len == 0)
		return w;
	to = w->num_sge == 1
		     ? ur_shm_piece(q, w->sge, c->len, UR_ACCESS_LOCAL_WRITE,
				    &q->shm->into)
		     : NULL;
	from = ur_shm_payload(q, c);
	if (!to || !from || ((uintptr_t)to & 7u) ||
	    ur_guard_copy_words(to, from, c->len))
		return NULL;
	return w;
}

bool ur_shm_take_small(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_shm_qp *n = q->shm;
	bool imm = c->flags & UR_SHM_IMM;
	struct ur_rwqe *w = may_take(q, c) ? receive_for(q, c) : NULL;
	struct ur_cqe e;

	if (!w)
		return false;
	e = (struct ur_cqe){ .byte_len = c->len,
			     .src_qp = q->qp->attr.dest_qpn,
			     .status = UR_WC_SUCCESS,
			     .opcode = UR_WC_RECV,
			     .flags = imm ? UR_WC_WITH_IMM : 0,
			     .imm_be = imm ? c->imm_be : 0 };
	q->rsp.rwqe = w;
	n->just_received = true;
	q->r->cnt.rx_send_requests++;
	ur_recv_push(q, &e, c->flags & UR_SHM_SOLICITED);
	ur_shm_count_done(q, c);
	return true;
}
