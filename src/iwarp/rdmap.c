/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMAP (RFC 5040, RFC 7306), receiving: acts on a message whose payload is in
 * place: completes a receive or a READ, queues a READ or atomic request, ends
 * the stream.
 */
#include <errno.h>

#include "core/masked.h"
#include "iwarp/internal.h"

/* RFC 5040, 5.3: SEND with invalidate names an STag of ours: a window that this
 * stream has bound. */
static enum ur_iw_fault invalidate(struct ur_iwqp *q, uint32_t stag)
{
	int ret = ur_mw_may_invalidate(q->qp->mrs, q->qp, stag);

	if (ret == -EACCES)
		return UR_IWF_CANNOT_INVALIDATE;
	if (ret == -EPERM)
		return UR_IWF_NOT_ASSOCIATED;
	if (ret || ur_mw_invalidate(q->qp->mrs, q->qp, stag))
		return UR_IWF_STAG;
	return UR_IWF_NONE;
}

static enum ur_iw_fault deliver_send(struct ur_iwqp *q, struct ur_iw_in *in)
{
	struct ur_iw_rx *rx = &q->rx;
	enum ur_iw_fault f;

	if (!rx->in_send)
		rx->received = 0;
	rx->send_opcode = in->opcode;
	rx->received += in->len;
	rx->in_send = !in->h.last;
	if (!in->h.last)
		return UR_IWF_NONE;
	if (in->op->invalidate) {
		f = invalidate(q, in->h.ulp_word);
		if (f != UR_IWF_NONE)
			return f;
	}
	rx->last_written = 0;
	rx->msn[UR_QN_SEND]++;
	q->w->cnt.rx_send_requests++;
	ur_iw_recv_complete(q, UR_WC_RECV, rx->received,
			    in->op->invalidate ? UR_WC_WITH_INV : 0,
			    in->op->invalidate ? in->h.ulp_word : 0,
			    in->op->solicited);
	return UR_IWF_NONE;
}

/*
 * RFC 7306, 6: eight bytes that follow a WRITE. Verbs have four: the lower
 * half. The receive completes with the length of the WRITE, as verbs require.
 */
static enum ur_iw_fault deliver_immediate(struct ur_iwqp *q,
					  struct ur_iw_in *in)
{
	struct ur_iw_rx *rx = &q->rx;
	uint32_t imm_be;

	memcpy(&imm_be, in->payload + 4, sizeof(imm_be));
	rx->msn[UR_QN_SEND]++;
	q->w->cnt.rx_immediates++;
	ur_iw_recv_complete(q, UR_WC_RECV_RDMA_WITH_IMM,
			    (uint32_t)rx->last_written, UR_WC_WITH_IMM, imm_be,
			    in->op->solicited);
	rx->last_written = 0;
	return UR_IWF_NONE;
}

static enum ur_iw_fault deliver_write(struct ur_iwqp *q, struct ur_iw_in *in)
{
	struct ur_iw_rx *rx = &q->rx;

	rx->written += in->len;
	if (in->h.last) {
		rx->last_written = rx->written;
		rx->written = 0;
		q->w->cnt.rx_write_requests++;
	}
	return UR_IWF_NONE;
}

static enum ur_iw_fault deliver_response(struct ur_iwqp *q, struct ur_iw_in *in)
{
	if (q->tx.rtr_read) {
		q->tx.rtr_read = false;
		ur_iw_schedule(q);
		return UR_IWF_NONE;
	}
	q->rx.rd_received += in->len;
	if (in->h.last)
		ur_iw_read_done(q);
	return UR_IWF_NONE;
}

static enum ur_iw_fault deliver_read(struct ur_iwqp *q, struct ur_iw_in *in)
{
	struct ur_read_request r;
	struct ur_iw_inbound *x;
	enum ur_iw_fault f;

	if (!ur_read_request_decode(&r, in->payload, in->len))
		return UR_IWF_FRAME;
	if (r.size) {
		f = ur_iw_region(q, r.src_stag, r.src_to, r.size,
				 UR_ACCESS_REMOTE_READ, false, NULL);
		if (f != UR_IWF_NONE)
			return f;
	}
	x = ur_iw_answer_add(q);
	if (!x)
		return UR_IWF_U_IRD;
	*x = (struct ur_iw_inbound){ .stag = r.sink_stag,
				     .to = r.sink_to,
				     .src_stag = r.src_stag,
				     .src_to = r.src_to,
				     .len = r.size };
	q->rx.msn[UR_QN_READ]++;
	q->w->cnt.rx_read_requests++;
	return UR_IWF_NONE;
}

