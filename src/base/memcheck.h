/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Under valgrind's memcheck a program must look as it would with hardware: no
 * report except for its own errors. Received data comes by system calls that
 * memcheck knows, or is copied from such, so it counts as defined. Sent data is
 * read by the kernel on our behalf, where a device would have read it unseen:
 * padding that was never written is no error.
 *
 * Built in where valgrind's headers are present (option `valgrind`); without
 * valgrind these are a few instructions without effect.
 */
#ifndef UR_BASE_MEMCHECK_H
#define UR_BASE_MEMCHECK_H

#if UR_VALGRIND
#include <valgrind/valgrind.h>
#endif

/* Suppress reports about this thread until the matching unmute; they nest. */
static inline void ur_memcheck_mute(void)
{
#if UR_VALGRIND
	VALGRIND_DISABLE_ERROR_REPORTING;
#endif
}

static inline void ur_memcheck_unmute(void)
{
#if UR_VALGRIND
	VALGRIND_ENABLE_ERROR_REPORTING;
#endif
}

#endif
