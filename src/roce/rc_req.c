/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC requester, sending side (IBTA 9.7.3): turns send requests into packets.
 *
 * Work requests get their PSNs when they are first sent. A READ takes as many
 * PSNs as its response has packets; it is sent as several READ requests of
 * `rd_chunk` bytes, rounded up to whole packets, each a request of its own to the
 * responder, so that the responses in flight to us do not exceed our receive buffer.
 */
#include <errno.h>

#include "base/bytes.h"
#include "base/guard_word.h"
#include "base/remote.h"
#include "roce/congestion.h"
#include "roce/dc.h"
#include "roce/full.h"
#include "roce/masked.h"
#include "roce/selective.h"

/* Request an acknowledgement at least every so many packets. */
#define ACKREQ_EVERY	    16u
/* For small packets, if the peer, a urnic, also acknowledges on its own. */
#define ACKREQ_EVERY_SMALL  128u
#define ACKREQ_EVERY_PRICED 65536u

static uint32_t pkts_of(uint32_t len, uint32_t mtu)
{
	return len ? (len + mtu - 1) / mtu : 1;
}

uint32_t ur_swqe_pkts(const struct ur_swqe *w, uint32_t mtu)
{
	return ur_swqe_is_atomic(w) || ur_swqe_is_placed(w)
		       ? 1
		       : pkts_of(w->length, mtu);
}

static uint8_t tail_header(const struct ur_swqe *w)
{
	switch ((enum ur_wr_opcode)w->opcode) {
	case UR_WR_SEND_IMM:
	case UR_WR_RDMA_WRITE_IMM:
		return UR_HDR_IMM;
	case UR_WR_SEND_INV:
		return UR_HDR_IETH;
	case UR_WR_RDMA_WRITE:
	case UR_WR_SEND:
	case UR_WR_RDMA_READ:
	case UR_WR_CMP_SWP:
	case UR_WR_FETCH_ADD:
	case UR_WR_LOCAL_INV:
	case UR_WR_BIND_MW:
	case UR_WR_TSO:
	case UR_WR_FLUSH:
	case UR_WR_ATOMIC_WRITE:
	case UR_WR_NOP:
	case UR_WR_MASKED_CMP_SWP:
	case UR_WR_MASKED_FETCH_ADD:
	case UR_WR_UMR_FILL:
	case UR_WR_UMR_INVALIDATE:
		break;
	}
	return 0;
}

static enum ur_op_kind kind_of(const struct ur_swqe *w)
{
	return ur_swqe_is_write(w) ? UR_OP_WRITE : UR_OP_SEND;
}

int ur_req_add_packet(struct ur_rqp *q, struct ur_burst *t, struct ur_path *p,
		      const struct ur_swqe *w, struct ur_hdr *h, uint32_t off,
		      uint32_t len, bool stable)
{
	struct iovec iov[UR_MAX_SGE];
	int n = 0;

	if (w->flags & UR_SEND_INLINE) {
		/* The ring's memory; iovec has no const. */
		const uint8_t *data = w->data.inline_data + off;

		iov[0].iov_base = (void *)(uintptr_t)data;
		iov[0].iov_len = len;
		n = 1;
	} else if (len) {
		n = ur_req_pieces(q, w, off, len, iov, &stable);
		if (n < 0)
			return n;
	}
	return ur_burst_add(t, p, h, iov, (uint32_t)n, len, stable);
}

/* Header of packet i of a SEND or WRITE. */
void ur_message_header(const struct ur_rqp *q, const struct ur_swqe *w,
		       uint32_t i, struct ur_hdr *h)
{
	uint32_t n = ((w->last_psn - w->first_psn) & UR_PSN_MASK) + 1;
	unsigned int pos =
		(i == 0 ? UR_POS_FIRST : 0) | (i == n - 1 ? UR_POS_LAST : 0);

	h->bth.opcode = ur_opcode_pick(ur_transport_of(q->qp), kind_of(w), pos,
				       tail_header(w));
	h->bth.solicited =
		(pos & UR_POS_LAST) && (w->flags & UR_SEND_SOLICITED);
	h->bth.migreq = ur_mig_bit(q);
	h->bth.pkey = 0xffff;
	h->bth.dqpn = q->qp->attr.dest_qpn;
	h->srqn = w->wr.rdma.srqn;
	h->va = w->wr.rdma.remote_addr;
	h->rkey = w->wr.rdma.rkey;
	h->dma_len = w->length;
	h->imm_be = w->imm_be;
	h->inv_rkey = w->imm_be;
	if (q->dci)
		ur_dci_stamp(q, h);
}

