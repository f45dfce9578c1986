/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC responder (IBTA 9.7.4, 9.7.5): an inbound request passes a list of checks
 * in the order of the specification; the first that fails gives the fault
 * (fault.c); a request that passes all is executed.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/guard.h"
#include "base/guard_word.h"
#include "roce/full.h"
#include "roce/masked.h"
#include "roce/selective.h"

/* What a requester had sent before it got an RNR NAK has arrived by then. */
#define RNR_LOST_NS 1000000u

typedef enum ur_fault (*check_fn)(struct ur_rqp *q, struct ur_in *in);

static uint32_t read_pkts(uint32_t len, uint32_t mtu)
{
	return len ? (len + mtu - 1) / mtu : 1;
}

/* The payload of the responses to a READ request, except the last one. */
static uint32_t read_mtu(const struct ur_rqp *q, const struct ur_hdr *h)
{
	return h->bth.full ? h->full_size : q->mtu;
}

/* IBTA 9.7.4.1.2: PSN as expected, duplicate, or ahead. */
static enum ur_fault check_psn(struct ur_rqp *q, struct ur_in *in)
{
	int32_t d = ur_psn_diff(in->hdr.bth.psn, q->rsp.epsn);

	if (d < 0)
		return UR_FAULT_DUPLICATE;
	if (d == 0)
		return UR_FAULT_NONE;
	q->r->cnt.out_of_sequence++;
	/* After an RNR NAK the requester goes back to the refused request, so what
	 * is ahead of it comes again. */
	if (ur_rc_is_selective(q) && in->now_ns >= q->rsp.refused_ns)
		return UR_FAULT_AHEAD;
	/* One NAK per gap; the rest of the burst is dropped (9.7.5.2.8). */
	return q->rsp.nak_sent ? UR_FAULT_DROP : UR_FAULT_PSN_SEQ;
}

/* IBTA 9.7.4.1.3: FIRST and ONLY begin, MIDDLE and LAST continue. */
static enum ur_fault check_sequence(struct ur_rqp *q, struct ur_in *in)
{
	const struct ur_opcode *op = in->hdr.op;
	bool begins = op->position & UR_POS_FIRST;

	if (begins == q->rsp.in_message)
		return UR_FAULT_BAD_OPCODE;
	if (!begins && op->kind != q->rsp.kind)
		return UR_FAULT_BAD_OPCODE;
	return UR_FAULT_NONE;
}

/* IBTA A14: the queue must exist in the target's domain, and be the same in all
 * packets of a message. */
static enum ur_fault check_srq(struct ur_rqp *q, struct ur_in *in)
{
	if (q->qp->type != UR_QPT_XRC_RECV)
		return UR_FAULT_NONE;
	if (q->rsp.in_message && in->hdr.srqn != q->rsp.srqn)
		return UR_FAULT_BAD_OPCODE;
	/* The message's receive is in use in another process (delegation.h). */
	if (q->rsp.in_message && q->rsp.kind == UR_OP_SEND && !q->rsp.rwqe)
		return UR_FAULT_BAD_OPCODE;
	q->rsp.srqn = in->hdr.srqn;
	return ur_resp_srq(q, in->hdr.srqn) ? UR_FAULT_NONE
					    : UR_FAULT_BAD_OPCODE;
}

/* IBTA A19: the rights required by a FLUSH. */
static uint32_t flush_access(const struct ur_hdr *h)
{
	return (h->placement & UR_FLUSH_GLOBAL ? UR_ACCESS_FLUSH_GLOBAL : 0) |
	       (h->placement & UR_FLUSH_PERSISTENT ? UR_ACCESS_FLUSH_PERSISTENT
						   : 0);
}

static bool flush_known(const struct ur_hdr *h)
{
	return h->placement &&
	       !(h->placement & ~(UR_FLUSH_GLOBAL | UR_FLUSH_PERSISTENT)) &&
	       h->level <= UR_FLUSH_MR;
}

/* IBTA 9.7.4.1.5: does this QP support that operation? */
static enum ur_fault check_operation(struct ur_rqp *q, struct ur_in *in)
{
	uint32_t access = q->qp->attr.access;
	enum ur_fault fault;
	uint32_t need = 0;

