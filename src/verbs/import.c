/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The importer's side. Changes from the owner are delivered by the watcher,
 * possibly between our request and our use of its answer. So a thread that acts
 * on an answer checks whether changes have arrived since the request, and
 * repeats it if so.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/guard.h"
#include "base/log.h"
#include "verbs/convert.h"
#include "verbs/dm.h"
#include "verbs/import.h"
#include "verbs/mr.h"

struct urv_import_link {
	struct urv_file *file; /* the importing context's */
	struct ur_import_link *link;
	struct ur_list pds;	  /* urv_pd.kept; lock */
	_Atomic uint32_t changes; /* number of changes received; lock */
	bool lost;		  /* the owner has ended; lock */
};

#define ASK_MAX 100 /* changes are not that frequent */

/* Cores and memory of imported objects; taken before the key table's lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void forked_child(void)
{
	pthread_mutex_init(&lock, NULL);
}

UR_FORK_CHILD(forked_child)

int urv_import_device(const struct urv_file_mark *mark, uint32_t *index)
{
	const struct ur_config *config = ur_config_get();

	for (uint32_t i = 0; config && i < config->count; i++)
		if (strcmp(config->devices[i].name, mark->device) == 0) {
			*index = i;
			return 0;
		}
	ur_warn("import: there is no device %s here", mark->device);
	return -ENODEV;
}

int urv_import_open(struct urv_file *f, const struct urv_file_mark *mark,
		    struct urv_import_link **out)
{
	struct urv_import_link *b = calloc(1, sizeof(*b));
	int rc = -EOPNOTSUPP;

	if (!b)
		return -ENOMEM;
	b->file = f;
	ur_list_init(&b->pds);
	if (mark->socket[0])
		rc = ur_import_open(mark->socket, mark->token,
				    &urv_import_hooks, b, &b->link);
	if (rc) {
		ur_warn("import from process %d: %s", (int)mark->pid,
			rc == -EPERM ? "it is another user's"
			: rc == -EOPNOTSUPP
				? "it has ended, is in another network "
				  "namespace, or does not export"
				: strerror(-rc));
		free(b);
		return rc;
	}
	*out = b;
	return 0;
}

void urv_import_close(struct urv_import_link *b)
{
	ur_import_close(b->link);
	ur_list_each_safe(struct urv_pd, p, &b->pds, kept)
		free(p);
	free(b);
}

/* ---- domains; they live as long as the file ---- */

static struct urv_shared *pd_get(struct urv_import_link *b, uint32_t handle)
{
	struct urv_shared *s = urv_share_import(b->file, URV_SHARED_PD, handle);
	struct urv_pd *pd;

	if (s)
		return s;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->root = pd;
	pd->core.handle = handle;
	pd->shared.imported = true;
	ur_list_add_tail(&b->pds, &pd->kept);
	urv_share_kept(b->file, &pd->shared, URV_SHARED_PD, handle);
	atomic_fetch_add(&pd->shared.refs, 1);
	return &pd->shared;
}

/* ---- regions ---- */

static void mr_undo(struct urv_mr *mr)
{
	if (mr->core)
		(void)ur_mr_destroy(mr->table, mr->core);
	mr->core = NULL;
	if (mr->map.iov_base)
		munmap(mr->map.iov_base, mr->map.iov_len);
	mr->map = (struct iovec){ NULL, 0 };
	if (mr->remote_mem) {
		ur_imported_fini(mr->remote_mem);
		free(mr->remote_mem);
	}
	mr->remote_mem = NULL;
}

static const char *why_not(int rc)
{
	return rc == -EPERM ? "the kernel does not let us reach it (ptrace "
			      "rights, kernel.yama.ptrace_scope)"
	       : rc == -EOPNOTSUPP
		       ? "it is neither mapped from a file nor of a size that "
			 "has room here, its faults may take long (a file of "
			 "a server, userfaultfd), or its process is in "
			 "another namespace"
		       : strerror(-rc);
}