/* Will another QP be scheduled because this burst is full? It may use up the
 * window, and QPs would wait for each other if none had requested an ACK. */
static bool is_burst_full(const struct ur_rqp *q, const struct ur_burst *t,
			  uint32_t len)
{
	return !ur_path_is_exclusive(q->path) && !ur_burst_holds(t, len, 2);
}

/* Does a completion or another QP depend on the acknowledgement of this
 * message? Only a urnic acknowledges without a request. */
static bool is_awaited(const struct ur_rqp *q, const struct ur_swqe *w)
{
	return (w->flags & UR_SEND_SIGNALED) || q->qp->sq_sig_all ||
	       q->qp->cross || q->peer != UR_PEER_URNIC ||
	       ur_rqp_state(q) == UR_QPS_SQD;
}

static void count_again(struct ur_rqp *q, bool again)
{
	q->r->cnt.retransmitted_pkts += again;
	q->qp->retransmitted += again;
}

/* Has enough been sent since the last ack request? */
static bool is_time_for_ack(const struct ur_rqp *q, uint32_t price)
{
	uint32_t n = q->req.since_ackreq;

	/* At a limited rate many packets take longer than the early timeout. */
	if (q->peer != UR_PEER_URNIC || q->qp->attr.rate_limit)
		return n >= ACKREQ_EVERY;
	return n >= ACKREQ_EVERY_SMALL || n * price >= ACKREQ_EVERY_PRICED;
}

/* Request an ACK where it is needed, regularly, and before sending stops. */
static bool want_ack(struct ur_rqp *q, const struct ur_burst *t, uint32_t len,
		     bool awaited, uint32_t price)
{
	struct ur_requester *s = &q->req;

	s->since_ackreq++;
	if (!awaited && !is_time_for_ack(q, price) &&
	    q->path->inflight + price < q->path->cwnd &&
	    !is_burst_full(q, t, len))
		return false;
	s->since_ackreq = 0;
	return true;
}

static enum ur_emit message_emit(struct ur_rqp *q, struct ur_swqe *w,
				 struct ur_burst *t, uint32_t psn, bool alone)
{
	uint32_t i = (psn - w->first_psn) & UR_PSN_MASK;
	uint32_t n = ((w->last_psn - w->first_psn) & UR_PSN_MASK) + 1;
	uint32_t off = ur_full_offset(w, i, n);
	uint32_t end = i == n - 1 ? w->length : ur_full_offset(w, i + 1, n);
	uint32_t len = end - off;
	bool again = ur_psn_diff(psn, q->req.end) < 0;
	struct ur_hdr h = { .bth.psn = psn,
			    .bth.selective = alone && ur_rc_is_selective(q),
			    .bth.full = ur_swqe_is_full(q, w) };
	uint32_t pkt_len;
	int err;

	ur_message_header(q, w, i, &h);
	pkt_len = ur_pkt_len(ur_opcode_get(h.bth.opcode), len);
	if (ur_burst_fits(t, pkt_len) != UR_FIT_OK)
		return UR_EMIT_FULL;
	ur_rc_peer_announce(q, &h);
	/* Also if the peer is not taken for a urnic since the message began. */
	h.bth.urnic |= h.bth.full;
	if (q->rsp.ack_due)
		ur_rc_piggyback_attach(q, t, len, &h);
	h.bth.ackreq =
		alone || want_ack(q, t, pkt_len, i == n - 1 && is_awaited(q, w),
				  ur_swqe_price(w));
	/* A retransmitted packet is copied first: if its memory changes
	 * meanwhile, the ICRC still matches the bytes sent. */
	err = ur_req_add_packet(q, t, q->path, w, &h, off, len, !again);
	if (err)
		return UR_EMIT_IDLE;
	if (h.bth.has_ack)
		ur_rc_piggyback_sent(q);
	t->may_fragment |= h.bth.full;
	count_again(q, again);
	if (!alone)
		ur_cong_sent(q, ur_swqe_price(w));
	ur_rate_spend(q, pkt_len, q->r->now_ns);
	return UR_EMIT_OK;
}

