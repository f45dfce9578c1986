/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/qp.h"
#include "base/barrier.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cross.h"
#include "core/masked.h"
#include "core/tm.h"
#include "core/umr.h"
#include "core/xrc.h"

/* READs and rendezvous messages in flight on a QP (core/tm.h). */
#define TM_REQUESTS 32u

static void take_references(struct ur_qp *qp)
{
	if (qp->raw.rss.table)
		atomic_fetch_add(&qp->raw.rss.table->users, 1);
	if (qp->xrcd)
		atomic_fetch_add(&qp->xrcd->users, 1);
	if (qp->pd)
		atomic_fetch_add(&qp->pd->users, 1);
	if (qp->send_cq)
		atomic_fetch_add(&qp->send_cq->users, 1);
	if (qp->recv_cq)
		atomic_fetch_add(&qp->recv_cq->users, 1);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, 1);
}

static void drop_references(struct ur_qp *qp)
{
	if (qp->srq)
		atomic_fetch_sub(&qp->srq->users, 1);
	if (qp->recv_cq)
		atomic_fetch_sub(&qp->recv_cq->users, 1);
	if (qp->send_cq)
		atomic_fetch_sub(&qp->send_cq->users, 1);
	if (qp->pd)
		atomic_fetch_sub(&qp->pd->users, 1);
	if (qp->xrcd)
		atomic_fetch_sub(&qp->xrcd->users, 1);
	if (qp->raw.rss.table)
		atomic_fetch_sub(&qp->raw.rss.table->users, 1);
}

/* Are the objects that the type requires there? Others are ignored. */
static bool complete(const struct ur_qp_init *init)
{
	const struct ur_srq *srq = init->srq;

	if (!ur_qp_type_known(init->type))
		return false;
	if (init->type == UR_QPT_XRC_RECV)
		return init->xrcd != NULL;
	if (init->raw.rss.table)
		return init->pd != NULL;
	if (srq && srq->tm && init->type != UR_QPT_RC)
		return false;
	if (init->type == UR_QPT_DC_TGT)
		return init->pd && init->recv_cq && srq && !srq->xrcd;
	return init->pd && init->send_cq &&
	       (init->recv_cq || !ur_qp_type_receives(init->type));
}

static void take_parts(struct ur_qp *qp, const struct ur_qp_init *init)
{
	bool target = init->type == UR_QPT_XRC_RECV;

	qp->xrcd = target ? init->xrcd : NULL;
	qp->pd = target ? NULL : init->pd;
	qp->send_cq =
		target || init->type == UR_QPT_DC_TGT ? NULL : init->send_cq;
	if (qp->send_cq)
		qp->sends_taken = atomic_load_explicit(&qp->send_cq->head,
						       memory_order_relaxed);
	if (ur_qp_type_receives(init->type)) {
		qp->recv_cq = init->recv_cq;
		qp->srq = init->srq;
	}
}

/* A slot has room for a list and, behind it, the header of a TSO request or the
 * operands of an atomic with masks. */
static int make_sq(struct ur_qp *qp, const struct ur_qp_cap *cap)
{
	uint32_t room = cap->max_send_sge * (uint32_t)sizeof(struct ur_sge) +
			qp->raw.max_tso_header;
	int ret;

	if (qp->max_atomic_arg)
		room += sizeof(struct ur_masked);

	if (qp->raw.max_tso_header > UR_MAX_TSO_HDR ||
	    cap->max_send_sge > UR_MAX_SGE || cap->max_inline > UR_MAX_INLINE)
		return -EINVAL;
	ret = ur_sq_init(&qp->sq, cap->max_send_wr, cap->max_send_sge,
			 room > cap->max_inline ? room : cap->max_inline,
			 qp->srq && qp->srq->tm ? TM_REQUESTS : 0);
	if (!ret)
		qp->sq.max_inline = cap->max_inline;
	return ret;
}

/* Receives of a QP with an SRQ are posted there: its own queue has no room. */
static int make_queues(struct ur_qp *qp, struct ur_qp_cap *cap)
{
	int ret;

	if (qp->srq || !ur_qp_type_receives(qp->type)) {
		cap->max_recv_wr = 0;
		cap->max_recv_sge = 0;
	}
	if (qp->type == UR_QPT_XRC_RECV || qp->type == UR_QPT_DC_TGT) {
		cap->max_send_wr = 0;
		cap->max_send_sge = 0;
		cap->max_inline = 0;
	}
	if (qp->raw.rss.table)
		*cap = (struct ur_qp_cap){ 0 };
	ret = make_sq(qp, cap);
	if (ret)
		return ret;
	ret = ur_rq_init(&qp->rq, cap->max_recv_wr, cap->max_recv_sge,
			 UR_MAX_WR);
	if (ret)
		ur_sq_fini(&qp->sq);
	return ret;
}

