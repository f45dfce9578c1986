/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send requests without a packet: binding and invalidating memory windows (IBTA
 * 10.6.7), and NOP. They execute when all earlier requests are complete: IBTA 10.6.5.1
 * requires it of an invalidation; for a bind it is stricter than needed, so
 * that no later packet has to check for its window. They have no PSNs, so
 * retransmission skips them.
 */
#include "roce/internal.h"

bool ur_local_run(struct ur_rqp *q, const struct ur_swqe *w)
{
	struct ur_requester *s = &q->req;

	if (ur_sq_head(&q->qp->sq) != s->cur)
		return false;
	if (ur_mw_request(q->qp, w)) {
		ur_req_fail(q, ur_swqe_local_error(w));
		return false;
	}
	s->cur++;
	s->fresh++;
	ur_req_complete(q, w, UR_WC_SUCCESS);
	return true;
}