static void rd_push(struct ur_rqp *q, uint32_t last_psn)
{
	struct ur_requester *s = &q->req;

	s->rd_last[(s->rd_head + s->rd_count++) % UR_MAX_RD_ATOMIC] = last_psn;
}

static bool rd_full(const struct ur_rqp *q)
{
	return q->req.rd_count >= q->qp->attr.max_rd_atomic;
}

/* A request without payload, whose response takes that many PSNs. */
static enum ur_emit header_emit(struct ur_rqp *q, struct ur_burst *t,
				struct ur_hdr *h, uint32_t psns)
{
	const struct ur_opcode *op = ur_opcode_get(h->bth.opcode);

	h->bth.ackreq = true;
	if (q->dci)
		ur_dci_stamp(q, h);
	if (ur_burst_fits(t, ur_pkt_len(op, 0) + ur_hdr_extra(h)) != UR_FIT_OK)
		return UR_EMIT_FULL;
	if (ur_burst_add(t, q->path, h, NULL, 0, 0, false))
		return UR_EMIT_IDLE;
	if (h->bth.selective) {
		count_again(q, true);
		return UR_EMIT_OK;
	}
	rd_push(q, ur_psn_add(h->bth.psn, psns - 1));
	q->req.since_ackreq = 0;
	return UR_EMIT_OK;
}

/* A request for up to `most` bytes from that PSN on. */
static enum ur_emit read_request(struct ur_rqp *q, const struct ur_swqe *w,
				 struct ur_burst *t, struct ur_bth bth,
				 uint32_t *most)
{
	uint32_t off = ((bth.psn - w->first_psn) & UR_PSN_MASK) * w->mtu;
	uint32_t left = w->length - off;
	uint32_t len = left < *most ? left : *most;
	struct ur_hdr h = { .bth = bth,
			    .srqn = w->wr.rdma.srqn,
			    .va = w->wr.rdma.remote_addr + off,
			    .rkey = w->wr.rdma.rkey,
			    .dma_len = len,
			    .full_kind = UR_FULL_READ,
			    .full_size = w->mtu };

	h.bth.full = ur_swqe_is_full(q, w);
	h.bth.urnic |= h.bth.full;
	*most = len;
	return header_emit(q, t, &h, pkts_of(len, w->mtu));
}

/* The responses to one READ request.  Rounded up: a READ of several times rd_chunk
 * would otherwise need one more request for a few bytes, and max_rd_atomic is small. */
static uint32_t chunk_psns(const struct ur_rqp *q, const struct ur_swqe *w)
{
	return pkts_of(q->r->rd_chunk, w->mtu);
}

static enum ur_emit read_emit(struct ur_rqp *q, struct ur_swqe *w,
			      struct ur_burst *t)
{
	struct ur_requester *s = &q->req;
	struct ur_roce *r = q->r;
	uint32_t psns = chunk_psns(q, w);
	/*
	 * Chunks keep their boundaries, so that a repeated one is a duplicate.
	 */
	uint32_t len =
		(psns - ur_psn_count(w->first_psn, s->psn) % psns) * w->mtu;
	enum ur_emit e = read_request(
		q, w, t, ur_rc_bth(q, UR_RC_READ_REQUEST, s->psn), &len);

	if (e == UR_EMIT_OK) {
		s->rd_inflight += len;
		r->rd_inflight += len;
	}
	return e;
}

/* The number of PSNs before that of a READ's request which includes psn. */
static uint32_t chunk_index(const struct ur_rqp *q, const struct ur_swqe *w,
			    uint32_t psn)
{
	uint32_t i = ur_psn_count(w->first_psn, psn);

	return i - i % chunk_psns(q, w);
}

uint32_t ur_req_chunk_start(const struct ur_rqp *q, const struct ur_swqe *w,
			    uint32_t psn)
{
	return ur_psn_add(w->first_psn, chunk_index(q, w, psn));
}

uint32_t ur_req_chunk_end(const struct ur_rqp *q, const struct ur_swqe *w,
			  uint32_t psn)
{
	uint32_t end = chunk_index(q, w, psn) + chunk_psns(q, w);

	return ur_psn_min(ur_psn_add(w->first_psn, end),
			  ur_psn_add(w->last_psn, 1));
}

