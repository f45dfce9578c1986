/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA (RFC 5044), sending. FPDUs are built in batches: headers, pads, CRCs and
 * small payloads are in the batch's own memory, large payloads are referenced.
 * TCP may accept any part of it; the rest is offered again unchanged, and the
 * next batch is built when all is sent.
 *
 * Payload that may change meanwhile (the source of a READ) is always copied:
 * its CRC must be that of the bytes sent, and after deregistration none of them
 * may be sent any more.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "base/guard.h"
#include "base/remote.h"
#include "iwarp/internal.h"

/* Copying costs less than a piece of its own, up to this size. */
#define COPY_MAX     512u
/* With a CRC copying is nearly free, since the CRC reads the bytes anyway. */
#define COPY_MAX_CRC 2048u

static struct ur_iw_batch *batch_get(struct ur_iwarp *w)
{
	struct ur_iw_batch *b;

	if (ur_list_empty(&w->batches)) {
		b = malloc(sizeof(*b));
		if (!b)
			return NULL;
	} else {
		b = ur_container_of(w->batches.next, struct ur_iw_batch, node);
		ur_list_del(&b->node);
	}
	ur_list_init(&b->node);
	b->niov = 0;
	b->first = 0;
	b->skip = 0;
	b->bytes = 0;
	b->sent = 0;
	b->nfpdu = 0;
	b->next_fpdu = 0;
	b->linear_len = 0;
	return b;
}

void ur_iw_tx_drop(struct ur_iwqp *q)
{
	if (!q->tx.batch)
		return;
	ur_list_add_head(&q->w->batches, &q->tx.batch->node);
	q->tx.batch = NULL;
}

static void add_piece(struct ur_iw_batch *b, void *p, uint32_t len)
{
	if (len == 0)
		return;
	b->iov[b->niov++] = (struct iovec){ .iov_base = p, .iov_len = len };
	b->bytes += len;
}

/* The next n bytes of the linear memory, as part of the batch. */
static uint8_t *add_linear(struct ur_iw_batch *b, uint32_t n)
{
	uint8_t *p = b->linear + b->linear_len;
	struct iovec *last = b->niov ? &b->iov[b->niov - 1] : NULL;

	b->linear_len += n;
	if (last && (uint8_t *)last->iov_base + last->iov_len == p) {
		last->iov_len += n;
		b->bytes += n;
	} else {
		add_piece(b, p, n);
	}
	return p;
}

static bool fits(const struct ur_iw_batch *b, const struct ur_iw_seg *seg)
{
	uint32_t linear = 32u + (seg->niov ? seg->len : 0);

	return b->nfpdu < UR_IW_BATCH_FPDUS && b->bytes < UR_IW_BATCH_BYTES &&
	       b->niov + seg->niov + 2 <= UR_IW_TX_IOV &&
	       b->linear_len + linear <= UR_IW_BATCH_LINEAR;
}

/* Appends payload and updates the CRC. -EFAULT. */
static int add_payload(struct ur_iwqp *q, struct ur_iw_batch *b,
		       const struct ur_iw_seg *seg, uint32_t *crc)
{
	bool with_crc = q->params.crc;
	bool copy = !seg->stable || ur_guard_is_whole() ||
		    seg->len <= (with_crc ? COPY_MAX_CRC : COPY_MAX) ||
		    ur_remote_any(seg->iov, seg->niov);
	uint8_t *to = copy && seg->len ? add_linear(b, seg->len) : NULL;
	uint8_t *begin = to;

	for (uint32_t i = 0; i < seg->niov; i++) {
		const struct iovec *v = &seg->iov[i];

		if (!copy) {
			if (with_crc &&
			    ur_guard_crc32c(crc, v->iov_base, v->iov_len))
				return -EFAULT;
			add_piece(b, v->iov_base, (uint32_t)v->iov_len);
			continue;
		}
		if (ur_guard_copy(to, v->iov_base, v->iov_len))
			return -EFAULT;
		to += v->iov_len;
	}
	if (begin && with_crc)
		*crc = ur_crc32c(*crc, begin, seg->len);
	return 0;
}

