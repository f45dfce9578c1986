/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics with masks: the operation on memory, for all transports. */
#ifndef UR_CORE_MASKED_H
#define UR_CORE_MASKED_H

#include <string.h>

#include "wire/masked.h"

/* The largest operand on this processor: UR_MASKED_MAX, or 8. */
uint32_t ur_masked_max(void);

/* Is there an operand of that many bytes? */
static inline bool ur_masked_is_size(uint32_t len)
{
	return len == 4 || len == 8 || (len == 16 && len <= ur_masked_max());
}

/*
 * Execute it on `len` bytes at `at`; `old` gets the former value.  One instruction
 * changes the memory, so no other access by a word of that size sees a part.  0;
 * -EINVAL: not aligned to `len`; -EFAULT: not mapped.
 */
int ur_masked_run(void *at, const struct ur_masked *m, bool cas, uint32_t len,
		  uint64_t old[2]);

/* The old value as in memory: its first `len` bytes. */
static inline void ur_masked_store(uint8_t *to, uint32_t len,
				   const uint64_t old[2])
{
	uint32_t low = (uint32_t)old[0];

	if (len == 4)
		memcpy(to, &low, sizeof(low));
	else
		memcpy(to, old, len);
}

#endif
