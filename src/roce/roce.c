/* SPDX-License-Identifier: BSD-2-Clause */
/* The scheduler of a lane's protocol: the next path to send, the contents of a
 * burst, deadlines. */
#include <errno.h>
#include <stdlib.h>

#include "roce/congestion.h"
#include "roce/dc.h"

#define RD_CHUNK_MIN	      (32u << 10)
/* Chunks begin and end with bursts of their own, so not too short. */
#define RD_CHUNK_MAX	      (512u << 10)
/* A request this soon after a receive counts as its answer: a ping-pong. */
#define PROMPT_REQUEST_NS     5000u
/* After a WRITE the polling program may first have to get the core. */
#define PROMPT_AFTER_WRITE_NS 20000u
#define PIGGYBACK_SCORE_MAX   8u

int ur_roce_create(const struct ur_roce_config *cfg, struct ur_roce **out)
{
	struct ur_roce *r = calloc(1, sizeof(*r));
	uint64_t chunk = cfg->rx_bytes / 8;

	if (!r)
		return -ENOMEM;
	r->qps = calloc(1u << UR_SLOT_SHIFT, sizeof(*r->qps));
	if (!r->qps || ur_shm_create(&r->shm)) {
		free(r->qps);
		free(r);
		return -ENOMEM;
	}
	r->slot = cfg->slot;
	r->mrs = cfg->mrs;
	r->srqs = cfg->srqs;
	r->comm_est = cfg->comm_est;
	r->want_peer = cfg->want_peer;
	r->want_arg = cfg->want_arg;
	r->rx_overflow = cfg->rx_overflow;
	r->overflow_seen = cfg->rx_overflow ? *cfg->rx_overflow : 0;
	r->fragmented = cfg->fragmented;
	r->export = cfg->export;
	ur_rng_seed(&r->rng, cfg->seed);
	r->next_index = ur_rng_below(&r->rng, UR_QP_INDEX_MASK);
	ur_timers_init(&r->timers);
	ur_list_init(&r->paced);
	r->paced_at_ns = UR_NEVER;
	ur_list_init(&r->paths);
	ur_list_init(&r->mcasts);
	ur_list_init(&r->rd_waiters);
	ur_list_init(&r->deferred);
	r->xrc = cfg->xrc;
	r->xrc_arg = cfg->xrc_arg;
	ur_list_init(&r->delegations);
	ur_list_init(&r->pending_delegations);
	ur_list_init(&r->delegates);
	ur_list_init(&r->finished);
	r->delegation_at_ns = UR_NEVER;
	r->defer_at_ns = UR_NEVER;
	if (chunk > RD_CHUNK_MAX)
		chunk = RD_CHUNK_MAX;
	if (chunk < RD_CHUNK_MIN)
		chunk = RD_CHUNK_MIN;
	/* A multiple of every path MTU. */
	r->rd_chunk = (uint32_t)chunk & ~4095u;
	r->rd_window = cfg->rx_bytes / 2;
	*out = r;
	return 0;
}

void ur_roce_destroy(struct ur_roce *r)
{
	for (uint32_t i = 0; i < UR_PATH_BUCKETS; i++) {
		while (r->buckets[i]) {
			struct ur_path *p = r->buckets[i];

			r->buckets[i] = p->hash_next;
			free(p);
		}
	}
	ur_timewait_fini(r);
	ur_dc_fini(r);
	ur_timers_fini(&r->timers);
	free(r->delegation_buf);
	free(r->scratch);
	ur_shm_destroy(r->shm);
	free(r->qps);
	free(r);
}

void ur_roce_set_sports(struct ur_roce *r, const struct ur_sports *sports)
{
	r->sports = *sports;
}

static bool sends(const struct ur_rqp *q)
{
	enum ur_qp_state s = ur_rqp_state(q);

	return (s == UR_QPS_RTS || s == UR_QPS_SQD) && !q->req.rnr_wait &&
	       !q->req.window_wait && ur_list_empty(&q->sending);
}

/*
 * When the application could see the packets: sending an acknowledgement
 * delayed it, where system calls are slow for longer than the answer takes. If
 * that counted, no request would ever seem to follow at once, and no
 * acknowledgement would wait for one.
 */
static uint64_t visible_ns(const struct ur_roce *r, uint64_t arrived_ns)
{
	return arrived_ns == r->arrived_ns ? r->visible_since_ns : arrived_ns;
}

static bool is_answer(const struct ur_roce *r, const struct ur_responder *p,
		      uint64_t now_ns)
{
	uint64_t recv = r->answers_late ? UR_LATE_ANSWER_NS : PROMPT_REQUEST_NS;
	uint64_t write =
		r->answers_late ? UR_LATE_ANSWER_NS : PROMPT_AFTER_WRITE_NS;

	return (p->recv_ns && now_ns - visible_ns(r, p->recv_ns) < recv) ||
	       (p->wrote_ns && now_ns - visible_ns(r, p->wrote_ns) < write);
}

void ur_roce_answers_late(struct ur_roce *r, bool late)
{
	r->answers_late = late;
}