static enum ur_emit atomic_emit(struct ur_rqp *q, struct ur_swqe *w,
				struct ur_burst *t, bool selective)
{
	bool cas = w->opcode == UR_WR_CMP_SWP;
	uint8_t opcode = cas ? UR_RC_CMP_SWAP : UR_RC_FETCH_ADD;
	uint32_t psn = selective ? w->first_psn : q->req.psn;
	struct ur_hdr h = { .bth = ur_rc_bth(q, opcode, psn),
			    .srqn = w->wr.atomic.srqn,
			    .va = w->wr.atomic.remote_addr,
			    .rkey = w->wr.atomic.rkey,
			    .swap_add = cas ? w->wr.atomic.swap
					    : w->wr.atomic.compare_add,
			    .compare = cas ? w->wr.atomic.compare_add : 0 };

	h.bth.selective = selective;
	return header_emit(q, t, &h, 1);
}

static enum ur_emit masked_emit(struct ur_rqp *q, struct ur_swqe *w,
				struct ur_burst *t, bool selective)
{
	enum ur_emit e = ur_masked_emit(
		q, w, t, selective ? w->first_psn : q->req.psn, selective);

	if (e != UR_EMIT_OK)
		return e;
	count_again(q, selective);
	if (selective)
		return e;
	rd_push(q, q->req.psn);
	q->req.since_ackreq = 0;
	return e;
}

static int placed_add(struct ur_rqp *q, struct ur_swqe *w, struct ur_burst *t,
		      struct ur_hdr *h, uint32_t len)
{
	struct iovec iov = { .iov_base = &w->wr.atomic_write.value,
			     .iov_len = len };

	if (len && (w->num_sge || (w->flags & UR_SEND_INLINE)))
		return ur_req_add_packet(q, t, q->path, w, h, 0, len, false);
	return ur_burst_add(t, q->path, h, &iov, len ? 1 : 0, len, false);
}

static enum ur_emit placed_emit(struct ur_rqp *q, struct ur_swqe *w,
				struct ur_burst *t, bool selective)
{
	bool flush = w->opcode == UR_WR_FLUSH;
	uint8_t opcode = flush ? UR_RC_FLUSH : UR_RC_ATOMIC_WRITE;
	uint32_t len = w->length;
	uint32_t psn = selective ? w->first_psn : q->req.psn;
	struct ur_hdr h = { .bth = ur_rc_bth(q, opcode, psn),
			    .va = w->wr.rdma.remote_addr,
			    .rkey = w->wr.rdma.rkey,
			    .dma_len = w->length };

	h.bth.selective = selective;
	if (flush) {
		h.placement = w->wr.flush.placement;
		h.level = w->wr.flush.level;
		return header_emit(q, t, &h, 1);
	}
	h.bth.ackreq = true;
	if (ur_burst_fits(t, ur_pkt_len(ur_opcode_get(opcode), len)) !=
	    UR_FIT_OK)
		return UR_EMIT_FULL;
	if (placed_add(q, w, t, &h, len))
		return UR_EMIT_IDLE;
	count_again(q, selective);
	if (selective)
		return UR_EMIT_OK;
	rd_push(q, q->req.psn);
	q->req.since_ackreq = 0;
	return UR_EMIT_OK;
}

/* Does the state of the QP allow this request to continue (or start)? */
static bool may_start(const struct ur_rqp *q, const struct ur_swqe *w)
{
	enum ur_qp_state state = ur_rqp_state(q);
	const struct ur_requester *s = &q->req;

	if (s->rnr_wait)
		return false;
	/* SQD: begun messages are finished, none is begun (IBTA 10.3.1). */
	if (state == UR_QPS_SQD)
		return s->cur != s->fresh;
	if (state != UR_QPS_RTS)
		return false;
	/* IBTA 10.8.3.3: a fence waits for READs and atomics before it. */
	return !((w->flags & UR_SEND_FENCE) && s->rd_count &&
		 (s->cur == s->fresh || s->psn == w->first_psn));
}

/*
 * While a gap is repaired, might what is sent now be too far from una: for the
 * record of what has arrived, or for the responder to keep it (rc_keep.c)?
 */
