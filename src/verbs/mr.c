/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/mr.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/fork.h"
#include "base/guard.h"
#include "core/umr.h"
#include "fault/state.h"
#include "verbs/convert.h"
#include "verbs/import.h"

/* verbs.h wraps them to select the registration call. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* Roots' cores, and the data derived from them: written by re-registration,
 * read by deregistration. An importer may end a region at any time. */
static pthread_rwlock_t cores = PTHREAD_RWLOCK_INITIALIZER;

static void forked_child(void)
{
	pthread_rwlock_init(&cores, NULL);
}

UR_FORK_CHILD(forked_child)

static void publish(struct urv_mr *mr, struct ibv_pd *pd)
{
	const struct ur_mr *core = mr->root->core;

	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = core->addr;
	mr->ibv.length = core->length;
	mr->ibv.lkey = core->key;
	mr->ibv.rkey = core->kind == UR_MR_NULL ? 0 : core->key;
}

static int core_create(struct urv_mr *mr, const struct urv_context *c,
		       struct ur_pd *pd, const struct urv_mr_spec *s)
{
	int rc;

	if (s->kind == UR_MR_NULL)
		return ur_mr_create_null(c->mrs, pd, &mr->core);
	if (s->kind == UR_MR_INDIRECT)
		return ur_umr_create(c->mrs, pd, s->max_list, &mr->core);
	rc = ur_mr_create(c->mrs, pd, s->addr, s->length, s->iova,
			  s->access & ~(uint32_t)UR_ACCESS_OPTIONAL, &mr->core);
	if (!rc)
		mr->core->kind = s->kind;
	return rc;
}

struct urv_mr *urv_mr_create(struct ibv_pd *pd, const struct urv_mr_spec *s)
{
	int rc = urv_check(URV_PD, pd);
	struct urv_context *c;
	struct urv_mr *mr;
	uint32_t handle;

	/* It may be unmapped while peers write to it. */
	if (!rc)
		rc = ur_guard_install();
	if (!rc)
		rc = ur_fault_call(UR_FAULT_reg_mr);
	if (rc)
		return urv_null(rc);
	c = urv_context(pd->context);
	mr = urv_object_new(c, calloc(1, sizeof(*mr)), &c->device->mrs,
			    c->device->spec->max.max_mr, &handle);
	if (!mr)
		return NULL;
	rc = core_create(mr, c, &urv_pd(pd)->core, s);
	if (rc) {
		urv_object_drop(c, mr, &c->device->mrs);
		return urv_null(rc);
	}
	mr->ibv.handle = handle;
	mr->root = mr;
	mr->table = c->mrs;
	mr->device = c->device;
	atomic_store(&mr->pd_handle, urv_pd(pd)->core.handle);
	mr->core->object = &mr->ibv;
	publish(mr, pd);
	urv_share(c->file, &mr->shared, URV_SHARED_MR, mr->ibv.handle);
	urv_object_add(&mr->entry, URV_MR, &mr->ibv);
	return mr;
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length,
			  uint64_t iova, uint32_t access)
{
	const struct urv_mr_spec spec = {
		.addr = addr, .length = length, .iova = iova, .access = access
	};
	struct urv_mr *mr;

	/* ibv_reg_mr(3): huge pages are promised of one range, not of all. */
	if (!addr && length == SIZE_MAX && access & UR_ACCESS_HUGETLB)
		return urv_null(-EINVAL);
	mr = urv_mr_create(pd, &spec);
	return mr ? &mr->ibv : NULL;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			  int access)
{
	return reg(pd, addr, length, (uintptr_t)addr, (uint32_t)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
			       uint64_t iova, int access)
{
	return reg(pd, addr, length, iova, (uint32_t)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
				uint64_t iova, unsigned int access)
{
	return reg(pd, addr, length, iova, access);
}

/* Every failure leaves the region unchanged, which this code means. */
static int rereg_failed(int rc)
{
	errno = -rc;
	return IBV_REREG_MR_ERR_INPUT;
}

/* Unchanged attributes keep their value in the structure. */
static void republish(struct ibv_mr *mr, uint32_t flags, struct ibv_pd *pd)
{
	const struct ur_mr *core = urv_mr(mr)->core;

	if (flags & IBV_REREG_MR_CHANGE_PD) {
		mr->context = pd->context;
		mr->pd = pd;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = core->addr;
		mr->length = core->length;
	}
}

/* -ENOENT: it has ended, maybe through another handle. */
static int rereg(struct ibv_mr *ibmr, uint32_t flags, struct ibv_pd *pd,
		 void *addr, size_t length, uint32_t access)
{
	struct urv_mr *root = urv_mr(ibmr);
	int rc = -ENOENT;

	pthread_rwlock_wrlock(&cores);
	if (!root->ended)
		rc = ur_mr_rereg(root->table, &root->core, flags,
				 &urv_pd(pd)->core, addr, length,
				 access & ~(uint32_t)UR_ACCESS_OPTIONAL);
	if (!rc) {
		atomic_store(&root->pd_handle, urv_pd(pd)->core.handle);
		republish(ibmr, flags, pd);
		/* for future handles */
		root->ibv.length = root->core->length;
	}
	pthread_rwlock_unlock(&cores);
	return rc;
}

static int check_rereg(const struct ibv_mr *ibmr, int flags,
		       const struct ibv_pd *pd)
{
	int rc = urv_check(URV_MR, ibmr);

	if (!rc && (flags & IBV_REREG_MR_CHANGE_PD) && pd)
		rc = urv_check(URV_PD, pd);
	return rc ? rc : urv_context_check(ibmr->context);
}

int ibv_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *pd, void *addr,
		 size_t length, int access)
{
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	int rc = check_rereg(ibmr, flags, pd);
	struct urv_context *c;
	struct urv_mr *mr;

	if (rc == -ENOENT)
		return rereg_failed(rc);
	c = urv_context(ibmr->context);
	mr = urv_mr(ibmr);
	if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) ||
	    (moves && (length == 0 || !addr)) ||
	    (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS)) ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && !pd))
		return rereg_failed(-EINVAL);
	if (c->generation != urv_generation)
		return rereg_failed(-ENODEV);
	if (rc)
		return rereg_failed(rc);
	if (mr->shared.imported)
		return rereg_failed(-EOPNOTSUPP);
	if (!(flags & IBV_REREG_MR_CHANGE_PD))
		pd = ibmr->pd;
	rc = rereg(ibmr, (uint32_t)flags, pd, addr, length, (uint32_t)access);
	if (rc)
		return rereg_failed(rc);
	urv_export_changed(mr);
	return 0;
}

