/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "verbs/convert.h"
#include "verbs/objects.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct urv_context *c = urv_context(context);
	struct urv_pd *pd = calloc(1, sizeof(*pd));
	int rc;

	if (!pd)
		return urv_null(-ENOMEM);
	rc = urv_limit_take(&c->device->pds, UR_MAX_PD);
	if (rc)
		goto free_pd;
	rc = urv_context_get(c, &pd->ibv.handle);
	if (rc)
		goto give_limit;
	pd->ibv.context = context;
	pd->core.handle = pd->ibv.handle;
	return &pd->ibv;

give_limit:
	urv_limit_give(&c->device->pds);
free_pd:
	free(pd);
	return urv_null(rc);
}

int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct urv_context *c = urv_context(ibpd->context);
	struct urv_pd *pd = urv_pd(ibpd);

	if (atomic_load(&pd->core.users) != 0)
		return urv_errno(-EBUSY);
	free(pd);
	urv_limit_give(&c->device->pds);
	urv_context_put(c);
	return 0;
}
