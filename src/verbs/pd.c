/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "verbs/convert.h"
#include "verbs/domain.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct urv_context *c = urv_context(context);
	struct urv_pd *pd = calloc(1, sizeof(*pd));
	int rc;

	if (!pd)
		return urv_null(-ENOMEM);
	rc = urv_limit_take(&c->device->pds, c->device->spec->max.max_pd);
	if (rc)
		goto free_pd;
	rc = urv_context_get(c, &pd->ibv.handle);
	if (rc)
		goto give_limit;
	pd->ibv.context = context;
	pd->root = pd;
	pd->core.handle = pd->ibv.handle;
	urv_share(c->file, &pd->shared, URV_SHARED_PD, pd->ibv.handle);
	return &pd->ibv;

give_limit:
	urv_limit_give(&c->device->pds);
free_pd:
	free(pd);
	return urv_null(rc);
}

static void drop_handle(struct urv_pd *pd)
{
	struct urv_context *c = urv_context(pd->ibv.context);
	struct urv_pd *root = pd->root;

	if (pd != root)
		free(pd);
	if (urv_share_put(&root->shared))
		free(root);
	urv_context_put(c);
}

int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct urv_context *c = urv_context(ibpd->context);
	struct urv_pd *pd = urv_pd_handle(ibpd);
	struct urv_pd *root = pd->root;

	if (pd->is_parent)
		return urv_errno(urv_parent_free(pd));
	if (atomic_load(&root->core.users) != 0)
		return urv_errno(-EBUSY);
	if (urv_share_end(&root->shared))
		urv_limit_give(&c->device->pds);
	drop_handle(pd);
	return 0;
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct urv_context *c = urv_context(context);
	struct urv_pd *pd = calloc(1, sizeof(*pd));
	struct urv_shared *shared;
	int rc;

	if (!pd)
		return urv_null(-ENOMEM);
	shared = urv_share_import(c->file, URV_SHARED_PD, handle);
	if (!shared) {
		free(pd);
		return urv_null(-ENOENT);
	}
	pd->root = ur_container_of(shared, struct urv_pd, shared);
	rc = urv_context_get(c, &pd->ibv.handle);
	if (rc) {
		urv_share_put(shared);
		free(pd);
		return urv_null(rc);
	}
	pd->ibv.context = context;
	pd->ibv.handle = handle;
	return &pd->ibv;
}

void ibv_unimport_pd(struct ibv_pd *ibpd)
{
	drop_handle(urv_pd_handle(ibpd));
}