static bool is_far_ahead(const struct ur_rqp *q, const struct ur_swqe *w)
{
	const struct ur_requester *s = &q->req;
	uint32_t n = ur_psn_count(s->una, s->psn);

	if (!s->repairing)
		return false;
	if (ur_swqe_is_answered(w))
		return n + chunk_psns(q, w) > UR_PSN_WINDOW;
	return n >= UR_KEPT_SPAN - 1 ||
	       (uint64_t)n * ur_swqe_price(w) > UR_AHEAD_BYTES;
}

/* Is there room in the windows? If not, wait in the window's list. */
static bool window_open(struct ur_rqp *q, const struct ur_swqe *w)
{
	struct ur_requester *s = &q->req;
	struct ur_list *waiters;

	if (ur_swqe_is_read(w)) {
		if (q->r->rd_inflight == 0 ||
		    q->r->rd_inflight + q->r->rd_chunk <= q->r->rd_window)
			return true;
		waiters = &q->r->rd_waiters;
	} else {
		if (ur_cong_may_send(q->path))
			return true;
		waiters = &q->path->waiters;
	}
	ur_list_del(&q->sending);
	ur_list_add_tail(waiters, &q->sending);
	s->window_wait = true;
	if (s->una == s->psn)
		s->parked_ns = q->r->now_ns;
	return false;
}

static void assign_psns(struct ur_rqp *q, struct ur_swqe *w)
{
	uint32_t n = ur_full_divide(w, ur_swqe_pkts(w, w->mtu), q->mtu);

	w->first_psn = q->req.psn;
	w->last_psn = ur_psn_add(q->req.psn, n - 1);
	q->req.fresh++;
}

/* Advance over what was just sent. */
static void step(struct ur_rqp *q, const struct ur_swqe *w, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;
	uint32_t n = 1;

	if (ur_swqe_is_read(w)) {
		uint32_t tail =
			(s->rd_head + s->rd_count - 1) % UR_MAX_RD_ATOMIC;

		n = ((s->rd_last[tail] - s->psn) & UR_PSN_MASK) + 1;
	}
	if (s->rtt_sent_ns == 0 && s->psn == s->end) {
		s->rtt_psn = s->psn;
		s->rtt_sent_ns = now_ns;
	}
	if (s->una == s->end) {
		s->retry_ns = now_ns;
		s->early_from_ns = now_ns;
	}
	s->psn = ur_psn_add(s->psn, n);
	if (ur_psn_diff(s->psn, s->end) > 0)
		s->end = s->psn;
	if (s->psn == ur_psn_add(w->last_psn, 1))
		s->cur++;
}

static enum ur_emit emit_one(struct ur_rqp *q, struct ur_swqe *w,
			     struct ur_burst *t)
{
	if (ur_swqe_is_read(w))
		return read_emit(q, w, t);
	if (ur_swqe_is_masked(w))
		return masked_emit(q, w, t, false);
	if (ur_swqe_is_atomic(w))
		return atomic_emit(q, w, t, false);
	if (ur_swqe_is_placed(w))
		return placed_emit(q, w, t, false);
	return message_emit(q, w, t, q->req.psn, false);
}

enum ur_emit ur_req_emit_again(struct ur_rqp *q, struct ur_swqe *w,
			       struct ur_burst *t, uint32_t psn, uint32_t count)
{
	struct ur_bth bth = ur_rc_bth(q, UR_RC_READ_REQUEST, psn);
	uint32_t len = count * w->mtu;

	bth.selective = true;
	if (ur_swqe_is_read(w))
		return read_request(q, w, t, bth, &len);
	if (ur_swqe_is_masked(w))
		return masked_emit(q, w, t, true);
	if (ur_swqe_is_atomic(w))
		return atomic_emit(q, w, t, true);
	if (ur_swqe_is_placed(w))
		return placed_emit(q, w, t, true);
	return message_emit(q, w, t, psn, true);
}

/* A request whose memory is not accessible fails when all earlier ones are
 * complete, so that completions stay in order. */
bool ur_req_fail_if_oldest(struct ur_rqp *q, const struct ur_swqe *w)
{
	struct ur_sq *sq = &q->qp->sq;

	if (w != ur_sq_slot(sq, ur_sq_head(sq)))
		return false;
	ur_req_fail(q, UR_WC_LOC_PROT_ERR);
	return true;
}

