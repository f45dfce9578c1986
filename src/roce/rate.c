/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs held back by their rate limit. */
#include "core/rate.h"
#include "roce/internal.h"

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
	if (q->qp->attr.rate_limit)
		q->rate_at_ns = ur_rate_after(&q->qp->attr, q->rate_at_ns,
					      bytes, now_ns);
}

void ur_rate_expire(struct ur_roce *r, uint64_t now_ns)
{
	if (now_ns < r->paced_at_ns)
		return;
	r->paced_at_ns = UR_NEVER;
	ur_list_each_safe(struct ur_rqp, q, &r->paced, paced) {
		if (q->rate_at_ns <= now_ns) {
			ur_list_del(&q->paced);
			ur_roce_kick(r, q->qp, now_ns);
		} else if (q->rate_at_ns < r->paced_at_ns) {
			r->paced_at_ns = q->rate_at_ns;
		}
	}
}
