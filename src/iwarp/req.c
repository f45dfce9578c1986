/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send requests: turns them into messages, and completes them in order. A SEND
 * or WRITE is complete when TCP has accepted its last byte (RFC 5040, 5.1: its
 * memory may be reused; the stream will deliver it), a READ or atomic when the
 * response has arrived.
 */
#include <errno.h>

#include "core/masked.h"
#include "iwarp/internal.h"

/* In ur_swqe.proto_state: the response to this READ or atomic has arrived. */
#define ANSWERED 1u

/* Write the completion of w, if requested or failed, and free its slot. */
void ur_iw_request_complete(struct ur_iwqp *q, const struct ur_swqe *w,
			    enum ur_wc_status status)
{
	if (status != UR_WC_SUCCESS)
		q->w->cnt.req_cqe_error++;
	if (!ur_qp_complete(q->qp, w, status, q->w->now_ns))
		q->overrun = true;
}

/* For the flight recorder. */
static void record_fail(struct ur_iwqp *q, const struct ur_swqe *w,
			enum ur_wc_status status)
{
	bool fills = ur_swqe_is_read(w) || ur_swqe_is_atomic(w);

	if (status == UR_WC_LOC_PROT_ERR && !(w->flags & UR_SEND_INLINE))
		ur_record_list(q->qp, q->qp->pd, w->data.sge, w->num_sge,
			       fills ? UR_ACCESS_LOCAL_WRITE : 0, UR_REC_SEND);
}

void ur_iw_request_fail(struct ur_iwqp *q, uint32_t i, enum ur_wc_status status)
{
	struct ur_sq *sq = &q->qp->sq;

	while (ur_sq_head(sq) != i)
		ur_iw_request_complete(q, ur_sq_slot(sq, ur_sq_head(sq)),
				       UR_WC_WR_FLUSH_ERR);
	record_fail(q, ur_sq_slot(sq, i), status);
	ur_iw_request_complete(q, ur_sq_slot(sq, i), status);
}

bool ur_iw_request_begun(const struct ur_iwqp *q)
{
	return q->tx.in_message;
}

/* The request `cur` cannot be sent: it fails when all before it are complete,
 * so that completions stay in order. */
static void fail_if_oldest(struct ur_iwqp *q)
{
	if (!q->tx.stuck || ur_sq_head(&q->qp->sq) != q->tx.cur)
		return;
	ur_iw_request_fail(q, q->tx.cur, (enum ur_wc_status)q->tx.stuck);
	ur_iw_fault(q, UR_IWF_LOCAL_SEND, NULL);
}

void ur_iw_requests_advance(struct ur_iwqp *q)
{
	struct ur_sq *sq = &q->qp->sq;

	while (ur_sq_head(sq) != q->tx.sent) {
		const struct ur_swqe *w = ur_sq_slot(sq, ur_sq_head(sq));

		if (ur_swqe_is_answered(w) && w->proto_state != ANSWERED)
			break;
		ur_iw_request_complete(q, w, UR_WC_SUCCESS);
	}
	fail_if_oldest(q);
}

struct ur_swqe *ur_iw_oldest_read(struct ur_iwqp *q)
{
	if (!q->tx.rd_count)
		return NULL;
	return ur_sq_slot(&q->qp->sq, q->tx.rd[q->tx.rd_head]);
}

void ur_iw_read_done(struct ur_iwqp *q)
{
	ur_iw_oldest_read(q)->proto_state = ANSWERED;
	q->tx.rd_head = (q->tx.rd_head + 1) % UR_IW_MAX_IRD;
	q->tx.rd_count--;
	q->rx.rd_received = 0;
	ur_iw_requests_advance(q);
	ur_iw_schedule(q); /* a fence or the ORD may have waited for it */
}

/* All of `cur` is in FPDUs. */
static void next_request(struct ur_iwqp *q)
{
	q->tx.cur++;
	q->tx.off = 0;
	q->tx.in_message = false;
	q->tx.imm_pending = false;
}

static enum ur_rdmap_opcode send_opcode(const struct ur_swqe *w)
{
	bool se = w->flags & UR_SEND_SOLICITED;

	if (w->opcode == UR_WR_SEND_INV)
		return se ? UR_RDMAP_SEND_SE_INV : UR_RDMAP_SEND_INV;
	return se ? UR_RDMAP_SEND_SE : UR_RDMAP_SEND;
}