/* Memory that only its owner maps. It does not support atomics. */
static int reach_private(struct urv_import_link *b, struct urv_mr *mr,
			 const struct ur_import_object *o, struct ur_mr *want)
{
	const struct ur_owner *lender;
	int rc;

	lender = ur_import_lender(b->link, &rc);
	if (rc)
		return rc == -ESRCH ? -EOPNOTSUPP : rc;
	mr->remote_mem = calloc(1, sizeof(*mr->remote_mem));
	if (!mr->remote_mem)
		return -ENOMEM;
	rc = ur_imported_init(mr->remote_mem, lender, o->addr, o->length);
	if (rc) {
		free(mr->remote_mem);
		mr->remote_mem = NULL;
		return -EOPNOTSUPP;
	}
	want->addr = mr->remote_mem->remote.base;
	want->access &= ~(uint32_t)UR_ACCESS_REMOTE_ATOMIC;
	want->kind = UR_MR_REMOTE;
	return 0;
}

static int reach_memory(struct urv_import_link *b, struct urv_mr *mr,
			const struct ur_import_object *o, int fd,
			struct ur_mr *want)
{
	if (o->flags & UR_IMPORT_NULL) {
		want->kind = UR_MR_NULL;
		want->length = UINT64_MAX;
		want->access = UR_ACCESS_LOCAL_WRITE;
		return 0;
	}
	if (o->length > UINT64_MAX - o->iova ||
	    o->length > UINT64_MAX - o->addr)
		return -EINVAL;
	want->kind = UR_MR_FOREIGN;
	if (o->flags & UR_IMPORT_FILE && fd >= 0)
		want->addr = ur_map_imported(fd, o->offset, o->length,
					     o->access & UR_ACCESS_LOCAL_WRITE,
					     &mr->map);
	if (want->addr)
		return 0;
	return o->flags & UR_IMPORT_SOON ? reach_private(b, mr, o, want)
					 : -EOPNOTSUPP;
}

/* The region as its owner describes it. Windows can be bound only where the
 * region was registered. */
static int mr_do(struct urv_import_link *b, struct urv_mr *mr,
		 const struct ur_import_object *o, int fd)
{
	struct urv_shared *pd = pd_get(b, o->pd);
	struct ur_mr want = {
		.key = o->key,
		.access = o->access & ~(uint32_t)UR_ACCESS_MW_BIND,
		.iova = o->iova,
		.length = o->length,
	};
	int rc;

	if (!pd)
		return -ENOMEM;
	want.pd = &ur_container_of(pd, struct urv_pd, shared)->core;
	rc = reach_memory(b, mr, o, fd, &want);
	if (!rc)
		rc = ur_mr_import(mr->table, &want, &mr->core);
	urv_share_put(pd);
	if (!rc) {
		urv_mr_is(mr, want.length, o->key,
			  o->flags & UR_IMPORT_NULL ? 0 : o->key);
		return 0;
	}
	mr_undo(mr);
	ur_warn("import of region %u, key %#x: %s", o->handle, o->key,
		rc == -EEXIST ? "a key of this process has the same upper bits"
			      : why_not(rc));
	return rc;
}

static int mr_make(struct urv_import_link *b, const struct ur_import_object *o,
		   int fd, struct urv_shared **out)
{
	struct ur_adapter *adapter;
	struct urv_mr *mr;
	int rc = ur_adapter_get_at(urv_file_device(b->file), &adapter);

	if (rc)
		return rc;
	mr = calloc(1, sizeof(*mr));
	if (!mr) {
		rc = -ENOMEM;
		goto put_adapter;
	}
	mr->root = mr;
	mr->adapter = adapter;
	mr->table = ur_adapter_mrs(adapter);
	rc = mr_do(b, mr, o, fd);
	if (rc)
		goto free_mr;
	mr->shared.imported = true;
	urv_share(b->file, &mr->shared, URV_SHARED_MR, o->handle);
	*out = &mr->shared;
	return 0;

free_mr:
	free(mr);
put_adapter:
	ur_adapter_put(adapter);
	return rc;
}

void urv_import_release_mr(struct urv_mr *root)
{
	pthread_mutex_lock(&lock);
	mr_undo(root);
	pthread_mutex_unlock(&lock);
	ur_adapter_put(root->adapter);
}

/* ---- the link ---- */

static int make(struct urv_import_link *b, const struct ur_import_object *o,
		int fd, struct urv_shared **out)
{
	switch ((enum urv_shared_kind)o->kind) {
	case URV_SHARED_PD:
		*out = pd_get(b, o->handle);
		return *out ? 0 : -ENOMEM;
	case URV_SHARED_MR:
		return mr_make(b, o, fd, out);
	case URV_SHARED_DM:
		return urv_dm_import(b->file, o, fd, out);
	}
	return -EINVAL;
}

