/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/share.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/objects.h"

/* What another process reads to know what it was given. */
#define FILE_MAGIC 0x63696e7275u /* "urnic" */

struct file_mark {
	uint64_t magic;
	uint32_t device;
	int32_t pid;
};

struct urv_file {
	pthread_mutex_t lock;
	struct ur_list objects; /* of urv_shared.node; lock */
	struct ur_list node;	/* files; files_lock */
	_Atomic uint32_t refs;
	_Atomic uint32_t handles;
	uint32_t generation;
	uint32_t device;
	dev_t dev;
	ino_t ino;
};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ur_list files = { &files, &files };

static void forked_child(void)
{
	/* Other threads of the parent may have held them. */
	pthread_mutex_init(&files_lock, NULL);
	ur_list_for_each(n, &files)
		pthread_mutex_init(
			&ur_container_of(n, struct urv_file, node)->lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked_child);
}

static int mark_make(struct urv_file *f, int *fd)
{
	struct file_mark mark = { FILE_MAGIC, f->device, getpid() };
	struct stat st;
	int rc;

	*fd = memfd_create("urnic-context", MFD_CLOEXEC);
	if (*fd < 0)
		return -errno;
	if (pwrite(*fd, &mark, sizeof(mark), 0) != sizeof(mark) ||
	    fstat(*fd, &st)) {
		rc = errno ? -errno : -EIO;
		close(*fd);
		return rc;
	}
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	return 0;
}

int urv_file_create(uint32_t device, struct urv_file **out, int *fd)
{
	struct urv_file *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return -ENOMEM;
	f->device = device;
	f->refs = 1;
	f->generation = urv_generation;
	rc = mark_make(f, fd);
	if (rc) {
		free(f);
		return rc;
	}
	pthread_mutex_init(&f->lock, NULL);
	ur_list_init(&f->objects);
	pthread_mutex_lock(&files_lock);
	ur_list_add_tail(&files, &f->node);
	pthread_mutex_unlock(&files_lock);
	*out = f;
	return 0;
}

static struct urv_file *find_ours(const struct stat *st)
{
	struct urv_file *found = NULL;

	pthread_mutex_lock(&files_lock);
	ur_list_for_each(n, &files) {
		struct urv_file *f = ur_container_of(n, struct urv_file, node);

		if (f->generation == urv_generation && f->dev == st->st_dev &&
		    f->ino == st->st_ino) {
			atomic_fetch_add(&f->refs, 1);
			found = f;
			break;
		}
	}
	pthread_mutex_unlock(&files_lock);
	return found;
}

int urv_file_find(int fd, struct urv_file **out)
{
	struct file_mark mark;
	struct stat st;

	if (fstat(fd, &st) ||
	    pread(fd, &mark, sizeof(mark), 0) != sizeof(mark) ||
	    mark.magic != FILE_MAGIC)
		return -EINVAL;
	*out = find_ours(&st);
	return *out ? 0 : -EOPNOTSUPP;
}

/* The reference count is raised under files_lock, so it ends there too. */
void urv_file_put(struct urv_file *f)
{
	bool last;

	pthread_mutex_lock(&files_lock);
	last = atomic_fetch_sub(&f->refs, 1) == 1;
	if (last)
		ur_list_del(&f->node);
	pthread_mutex_unlock(&files_lock);
	if (!last)
		return;
	pthread_mutex_destroy(&f->lock);
	free(f);
}

uint32_t urv_file_device(const struct urv_file *f)
{
	return f->device;
}

uint32_t urv_file_handle(struct urv_file *f)
{
	return atomic_fetch_add(&f->handles, 1);
}

void urv_share(struct urv_file *f, struct urv_shared *s,
	       enum urv_shared_kind kind, uint32_t handle)
{
	atomic_fetch_add(&f->refs, 1);
	s->file = f;
	s->kind = kind;
	s->handle = handle;
	s->refs = 1;
	pthread_mutex_lock(&f->lock);
	ur_list_add_tail(&f->objects, &s->node);
	pthread_mutex_unlock(&f->lock);
}

struct urv_shared *urv_share_import(struct urv_file *f,
				    enum urv_shared_kind kind, uint32_t handle)
{
	struct urv_shared *found = NULL;

	pthread_mutex_lock(&f->lock);
	ur_list_for_each(n, &f->objects) {
		struct urv_shared *s =
			ur_container_of(n, struct urv_shared, node);

		if (s->kind == kind && s->handle == handle) {
			atomic_fetch_add(&s->refs, 1);
			found = s;
			break;
		}
	}
	pthread_mutex_unlock(&f->lock);
	return found;
}

bool urv_share_end(struct urv_shared *s)
{
	if (atomic_exchange(&s->gone, true))
		return false;
	pthread_mutex_lock(&s->file->lock);
	ur_list_del(&s->node);
	pthread_mutex_unlock(&s->file->lock);
	return true;
}

bool urv_share_put(struct urv_shared *s)
{
	struct urv_file *f = s->file;

	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return false;
	urv_share_end(s);
	urv_file_put(f);
	return true;
}