static void message_header(const struct ur_iwqp *q, const struct ur_swqe *w,
			   struct ur_ddp_hdr *h)
{
	h->version = UR_DDP_VERSION;
	if (ur_swqe_is_write(w)) {
		h->tagged = true;
		h->ulp = ur_rdmap_control(UR_RDMAP_WRITE);
		h->stag = w->wr.rdma.rkey;
		h->to = w->wr.rdma.remote_addr + q->tx.off;
		return;
	}
	h->ulp = ur_rdmap_control(send_opcode(w));
	h->ulp_word = w->opcode == UR_WR_SEND_INV ? w->imm_be : 0;
	h->qn = UR_QN_SEND;
	h->msn = q->tx.msn[UR_QN_SEND];
	h->mo = q->tx.off;
}

/* *len becomes shorter if its memory has more pieces than a segment may have. */
static int payload(const struct ur_iwqp *q, const struct ur_swqe *w,
		   uint32_t *len, struct iovec *iov)
{
	int n;

	if (*len == 0)
		return 0;
	if (w->flags & UR_SEND_INLINE) {
		/* The ring's memory; iovec has no const. */
		const uint8_t *data = w->data.inline_data + q->tx.off;

		iov[0] = (struct iovec){ .iov_base = (void *)(uintptr_t)data,
					 .iov_len = *len };
		return 1;
	}
	n = ur_sge_gather(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge,
			  q->tx.off, *len, iov, UR_MAX_SGE);
	return n == -E2BIG ? ur_iw_shorten(iov, len) : n;
}

/* One segment of a SEND or WRITE. */
static enum ur_iw_emit message_emit(struct ur_iwqp *q, struct ur_swqe *w)
{
	struct ur_iw_tx *tx = &q->tx;
	uint32_t left = w->length - tx->off;
	uint32_t most = ur_iw_max_payload(q, ur_swqe_is_write(w));
	uint32_t len = left < most ? left : most;
	bool imm = w->opcode == UR_WR_RDMA_WRITE_IMM;
	struct iovec iov[UR_MAX_SGE];
	struct ur_iw_seg seg = { .iov = iov,
				 .stable = true,
				 .request = tx->cur };
	enum ur_iw_emit e;
	int n = payload(q, w, &len, iov);

	if (n < 0)
		return UR_IW_EMIT_FAULT;
	seg.niov = (uint32_t)n;
	seg.len = len;
	seg.whole = len == left && !imm;
	message_header(q, w, &seg.h);
	seg.h.last = len == left;
	e = ur_iw_emit(q, &seg);
	if (e != UR_IW_EMIT_OK)
		return e;
	if (!tx->in_message)
		w->first_psn = tx->msn[UR_QN_SEND];
	tx->in_message = true;
	tx->off += len;
	if (len != left)
		return e;
	if (!ur_swqe_is_write(w))
		tx->msn[UR_QN_SEND]++;
	if (imm)
		tx->imm_pending = true;
	else
		next_request(q);
	return e;
}

/* A message that consists of a header: READ, atomic, immediate. */
static enum ur_iw_emit header_emit(struct ur_iwqp *q,
				   enum ur_rdmap_opcode opcode,
				   const uint8_t *buf, uint32_t len)
{
	enum ur_ddp_queue qn = ur_rdmap_op((uint8_t)opcode)->qn;
	/* Only read; iovec has no const. */
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf,
			     .iov_len = len };
	struct ur_iw_seg seg = { .h = { .last = true,
					.version = UR_DDP_VERSION,
					.ulp = ur_rdmap_control(opcode),
					.qn = qn,
					.msn = q->tx.msn[qn] },
				 .iov = &iov,
				 .niov = 1,
				 .len = len,
				 .whole = true,
				 .request = q->tx.cur };
	enum ur_iw_emit e = ur_iw_emit(q, &seg);

	if (e == UR_IW_EMIT_OK)
		q->tx.msn[qn]++;
	return e;
}

static enum ur_iw_emit imm_emit(struct ur_iwqp *q, struct ur_swqe *w)
{
	bool se = w->flags & UR_SEND_SOLICITED;
	uint8_t buf[UR_IMMEDIATE_LEN] = { 0 };
	enum ur_iw_emit e;

