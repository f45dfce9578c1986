/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching on RC.  A SEND to such an SRQ begins with a header (struct
 * ibv_tmh): an opcode, 4 bytes for the application, the tag.
 *
 *  eager       matched: the payload goes into the tagged buffer
 *  rendezvous  matched: a second header (struct ibv_rvh) gives the address of
 *              the data; we READ it into the buffer and inform the sender by
 *              a message that repeats both headers with opcode FIN
 *  others, and unmatched ones, consume a receive, headers included
 *
 * The READ and the message are internal requests in the QP's send queue, which
 * has slots for them that the application does not see.
 */
#include "core/tm.h"
#include <assert.h>

#include "base/bytes.h"
#include "roce/internal.h"

#define TMH_LEN 16u
#define RVH_LEN 16u

/* First byte of the header (enum ibv_tmh_op) */
#define TMH_RNDV  1u
#define TMH_FIN	  2u
#define TMH_EAGER 3u

struct header {
	uint8_t op;
	uint32_t priv;
	uint64_t tag;
	/* Rendezvous */
	uint64_t va;
	uint32_t rkey;
	uint32_t len;
};

static bool parse(const struct ur_in *in, struct header *h)
{
	struct ur_rd r = ur_rd_init(in->payload, in->payload_len);

	h->op = ur_rd_u8(&r);
	ur_rd_bytes(&r, 3);
	h->priv = ur_rd_be32(&r);
	h->tag = ur_rd_be64(&r);
	if (!r.bad && h->op == TMH_RNDV) {
		h->va = ur_rd_be64(&r);
		h->rkey = ur_rd_be32(&r);
		h->len = ur_rd_be32(&r);
	}
	return !r.bad;
}

/* A rendezvous that we cannot carry out is unexpected, and left to the
 * application. */
static bool may_match(const struct ur_rqp *q, const struct ur_in *in,
		      const struct header *h)
{
	return h->op == TMH_EAGER || (in->hdr.op->position == UR_POS_ONLY &&
				      q->qp->attr.max_rd_atomic > 0);
}

/* Uses the tag's buffer like a receive. */
static void use_tag(struct ur_rqp *q, const struct header *h,
		    struct ur_tm_tag *t)
{
	struct ur_responder *p = &q->rsp;

	p->tm_tag = h->tag;
	p->tm_priv = h->priv;
	p->copy->wr_id = t->wr_id;
	p->copy->num_sge = t->sge.length ? 1 : 0;
	p->copy->length = t->sge.length;
	p->copy->sge[0] = t->sge;
	if (h->op == TMH_EAGER) {
		p->tm = UR_TM_MSG_EAGER;
		ur_tm_release(q->qp->srq, t);
		return;
	}
	p->tm = UR_TM_MSG_RNDV;
	p->tm_rndv = t;
	t->msg_tag = h->tag;
	t->priv_be = h->priv;
	t->va = h->va;
	t->rkey = h->rkey;
	t->len = h->len;
}

bool ur_tm_take(struct ur_rqp *q, const struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;
	struct header h = { 0 };
	struct ur_tm_tag *t = NULL;

	if (p->rwqe)
		return true;
	if (!parse(in, &h) || (h.op != TMH_EAGER && h.op != TMH_RNDV)) {
		p->tm = UR_TM_MSG_NO_TAG;
		return ur_recv_take(q);
	}
	switch (ur_tm_match(q->qp->srq, h.tag, may_match(q, in, &h) ? &t : NULL,
			    p->copy)) {
	case UR_TM_NONE:
		return false;
	case UR_TM_MATCHED:
		assert(t);
		use_tag(q, &h, t);
		break;
	case UR_TM_UNEXPECTED:
		p->tm = UR_TM_MSG_UNEXPECTED;
		break;
	}
	p->rwqe = p->copy;
	return true;
}

uint32_t ur_tm_strip(const struct ur_rqp *q, const struct ur_in *in)
{
	if (!(in->hdr.op->position & UR_POS_FIRST))
		return 0;
	if (q->rsp.tm == UR_TM_MSG_EAGER)
		return TMH_LEN;
	return q->rsp.tm == UR_TM_MSG_RNDV ? (uint32_t)in->payload_len : 0;
}

/* Sets the completion's tag matching fields. */
void ur_tm_label(struct ur_rqp *q, struct ur_cqe *c)
{
	const struct ur_responder *p = &q->rsp;

	c->opcode = p->tm == UR_TM_MSG_NO_TAG ? UR_WC_TM_NO_TAG : UR_WC_TM_RECV;
	if (p->tm == UR_TM_MSG_EAGER)
		c->flags |= UR_WC_TM_MATCH | UR_WC_TM_DATA_VALID;
	if (p->tm == UR_TM_MSG_RNDV) {
		c->flags |= UR_WC_TM_MATCH;
		c->byte_len = p->tm_rndv->len;
		if (p->tm_rndv->len > p->copy->length)
			c->status = UR_WC_TM_RNDV_INCOMPLETE;
	}
	if (c->flags & UR_WC_TM_MATCH) {
		c->tm_tag = p->tm_tag;
		c->tm_priv = p->tm_priv;
	}
}

/* The receive is complete: start its rendezvous, if any. */
void ur_tm_received(struct ur_rqp *q, enum ur_wc_status status)
{
	struct ur_tm_tag *t = q->rsp.tm_rndv;

	if (!t)
		return;
	q->rsp.tm_rndv = NULL;
	if (status != UR_WC_SUCCESS) {
		ur_tm_release(q->qp->srq, t);
		return;
	}
	ur_list_add_tail(&q->rndv, &t->node);
	ur_tm_run(q);
}

