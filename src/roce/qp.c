/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Life of a QP: attributes, state changes, error flush.
 *
 *  RESET, INIT  sends nothing, drops inbound packets
 *  RTR          receives and answers
 *  RTS          all
 *  SQD          finishes begun messages, receives and answers
 *  SQE          (UD) receives; sends are flushed
 *  ERR          all requests are flushed; a pending NAK is still sent
 */
#include <errno.h>
#include <stdlib.h>

#include "core/rate.h"
#include "roce/congestion.h"
#include "roce/dc.h"
#include "roce/ecn.h"
#include "roce/full.h"
#include "roce/selective.h"

/* Release the requester's share of windows and its list entries. */
static void requester_stop(struct ur_rqp *q)
{
	struct ur_requester *s = &q->req;

	ur_list_del(&q->sending);
	ur_list_del(&q->paced);
	ur_timer_cancel(&q->r->timers, &q->timer);
	if (q->path && ur_qp_type_reliable(q->qp->type))
		ur_cong_rewound(q);
	ur_cong_read_done(q, s->rd_inflight);
	ur_shm_req_stop(q);
	ur_repair_clear(q);
	s->rd_count = 0;
	s->rnr_wait = false;
	s->window_wait = false;
	s->parked_ns = 0;
	s->una = s->end;
	s->psn = s->end;
}

static void responder_stop(struct ur_rqp *q)
{
	ur_list_del(&q->acking);
	q->rsp.ack_due = false;
	q->rsp.cnp_due = false;
	q->full.answer_due = false;
	q->full.end_due = false;
	ur_keep_clear(q);
	for (uint32_t i = 0; i < q->rsp.res_size; i++)
		q->rsp.res[i].active = false;
}

void ur_rqp_reset_responder(struct ur_rqp *q, uint32_t psn)
{
	struct ur_responder *p = &q->rsp;

	responder_stop(q);
	for (uint32_t i = 0; i < p->res_size; i++)
		p->res[i].valid = false;
	*p = (struct ur_responder){ .epsn = psn,
				    .copy = p->copy,
				    .keeper = p->keeper,
				    .res = p->res,
				    .res_size = p->res_size };
}

static void flush_sends(struct ur_rqp *q)
{
	struct ur_sq *sq = &q->qp->sq;
	uint32_t head;

	while ((head = ur_sq_head(sq)) != ur_sq_tail(sq))
		ur_req_complete(q, ur_sq_slot(sq, head), UR_WC_WR_FLUSH_ERR);
	q->req.cur = head;
	q->req.fresh = head;
	ur_tm_flush(q);
}

/* IBTA 10.3.1 "Error State": outstanding requests complete as flushed. */
void ur_rqp_flush(struct ur_rqp *q)
{
	flush_sends(q);
	if (ur_rqp_state(q) == UR_QPS_ERR)
		ur_recv_flush(q);
}

void ur_rqp_fail(struct ur_rqp *q, int event)
{
	if (ur_rqp_state(q) == UR_QPS_ERR)
		return;
	ur_qp_set_state(q->qp, UR_QPS_ERR);
	requester_stop(q);
	ur_keep_clear(q);
	ur_shm_ack_last(q);
	ur_shm_resp_stop(q);
	if (q->delegation)
		ur_delegation_stop(q);
	if (event >= 0)
		ur_qp_event(q->qp, (enum ur_event_type)event);
	ur_rqp_flush(q);
	/* A target stops consuming from all its queues. */
	if (q->qp->srq || q->qp->type == UR_QPT_XRC_RECV)
		ur_qp_event(q->qp, UR_EVENT_QP_LAST_WQE_REACHED);
}

void ur_rqp_check_overrun(struct ur_rqp *q)
{
	if (!q->overrun)
		return;
	q->overrun = false;
	ur_record_code(q->qp, UR_REC_EVENT, UR_EVENT_CQ_ERR, 0);
	ur_rqp_fail(q, UR_EVENT_QP_FATAL);
}

static void path_drop(struct ur_rqp *q)
{
	if (q->path)
		ur_path_put(q->r, q->path);
	q->path = NULL;
}

/* Entries for the READs and atomics that are served at once, all free. */
static int resources_make(struct ur_responder *p, uint32_t n)
{
	struct ur_resource *res = NULL;

	if (n) {
		res = calloc(n, sizeof(*res));
		if (!res)
			return -ENOMEM;
	}
	free(p->res);
	p->res = res;
	p->res_size = n;
	p->res_next = 0;
	p->res_todo = 0;
	return 0;
}