/* -EAGAIN: the owner's answer may be outdated. */
static int act(struct urv_import_link *b, const struct ur_import_object *o,
	       int fd, uint32_t changes, struct urv_shared **out)
{
	int rc = -EAGAIN;

	pthread_mutex_lock(&lock);
	*out = urv_share_import(b->file, (enum urv_shared_kind)o->kind,
				o->handle);
	if (*out)
		rc = 0;
	else if (b->lost)
		rc = -EIO;
	else if (b->changes == changes)
		rc = make(b, o, fd, out);
	pthread_mutex_unlock(&lock);
	return rc;
}

bool urv_import_is_stale(const struct urv_import_link *b)
{
	int may;

	return ur_owner_has_ended(ur_import_lender(b->link, &may));
}

int urv_import_object(struct urv_file *f, enum urv_shared_kind kind,
		      uint32_t handle, struct urv_shared **out)
{
	struct urv_import_link *b = urv_file_link(f);
	int rc = ur_guard_install();

	for (int i = 0; i < ASK_MAX && !rc; i++) {
		uint32_t changes = atomic_load(&b->changes);
		struct ur_import_object o;
		int fd = -1;

		rc = ur_import_ask(b->link, kind, handle, &o, &fd);
		if (!rc && (o.kind != kind || o.handle != handle))
			rc = -EIO;
		if (!rc)
			rc = act(b, &o, fd, changes, out);
		if (fd >= 0)
			close(fd);
		if (rc != -EAGAIN)
			return rc;
		rc = 0;
	}
	return rc ? rc : -EIO;
}

void *urv_import_handle(struct urv_context *c, enum urv_shared_kind kind,
			uint32_t handle, size_t size, struct urv_shared **root)
{
	int rc = urv_share_get(c->file, kind, handle, root);
	uint32_t own;
	void *object;

	if (rc)
		return urv_null(rc);
	object = urv_object_new(c, calloc(1, size), NULL, 0, &own);
	if (object)
		return object;
	rc = -errno;
	urv_handle_put(*root);
	return urv_null(rc);
}

/* The object has ended, or (o) was re-registered; lock is held. */
static void follow(struct urv_import_link *b, struct urv_shared *s,
		   const struct ur_import_object *o, int fd)
{
	struct urv_mr *mr = ur_container_of(s, struct urv_mr, shared);
	bool gone = !o || o->flags & UR_IMPORT_GONE;

	if (s->kind == URV_SHARED_MR) {
		mr_undo(mr);
		if (!gone)
			gone = mr_do(b, mr, o, fd) != 0;
	}
	if (gone)
		urv_share_end(s);
}

void urv_import_changed(void *arg, const struct ur_import_object *o, int fd)
{
	struct urv_import_link *b = arg;
	struct urv_shared *s;

	pthread_mutex_lock(&lock);
	atomic_fetch_add(&b->changes, 1);
	s = urv_share_import(b->file, (enum urv_shared_kind)o->kind, o->handle);
	if (s)
		follow(b, s, o, fd);
	pthread_mutex_unlock(&lock);
	if (s)
		urv_handle_put(s);
}

static void end_lost(struct urv_shared *s)
{
	pthread_mutex_lock(&lock);
	follow(NULL, s, NULL, -1);
	pthread_mutex_unlock(&lock);
	urv_handle_put(s);
}

void urv_import_owner_lost(void *arg)
{
	struct urv_import_link *b = arg;
	struct urv_file *f = b->file;

	/*
	 * Each region holds a reference, so without one there are no regions.
	 */
	if (!urv_file_tryget(f))
		return;
	pthread_mutex_lock(&lock);
	b->lost = true;
	atomic_fetch_add(&b->changes, 1);
	pthread_mutex_unlock(&lock);
	urv_share_end_imported(f, end_lost);
	urv_file_put(f);
}

/* An owner that has ended counts as success. */
int urv_import_destroy(struct urv_shared *s)
{
	struct urv_import_link *b = urv_file_link(s->file);
	int rc = 0;

	if (!atomic_load(&s->gone))
		rc = ur_import_end(b->link, s->kind, s->handle);
	if (rc && rc != -ENOENT && rc != -EIO)
		return rc;
	pthread_mutex_lock(&lock);
	follow(b, s, NULL, -1);
	pthread_mutex_unlock(&lock);
	return 0;
}
