/* SPDX-License-Identifier: BSD-2-Clause */
/* Rate limits of queue pairs. */
#include <errno.h>

#include "verbs/convert.h"
#include "verbs/objects.h"
#include "verbs/ops.h"

/* A burst needs a rate; the typical packet size is ignored. */
int urv_modify_qp_rate_limit(struct ibv_qp *ibqp,
			     struct ibv_qp_rate_limit_attr *attr)
{
	struct urv_context *c = urv_context(ibqp->context);
	struct ur_qp_attr in = {
		.rate_limit = attr->rate_limit,
		.rate_burst = attr->max_burst_sz,
	};
	int rc = urv_context_check(ibqp->context);

	if (rc)
		return urv_errno(rc);
	if (urv_is_iwarp(c))
		return urv_errno(-EOPNOTSUPP);
	if (urv_qp(ibqp)->target) /* it sends nothing */
		return urv_errno(-EINVAL);
	if (attr->comp_mask ||
	    ((attr->max_burst_sz || attr->typical_pkt_sz) && !attr->rate_limit))
		return urv_errno(-EINVAL);
	return urv_errno(ur_adapter_qp_modify(c->adapter, &urv_qp(ibqp)->core,
					      &in, UR_QP_RATE_LIMIT));
}
