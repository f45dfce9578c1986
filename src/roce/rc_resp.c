/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC responder (IBTA 9.7.4, 9.7.5): an inbound request that passes the checks
 * (rc_check.c) is executed; else its fault (fault.c) is answered.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/guard.h"
#include "base/guard_word.h"
#include "roce/full.h"
#include "roce/masked.h"
#include "roce/resp.h"
#include "roce/selective.h"

/* What a requester had sent before it got an RNR NAK has arrived by then. */
#define RNR_LOST_NS 1000000u

static uint32_t read_pkts(uint32_t len, uint32_t mtu)
{
	return len ? (len + mtu - 1) / mtu : 1;
}

/* Advances the PSN; `msg`: a message (MSN) was completed. */
static void accept_psns(struct ur_rqp *q, uint32_t n, bool msg)
{
	q->rsp.epsn = ur_psn_add(q->rsp.epsn, n);
	if (msg)
		q->rsp.msn = (q->rsp.msn + 1) & UR_PSN_MASK;
}

static enum ur_fault execute_send(struct ur_rqp *q, struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;
	uint32_t strip = ur_tm_is_on(q) ? ur_tm_strip(q, in) : 0;
	uint32_t len = (uint32_t)in->payload_len - strip;
	int err;

	if (in->hdr.op->position & UR_POS_FIRST)
		p->received = 0;
	if ((uint64_t)p->received + len > p->rwqe->length)
		return UR_FAULT_TOO_LONG;
	err = ur_recv_place(q, p->received, in->payload + strip, len);
	if (err)
		return UR_FAULT_LOCAL_PROT;
	p->received += len;
	return UR_FAULT_NONE;
}

static enum ur_fault execute_write(struct ur_rqp *q, struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;
	uint32_t len = (uint32_t)in->payload_len;

	if (in->hdr.op->position & UR_POS_FIRST) {
		p->va = in->hdr.va;
		p->rkey = in->hdr.rkey;
		p->dma_len = in->hdr.dma_len;
		p->received = 0;
	}
	/* Looked up for each packet: the region may have been removed. */
	if (len && (in->hdr.op->position == UR_POS_ONLY && in->at
			    ? ur_guard_copy(in->at, in->payload, len)
			    : ur_resp_put(q, p->rkey, p->va + p->received,
					  in->payload, len)))
		return UR_FAULT_ACCESS;
	p->received += len;
	return UR_FAULT_NONE;
}

/* After the data is in place; the message is acknowledged in any case. */
static enum ur_fault invalidate(struct ur_rqp *q, uint32_t rkey)
{
	if (ur_mw_may_invalidate(q->qp->mrs, q->qp, rkey))
		return UR_FAULT_INVALIDATE;
	ur_mw_invalidate(q->qp->mrs, q->qp, rkey);
	return UR_FAULT_NONE;
}

/* SEND and WRITE: place the payload, complete at the last packet. */
static enum ur_fault execute_message(struct ur_rqp *q, struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;
	const struct ur_opcode *op = in->hdr.op;
	bool send = op->kind == UR_OP_SEND;
	bool last = op->position & UR_POS_LAST;
	enum ur_fault f = send ? execute_send(q, in) : execute_write(q, in);

	if (f != UR_FAULT_NONE)
		return f;
	p->in_message = !last;
	p->kind = op->kind;
	accept_psns(q, 1, last);
	if (op->headers & UR_HDR_IETH) {
		f = invalidate(q, in->hdr.inv_rkey);
		if (f != UR_FAULT_NONE)
			return f;
	}
	if (last && op->consumes_rwqe) {
		ur_recv_complete(q, in,
				 send ? UR_WC_RECV : UR_WC_RECV_RDMA_WITH_IMM,
				 p->received);
		p->recv_ns = in->now_ns;
	} else if (op->position == UR_POS_ONLY) {
		p->wrote_ns = in->now_ns;
	}
	if (last) {
		q->r->cnt.rx_send_requests += send;
		q->r->cnt.rx_write_requests += !send;
	}
	if (in->hdr.bth.ackreq)
		ur_rc_ack_later(q, UR_AETH_ACK | UR_AETH_CREDITS_INVALID,
				in->hdr.bth.psn, in->now_ns);
	else if (last)
		ur_rc_ack_unrequested(q, in->hdr.bth.psn, in->now_ns);
	return UR_FAULT_NONE;
}

