/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Life of raw packet queue pairs and work queues.
 *
 *  RESET, INIT  sends nothing, receives nothing
 *  RTR, SQD     receive; SQD has nothing to finish, since a request completes
 *               as it leaves
 *  RTS          all
 *  SQE          receives; sends are flushed
 *  ERR          all requests are flushed
 *
 * A queue pair with an indirection table has neither queues nor states: its
 * packets go to the work queues, each in its own state.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/rate.h"
#include "raw/internal.h"

int ur_raw_create(struct ur_mr_table *mrs, struct ur_raw **out)
{
	struct ur_raw *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->mrs = mrs;
	ur_flow_table_init(&r->flows);
	ur_list_init(&r->senders);
	ur_list_init(&r->paced);
	*out = r;
	return 0;
}

void ur_raw_destroy(struct ur_raw *r)
{
	free(r);
}

/* Numbers are assigned round-robin, so that a freed one is reused late. */
static struct ur_rawnum *number(struct ur_raw *r, uint32_t *num)
{
	if (r->used == UR_MAX_RAW)
		return NULL;
	do {
		r->next = (r->next + 1) % UR_MAX_RAW;
	} while (r->nums[r->next].qp || r->nums[r->next].wq);
	r->used++;
	*num = UR_RAW_SLOT << UR_SLOT_SHIFT | r->next;
	return &r->nums[r->next];
}

static void give_number(struct ur_raw *r, uint32_t num)
{
	r->nums[num & ((1u << UR_SLOT_SHIFT) - 1)] = (struct ur_rawnum){ NULL };
	r->used--;
}

int ur_raw_qp_attach(struct ur_raw *r, struct ur_qp *qp)
{
	struct ur_rawqp *q = calloc(1, sizeof(*q));
	struct ur_rawnum *n;

	if (!q)
		return -ENOMEM;
	n = number(r, &qp->qpn);
	if (!n) {
		free(q);
		return -ENOSPC;
	}
	n->qp = q;
	q->r = r;
	q->qp = qp;
	ur_list_init(&q->sending);
	qp->proto = q;
	return 0;
}

static void drop_flows(struct ur_raw *r, const struct ur_qp *qp)
{
	for (unsigned int i = 0; i < UR_FLOW_TYPES; i++)
		ur_list_each_safe(struct ur_flow, f, &r->flows.flows[i], node)
			if (f->qp == qp)
				ur_flow_del(&r->flows, f);
}

void ur_raw_qp_detach(struct ur_raw *r, struct ur_qp *qp)
{
	struct ur_rawqp *q = ur_rawqp(qp);

	drop_flows(r, qp);
	ur_list_del(&q->sending);
	give_number(r, qp->qpn);
	qp->proto = NULL;
	free(q);
}

static void flush_sends(struct ur_rawqp *q, uint64_t now_ns)
{
	struct ur_sq *sq = &q->qp->sq;

	while (ur_sq_head(sq) != ur_sq_tail(sq))
		ur_raw_complete(q, UR_WC_WR_FLUSH_ERR, now_ns);
}

static void flush(struct ur_rawqp *q, uint64_t now_ns)
{
	struct ur_qp *qp = q->qp;

	ur_list_del(&q->sending);
	q->collected = 0;
	flush_sends(q, now_ns);
	if (ur_rawqp_state(qp) == UR_QPS_ERR)
		(void)ur_raw_flush_rq(&qp->rq, qp->recv_cq, qp, qp->qpn,
				      now_ns);
}

void ur_rawqp_stop(struct ur_rawqp *q, uint64_t now_ns)
{
	ur_qp_set_state(q->qp, UR_QPS_SQE);
	flush(q, now_ns);
}

void ur_rawqp_fail(struct ur_rawqp *q, enum ur_event_type event,
		   uint64_t now_ns)
{
	if (ur_rawqp_state(q->qp) == UR_QPS_ERR)
		return;
	ur_qp_set_state(q->qp, UR_QPS_ERR);
	ur_qp_event(q->qp, event);
	flush(q, now_ns);
}

static void reset(struct ur_rawqp *q)
{
	struct ur_qp *qp = q->qp;

	ur_list_del(&q->sending);
	q->collected = 0;
	(void)ur_sq_clear(&qp->sq);
	ur_rq_clear(&qp->rq);
	ur_qp_purge(qp);
}

static void enter(struct ur_rawqp *q, enum ur_qp_state from,
		  enum ur_qp_state to, uint64_t now_ns)
{
	ur_qp_set_state(q->qp, to);
	switch (to) {
	case UR_QPS_RESET:
		reset(q);
		break;
	case UR_QPS_ERR:
		flush(q, now_ns);
		break;
	case UR_QPS_SQD:
		if (from == UR_QPS_RTS && q->qp->attr.en_sqd_async_notify)
			ur_qp_event(q->qp, UR_EVENT_SQ_DRAINED);
		break;
	case UR_QPS_RTS:
		ur_raw_kick(q->r, q->qp, now_ns);
		break;
	case UR_QPS_INIT:
	case UR_QPS_RTR:
	case UR_QPS_SQE:
	case UR_QPS_COUNT:
		break;
	}
}