/* RESET: as after creation, but with its attributes (IBTA 10.3.1). */
static void reset(struct ur_rqp *q)
{
	struct ur_qp *qp = q->qp;
	struct ur_rwqe *copy = q->rsp.copy;
	uint32_t tail;

	ur_timewait_enter(q);
	requester_stop(q);
	responder_stop(q);
	ur_shm_stop(q);
	if (q->delegation)
		ur_delegation_stop(q);
	q->wire_only &= (uint8_t)~UR_WIRE_PATHS;
	path_drop(q);
	ur_mig_reset(q);
	ur_tm_reset(q);
	ur_repair_end(q);
	ur_keep_end(q);
	tail = ur_qp_clear(qp);
	q->req = (struct ur_requester){ .cur = tail, .fresh = tail };
	free(q->rsp.res);
	q->rsp = (struct ur_responder){ .copy = copy };
	q->peer = UR_PEER_UNKNOWN;
	q->peer_masked = false;
	q->full = (struct ur_full){ 0 };
	q->overrun = false;
	ur_qp_purge(qp);
}

static int path_make(struct ur_rqp *q, const struct ur_qp_attr *a,
		     uint32_t dqpn)
{
	struct ur_path *p =
		ur_path_get(q->r, &a->av, dqpn, ur_ecn_uses_ect(q->qp->type));

	if (!p)
		return -ENOMEM;
	if (q->path) {
		requester_stop(q);
		responder_stop(q);
		ur_full_restart(q);
	}
	path_drop(q);
	q->path = p;
	return 0;
}

static bool alternate_in_range(const struct ur_qp_attr *a)
{
	return a->alt_pkey_index == 0 && a->alt_timeout <= 31;
}

static bool in_range(const struct ur_rqp *q, const struct ur_qp_attr *a,
		     uint32_t mask)
{
	uint32_t most = q->dci ? UR_MAX_DC_RD_ATOMIC : UR_MAX_RD_ATOMIC;

	if ((mask & UR_QP_PATH_MTU) && !ur_mtu_bytes(a->path_mtu))
		return false;
	if ((mask & UR_QP_MAX_QP_RD_ATOMIC) && a->max_rd_atomic > most)
		return false;
	if ((mask & UR_QP_MAX_DEST_RD_ATOMIC) &&
	    a->max_dest_rd_atomic > UR_MAX_RD_ATOMIC)
		return false;
	if ((mask & UR_QP_TIMEOUT) && a->timeout > 31)
		return false;
	if ((mask & UR_QP_RETRY_CNT) && a->retry_cnt > 7)
		return false;
	if ((mask & UR_QP_RNR_RETRY) && a->rnr_retry > 7)
		return false;
	if ((mask & UR_QP_MIN_RNR_TIMER) && a->min_rnr_timer > 31)
		return false;
	if ((mask & UR_QP_PKEY_INDEX) && a->pkey_index != 0)
		return false;
	if ((mask & UR_QP_RATE_LIMIT) && !ur_rate_in_range(a->rate_limit))
		return false;
	if ((mask & UR_QP_ALT_PATH) && !alternate_in_range(a))
		return false;
	return !(mask & UR_QP_DEST_QPN) || a->dest_qpn <= UR_QPN_MASK;
}

#define ATTR(bit, field)                                                       \
	{                                                                      \
		bit, offsetof(struct ur_qp_attr, field),                       \
			sizeof(((struct ur_qp_attr *)NULL)->field)             \
	}

static const struct {
	uint32_t bit;
	size_t offset;
	size_t size;
} attr_fields[] = {
	ATTR(UR_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify),
	ATTR(UR_QP_ACCESS_FLAGS, access),
	ATTR(UR_QP_PKEY_INDEX, pkey_index),
	ATTR(UR_QP_PORT, port_num),
	ATTR(UR_QP_QKEY, qkey),
	ATTR(UR_QP_AV, av),
	ATTR(UR_QP_PATH_MTU, path_mtu),
	ATTR(UR_QP_TIMEOUT, timeout),
	ATTR(UR_QP_RETRY_CNT, retry_cnt),
	ATTR(UR_QP_RNR_RETRY, rnr_retry),
	ATTR(UR_QP_RQ_PSN, rq_psn),
	ATTR(UR_QP_MAX_QP_RD_ATOMIC, max_rd_atomic),
	ATTR(UR_QP_ALT_PATH, alt_av),
	ATTR(UR_QP_ALT_PATH, alt_pkey_index),
	ATTR(UR_QP_ALT_PATH, alt_port_num),
	ATTR(UR_QP_ALT_PATH, alt_timeout),
	ATTR(UR_QP_MIN_RNR_TIMER, min_rnr_timer),
	ATTR(UR_QP_SQ_PSN, sq_psn),
	ATTR(UR_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic),
	ATTR(UR_QP_DEST_QPN, dest_qpn),
	ATTR(UR_QP_RATE_LIMIT, rate_limit),
	ATTR(UR_QP_RATE_LIMIT, rate_burst),
	ATTR(UR_QP_DC_KEY, dc_key),
};