/* Save a request to be answered, replacing the oldest. */
static struct ur_resource *save_request(struct ur_rqp *q,
					const struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;
	struct ur_resource *x = &p->res[p->res_next];

	p->res_next = (p->res_next + 1) % p->res_size;
	if (p->res_todo < p->res_size)
		p->res_todo++;
	*x = (struct ur_resource){ .kind = in->hdr.op->kind,
				   .active = true,
				   .valid = true,
				   .first_psn = in->hdr.bth.psn,
				   .last_psn = in->hdr.bth.psn,
				   .start_psn = in->hdr.bth.psn,
				   .next_psn = in->hdr.bth.psn,
				   .rkey = in->hdr.rkey,
				   .srqn = q->rsp.srqn,
				   .va = in->hdr.va,
				   .len = in->hdr.dma_len };
	ur_rqp_want_ack(q);
	return x;
}

static enum ur_fault execute_read(struct ur_rqp *q, struct ur_in *in)
{
	uint32_t mtu = ur_resp_read_mtu(q, &in->hdr);
	uint32_t n = read_pkts(in->hdr.dma_len, mtu);
	struct ur_resource *x = save_request(q, in);

	x->mtu = mtu;
	if (mtu > q->mtu)
		ur_full_read(q, x->first_psn);
	x->last_psn = ur_psn_add(x->first_psn, n - 1);
	accept_psns(q, n, true);
	x->msn = q->rsp.msn;
	q->r->cnt.rx_read_requests++;
	return UR_FAULT_NONE;
}

static enum ur_fault execute_atomic(struct ur_rqp *q, struct ur_in *in)
{
	const struct ur_hdr *h = &in->hdr;
	uint8_t *at = ur_resp_remote(q, h->rkey, h->va, ur_atomic_len(h),
				     UR_ACCESS_REMOTE_ATOMIC);
	uint64_t old[2] = { 0 };
	struct ur_resource *x;
	int err = ur_atomic_execute(in, at, old);

	if (err)
		return err == -EINVAL ? UR_FAULT_BAD_LENGTH : UR_FAULT_ACCESS;
	x = save_request(q, in);
	x->orig = old[0];
	x->orig_high = old[1];
	accept_psns(q, 1, true);
	x->msn = q->rsp.msn;
	q->r->cnt.rx_atomic_requests++;
	return UR_FAULT_NONE;
}

/* Earlier data is in memory already, in program order; the fence orders it
 * before the response for all observers. */
static enum ur_fault execute_flush(struct ur_rqp *q, struct ur_in *in)
{
	struct ur_resource *x = save_request(q, in);

	atomic_thread_fence(memory_order_seq_cst);
	accept_psns(q, 1, true);
	x->msn = q->rsp.msn;
	q->r->cnt.rx_flush_requests++;
	return UR_FAULT_NONE;
}

static enum ur_fault execute_atomic_write(struct ur_rqp *q, struct ur_in *in)
{
	const struct ur_hdr *h = &in->hdr;
	uint8_t *at =
		ur_resp_remote(q, h->rkey, h->va, 8, UR_ACCESS_REMOTE_WRITE);
	struct ur_resource *x;

	/* If aligned, ur_guard_copy() stores it at once. */
	if ((uintptr_t)at & 7u)
		return UR_FAULT_BAD_LENGTH;
	if (!at || ur_guard_copy(at, in->payload, 8))
		return UR_FAULT_ACCESS;
	x = save_request(q, in);
	accept_psns(q, 1, true);
	x->msn = q->rsp.msn;
	q->r->cnt.rx_atomic_write_requests++;
	return UR_FAULT_NONE;
}

