/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Responses to READ and atomic requests of the peer, in their order (RFC 5040,
 * 5.5). A READ's region or window is looked up for each segment, since it may
 * be removed in between.
 */
#include <errno.h>

#include "iwarp/internal.h"

static uint32_t limit(const struct ur_iwqp *q)
{
	/* RFC 6581, 4.2: a READ as RTR is always served. */
	return q->params.ird ? q->params.ird : !q->rx.first_fpdu_seen;
}

struct ur_iw_inbound *ur_iw_answer_add(struct ur_iwqp *q)
{
	struct ur_iw_tx *tx = &q->tx;

	if (tx->in_count >= limit(q))
		return NULL;
	ur_iw_schedule(q);
	return &tx->in[(tx->in_head + tx->in_count++) % UR_IW_MAX_IRD];
}

static void done(struct ur_iwqp *q)
{
	struct ur_iw_tx *tx = &q->tx;

	tx->in_head = (tx->in_head + 1) % UR_IW_MAX_IRD;
	tx->in_count--;
	tx->in_off = 0;
	tx->in_answer = false;
}

static enum ur_iw_emit atomic_emit(struct ur_iwqp *q,
				   const struct ur_iw_inbound *x)
{
	struct ur_atomic_response r = { .id = x->id, .orig = x->orig };
	uint8_t buf[UR_ATOMIC_RESPONSE_LEN];
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct ur_iw_seg seg = {
		.h = { .last = true,
		       .version = UR_DDP_VERSION,
		       .ulp = ur_rdmap_control(UR_RDMAP_ATOMIC_RESPONSE),
		       .qn = UR_QN_ATOMIC,
		       .msn = q->tx.msn[UR_QN_ATOMIC] },
		.iov = &iov,
		.niov = 1,
		.len = sizeof(buf),
	};
	enum ur_iw_emit e;

	ur_atomic_response_encode(&r, buf);
	e = ur_iw_emit(q, &seg);
	if (e == UR_IW_EMIT_OK) {
		q->tx.msn[UR_QN_ATOMIC]++;
		done(q);
	}
	return e;
}

/*
 * Memory of the oldest READ has become inaccessible, or is a piece of an
 * indirect key that was so before. RFC 5040, 4.8: the TERMINATE has the headers
 * of its request, made again here, so that the peer finds the READ.
 */
static enum ur_iw_emit
read_fault(struct ur_iwqp *q, const struct ur_iw_inbound *x, enum ur_iw_fault f)
{
	const struct ur_read_request r = { .sink_stag = x->stag,
					   .sink_to = x->to,
					   .size = x->len,
					   .src_stag = x->src_stag,
					   .src_to = x->src_to };
	uint8_t header[UR_DDP_HDR_MAX], body[UR_READ_REQUEST_LEN];
	struct ur_iw_in in = {
		.h = { .last = true,
		       .version = UR_DDP_VERSION,
		       .ulp = ur_rdmap_control(UR_RDMAP_READ_REQUEST),
		       .qn = UR_QN_READ,
		       .msn = q->rx.msn[UR_QN_READ] - q->tx.in_count },
		.op = ur_rdmap_op(UR_RDMAP_READ_REQUEST),
		.opcode = UR_RDMAP_READ_REQUEST,
		.len = UR_READ_REQUEST_LEN,
		.payload = body,
		.seg = header,
	};

	ur_read_request_encode(&r, body);
	in.seg_len = ur_ddp_encode(&in.h, header) + in.len;
	ur_iw_fault(q, f, &in);
	return UR_IW_EMIT_IDLE;
}

/* The memory of the next segment, which becomes shorter if it has more pieces
 * than fit. */
static enum ur_iw_fault source(const struct ur_iwqp *q,
			       const struct ur_iw_inbound *x, uint32_t *len,
			       struct iovec *iov, uint32_t *niov)
{
	uint64_t from = x->src_to + q->tx.in_off;
	uint8_t *at = NULL;
	enum ur_iw_fault f = ur_iw_region(q, x->src_stag, from, *len,
					  UR_ACCESS_REMOTE_READ, false, &at);
	int n = 1;

	if (f != UR_IWF_NONE)
		return f;
	iov[0] = (struct iovec){ .iov_base = at, .iov_len = *len };
	if (!at)
		n = ur_iw_pieces(q, x->src_stag, from, *len,
				 UR_ACCESS_REMOTE_READ, iov, UR_MAX_SGE);
	if (n == -E2BIG)
		n = ur_iw_shorten(iov, len);
	if (n < 0)
		return UR_IWF_ACCESS;
	*niov = (uint32_t)n;
	return UR_IWF_NONE;
}

static enum ur_iw_emit read_emit(struct ur_iwqp *q,
				 const struct ur_iw_inbound *x)
{
	struct ur_iw_tx *tx = &q->tx;
	uint32_t left = x->len - tx->in_off;
	uint32_t most = ur_iw_max_payload(q, true);
	uint32_t len = left < most ? left : most;
	struct iovec iov[UR_MAX_SGE];
	struct ur_iw_seg seg = {
		.h = { .tagged = true,
		       .version = UR_DDP_VERSION,
		       .ulp = ur_rdmap_control(UR_RDMAP_READ_RESPONSE),
		       .stag = x->stag,
		       .to = x->to + tx->in_off },
		.iov = iov,
	};
	enum ur_iw_fault f = UR_IWF_NONE;
	enum ur_iw_emit e;

	if (len)
		f = source(q, x, &len, iov, &seg.niov);
	if (f != UR_IWF_NONE)
		return read_fault(q, x, f);
	seg.len = len;
	seg.h.last = len == left;
	e = ur_iw_emit(q, &seg);
	if (e == UR_IW_EMIT_FAULT)
		return read_fault(q, x, UR_IWF_BOUNDS);
	if (e != UR_IW_EMIT_OK)
		return e;
	tx->in_answer = true;
	tx->in_off += len;
	if (len == left)
		done(q);
	return e;
}

enum ur_iw_emit ur_iw_answer_emit(struct ur_iwqp *q)
{
	const struct ur_iw_inbound *x = &q->tx.in[q->tx.in_head];

	return x->atomic ? atomic_emit(q, x) : read_emit(q, x);
}
