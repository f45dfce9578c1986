/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/share.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/memfile.h"
#include "base/rng.h"
#include "verbs/import.h"
#include "verbs/objects.h"

/* Handles of imported objects in a context; the owner's begin at 0. */
#define IMPORTED_HANDLES 0x80000000u

struct urv_file {
	pthread_mutex_t lock;
	struct ur_list objects; /* of urv_shared.node; lock */
	struct ur_list node;	/* files; files_lock */
	_Atomic uint32_t refs;
	_Atomic uint32_t handles;
	uint32_t generation;
	uint32_t device;
	uint8_t token[UR_IMPORT_TOKEN];
	struct urv_import_link *link; /* NULL: of this process */
	dev_t dev;
	ino_t ino;
};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ur_list files = { &files, &files };
static pthread_mutex_t import_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t ender_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ender_left = PTHREAD_COND_INITIALIZER;

static void forked_child(void)
{
	/* Other threads of the parent may have held them. */
	pthread_mutex_init(&files_lock, NULL);
	pthread_mutex_init(&import_lock, NULL);
	pthread_mutex_init(&ender_lock, NULL);
	pthread_cond_init(&ender_left, NULL);
	ur_list_each(struct urv_file, f, &files, node)
		pthread_mutex_init(&f->lock, NULL);
}

UR_FORK_CHILD(forked_child)