static enum ur_fault execute(struct ur_rqp *q, struct ur_in *in)
{
	q->rsp.nak_sent = false;
	q->rsp.refused_ns = 0;
	switch ((enum ur_op_kind)in->hdr.op->kind) {
	case UR_OP_SEND:
	case UR_OP_WRITE:
		return execute_message(q, in);
	case UR_OP_READ_REQUEST:
		return execute_read(q, in);
	case UR_OP_CMP_SWAP:
	case UR_OP_FETCH_ADD:
		return execute_atomic(q, in);
	case UR_OP_FLUSH:
		return execute_flush(q, in);
	case UR_OP_ATOMIC_WRITE:
		return execute_atomic_write(q, in);
	case UR_OP_READ_RESPONSE:
	case UR_OP_ACK:
	case UR_OP_ATOMIC_ACK:
	case UR_OP_CNP:
		break;
	}
	return UR_FAULT_BAD_OPCODE;
}

struct ur_resource *ur_resp_resource(struct ur_rqp *q, uint8_t kind,
				     uint32_t psn)
{
	for (uint32_t i = 0; i < q->rsp.res_size; i++) {
		struct ur_resource *x = &q->rsp.res[i];

		if (x->valid && x->kind == kind &&
		    ur_psn_diff(psn, x->first_psn) >= 0 &&
		    ur_psn_diff(psn, x->last_psn) <= 0)
			return x;
	}
	return NULL;
}

/* Answer a saved request again. A requester that goes back repeats later
 * requests, so responses in progress to later requests are stopped. */
static void answer_again(struct ur_rqp *q, struct ur_resource *x, uint32_t psn,
			 bool goes_back)
{
	struct ur_responder *p = &q->rsp;
	uint32_t place = (uint32_t)(x - p->res);
	/* How many entries are newer. */
	uint32_t newer = (p->res_next + p->res_size - 1 - place) % p->res_size;

	for (uint32_t i = 0; i < p->res_size; i++) {
		struct ur_resource *y = &p->res[i];

		if (goes_back && y->valid &&
		    ur_psn_diff(y->first_psn, x->first_psn) > 0)
			y->active = false;
	}
	if (p->res_todo < newer + 1)
		p->res_todo = newer + 1;
	x->active = true;
	x->again = true;
	x->start_psn = psn;
	x->next_psn = psn;
	ur_rqp_want_ack(q);
}

/*
 * IBTA 9.7.5.1.3: a duplicate READ is executed again, from its start address.
 */
static void duplicate_read(struct ur_rqp *q, const struct ur_in *in)
{
	const struct ur_hdr *h = &in->hdr;
	struct ur_resource *x =
		ur_resp_resource(q, UR_OP_READ_REQUEST, h->bth.psn);
	uint64_t off;

	if (!x)
		return;
	off = (uint64_t)((h->bth.psn - x->first_psn) & UR_PSN_MASK) * x->mtu;
	if (h->rkey != x->rkey || h->va != x->va + off ||
	    ur_resp_read_mtu(q, h) != x->mtu)
		return;
	if (h->bth.selective && ur_rc_is_selective(q)) {
		/* Of what is not sent yet nothing can be lost. */
		if (h->dma_len <= x->len - off &&
		    (!x->active || ur_psn_before(h->bth.psn, x->next_psn)))
			ur_keep_repeat(q, h->bth.psn,
				       read_pkts(h->dma_len, x->mtu));
	} else if (h->dma_len == x->len - off)
		answer_again(q, x, h->bth.psn, true);
}

