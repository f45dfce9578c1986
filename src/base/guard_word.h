/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guarded copies (guard.h) of what fits into a cache line: cheaper for those.
 * The memory is of this process, not of base/remote.h.
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

/* For the handler: where an instruction of ours that faulted goes on; 0: it
 * is none. */
uintptr_t ur_guard_words_exit(uintptr_t pc);

#endif
