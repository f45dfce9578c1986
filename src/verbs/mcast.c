/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "verbs/convert.h"
#include "verbs/objects.h"

/* A multicast GID: ff00::/8, or a mapped IPv4 address of 224.0.0.0/4. */
static bool is_group(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (memcmp(gid, mapped, sizeof(mapped)) == 0)
		return (gid[12] & 0xf0) == 0xe0;
	return gid[0] == 0xff;
}

static int mcast(struct ibv_qp *qp, const union ibv_gid *gid, bool attach)
{
	int rc = urv_check(URV_QP, qp);
	struct urv_context *c;

	if (!rc)
		rc = urv_context_check(qp->context);
	if (rc)
		return urv_errno(rc);
	c = urv_context(qp->context);
	if (qp->qp_type != IBV_QPT_UD || !is_group(gid->raw))
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
