/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A guarded copy (guard.h) that is cheaper for lengths up to a cache line.  The
 * memory must be mapped by this process, not be an address of base/remote.h.
 */
#ifndef UR_BASE_GUARD_WORD_H
#define UR_BASE_GUARD_WORD_H

#include <stddef.h>
#include <stdint.h>

/*
 * As ur_guard_copy(), if dst is a multiple of 8; with another dst the last
 * word need not be stored whole.
 */
int ur_guard_copy_words(void *dst, const void *src, size_t len)
	__attribute__((visibility("hidden")));

#endif
