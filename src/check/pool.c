/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of this library: lists of free blocks of powers of two. */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check/internal.h"

#define CHUNK	(UINT64_C(1) << 20)
#define CLASSES 40
#define LEAST	5 /* 32 bytes */

static struct block {
	struct block *next;
} * free_blocks[CLASSES];
static uint8_t *chunk;
static size_t chunk_left;

static unsigned int class_of(size_t size)
{
	unsigned int c = LEAST;

	while (((size_t)1 << c) < size)
		c++;
	return c;
}

/* The system call itself: hooks in mmap() may call verbs. */
static void *map(size_t size)
{
	long p = syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);

	return p == -1 ? NULL : (void *)p;
}

/* The next bytes of the chunk, which are zero. */
static void *cut(size_t size)
{
	void *p;

	if (size > chunk_left) {
		chunk = map(CHUNK);
		chunk_left = chunk ? CHUNK : 0;
		if (!chunk)
			return NULL;
	}
	p = chunk;
	chunk += size;
	chunk_left -= size;
	return p;
}

void *urk_alloc(size_t size)
{
	unsigned int c = class_of(size);
	struct block *b;

	size = (size_t)1 << c;
	if (size >= CHUNK)
		return map(size);
	urk_lock();
	b = free_blocks[c];
	if (b) {
		free_blocks[c] = b->next;
		memset(b, 0, size);
	} else {
		b = cut(size);
	}
	urk_unlock();
	return b;
}

void urk_free(void *p, size_t size)
{
	unsigned int c = class_of(size);
	struct block *b = p;

	if (!b)
		return;
	if (((size_t)1 << c) >= CHUNK) {
		(void)syscall(SYS_munmap, p, (size_t)1 << c);
		return;
	}
	urk_lock();
	b->next = free_blocks[c];
	free_blocks[c] = b;
	urk_unlock();
}
