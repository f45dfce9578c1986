/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ringmem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Up to half a page is taken from the heap: a mapping of its own would cost
 * each queue pair four system calls, a page fault and a page per ring. */
#define HEAP_MAX   2048u
#define HEAP_ALIGN 64u /* a cache line */

static void *from_heap(size_t bytes)
{
	size_t size = (bytes + HEAP_ALIGN - 1) & ~(size_t)(HEAP_ALIGN - 1);
	void *p = aligned_alloc(HEAP_ALIGN, size);

	if (p)
		memset(p, 0, size);
	return p;
}

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* With transparent huge pages the first entry of each of a thousand
	 * rings would take 2 MiB. Failure is harmless. */
	(void)madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

void *ur_ring_map(size_t bytes)
{
	return bytes <= HEAP_MAX ? from_heap(bytes) : map(bytes);
}

void ur_ring_unmap(void *ring, size_t bytes)
{
	if (bytes <= HEAP_MAX)
		free(ring);
	else if (ring)
		munmap(ring, bytes);
}

void *ur_ring_get(const struct ur_ring_source **from, size_t bytes,
		  enum ur_ring_what what)
{
	void *ring = UR_RING_USE_DEFAULT;

	if (*from)
		ring = (*from)->get((*from)->arg, bytes, what);
	if (ring == UR_RING_USE_DEFAULT) {
		*from = NULL;
		return ur_ring_map(bytes);
	}
	if (ring)
		memset(ring, 0, bytes);
	return ring;
}

void ur_ring_put(const struct ur_ring_source *from, void *ring, size_t bytes,
		 enum ur_ring_what what)
{
	if (!from)
		ur_ring_unmap(ring, bytes);
	else if (ring)
		from->put(from->arg, ring, what);
}

uint32_t ur_pow2(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}
