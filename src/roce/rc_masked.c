/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A requester sends an atomic with masks only to a peer that executes it, which
 * each of the peer's packets says.  If no packet has arrived yet, the requester
 * asks for one: an empty WRITE with the PSN before the first.  To every responder
 * that is a duplicate, which it acknowledges, without any check of rights, and
 * does not execute again (IBTA 9.7.5.1.2).  Meanwhile the atomic counts as sent,
 * so that timeouts repeat the question, and end the request if there is no peer.
 */
#include "base/guard.h"
#include "base/log.h"
#include "roce/masked.h"
#include "roce/selective.h"

static bool peer_executes(const struct ur_rqp *q)
{
	return q->peer == UR_PEER_URNIC && q->peer_masked;
}

/* A peer that does not say so gives our opcodes another meaning, or none. */
enum ur_fault ur_atomic_check(const struct ur_rqp *q, const struct ur_in *in)
{
	const struct ur_hdr *h = &in->hdr;
	uint32_t len = ur_atomic_len(h);
	bool valid = !(h->va & (len - 1));

	if (!ur_op_is_masked(h->op))
		return valid ? UR_FAULT_NONE : UR_FAULT_BAD_LENGTH;
	if (!peer_executes(q))
		return UR_FAULT_BAD_OPCODE;
	valid = valid && ur_masked_is_size(len) &&
		in->payload_len ==
			ur_masked_wire_len(h->op->kind == UR_OP_CMP_SWAP, len);
	return valid ? UR_FAULT_NONE : UR_FAULT_BAD_LENGTH;
}

int ur_atomic_execute(const struct ur_in *in, uint8_t *at, uint64_t old[2])
{
	const struct ur_hdr *h = &in->hdr;
	bool cas = h->op->kind == UR_OP_CMP_SWAP;
	struct ur_masked m;

	if (ur_op_is_masked(h->op)) {
		ur_masked_decode(&m, cas, h->dma_len, in->payload);
		return ur_masked_run(at, &m, cas, h->dma_len, old);
	}
	return cas ? ur_guard_cmp_swap64(at, h->compare, h->swap_add, old)
		   : ur_guard_fetch_add64(at, h->swap_add, old);
}

enum ur_emit ur_masked_answer(struct ur_rqp *q, struct ur_resource *x,
			      struct ur_burst *t)
{
	const uint64_t old[2] = { x->orig, x->orig_high };
	uint8_t bytes[UR_MASKED_MAX];
	struct iovec iov = { .iov_base = bytes, .iov_len = x->len };
	struct ur_hdr h = { .bth = ur_rc_bth(q, UR_RC_MASKED_ACK, x->first_psn),
			    .syndrome = UR_AETH_ACK | UR_AETH_CREDITS_INVALID,
			    .msn = x->msn };

	if (ur_burst_fits(t, ur_pkt_len(ur_opcode_get(h.bth.opcode), x->len)) !=
	    UR_FIT_OK)
		return UR_EMIT_FULL;
	ur_masked_put(bytes, x->len, old);
	(void)ur_burst_add(t, q->path, &h, &iov, 1, x->len, false);
	x->active = false;
	return UR_EMIT_OK;
}

uint32_t ur_atomic_old(const struct ur_swqe *w, const struct ur_in *in,
		       uint8_t old[UR_MASKED_MAX])
{
	uint64_t words[2] = { in->hdr.orig };

	if (ur_swqe_is_masked(w) != ur_op_is_masked(in->hdr.op))
		return 0;
	if (!ur_swqe_is_masked(w)) {
		ur_masked_store(old, 8, words);
		return 8;
	}
	if (in->payload_len != w->length)
		return 0;
	ur_masked_get(in->payload, w->length, words);
	ur_masked_store(old, w->length, words);
	return w->length;
}

static bool is_oldest(const struct ur_rqp *q, const struct ur_swqe *w)
{
	const struct ur_sq *sq = &q->qp->sq;

	return w == ur_sq_slot(sq, ur_sq_head(sq));
}

static void refuse(struct ur_rqp *q)
{
	ur_warn_some("qp %06x: the peer, %s, executes no atomics with masks",
		     q->qp->qpn,
		     q->peer == UR_PEER_URNIC ? "an older urnic"
					      : "not a urnic");
	ur_req_fail(q, UR_WC_LOC_QP_OP_ERR);
}

bool ur_masked_may_send(struct ur_rqp *q, const struct ur_swqe *w)
{
	if (q->peer == UR_PEER_UNKNOWN)
		return q->req.una == q->req.psn;
	if (peer_executes(q))
		return true;
	if (is_oldest(q, w))
		refuse(q);
	return false;
}

static enum ur_emit ask(struct ur_rqp *q, struct ur_burst *t, uint32_t psn)
{
	uint32_t before = ur_psn_add(psn, UR_PSN_MASK);
	struct ur_hdr h = { .bth = ur_rc_bth(q, UR_RC_WRITE_ONLY, before) };

	h.bth.ackreq = true;
	if (ur_burst_fits(t, ur_pkt_len(ur_opcode_get(h.bth.opcode), 0)) !=
	    UR_FIT_OK)
		return UR_EMIT_FULL;
	(void)ur_burst_add(t, q->path, &h, NULL, 0, 0, false);
	q->req.asked = true;
	return UR_EMIT_OK;
}

enum ur_emit ur_masked_emit(struct ur_rqp *q, struct ur_swqe *w,
			    struct ur_burst *t, uint32_t psn, bool selective)
{
	bool cas = ur_swqe_is_cas(w);
	uint8_t opcode = cas ? UR_RC_MASKED_CMP_SWAP : UR_RC_MASKED_FETCH_ADD;
	uint32_t len = ur_masked_wire_len(cas, w->length);
	uint8_t operands[UR_MASKED_LEN_MAX];
	struct iovec iov = { .iov_base = operands, .iov_len = len };
	struct ur_hdr h = { .bth = ur_rc_bth(q, opcode, psn),
			    .va = w->wr.atomic.remote_addr,
			    .rkey = w->wr.atomic.rkey,
			    .dma_len = w->length };

	if (q->peer == UR_PEER_UNKNOWN)
		return ask(q, t, psn);
	h.bth.ackreq = true;
	h.bth.selective = selective;
	if (ur_burst_fits(t, ur_pkt_len(ur_opcode_get(opcode), len)) !=
	    UR_FIT_OK)
		return UR_EMIT_FULL;
	ur_masked_encode(ur_swqe_masked(&q->qp->sq, w), cas, w->length,
			 operands);
	(void)ur_burst_add(t, q->path, &h, &iov, 1, len, false);
	return UR_EMIT_OK;
}

/* The atomic is sent for the first time, so its timeouts begin here, and it has
 * all its retries. */
void ur_masked_peer_known(struct ur_rqp *q, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;

	s->asked = false;
	if (s->una == s->psn)
		return;
	s->retries = q->qp->attr.retry_cnt;
	s->early = 0;
	s->probed = false;
	s->retry_ns = now_ns;
	s->early_from_ns = now_ns;
	ur_req_go_back(q);
	ur_rc_timer_update(q, now_ns);
}