static int set_ring_sources(struct ur_qp *qp,
			    const struct ur_ring_source *rings)
{
	int ret = ur_sq_set_ring_source(&qp->sq, rings);

	if (!ret)
		ret = ur_rq_set_ring_source(&qp->rq, rings);
	if (ret) {
		ur_rq_fini(&qp->rq);
		ur_sq_fini(&qp->sq);
	}
	return ret;
}

static int make_targets(struct ur_qp *qp)
{
	if (qp->type != UR_QPT_DC_INI)
		return 0;
	qp->dc = calloc((size_t)qp->sq.mask + 1, sizeof(*qp->dc));
	if (qp->dc)
		return 0;
	ur_rq_fini(&qp->rq);
	ur_sq_fini(&qp->sq);
	return -ENOMEM;
}

int ur_qp_init(struct ur_qp *qp, struct ur_qp_init *init)
{
	struct ur_qp_cap cap = init->cap;
	int ret;

	if (!complete(init))
		return -EINVAL;
	memset(qp, 0, sizeof(*qp));
	qp->type = init->type;
	qp->sq_sig_all = init->sq_sig_all;
	take_parts(qp, init);
	qp->raw = init->raw;
	qp->max_atomic_arg = init->max_atomic_arg;
	qp->async = init->async;
	qp->object = init->object;
	ur_list_init(&qp->windows);
	qp->lane = init->lane;
	ret = make_queues(qp, &cap);
	if (!ret && init->rings)
		ret = set_ring_sources(qp, init->rings);
	if (!ret)
		ret = make_targets(qp);
	if (ret)
		return ret;
	take_references(qp);
	qp->attr.cap = cap;
	init->cap = cap;
	return 0;
}

void ur_qp_set_state(struct ur_qp *qp, enum ur_qp_state state)
{
	enum ur_qp_state from =
		atomic_load_explicit(&qp->state, memory_order_relaxed);

	ur_debug("qp %06x: state %s -> %s", qp->qpn, ur_qp_state_name(from),
		 ur_qp_state_name(state));
	atomic_store_explicit(&qp->state, state, memory_order_release);
	qp->attr.state = state;
	ur_record_state(qp, from);
	/* Pairs with posters, which commit, then check the state. */
	if (state == UR_QPS_ERR)
		ur_barrier_heavy();
	if (state == UR_QPS_ERR && qp->cross)
		ur_cross_error(qp);
}

uint32_t ur_qp_clear(struct ur_qp *qp)
{
	if (qp->cross)
		ur_cross_clear(qp);
	if (qp->umr)
		ur_umr_reset(qp);
	ur_rq_clear(&qp->rq);
	return ur_sq_clear(&qp->sq);
}

void ur_qp_purge(struct ur_qp *qp)
{
	if (qp->send_cq)
		ur_cq_purge(qp->send_cq, qp);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		ur_cq_purge(qp->recv_cq, qp);
}

void ur_qp_fini(struct ur_qp *qp)
{
	ur_qp_purge(qp);
	ur_evq_drain(qp->async, &qp->async_source);
	ur_umr_disable(qp);
	if (qp->cross)
		ur_cross_destroy(qp);
	ur_rq_fini(&qp->rq);
	ur_sq_fini(&qp->sq);
	free(qp->dc);
	free(qp->watch);
	drop_references(qp);
}

bool ur_qp_complete_aside(struct ur_qp *qp, const struct ur_swqe *w,
			  enum ur_wc_status status, uint64_t now_ns)
{
	ur_watch_completes(qp, w);
	if (qp->cross)
		return ur_cross_complete(qp, w, status, now_ns);
	return ur_qp_finish(qp, w, status, now_ns);
}

void ur_qp_event(struct ur_qp *qp, enum ur_event_type type)
{
	/* What happens to a connection is no event of its target (DC). */
	if (!qp->record.target)
		ur_record_code(qp, UR_REC_EVENT, (uint8_t)type, 0);
	if (qp->on_event)
		qp->on_event(qp, type);
	else if (qp->async)
		ur_evq_post_async(qp->async, type, &qp->async_source,
				  qp->object, 0);
}

void ur_qp_dct_event(struct ur_qp *qp, enum ur_event_type type)
{
	uint32_t taken =
		qp->async ? ur_evq_delivered(qp->async, &qp->async_source) : 0;

	/* Key violations are armed one at a time. */
	if (type != UR_EVENT_DCT_KEY_VIOLATION &&
	    (int32_t)(qp->dct_events - taken) >= UR_DCT_EVENTS_MAX)
		return;
	qp->dct_events++;
	ur_qp_event(qp, type);
}