static void stage_read(struct ur_swqe *w, struct ur_tm_tag *t)
{
	w->wr_id = (uintptr_t)t;
	w->opcode = UR_WR_RDMA_READ;
	w->flags = 0;
	w->num_sge = t->len ? 1 : 0;
	w->length = t->len;
	w->wr.rdma.remote_addr = t->va;
	w->wr.rdma.rkey = t->rkey;
	w->proto_state = UR_SWQE_OWN;
	if (t->len)
		*w->data.sge = t->sge;
}

/* The fence makes it wait for the data. */
static void stage_fin(struct ur_swqe *w, const struct ur_tm_tag *t)
{
	struct ur_wr p = ur_wr_init(w->data.inline_data, TMH_LEN + RVH_LEN);

	w->wr_id = 0;
	w->opcode = UR_WR_SEND;
	w->flags = UR_SEND_INLINE | UR_SEND_FENCE;
	w->num_sge = 0;
	w->length = TMH_LEN + RVH_LEN;
	w->proto_state = UR_SWQE_OWN;
	ur_wr_be32(&p, TMH_FIN << 24);
	ur_wr_be32(&p, t->priv_be);
	ur_wr_be64(&p, t->msg_tag);
	ur_wr_be64(&p, t->va);
	ur_wr_be32(&p, t->rkey);
	ur_wr_be32(&p, t->len);
}

/* Stage as many as fit. If a poster holds the queue's lock, it kicks the QP
 * when it is done. */
void ur_tm_run(struct ur_rqp *q)
{
	struct ur_sq *sq = &q->qp->sq;
	bool staged = false;

	if (ur_list_empty(&q->rndv) || ur_rqp_state(q) != UR_QPS_RTS ||
	    !ur_sq_begin_own(sq))
		return;
	while (!ur_list_empty(&q->rndv) && ur_sq_has_own(sq, 2)) {
		struct ur_tm_tag *t =
			ur_container_of(q->rndv.next, struct ur_tm_tag, node);

		ur_list_del(&t->node);
		stage_read(ur_sq_stage_own(sq), t);
		stage_fin(ur_sq_stage_own(sq), t);
		staged = true;
	}
	ur_sq_end_own(sq, staged);
	if (staged && !q->req.rnr_wait && !q->req.window_wait &&
	    ur_list_empty(&q->sending))
		ur_rqp_want_send(q);
}

/* The data of a rendezvous has arrived, or failed. */
static void finish(struct ur_rqp *q, struct ur_tm_tag *t,
		   enum ur_wc_status status)
{
	struct ur_srq *srq = q->qp->srq;
	bool ok = status == UR_WC_SUCCESS;
	struct ur_cqe c = { .wr_id = t->wr_id,
			    .ts_ns = q->r->now_ns,
			    .qp = srq,
			    .owner = UR_CQE_SRQ,
			    .qpn = q->qp->qpn,
			    .src_qp = q->qp->attr.dest_qpn,
			    .byte_len = t->len,
			    .status = (uint8_t)status,
			    .opcode = UR_WC_TM_RECV,
			    .flags = ok ? UR_WC_TM_DATA_VALID : 0 };

	ur_tm_release(srq, t);
	if (!ur_cq_push(srq->cq, &c, !ok))
		q->overrun = true;
}

/* Free the slot of an internal request; returns the tag of a READ. */
static struct ur_tm_tag *free_own(struct ur_rqp *q, uint32_t at)
{
	struct ur_swqe *w = ur_sq_slot(&q->qp->sq, at);

	w->proto_state = 0;
	ur_sq_release_own(&q->qp->sq);
	return (struct ur_tm_tag *)(uintptr_t)w->wr_id;
}

void ur_tm_own_done(struct ur_rqp *q, enum ur_wc_status status)
{
	struct ur_sq *sq = &q->qp->sq;
	uint32_t head = ur_sq_head(sq);
	struct ur_tm_tag *t = free_own(q, head);

	atomic_store_explicit(&sq->head, head + 1, memory_order_release);
	if (t)
		finish(q, t, status);
}

void ur_tm_flush(struct ur_rqp *q)
{
	while (!ur_list_empty(&q->rndv)) {
		struct ur_tm_tag *t =
			ur_container_of(q->rndv.next, struct ur_tm_tag, node);

		ur_list_del(&t->node);
		finish(q, t, UR_WC_WR_FLUSH_ERR);
	}
}

/* RESET: without completions. */
void ur_tm_reset(struct ur_rqp *q)
{
	struct ur_sq *sq = &q->qp->sq;
	uint32_t tail = ur_sq_tail(sq);

	if (!ur_tm_is_on(q))
		return;
	ur_tm_received(q, UR_WC_WR_FLUSH_ERR);
	for (uint32_t i = ur_sq_head(sq); i != tail; i++) {
		struct ur_tm_tag *t;

		if (ur_sq_slot(sq, i)->proto_state != UR_SWQE_OWN)
			continue;
		t = free_own(q, i);
		if (t)
			ur_tm_release(q->qp->srq, t);
	}
	while (!ur_list_empty(&q->rndv)) {
		struct ur_tm_tag *t =
			ur_container_of(q->rndv.next, struct ur_tm_tag, node);

		ur_list_del(&t->node);
		ur_tm_release(q->qp->srq, t);
	}
}
