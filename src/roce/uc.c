/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable connection (IBTA 9.8.2): the packets of RC's SEND and WRITE
 * without acknowledgements. A message that lost a packet is dropped whole; its
 * receive is reused for the next message.
 */
#include "roce/congestion.h"
#include "roce/internal.h"

static uint32_t price_of(const struct ur_rqp *q, const struct ur_swqe *w)
{
	return (w->length < q->mtu ? w->length : q->mtu) + UR_PKT_OVERHEAD;
}

/* Append the next packet of w; req.psn counts PSNs. */
static enum ur_emit emit_one(struct ur_rqp *q, struct ur_swqe *w,
			     struct ur_burst *t, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;
	uint32_t i = (s->psn - w->first_psn) & UR_PSN_MASK;
	uint32_t off = i * q->mtu;
	uint32_t len = w->length - off < q->mtu ? w->length - off : q->mtu;
	struct ur_hdr h = { .bth.psn = s->psn };
	uint32_t pkt_len;

	ur_message_header(q, w, i, &h);
	pkt_len = ur_pkt_len(ur_opcode_get(h.bth.opcode), len);
	if (ur_burst_fits(t, pkt_len) != UR_FIT_OK)
		return UR_EMIT_FULL;
	if (!ur_rate_allows(q, now_ns) ||
	    !ur_cong_pace(q, price_of(q, w), now_ns))
		return UR_EMIT_DEFER;
	/* Copied: the request completes now, and another thread may reuse its
	 * memory before the link has sent the burst. */
	if (ur_req_add_packet(q, t, q->path, w, &h, off, len, false)) {
		ur_req_fail(q, UR_WC_LOC_PROT_ERR);
		return UR_EMIT_IDLE;
	}
	ur_rate_spend(q, pkt_len, now_ns);
	s->psn = ur_psn_add(s->psn, 1);
	s->end = s->psn;
	s->una = s->psn;
	return UR_EMIT_OK;
}

enum ur_emit ur_uc_emit(struct ur_rqp *q, struct ur_burst *t, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;
	struct ur_sq *sq = &q->qp->sq;

	if (s->cur == s->fresh && ur_shm_unreliable_takes(q))
		return UR_EMIT_IDLE;
	for (;;) {
		struct ur_swqe *w;
		enum ur_emit e;

		if (s->cur == ur_sq_tail(sq))
			return UR_EMIT_IDLE;
		/* SQD: finish begun messages. */
		if (ur_rqp_state(q) != UR_QPS_RTS &&
		    (ur_rqp_state(q) != UR_QPS_SQD || s->cur == s->fresh))
			return UR_EMIT_IDLE;
		w = ur_sq_slot(sq, s->cur);
		if (ur_swqe_is_local(w)) {
			if (!ur_local_run(q, w))
				return UR_EMIT_IDLE;
			continue;
		}
		if (s->cur == s->fresh) {
			w->first_psn = s->psn;
			w->last_psn =
				ur_psn_add(s->psn, ur_swqe_pkts(w, q->mtu) - 1);
			s->fresh++;
		}
		e = emit_one(q, w, t, now_ns);
		if (e != UR_EMIT_OK)
			return e;
		if (s->psn != ur_psn_add(w->last_psn, 1))
			continue;
		if (q->qp->attr.av.is_local)
			ur_shm_sent_by_wire(q);
		s->cur++;
		ur_req_complete(q, w, UR_WC_SUCCESS);
		ur_rc_check_drained(q);
		/* After this burst has left. */
		if (ur_shm_unreliable_may(q))
			return UR_EMIT_FULL;
	}
}

/*
 * IBTA 9.8.2.2.2: after a gap packets are dropped until a new message begins.
 */
static bool in_order(struct ur_rqp *q, const struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;
	bool first = in->hdr.op->position & UR_POS_FIRST;
	bool expected = in->hdr.bth.psn == p->epsn;

	p->epsn = ur_psn_add(in->hdr.bth.psn, 1);
	if (first) {
		q->r->cnt.drop_uc_sequence += p->in_message;
		return true;
	}
	if (expected && p->in_message && p->kind == in->hdr.op->kind &&
	    !p->on_shm)
		return true;
	p->in_message = false;
	q->r->cnt.drop_uc_sequence++;
	return false;
}

/* The payload rules of RC, but violations are only dropped. */
static bool length_ok(struct ur_rqp *q, const struct ur_in *in)
{
	const struct ur_responder *p = &q->rsp;
	bool last = in->hdr.op->position & UR_POS_LAST;
	size_t len = in->payload_len;

	if (len > q->mtu || (!last && len != q->mtu))
		return false;
	if (in->hdr.op->kind == UR_OP_SEND)
		return true;
	return last ? p->received + len == p->dma_len
		    : p->received + len < p->dma_len;
}

static bool place_write(struct ur_rqp *q, const struct ur_in *in)
{
	const struct ur_responder *p = &q->rsp;

	return in->payload_len == 0 ||
	       !ur_resp_put(q, p->rkey, p->va + p->received, in->payload,
			    (uint32_t)in->payload_len);
}

static bool place_send(struct ur_rqp *q, const struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;

	if (!ur_recv_take(q)) {
		q->r->cnt.drop_no_recv++;
		return false;
	}
	/* IBTA 9.8.2.2.7: longer than its receive: the receive fails. */
	if ((uint64_t)p->received + in->payload_len > p->rwqe->length) {
		q->r->cnt.resp_local_length_error++;
		ur_recv_fail(q, UR_WC_LOC_LEN_ERR);
		ur_rqp_fail(q, -1);
		return false;
	}
	if (ur_recv_place(q, p->received, in->payload,
			  (uint32_t)in->payload_len)) {
		ur_recv_fail(q, UR_WC_LOC_PROT_ERR);
		ur_rqp_fail(q, -1);
		return false;
	}
	return true;
}

void ur_uc_begin(struct ur_rqp *q, const struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;

	p->in_message = true;
	p->on_shm = false;
	p->kind = in->hdr.op->kind;
	p->received = 0;
	p->va = in->hdr.va;
	p->rkey = in->hdr.rkey;
	p->dma_len = in->hdr.dma_len;
}

static void finish(struct ur_rqp *q, const struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;
	bool send = p->kind == UR_OP_SEND;

	p->in_message = false;
	q->r->cnt.rx_send_requests += send;
	q->r->cnt.rx_write_requests += !send;
	if (!in->hdr.op->consumes_rwqe)
		return;
	if (!ur_recv_take(q)) {
		q->r->cnt.drop_no_recv++;
		return;
	}
	ur_recv_complete(q, in, send ? UR_WC_RECV : UR_WC_RECV_RDMA_WITH_IMM,
			 p->received);
}

void ur_uc_request(struct ur_rqp *q, struct ur_in *in)
{
	if (!in_order(q, in))
		return;
	if (in->hdr.op->position & UR_POS_FIRST)
		ur_uc_begin(q, in);
	if (!length_ok(q, in)) {
		q->r->cnt.drop_length++;
		q->rsp.in_message = false;
		return;
	}
	ur_uc_take(q, in);
}

void ur_uc_take(struct ur_rqp *q, struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;
	bool write = in->hdr.op->kind == UR_OP_WRITE;
	bool ok = !write || (q->qp->attr.access & UR_ACCESS_REMOTE_WRITE);

	if (ok)
		ok = write ? place_write(q, in) : place_send(q, in);
	if (!ok) {
		p->in_message = false;
		return;
	}
	p->received += (uint32_t)in->payload_len;
	if (in->hdr.op->position & UR_POS_LAST)
		finish(q, in);
}
