/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capture (core/capture.h) of what goes through shared memory, as requests and
 * answers; the tool makes the packets that they would have been.  Each descriptor is
 * one record, sent or received, and each request by direct access is two.
 *
 * Direct access to this process' memory needs no code of it, so while the lane is
 * captured it exports no queue pair: peers use the ring.
 */
#include "core/masked.h"
#include "shm/direct.h"
#include "shm/export.h"
#include "shm/internal.h"

/* Bytes of a record by direct access: whole packets of any path MTU. */
#define CHUNK 262144u

static void swap_ends(struct ur_capture_rec *r)
{
	uint8_t src[16];

	memcpy(src, r->src, 16);
	memcpy(r->src, r->dst, 16);
	memcpy(r->dst, src, 16);
}

/* `sent`: by us. */
static struct ur_capture_rec record_of(const struct ur_rqp *q, bool sent)
{
	struct ur_capture_rec r = {
		.kind = UR_CAP_SHM,
		.flags = sent ? UR_CAP_OUT : 0,
		.qp_type = (uint8_t)q->qp->type,
		.tclass = q->qp->attr.av.tclass,
		.hop_limit = q->qp->attr.av.hop_limit,
		.mtu = (uint8_t)q->qp->attr.path_mtu,
		.sport = q->path ? q->path->sport : UR_ROCE_PORT,
		.qpn = q->qp->qpn,
		.dqpn = q->qp->attr.dest_qpn,
		.psn = sent ? q->req.end : q->rsp.epsn,
		.number = sent ? q->shm->sent : q->shm->done,
	};

	memcpy(r.src, q->qp->attr.av.sgid, 16);
	memcpy(r.dst, q->qp->attr.av.dgid, 16);
	if (!sent)
		swap_ends(&r);
	return r;
}

static uint8_t op_of(uint8_t kind)
{
	switch ((enum ur_shm_kind)kind) {
	case UR_SHM_HELLO:
	case UR_SHM_ASK:
	case UR_SHM_READY:
	case UR_SHM_REFUSED:
	case UR_SHM_DONE:
	case UR_SHM_RNDV_OK:
		break;
	case UR_SHM_FAULT:
		return UR_CAP_OP_NAK;
	case UR_SHM_DATA:
		return UR_OP_READ_RESPONSE;
	case UR_SHM_OLD:
		return UR_OP_ATOMIC_ACK;
	case UR_SHM_SEND:
	case UR_SHM_RNDV:
	case UR_SHM_DATAGRAM:
		return UR_OP_SEND;
	case UR_SHM_WRITE:
	case UR_SHM_RNDV_WRITE:
		return UR_OP_WRITE;
	case UR_SHM_READ:
		return UR_OP_READ_REQUEST;
	case UR_SHM_CMP_SWAP:
		return UR_OP_CMP_SWAP;
	case UR_SHM_FETCH_ADD:
		return UR_OP_FETCH_ADD;
	}
	return UR_CAP_OP_NONE;
}

