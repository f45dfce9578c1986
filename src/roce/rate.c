/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate limit of a QP (ibv_modify_qp_rate_limit(3)): a bucket of tokens that
 * fills at the rate.  rate_at_ns is when it holds any: in the future if more
 * was sent than is paid for, in the past by what was saved, at most the burst.
 * A packet of any size may leave when it is not in the future.
 */
#include "roce/internal.h"

/* So much may be saved if the program says nothing of bursts: sleeping and
 * waking must not cost rate. */
#define BURST_NS 1000000u

static uint64_t cost_ns(uint32_t bytes, uint32_t kbps)
{
	return (uint64_t)bytes * 8 * 1000000 / kbps;
}

static uint64_t burst_ns(const struct ur_qp_attr *a)
{
	return a->rate_burst ? cost_ns(a->rate_burst, a->rate_limit) : BURST_NS;
}

bool ur_rate_allows(struct ur_rqp *q, uint64_t now_ns)
{
	struct ur_roce *r = q->r;

	if (!q->qp->attr.rate_limit || q->rate_at_ns <= now_ns)
		return true;
	if (ur_list_empty(&q->paced))
		ur_list_add_tail(&r->paced, &q->paced);
	if (q->rate_at_ns < r->paced_at_ns)
		r->paced_at_ns = q->rate_at_ns;
	return false;
}

void ur_rate_spend(struct ur_rqp *q, uint32_t bytes, uint64_t now_ns)
{
	const struct ur_qp_attr *a = &q->qp->attr;
	uint64_t burst;

	if (!a->rate_limit)
		return;
	burst = burst_ns(a);
	if (now_ns > burst && q->rate_at_ns < now_ns - burst)
		q->rate_at_ns = now_ns - burst;
	q->rate_at_ns += cost_ns(bytes, a->rate_limit);
}

void ur_rate_expire(struct ur_roce *r, uint64_t now_ns)
{
	if (now_ns < r->paced_at_ns)
		return;
	r->paced_at_ns = UR_NEVER;
	ur_list_for_each_safe(pos, tmp, &r->paced) {
		struct ur_rqp *q = ur_container_of(pos, struct ur_rqp, paced);

		if (q->rate_at_ns <= now_ns) {
			ur_list_del(&q->paced);
			ur_roce_kick(r, q->qp, now_ns);
		} else if (q->rate_at_ns < r->paced_at_ns) {
			r->paced_at_ns = q->rate_at_ns;
		}
	}
}