	memcpy(buf + 4, &w->imm_be, sizeof(w->imm_be));
	w->first_psn = q->tx.msn[UR_QN_SEND];
	e = header_emit(q, se ? UR_RDMAP_IMM_SE : UR_RDMAP_IMM, buf,
			sizeof(buf));
	if (e == UR_IW_EMIT_OK)
		next_request(q);
	return e;
}

static void rd_push(struct ur_iwqp *q, struct ur_swqe *w)
{
	struct ur_iw_tx *tx = &q->tx;

	tx->rd[(tx->rd_head + tx->rd_count++) % UR_IW_MAX_IRD] = tx->cur;
	w->proto_state = 0;
	next_request(q);
}

static enum ur_iw_emit read_emit(struct ur_iwqp *q, struct ur_swqe *w)
{
	const struct ur_sge *sink = w->num_sge ? w->data.sge : NULL;
	struct ur_read_request r = {
		.sink_stag = sink ? sink->lkey : 0,
		.sink_to = sink ? sink->addr : 0,
		.size = w->length,
		.src_stag = w->wr.rdma.rkey,
		.src_to = w->wr.rdma.remote_addr,
	};
	uint8_t buf[UR_READ_REQUEST_LEN];
	enum ur_iw_emit e;

	ur_read_request_encode(&r, buf);
	w->first_psn = q->tx.msn[UR_QN_READ];
	e = header_emit(q, UR_RDMAP_READ_REQUEST, buf, sizeof(buf));
	if (e == UR_IW_EMIT_OK)
		rd_push(q, w);
	return e;
}

/* RFC 7306, 5.2: the same masks, of 8 bytes. */
static void set_masks(struct ur_atomic_request *r, const struct ur_masked *m)
{
	r->add_swap = m->value[0];
	r->add_swap_mask = m->mask[0];
	r->compare = m->compare[0];
	r->compare_mask = m->compare_mask[0];
}

static enum ur_iw_emit atomic_emit(struct ur_iwqp *q, struct ur_swqe *w)
{
	bool cas = ur_swqe_is_cas(w);
	struct ur_atomic_request r = {
		.opcode = cas ? UR_ATOMIC_CMP_SWAP : UR_ATOMIC_FETCH_ADD,
		.id = q->tx.msn[UR_QN_READ],
		.stag = w->wr.atomic.rkey,
		.to = w->wr.atomic.remote_addr,
		.add_swap = cas ? w->wr.atomic.swap : w->wr.atomic.compare_add,
		.add_swap_mask = cas ? UINT64_MAX : 0,
		.compare = cas ? w->wr.atomic.compare_add : 0,
		.compare_mask = cas ? UINT64_MAX : 0,
	};
	uint8_t buf[UR_ATOMIC_REQUEST_LEN];
	enum ur_iw_emit e;

	if (ur_swqe_is_masked(w))
		set_masks(&r, ur_swqe_masked(&q->qp->sq, w));
	ur_atomic_request_encode(&r, buf);
	w->first_psn = r.id;
	e = header_emit(q, UR_RDMAP_ATOMIC_REQUEST, buf, sizeof(buf));
	if (e == UR_IW_EMIT_OK)
		rd_push(q, w);
	return e;
}

/* RFC 6581, 4.2: the first frame of the stream announces readiness. */
enum ur_iw_emit ur_iw_rtr_emit(struct ur_iwqp *q)
{
	static const uint32_t stag = 1; /* as siw: some treat 0 specially */
	struct ur_read_request r = { .src_stag = stag };
	struct ur_iw_seg seg = { .h = { .tagged = true,
					.last = true,
					.version = UR_DDP_VERSION,
					.ulp = ur_rdmap_control(UR_RDMAP_WRITE),
					.stag = stag } };
	uint8_t buf[UR_READ_REQUEST_LEN];
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	enum ur_iw_emit e;

	if (q->params.rtr == UR_IW_RTR_READ) {
		ur_read_request_encode(&r, buf);
		seg.h = (struct ur_ddp_hdr){
			.last = true,
			.version = UR_DDP_VERSION,
			.ulp = ur_rdmap_control(UR_RDMAP_READ_REQUEST),
			.qn = UR_QN_READ,
			.msn = q->tx.msn[UR_QN_READ],
		};
		seg.iov = &iov;
		seg.niov = 1;
		seg.len = sizeof(buf);
	}
	seg.empty = q->params.rtr == UR_IW_RTR_FPDU;
	e = ur_iw_emit(q, &seg);
	if (e != UR_IW_EMIT_OK)
		return e;
	q->tx.rtr_due = false;
	if (q->params.rtr == UR_IW_RTR_READ) {
		q->tx.rtr_read = true;
		q->tx.msn[UR_QN_READ]++;
	}
	return e;
}

