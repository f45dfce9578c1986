/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CLOCK_MONOTONIC, read from the time stamp counter where the kernel's clock is that:
 * it takes a third of the time of clock_gettime(), which waits for all instructions
 * before it.  A thread reads the kernel's clock once a millisecond and goes on from
 * there at the counter's rate.  Within a thread time never goes back; between
 * threads it differs by some ten nanoseconds.
 */
#ifndef UR_TRACER_CLOCK_H
#define UR_TRACER_CLOCK_H

#include <stdint.h>

#include "base/clock.h"

/* A thread's. */
struct tr_clock {
	uint64_t ticks; /* the counter at `ns` */
	uint64_t ns;
	uint64_t valid; /* so many ticks from there; 0: the rate is not known */
	uint64_t rate;	/* ns per 2^32 ticks */
	/* Where the rate is measured from; 0: nowhere. */
	uint64_t from_ticks;
	uint64_t from_ns;
};

uint64_t tr_clock_renew(struct tr_clock *c);

static inline uint64_t tr_clock_read(struct tr_clock *c)
{
#if defined(__x86_64__)
	uint64_t passed = __builtin_ia32_rdtsc() - c->ticks;

	if (__builtin_expect(passed < c->valid, 1))
		return c->ns + (passed * c->rate >> 32);
#endif
	return tr_clock_renew(c);
}

#endif
