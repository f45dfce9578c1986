/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that another process may write at any time. */
#ifndef UR_BASE_SHARED_H
#define UR_BASE_SHARED_H

#include <stddef.h>
#include <stdint.h>

/*
 * Copies len bytes, a multiple of 8 and 8-byte aligned. Each word is read
 * exactly once. memcpy() does not promise that: a compiler may read the
 * original again after the copy was validated.
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
