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

void *urk_alloc(size_t size)
{
	unsigned int c = class_of(size);
	struct block *b = free_blocks[c];

	size = (size_t)1 << c;
	if (b) {
		free_blocks[c] = b->next;
		return memset(b, 0, size);
	}
	if (size >= CHUNK)
		return map(size);
	if (size > chunk_left) {
		chunk = map(CHUNK);
		chunk_left = chunk ? CHUNK : 0;
		if (!chunk)
			return NULL;
	}
	b = (struct block *)(void *)chunk;
	chunk += size;
	chunk_left -= size;
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
	b->next = free_blocks[c];
	free_blocks[c] = b;
}
