/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of rings.  A ring is as large as the application asked for at most,
 * and mostly stays nearly empty: pages appear when they are first written, so
 * a CQ of four million entries costs nothing until it is used.
 */
#ifndef UR_CORE_RINGMEM_H
#define UR_CORE_RINGMEM_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory, aligned to a page; NULL if there is none. */
void *ur_ring_map(size_t bytes);

/* NULL is allowed. */
void ur_ring_unmap(void *ring, size_t bytes);

/* The smallest power of two that is at least n; n in [1, 2^31]. */
uint32_t ur_pow2(uint32_t n);

#endif
