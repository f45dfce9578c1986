/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ringmem.h"

#include <sys/mman.h>

void *ur_ring_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	/*
	 * With transparent huge pages the first entry of each of a thousand
	 * rings would take 2 MiB.  It is advice: failing changes nothing else.
	 */
	(void)madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

void ur_ring_unmap(void *ring, size_t bytes)
{
	if (ring)
		munmap(ring, bytes);
}

uint32_t ur_pow2(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}