void urv_mr_free(struct urv_shared *s)
{
	struct urv_mr *root = ur_container_of(s, struct urv_mr, shared);

	if (s->imported)
		urv_import_release_mr(root);
	urv_retire(URV_MR, root);
}

static void drop_handle(struct urv_mr *mr)
{
	struct urv_context *c = urv_context(mr->ibv.context);
	struct urv_mr *root = mr->root;

	if (mr != root)
		urv_retire(URV_MR, mr);
	urv_handle_put(&root->shared);
	urv_context_put(c);
}

static int end_core(struct urv_mr *root)
{
	int rc;

	pthread_rwlock_rdlock(&cores);
	rc = ur_mr_destroy(root->table, root->core);
	root->ended = !rc;
	pthread_rwlock_unlock(&cores);
	return rc;
}

/* Importers are informed twice, since an earlier call may not have waited. */
int urv_mr_end(struct urv_shared *s, bool wait)
{
	struct urv_mr *root = ur_container_of(s, struct urv_mr, shared);
	bool again = root->ended;
	int rc = again ? 0 : end_core(root);

	if (rc)
		return rc;
	urv_share_end(s);
	urv_export_end(s, wait);
	if (again)
		return 0;
	urv_limit_put(&root->device->mrs);
	urv_mr_release(root);
	return 0;
}

static int end(struct ibv_mr *ibmr)
{
	struct urv_context *c = urv_context(ibmr->context);
	struct urv_mr *root = urv_mr(ibmr);

	if (c->generation != urv_generation)
		return -ENODEV;
	return root->shared.imported ? urv_import_destroy(&root->shared)
				     : urv_export_destroy(&root->shared, true);
}

int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	int rc = urv_ending(URV_MR, ibmr);

	if (!rc)
		rc = urv_ended(&urv_mr_handle(ibmr)->entry, end(ibmr));
	if (rc)
		return urv_errno(rc);
	drop_handle(urv_mr_handle(ibmr));
	return 0;
}

void urv_mr_is(struct urv_mr *root, uint64_t length, uint32_t lkey,
	       uint32_t rkey)
{
	pthread_rwlock_wrlock(&cores);
	root->ibv.length = length;
	root->ibv.lkey = lkey;
	root->ibv.rkey = rkey;
	pthread_rwlock_unlock(&cores);
}

/* ibv_import_mr(3): its address means nothing to the importer. */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	int rc = urv_check(URV_PD, pd);
	struct urv_shared *shared;
	struct urv_mr *mr, *root;

	if (rc)
		return urv_null(rc);
	mr = urv_import_handle(urv_context(pd->context), URV_SHARED_MR, handle,
			       sizeof(*mr), &shared);
	if (!mr)
		return NULL;
	root = ur_container_of(shared, struct urv_mr, shared);
	mr->root = root;
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	pthread_rwlock_rdlock(&cores);
	mr->ibv.length = root->ibv.length;
	mr->ibv.lkey = root->ibv.lkey;
	mr->ibv.rkey = root->ibv.rkey;
	pthread_rwlock_unlock(&cores);
	mr->ibv.handle = handle;
	urv_object_add(&mr->entry, URV_MR, &mr->ibv);
	return &mr->ibv;
}

void ibv_unimport_mr(struct ibv_mr *ibmr)
{
	if (urv_ending(URV_MR, ibmr))
		return;
	(void)urv_ended(&urv_mr_handle(ibmr)->entry, 0);
	drop_handle(urv_mr_handle(ibmr));
}
