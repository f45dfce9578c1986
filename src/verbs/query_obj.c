/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries of objects that rdma-core does not have (include/urnic.h). */
#include <urnic.h>

#include "verbs/convert.h"
#include "verbs/exports.h"
#include "verbs/mr.h"
#include "verbs/objects.h"

int urv_query_ah(struct ibv_ah *ah, struct ibv_ah_attr *attr);
int urv_query_mr(struct ibv_mr *ibmr, struct urnic_mr_attr *attr, size_t size);

/* IBTA 11.2.2.3 */
int urv_query_ah(struct ibv_ah *ah, struct ibv_ah_attr *attr)
{
	int rc = urv_check(URV_AH, ah);

	if (rc)
		return urv_errno(rc);
	if (urv_context(ah->context)->generation != urv_generation)
		return urv_errno(-ENODEV);
	urv_av_to_ah(attr, &urv_ah(ah)->av);
	return 0;
}

/* IBTA 11.2.8.6. By its key, since another thread may re-register it. The
 * caller's structure may be older or newer than ours. */
int urv_query_mr(struct ibv_mr *ibmr, struct urnic_mr_attr *attr, size_t size)
{
	int rc = urv_check(URV_MR, ibmr);
	struct urnic_mr_attr full = { 0 };
	struct urv_context *c;
	struct ur_mr mr;

	if (rc)
		return urv_errno(rc);
	c = urv_context(ibmr->context);
	full.pd = ibmr->pd;
	full.lkey = ibmr->lkey;
	full.rkey = ibmr->rkey;
	if (c->generation != urv_generation)
		return urv_errno(-ENODEV);
	/* The watcher may not have read yet that it is gone. */
	if (urv_share_has_ended(&urv_mr(ibmr)->shared))
		return urv_errno(-EINVAL);
	rc = ur_mr_peek(c->mrs, ibmr->lkey, &mr);
	if (rc)
		return urv_errno(rc == -ENOENT ? -EINVAL : rc);
	/* Other kinds have the adapter's own mapping, or no address at all. */
	if (mr.kind == UR_MR_MEMORY && !urv_mr(ibmr)->shared.imported)
		full.addr = mr.addr;
	full.length = mr.length;
	full.iova = mr.iova;
	full.access = mr.access;
	full.windows = mr.windows;
	memset(attr, 0, size);
	memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}

URV_EXPORT(urv_query_ah, urnic_query_ah, "URNIC_1.0");
URV_EXPORT(urv_query_mr, urnic_query_mr, "URNIC_1.0");
