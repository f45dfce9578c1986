/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/spin.h"

#include <sched.h>

#include "base/clock.h"
#include "base/thread_sched.h"

#define SPIN_MAX_NS  20000u
#define SPIN_MIN_NS  2000u
/* A sleep as short as this consists of wakeups, here and at the peer. */
#define SLEPT_NS     60000u
#define HOLD_MAX     64u
#define CROWDED_NS   10000u /* yielding to no thread takes less than 1 us */
#define CROWD_MIN_NS 1000000u
#define CROWD_MAX_NS 64000000u

/*
 * Yields once to threads that want this core; from then on it does not, since
 * on a busy machine a yield gives the core away for milliseconds.  If there
 * was such a thread, sleeping serves both better for a time: the kernel wakes
 * this thread when something comes and runs the other one in between.
 */
static bool is_crowded(struct ur_spin *s, uint64_t before, uint32_t scale)
{
	uint64_t now;

	if (before < s->crowded_until_ns)
		return true;
	sched_yield();
	now = ur_clock_ns();
	if (now - before < (uint64_t)CROWDED_NS * scale) {
		s->crowd_ns /= 2;
		return false;
	}
	s->crowd_ns *= 2;
	if (s->crowd_ns < CROWD_MIN_NS)
		s->crowd_ns = CROWD_MIN_NS;
	if (s->crowd_ns > CROWD_MAX_NS)
		s->crowd_ns = CROWD_MAX_NS;
	s->crowded_until_ns = now + s->crowd_ns;
	return true;
}

uint64_t ur_spin_begin(struct ur_spin *s, uint32_t scale)
{
	uint64_t now;

	if (!s->budget_ns)
		return 0;
	now = ur_clock_ns();
	if (ur_sched_is_oversubscribed(now) || is_crowded(s, now, scale))
		return 0;
	return s->budget_ns;
}

void ur_spin_end(struct ur_spin *s, bool found)
{
	if (found) {
		s->budget_ns = SPIN_MAX_NS;
		s->hold_next = 1;
		return;
	}
	s->budget_ns /= 2;
	if (s->budget_ns >= SPIN_MIN_NS)
		return;
	s->budget_ns = 0;
	s->hold = s->hold_next;
	if (s->hold_next < HOLD_MAX)
		s->hold_next = s->hold_next ? s->hold_next * 2 : 1;
}

void ur_spin_slept(struct ur_spin *s, uint64_t ns)
{
	if (ns >= SLEPT_NS || s->budget_ns)
		return;
	if (s->hold)
		s->hold--;
	else
		s->budget_ns = SPIN_MAX_NS;
}
