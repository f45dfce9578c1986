/* SPDX-License-Identifier: BSD-2-Clause */
/* The owner's side of import: called by the watcher for importers, and by the
 * application's calls that end or change an object. */
#include "verbs/import.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shm/backing.h"
#include "verbs/dm.h"
#include "verbs/domain.h"
#include "verbs/mr.h"

/*
 * It is marked as exported, then looked up by its key; removal takes it out of
 * the key table, then checks the mark. So either it is not found here, or the
 * removal informs importers.
 */
static int describe_mr(struct urv_shared *s, struct ur_import_object *o,
		       int *fd)
{
	struct urv_mr *root = ur_container_of(s, struct urv_mr, shared);
	struct ur_backing where;
	struct ur_mr mr;

	atomic_store(&root->shared.exported, true);
	if (ur_mr_peek(root->table, root->ibv.lkey, &mr))
		return -ENOENT;
	if (mr.kind == UR_MR_INDIRECT)
		return -EOPNOTSUPP;
	o->pd = atomic_load(&root->pd_handle);
	o->key = root->ibv.lkey;
	o->access = mr.access;
	o->iova = mr.iova;
	o->length = mr.length;
	o->addr = (uintptr_t)mr.addr;
	o->flags = mr.kind == UR_MR_NULL ? UR_IMPORT_NULL : 0;
	if (o->flags)
		return 0;
	if (ur_faults_are_bounded(o->addr, o->addr + o->length))
		o->flags = UR_IMPORT_SOON;
	if (mr.access & UR_ACCESS_ON_DEMAND || mr.length == 0 ||
	    ur_backing_export(mr.addr, mr.length, &where) || where.fd < 0)
		return 0;
	o->flags |= UR_IMPORT_FILE;
	o->offset = where.offset;
	*fd = where.fd;
	return 0;
}

static int describe_pd(struct urv_shared *s, struct ur_import_object *o,
		       int *fd)
{
	return 0;
}

/* What differs between the kinds. */
static const struct {
	/* For importers: a description, and a descriptor or -1. */
	int (*describe)(struct urv_shared *s, struct ur_import_object *o,
			int *fd);
	/* Destroy it, regardless of handles: 0, or -EBUSY. */
	int (*end)(struct urv_shared *s, bool wait);
	/* No handle is left. */
	void (*free)(struct urv_shared *s);
} kinds[] = {
	[URV_SHARED_PD] = { describe_pd, urv_pd_end, urv_pd_free },
	[URV_SHARED_MR] = { describe_mr, urv_mr_end, urv_mr_free },
	[URV_SHARED_DM] = { urv_dm_export, urv_dm_end, urv_dm_free },
};

void urv_handle_put(struct urv_shared *s)
{
	if (urv_share_put(s))
		kinds[s->kind].free(s);
}

int urv_export_destroy(struct urv_shared *s, bool wait)
{
	return urv_share_finish(s, wait, kinds[s->kind].end);
}

/* The object of a file of this process, and the file, both referenced. */
static struct urv_shared *find(const uint8_t token[UR_IMPORT_TOKEN],
			       uint32_t kind, uint32_t handle,
			       struct urv_file **f)
{
	struct urv_shared *s;

	*f = urv_file_by_token(token);
	if (!*f)
		return NULL;
	s = urv_share_import(*f, (enum urv_shared_kind)kind, handle);
	if (!s)
		urv_file_put(*f);
	return s;
}

static int describe(const uint8_t token[UR_IMPORT_TOKEN], uint32_t kind,
		    uint32_t handle, struct ur_import_object *out, int *fd)
{
	struct urv_file *f;
	struct urv_shared *s = find(token, kind, handle, &f);
	int rc;

	if (!s)
		return -ENOENT;
	*out = (struct ur_import_object){ .kind = kind, .handle = handle };
	rc = kinds[s->kind].describe(s, out, fd);
	urv_handle_put(s);
	urv_file_put(f);
	return rc;
}

static int end(const uint8_t token[UR_IMPORT_TOKEN], uint32_t kind,
	       uint32_t handle)
{
	struct urv_file *f;
	struct urv_shared *s = find(token, kind, handle, &f);
	int rc;

	if (!s)
		return -ENOENT;
	rc = urv_export_destroy(s, false);
	urv_handle_put(s);
	urv_file_put(f);
	return rc;
}

const struct ur_import_hooks urv_import_hooks = {
	.describe = describe,
	.end = end,
	.changed = urv_import_changed,
	.lost = urv_import_owner_lost,
};

/* An importer may know the domain through its regions only. */
void urv_export_end(struct urv_shared *s, bool wait)
{
	const struct ur_import_object o = { .kind = s->kind,
					    .handle = s->handle,
					    .flags = UR_IMPORT_GONE };

	if (s->kind == URV_SHARED_PD || atomic_load(&s->exported))
		ur_import_tell(urv_file_token(s->file), &o, -1, wait);
}

void urv_export_changed(struct urv_mr *root)
{
	struct ur_import_object o = { .kind = URV_SHARED_MR,
				      .handle = root->shared.handle };
	int fd = -1;

	if (!atomic_load(&root->shared.exported))
		return;
	if (describe_mr(&root->shared, &o, &fd))
		o.flags = UR_IMPORT_GONE;
	ur_import_tell(urv_file_token(root->shared.file), &o, fd, true);
	if (fd >= 0)
		close(fd);
}