void ur_roce_timers_late(struct ur_roce *r, bool late)
{
	r->timers_late = late;
}

void ur_roce_set_load(struct ur_roce *r, uint32_t load)
{
	r->load = load < UR_ROCE_LOAD_MAX ? load : UR_ROCE_LOAD_MAX;
}

void ur_roce_replies_sent(struct ur_roce *r, uint64_t arrived_ns,
			  uint64_t now_ns)
{
	r->arrived_ns = arrived_ns;
	r->visible_since_ns = now_ns;
}

bool ur_roce_leaves_wire(const struct ur_qp *qp)
{
	const struct ur_rqp *q = ur_rqp_of(qp);

	return q->shm && !qp->on_shm && q->rsp.ack_due &&
	       q->req.una == q->req.end && ur_shm_is_ready(q);
}

void ur_roce_kick(struct ur_roce *r, struct ur_qp *qp, uint64_t now_ns)
{
	struct ur_rqp *q = ur_rqp_of(qp);
	struct ur_responder *p = &q->rsp;
	enum ur_qp_state s = ur_rqp_state(q);

	if (q->qp->on_shm) {
		if (now_ns > r->now_ns)
			r->now_ns = now_ns;
		ur_shm_pump(q);
		ur_rqp_check_overrun(q);
		return;
	}
	r->now_ns = now_ns;
	if (s == UR_QPS_ERR || s == UR_QPS_SQE) {
		ur_rqp_flush(q);
		ur_rqp_check_overrun(q);
		return;
	}
	if (p->piggyback_score < PIGGYBACK_SCORE_MAX &&
	    is_answer(r, p, now_ns)) {
		p->piggyback_score++;
		p->wrote_ns = 0; /* one per WRITE */
	}
	ur_tm_kick(q);
	if (!sends(q))
		return;
	/* UC and UD: an armed timer means that pacing holds the QP back. */
	if (!ur_qp_type_reliable(qp->type) && q->timer.at_ns != UR_NEVER)
		return;
	if (q->req.cur == ur_sq_tail(&qp->sq))
		return;
	if (qp->type == UR_QPT_UD)
		ur_ud_route(q);
	if (q->dci) {
		(void)ur_dci_route(q);
		ur_rqp_check_overrun(q);
	}
	ur_rqp_want_send(q);
}

bool ur_roce_is_under_way(const struct ur_qp *qp)
{
	const struct ur_rqp *q = ur_rqp_of(qp);

	return q->req.una != q->req.end || (q->path && q->path->inflight);
}

static enum ur_emit emit(struct ur_rqp *q, struct ur_burst *t, uint64_t now_ns)
{
	switch (q->qp->type) {
	case UR_QPT_RC:
	case UR_QPT_XRC_SEND:
	case UR_QPT_XRC_RECV: /* nothing can be posted */
	case UR_QPT_DC_TGT:
		return ur_rc_emit(q, t, now_ns);
	case UR_QPT_DC_INI:
		return ur_dci_emit(q, t, now_ns);
	case UR_QPT_UC:
		return ur_uc_emit(q, t, now_ns);
	case UR_QPT_UD:
	case UR_QPT_RAW_PACKET: /* unreachable */
		break;
	}
	return ur_ud_emit(q, t, now_ns);
}

/* Requests of the path's QPs, round-robin, while they fit into the burst. */
static void fill_requests(struct ur_path *p, struct ur_burst *t,
			  uint64_t now_ns)
{
	while (ur_cong_wake(p) || !ur_list_empty(&p->senders)) {
		struct ur_rqp *q = ur_container_of(p->senders.next,
						   struct ur_rqp, sending);
		enum ur_emit e = emit(q, t, now_ns);

		/* A QP that met a full window is in another list now. */
		if (!q->req.window_wait)
			ur_list_del(&q->sending);
		ur_rqp_check_overrun(q);
		if (e != UR_EMIT_FULL)
			continue;
		ur_rqp_want_send(q);
		if (q->path == p)
			break;
	}
}

/* Responses and acknowledgements, except those that wait to be piggybacked. */
static void fill_answers(struct ur_roce *r, struct ur_path *p,
			 struct ur_burst *t, uint64_t now_ns)
{
	while (!ur_list_empty(&p->ackers)) {
		struct ur_rqp *q =
			ur_container_of(p->ackers.next, struct ur_rqp, acking);
		enum ur_emit e = ur_rc_answer(q, t, now_ns);

		if (e == UR_EMIT_FULL)
			return;
		ur_list_del(&q->acking);
		if (e == UR_EMIT_DEFER)
			ur_list_add_tail(&r->deferred, &q->acking);
	}
}

/* Adds this path's waiting acknowledgements to the burst. */
static void flush_deferred(struct ur_roce *r, const struct ur_path *p)
{
	ur_list_each_safe(struct ur_rqp, q, &r->deferred, acking) {
		if (q->path != p)
			continue;
		ur_list_del(&q->acking);
		ur_rqp_want_ack(q);
	}
}

