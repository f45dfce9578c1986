/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The helper is woken when it has to watch the link from now on, or no longer:
 * asleep on the link, it would be woken for each packet besides the thread that
 * serves it.  From TICK to WAITER it is not, since it sleeps on neither, and looks
 * within a millisecond.
 */
#include "engine/handover.h"

#define KEEP(watch)                                                            \
	{                                                                      \
		UR_WATCH_##watch, false                                        \
	}
#define BECOMES(watch)                                                         \
	{                                                                      \
		UR_WATCH_##watch, false                                        \
	}
#define WAKES(watch)                                                           \
	{                                                                      \
		UR_WATCH_##watch, true                                         \
	}

/* By enum ur_watch: ARMED, TICK, WAITER. */
static const struct ur_handed table[UR_HANDOVERS][UR_WATCHES] = {
	[UR_HANDOVER_POLLED] = { WAKES(TICK), KEEP(TICK), WAKES(TICK) },
	[UR_HANDOVER_ARMED] = { KEEP(ARMED), WAKES(ARMED), KEEP(WAITER) },
	[UR_HANDOVER_ARMED_SOON] = { KEEP(ARMED), BECOMES(WAITER),
				     KEEP(WAITER) },
	[UR_HANDOVER_WAITS] = { WAKES(WAITER), BECOMES(WAITER), KEEP(WAITER) },
	[UR_HANDOVER_ENDS] = { KEEP(ARMED), KEEP(TICK), KEEP(WAITER) },
	[UR_HANDOVER_ENDS_RESTING] = { KEEP(ARMED), KEEP(TICK), WAKES(WAITER) },
	[UR_HANDOVER_LEAVES] = { KEEP(ARMED), KEEP(TICK), WAKES(ARMED) },
	[UR_HANDOVER_CHAN_BEGINS] = { WAKES(WAITER), WAKES(WAITER),
				      WAKES(WAITER) },
	[UR_HANDOVER_CHAN_ENDS] = { KEEP(ARMED), KEEP(TICK), WAKES(ARMED) },
	[UR_HANDOVER_GONE] = { KEEP(ARMED), BECOMES(ARMED), BECOMES(ARMED) },
};

struct ur_handed ur_handover(enum ur_watch watch, enum ur_handover event)
{
	return table[event][watch];
}