	switch ((enum ur_op_kind)in->hdr.op->kind) {
	case UR_OP_WRITE:
		need = UR_ACCESS_REMOTE_WRITE;
		break;
	case UR_OP_READ_REQUEST:
		need = UR_ACCESS_REMOTE_READ;
		break;
	case UR_OP_CMP_SWAP:
	case UR_OP_FETCH_ADD:
		need = UR_ACCESS_REMOTE_ATOMIC;
		fault = ur_atomic_check(q, in);
		if (fault)
			return fault;
		break;
	case UR_OP_FLUSH:
		need = flush_access(&in->hdr);
		if (!flush_known(&in->hdr))
			return UR_FAULT_BAD_OPCODE;
		break;
	case UR_OP_ATOMIC_WRITE:
		need = UR_ACCESS_REMOTE_WRITE;
		if (in->hdr.va & 7u)
			return UR_FAULT_BAD_LENGTH;
		break;
	case UR_OP_SEND:
	case UR_OP_READ_RESPONSE:
	case UR_OP_ACK:
	case UR_OP_ATOMIC_ACK:
	case UR_OP_CNP:
		break;
	}
	return (access & need) == need ? UR_FAULT_NONE : UR_FAULT_BAD_OPCODE;
}

/* IBTA 9.7.4.1.6: legal lengths of a packet of that position. */
static enum ur_fault check_length(struct ur_rqp *q, struct ur_in *in)
{
	const struct ur_opcode *op = in->hdr.op;
	size_t len = in->payload_len;
	bool last = op->position & UR_POS_LAST;
	uint32_t total =
		op->position & UR_POS_FIRST ? in->hdr.dma_len : q->rsp.dma_len;
	uint32_t done = op->position & UR_POS_FIRST ? 0 : q->rsp.received;
	uint32_t most = in->hdr.bth.full ? ur_full_most(q) : q->mtu;

	if ((op->headers & UR_HDR_RETH) && in->hdr.dma_len > UR_MAX_MSG_SIZE)
		return UR_FAULT_BAD_LENGTH;
	if (op->kind == UR_OP_ATOMIC_WRITE)
		return len == 8 && total == 8 ? UR_FAULT_NONE
					      : UR_FAULT_BAD_LENGTH;
	if (op->kind == UR_OP_READ_REQUEST)
		return read_mtu(q, &in->hdr) >= q->mtu &&
				       read_mtu(q, &in->hdr) <= most
			       ? UR_FAULT_NONE
			       : UR_FAULT_BAD_LENGTH;
	if (op->kind != UR_OP_SEND && op->kind != UR_OP_WRITE)
		return UR_FAULT_NONE;
	if (len > most || (!last && len < q->mtu) ||
	    (!last && !in->hdr.bth.full && len != q->mtu))
		return UR_FAULT_BAD_LENGTH;
	if (last && !(op->position & UR_POS_FIRST) && len == 0)
		return UR_FAULT_BAD_LENGTH;
	if (op->kind == UR_OP_SEND)
		return UR_FAULT_NONE;
	if (last ? done + len != total : done + len >= total)
		return UR_FAULT_BAD_LENGTH;
	return UR_FAULT_NONE;
}

static bool needs_receive(const struct ur_opcode *op)
{
	if (!op->consumes_rwqe)
		return false;
	return op->kind == UR_OP_SEND ? (op->position & UR_POS_FIRST) != 0
				      : (op->position & UR_POS_LAST) != 0;
}

/* A resource for the response. */
static enum ur_fault check_place(const struct ur_rqp *q,
				 const struct ur_opcode *op)
{
	/* A requester that sends a new request has all earlier responses: one
	 * in progress for a late duplicate is dropped. */
	const struct ur_resource *x = &q->rsp.res[q->rsp.res_next];

	if (q->rsp.res_size == 0)
		return UR_FAULT_RESOURCES;
	if (!x->active || x->again)
		return UR_FAULT_NONE;
	/* The kernel's rxe does not count its FLUSHs and ATOMIC WRITEs as
	 * outstanding; they are retransmitted when there is room. */
	return ur_op_is_placed(op->kind) ? UR_FAULT_DROP : UR_FAULT_RESOURCES;
}

