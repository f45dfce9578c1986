/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agreement on full packets.  The requester sends a probe, as long as the
 * longest request would be, and the responder answers with a packet as long.  So
 * both directions are known to carry them.  Only the requester stores the agreed
 * size: its requests, and the responses that it asks for, say that they are full.
 *
 * If the requester's interface MTU becomes smaller, its own link reports it.  If
 * the responder's does, the responder ends the agreement: a requester that only
 * READs would not notice.
 */
#include "base/addr.h"
#include "base/guard.h"
#include "roce/full.h"
#include "roce/psn_set.h"

#define IPV4_LEN    20u
#define IPV6_LEN    40u
#define UDP_LEN	    8u
/* The headers of the longest request: BTH, RETH, and immediate data or key. */
#define HEADERS_LEN (UR_BTH_LEN + UR_RETH_LEN + 4u)
/* Zeros that make up for the shorter headers of a probe: BTH, AETH and size. */
#define PADDING	    (HEADERS_LEN - UR_BTH_LEN - 4u - UR_FULL_LEN)

/* So many unanswered probes mean that the peer or the path does not pass them. */
#define PROBES_MAX  3u
/* A probe is lost if it has no answer after this time, which is longer than a
 * round trip and the scheduling of the peer's thread. */
#define PROBE_NS    100000000u
/* PROBES_MAX, and copies of them that a network has made. */
#define ANSWERS_MAX 8u

/* A message of so many packets may get up to so many more, to have equal ones. */
#define SPLIT_MORE_FROM 16u
#define SPLIT_MORE	3u

void ur_full_restart(struct ur_rqp *q)
{
	struct ur_full *f = &q->full;

	f->max = 0;
	f->size = 0;
	f->probes = 0;
	f->answers = 0;
	f->ended = false;
	/* A requester that READs has to be informed of the new path. */
	f->reported = UINT64_MAX;
}

void ur_roce_qp_fill(struct ur_qp *qp, uint32_t mtu)
{
	struct ur_rqp *q = ur_rqp_of(qp);
	uint32_t around = UDP_LEN + HEADERS_LEN + UR_ICRC_LEN, max;

	if (qp->type != UR_QPT_RC || !q->path || !q->r->fragmented)
		return;
	around += ur_addr_is_v4(q->path->key.dst) ? IPV4_LEN : IPV6_LEN;
	if (mtu < around + q->mtu)
		return;
	max = (mtu - around) & ~3u;
	if (max > UR_FULL_MAX)
		max = UR_FULL_MAX;
	q->full.max = max > q->mtu ? (uint16_t)max : 0;
	if (q->full.max > q->full.most)
		q->full.most = q->full.max;
}

/* An alternate path is known to carry the path MTU only.  Full packets do not end
 * at multiples of 16 bytes, so operands of atomics would be divided. */
static bool is_off(const struct ur_rqp *q)
{
	return !q->full.max || q->peer != UR_PEER_URNIC ||
	       ur_guard_is_whole() || (q->wire_only & UR_WIRE_PATHS);
}

bool ur_full_is_agreed(const struct ur_rqp *q)
{
	return q->full.size && !is_off(q) &&
	       q->full.fragmented == *q->r->fragmented;
}

/* One unanswered probe at a time on a path, however many QPs use it. */
static bool is_probed(const struct ur_path *p, uint64_t now_ns)
{
	return p->probed_ns && now_ns - p->probed_ns < PROBE_NS;
}

bool ur_full_may_probe(const struct ur_rqp *q, uint64_t now_ns)
{
	const struct ur_full *f = &q->full;

	return !f->size && !f->ended && f->probes < PROBES_MAX && !is_off(q) &&
	       !is_probed(q->path, now_ns);
}

/* The bytes of w's packets between BTH and ICRC. */
uint32_t ur_full_carried(const struct ur_swqe *w)
{
	bool tail = w->opcode == UR_WR_SEND_IMM ||
		    w->opcode == UR_WR_SEND_INV ||
		    w->opcode == UR_WR_RDMA_WRITE_IMM;

	return w->length + (ur_swqe_is_write(w) ? UR_RETH_LEN : 0) +
	       (tail ? 4 : 0);
}

/* Are the lengths of n equal parts of it the same with pad?  They differ by one. */
static bool divides(uint32_t carried, uint32_t n)
{
	return (carried / n) % 4 || carried % n == 0;
}

uint32_t ur_full_split(struct ur_swqe *w, uint32_t n, uint32_t path_mtu)
{
	uint32_t carried = ur_full_carried(w);
	uint32_t from = (carried + w->mtu - 1) / w->mtu;
	uint32_t to = from + (from < SPLIT_MORE_FROM ? 0 : SPLIT_MORE);

	if (ur_swqe_is_read(w))
		return n;
	for (uint32_t k = from; k <= to; k++) {
		if (divides(carried, k) &&
		    carried / k >= ur_full_least(path_mtu) + UR_RETH_LEN) {
			w->even = true;
			w->mtu = (uint16_t)(carried / k);
			return k;
		}
	}
	return n;
}

