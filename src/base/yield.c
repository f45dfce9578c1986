/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/yield.h"

#include <sched.h>

#include "base/clock.h"

/* A sched_yield() that no thread uses takes about 1 us; urnicd and its lanes
 * finish within tens of microseconds. */
#define NOBODY_NS    2000u
#define LONG_NS	     1000000u
#define PAUSE_MIN_NS 1000000u
#define PAUSE_MAX_NS 16000000u

bool ur_yield_allowed(const struct ur_yield *w, uint64_t now_ns)
{
	return now_ns >= w->not_until_ns;
}

bool ur_yield_account(struct ur_yield *w, uint64_t took_ns, uint64_t now_ns)
{
	if (took_ns < LONG_NS) {
		w->pause_ns /= 2;
		return took_ns > NOBODY_NS;
	}
	w->pause_ns *= 2;
	if (w->pause_ns < PAUSE_MIN_NS)
		w->pause_ns = PAUSE_MIN_NS;
	if (w->pause_ns > PAUSE_MAX_NS)
		w->pause_ns = PAUSE_MAX_NS;
	w->not_until_ns = now_ns + w->pause_ns;
	return true;
}

bool ur_yield_cpu(struct ur_yield *w)
{
	uint64_t before = ur_clock_ns(), now;

	sched_yield();
	now = ur_clock_ns();
	return ur_yield_account(w, now - before, now);
}