static bool take(struct ur_rqp *q, const struct ur_in *in)
{
	if (in->hdr.op->kind == UR_OP_SEND && ur_tm_is_on(q))
		return ur_tm_take(q, in);
	return ur_recv_take(q);
}

/*
 * IBTA 9.7.4.1.4, 9.7.5.2.8: a receive to consume, a resource for the response.
 */
static enum ur_fault check_resources(struct ur_rqp *q, struct ur_in *in)
{
	const struct ur_opcode *op = in->hdr.op;

	if (ur_op_has_response(op->kind))
		return check_place(q, op);
	if (needs_receive(op) && !take(q, in))
		return UR_FAULT_RNR;
	return UR_FAULT_NONE;
}

static bool may_access(struct ur_rqp *q, uint32_t rkey, uint64_t va,
		       uint32_t len, uint32_t access, uint8_t **at)
{
	return !ur_mr_reach(q->qp->mrs, ur_resp_pd(q, q->rsp.srqn), q->qp, rkey,
			    va, len, access, at);
}

/* One piece of memory, or NULL */
static uint8_t *remote(struct ur_rqp *q, uint32_t rkey, uint64_t va,
		       uint32_t len, uint32_t access)
{
	uint8_t *at;

	return may_access(q, rkey, va, len, access, &at) ? at : NULL;
}

/*
 * IBTA 9.4.1.1.3: SEND with invalidate. Unanswered READs through the window
 * were requested before, and the requester should have waited for them; they
 * finish first, and the packet is retransmitted.
 */
static enum ur_fault check_invalidate(struct ur_rqp *q, uint32_t rkey)
{
	for (uint32_t i = 0; i < q->rsp.res_size; i++) {
		const struct ur_resource *x = &q->rsp.res[i];

		if (x->active && x->rkey == rkey)
			return UR_FAULT_DROP;
	}
	return UR_FAULT_NONE;
}

/* The whole region, or a range that may be empty. */
static bool may_flush(struct ur_rqp *q, const struct ur_hdr *h)
{
	uint8_t *at;

	return may_access(q, h->rkey, h->va, h->dma_len, flush_access(h),
			  h->level == UR_FLUSH_MR ? NULL : &at);
}

/* IBTA 9.7.4.1.5.4: R_Key, range and rights; not for zero length. */
static enum ur_fault check_rkey(struct ur_rqp *q, struct ur_in *in)
{
	const struct ur_hdr *h = &in->hdr;
	bool ok = true;

	if (h->op->kind == UR_OP_FLUSH)
		ok = may_flush(q, h);
	else if (ur_op_is_atomic(h->op->kind))
		ok = remote(q, h->rkey, h->va, ur_atomic_len(h),
			    UR_ACCESS_REMOTE_ATOMIC);
	else if ((h->op->headers & UR_HDR_RETH) && h->dma_len)
		ok = may_access(q, h->rkey, h->va, h->dma_len,
				h->op->kind == UR_OP_READ_REQUEST
					? UR_ACCESS_REMOTE_READ
					: UR_ACCESS_REMOTE_WRITE,
				&in->at);
	else if (h->op->headers & UR_HDR_IETH)
		return check_invalidate(q, h->inv_rkey);
	return ok ? UR_FAULT_NONE : UR_FAULT_ACCESS;
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
	uint32_t mtu = read_mtu(q, &in->hdr);
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
	uint8_t *at = remote(q, h->rkey, h->va, ur_atomic_len(h),
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
	uint8_t *at = remote(q, h->rkey, h->va, 8, UR_ACCESS_REMOTE_WRITE);
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
	    read_mtu(q, h) != x->mtu)
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
	static const check_fn checks[] = {
		check_psn,    check_sequence,  check_srq,  check_operation,
		check_length, check_resources, check_rkey,
	};
	enum ur_fault f = UR_FAULT_NONE;

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		f = checks[i](q, in);
		if (f != UR_FAULT_NONE)
			break;
	}
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
