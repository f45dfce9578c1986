/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/remote.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/guard.h"
#include "base/lock.h"

#define PAGE 4096u

/* Sorted by address. */
static struct ur_remote **table;
static uint32_t capacity;
static struct ur_lock lock = { PTHREAD_MUTEX_INITIALIZER };

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
	ur_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

/* The first that begins behind the address. */
static uint32_t behind(uintptr_t at)
{
	uint32_t from = 0, to = ur_remote_count;

	while (from < to) {
		uint32_t mid = (from + to) / 2;

		if ((uintptr_t)table[mid]->base <= at)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

static struct ur_remote *find_locked(const void *addr)
{
	uint32_t i = behind((uintptr_t)addr);
	struct ur_remote *f = i ? table[i - 1] : NULL;

	return f && (uintptr_t)addr - (uintptr_t)f->base < f->length ? f : NULL;
}

/* Who may use an address keeps it from being removed (core/mr.h). */
static struct ur_remote *find(const void *addr)
{
	struct ur_remote *f;

	ur_lock(&lock);
	f = find_locked(addr);
	ur_unlock(&lock);
	return f;
}

static int reserve(struct ur_remote *f, size_t length, uint64_t like)
{
	size_t skip = like % PAGE;
	uint8_t *at;

	if (length > SIZE_MAX / 2)
		return -ENOMEM;
	at = mmap(NULL, skip + length + 1, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	f->base = at + skip;
	f->length = length;
	return 0;
}

static void release(const struct ur_remote *f)
{
	size_t skip = (uintptr_t)f->base % PAGE;

	munmap(f->base - skip, skip + f->length + 1);
}

static bool insert_locked(struct ur_remote *f)
{
	uint32_t n = ur_remote_count, at;

	if (n == capacity) {
		uint32_t want = capacity ? capacity * 2 : 16;
		struct ur_remote **more =
			realloc(table, want * sizeof(struct ur_remote *));

		if (!more)
			return false;
		table = more;
		capacity = want;
	}
	at = behind((uintptr_t)f->base);
	memmove(table + at + 1, table + at,
		(n - at) * sizeof(struct ur_remote *));
	table[at] = f;
	ur_remote_count = n + 1;
	return true;
}

int ur_remote_add(struct ur_remote *f, size_t length, uint64_t like)
{
	int rc = reserve(f, length, like);
	bool ok;

	if (rc)
		return rc;
	ur_lock(&lock);
	ok = insert_locked(f);
	ur_unlock(&lock);
	if (!ok)
		release(f);
	return ok ? 0 : -ENOMEM;
}

void ur_remote_remove(struct ur_remote *f)
{
	uint32_t at;

	ur_lock(&lock);
	at = behind((uintptr_t)f->base);
	if (at && table[at - 1] == f) {
		ur_remote_count--;
		memmove(table + at - 1, table + at,
			(ur_remote_count - (at - 1)) *
				sizeof(struct ur_remote *));
	}
	ur_unlock(&lock);
	release(f);
}

bool ur_remote_hits(const struct iovec *iov, uint32_t n)
{
	bool found = false;

	ur_lock(&lock);
	for (uint32_t i = 0; i < n && !found; i++)
		found = find_locked(iov[i].iov_base) != NULL;
	ur_unlock(&lock);
	return found;
}

/* It ends within what it began in, or is no access that was allowed. */
static int move(const struct ur_remote *f, const void *at, void *buf,
		size_t len, bool write)
{
	uint64_t off = (uintptr_t)at - (uintptr_t)f->base;

	if (len > f->length - off)
		return -EFAULT;
	return f->move(f, off, buf, len, write);
}

/* From one to the other, or to itself. */
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
