/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scheduling of the thread of a port while there are more runnable threads than
 * cores.  Pure: time is an argument.
 *
 * Theory of operation.  A program that polls never sleeps, so under fair
 * scheduling each packet waits until the program's time slice is over, while the
 * program can do nothing until the packet is there.  So, while there are too few
 * cores, the thread of a port has real-time priority, like a controller's
 * interrupts.  As these do, it
 *
 * - leaves a share of the core to ordinary threads: it may work for BUSY_NS of
 *   each WINDOW_NS, and rests for what it has not slept of the remainder;
 * - coalesces: if it is woken again as soon as it sleeps, a lane has more to send
 *   than one message.  Then it naps for a fixed time without wake-ups, as long as
 *   it finds enough work after a nap.
 */
#ifndef UR_DATAPLANE_PORT_SCHED_H
#define UR_DATAPLANE_PORT_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#define UR_PORT_SCHED_WINDOW_NS 2000000u
#define UR_PORT_SCHED_BUSY_NS	1500000u /* of each window, at most */
#define UR_PORT_SCHED_STAY_NS	100000000u
#define UR_PORT_SCHED_SOON_NS	10000u
#define UR_PORT_SCHED_SOON_MANY 6u
#define UR_PORT_SCHED_NAP_NS	40000u
#define UR_PORT_SCHED_NAP_WORTH 4u

/* All zero at first. */
struct ur_port_sched {
	bool first;	     /* has real-time priority */
	uint64_t crowded_ns; /* when there were too few cores the last time */
	uint64_t begun_ns;   /* the window */
	uint64_t slept_ns;   /* within it */
	uint32_t soon;	     /* sleeps in a row from which it was woken soon */
	uint32_t done;	     /* packets and bursts since it slept or napped */
	bool naps;
};

/* It has worked, on so many packets and bursts. */
void ur_port_sched_worked(struct ur_port_sched *t, uint32_t n);

/* It has slept for so long until it was woken, or napped. */
void ur_port_sched_slept(struct ur_port_sched *t, uint64_t ns);
void ur_port_sched_napped(struct ur_port_sched *t, uint64_t ns);

/* Should it have real-time priority from now on? */
bool ur_port_sched_comes_first(struct ur_port_sched *t, bool crowded,
			       uint64_t now_ns);

/* How long it has to rest now, before anything else; that is no sleep of the
 * next window. */
uint64_t ur_port_sched_rest_ns(struct ur_port_sched *t, uint64_t now_ns);

/* There is nothing to do: how long to nap; 0: sleep until it is woken. */
uint64_t ur_port_sched_nap_ns(struct ur_port_sched *t);

#endif
