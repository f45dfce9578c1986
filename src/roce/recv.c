/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive requests: taking one from the RQ or SRQ, placing data into it,
 * completing it. Common to RC, UC and UD. A receive of an RQ stays in its slot
 * until it is complete; one of an SRQ is copied out, since other QPs consume
 * that queue.
 */

#include "base/addr.h"
#include "roce/dc.h"

/* Make q->rsp.rwqe the next receive; false: none. */
bool ur_recv_take(struct ur_rqp *q)
{
	struct ur_responder *p = &q->rsp;
	struct ur_srq *srq = ur_resp_srq(q, p->srqn);

	if (p->rwqe)
		return true;
	if (srq) {
		if (!ur_srq_take(srq, p->copy))
			return false;
		p->rwqe = p->copy;
		return true;
	}
	p->rwqe = ur_rq_first(&q->qp->rq);
	return p->rwqe != NULL;
}

/* The domain that the keys of a receive belong to.  DC: the target's, whatever
 * that of its queue is. */
static const struct ur_pd *recv_pd(const struct ur_rqp *q)
{
	const struct ur_srq *srq = ur_resp_srq(q, q->rsp.srqn);

	return srq && !q->connection ? srq->pd : q->qp->pd;
}

int ur_recv_place(struct ur_rqp *q, uint32_t off, const void *data,
		  uint32_t len)
{
	const struct ur_rwqe *w = q->rsp.rwqe;

	if (len == 0)
		return 0;
	return ur_sge_scatter(q->qp->mrs, recv_pd(q), w->sge, w->num_sge, off,
			      data, len);
}

int ur_recv_locate(const struct ur_rqp *q, uint32_t off, uint32_t len,
		   struct iovec *out, uint32_t max)
{
	const struct ur_rwqe *w = q->rsp.rwqe;

	return ur_sge_locate(q->qp->mrs, recv_pd(q), w->sge, w->num_sge, off,
			     len, out, max);
}

/* Frees the slot, whatever the outcome of the receive. */
static void release(struct ur_rqp *q)
{
	if (q->rsp.rwqe != q->rsp.copy)
		ur_rq_pop(&q->qp->rq);
	q->rsp.rwqe = NULL;
}

/* The CQ of the receive. An SRQ with a CQ of its own, not the QP, owns the
 * completion. NULL: the SRQ is gone. */
static struct ur_cq *receive_cq(const struct ur_rqp *q, struct ur_cqe *c)
{
	const struct ur_srq *srq = ur_resp_srq(q, q->rsp.srqn);

	c->qp = q->qp;
	if (q->connection) {
		c->qp = q->connection->target->qp;
		c->owner = UR_CQE_DCT;
	}
	if (!srq || !srq->cq)
		return q->qp->recv_cq;
	c->qp = srq;
	c->owner = UR_CQE_SRQ;
	return srq->cq;
}

void ur_recv_push(struct ur_rqp *q, struct ur_cqe *c, bool solicited)
{
	struct ur_cq *cq = receive_cq(q, c);

	c->wr_id = q->rsp.rwqe->wr_id;
	c->qpn = q->qp->qpn;
	c->ts_ns = q->r->now_ns;
	release(q);
	if (ur_qp_is_aside(q->qp))
		ur_watch_received(q->qp, c->byte_len);
	if (cq && !ur_cq_push(cq, c, solicited))
		q->overrun = true;
	if (q->rsp.tm_rndv)
		ur_tm_received(q, (enum ur_wc_status)c->status);
}

void ur_recv_complete(struct ur_rqp *q, const struct ur_in *in,
		      enum ur_wc_opcode opcode, uint32_t byte_len)
{
	const struct ur_hdr *h = &in->hdr;
	struct ur_cqe c = { .byte_len = byte_len,
			    .src_qp = q->qp->attr.dest_qpn,
			    .status = UR_WC_SUCCESS,
			    .opcode = (uint8_t)opcode };

	if (h->op->headers & UR_HDR_IMM) {
		c.flags |= UR_WC_WITH_IMM;
		c.imm_be = h->imm_be;
	} else if (h->op->headers & UR_HDR_IETH) {
		c.flags |= UR_WC_WITH_INV;
		c.imm_be = h->inv_rkey;
	}
	if (q->qp->type == UR_QPT_UD) {
		c.src_qp = h->sqpn;
		c.flags |= UR_WC_GRH;
		/* As mlx5: the kind of RoCE header in the GRH area. */
		c.sl = ur_addr_is_v4(in->rx->dst) ? 2 : 1;
	}
	if (opcode == UR_WC_RECV && ur_tm_is_on(q))
		ur_tm_label(q, &c);
	ur_recv_push(q, &c, h->bth.solicited);
}

/* Complete the current receive, if any, with an error. */
void ur_recv_fail(struct ur_rqp *q, enum ur_wc_status status)
{
	struct ur_cqe c = { .status = (uint8_t)status, .opcode = UR_WC_RECV };

	if (!q->rsp.rwqe)
		return;
	ur_record_recv_fail(q, status);
	q->r->cnt.resp_cqe_error++;
	ur_recv_push(q, &c, true);
}

/* IBTA 10.3.1: all receives of a QP in error complete as flushed. */
void ur_recv_flush(struct ur_rqp *q)
{
	ur_recv_fail(q, UR_WC_WR_FLUSH_ERR);
	if (q->qp->srq || !ur_qp_type_receives(q->qp->type))
		return;
	while (ur_recv_take(q))
		ur_recv_fail(q, UR_WC_WR_FLUSH_ERR);
}