static void put_desc(struct ur_capture_rec *r, const struct ur_desc *c)
{
	static const struct {
		uint8_t shm;
		uint8_t cap;
	} flags[] = {
		{ UR_SHM_FIRST, UR_CAP_FIRST },
		{ UR_SHM_LAST, UR_CAP_LAST },
		{ UR_SHM_IMM, UR_CAP_IMM },
		{ UR_SHM_SOLICITED, UR_CAP_SOLICITED },
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (c->flags & flags[i].shm)
			r->flags |= flags[i].cap;
	r->op = op_of(c->kind);
	if (c->kind == UR_SHM_ASK)
		r->flags |= UR_CAP_RESTART;
	if ((c->flags & UR_SHM_ACK) && r->qp_type == UR_QPT_RC) {
		r->flags |= UR_CAP_ACK;
		r->ack = c->ack;
	}
	r->imm_be = c->imm_be;
	r->va = c->body.va;
	r->rkey = c->body.rkey;
	r->total = c->body.total;
}

static void put_datagram(struct ur_capture_rec *r, const struct ur_desc *c)
{
	ur_shm_ud_addresses(c, r->src, r->dst);
	r->qp_type = UR_QPT_UD;
	r->tclass = (uint8_t)(c->to >> UR_SHM_EPOCH_SHIFT);
	r->hop_limit = (uint8_t)(c->from >> UR_SHM_EPOCH_SHIFT);
	r->dqpn = c->to & UR_QPN_MASK;
	r->va = c->from & UR_QPN_MASK;
	r->rkey = c->ack;
	r->mtu = 5; /* a datagram is one packet */
	r->total = c->len;
}

static bool says_something(const struct ur_capture_rec *r)
{
	return r->op != UR_CAP_OP_NONE ||
	       (r->flags & (UR_CAP_ACK | UR_CAP_RESTART));
}

/* What an atomic carries in its body. */
static struct iovec body_of(const struct ur_desc *c)
{
	uint32_t len =
		c->kind == UR_SHM_OLD					    ? 8
		: c->kind == UR_SHM_CMP_SWAP || c->kind == UR_SHM_FETCH_ADD ? 16
									    : 0;

	return (struct iovec){ (void *)(uintptr_t)c->body.value, len };
}

/* The payload in the body or, with `area`, at its place beside the ring. */
static struct iovec payload_of(const struct ur_desc *c, const uint8_t *beside)
{
	const uint8_t *at = beside;

	if (!c->len)
		return body_of(c);
	if (c->kind == UR_SHM_DATAGRAM)
		at = ur_shm_ud_body(c) ? ur_shm_ud_body(c) : beside;
	else if (c->flags & UR_SHM_IN_BODY)
		at = c->kind == UR_SHM_SEND ? c->body.bytes
					    : (const void *)c->body.value;
	return (struct iovec){ (void *)(uintptr_t)at, at ? c->len : 0 };
}

/* A message in one descriptor need not have its length there. */
static bool is_whole(const struct ur_desc *c)
{
	return (c->kind == UR_SHM_SEND || c->kind == UR_SHM_WRITE) &&
	       (c->flags & UR_SHM_FIRST) && (c->flags & UR_SHM_LAST);
}

static void put(const struct ur_roce *r, struct ur_capture_rec *rec,
		const struct ur_desc *c, const uint8_t *beside)
{
	struct iovec v = payload_of(c, beside);

	if (c->kind == UR_SHM_DATAGRAM)
		put_datagram(rec, c);
	else if (is_whole(c))
		rec->total = c->len;
	if (says_something(rec))
		ur_capture_put(r->tap, rec, &v, v.iov_len != 0);
}

void ur_shm_tap_sent(const struct ur_rqp *q, const struct ur_desc *desc)
{
	const struct ur_spsc_tx *tx = &q->shm->peer->chan.tx;
	struct ur_capture_rec rec = record_of(q, true);
	const struct ur_swqe *w;
	struct iovec iov[UR_MAX_SGE];
	struct ur_desc c;
	int n;

	memcpy(&c, desc, sizeof(c));
	put_desc(&rec, &c);
	if (!ur_shm_is_rndv(&c)) {
		uint32_t off = c.body.at & tx->data_mask;

		put(q->r, &rec, &c,
		    c.len <= tx->data_mask + 1 - off ? tx->data + off : NULL);
		return;
	}
	w = ur_sq_slot(&q->qp->sq, q->req.cur);
	n = ur_sge_gather(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge,
			  q->shm->off, c.body.index, iov, UR_MAX_SGE);
	ur_capture_put(q->r->tap, &rec, iov, n > 0 ? (uint32_t)n : 0);
}

void ur_shm_tap_taken(const struct ur_roce *r, const struct ur_rqp *q,
		      const struct ur_desc *c)
{
	struct ur_capture_rec rec = { .kind = UR_CAP_SHM };
	const uint8_t *beside = NULL;

	/* It is put when its data has come (ur_shm_tap_fetched()). */
	if (ur_shm_is_rndv(c))
		return;
	if (q)
		rec = record_of(q, false);
	put_desc(&rec, c);
	if (c->len && !(c->flags & UR_SHM_IN_BODY))
		beside = ur_spsc_payload(&r->shm->from->rx, c->body.at, c->len);
	put(r, &rec, c, beside);
}

/* In as many records as it takes for the pieces of the target. */
void ur_shm_tap_fetched(const struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_capture_rec rec = record_of(q, false);
	struct iovec iov[UR_DIRECT_PIECES];
	uint32_t done = 0;

	put_desc(&rec, c);
	while (done < c->body.index) {
		int n = ur_shm_rndv_target(q, c, done, c->body.index - done,
					   iov);

		if (n <= 0)
			return;
		ur_capture_put(q->r->tap, &rec, iov, (uint32_t)n);
		done += ur_shm_rndv_size(iov, n);
		rec.flags &= (uint8_t) ~(UR_CAP_FIRST | UR_CAP_ACK);
	}
}

/* --- direct access --- */

/* [off, off + len) of the request's own memory. */
static uint32_t locate(const struct ur_rqp *q, const struct ur_swqe *w,
		       uint32_t off, uint32_t len, struct iovec *iov)
{
	int n;

	if (w->flags & UR_SEND_INLINE) {
		iov[0] = (struct iovec){
			(void *)(uintptr_t)(w->data.inline_data + off), len
		};
		return 1;
	}
	n = ur_sge_gather(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge, off,
			  len, iov, UR_MAX_SGE);
	return n > 0 ? (uint32_t)n : 0;
}

/* A WRITE's data, or a READ's. */
static void put_data(const struct ur_rqp *q, const struct ur_swqe *w,
		     struct ur_capture_rec rec)
{
	uint8_t flags = rec.flags;
	uint32_t off = 0;

	rec.total = w->length;
	do {
		uint32_t left = w->length - off;
		uint32_t len = left < CHUNK ? left : CHUNK;
		struct iovec iov[UR_MAX_SGE];

		rec.flags = (uint8_t)(flags | (off ? 0 : UR_CAP_FIRST) |
				      (len == left ? UR_CAP_LAST : 0));
		ur_capture_put(q->r->tap, &rec, iov,
			       locate(q, w, off, len, iov));
		off += len;
	} while (off < w->length);
}

static void put_atomic(const struct ur_rqp *q, const struct ur_swqe *w,
		       struct ur_capture_rec *rec)
{
	uint64_t operands[2] = { w->wr.atomic.compare_add, w->wr.atomic.swap };
	struct iovec v = { operands, sizeof(operands) };

	rec->op = ur_swqe_is_cas(w) ? UR_OP_CMP_SWAP : UR_OP_FETCH_ADD;
	rec->va = w->wr.atomic.remote_addr;
	rec->rkey = w->wr.atomic.rkey;
	rec->total = w->length;
	if (ur_swqe_is_masked(w))
		v = (struct iovec){ ur_swqe_masked(
					    &q->qp->sq,
					    (struct ur_swqe *)(uintptr_t)w),
				    sizeof(struct ur_masked) };
	ur_capture_put(q->r->tap, rec, &v, 1);
}

void ur_shm_tap_direct(const struct ur_rqp *q, const struct ur_swqe *w)
{
	struct ur_capture_rec ask = record_of(q, true);
	struct ur_capture_rec answer = record_of(q, false);

	ask.flags |= UR_CAP_DIRECT;
	answer.flags |= UR_CAP_DIRECT | UR_CAP_FIRST | UR_CAP_LAST;
	if (ur_swqe_is_atomic(w)) {
		struct iovec iov[UR_MAX_SGE];

		put_atomic(q, w, &ask);
		answer.op = UR_OP_ATOMIC_ACK;
		ur_capture_put(q->r->tap, &answer, iov,
			       locate(q, w, 0, w->length, iov));
		return;
	}
	ask.va = w->wr.rdma.remote_addr;
	ask.rkey = w->wr.rdma.rkey;
	if (!ur_swqe_is_read(w)) {
		ask.op = UR_OP_WRITE;
		put_data(q, w, ask);
		answer.op = UR_CAP_OP_NONE;
		if (q->qp->type == UR_QPT_RC)
			ur_capture_put(q->r->tap, &answer, NULL, 0);
		return;
	}
	ask.op = UR_OP_READ_REQUEST;
	ask.flags |= UR_CAP_FIRST | UR_CAP_LAST;
	ask.total = w->length;
	ur_capture_put(q->r->tap, &ask, NULL, 0);
	answer.op = UR_OP_READ_RESPONSE;
	answer.flags &= (uint8_t) ~(UR_CAP_FIRST | UR_CAP_LAST);
	put_data(q, w, answer);
}

void ur_shm_drop_tap(struct ur_roce *r)
{
	r->tap = NULL;
}

void ur_shm_set_tap(struct ur_roce *r, const struct ur_tap *tap)
{
	r->tap = tap;
	for (uint32_t i = 0; i < 1u << UR_SLOT_SHIFT; i++) {
		struct ur_rqp *q = r->qps[i];

		if (!q || !q->shm || !q->shm->serves)
			continue;
		if (tap)
			ur_export_qp_set(r->export, q->qp->qpn, q->qp->pd, 0,
					 q->qp->attr.dest_qpn, false);
		else
			ur_shm_export_qp(q);
	}
}