static int add_fpdu(struct ur_iwqp *q, struct ur_iw_batch *b,
		    const struct ur_iw_seg *seg)
{
	uint32_t hdr = seg->empty ? 0 : ur_ddp_hdr_len(seg->h.tagged);
	uint32_t ulpdu = hdr + seg->len;
	uint32_t pad = ur_fpdu_pad(ulpdu);
	uint32_t crc = 0;
	uint8_t *p = add_linear(b, UR_FPDU_LEN_LEN + hdr);
	int err;

	p[0] = (uint8_t)(ulpdu >> 8);
	p[1] = (uint8_t)ulpdu;
	if (hdr)
		ur_ddp_encode(&seg->h, p + UR_FPDU_LEN_LEN);
	if (q->params.crc)
		crc = ur_crc32c(0, p, UR_FPDU_LEN_LEN + hdr);
	err = add_payload(q, b, seg, &crc);
	if (err)
		return err;
	p = add_linear(b, pad + UR_FPDU_CRC_LEN);
	memset(p, 0, pad + UR_FPDU_CRC_LEN);
	if (!q->params.crc)
		return 0;
	crc = ur_crc32c(crc, p, pad);
	for (uint32_t i = 0; i < UR_FPDU_CRC_LEN; i++)
		p[pad + i] = (uint8_t)(crc >> (8 * i));
	return 0;
}

/* Append the FPDU, or leave the batch unchanged. */
enum ur_iw_emit ur_iw_emit(struct ur_iwqp *q, const struct ur_iw_seg *seg)
{
	struct ur_iw_batch *b = q->tx.batch;
	uint32_t niov, last_len, bytes, linear_len;

	if (!b) {
		b = batch_get(q->w);
		q->tx.batch = b;
	}
	if (!b || !fits(b, seg))
		return UR_IW_EMIT_FULL;
	niov = b->niov;
	last_len = niov ? (uint32_t)b->iov[niov - 1].iov_len : 0;
	bytes = b->bytes;
	linear_len = b->linear_len;
	if (add_fpdu(q, b, seg)) {
		b->niov = niov;
		if (niov)
			b->iov[niov - 1].iov_len = last_len;
		b->bytes = bytes;
		b->linear_len = linear_len;
		if (bytes == 0)
			ur_iw_tx_drop(q);
		return UR_IW_EMIT_FAULT;
	}
	b->fpdu[b->nfpdu].end = b->bytes;
	b->fpdu[b->nfpdu].niov = b->niov;
	b->fpdu[b->nfpdu].last_len = (uint32_t)b->iov[b->niov - 1].iov_len;
	b->fpdu[b->nfpdu].whole = seg->whole;
	b->fpdu[b->nfpdu].request = seg->request;
	b->nfpdu++;
	q->w->cnt.sent_fpdus++;
	return UR_IW_EMIT_OK;
}

/* Copy unsent bytes, which may be in the application's memory. */
static int copy_unsent(struct ur_iw_batch *b)
{
	uint8_t *to = b->linear + b->linear_len;

	for (uint32_t i = b->first; i < b->niov; i++) {
		struct iovec *v = &b->iov[i];
		uint8_t *p = v->iov_base;

		if (p >= b->linear && p < b->linear + sizeof(b->linear))
			continue;
		if (ur_guard_copy(to, p, v->iov_len))
			return -EFAULT;
		v->iov_base = to;
		to += v->iov_len;
	}
	b->linear_len = (uint32_t)(to - b->linear);
	return 0;
}

void ur_iw_tx_cut(struct ur_iwqp *q)
{
	struct ur_iw_batch *b = q->tx.batch;
	uint32_t i;

	if (!b)
		return;
	i = b->next_fpdu;
	if (b->sent == (i ? b->fpdu[i - 1].end : 0)) {
		ur_iw_tx_drop(q);
		return;
	}
	b->nfpdu = i + 1;
	b->bytes = b->fpdu[i].end;
	b->niov = b->fpdu[i].niov;
	b->iov[b->niov - 1].iov_len = b->fpdu[i].last_len;
	b->fpdu[i].whole = false;
	if (copy_unsent(b)) {
		q->abort = true;
		ur_iw_tx_drop(q);
	}
}

static enum ur_iw_emit terminate_emit(struct ur_iwqp *q)
{
	struct iovec iov = { .iov_base = q->tx.term,
			     .iov_len = q->tx.term_len };
	struct ur_iw_seg seg = {
		.h = { .last = true,
		       .version = UR_DDP_VERSION,
		       .ulp = ur_rdmap_control(UR_RDMAP_TERMINATE),
		       .qn = UR_QN_TERMINATE,
		       .msn = 1 },
		.iov = &iov,
		.niov = 1,
		.len = q->tx.term_len,
	};
	enum ur_iw_emit e = ur_iw_emit(q, &seg);

	if (e == UR_IW_EMIT_OK) {
		q->tx.term_len = 0;
		q->w->cnt.sent_terminate++;
	}
	return e;
}

/* Messages are not interleaved (RFC 5041, 5.3); between messages, responses and
 * requests alternate. */
