/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Responses to READ and atomic requests of the peer, in their order (RFC 5040,
 * 5.5). A READ's region or window is looked up for each segment, since it may
 * be removed in between.
 */
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

/* The region was removed while its READ was being answered. */
static enum ur_iw_emit read_fault(struct ur_iwqp *q, enum ur_iw_fault f)
{
	ur_iw_fault(q, f, NULL);
	return UR_IW_EMIT_IDLE;
}

static enum ur_iw_emit read_emit(struct ur_iwqp *q,
				 const struct ur_iw_inbound *x)
{
	struct ur_iw_tx *tx = &q->tx;
	uint32_t left = x->len - tx->in_off;
	uint32_t most = ur_iw_max_payload(q, true);
	uint32_t len = left < most ? left : most;
	struct iovec iov = { .iov_len = len };
	struct ur_iw_seg seg = {
		.h = { .tagged = true,
		       .last = len == left,
		       .version = UR_DDP_VERSION,
		       .ulp = ur_rdmap_control(UR_RDMAP_READ_RESPONSE),
		       .stag = x->stag,
		       .to = x->to + tx->in_off },
		.iov = &iov,
		.niov = len ? 1 : 0,
		.len = len,
	};
	enum ur_iw_fault f = UR_IWF_NONE;
	uint8_t *at = NULL;
	enum ur_iw_emit e;

	if (len)
		f = ur_iw_region(q, x->src_stag, x->src_to + tx->in_off, len,
				 UR_ACCESS_REMOTE_READ, false, &at);
	if (f != UR_IWF_NONE)
		return read_fault(q, f);
	iov.iov_base = at;
	e = ur_iw_emit(q, &seg);
	if (e == UR_IW_EMIT_FAULT)
		return read_fault(q, UR_IWF_BOUNDS);
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
