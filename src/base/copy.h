/* SPDX-License-Identifier: BSD-2-Clause */
/* memcpy() that stays fast where the processor's own string copy is slow. */
#ifndef UR_BASE_COPY_H
#define UR_BASE_COPY_H

#include <stdbool.h>
#include <stddef.h>

/* As memcpy(): the two must be apart. */
void ur_copy(void *dst, const void *src, size_t len);

/* For tests: copy by words (or not) whatever was measured; what it was. */
bool ur_copy_by_words(bool words);

#endif