static enum ur_iw_emit emit_next(struct ur_iwqp *q)
{
	struct ur_iw_tx *tx = &q->tx;
	bool answer = tx->in_count > 0;
	enum ur_iw_emit e;

	if (tx->rtr_due)
		return ur_iw_rtr_emit(q);
	if (tx->in_answer ||
	    (answer && !tx->last_was_response && !ur_iw_request_begun(q))) {
		e = ur_iw_answer_emit(q);
		tx->last_was_response = !tx->in_answer;
		return e;
	}
	e = ur_iw_request_emit(q);
	if (e == UR_IW_EMIT_OK) {
		tx->last_was_response = false;
		return e;
	}
	if (e != UR_IW_EMIT_IDLE || !answer || ur_iw_request_begun(q) ||
	    !ur_iwqp_open(q))
		return e;
	return ur_iw_answer_emit(q);
}

static void fill(struct ur_iwqp *q)
{
	if (q->tx.term_len && terminate_emit(q) == UR_IW_EMIT_FULL)
		return;
	if (q->tx.batch)
		return;
	while (ur_iwqp_open(q) && !q->fin &&
	       (!q->tx.hold || ur_iw_request_is_local(q))) {
		if (emit_next(q) != UR_IW_EMIT_OK)
			break;
	}
	/* A bind completes here without sending a byte. */
	ur_iwqp_check_overrun(q);
	if (ur_iwqp_open(q))
		ur_iwqp_check_drained(q);
	/* A local error meanwhile has left a TERMINATE to be sent. */
	if (q->tx.term_len)
		(void)terminate_emit(q);
}

uint32_t ur_iwarp_tx_get(struct ur_iwarp *w, struct ur_qp *qp,
			 struct iovec *iov, uint32_t max, uint64_t now_ns)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);
	struct ur_iw_batch *b;
	uint32_t n;

	w->now_ns = now_ns;
	if (!q->link || q->abort)
		return 0;
	fill(q);
	b = q->tx.batch;
	if (!b)
		return 0;
	n = b->niov - b->first;
	if (n > max)
		n = max;
	memcpy(iov, b->iov + b->first, n * sizeof(*iov));
	if (n) {
		iov[0].iov_base = (uint8_t *)iov[0].iov_base + b->skip;
		iov[0].iov_len -= b->skip;
	}
	return n;
}

static void step_over(struct ur_iw_batch *b, uint32_t len)
{
	while (len) {
		uint32_t left = (uint32_t)b->iov[b->first].iov_len - b->skip;

		if (len < left) {
			b->skip += len;
			return;
		}
		len -= left;
		b->first++;
		b->skip = 0;
	}
}

void ur_iwarp_tx_done(struct ur_iwarp *w, struct ur_qp *qp, uint32_t len,
		      uint64_t now_ns)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);
	struct ur_iw_batch *b = q->tx.batch;
	bool all;

	w->now_ns = now_ns;
	if (!b)
		return;
	w->cnt.sent_bytes += len;
	b->sent += len;
	step_over(b, len);
	while (b->next_fpdu < b->nfpdu &&
	       b->fpdu[b->next_fpdu].end <= b->sent) {
		if (b->fpdu[b->next_fpdu].whole)
			q->tx.sent = b->fpdu[b->next_fpdu].request + 1;
		b->next_fpdu++;
	}
	all = b->sent == b->bytes;
	q->tx.blocked = !all;
	if (all)
		ur_iw_tx_drop(q);
	if (ur_iwqp_open(q))
		ur_iw_requests_advance(q);
	ur_iwqp_check_overrun(q);
	if (ur_iwqp_open(q))
		ur_iwqp_check_drained(q);
	if (all)
		ur_iw_schedule(q);
}

void ur_iwarp_tx_unblock(struct ur_iwarp *w, struct ur_qp *qp)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);

	q->tx.blocked = false;
	ur_iw_schedule(q);
}

bool ur_iwarp_tx_blocked(const struct ur_qp *qp)
{
	return ur_iwqp_of(qp)->tx.blocked;
}

void ur_iwarp_tx_fault(struct ur_iwarp *w, struct ur_qp *qp, uint64_t now_ns)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);

	w->now_ns = now_ns;
	if (!ur_iwqp_open(q) || !q->tx.batch)
		return;
	/* Only send requests are referenced: the oldest that is not sent. */
	if (q->tx.sent != ur_sq_tail(&qp->sq))
		ur_iw_request_fail(q, q->tx.sent, UR_WC_LOC_PROT_ERR);
	ur_iw_fault(q, UR_IWF_LOCAL_SEND, NULL);
}