/* The request whose next packet may be sent now; NULL: none. */
static struct ur_swqe *next_request(struct ur_rqp *q, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;
	struct ur_sq *sq = &q->qp->sq;
	struct ur_swqe *w;

	if (s->asked)
		return NULL;
	for (;;) {
		if (q->shm && s->cur == s->fresh && ur_shm_takes(q))
			return NULL;
		if (s->cur == ur_sq_tail(sq))
			return NULL;
		w = ur_sq_slot(sq, s->cur);
		if (!may_start(q, w))
			return NULL;
		if (!ur_swqe_is_local(w))
			break;
		if (!ur_local_run(q, w))
			return NULL;
	}
	if (ur_swqe_is_masked(w) && !ur_masked_may_send(q, w))
		return NULL;
	if (s->cur == s->fresh)
		w->mtu = ur_full_size(q, w);
	if ((ur_swqe_is_answered(w) && rd_full(q)) || is_far_ahead(q, w) ||
	    !ur_rate_allows(q, now_ns) || !window_open(q, w))
		return NULL;
	if (s->cur == s->fresh)
		assign_psns(q, w);
	return w;
}

/*
 * Fast path: a run of requests of one kind and length, each one small packet
 * from one piece of memory or inline. Their common header is encoded once.
 * Requests that do not qualify are left to the functions above, which handle
 * all cases and send the same bytes.
 */
struct run {
	uint8_t opcode; /* enum ur_wr_opcode */
	uint8_t flags;	/* of UR_SEND_SOLICITED */
	uint32_t length;
	uint32_t pkt_len;
	uint32_t hdr_len;
	uint32_t price;
	struct ur_mr_hint from;
	uint8_t hdr[UR_HDR_MAX];
};

/* Minimum number of waiting requests for a run. */
#define RUN_MIN 4u

static bool is_plain(const struct ur_swqe *w)
{
	return (w->opcode == UR_WR_SEND || w->opcode == UR_WR_RDMA_WRITE) &&
	       ur_is_plain_len(w->length) && !(w->flags & UR_SEND_FENCE) &&
	       (w->num_sge == 1 || (w->flags & UR_SEND_INLINE));
}

/* Conditions common to the run; false: no run. */
static bool run_begins(const struct ur_rqp *q, uint32_t waiting)
{
	const struct ur_requester *s = &q->req;

	return waiting >= RUN_MIN && q->qp->type == UR_QPT_RC &&
	       ur_rqp_state(q) == UR_QPS_RTS && !s->rnr_wait && !s->repairing &&
	       !s->asked && s->cur == s->fresh && s->psn == s->end &&
	       !(q->shm && ur_shm_is_ready(q)) && !q->qp->attr.rate_limit &&
	       ur_remote_is_none();
}

/* Sets up the header of the run from w, its first request, which has no PSN
 * yet. */
static void run_start(struct run *run, const struct ur_rqp *q,
		      struct ur_swqe *w)
{
	struct ur_hdr h = { 0 };

	w->mtu = (uint16_t)q->mtu;
	w->first_psn = w->last_psn = q->req.psn;
	ur_message_header(q, w, 0, &h);
	ur_rc_peer_announce(q, &h);
	run->opcode = w->opcode;
	run->flags = w->flags & UR_SEND_SOLICITED;
	run->length = w->length;
	run->price = ur_swqe_price(w);
	run->hdr_len = (uint32_t)ur_hdr_encode(&h, run->hdr);
	run->pkt_len = run->hdr_len + w->length + UR_ICRC_LEN;
}

static bool is_of_run(const struct run *run, const struct ur_swqe *w)
{
	return run->opcode == w->opcode && run->length == w->length &&
	       run->flags == (w->flags & UR_SEND_SOLICITED);
}

static int run_payload(const struct ur_rqp *q, struct run *run,
		       const struct ur_swqe *w, uint8_t *to)
{
	const struct ur_sge *sge = w->data.sge;
	const struct ur_mr *mr;
	const uint8_t *from;

	if (w->flags & UR_SEND_INLINE) {
		memcpy(to, w->data.inline_data, w->length);
		return 0;
	}
	mr = ur_mr_lookup_again(q->qp->mrs, sge->lkey, &run->from);
	if (!mr || mr->kind == UR_MR_NULL)
		return -EACCES;
	from = ur_mr_translate(mr, q->qp->pd, sge->addr, w->length, 0);
	return from ? ur_guard_copy_words(to, from, w->length) : -EACCES;
}

