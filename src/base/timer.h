/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A set of timers in the caller's monotonic time, in nanoseconds. Arm, re-arm
 * and cancel cost O(log n) at most. Re-arming to a later time is O(1), since a
 * retry timer is re-armed on every acknowledgement: the heap is corrected when
 * the timer reaches its top.
 */
#ifndef UR_BASE_TIMER_H
#define UR_BASE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#define UR_NEVER UINT64_MAX

struct ur_timer {
	uint64_t at_ns;	     /* when it fires; UR_NEVER: not armed */
	uint64_t heap_at_ns; /* its key in the heap */
	uint32_t slot;	     /* index in the heap plus one; 0: none */
};

struct ur_timers {
	struct ur_timer **heap;
	uint32_t count;
	uint32_t capacity;
};

void ur_timers_init(struct ur_timers *ts);
void ur_timers_fini(struct ur_timers *ts);

static inline void ur_timer_init(struct ur_timer *t)
{
	*t = (struct ur_timer){ .at_ns = UR_NEVER, .heap_at_ns = UR_NEVER };
}

/* Reserve room for `total` timers, so that ur_timer_arm() cannot fail; called
 * when the object that holds the timer is created. 0 or -ENOMEM. */
int ur_timers_reserve(struct ur_timers *ts, uint32_t total);

/* Arm or re-arm t for at_ns. */
void ur_timer_arm(struct ur_timers *ts, struct ur_timer *t, uint64_t at_ns);

/* Disarm; t leaves the heap at once, so its memory may be freed. */
void ur_timer_cancel(struct ur_timers *ts, struct ur_timer *t);

/* A time at or before the earliest deadline; UR_NEVER if nothing is armed. */
uint64_t ur_timers_deadline(const struct ur_timers *ts);

/* Take out one timer that is due at now_ns, disarmed; NULL if none is. */
struct ur_timer *ur_timers_expire(struct ur_timers *ts, uint64_t now_ns);

/* How long to wait before the next check of what has not come for waited_ns:
 * a share of that, within bounds. */
static inline uint64_t ur_backoff_ns(uint64_t waited_ns, uint32_t share,
				     uint64_t min_ns, uint64_t max_ns)
{
	uint64_t pause = waited_ns / share;

	return pause < min_ns ? min_ns : pause > max_ns ? max_ns : pause;
}

#endif