static void fill(struct ur_roce *r, struct ur_path *p, struct ur_burst *t,
		 uint64_t now_ns)
{
	ur_burst_start(t, p);
	if (p->acks_first)
		fill_answers(r, p, t, now_ns);
	fill_requests(p, t, now_ns);
	if (t->npkts)
		flush_deferred(r, p);
	fill_answers(r, p, t, now_ns);
	/* Acknowledgements that did not fit after the data lead the
	 * next burst. */
	p->acks_first = !ur_list_empty(&p->ackers);
	ur_list_del(&p->active);
	if (!ur_list_empty(&p->senders) || !ur_list_empty(&p->ackers) ||
	    (!ur_list_empty(&p->waiters) && ur_cong_may_send(p)))
		ur_path_activate(r, p);
}

static bool output(struct ur_roce *r, struct ur_burst *t, uint64_t now_ns)
{
	while (!ur_list_empty(&r->paths)) {
		struct ur_path *p =
			ur_container_of(r->paths.next, struct ur_path, active);

		fill(r, p, t, now_ns);
		if (!t->npkts)
			continue;
		r->cnt.sent_bursts++;
		r->cnt.sent_pkts += t->npkts;
		r->cnt.sent_bytes += t->bytes;
		return true;
	}
	return false;
}

bool ur_roce_output(struct ur_roce *r, struct ur_burst *t, uint64_t now_ns)
{
	r->now_ns = now_ns;
	if (__builtin_expect(ur_timewait_is_due(r), 0) &&
	    ur_timewait_output(r, t))
		return true;
	if (__builtin_expect(ur_dc_is_due(r), 0)) {
		ur_dc_output(r, t);
		return true;
	}
	do {
		if (output(r, t, now_ns))
			return true;
	} while (__builtin_expect(!ur_delegation_is_idle(r), 0) &&
		 ur_delegation_run(r));
	/* A scheduled QP may have sent through shared memory instead. */
	ur_shm_signal(r);
	return false;
}

bool ur_roce_is_quiet(const struct ur_roce *r)
{
	return ur_list_empty(&r->paths) && !ur_timewait_is_due(r) &&
	       !ur_dc_is_due(r) && ur_delegation_is_idle(r);
}

uint64_t ur_roce_timers(const struct ur_roce *r)
{
	uint64_t t = ur_timers_deadline(&r->timers);

	if (r->paced_at_ns < t)
		t = r->paced_at_ns;
	if (r->delegation_at_ns < t)
		t = r->delegation_at_ns;
	if (r->dc && ur_dc_deadline(r) < t)
		t = ur_dc_deadline(r);
	return t;
}

uint64_t ur_roce_deadline(const struct ur_roce *r)
{
	uint64_t t = ur_roce_timers(r);

	return !ur_list_empty(&r->deferred) && r->defer_at_ns < t
		       ? r->defer_at_ns
		       : t;
}

/* Acknowledgements whose wait is over. */
static void expire_deferred(struct ur_roce *r, uint64_t now_ns)
{
	if (now_ns < r->defer_at_ns)
		return;
	r->defer_at_ns = UR_NEVER;
	ur_list_each_safe(struct ur_rqp, q, &r->deferred, acking) {
		if (q->rsp.ack_at_ns > now_ns) {
			if (q->rsp.ack_at_ns < r->defer_at_ns)
				r->defer_at_ns = q->rsp.ack_at_ns;
			continue;
		}
		ur_list_del(&q->acking);
		ur_rqp_want_ack(q);
	}
}

void ur_roce_flush_acks(struct ur_roce *r, uint64_t now_ns)
{
	ur_list_each_safe(struct ur_rqp, q, &r->deferred, acking) {
		q->rsp.ack_at_ns = now_ns;
		ur_list_del(&q->acking);
		ur_rqp_want_ack(q);
	}
}

void ur_roce_expire(struct ur_roce *r, uint64_t now_ns)
{
	struct ur_timer *t;

	r->now_ns = now_ns;
	expire_deferred(r, now_ns);
	/* The next output retries. */
	if (r->delegation_at_ns <= now_ns)
		r->delegation_at_ns = UR_NEVER;
	ur_rate_expire(r, now_ns);
	if (r->dc)
		ur_dc_expire(r, now_ns);
	while ((t = ur_timers_expire(&r->timers, now_ns))) {
		struct ur_rqp *q = ur_container_of(t, struct ur_rqp, timer);

		if (ur_qp_type_reliable(q->qp->type))
			ur_rc_timeout(q, now_ns);
		else
			ur_roce_kick(r, q->qp, now_ns);
		ur_rqp_check_overrun(q);
	}
}

const struct ur_roce_counters *ur_roce_counters(const struct ur_roce *r)
{
	return &r->cnt;
}

void ur_roce_for_each_qp(struct ur_roce *r,
			 void (*fn)(void *arg, const struct ur_qp *qp),
			 void *arg)
{
	for (uint32_t i = 0; i < 1u << UR_SLOT_SHIFT; i++) {
		if (r->qps[i])
			fn(arg, r->qps[i]->qp);
	}
}
