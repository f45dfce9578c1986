/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/srq.h"

#include <errno.h>
#include <string.h>

#include "core/tm.h"
#include "core/xrc.h"

int ur_srq_init(struct ur_srq *srq, struct ur_pd *pd, uint32_t max_wr,
		uint32_t max_sge, uint32_t limit, struct ur_evq *async,
		void *object)
{
	int ret;

	if (max_wr == 0 || limit > max_wr)
		return -EINVAL;
	memset(srq, 0, sizeof(*srq));
	ret = ur_rq_init(&srq->rq, max_wr, max_sge, UR_MAX_SRQ_WR);
	if (ret)
		return ret;
	srq->pd = pd;
	srq->limit = limit;
	srq->async = async;
	srq->object = object;
	atomic_fetch_add(&pd->users, 1);
	return 0;
}

void ur_srq_set_cq(struct ur_srq *srq, struct ur_cq *cq, struct ur_xrcd *xrcd)
{
	srq->cq = cq;
	srq->xrcd = xrcd;
	atomic_fetch_add(&cq->users, 1);
	if (xrcd)
		atomic_fetch_add(&xrcd->users, 1);
}

int ur_srq_fini(struct ur_srq *srq)
{
	if (atomic_load(&srq->users) != 0)
		return -EBUSY;
	ur_evq_drain(srq->async, &srq->async_source);
	ur_rq_fini(&srq->rq);
	if (srq->xrcd)
		atomic_fetch_sub(&srq->xrcd->users, 1);
	if (srq->tm)
		ur_tm_fini(srq);
	if (srq->cq) {
		/* Its completions carry the SRQ in place of a QP. */
		ur_cq_purge(srq->cq, srq);
		atomic_fetch_sub(&srq->cq->users, 1);
	}
	atomic_fetch_sub(&srq->pd->users, 1);
	return 0;
}

int ur_srq_resize(struct ur_srq *srq, uint32_t max_wr)
{
	int ret = -EINVAL;

	ur_latch_lock(&srq->rq.lock);
	if (max_wr <= UR_MAX_SRQ_WR && max_wr >= srq->limit)
		ret = ur_rq_resize(&srq->rq, max_wr);
	ur_latch_unlock(&srq->rq.lock);
	return ret;
}

/* IBTA 10.2.9.2: the limit is one shot, the application arms it again. */
static void check_limit(struct ur_srq *srq, uint32_t left)
{
	if (left >= srq->limit)
		return;
	srq->limit = 0;
	if (srq->async)
		ur_evq_post_async(srq->async, UR_EVENT_SRQ_LIMIT_REACHED,
				  &srq->async_source, srq->object, 0);
}

static uint32_t posted(struct ur_srq *srq)
{
	return atomic_load_explicit(&srq->rq.tail, memory_order_relaxed) -
	       atomic_load_explicit(&srq->rq.head, memory_order_relaxed);
}

int ur_srq_set_limit(struct ur_srq *srq, uint32_t limit)
{
	int ret = 0;

	ur_latch_lock(&srq->rq.lock);
	if (limit > srq->rq.max_wr) {
		ret = -EINVAL;
	} else {
		srq->limit = limit;
		check_limit(srq, posted(srq));
	}
	ur_latch_unlock(&srq->rq.lock);
	return ret;
}

bool ur_srq_take_locked(struct ur_srq *srq, struct ur_rwqe *out)
{
	uint32_t left = posted(srq);
	const struct ur_rwqe *wqe;
	uint32_t head;

	if (left == 0)
		return false;
	head = atomic_load_explicit(&srq->rq.head, memory_order_relaxed);
	wqe = ur_rq_slot(&srq->rq, head);
	memcpy(out, wqe, sizeof(*wqe) + wqe->num_sge * sizeof(wqe->sge[0]));
	atomic_store_explicit(&srq->rq.head, head + 1, memory_order_release);
	check_limit(srq, left - 1);
	return true;
}

bool ur_srq_take(struct ur_srq *srq, struct ur_rwqe *out)
{
	bool taken;

	ur_latch_lock(&srq->rq.lock);
	taken = ur_srq_take_locked(srq, out);
	ur_latch_unlock(&srq->rq.lock);
	return taken;
}
