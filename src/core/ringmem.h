/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of rings. A ring has the maximum size the application asked for and
 * stays mostly unused: pages appear when first written, so a CQ of four million
 * entries costs nothing until it is used.
 */
#ifndef UR_CORE_RINGMEM_H
#define UR_CORE_RINGMEM_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory, aligned to a cache line, or to a page if it is larger than
 * half a page; NULL: out of memory. */
void *ur_ring_map(size_t bytes);

/* NULL is allowed. */
void ur_ring_unmap(void *ring, size_t bytes);

/* Memory from the application, which wants queues in its own memory
 * (ibv_alloc_parent_domain(3)). */
enum ur_ring_what {
	UR_RING_SQ,
	UR_RING_RQ, /* of a shared receive queue too */
	UR_RING_CQ,
};

#define UR_RING_USE_DEFAULT ((void *)-1)

struct ur_ring_source {
	/* `bytes` aligned to a page, NULL, or UR_RING_USE_DEFAULT. */
	void *(*get)(void *arg, size_t bytes, enum ur_ring_what what);
	void (*put)(void *arg, void *ring, enum ur_ring_what what);
	void *arg;
};

/* Zeroed memory from the source, or default memory if the source is NULL or
 * declines, in which case *from becomes NULL. NULL: out of memory. */
void *ur_ring_get(const struct ur_ring_source **from, size_t bytes,
		  enum ur_ring_what what);

/* Return the memory to its source. */
void ur_ring_put(const struct ur_ring_source *from, void *ring, size_t bytes,
		 enum ur_ring_what what);

/* The smallest power of two that is at least n; n in [1, 2^31]. */
uint32_t ur_pow2(uint32_t n);

#endif
