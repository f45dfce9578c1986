/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: a card's on-board memory is here a memfd, so that it can be
 * passed on like a dma-buf. It needs no adapter, so a child after fork() may
 * allocate some through an inherited context.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/guard.h"
#include "base/memfile.h"
#include "shm/imported.h"
#include "verbs/convert.h"
#include "verbs/dm.h"
#include "verbs/import.h"
#include "verbs/ops.h"

#define MAX_LOG_ALIGN 12u /* mappings begin on a page */
#define ACCESS_ALIGN  4u  /* as mlx5: copies are of whole words */

/* Serializes creation of regions and exports with the memory's end. */
static pthread_mutex_t export_lock = PTHREAD_MUTEX_INITIALIZER;

static void forked_child(void)
{
	pthread_mutex_init(&export_lock, NULL);
}

UR_FORK_CHILD(forked_child)

static int check_copy(const struct urv_dm *dm, uint64_t offset, size_t length)
{
	size_t has = atomic_load_explicit(&dm->length, memory_order_relaxed);

	if (offset > has || length > has - offset)
		return -EFAULT;
	if ((offset | length) & (ACCESS_ALIGN - 1))
		return -EINVAL;
	return 0;
}

static int copy_to(struct ibv_dm *ibdm, uint64_t offset, const void *from,
		   size_t length)
{
	struct urv_dm *dm = urv_dm(ibdm);
	int rc = check_copy(dm, offset, length);

	if (rc)
		return urv_errno(rc);
	return urv_errno(ur_guard_copy(dm->map + offset, from, length));
}

static int copy_from(void *to, struct ibv_dm *ibdm, uint64_t offset,
		     size_t length)
{
	struct urv_dm *dm = urv_dm(ibdm);
	int rc = check_copy(dm, offset, length);

	if (rc)
		return urv_errno(rc);
	return urv_errno(ur_guard_copy(to, dm->map + offset, length));
}

static void publish(struct urv_dm *dm, struct ibv_context *context)
{
	dm->ibv.context = context;
	dm->ibv.memcpy_to_dm = copy_to;
	dm->ibv.memcpy_from_dm = copy_from;
	dm->ibv.comp_mask = IBV_DM_MASK_HANDLE;
}

static int memory_make(struct urv_dm *dm)
{
	int rc;

	dm->fd = ur_memfile("urnic-dm");
	if (dm->fd < 0)
		return dm->fd;
	if (ftruncate(dm->fd, (off_t)dm->bytes))
		goto close_fd;
	dm->map = mmap(NULL, dm->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		       dm->fd, 0);
	if (dm->map != MAP_FAILED)
		return 0;
close_fd:
	rc = -errno;
	close(dm->fd);
	return rc;
}

static void memory_drop(struct urv_dm *dm)
{
	munmap(dm->map, dm->bytes);
	close(dm->fd);
}

/*
 * Reserves bytes of the device's total, the limit of a single allocation, too.
 */
static int take_bytes(struct urv_device *d, size_t bytes)
{
	if (atomic_fetch_add(&d->dm_bytes, bytes) <= UR_MAX_DM_BYTES - bytes)
		return 0;
	atomic_fetch_sub(&d->dm_bytes, bytes);
	return -ENOMEM;
}

struct ibv_dm *urv_alloc_dm(struct ibv_context *context,
			    struct ibv_alloc_dm_attr *attr)
{
	struct urv_context *c = urv_context(context);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct urv_dm *dm;
	int rc = urv_check(URV_CONTEXT, context);

	if (!rc)
		rc = urv_context_check(context);
	if (rc)
		return urv_null(rc);
	if (attr->comp_mask || attr->length == 0 ||
	    attr->log_align_req > MAX_LOG_ALIGN)
		return urv_null(-EINVAL);
	if (attr->length > UR_MAX_DM_BYTES)
		return urv_null(-ENOMEM);
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return urv_null(-ENOMEM);
	dm->root = dm;
	dm->device = c->device;
	dm->length = attr->length;
	dm->bytes = (attr->length + page - 1) / page * page;
	rc = take_bytes(c->device, dm->bytes);
	if (rc)
		goto free_dm;
	rc = memory_make(dm);
	if (rc)
		goto give_bytes;
	urv_context_ref(c, &dm->ibv.handle);
	publish(dm, context);
	urv_share(c->file, &dm->shared, URV_SHARED_DM, dm->ibv.handle);
	urv_object_add(&dm->entry, URV_DM, &dm->ibv);
	return &dm->ibv;

give_bytes:
	atomic_fetch_sub(&c->device->dm_bytes, dm->bytes);
free_dm:
	free(dm);
	return urv_null(rc);
}

/*
 * Only now: until then another thread may be copying, if only to find it freed.
 */
void urv_dm_free(struct urv_shared *s)
{
	struct urv_dm *root = ur_container_of(s, struct urv_dm, shared);

	memory_drop(root);
	urv_retire(URV_DM, root);
}

static void drop_handle(struct urv_dm *dm)
{
	struct urv_context *c = urv_context(dm->ibv.context);
	struct urv_dm *root = dm->root;

	if (dm != root)
		urv_retire(URV_DM, dm);
	urv_handle_put(&root->shared);
	urv_context_put(c);
}

