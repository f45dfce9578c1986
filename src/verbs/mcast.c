/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/addr.h"
#include "verbs/convert.h"
#include "verbs/objects.h"

static int mcast(struct ibv_qp *qp, const union ibv_gid *gid, bool attach)
{
	int rc = urv_check(URV_QP, qp);
	struct urv_context *c;

	if (!rc)
		rc = urv_context_check(qp->context);
	if (rc)
		return urv_errno(rc);
	c = urv_context(qp->context);
	if (qp->qp_type != IBV_QPT_UD || !ur_addr_is_multicast(gid->raw))
		return urv_errno(-EINVAL);
	return urv_errno(ur_adapter_mcast(c->adapter, urv_core(urv_qp(qp)),
					  gid->raw, attach));
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return mcast(qp, gid, true);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return mcast(qp, gid, false);
}