static enum ur_emit emit(struct ur_rqp *q, struct ur_burst *t, uint32_t psn,
			 enum ur_full_kind kind, uint16_t size)
{
	static const uint8_t zeros[UR_FULL_MAX + PADDING];
	uint32_t len = size ? size + PADDING : 0;
	/* Only read; iovec has no const. */
	struct iovec iov = { .iov_base = (void *)(uintptr_t)zeros,
			     .iov_len = len };
	struct ur_hdr h = { .bth = ur_rc_bth(q, UR_RC_ACK, psn),
			    .syndrome = UR_AETH_ACK | UR_AETH_CREDITS_INVALID,
			    .msn = q->rsp.msn,
			    .full_kind = (uint8_t)kind,
			    .full_size = size };

	h.bth.full = true;
	if ((size && t->npkts) ||
	    ur_burst_fits(t, ur_pkt_len(ur_opcode_get(h.bth.opcode), len) +
				     ur_hdr_extra(&h)) != UR_FIT_OK)
		return UR_EMIT_FULL;
	(void)ur_burst_add(t, q->path, &h, &iov, len ? 1 : 0, len, false);
	t->alone = size != 0;
	return UR_EMIT_OK;
}

enum ur_emit ur_full_emit_probe(struct ur_rqp *q, struct ur_burst *t,
				uint64_t now_ns)
{
	struct ur_full *f = &q->full;
	enum ur_emit e = emit(q, t, q->req.psn, UR_FULL_PROBE, f->max);

	if (e != UR_EMIT_OK)
		return e;
	f->probes++;
	f->probe_psn = q->req.psn;
	q->path->probed_ns = now_ns;
	return e;
}

static enum ur_emit emit_end(struct ur_rqp *q, struct ur_burst *t)
{
	struct ur_full *f = &q->full;
	enum ur_emit e = UR_EMIT_OK;

	if (q->peer == UR_PEER_URNIC)
		e = emit(q, t, f->end_psn, UR_FULL_END, 0);
	if (e == UR_EMIT_OK)
		f->end_due = false;
	return e;
}

static enum ur_emit emit_answer(struct ur_rqp *q, struct ur_burst *t)
{
	struct ur_full *f = &q->full;
	enum ur_emit e = UR_EMIT_OK;

	if (!is_off(q)) {
		e = emit(q, t, f->answer_psn, UR_FULL_ANSWER, f->answer_size);
		f->reported = *q->r->fragmented;
	}
	if (e == UR_EMIT_OK)
		f->answer_due = false;
	return e;
}

enum ur_emit ur_full_emit_due(struct ur_rqp *q, struct ur_burst *t)
{
	enum ur_emit e = q->full.end_due ? emit_end(q, t) : UR_EMIT_OK;

	return e == UR_EMIT_OK && q->full.answer_due ? emit_answer(q, t) : e;
}

void ur_full_read(struct ur_rqp *q, uint32_t psn)
{
	struct ur_full *f = &q->full;

	if (f->reported == *q->r->fragmented)
		return;
	f->reported = *q->r->fragmented;
	f->end_due = true;
	f->end_psn = psn;
	ur_rqp_want_ack(q);
}

static void probed(struct ur_rqp *q, uint16_t size, uint32_t psn)
{
	struct ur_full *f = &q->full;
	int32_t ahead = ur_psn_diff(psn, q->rsp.epsn);

	/* A requester has no more than that in flight. */
	if (f->answers >= ANSWERS_MAX || ahead > (int32_t)UR_PSN_WINDOW ||
	    ahead < -(int32_t)UR_PSN_WINDOW)
		return;
	f->answers++;
	f->answer_due = true;
	f->answer_size = size < f->max ? size : f->max;
	f->answer_psn = psn;
	ur_rqp_want_ack(q);
}

static void answered(struct ur_rqp *q, uint16_t size, uint32_t psn)
{
	struct ur_full *f = &q->full;

	if (!f->probes || f->size || f->ended || psn != f->probe_psn ||
	    size > f->max)
		return;
	f->size = size;
	f->fragmented = *q->r->fragmented;
	q->path->probed_ns = 0;
}

/* A late one, of a READ that is complete, may be of an earlier agreement. */
static void ended(struct ur_rqp *q, const struct ur_in *in)
{
	uint32_t psn = in->hdr.bth.psn;

	if (in->hdr.full_size || in->payload_len ||
	    ur_psn_before(psn, q->req.una) || !ur_psn_before(psn, q->req.end))
		return;
	q->full.size = 0;
	q->full.ended = true;
}

void ur_full_received(struct ur_rqp *q, const struct ur_in *in)
{
	const struct ur_hdr *h = &in->hdr;
	uint16_t size = h->full_size;

	if (h->full_kind == UR_FULL_END) {
		ended(q, in);
		return;
	}
	/* As long as the packets of that size, so that an answer is never longer
	 * than its probe. */
	if (is_off(q) || size <= q->mtu || (size & 3u) ||
	    in->payload_len != size + PADDING)
		return;
	if (h->full_kind == UR_FULL_PROBE)
		probed(q, size, h->bth.psn);
	else if (h->full_kind == UR_FULL_ANSWER)
		answered(q, size, h->bth.psn);
}
