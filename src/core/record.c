/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/record.h"

#include <string.h>

#include "core/mw.h"
#include "core/qp.h"

struct ur_recorder *_Atomic ur_recorder;

/* --- versions --- */

/* Writers of an entry exclude each other. */
static void write_begin(_Atomic uint32_t *version)
{
	uint32_t v = atomic_load_explicit(version, memory_order_relaxed);

	atomic_store_explicit(version, v | 1u, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

static void write_end(_Atomic uint32_t *version)
{
	uint32_t v = atomic_load_explicit(version, memory_order_relaxed);

	atomic_store_explicit(version, v + 1, memory_order_release);
}

/* A reader tries again while an entry changes.  After so many tries it skips the
 * entry: its writer writes continuously, or died while it wrote. */
#define READ_TRIES 64

/* Writers are not waited for, so ThreadSanitizer must not look. */
static void __attribute__((no_sanitize("thread")))
copy_words(volatile uint32_t *to, const volatile uint32_t *from, size_t n)
{
	while (n--)
		*to++ = *from++;
}

static bool read_entry(const _Atomic uint32_t *version, void *to,
		       const void *from, size_t size)
{
	for (int i = 0; i < READ_TRIES; i++) {
		uint32_t v =
			atomic_load_explicit(version, memory_order_acquire);

		if (v & 1u)
			continue;
		copy_words(to, from, size / sizeof(uint32_t));
		atomic_thread_fence(memory_order_acquire);
		if (v == atomic_load_explicit(version, memory_order_relaxed))
			return true;
	}
	return false;
}

bool ur_record_read(const struct ur_record_event *from,
		    struct ur_record_event *to)
{
	return read_entry(&from->version, to, from, sizeof(*to)) &&
	       to->number && to->type > UR_REC_NONE && to->type < UR_REC_TYPES;
}

bool ur_record_read_qp(const struct ur_record_qp *from, struct ur_record_qp *to)
{
	return read_entry(&from->version, to, from, sizeof(*to)) && to->serial;
}

bool ur_record_read_key(const struct ur_record_key *from,
			struct ur_record_key *to)
{
	return read_entry(&from->version, to, from, sizeof(*to)) && to->key;
}

/* --- events --- */

static struct ur_recorder *recorder(void)
{
	return atomic_load_explicit(&ur_recorder, memory_order_acquire);
}

/* Events that come in bursts, by packets, timers or injected faults; a target of DC
 * goes on after a fault. */
static bool repeats(const struct ur_record *e)
{
	return e->arg[UR_RECORD_FROM] || e->type == UR_REC_NAK_SENT ||
	       e->type == UR_REC_NAK_RCVD || e->type == UR_REC_TIMEOUT ||
	       e->type == UR_REC_DROP || e->type == UR_REC_POST ||
	       e->type == UR_REC_EVENT || e->type == UR_REC_FAULT ||
	       ((e->type == UR_REC_WC || e->type == UR_REC_RECV_WC) &&
		e->code == UR_WC_WR_FLUSH_ERR);
}

/* The equal event since the last change of state; NULL: none. */
static struct ur_record_event *earlier(struct ur_record_event *ring, uint32_t n,
				       uint32_t last, const struct ur_record *e)
{
	for (uint32_t i = 0; i < n && i < last; i++) {
		struct ur_record_event *x = &ring[(last - i) % n];

		if (x->type == UR_REC_STATE)
			return NULL;
		if (x->type == e->type && x->code == e->code &&
		    x->side == e->side &&
		    x->arg[UR_RECORD_FROM] == e->arg[UR_RECORD_FROM] &&
		    (e->type != UR_REC_POST || x->arg[0] == e->arg[0]))
			return x;
	}
	return NULL;
}

/* *last: number of the ring's last event. */
static void add(struct ur_record_event *ring, uint32_t n, uint32_t *last,
		const struct ur_record *e, uint64_t now_ns)
{
	struct ur_record_event *x =
		repeats(e) ? earlier(ring, n, *last, e) : NULL;
	bool again = x != NULL;

	if (!x)
		x = &ring[++*last % n];
	write_begin(&x->version);
	if (!again) {
		x->number = *last;
		x->count = 0;
		x->type = (uint8_t)e->type;
		x->code = e->code;
		x->side = e->side;
		x->first_ns = now_ns;
	}
	if (!again || x->arg[0] != e->arg[0])
		x->same_ns = now_ns;
	x->count++;
	x->last_ns = now_ns;
	memcpy(x->arg, e->arg, sizeof(x->arg));
	write_end(&x->version);
}

/* The queue pair that has the record. */
static struct ur_qp *recorded(struct ur_qp *qp)
{
	return qp->record.target ? qp->record.target : qp;
}

void ur_record_add(struct ur_qp *qp, const struct ur_record *e)
{
	struct ur_qp *to = recorded(qp);
	struct ur_record_writer *w = &to->record;
	const struct ur_recorder *r = recorder();
	struct ur_record x = *e;

	if (!w->ring || !r)
		return;
	if (to != qp)
		x.arg[UR_RECORD_FROM] = qp->record.from;
	add(w->ring->event, UR_RECORD_EVENTS, &w->events, &x, r->now());
	ur_record_refresh(to);
}

void ur_record_code(struct ur_qp *qp, enum ur_record_type type, uint8_t code,
		    uint64_t arg)
{
	const struct ur_record e = { .type = type,
				     .code = code,
				     .arg = { arg } };

	if (qp->record.ring)
		ur_record_add(qp, &e);
}

void ur_record_state(struct ur_qp *qp, enum ur_qp_state from)
{
	enum ur_qp_state to =
		atomic_load_explicit(&qp->state, memory_order_relaxed);

	const struct ur_record e = { .type = UR_REC_STATE,
				     .code = (uint8_t)to,
				     .arg = { from, qp->record.called } };

	if (to == from || !qp->record.ring || qp->record.target)
		return;
	ur_record_add(qp, &e);
	qp->record.flushed = false;
	if (to == UR_QPS_RESET)
		qp->record.failed = false;
}

void ur_record_modify(struct ur_qp *qp, const struct ur_qp_attr *attr,
		      uint32_t mask, int err)
{
	enum ur_qp_state from =
		atomic_load_explicit(&qp->state, memory_order_relaxed);
	const struct ur_record e = {
		.type = UR_REC_MODIFY,
		.code = (uint8_t)-err,
		.arg = { from, mask & UR_QP_STATE ? attr->state : from, mask },
	};

	if (qp->record.ring)
		ur_record_add(qp, &e);
}

void ur_record_note(const struct ur_record *e)
{
	struct ur_recorder *r = recorder();

	if (!r)
		return;
	ur_lock(&r->lock);
	add(r->file->note, UR_RECORD_NOTES, &r->notes, e, r->now());
	ur_unlock(&r->lock);
}

void ur_record_post(const struct ur_qp *qp, bool receive, int err)
{
	const struct ur_rq *rq = qp->srq ? &qp->srq->rq : &qp->rq;
	struct ur_record e = {
		.type = UR_REC_POST,
		.code = (uint8_t)err,
		.side = receive,
		.arg = { qp->qpn, 0,
			 atomic_load_explicit(&qp->state, memory_order_relaxed),
			 ur_sq_posted(&qp->sq) - ur_sq_head(&qp->sq),
			 qp->sq.max_wr },
	};

	if (receive) {
		e.arg[3] = ur_rq_posted(rq) - rq->head;
		e.arg[4] = rq->max_wr;
	}
	ur_record_note(&e);
}

void ur_record_failure(void)
{
	struct ur_recorder *r = recorder();

	if (r)
		atomic_fetch_add(&r->file->head.failures, 1);
}

/* --- queue pairs --- */

static void copy_attrs(const struct ur_qp *qp, struct ur_record_qp *to)
{
	const struct ur_qp_attr *a = &qp->attr;

	to->dest_qpn = a->dest_qpn;
	to->state =
		(uint8_t)atomic_load_explicit(&qp->state, memory_order_relaxed);
	to->timeout = a->timeout;
	to->retry_cnt = a->retry_cnt;
	to->rnr_retry = a->rnr_retry;
	to->min_rnr_timer = a->min_rnr_timer;
	to->rd_atomic = a->max_rd_atomic;
	to->dest_rd_atomic = a->max_dest_rd_atomic;
	to->mtu = (uint8_t)a->path_mtu;
	to->access = a->access;
	memcpy(to->sgid, a->av.sgid, sizeof(to->sgid));
	memcpy(to->dgid, a->av.dgid, sizeof(to->dgid));
	to->rq_psn = a->rq_psn;
	to->sq_psn = a->sq_psn;
}

static void copy_queues(const struct ur_qp *qp, struct ur_record_qp *to)
{
	const struct ur_rq *rq = qp->srq ? &qp->srq->rq : &qp->rq;
	uint32_t head = ur_sq_head(&qp->sq);

	to->sends = ur_sq_tail(&qp->sq) - head;
	to->send_max = qp->sq.max_wr;
	to->receives = ur_rq_posted(rq) - rq->head;
	if (to->sends) {
		const struct ur_swqe *w = ur_sq_slot(&qp->sq, head);

		to->oldest_wr_id = w->wr_id;
		to->oldest_opcode = w->opcode;
		to->oldest_length = w->length;
	}
}

void ur_record_refresh(struct ur_qp *qp)
{
	struct ur_record_qp *to = qp->record.ring ? &qp->record.ring->qp : NULL;
	const struct ur_recorder *r = recorder();

	if (!to || !r)
		return;
	write_begin(&to->version);
	copy_attrs(qp, to);
	copy_queues(qp, to);
	to->failed = qp->record.failed;
	to->at_ns = r->now();
	if (qp->record.fill)
		qp->record.fill(qp, to);
	write_end(&to->version);
}

/* A ring that was never used, or that of the queue pair that is gone longest;
 * recorder's lock. */
static struct ur_record_ring *take_ring(struct ur_recorder *r)
{
	uint32_t gone = r->gone_tail - r->gone_head;

	if (gone > UR_RECORD_GONE || (gone && r->rings == UR_RECORD_QPS))
		return &r->file->ring[r->gone[r->gone_head++ % UR_RECORD_QPS]];
	if (r->rings == UR_RECORD_QPS)
		return NULL;
	r->rings++;
	atomic_store_explicit(&r->file->head.qps, r->rings,
			      memory_order_release);
	return &r->file->ring[r->rings - 1];
}

static void clear_ring(struct ur_record_ring *ring)
{
	for (uint32_t i = 0; i < UR_RECORD_EVENTS; i++) {
		struct ur_record_event *x = &ring->event[i];

		if (!x->number)
			continue;
		write_begin(&x->version);
		x->number = 0;
		x->type = UR_REC_NONE;
		write_end(&x->version);
	}
}

void ur_record_open(struct ur_qp *qp)
{
	struct ur_recorder *r = recorder();
	struct ur_record_ring *ring;
	uint32_t serial;

	if (!r)
		return;
	ur_lock(&r->lock);
	ring = take_ring(r);
	serial = ++r->serial;
	ur_unlock(&r->lock);
	qp->record.ring = ring;
	qp->record.events = 0;
	qp->record.failed = false;
	if (!ring) {
		atomic_fetch_add(&r->file->head.unrecorded, 1);
		return;
	}
	clear_ring(ring);
	write_begin(&ring->qp.version);
	memset((char *)&ring->qp + sizeof(ring->qp.version), 0,
	       sizeof(ring->qp) - sizeof(ring->qp.version));
	ring->qp.serial = serial;
	ring->qp.qpn = qp->qpn;
	ring->qp.type = (uint8_t)qp->type;
	ring->qp.pd = qp->pd ? qp->pd->handle : 0;
	ring->qp.has_srq = qp->srq != NULL;
	ring->qp.made_ns = r->now();
	write_end(&ring->qp.version);
	ur_record_refresh(qp);
}

void ur_record_close(struct ur_qp *qp)
{
	struct ur_record_ring *ring = qp->record.ring;
	struct ur_recorder *r = recorder();

	if (!ring || !r)
		return;
	qp->record.ring = NULL;
	write_begin(&ring->qp.version);
	ring->qp.gone_ns = r->now();
	write_end(&ring->qp.version);
	ur_lock(&r->lock);
	r->gone[r->gone_tail++ % UR_RECORD_QPS] =
		(uint32_t)(ring - r->file->ring);
	ur_unlock(&r->lock);
}

void ur_record_failed(struct ur_qp *qp)
{
	const struct ur_recorder *r = recorder();

	qp = recorded(qp);
	if (!r || !qp->record.ring || qp->record.failed)
		return;
	qp->record.failed = true;
	ur_record_refresh(qp);
	ur_record_failure();
	if (r->failed)
		r->failed(qp);
}

/* Flushed requests follow from the first failure, and can be many. */
static void add_wc(struct ur_qp *qp, const struct ur_record *e)
{
	if (e->code == UR_WC_WR_FLUSH_ERR) {
		if (qp->record.flushed)
			return;
		qp->record.flushed = true;
	}
	ur_record_add(qp, e);
	if (e->code != UR_WC_WR_FLUSH_ERR)
		ur_record_failed(qp);
}

void ur_record_wc(struct ur_qp *qp, const struct ur_swqe *w,
		  enum ur_wc_status status)
{
	struct ur_record_qp psn = { .una = 0 };
	bool remote = w->opcode <= UR_WR_FETCH_ADD && qp->type != UR_QPT_UD &&
		      w->opcode != UR_WR_SEND && w->opcode != UR_WR_SEND_IMM;
	struct ur_record e = {
		.type = UR_REC_WC,
		.code = (uint8_t)status,
		.arg = { w->wr_id, w->opcode, w->length, w->first_psn,
			 remote ? w->wr.rdma.remote_addr : 0,
			 remote ? w->wr.rdma.rkey : 0 },
	};

	if (!qp->record.ring)
		return;
	if (qp->record.fill)
		qp->record.fill(qp, &psn);
	e.arg[6] = psn.una;
	add_wc(qp, &e);
}

void ur_record_recv_wc(struct ur_qp *qp, uint64_t wr_id, uint32_t room,
		       uint32_t received, enum ur_wc_status status)
{
	const struct ur_record e = {
		.type = UR_REC_RECV_WC,
		.code = (uint8_t)status,
		.arg = { wr_id, 0, room, received },
	};

	if (qp->record.ring)
		add_wc(qp, &e);
}

/* --- the recorder --- */

void ur_recorder_start(struct ur_recorder *r, struct ur_record_file *file,
		       uint32_t pid, const char *comm, uint64_t real_ns)
{
	r->file = file;
	ur_lock_init(&r->lock);
	file->head.pid = pid;
	file->head.start_ns = r->now();
	file->head.start_real_ns = real_ns;
	strncpy(file->head.comm, comm, sizeof(file->head.comm) - 1);
	file->head.magic = UR_RECORD_MAGIC;
	atomic_store_explicit(&ur_recorder, r, memory_order_release);
}
