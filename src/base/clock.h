/* SPDX-License-Identifier: BSD-2-Clause */
/* The monotonic clock.  Pure layers do not read it: time is their argument. */
#ifndef UR_BASE_CLOCK_H
#define UR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ur_clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