int ur_raw_qp_modify(struct ur_raw *r, struct ur_qp *qp,
		     const struct ur_qp_attr *attr, uint32_t mask,
		     uint64_t now_ns)
{
	enum ur_qp_state from = ur_rawqp_state(qp);
	enum ur_qp_state to = mask & UR_QP_STATE ? attr->state : from;

	if (qp->raw.rss.table)
		return -ENOSYS;
	if ((mask & UR_QP_CUR_STATE) && attr->cur_state != from)
		return -EINVAL;
	if (ur_qp_state_check(qp->type, from, to, mask))
		return -EINVAL;
	if ((mask & UR_QP_PORT) && attr->port_num != 1)
		return -EINVAL;
	if ((mask & UR_QP_RATE_LIMIT) && !ur_rate_in_range(attr->rate_limit))
		return -EINVAL;
	if (mask & UR_QP_PORT)
		qp->attr.port_num = attr->port_num;
	if (mask & UR_QP_RATE_LIMIT) {
		qp->attr.rate_limit = attr->rate_limit;
		qp->attr.rate_burst = attr->rate_burst;
		ur_rawqp(qp)->rate_at_ns = 0;
	}
	if (mask & UR_QP_EN_SQD_ASYNC_NOTIFY)
		qp->attr.en_sqd_async_notify = attr->en_sqd_async_notify;
	if (mask & UR_QP_STATE)
		enter(ur_rawqp(qp), from, to, now_ns);
	return 0;
}

void ur_raw_qp_query(const struct ur_qp *qp, struct ur_qp_attr *attr)
{
	*attr = qp->attr;
	attr->state = ur_rawqp_state(qp);
	attr->cur_state = attr->state;
}

void ur_raw_kick(struct ur_raw *r, struct ur_qp *qp, uint64_t now_ns)
{
	struct ur_rawqp *q = ur_rawqp(qp);
	enum ur_qp_state state;

	/* The doorbell may precede the destruction of the queue pair. */
	if (!q)
		return;
	state = ur_rawqp_state(qp);
	if (state == UR_QPS_SQE || state == UR_QPS_ERR) {
		flush(q, now_ns);
		return;
	}
	if (state == UR_QPS_RTS && ur_list_empty(&q->sending) &&
	    ur_sq_head(&qp->sq) != ur_sq_tail(&qp->sq))
		ur_list_add_tail(&r->senders, &q->sending);
}

int ur_raw_wq_attach(struct ur_raw *r, struct ur_wq *wq)
{
	struct ur_rawnum *n = number(r, &wq->num);

	if (!n)
		return -ENOSPC;
	n->wq = wq;
	return 0;
}

void ur_raw_wq_detach(struct ur_raw *r, struct ur_wq *wq)
{
	give_number(r, wq->num);
}

static void wq_enter(struct ur_wq *wq, enum ur_wq_state to, uint64_t now_ns)
{
	atomic_store_explicit(&wq->state, to, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	if (to == UR_WQS_RESET) {
		ur_rq_clear(&wq->rq);
		ur_cq_purge(wq->cq, wq);
	} else if (to == UR_WQS_ERR) {
		(void)ur_raw_flush_rq(&wq->rq, wq->cq, wq, wq->num, now_ns);
	}
}

void ur_raw_wq_fail(struct ur_wq *wq, uint64_t now_ns)
{
	if (atomic_load_explicit(&wq->state, memory_order_relaxed) ==
	    UR_WQS_ERR)
		return;
	wq_enter(wq, UR_WQS_ERR, now_ns);
	if (wq->async)
		ur_evq_post_async(wq->async, UR_EVENT_WQ_FATAL,
				  &wq->async_source, wq->object, 0);
}

int ur_raw_wq_modify(struct ur_raw *r, struct ur_wq *wq, enum ur_wq_state to,
		     uint64_t now_ns)
{
	enum ur_wq_state from =
		atomic_load_explicit(&wq->state, memory_order_relaxed);

	if (!ur_wq_may_become(from, to))
		return -EINVAL;
	if (from != to)
		wq_enter(wq, to, now_ns);
	return 0;
}

void ur_raw_wq_flush(struct ur_raw *r, struct ur_wq *wq, uint64_t now_ns)
{
	if (atomic_load_explicit(&wq->state, memory_order_relaxed) ==
	    UR_WQS_ERR)
		(void)ur_raw_flush_rq(&wq->rq, wq->cq, wq, wq->num, now_ns);
}

struct ur_flow_table *ur_raw_flows(struct ur_raw *r)
{
	return &r->flows;
}

const struct ur_raw_counters *ur_raw_counters(const struct ur_raw *r)
{
	return &r->cnt;
}

void ur_raw_for_each_qp(struct ur_raw *r,
			void (*fn)(void *arg, const struct ur_qp *qp),
			void *arg)
{
	for (uint32_t i = 0; i < UR_MAX_RAW; i++)
		if (r->nums[i].qp)
			fn(arg, r->nums[i].qp->qp);
}
