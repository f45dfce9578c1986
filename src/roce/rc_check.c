/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The checks of an inbound RC request (IBTA 9.7.4), in the order of the
 * specification: the first that fails gives the fault (fault.c).
 */
#include "roce/full.h"
#include "roce/masked.h"
#include "roce/resp.h"
#include "roce/selective.h"

typedef enum ur_fault (*check_fn)(struct ur_rqp *q, struct ur_in *in);

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
	uint32_t least = in->hdr.bth.full ? ur_full_least(q->mtu) : q->mtu;

	if ((op->headers & UR_HDR_RETH) && in->hdr.dma_len > UR_MAX_MSG_SIZE)
		return UR_FAULT_BAD_LENGTH;
	if (op->kind == UR_OP_ATOMIC_WRITE)
		return len == 8 && total == 8 ? UR_FAULT_NONE
					      : UR_FAULT_BAD_LENGTH;
	if (op->kind == UR_OP_READ_REQUEST)
		return ur_resp_read_mtu(q, &in->hdr) >= q->mtu &&
				       ur_resp_read_mtu(q, &in->hdr) <= most
			       ? UR_FAULT_NONE
			       : UR_FAULT_BAD_LENGTH;
	if (op->kind != UR_OP_SEND && op->kind != UR_OP_WRITE)
		return UR_FAULT_NONE;
	if (len > most || (!last && len < least))
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
static enum ur_fault check_place(struct ur_rqp *q, const struct ur_opcode *op)
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
	if (!ur_op_is_placed(op->kind))
		return UR_FAULT_RESOURCES;
	q->r->cnt.drop_no_resource++;
	return UR_FAULT_DROP;
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

uint8_t *ur_resp_remote(struct ur_rqp *q, uint32_t rkey, uint64_t va,
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

		if (x->active && x->rkey == rkey) {
			q->r->cnt.drop_window_in_use++;
			return UR_FAULT_DROP;
		}
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
		ok = ur_resp_remote(q, h->rkey, h->va, ur_atomic_len(h),
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

enum ur_fault ur_resp_check(struct ur_rqp *q, struct ur_in *in)
{
	static const check_fn checks[] = {
		check_psn,    check_sequence,  check_srq,  check_operation,
		check_length, check_resources, check_rkey,
	};
	enum ur_fault f = UR_FAULT_NONE;

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && !f; i++)
		f = checks[i](q, in);
	return f;
}