int urv_dm_use(struct urv_dm *dm, uint64_t offset, size_t length)
{
	int rc = -EINVAL;

	size_t has;

	pthread_mutex_lock(&export_lock);
	has = atomic_load(&dm->length);
	if (has && offset <= has && length <= has - offset) {
		atomic_fetch_add(&dm->mrs, 1);
		atomic_fetch_add(&dm->shared.refs, 1);
		rc = 0;
	}
	pthread_mutex_unlock(&export_lock);
	return rc;
}

void urv_dm_unuse(struct urv_dm *dm)
{
	atomic_fetch_sub(&dm->mrs, 1);
	urv_handle_put(&dm->shared);
}

/* From here on the length is 0: no region can be created on it, and no copy
 * begins. */
static int close_to_users(struct urv_dm *root)
{
	int rc = 0;

	pthread_mutex_lock(&export_lock);
	if (atomic_load(&root->mrs) != 0)
		rc = -EBUSY;
	else
		atomic_store(&root->length, 0);
	pthread_mutex_unlock(&export_lock);
	return rc;
}

/* Importers are informed twice, since an earlier call may not have waited. */
int urv_dm_end(struct urv_shared *s, bool wait)
{
	struct urv_dm *root = ur_container_of(s, struct urv_dm, shared);
	int rc = close_to_users(root);

	if (rc)
		return rc;
	if (urv_share_end(s))
		atomic_fetch_sub(&root->device->dm_bytes, root->bytes);
	urv_export_end(s, wait);
	return 0;
}

static int end(struct urv_dm *root)
{
	if (!root->shared.imported)
		return urv_export_destroy(&root->shared, true);
	return atomic_load(&root->mrs) ? -EBUSY
				       : urv_import_destroy(&root->shared);
}

int urv_free_dm(struct ibv_dm *ibdm)
{
	int rc = urv_ending(URV_DM, ibdm);

	if (!rc)
		rc = urv_ended(&urv_dm_handle(ibdm)->entry, end(urv_dm(ibdm)));
	if (rc)
		return urv_errno(rc);
	drop_handle(urv_dm_handle(ibdm));
	return 0;
}

int urv_dm_export(struct urv_shared *s, struct ur_import_object *o, int *fd)
{
	struct urv_dm *root = ur_container_of(s, struct urv_dm, shared);
	int rc = -ENOENT;

	atomic_store(&root->shared.exported, true);
	pthread_mutex_lock(&export_lock);
	if (root->length) {
		*fd = fcntl(root->fd, F_DUPFD_CLOEXEC, 0);
		rc = *fd < 0 ? -errno : 0;
	}
	o->length = root->length;
	pthread_mutex_unlock(&export_lock);
	o->flags = UR_IMPORT_FILE;
	return rc;
}

int urv_dm_import(struct urv_file *f, const struct ur_import_object *o, int fd,
		  struct urv_shared **out)
{
	struct urv_dm *dm = calloc(1, sizeof(*dm));
	struct iovec map;

	if (!dm)
		return -ENOMEM;
	dm->root = dm;
	dm->length = o->length;
	dm->map = fd < 0 ? NULL : ur_map_imported(fd, 0, o->length, true, &map);
	if (!dm->map) {
		free(dm);
		return -EOPNOTSUPP;
	}
	dm->bytes = map.iov_len;
	dm->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (dm->fd < 0) {
		munmap(dm->map, dm->bytes);
		free(dm);
		return -EMFILE;
	}
	dm->shared.imported = true;
	urv_share(f, &dm->shared, URV_SHARED_DM, o->handle);
	*out = &dm->shared;
	return 0;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	struct urv_context *c = urv_context(context);
	int rc = urv_check(URV_CONTEXT, context);
	struct urv_shared *shared;
	struct urv_dm *dm;

	if (rc)
		return urv_null(rc);
	dm = urv_import_handle(c, URV_SHARED_DM, handle, sizeof(*dm), &shared);
	if (!dm)
		return NULL;
	dm->root = ur_container_of(shared, struct urv_dm, shared);
	publish(dm, context);
	dm->ibv.handle = handle;
	urv_object_add(&dm->entry, URV_DM, &dm->ibv);
	return &dm->ibv;
}

void ibv_unimport_dm(struct ibv_dm *ibdm)
{
	if (urv_ending(URV_DM, ibdm))
		return;
	(void)urv_ended(&urv_dm_handle(ibdm)->entry, 0);
	drop_handle(urv_dm_handle(ibdm));
}

int ibv_dm_export_dmabuf_fd(struct ibv_dm *ibdm)
{
	int fd = urv_check(URV_DM, ibdm);
	struct urv_dm *dm;

	if (fd)
		return urv_minus_one(fd);
	dm = urv_dm(ibdm);
	fd = -EINVAL;
	pthread_mutex_lock(&export_lock);
	if (!atomic_load(&dm->shared.gone)) {
		fd = fcntl(dm->fd, F_DUPFD_CLOEXEC, 0);
		fd = fd < 0 ? -errno : fd;
	}
	pthread_mutex_unlock(&export_lock);
	return fd < 0 ? urv_minus_one(fd) : fd;
}