/* Copy the attributes in the mask. */
static void take_attrs(struct ur_qp_attr *to, const struct ur_qp_attr *a,
		       uint32_t mask)
{
	for (size_t i = 0; i < sizeof(attr_fields) / sizeof(attr_fields[0]);
	     i++) {
		size_t at = attr_fields[i].offset;

		if (mask & attr_fields[i].bit)
			memcpy((char *)to + at, (const char *)a + at,
			       attr_fields[i].size);
	}
	to->rq_psn &= UR_PSN_MASK;
	to->sq_psn &= UR_PSN_MASK;
}

static void enter_rtr(struct ur_rqp *q)
{
	const struct ur_qp_attr *a = &q->qp->attr;

	q->mtu = ur_mtu_bytes(a->path_mtu);
	q->rsp.epsn = a->rq_psn;
}

static void enter_rts(struct ur_rqp *q, enum ur_qp_state from)
{
	struct ur_qp_attr *a = &q->qp->attr;
	struct ur_requester *s = &q->req;

	if (from == UR_QPS_RTR) {
		/* It is no attribute of theirs. */
		if (q->dci)
			a->sq_psn = ur_rng_below(&q->r->rng, UR_PSN_MASK);
		s->una = a->sq_psn;
		s->psn = a->sq_psn;
		s->end = a->sq_psn;
	}
	s->retries = a->retry_cnt;
	s->rnr_retries = a->rnr_retry;
}

static void enter_sqd(struct ur_rqp *q)
{
	q->qp->attr.sq_draining = true;
	q->req.sqd_reported = !q->qp->attr.en_sqd_async_notify;
	ur_rc_check_drained(q);
}

static void enter(struct ur_rqp *q, enum ur_qp_state from, enum ur_qp_state to)
{
	ur_qp_set_state(q->qp, to);
	if (to == UR_QPS_RTR)
		enter_rtr(q);
	else if (to == UR_QPS_RTS && from != UR_QPS_RTS)
		enter_rts(q, from);
	else if (to == UR_QPS_SQD && from != UR_QPS_SQD)
		enter_sqd(q);
	if (to != from)
		ur_shm_enter(q, to);
}

static void modify_error(struct ur_rqp *q)
{
	responder_stop(q);
	ur_rqp_fail(q, -1);
}

/* Is its peer an attribute? */
static bool has_peer(enum ur_qp_type type)
{
	return type != UR_QPT_UD && type != UR_QPT_DC_INI &&
	       type != UR_QPT_DC_TGT;
}

int ur_roce_qp_modify(struct ur_roce *r, struct ur_qp *qp,
		      const struct ur_qp_attr *attr, uint32_t mask,
		      uint64_t now_ns)
{
	struct ur_rqp *q = ur_rqp_of(qp);
	enum ur_qp_state from = ur_rqp_state(q);
	enum ur_qp_state to = mask & UR_QP_STATE ? attr->state : from;
	int err;

	r->now_ns = now_ns;
	if ((mask & UR_QP_CUR_STATE) && attr->cur_state != from)
		return -EINVAL;
	err = ur_qp_state_check(qp->type, from, to, mask);
	if (err)
		return err;
	if (!in_range(q, attr, mask) || ur_mig_check(q, attr, mask))
		return -EINVAL;
	if (to == UR_QPS_RESET || to == UR_QPS_ERR) {
		if (to == UR_QPS_RESET) {
			reset(q);
			ur_qp_set_state(q->qp, to);
		} else {
			modify_error(q);
		}
		return 0;
	}
	if ((mask & UR_QP_AV) && has_peer(qp->type)) {
		err = path_make(q, attr,
				mask & UR_QP_DEST_QPN ? attr->dest_qpn
						      : qp->attr.dest_qpn);
		if (err)
			return err;
	}
	if (mask & UR_QP_MAX_DEST_RD_ATOMIC) {
		err = resources_make(&q->rsp, attr->max_dest_rd_atomic);
		if (err)
			return err;
	}
	if (mask & UR_QP_ALT_PATH) {
		err = ur_mig_load(q, attr, mask);
		if (err)
			return err;
	}
	take_attrs(&qp->attr, attr, mask);
	if (mask & UR_QP_ALT_PATH)
		q->wire_only |= UR_WIRE_PATHS;
	ur_shm_export_qp(q);
	enter(q, from, to);
	if (mask & UR_QP_PATH_MIG_STATE)
		ur_mig_modify(q, attr->path_mig_state);
	ur_roce_kick(r, qp, now_ns);
	return 0;
}

