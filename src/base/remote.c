/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation.  Every guarded copy of the process looks its addresses
 * up here as soon as there is one region, from any thread and under any lock,
 * so lookups take no lock.  The table exists twice, sorted by address (the
 * kernel's seqcount_latch): a writer makes `turn` odd and changes copy 0 while
 * readers use copy 1, then makes it even and changes copy 1 while readers use
 * copy 0.  A reader that finds `turn` changed afterwards repeats.  A writer
 * that is preempted in the middle delays no reader, whatever their priorities.
 *
 * Readers may still look into an array that was replaced by a larger one, so
 * those are kept: together they are smaller than the present ones.
 */
#include "base/remote.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/lock.h"

#define PAGE	  4096u
#define FIRST_MAX 16u

/* The key is here, since a region may be freed once it is removed. */
struct entry {
	_Atomic uintptr_t base;
	_Atomic size_t length;
	struct ur_remote *_Atomic region;
};

struct array {
	struct array *replaced; /* the one before */
	struct entry at[];
};

/* One copy of the table.  Written under `lock`; `count` after `array`. */
struct copy {
	struct array *_Atomic array;
	_Atomic uint32_t count;
};

static struct copy copies[2];
static _Atomic uint32_t turn; /* readers use copies[turn & 1] */
static uint32_t capacity;     /* of both; lock */
static struct ur_lock lock = UR_LOCK_INITIALIZER;

_Atomic uint32_t ur_remote_count;

static void before_fork(void)
{
	ur_lock(&lock);
}

static void in_parent(void)
{
	ur_unlock(&lock);
}

static void in_child(void)
{
	ur_remote_count = 0;
	copies[0].count = 0;
	copies[1].count = 0;
	ur_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

/*
 * Number of regions that begin at or below the address.  All loads acquire: a
 * value that a writer has just stored comes with the writer's new `turn`.
 */
static uint32_t rank(const struct copy *c, uintptr_t addr)
{
	uint32_t from = 0, to = c->count;
	const struct array *a = c->array;

	while (from < to) {
		uint32_t mid = (from + to) / 2;

		if (atomic_load_explicit(&a->at[mid].base,
					 memory_order_acquire) <= addr)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

static struct ur_remote *find_in(const struct copy *c, uintptr_t addr)
{
	uint32_t i = rank(c, addr);
	const struct entry *e;
	uintptr_t off;

	if (i == 0)
		return NULL;
	e = &((const struct array *)c->array)->at[i - 1];
	off = addr - atomic_load_explicit(&e->base, memory_order_acquire);
	if (off >= atomic_load_explicit(&e->length, memory_order_acquire))
		return NULL;
	return atomic_load_explicit(&e->region, memory_order_acquire);
}

/* The caller keeps the region of an address that it may use from being removed
 * (core/mr.h). */
static struct ur_remote *find(const void *addr)
{
	struct ur_remote *r;
	uint32_t seen;

	do {
		seen = atomic_load_explicit(&turn, memory_order_acquire);
		r = find_in(&copies[seen & 1], (uintptr_t)addr);
	} while (atomic_load_explicit(&turn, memory_order_relaxed) != seen);
	return r;
}

static int reserve(struct ur_remote *r, size_t length, uint64_t like)
{
	size_t skip = like % PAGE;
	uint8_t *at;

	if (length > SIZE_MAX / 2)
		return -ENOMEM;
	at = mmap(NULL, skip + length + 1, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	r->base = at + skip;
	r->length = length;
	return 0;
}

static void release(const struct ur_remote *r)
{
	size_t skip = (uintptr_t)r->base % PAGE;

	munmap(r->base - skip, skip + r->length + 1);
}

static void set(struct entry *e, uintptr_t base, size_t length,
		struct ur_remote *region)
{
	atomic_store_explicit(&e->base, base, memory_order_release);
	atomic_store_explicit(&e->length, length, memory_order_release);
	atomic_store_explicit(&e->region, region, memory_order_release);
}

static void move_entry(struct array *a, uint32_t to, uint32_t from)
{
	set(&a->at[to], a->at[from].base, a->at[from].length,
	    a->at[from].region);
}

static void insert_in(struct copy *c, struct ur_remote *r)
{
	uint32_t at = rank(c, (uintptr_t)r->base);
	struct array *a = c->array;

	for (uint32_t i = c->count; i > at; i--)
		move_entry(a, i, i - 1);
	set(&a->at[at], (uintptr_t)r->base, r->length, r);
	atomic_store_explicit(&c->count, c->count + 1, memory_order_release);
}

/* Its place in the copy, from 1; 0: a child of fork() has none. */
static uint32_t place_of(const struct copy *c, const struct ur_remote *r)
{
	uint32_t at = rank(c, (uintptr_t)r->base);

	return at && c->array->at[at - 1].region == r ? at : 0;
}

static void remove_in(struct copy *c, const struct ur_remote *r)
{
	struct array *a = c->array;

	for (uint32_t i = place_of(c, r); i < c->count; i++)
		move_entry(a, i - 1, i);
	atomic_store_explicit(&c->count, c->count - 1, memory_order_release);
}

/* The copy to change now: readers use the other one from here on. */
static struct copy *next_copy(void)
{
	return &copies[atomic_fetch_add(&turn, 1) & 1];
}

/* A larger array with the same entries. */
static void replace(struct copy *c, struct array *to)
{
	struct array *from = c->array;

	for (uint32_t i = 0; i < c->count; i++)
		set(&to->at[i], from->at[i].base, from->at[i].length,
		    from->at[i].region);
	to->replaced = from;
	c->array = to;
}

/* Arrays for both copies, if there is no room for one more; false: -ENOMEM. */
static bool make_arrays(struct array *more[2])
{
	uint32_t want = capacity ? capacity * 2 : FIRST_MAX;
	size_t bytes = sizeof(struct array) + want * sizeof(struct entry);

	more[0] = NULL;
	more[1] = NULL;
	if (ur_remote_count < capacity)
		return true;
	more[0] = calloc(1, bytes);
	more[1] = calloc(1, bytes);
	if (more[0] && more[1]) {
		capacity = want;
		return true;
	}
	free(more[0]);
	free(more[1]);
	return false;
}

static bool insert_locked(struct ur_remote *r)
{
	struct array *more[2];

	if (!make_arrays(more))
		return false;
	for (unsigned int i = 0; i < 2; i++) {
		struct copy *c = next_copy();

		if (more[i])
			replace(c, more[i]);
		insert_in(c, r);
	}
	ur_remote_count++;
	return true;
}

int ur_remote_add(struct ur_remote *r, size_t length, uint64_t like)
{
	int rc = reserve(r, length, like);
	bool ok;

	if (rc)
		return rc;
	ur_lock(&lock);
	ok = insert_locked(r);
	ur_unlock(&lock);
	if (!ok)
		release(r);
	return ok ? 0 : -ENOMEM;
}

void ur_remote_remove(struct ur_remote *r)
{
	ur_lock(&lock);
	if (place_of(&copies[0], r)) {
		for (unsigned int i = 0; i < 2; i++)
			remove_in(next_copy(), r);
		ur_remote_count--;
	}
	ur_unlock(&lock);
	release(r);
}

bool ur_remote_hits(const struct iovec *iov, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (find(iov[i].iov_base))
			return true;
	return false;
}

/* An access that leaves the region in which it begins is an error. */
static int move(const struct ur_remote *r, const void *at, void *buf,
		size_t len, bool write)
{
	uint64_t off = (uintptr_t)at - (uintptr_t)r->base;

	if (len > r->length - off)
		return -EFAULT;
	return r->move(r, off, buf, len, write);
}

/* Between two regions, or within one. */
static int move_both(const struct ur_remote *to, uint8_t *dst,
		     const struct ur_remote *from, const uint8_t *src,
		     size_t len)
{
	uint8_t piece[PAGE];
	int rc = 0;

	while (len && !rc) {
		size_t n = len < sizeof(piece) ? len : sizeof(piece);

		rc = move(from, src, piece, n, false);
		if (!rc)
			rc = move(to, dst, piece, n, true);
		src += n;
		dst += n;
		len -= n;
	}
	return rc;
}

int ur_remote_copy(void *dst, const void *src, size_t len)
{
	const struct ur_remote *to = find(dst), *from = find(src);

	if (!to && !from)
		return -ENOENT;
	if (to && from)
		return move_both(to, dst, from, src, len);
	if (to)
		return move(to, dst, (void *)(uintptr_t)src, len, true);
	return move(from, src, dst, len, false);
}