/* The fields that differ in each packet: byte 8 and what follows the PSN. */
static void run_header(const struct run *run, const struct ur_swqe *w,
		       uint32_t psn, bool ackreq, uint8_t *p)
{
	memcpy(p, run->hdr, UR_BTH_LEN);
	p[8] |= (uint8_t)(ackreq << 7);
	ur_put_be24(p + 9, psn);
	if (run->opcode != UR_WR_RDMA_WRITE)
		return;
	ur_put_be64(p + UR_BTH_LEN, w->wr.rdma.remote_addr);
	ur_put_be32(p + UR_BTH_LEN + 8, w->wr.rdma.rkey);
	ur_put_be32(p + UR_BTH_LEN + 12, w->length);
}

/*
 * False: w does not fit into the run or cannot be sent now; nothing was done.
 */
static bool run_emit(struct ur_rqp *q, struct run *run, struct ur_swqe *w,
		     struct ur_burst *t, uint64_t now_ns)
{
	uint8_t *p = t->linear + t->linear_len;
	bool ackreq;

	if (!is_plain(w) || !ur_cong_may_send(q->path))
		return false;
	if (!is_of_run(run, w))
		run_start(run, q, w);
	if (ur_burst_fits(t, run->pkt_len) != UR_FIT_OK ||
	    run_payload(q, run, w, p + run->hdr_len))
		return false;
	w->mtu = (uint16_t)q->mtu;
	assign_psns(q, w);
	ackreq = want_ack(q, t, run->pkt_len, is_awaited(q, w), run->price);
	run_header(run, w, q->req.psn, ackreq, p);
	ur_burst_put(t, q->path, q->qp->attr.dest_qpn, run->pkt_len);
	ur_cong_sent(q, run->price);
	step(q, w, now_ns);
	return true;
}

/* Send a run; false: nothing was sent. */
static bool emit_run(struct ur_rqp *q, struct ur_burst *t, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;
	struct ur_sq *sq = &q->qp->sq;
	uint32_t tail = ur_sq_tail(sq);
	uint32_t from = s->cur, end = tail;
	struct run run;

	if (!run_begins(q, tail - s->cur))
		return false;
	/* An acknowledgement may be piggybacked on the last one. */
	if (q->rsp.ack_due)
		end--;
	run = (struct run){ 0 }; /* of none */
	while (s->cur != end &&
	       run_emit(q, &run, ur_sq_slot(sq, s->cur), t, now_ns))
		;
	return s->cur != from;
}

enum ur_emit ur_rc_emit(struct ur_rqp *q, struct ur_burst *t, uint64_t now_ns)
{
	enum ur_emit e = UR_EMIT_IDLE;
	struct ur_swqe *w;
	enum ur_emit again = UR_EMIT_OK;
	bool sent = q->req.repairing || q->req.probing;
	const struct ur_path *p = q->path;

	if (q->req.probing && !q->req.rnr_wait)
		again = ur_repair_emit_probe(q, t);
	if (again == UR_EMIT_OK && q->req.repairing && !q->req.rnr_wait)
		again = ur_repair_emit(q, t, now_ns);
	while (again == UR_EMIT_OK) {
		if (q->dci && !ur_dci_route(q))
			break;
		/* DC: what goes another path does not go into this burst. */
		if (q->path != p) {
			e = UR_EMIT_FULL;
			break;
		}
		/* Also after a request that did not fit into the previous
		 * burst. */
		sent |= emit_run(q, t, now_ns);
		w = next_request(q, now_ns);
		if (!w)
			break;
		if (ur_full_wants_probe(q, w, now_ns) &&
		    ur_full_emit_probe(q, t, now_ns) == UR_EMIT_FULL) {
			e = UR_EMIT_FULL;
			break;
		}
		e = emit_one(q, w, t);
		if (e == UR_EMIT_IDLE)
			(void)ur_req_fail_if_oldest(q, w);
		if (e != UR_EMIT_OK)
			break;
		sent = true;
		step(q, w, now_ns);
	}
	if (sent && ur_rqp_state(q) != UR_QPS_ERR)
		ur_rc_timer_update(q, now_ns);
	return e == UR_EMIT_FULL || again == UR_EMIT_FULL ? UR_EMIT_FULL
							  : UR_EMIT_IDLE;
}
