/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ringmem.h"

#include <string.h>
#include <sys/mman.h>

void *ur_ring_map(size_t bytes)
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

void ur_ring_unmap(void *ring, size_t bytes)
{
	if (ring)
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