/* The status if this request can never be sent; 0: it can. */
static uint8_t refuse(const struct ur_iwqp *q, const struct ur_swqe *w)
{
	switch ((enum ur_wr_opcode)w->opcode) {
	case UR_WR_RDMA_WRITE:
	case UR_WR_RDMA_WRITE_IMM:
	case UR_WR_SEND:
	case UR_WR_SEND_INV:
	case UR_WR_LOCAL_INV:
	case UR_WR_BIND_MW:
	case UR_WR_NOP:
	case UR_WR_UMR_FILL:
	case UR_WR_UMR_INVALIDATE:
		return 0;
	case UR_WR_RDMA_READ:
	case UR_WR_CMP_SWP:
	case UR_WR_FETCH_ADD:
	case UR_WR_MASKED_CMP_SWP:
	case UR_WR_MASKED_FETCH_ADD:
		return q->params.ord ? 0 : UR_WC_LOC_QP_OP_ERR;
	case UR_WR_TSO:
	case UR_WR_FLUSH:
	case UR_WR_ATOMIC_WRITE:
	case UR_WR_SEND_IMM: /* RFC 7306 defines it for WRITE only */
		break;
	}
	return UR_WC_LOC_QP_OP_ERR;
}

/* Windows are bound and invalidated when all earlier requests are complete, as
 * on RoCE (roce/local.c). */
bool ur_iw_request_is_local(const struct ur_iwqp *q)
{
	return q->tx.cur != ur_sq_tail(&q->qp->sq) && !q->tx.rtr_due &&
	       ur_swqe_is_local(ur_sq_slot(&q->qp->sq, q->tx.cur));
}

static enum ur_iw_emit local_run(struct ur_iwqp *q, const struct ur_swqe *w)
{
	int ret = ur_mw_request(q->qp, w);

	if (ret) {
		q->tx.stuck = ur_swqe_local_error(w);
		return UR_IW_EMIT_FAULT;
	}
	next_request(q);
	q->tx.sent = q->tx.cur;
	ur_iw_request_complete(q, w, UR_WC_SUCCESS);
	return UR_IW_EMIT_OK;
}

static bool may_start(const struct ur_iwqp *q, const struct ur_swqe *w)
{
	uint32_t reads = q->tx.rd_count + (q->tx.rtr_read ? 1 : 0);

	/* IBTA 10.8.3.3: a fence waits for READs and atomics before it. */
	if ((w->flags & UR_SEND_FENCE) && q->tx.rd_count)
		return false;
	if (ur_swqe_is_local(w))
		return ur_sq_head(&q->qp->sq) == q->tx.cur;
	return !ur_swqe_is_answered(w) || q->params.ord == 0 ||
	       reads < q->params.ord;
}

static enum ur_iw_emit emit_one(struct ur_iwqp *q, struct ur_swqe *w)
{
	if (ur_swqe_is_read(w))
		return read_emit(q, w);
	if (ur_swqe_is_atomic(w))
		return atomic_emit(q, w);
	if (ur_swqe_is_local(w))
		return local_run(q, w);
	return q->tx.imm_pending ? imm_emit(q, w) : message_emit(q, w);
}

enum ur_iw_emit ur_iw_request_emit(struct ur_iwqp *q)
{
	struct ur_iw_tx *tx = &q->tx;
	enum ur_iw_emit e = UR_IW_EMIT_FAULT;
	struct ur_swqe *w;

	if (tx->stuck || tx->cur == ur_sq_tail(&q->qp->sq))
		return UR_IW_EMIT_IDLE;
	w = ur_sq_slot(&q->qp->sq, tx->cur);
	if (!tx->in_message) {
		if (!may_start(q, w))
			return UR_IW_EMIT_IDLE;
		tx->stuck = refuse(q, w);
	}
	if (!tx->stuck) {
		e = emit_one(q, w);
		if (e == UR_IW_EMIT_FAULT && !tx->stuck)
			tx->stuck = UR_WC_LOC_PROT_ERR;
	}
	if (e != UR_IW_EMIT_FAULT)
		return e;
	fail_if_oldest(q);
	return UR_IW_EMIT_IDLE;
}
