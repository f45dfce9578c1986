/* SPDX-License-Identifier: BSD-2-Clause */
#include "dataplane/port_sched.h"

void ur_port_sched_worked(struct ur_port_sched *t, uint32_t n)
{
	t->done += n;
}

void ur_port_sched_slept(struct ur_port_sched *t, uint64_t ns)
{
	t->slept_ns += ns;
	t->done = 0;
	t->soon = ns < UR_PORT_SCHED_SOON_NS ? t->soon + 1 : 0;
	t->naps = t->first && t->soon >= UR_PORT_SCHED_SOON_MANY;
}

void ur_port_sched_napped(struct ur_port_sched *t, uint64_t ns)
{
	t->slept_ns += ns;
	t->done = 0;
}

bool ur_port_sched_comes_first(struct ur_port_sched *t, bool crowded,
			       uint64_t now_ns)
{
	if (crowded)
		t->crowded_ns = now_ns;
	return t->crowded_ns && now_ns - t->crowded_ns < UR_PORT_SCHED_STAY_NS;
}

uint64_t ur_port_sched_rest_ns(struct ur_port_sched *t, uint64_t now_ns)
{
	uint64_t slept = t->slept_ns;

	if (now_ns < t->begun_ns ||
	    now_ns - t->begun_ns < UR_PORT_SCHED_BUSY_NS + slept)
		return 0;
	t->begun_ns = now_ns;
	t->slept_ns = 0;
	if (!t->first ||
	    slept >= UR_PORT_SCHED_WINDOW_NS - UR_PORT_SCHED_BUSY_NS)
		return 0;
	slept = UR_PORT_SCHED_WINDOW_NS - UR_PORT_SCHED_BUSY_NS - slept;
	t->begun_ns += slept;
	return slept;
}

uint64_t ur_port_sched_nap_ns(struct ur_port_sched *t)
{
	t->naps &= t->first && t->done >= UR_PORT_SCHED_NAP_WORTH;
	return t->naps ? UR_PORT_SCHED_NAP_NS : 0;
}