/* Without the right to listen, its contexts cannot be imported. */
static int mark_make(struct urv_file *f, const char *name, int *fd)
{
	struct urv_file_mark mark = { .magic = URV_FILE_MAGIC,
				      .pid = getpid() };
	struct stat st;
	int rc;

	ur_rng_secret(f->token, sizeof(f->token));
	memcpy(mark.token, f->token, sizeof(mark.token));
	strncpy(mark.device, name, sizeof(mark.device) - 1);
	if (ur_import_serve(&urv_import_hooks, mark.socket))
		mark.socket[0] = 0;
	*fd = ur_memfile("urnic-context");
	if (*fd < 0)
		return *fd;
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

static struct urv_file *file_new(uint32_t device)
{
	struct urv_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->device = device;
	f->refs = 1;
	f->generation = urv_generation;
	pthread_mutex_init(&f->lock, NULL);
	ur_list_init(&f->objects);
	ur_list_init(&f->node);
	return f;
}

static void file_free(struct urv_file *f)
{
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static void file_list(struct urv_file *f)
{
	pthread_mutex_lock(&files_lock);
	ur_list_add_tail(&files, &f->node);
	pthread_mutex_unlock(&files_lock);
}

int urv_file_create(uint32_t device, const char *name, struct urv_file **out,
		    int *fd)
{
	struct urv_file *f = file_new(device);
	int rc;

	if (!f)
		return -ENOMEM;
	rc = mark_make(f, name, fd);
	if (rc) {
		file_free(f);
		return rc;
	}
	file_list(f);
	*out = f;
	return 0;
}

static struct urv_file *find_ours(const struct stat *st)
{
	struct urv_file *found = NULL;

	pthread_mutex_lock(&files_lock);
	ur_list_each(struct urv_file, f, &files, node) {
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

struct urv_file *urv_file_by_token(const uint8_t token[UR_IMPORT_TOKEN])
{
	struct urv_file *found = NULL;

	pthread_mutex_lock(&files_lock);
	ur_list_each(struct urv_file, f, &files, node) {
		if (f->generation == urv_generation && !f->link &&
		    memcmp(f->token, token, UR_IMPORT_TOKEN) == 0) {
			atomic_fetch_add(&f->refs, 1);
			found = f;
			break;
		}
	}
	pthread_mutex_unlock(&files_lock);
	return found;
}

/* A file of another process, tracked from now on like an own one. */
static int file_import(const struct urv_file_mark *mark, const struct stat *st,
		       struct urv_file **out)
{
	uint32_t device;
	int rc = urv_import_device(mark, &device);
	struct urv_file *f = rc ? NULL : file_new(device);

	if (!f)
		return rc ? rc : -ENOMEM;
	f->handles = IMPORTED_HANDLES;
	f->dev = st->st_dev;
	f->ino = st->st_ino;
	rc = urv_import_open(f, mark, &f->link);
	if (rc) {
		file_free(f);
		return rc;
	}
	file_list(f);
	*out = f;
	return 0;
}

bool urv_file_tryget(struct urv_file *f)
{
	uint32_t refs = atomic_load(&f->refs);

	while (refs)
		if (atomic_compare_exchange_weak(&f->refs, &refs, refs + 1))
			return true;
	return false;
}

/* A file imported twice is still one: its objects fit together. */
int urv_file_find(int fd, struct urv_file **out)
{
	struct urv_file_mark mark;
	struct stat st;
	int rc = 0;

	if (fstat(fd, &st) ||
	    pread(fd, &mark, sizeof(mark), 0) != sizeof(mark) ||
	    mark.magic != URV_FILE_MAGIC)
		return -EINVAL;
	mark.device[sizeof(mark.device) - 1] = 0;
	mark.socket[sizeof(mark.socket) - 1] = 0;
	pthread_mutex_lock(&import_lock);
	*out = find_ours(&st);
	if (!*out)
		rc = file_import(&mark, &st, out);
	pthread_mutex_unlock(&import_lock);
	return rc;
}

/*
 * The reference count is raised under files_lock, so it drops to 0 there too.
 */
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
	if (f->link)
		urv_import_close(f->link);
	file_free(f);
}

const uint8_t *urv_file_token(const struct urv_file *f)
{
	return f->token;
}

struct urv_import_link *urv_file_link(const struct urv_file *f)
{
	return f->link;
}

uint32_t urv_file_device(const struct urv_file *f)
{
	return f->device;
}

uint32_t urv_file_handle(struct urv_file *f)
{
	return atomic_fetch_add(&f->handles, 1);
}

void urv_share_kept(struct urv_file *f, struct urv_shared *s,
		    enum urv_shared_kind kind, uint32_t handle)
{
	s->file = f;
	s->kind = kind;
	s->handle = handle;
	s->refs = 1;
	pthread_mutex_lock(&f->lock);
	ur_list_add_tail(&f->objects, &s->node);
	pthread_mutex_unlock(&f->lock);
}

void urv_share(struct urv_file *f, struct urv_shared *s,
	       enum urv_shared_kind kind, uint32_t handle)
{
	atomic_fetch_add(&f->refs, 1);
	urv_share_kept(f, s, kind, handle);
}

/* The first one; the lock is held. */
static struct urv_shared *find_imported(const struct urv_file *f)
{
	ur_list_each(struct urv_shared, s, &f->objects, node)
		if (s->imported)
			return s;
	return NULL;
}

void urv_share_end_imported(struct urv_file *f,
			    void (*fn)(struct urv_shared *s))
{
	for (;;) {
		struct urv_shared *s;

		pthread_mutex_lock(&f->lock);
		s = find_imported(f);
		if (s)
			atomic_fetch_add(&s->refs, 1);
		pthread_mutex_unlock(&f->lock);
		if (!s)
			return;
		fn(s);
	}
}

struct urv_shared *urv_share_import(struct urv_file *f,
				    enum urv_shared_kind kind, uint32_t handle)
{
	struct urv_shared *found = NULL;

	pthread_mutex_lock(&f->lock);
	ur_list_each(struct urv_shared, s, &f->objects, node) {
		if (s->kind == kind && s->handle == handle) {
			atomic_fetch_add(&s->refs, 1);
			found = s;
			break;
		}
	}
	pthread_mutex_unlock(&f->lock);
	return found;
}

bool urv_share_has_ended(const struct urv_shared *s)
{
	return s->file->link && urv_import_is_stale(s->file->link);
}

int urv_share_get(struct urv_file *f, enum urv_shared_kind kind,
		  uint32_t handle, struct urv_shared **out)
{
	/* After the owner gave up on us, we may not know yet what has ended. */
	*out = f->link && urv_import_is_stale(f->link)
		       ? NULL
		       : urv_share_import(f, kind, handle);
	if (*out)
		return 0;
	return f->link ? urv_import_object(f, kind, handle, out) : -ENOENT;
}

/* A thread of the parent, of another generation, does not exist here. */
static bool is_ending(const struct urv_shared *s)
{
	return s->ending_thread == urv_generation + 1;
}

static bool begin_ending(struct urv_shared *s, bool wait)
{
	bool ours;

	pthread_mutex_lock(&ender_lock);
	while (wait && is_ending(s))
		pthread_cond_wait(&ender_left, &ender_lock);
	ours = !is_ending(s);
	if (ours)
		s->ending_thread = urv_generation + 1;
	pthread_mutex_unlock(&ender_lock);
	return ours;
}

static void leave_ending(struct urv_shared *s)
{
	pthread_mutex_lock(&ender_lock);
	s->ending_thread = 0;
	pthread_cond_broadcast(&ender_left);
	pthread_mutex_unlock(&ender_lock);
}

int urv_share_finish(struct urv_shared *s, bool wait,
		     int (*fn)(struct urv_shared *s, bool wait))
{
	int rc;

	if (!begin_ending(s, wait))
		return 0;
	rc = fn(s, wait);
	leave_ending(s);
	return rc;
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

/* Atomic with lookup, so that no lookup returns an ended object. */
bool urv_share_put(struct urv_shared *s)
{
	struct urv_file *f = s->file;
	bool last;

	pthread_mutex_lock(&f->lock);
	last = atomic_fetch_sub(&s->refs, 1) == 1;
	if (last && !atomic_exchange(&s->gone, true))
		ur_list_del(&s->node);
	pthread_mutex_unlock(&f->lock);
	if (last)
		urv_file_put(f);
	return last;
}
