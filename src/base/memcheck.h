/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Under valgrind's memcheck a program must look as it would with hardware: no
 * report but for what it does itself.  Data that arrives comes by system calls
 * that memcheck knows, or is copied from such, so it counts as defined.  What
 * is sent is read by the kernel on our behalf, where a device would have read
 * it unseen: padding that was never written is no fault of anybody then.
 *
 * Built in where valgrind's headers are (option `valgrind`); outside of
 * valgrind these are a few instructions without effect.
 */
#ifndef UR_BASE_MEMCHECK_H
#define UR_BASE_MEMCHECK_H

#if UR_VALGRIND
#include <valgrind/valgrind.h>
#endif

/* This thread's errors are not reported from here … */
static inline void ur_memcheck_mute(void)
{
#if UR_VALGRIND
	VALGRIND_DISABLE_ERROR_REPORTING;
#endif
}

/* … to here; they nest. */
static inline void ur_memcheck_unmute(void)
{
#if UR_VALGRIND
	VALGRIND_ENABLE_ERROR_REPORTING;
#endif
}

#endif
