/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive requests: taking one from the RQ or SRQ and completing it. A receive
 * of an RQ stays in its slot until it is complete; one of an SRQ is copied out,
 * since other QPs consume that queue.
 */
#include "iwarp/internal.h"

/* Make q->rx.rwqe the next receive; false: none. */
bool ur_iw_recv_take(struct ur_iwqp *q)
{
	if (q->rx.rwqe)
		return true;
	if (q->qp->srq) {
		if (!ur_srq_take(q->qp->srq, q->rx.copy))
			return false;
		q->rx.rwqe = q->rx.copy;
		return true;
	}
	q->rx.rwqe = ur_rq_first(&q->qp->rq);
	return q->rx.rwqe != NULL;
}

/* Frees the slot, whatever the outcome of the receive. */
static void release(struct ur_iwqp *q)
{
	q->rx.rwqe = NULL;
	if (!q->qp->srq)
		ur_rq_pop(&q->qp->rq);
}

static void push(struct ur_iwqp *q, struct ur_cqe *c, bool solicited)
{
	c->wr_id = q->rx.rwqe->wr_id;
	c->qp = q->qp;
	c->qpn = q->qp->qpn;
	c->ts_ns = q->w->now_ns;
	release(q);
	if (ur_qp_is_aside(q->qp))
		ur_watch_received(q->qp, c->byte_len);
	if (!ur_cq_push(q->qp->recv_cq, c, solicited))
		q->overrun = true;
}

void ur_iw_recv_complete(struct ur_iwqp *q, enum ur_wc_opcode opcode,
			 uint32_t byte_len, uint8_t flags, uint32_t imm_be,
			 bool solicited)
{
	struct ur_cqe c = { .byte_len = byte_len,
			    .status = UR_WC_SUCCESS,
			    .opcode = (uint8_t)opcode,
			    .flags = flags,
			    .imm_be = imm_be };

	push(q, &c, solicited);
}

/* For the flight recorder. */
static void record_fail(struct ur_iwqp *q, enum ur_wc_status status)
{
	const struct ur_rwqe *w = q->rx.rwqe;

	if (status == UR_WC_LOC_PROT_ERR)
		ur_record_list(q->qp, q->qp->srq ? q->qp->srq->pd : q->qp->pd,
			       w->sge, w->num_sge, UR_ACCESS_LOCAL_WRITE,
			       UR_REC_RECV);
	ur_record_recv_wc(q->qp, w->wr_id, w->length, 0, status);
}

void ur_iw_recv_fail(struct ur_iwqp *q, enum ur_wc_status status)
{
	struct ur_cqe c = { .status = (uint8_t)status, .opcode = UR_WC_RECV };

	if (!q->rx.rwqe)
		return;
	record_fail(q, status);
	q->w->cnt.resp_cqe_error++;
	push(q, &c, true);
}

void ur_iw_recv_flush(struct ur_iwqp *q)
{
	ur_iw_recv_fail(q, UR_WC_WR_FLUSH_ERR);
	if (q->qp->srq)
		return;
	while (ur_iw_recv_take(q))
		ur_iw_recv_fail(q, UR_WC_WR_FLUSH_ERR);
}