void ur_roce_qp_query(const struct ur_roce *r, const struct ur_qp *qp,
		      struct ur_qp_attr *attr)
{
	const struct ur_rqp *q = ur_rqp_of(qp);
	enum ur_qp_state s = ur_rqp_state(q);

	(void)r;
	*attr = qp->attr;
	attr->state = s;
	attr->cur_state = s;
	if (s == UR_QPS_RTR || s == UR_QPS_RTS || s == UR_QPS_SQD)
		attr->rq_psn = q->rsp.epsn;
	if (s == UR_QPS_RTS || s == UR_QPS_SQD)
		attr->sq_psn = q->req.psn;
}

static int index_pick(struct ur_roce *r, uint32_t *index)
{
	if (r->qp_count >= UR_MAX_QP_PER_LANE)
		return -ENOSPC;
	/* Numbers are reused late, so that delayed packets do not reach a new
	 * QP. */
	do {
		r->next_index = (r->next_index + 1) & UR_QP_INDEX_MASK;
	} while (r->next_index == UR_QP_INDEX_MASK || r->qps[r->next_index]);
	*index = r->next_index;
	return 0;
}

struct ur_rqp *ur_rqp_new(struct ur_roce *r, struct ur_qp *qp)
{
	struct ur_rqp *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->rsp.copy = calloc(1, sizeof(*q->rsp.copy) +
					UR_MAX_SGE * sizeof(struct ur_sge));
	if (!q->rsp.copy ||
	    ur_timers_reserve(&r->timers,
			      r->qp_count + r->delegate_count + 1)) {
		free(q->rsp.copy);
		free(q);
		return NULL;
	}
	q->qp = qp;
	q->r = r;
	q->mtu = 4096;
	q->wire_only = r->shm_paused ? UR_WIRE_FAULTS : 0;
	ur_list_init(&q->sending);
	ur_list_init(&q->acking);
	ur_list_init(&q->rndv);
	ur_list_init(&q->paced);
	ur_timer_init(&q->timer);
	return q;
}

void ur_rqp_free(struct ur_rqp *q)
{
	reset(q);
	if (q->delegation)
		ur_delegation_close(q);
	ur_dc_close(q);
	ur_shm_qp_free(q->shm);
	free(q->rsp.copy);
	free(q);
}

int ur_rqp_retarget(struct ur_rqp *q, const struct ur_av *av, uint32_t dqpn,
		    uint32_t resources)
{
	struct ur_path *p =
		ur_path_get(q->r, av, dqpn, ur_ecn_uses_ect(q->qp->type));

	if (!p)
		return -ENOMEM;
	path_drop(q);
	q->path = p;
	return q->rsp.res_size == resources
		       ? 0
		       : resources_make(&q->rsp, resources);
}

int ur_roce_qp_attach(struct ur_roce *r, struct ur_qp *qp)
{
	struct ur_rqp *q = ur_rqp_new(r, qp);
	int err;

	if (!q)
		return -ENOMEM;
	err = index_pick(r, &q->index);
	if (!err)
		err = ur_delegation_open(q);
	if (!err)
		err = ur_dc_open(q);
	if (err) {
		ur_rqp_free(q);
		return err;
	}
	r->qps[q->index] = q;
	r->qp_count++;
	qp->qpn = r->slot << UR_SLOT_SHIFT | q->index;
	qp->mrs = r->mrs;
	qp->proto = q;
	ur_record_attach(qp);
	return 0;
}

struct ur_qp *ur_roce_qp_find(const struct ur_roce *r, uint32_t qpn)
{
	const struct ur_rqp *q = ur_rqp_find(r, qpn);

	return q ? q->qp : NULL;
}

void ur_roce_qp_detach(struct ur_roce *r, struct ur_qp *qp)
{
	struct ur_rqp *q = ur_rqp_of(qp);

	ur_mcast_remove_qp(r, q);
	ur_mw_release(qp->mrs, qp);
	ur_qp_set_state(q->qp, UR_QPS_RESET);
	r->qps[q->index] = NULL;
	r->qp_count--;
	ur_rqp_free(q);
	qp->proto = NULL;
}