static int atomic_execute(const struct ur_atomic_request *r, uint8_t *at,
			  uint64_t *orig)
{
	const struct ur_masked m = { .value = { r->add_swap },
				     .compare = { r->compare },
				     .mask = { r->add_swap_mask },
				     .compare_mask = { r->compare_mask } };
	uint64_t old[2];
	int err =
		ur_masked_run(at, &m, r->opcode == UR_ATOMIC_CMP_SWAP, 8, old);

	if (!err)
		*orig = old[0];
	return err;
}

static enum ur_iw_fault deliver_atomic(struct ur_iwqp *q, struct ur_iw_in *in)
{
	struct ur_atomic_request r;
	struct ur_iw_inbound *x;
	enum ur_iw_fault f;
	uint8_t *at = NULL;
	uint64_t orig;

	if (!ur_atomic_request_decode(&r, in->payload, in->len))
		return UR_IWF_FRAME;
	r.opcode &= 0x0fu;
	if (r.opcode != UR_ATOMIC_FETCH_ADD && r.opcode != UR_ATOMIC_CMP_SWAP)
		return UR_IWF_OPCODE;
	f = ur_iw_region(q, r.stag, r.to, 8, UR_ACCESS_REMOTE_ATOMIC, false,
			 &at);
	if (f != UR_IWF_NONE)
		return f;
	if ((r.to | (uintptr_t)at) & 7u) /* RFC 7306, 5.1: aligned */
		return UR_IWF_UNALIGNED;
	x = ur_iw_answer_add(q);
	if (!x)
		return UR_IWF_U_IRD;
	*x = (struct ur_iw_inbound){ .atomic = true, .id = r.id };
	if (atomic_execute(&r, at, &orig))
		return UR_IWF_BOUNDS;
	x->orig = orig;
	q->rx.msn[UR_QN_READ]++;
	q->w->cnt.rx_atomic_requests++;
	return UR_IWF_NONE;
}

static enum ur_iw_fault deliver_atomic_response(struct ur_iwqp *q,
						struct ur_iw_in *in)
{
	const struct ur_swqe *w = ur_iw_oldest_read(q);
	struct ur_atomic_response r;
	int err;

	if (!ur_atomic_response_decode(&r, in->payload, in->len) ||
	    r.id != w->first_psn)
		return UR_IWF_FRAME;
	err = ur_sge_scatter(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge, 0,
			     &r.orig, sizeof(r.orig));
	if (err)
		return err == -EMSGSIZE ? UR_IWF_LOCAL_LEN : UR_IWF_LOCAL_READ;
	q->rx.msn[UR_QN_ATOMIC]++;
	ur_iw_read_done(q);
	return UR_IWF_NONE;
}

static enum ur_iw_fault deliver_terminate(struct ur_iwqp *q,
					  struct ur_iw_in *in)
{
	ur_iw_terminated(q, in);
	return UR_IWF_NONE;
}

enum ur_iw_fault ur_rdmap_deliver(struct ur_iwqp *q, struct ur_iw_in *in)
{
	typedef enum ur_iw_fault (*deliver_fn)(struct ur_iwqp *,
					       struct ur_iw_in *);
	static const deliver_fn deliver[UR_RDMAP_OPCODES] = {
		[UR_RDMAP_WRITE] = deliver_write,
		[UR_RDMAP_READ_REQUEST] = deliver_read,
		[UR_RDMAP_READ_RESPONSE] = deliver_response,
		[UR_RDMAP_SEND] = deliver_send,
		[UR_RDMAP_SEND_INV] = deliver_send,
		[UR_RDMAP_SEND_SE] = deliver_send,
		[UR_RDMAP_SEND_SE_INV] = deliver_send,
		[UR_RDMAP_TERMINATE] = deliver_terminate,
		[UR_RDMAP_IMM] = deliver_immediate,
		[UR_RDMAP_IMM_SE] = deliver_immediate,
		[UR_RDMAP_ATOMIC_REQUEST] = deliver_atomic,
		[UR_RDMAP_ATOMIC_RESPONSE] = deliver_atomic_response,
	};

	return deliver[in->opcode](q, in);
}