/* IBTA 9.7.5.1.2 to 9.7.5.1.4. */
static void duplicate(struct ur_rqp *q, struct ur_in *in)
{
	struct ur_resource *x;

	q->r->cnt.duplicate_request++;
	switch ((enum ur_op_kind)in->hdr.op->kind) {
	case UR_OP_SEND:
	case UR_OP_WRITE:
		ur_rc_ack_later(q, UR_AETH_ACK | UR_AETH_CREDITS_INVALID,
				ur_psn_add(q->rsp.epsn, UR_PSN_MASK),
				in->now_ns);
		break;
	case UR_OP_READ_REQUEST:
		duplicate_read(q, in);
		break;
	case UR_OP_CMP_SWAP:
	case UR_OP_FETCH_ADD:
	case UR_OP_FLUSH:
	case UR_OP_ATOMIC_WRITE:
		/*
		 * Never executed again: the saved result is sent (9.7.5.1.4).
		 */
		x = ur_resp_resource(q, in->hdr.op->kind, in->hdr.bth.psn);
		if (x)
			answer_again(q, x, x->first_psn,
				     !in->hdr.bth.selective);
		break;
	case UR_OP_READ_RESPONSE:
	case UR_OP_ACK:
	case UR_OP_ATOMIC_ACK:
	case UR_OP_CNP:
		break;
	}
}

static void fault(struct ur_rqp *q, struct ur_in *in, enum ur_fault f)
{
	const struct ur_fault_row *row = &ur_fault_rows[f];
	uint8_t syndrome = row->syndrome;

	if (f == UR_FAULT_DROP)
		return;
	if (f == UR_FAULT_DUPLICATE) {
		duplicate(q, in);
		return;
	}
	if (f == UR_FAULT_AHEAD) {
		ur_keep_request(q, in);
		return;
	}
	ur_record_fault(q, in, f);
	if (f == UR_FAULT_RNR) {
		syndrome |= q->qp->attr.min_rnr_timer & 0x1fu;
		q->rsp.refused_ns = in->now_ns + ur_rnr_timer_ns(syndrome) +
				    2 * q->path->srtt_ns + RNR_LOST_NS;
	}
	q->rsp.nak_sent = true;
	ur_rc_ack_now(q, syndrome,
		      f == UR_FAULT_INVALIDATE ? in->hdr.bth.psn : q->rsp.epsn,
		      in->now_ns);
	if (!row->fatal)
		return;
	ur_recv_fail(q, row->status);
	ur_rqp_fail(q, row->event);
}

static void request(struct ur_rqp *q, struct ur_in *in)
{
	enum ur_fault f = ur_resp_check(q, in);

	if (f == UR_FAULT_NONE)
		f = execute(q, in);
	if (f != UR_FAULT_NONE)
		fault(q, in, f);
}

/* What waited for the request that has just been executed. */
static void execute_kept(struct ur_rqp *q, uint64_t now_ns)
{
	struct ur_kept *k;

	while (ur_rqp_state(q) != UR_QPS_ERR && !q->overrun &&
	       (k = ur_keep_next(q))) {
		struct ur_in in = { .rx = &k->rx, .now_ns = now_ns };

		/* It was decoded when it came. */
		(void)ur_hdr_decode(&in.hdr, k->rx.data, k->rx.len, &in.payload,
				    &in.payload_len);
		request(q, &in);
		free(k);
	}
	if (ur_rqp_state(q) != UR_QPS_ERR && !q->rsp.nak_sent)
		ur_rc_ack_now(q, UR_AETH_ACK | UR_AETH_CREDITS_INVALID,
			      ur_psn_add(q->rsp.epsn, UR_PSN_MASK), now_ns);
}

void ur_rc_request(struct ur_rqp *q, struct ur_in *in)
{
	uint32_t epsn;

	if (in->hdr.bth.has_ack) {
		ur_rc_piggyback_received(q, in);
		if (ur_rqp_state(q) == UR_QPS_ERR)
			return;
	}
	epsn = q->rsp.epsn;
	request(q, in);
	if (q->rsp.epsn != epsn && ur_keeper_has_packets(&q->rsp))
		execute_kept(q, in->now_ns);
}

bool ur_plain_parse(struct ur_plain *in, const struct ur_rx *rx)
{
	const uint8_t *p = rx->data;
	uint32_t hdr_len = UR_BTH_LEN;

	if (rx->len < UR_BTH_LEN)
		return false;
	in->write = p[0] == UR_RC_WRITE_ONLY;
	if (in->write)
		hdr_len = UR_BTH_LEN + 16;
	else if (p[0] != UR_RC_SEND_ONLY)
		return false;
	if (rx->len < hdr_len + UR_ICRC_LEN)
		return false;
	in->bth = p;
	in->len = rx->len - hdr_len - UR_ICRC_LEN;
	in->payload = p + hdr_len;
	return ur_is_plain_len(in->len);
}

