/* SPDX-License-Identifier: BSD-2-Clause */
/* memcpy() that stays fast where the processor's own string copy is slow. */
#ifndef UR_BASE_COPY_H
#define UR_BASE_COPY_H

#include <stdbool.h>
#include <stddef.h>

/* As memcpy(): the buffers must not overlap. */
void ur_copy(void *dst, const void *src, size_t len);

/* For tests: force copying by words on or off. Returns the former setting. */
bool ur_copy_by_words(bool words);

#endif
