/* SPDX-License-Identifier: BSD-2-Clause */
#include "dataplane/turn.h"

void ur_turn_worked(struct ur_turn *t, uint32_t n)
{
	t->done += n;
}

void ur_turn_slept(struct ur_turn *t, uint64_t ns)
{
	t->slept_ns += ns;
	t->done = 0;
	t->soon = ns < UR_TURN_SOON_NS ? t->soon + 1 : 0;
	t->naps = t->first && t->soon >= UR_TURN_SOON_MANY;
}

void ur_turn_napped(struct ur_turn *t, uint64_t ns)
{
	t->slept_ns += ns;
	t->done = 0;
}

bool ur_turn_comes_first(struct ur_turn *t, bool crowded, uint64_t now_ns)
{
	if (crowded)
		t->crowded_ns = now_ns;
	return t->crowded_ns && now_ns - t->crowded_ns < UR_TURN_STAY_NS;
}

uint64_t ur_turn_rest_ns(struct ur_turn *t, uint64_t now_ns)
{
	uint64_t slept = t->slept_ns;

	if (now_ns < t->begun_ns ||
	    now_ns - t->begun_ns < UR_TURN_BUSY_NS + slept)
		return 0;
	t->begun_ns = now_ns;
	t->slept_ns = 0;
	if (!t->first || slept >= UR_TURN_WINDOW_NS - UR_TURN_BUSY_NS)
		return 0;
	slept = UR_TURN_WINDOW_NS - UR_TURN_BUSY_NS - slept;
	t->begun_ns += slept;
	return slept;
}

uint64_t ur_turn_nap_ns(struct ur_turn *t)
{
	t->naps &= t->first && t->done >= UR_TURN_NAP_WORTH;
	return t->naps ? UR_TURN_NAP_NS : 0;
}
