/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of the data path, and the requests and completions in them.
 *
 * With sampling, one request at a time of each queue is followed.  A program's
 * wr_id need not be unique, so it is found by counting: the request completes with
 * the first signaled one at or behind it.
 */

#include "tracer.h"

#define ANY_DATA (UR_TRACE_data | UR_TRACE_wr)

_Static_assert(UR_TRACE_CALLS <= UINT8_MAX, "ur_trace_brief");

#define MOST_SGES 32 /* of any queue */

static struct ibv_context_ops real;

static uint32_t add(_Atomic uint32_t *n)
{
	return atomic_fetch_add_explicit(n, 1, memory_order_relaxed) + 1;
}

static uint32_t get(const _Atomic uint32_t *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

static void set(_Atomic uint32_t *n, uint32_t to)
{
	atomic_store_explicit(n, to, memory_order_relaxed);
}

/* --- records of calls --- */

bool tr_wants_call(struct tr_thread *t)
{
	if (!(tr_classes & UR_TRACE_data) || t->depth)
		return false;
	return tr_sample == 1 || ++t->turn % tr_sample == 0;
}

static void put_data(struct tr_thread *t, enum ur_trace_call call,
		     uint64_t to_ns, uint64_t dur_ns, int64_t result,
		     const struct ur_trace_rec *about)
{
	struct ur_trace_rec r = { .ns = to_ns,
				  .kind = UR_TRACE_DATA,
				  .units = UR_TRACE_REC,
				  .call = (uint16_t)call,
				  .count = about->count,
				  .dur_ns = dur_ns,
				  .result = result,
				  .len = about->opcode,
				  .id = about->wr_id,
				  .qpn = about->wr_qpn,
				  .bytes = about->wr_bytes };

	if (call != UR_TRACE_CALL_ibv_poll_cq)
		r.error = (uint32_t)result;
	else if (result < 0)
		r.error = (uint32_t)-result;
	tr_put(t, &r, true);
}

void tr_data(struct tr_thread *t, enum ur_trace_call call, uint64_t from_ns,
	     uint64_t to_ns, int64_t result, const struct ur_trace_rec *about)
{
	uint64_t dur_ns = to_ns - from_ns;
	bool polls = call == UR_TRACE_CALL_ibv_poll_cq;

	if (__builtin_expect(
		    dur_ns > UINT32_MAX ||
			    (uint64_t)result > (polls ? UINT8_MAX : 0) ||
			    about->wr_qpn >> 24 || about->count > UINT8_MAX,
		    0)) {
		put_data(t, call, to_ns, dur_ns, result, about);
		return;
	}
	tr_put_brief(t,
		     ur_trace_key(UR_TRACE_BRIEF | UR_TRACE_BRIEF_CALL,
				  polls ? (uint32_t)result : about->opcode,
				  call, about->wr_qpn << 8 | about->count),
		     to_ns, about->wr_id, about->wr_bytes, (uint32_t)dur_ns);
}

/* The clock is read for the first of them only. */
void tr_empty(struct tr_thread *t, const struct ibv_cq *cq)
{
	uint64_t id = (uint64_t)(uintptr_t)cq;

	if (!(tr_classes & UR_TRACE_data) || t->depth)
		return;
	if (t->empty.count && t->empty.addr != id)
		tr_empty_end(t, tr_clock(t));
	if (!t->empty.count++) {
		t->empty.addr = id;
		t->empty.wr_id = tr_clock(t);
	}
}

void tr_empty_end(struct tr_thread *t, uint64_t end_ns)
{
	if (!t->empty.count)
		return;
	if (end_ns - t->empty.wr_id > UINT32_MAX) {
		t->empty.kind = UR_TRACE_EMPTY;
		t->empty.units = UR_TRACE_REC;
		t->empty.call = UR_TRACE_CALL_ibv_poll_cq;
		t->empty.ns = end_ns;
		tr_put(t, &t->empty, true);
	} else {
		tr_put_brief(t,
			     ur_trace_key(UR_TRACE_BRIEF | UR_TRACE_BRIEF_CALL |
						  UR_TRACE_BRIEF_DONE,
					  0, 0, 0),
			     end_ns, t->empty.addr, t->empty.count,
			     (uint32_t)(end_ns - t->empty.wr_id));
	}
	t->empty.count = 0;
}

/* --- records of requests --- */

static bool takes_receive(uint8_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Is this the next to be followed?  It is done at `done` completions. */
static bool begin_sample(_Atomic uint32_t *left, _Atomic uint32_t *sample,
			 uint32_t done)
{
	uint32_t n = get(left);

	if (n) {
		set(left, n - 1);
		return false;
	}
	if (get(sample))
		return false;
	set(left, tr_sample - 1);
	set(sample, done ? done : 1);
	return true;
}

static bool end_sample(_Atomic uint32_t *sample, uint32_t done)
{
	uint32_t at = get(sample);

	if (!at || (int32_t)(done - at) < 0)
		return false;
	set(sample, 0);
	return done == at;
}

static bool is_sampled(struct tr_qp *q, struct ur_trace_rec *r)
{
	if (!q)
		return false;
	r->flags |= UR_TRACE_SAMPLED;
	if (r->queue == UR_TRACE_RQ)
		return begin_sample(&q->recv_left, &q->recv_sample,
				    add(&q->recv_posted));
	return begin_sample(&q->left, &q->sample,
			    r->flags & UR_TRACE_UNSIGNALED
				    ? get(&q->signaled) + 1
				    : add(&q->signaled));
}

bool tr_post(struct tr_thread *t, struct tr_qp *q, struct ur_trace_rec *r)
{
	r->kind = UR_TRACE_POST;
	r->seq = 0;
	if (q && q->all_signaled)
		r->flags &= (uint8_t)~UR_TRACE_UNSIGNALED;
	if (q && (tr_classes & UR_TRACE_NUMBERS) && r->queue == UR_TRACE_SQ &&
	    takes_receive(r->opcode))
		r->seq = add(&q->messages);
	if (!(tr_classes & UR_TRACE_wr))
		return false;
	if (tr_sample != 1 && (r->queue == UR_TRACE_SRQ || !is_sampled(q, r)))
		return false;
	if (!r->ns)
		r->ns = tr_clock(t);
	tr_put_wr(t, r);
	return true;
}

static bool is_sample_done(struct tr_qp *q, const struct ur_trace_rec *r)
{
	if (!q)
		return false;
	if (r->queue == UR_TRACE_SQ)
		return end_sample(&q->sample, add(&q->sent));
	return !q->has_srq && end_sample(&q->recv_sample, get(&q->received));
}

void tr_done(struct tr_thread *t, struct ur_trace_rec *r)
{
	struct tr_qp *q = tr_qp_find(r->context, r->wr_qpn);

	r->kind = UR_TRACE_DONE;
	r->queue = r->opcode & IBV_WC_RECV ? UR_TRACE_RQ : UR_TRACE_SQ;
	r->seq = 0;
	r->flags = tr_sample != 1 ? UR_TRACE_SAMPLED : 0;
	if (q && (tr_classes & UR_TRACE_NUMBERS) && r->queue == UR_TRACE_RQ)
		r->seq = add(&q->received);
	if (!(tr_classes & UR_TRACE_wr))
		return;
	/* An error is never left out. */
	if (tr_sample != 1 && !is_sample_done(q, r) && !r->status)
		return;
	if (!r->ns)
		r->ns = tr_clock(t);
	tr_put_wr(t, r);
}

/* --- wrappers --- */

static uint32_t bytes_of(const struct ibv_sge *sge, int n)
{
	uint32_t sum = 0;

	/* More are refused, so there need not be as many. */
	if (!sge || n > MOST_SGES)
		return 0;
	for (int i = 0; i < n; i++)
		sum += sge[i].length;
	return sum;
}

static void from_send(struct ur_trace_rec *r, const struct ibv_send_wr *wr)
{
	r->wr_id = wr->wr_id;
	r->opcode = (uint8_t)wr->opcode;
	r->wr_bytes = bytes_of(wr->sg_list, wr->num_sge);
	r->flags = (uint8_t)((wr->send_flags & IBV_SEND_SIGNALED
				      ? 0
				      : UR_TRACE_UNSIGNALED) |
			     (wr->send_flags & IBV_SEND_INLINE ? UR_TRACE_INLINE
							       : 0));
}

/* Counts the requests of a call, and keeps what tr_data() says of the first. */
static void count(struct ur_trace_rec *first, const struct ur_trace_rec *r)
{
	if (first->count++)
		return;
	first->wr_id = r->wr_id;
	first->wr_qpn = r->wr_qpn;
	first->wr_bytes = r->wr_bytes;
	first->opcode = r->opcode;
}

static void cancel(struct tr_thread *t, struct ur_trace_rec *r, uint32_t n)
{
	r->ns = tr_clock(t);
	r->kind = UR_TRACE_CANCEL;
	r->units = UR_TRACE_REC;
	r->count = n;
	if (n && (tr_classes & UR_TRACE_wr))
		tr_put(t, r, true);
}

/* Of the requests from `bad` on, which were not posted. */
static uint32_t uncount_sends(struct tr_qp *q, const struct ibv_send_wr *bad)
{
	uint32_t n = 0;

	for (; bad; bad = bad->next, n++) {
		if (!q)
			continue;
		if (takes_receive((uint8_t)bad->opcode))
			atomic_fetch_sub(&q->messages, 1);
		if (tr_sample != 1 &&
		    (q->all_signaled || bad->send_flags & IBV_SEND_SIGNALED))
			atomic_fetch_sub(&q->signaled, 1);
	}
	if (q)
		set(&q->sample, 0);
	return n;
}

static uint32_t uncount_recvs(struct tr_qp *q, const struct ibv_recv_wr *bad)
{
	uint32_t n = 0;

	for (; bad; bad = bad->next)
		n++;
	if (q && tr_sample != 1) {
		atomic_fetch_sub(&q->recv_posted, n);
		set(&q->recv_sample, 0);
	}
	return n;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad_wr)
{
	struct tr_thread *t = tr_self();
	bool call = tr_wants_call(t);
	struct ur_trace_rec r = { .ns = tr_now(t),
				  .context = tr_context_id(qp->context),
				  .wr_qpn = qp->qp_num },
			    first = { .ns = r.ns };
	struct tr_qp *q = tr_qp_find(r.context, r.wr_qpn);
	uint32_t recorded = 0;
	int rc;

	tr_empty_end(t, r.ns);
	for (const struct ibv_send_wr *w = wr; w; w = w->next) {
		from_send(&r, w);
		count(&first, &r);
		recorded += tr_post(t, q, &r);
	}
	rc = real.post_send(qp, wr, bad_wr);
	if (__builtin_expect(rc, 0)) {
		uint32_t n = uncount_sends(q, *bad_wr);

		cancel(t, &r, n < recorded ? n : recorded);
	}
	if (call)
		tr_data(t, UR_TRACE_CALL_ibv_post_send, first.ns, tr_clock(t),
			rc, &first);
	return rc;
}

static void post_recvs(struct tr_thread *t, struct tr_qp *q,
		       struct ur_trace_rec *r, struct ur_trace_rec *first,
		       uint32_t *recorded, const struct ibv_recv_wr *wr)
{
	*recorded = 0;
	tr_empty_end(t, r->ns);
	for (; wr; wr = wr->next) {
		r->wr_id = wr->wr_id;
		r->wr_bytes = bytes_of(wr->sg_list, wr->num_sge);
		count(first, r);
		*recorded += tr_post(t, q, r);
	}
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad_wr)
{
	struct tr_thread *t = tr_self();
	bool call = tr_wants_call(t);
	struct ur_trace_rec r = { .ns = tr_now(t),
				  .context = tr_context_id(qp->context),
				  .wr_qpn = qp->qp_num,
				  .queue = UR_TRACE_RQ },
			    first = { .ns = r.ns };
	struct tr_qp *q;
	uint32_t recorded;
	int rc;

	q = tr_qp_find(r.context, r.wr_qpn);
	post_recvs(t, q, &r, &first, &recorded, wr);
	rc = real.post_recv(qp, wr, bad_wr);
	if (__builtin_expect(rc, 0)) {
		uint32_t n = uncount_recvs(q, *bad_wr);

		cancel(t, &r, n < recorded ? n : recorded);
	}
	if (call)
		tr_data(t, UR_TRACE_CALL_ibv_post_recv, first.ns, tr_clock(t),
			rc, &first);
	return rc;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad_wr)
{
	struct tr_thread *t = tr_self();
	bool call = tr_wants_call(t);
	struct ur_trace_rec r = { .ns = tr_now(t),
				  .context = tr_context_id(srq->context),
				  .addr = (uint64_t)(uintptr_t)srq,
				  .queue = UR_TRACE_SRQ },
			    first = { .ns = r.ns };
	uint32_t recorded;
	int rc;

	post_recvs(t, NULL, &r, &first, &recorded, wr);
	rc = real.post_srq_recv(srq, wr, bad_wr);
	if (__builtin_expect(rc, 0)) {
		uint32_t n = uncount_recvs(NULL, *bad_wr);

		cancel(t, &r, n < recorded ? n : recorded);
	}
	if (call)
		tr_data(t, UR_TRACE_CALL_ibv_post_srq_recv, first.ns,
			tr_clock(t), rc, &first);
	return rc;
}

static void from_wc(struct ur_trace_rec *r, const struct ibv_wc *wc)
{
	r->wr_id = wc->wr_id;
	r->wr_qpn = wc->qp_num;
	r->wr_bytes = wc->byte_len;
	r->opcode = (uint8_t)wc->opcode;
	r->status = (uint8_t)wc->status;
	r->vendor = wc->vendor_err;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct tr_thread *t = tr_self();
	uint64_t from = tr_classes & UR_TRACE_data ? tr_clock(t) : 0;
	int got = real.poll_cq(cq, n, wc);
	struct ur_trace_rec r = { .context = tr_context_id(cq->context) };

	if (!got) {
		tr_empty(t, cq);
		return got;
	}
	r.ns = tr_now(t);
	tr_empty_end(t, from ? from : r.ns);
	for (int i = 0; i < got; i++) {
		from_wc(&r, &wc[i]);
		tr_done(t, &r);
	}
	if (tr_wants_call(t)) {
		struct ur_trace_rec about = { .count = (uint32_t)n };

		if (got > 0) {
			from_wc(&about, wc);
			about.count = (uint32_t)n;
		}
		tr_data(t, UR_TRACE_CALL_ibv_poll_cq, from, r.ns, got, &about);
	}
	return got;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct tr_thread *t = tr_self();
	bool call = tr_wants_call(t);
	uint64_t from = tr_now(t);
	const struct ur_trace_rec about = { .wr_id = (uint64_t)(uintptr_t)cq,
					    .count = solicited_only != 0 };
	int rc;

	tr_empty_end(t, from);
	rc = real.req_notify_cq(cq, solicited_only);
	if (call)
		tr_data(t, UR_TRACE_CALL_ibv_req_notify_cq, from, tr_clock(t),
			rc, &about);
	return rc;
}

void tr_unwrap_data(struct ibv_context_ops *ops)
{
	if (ops->poll_cq != poll_cq)
		return;
	ops->poll_cq = real.poll_cq;
	ops->req_notify_cq = real.req_notify_cq;
	ops->post_send = real.post_send;
	ops->post_recv = real.post_recv;
	ops->post_srq_recv = real.post_srq_recv;
}

/* All contexts have the same functions. */
void tr_wrap_data(struct ibv_context_ops *ops)
{
	if (!(tr_classes & ANY_DATA) || ops->poll_cq == poll_cq)
		return;
	real = *ops;
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	ops->post_srq_recv = post_srq_recv;
}
