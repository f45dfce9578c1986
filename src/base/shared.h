/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that another process may write at any time. */
#ifndef UR_BASE_SHARED_H
#define UR_BASE_SHARED_H

#include <stddef.h>
#include <stdint.h>

/*
 * len bytes, a multiple of 8 and aligned so.  Each word is read exactly once,
 * which a compiler does not promise of memcpy(): it may read the original
 * again after the copy was checked.
 */
static inline void ur_shared_copy(void *to, const void *from, size_t len)
{
	typedef uint64_t __attribute__((may_alias)) word;
	const word *f = from;
	word *t = to;

	for (size_t i = 0; i < len / sizeof(word); i++)
		t[i] = __atomic_load_n(&f[i], __ATOMIC_RELAXED);
}

#endif
