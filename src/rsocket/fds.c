/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/fds.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/lock.h"

enum { PER_CHUNK = 256, CHUNKS = 4096 };

struct chunk {
	struct ur_lock lock;
	struct urs_ref *ref[PER_CHUNK];
};

/* Chunks come and stay, so finding one takes no lock. */
static _Atomic(struct chunk *) chunks[CHUNKS];
static struct ur_lock grow_lock = { PTHREAD_MUTEX_INITIALIZER };

static struct chunk *find_chunk(int fd)
{
	if (fd < 0 || fd >= PER_CHUNK * CHUNKS)
		return NULL;
	return atomic_load_explicit(&chunks[fd / PER_CHUNK],
				    memory_order_acquire);
}

static struct chunk *make_chunk(int fd)
{
	struct chunk *c;

	ur_lock_open(&grow_lock);
	c = find_chunk(fd);
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (c) {
			ur_lock_init(&c->lock);
			atomic_store_explicit(&chunks[fd / PER_CHUNK], c,
					      memory_order_release);
		}
	}
	ur_unlock_open(&grow_lock);
	return c;
}

int urs_fds_set(int fd, struct urs_ref *r)
{
	struct chunk *c = find_chunk(fd);
	struct urs_ref **slot;
	int rc = 0;

	if (fd < 0)
		return -EBADF;
	if (fd >= PER_CHUNK * CHUNKS)
		return -EMFILE;
	if (!c)
		c = make_chunk(fd);
	if (!c)
		return -ENOMEM;
	ur_lock_open(&c->lock);
	slot = &c->ref[fd % PER_CHUNK];
	if (*slot)
		rc = -EEXIST;
	else
		*slot = r;
	ur_unlock_open(&c->lock);
	return rc;
}

/* With one more reference, or removed with the table's own. */
static struct urs_ref *find(int fd, int kind, bool remove)
{
	struct chunk *c = find_chunk(fd);
	struct urs_ref *r;

	if (!c)
		return NULL;
	ur_lock_open(&c->lock);
	r = c->ref[fd % PER_CHUNK];
	if (r && r->kind != kind)
		r = NULL;
	else if (r && remove)
		c->ref[fd % PER_CHUNK] = NULL;
	else if (r)
		atomic_fetch_add(&r->count, 1);
	ur_unlock_open(&c->lock);
	return r;
}

struct urs_ref *urs_fds_get(int fd, int kind)
{
	return find(fd, kind, false);
}

void urs_fds_put(struct urs_ref *r)
{
	if (atomic_fetch_sub(&r->count, 1) == 1)
		r->release(r);
}

struct urs_ref *urs_fds_clear(int fd, int kind)
{
	return find(fd, kind, true);
}

void urs_fds_after_fork(void)
{
	ur_lock_init(&grow_lock);
	for (int i = 0; i < CHUNKS; i++) {
		struct chunk *c = atomic_load(&chunks[i]);

		if (c)
			ur_lock_init(&c->lock);
	}
}