/* All checks except those of memory; none of them changes anything. */
bool ur_rc_awaits_plain(const struct ur_rqp *q, const struct ur_plain *in)
{
	const struct ur_responder *p = &q->rsp;

	if (ur_be24_at(in->bth + 9) != p->epsn || p->in_message ||
	    in->len > q->mtu || ur_keeper_has_packets(p))
		return false;
	return in->write ? q->qp->attr.access & UR_ACCESS_REMOTE_WRITE &&
				   ur_be32_at(in->bth + UR_BTH_LEN + 12) ==
					   in->len
			 : !ur_tm_is_on(q);
}

/* Words are stored whole: unaligned data takes the slow path. */
static bool plain_place(const struct ur_rqp *q, const struct ur_pd *pd,
			const struct ur_plain *in, uint32_t key, uint64_t va,
			uint32_t access)
{
	const struct ur_mr *mr =
		ur_mr_lookup_again(q->qp->mrs, key, &q->r->placed);
	uint8_t *to;

	if (!mr || mr->kind == UR_MR_NULL)
		return false;
	to = ur_mr_translate(mr, pd, va, in->len, access);
	return to && !((uintptr_t)to & 7u) &&
	       !ur_guard_copy_words(to, in->payload, in->len);
}

static bool plain_write(struct ur_rqp *q, const struct ur_plain *in)
{
	struct ur_responder *p = &q->rsp;
	const uint8_t *reth = in->bth + UR_BTH_LEN;
	uint64_t va = ur_be64_at(reth);
	uint32_t rkey = ur_be32_at(reth + 8);

	if (!plain_place(q, q->qp->pd, in, rkey, va, UR_ACCESS_REMOTE_WRITE))
		return false;
	p->va = va;
	p->rkey = rkey;
	p->dma_len = in->len;
	p->kind = UR_OP_WRITE;
	p->wrote_ns = q->r->now_ns;
	q->r->cnt.rx_write_requests++;
	return true;
}

static bool plain_send(struct ur_rqp *q, const struct ur_plain *in)
{
	struct ur_responder *p = &q->rsp;
	struct ur_cqe c = { .byte_len = in->len,
			    .src_qp = q->qp->attr.dest_qpn,
			    .status = UR_WC_SUCCESS,
			    .opcode = UR_WC_RECV };
	const struct ur_srq *srq = q->qp->srq;
	const struct ur_rwqe *w;

	/* A receive taken here stays for the slow path as well. */
	if (!ur_recv_take(q))
		return false;
	w = p->rwqe;
	if (w->num_sge != 1 || w->sge[0].length < in->len ||
	    !plain_place(q, srq ? srq->pd : q->qp->pd, in, w->sge[0].lkey,
			 w->sge[0].addr, UR_ACCESS_LOCAL_WRITE))
		return false;
	p->kind = UR_OP_SEND;
	ur_recv_push(q, &c, in->bth[1] & 0x80);
	p->recv_ns = q->r->now_ns;
	q->r->cnt.rx_send_requests++;
	return true;
}

bool ur_rc_request_plain(struct ur_rqp *q, const struct ur_plain *in)
{
	struct ur_responder *p = &q->rsp;
	uint64_t now_ns = q->r->now_ns;
	uint32_t psn = p->epsn;

	if (!(in->write ? plain_write(q, in) : plain_send(q, in)))
		return false;
	p->nak_sent = false;
	p->received = in->len;
	accept_psns(q, 1, true);
	if (in->bth[8] & 0x80)
		ur_rc_ack_later(q, UR_AETH_ACK | UR_AETH_CREDITS_INVALID, psn,
				now_ns);
	else
		ur_rc_ack_unrequested(q, psn, now_ns);
	ur_rqp_check_overrun(q);
	return true;
}
