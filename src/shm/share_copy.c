/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conversion: copy pages to a memfd and map it in their place; piece by
 * piece, to limit the memory that exists twice.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "shm/share_internal.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* A huge page, so that none is split. */
#define PIECE_PAGES 512u
#define PIECE	    (PIECE_PAGES * (uint64_t)UR_SHARE_PAGE)

/* Bits of /proc/self/pagemap: the page is in memory, or swapped out. */
#define PAGE_IS_THERE (3ull << 62)

struct turn {
	int fd;
	int pagemap;
	uint64_t base; /* address of the file's first byte */
	bool holes;    /* what is not in memory was never touched */
	uint64_t there[PIECE_PAGES];
};

static void *pointer(uint64_t at)
{
	return (void *)(uintptr_t)at;
}

static bool write_all(const struct turn *t, uint64_t from, uint64_t end)
{
	while (from < end) {
		ssize_t n = pwrite(t->fd, pointer(from), end - from,
				   (off_t)(from - t->base));

		if (n <= 0)
			return false;
		from += (uint64_t)n;
	}
	return true;
}

/* Which pages were ever touched? All, if that is unknown. */
static void look(struct turn *t, uint64_t at, uint64_t pages)
{
	size_t size = pages * sizeof(t->there[0]);

	if (!t->holes || pread(t->pagemap, t->there, size,
			       (off_t)(at / UR_SHARE_PAGE *
				       sizeof(t->there[0]))) != (ssize_t)size)
		memset(t->there, 0xff, size);
}

/* End of the run of pages from the i-th on that are all there, or all not. */
static uint64_t run_end(const struct turn *t, uint64_t i, uint64_t pages)
{
	bool there = t->there[i] & PAGE_IS_THERE;

	while (i < pages && !(t->there[i] & PAGE_IS_THERE) == !there)
		i++;
	return i;
}

/* An untouched page may be a guard, which faults. */
static bool is_readable(uint64_t at, uint64_t end)
{
	return madvise(pointer(at), end - at, MADV_POPULATE_READ) == 0 ||
	       errno == EINVAL;
}

static bool copy(const struct turn *t, uint64_t at, uint64_t pages)
{
	for (uint64_t i = 0, end; i < pages; i = end) {
		uint64_t from = at + i * UR_SHARE_PAGE, to;

		end = run_end(t, i, pages);
		to = at + end * UR_SHARE_PAGE;
		if (t->there[i] & PAGE_IS_THERE ? !write_all(t, from, to)
						: !is_readable(from, to))
			return false;
	}
	return true;
}

/* Avoids a fault per page later; may fail. */
static void populate(const struct turn *t, uint64_t at, uint64_t pages)
{
	for (uint64_t i = 0, end; i < pages; i = end) {
		end = run_end(t, i, pages);
		if (t->there[i] & PAGE_IS_THERE)
			(void)madvise(pointer(at + i * UR_SHARE_PAGE),
				      (end - i) * UR_SHARE_PAGE,
				      MADV_POPULATE_WRITE);
	}
}

static bool is_mapped(uint64_t at)
{
	unsigned char in_core;

	return mincore(pointer(at), UR_SHARE_PAGE, &in_core) == 0 ||
	       errno != ENOMEM;
}

/*
 * Older kernels may have unmapped the old pages before they failed.  Then the
 * file is mapped privately in their place; if that fails too, using them
 * faults.
 */
static void put_back(const struct turn *t, uint64_t at, size_t len)
{
	if (!is_mapped(at) && mmap(pointer(at), len, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_FIXED, t->fd,
				   (off_t)(at - t->base)) == MAP_FAILED)
		ur_err("memory at %p is lost: %s", pointer(at),
		       strerror(errno));
}

/* A child does not share it, whatever happens to its copy (share_fork.c). */
static bool keep_from_children(const struct turn *t, uint64_t at, size_t len)
{
	if (madvise(pointer(at), len, MADV_DONTFORK) == 0)
		return true;
	if (mmap(pointer(at), len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_FIXED, t->fd,
		 (off_t)(at - t->base)) == MAP_FAILED)
		ur_err("a child of fork() shares the memory at %p: %s",
		       pointer(at), strerror(errno));
	return false;
}

static bool turn_piece(struct turn *t, uint64_t at, uint64_t end)
{
	uint64_t pages = (end - at) / UR_SHARE_PAGE;

	look(t, at, pages);
	if (!copy(t, at, pages))
		return false;
	if (mmap(pointer(at), end - at, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, t->fd,
		 (off_t)(at - t->base)) == MAP_FAILED) {
		put_back(t, at, end - at);
		return false;
	}
	if (!keep_from_children(t, at, end - at))
		return false;
	populate(t, at, pages);
	return true;
}

uint64_t ur_share_convert(int fd, uint64_t base, uint64_t at, uint64_t end,
			  bool holes)
{
	struct turn t = { .fd = fd, .base = base, .holes = holes };

	t.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	while (at < end) {
		uint64_t next = (at / PIECE + 1) * PIECE;

		next = next < end ? next : end;
		if (!turn_piece(&t, at, next))
			break;
		at = next;
	}
	if (t.pagemap >= 0)
		close(t.pagemap);
	return at;
}
