/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/qp.h"

#include <errno.h>
#include <string.h>

static void take_references(struct ur_qp *qp)
{
	atomic_fetch_add(&qp->pd->users, 1);
	atomic_fetch_add(&qp->send_cq->users, 1);
	atomic_fetch_add(&qp->recv_cq->users, 1);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, 1);
}

static void drop_references(struct ur_qp *qp)
{
	if (qp->srq)
		atomic_fetch_sub(&qp->srq->users, 1);
	atomic_fetch_sub(&qp->recv_cq->users, 1);
	atomic_fetch_sub(&qp->send_cq->users, 1);
	atomic_fetch_sub(&qp->pd->users, 1);
}

/* Receives of a QP with an SRQ are posted there: its own queue has no room. */
static int make_queues(struct ur_qp *qp, struct ur_qp_cap *cap)
{
	int ret;

	if (qp->srq) {
		cap->max_recv_wr = 0;
		cap->max_recv_sge = 0;
	}
	ret = ur_sq_init(&qp->sq, cap->max_send_wr, cap->max_send_sge,
			 cap->max_inline);
	if (ret)
		return ret;
	ret = ur_rq_init(&qp->rq, cap->max_recv_wr, cap->max_recv_sge,
			 UR_MAX_WR);
	if (ret)
		ur_sq_fini(&qp->sq);
	return ret;
}

int ur_qp_init(struct ur_qp *qp, struct ur_qp_init *init)
{
	struct ur_qp_cap cap = init->cap;
	int ret;

	if (!ur_qp_type_known(init->type) || !init->pd || !init->send_cq ||
	    !init->recv_cq)
		return -EINVAL;
	memset(qp, 0, sizeof(*qp));
	qp->type = init->type;
	qp->sq_sig_all = init->sq_sig_all;
	qp->pd = init->pd;
	qp->send_cq = init->send_cq;
	qp->recv_cq = init->recv_cq;
	qp->srq = init->srq;
	qp->async = init->async;
	qp->object = init->object;
	ur_list_init(&qp->windows);
	ret = make_queues(qp, &cap);
	if (ret)
		return ret;
	take_references(qp);
	qp->attr.cap = cap;
	init->cap = cap;
	return 0;
}

void ur_qp_fini(struct ur_qp *qp)
{
	ur_cq_purge(qp->send_cq, qp);
	if (qp->recv_cq != qp->send_cq)
		ur_cq_purge(qp->recv_cq, qp);
	ur_evq_drain(qp->async, &qp->async_source);
	ur_rq_fini(&qp->rq);
	ur_sq_fini(&qp->sq);
	drop_references(qp);
}

void ur_qp_event(struct ur_qp *qp, enum ur_event_type type)
{
	if (qp->async)
		ur_evq_post_async(qp->async, type, &qp->async_source,
				  qp->object, 0);
}
