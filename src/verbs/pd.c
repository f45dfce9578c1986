/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "fault/state.h"
#include "verbs/convert.h"
#include "verbs/domain.h"
#include "verbs/import.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct urv_context *c = urv_context(context);
	int rc = urv_check(URV_CONTEXT, context);
	struct urv_pd *pd;
	uint32_t handle;

	if (!rc)
		rc = ur_fault_call(UR_FAULT_alloc_pd);
	if (rc)
		return urv_null(rc);
	pd = urv_object_new(c, calloc(1, sizeof(*pd)), &c->device->pds,
			    c->device->spec->max.max_pd, &handle);
	if (!pd)
		return NULL;
	pd->ibv.handle = handle;
	pd->ibv.context = context;
	pd->root = pd;
	pd->device = c->device;
	pd->core.handle = pd->ibv.handle;
	urv_share(c->file, &pd->shared, URV_SHARED_PD, pd->ibv.handle);
	urv_object_add(&pd->entry, URV_PD, &pd->ibv);
	return &pd->ibv;
}

void urv_pd_free(struct urv_shared *s)
{
	urv_retire(URV_PD, ur_container_of(s, struct urv_pd, shared));
}

static void drop_handle(struct urv_pd *pd)
{
	struct urv_context *c = urv_context(pd->ibv.context);
	struct urv_pd *root = pd->root;

	if (pd != root)
		urv_retire(URV_PD, pd);
	urv_handle_put(&root->shared);
	urv_context_put(c);
}

/* Importers are informed twice, since an earlier call may not have waited. */
int urv_pd_end(struct urv_shared *s, bool wait)
{
	struct urv_pd *root = ur_container_of(s, struct urv_pd, shared);

	if (atomic_load(&root->core.users) != 0)
		return -EBUSY;
	if (urv_share_end(s))
		urv_limit_put(&root->device->pds);
	urv_export_end(s, wait);
	return 0;
}

/* The owner's regions keep it there, ours keep it here. */
static int end_imported(struct urv_pd *root)
{
	if (atomic_load(&root->core.users) != 0)
		return -EBUSY;
	return urv_import_destroy(&root->shared);
}

/*
 * A parent domain is freed by now; for another handle a reference is dropped.
 */
static int end(struct urv_pd *pd)
{
	if (pd->is_parent)
		return urv_parent_end(pd);
	return pd->root->shared.imported
		       ? end_imported(pd->root)
		       : urv_export_destroy(&pd->root->shared, true);
}

int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	int rc = urv_ending(URV_PD, ibpd);
	struct urv_pd *pd;

	if (rc)
		return urv_errno(rc);
	pd = urv_pd_handle(ibpd);
	rc = urv_ended(&pd->entry, end(pd));
	if (rc)
		return urv_errno(rc);
	if (pd->is_parent)
		urv_parent_free(pd);
	else
		drop_handle(pd);
	return 0;
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct urv_context *c = urv_context(context);
	int rc = urv_check(URV_CONTEXT, context);
	struct urv_shared *shared;
	struct urv_pd *pd;

	if (rc)
		return urv_null(rc);
	pd = urv_import_handle(c, URV_SHARED_PD, handle, sizeof(*pd), &shared);
	if (!pd)
		return NULL;
	pd->root = ur_container_of(shared, struct urv_pd, shared);
	pd->ibv.context = context;
	pd->ibv.handle = handle;
	urv_object_add(&pd->entry, URV_PD, &pd->ibv);
	return &pd->ibv;
}

void ibv_unimport_pd(struct ibv_pd *ibpd)
{
	if (urv_ending(URV_PD, ibpd))
		return;
	(void)urv_ended(&urv_pd_handle(ibpd)->entry, 0);
	drop_handle(urv_pd_handle(ibpd));
}
