/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which thread watches the link of a lane, and how it passes from one to another
 * (docs/decisions/0021).  Every change of ur_lane.watch is a row of this table;
 * tests/unit/engine/handover_test.c explores them in all orders.
 */
#ifndef UR_ENGINE_HANDOVER_H
#define UR_ENGINE_HANDOVER_H

#include <stdbool.h>

enum ur_watch {
	UR_WATCH_ARMED, /* the helper sleeps on the link: runs what comes */
	UR_WATCH_TICK,	/* an application polls: looks once a millisecond */
	/* A thread of the application sleeps on the link, or has done so lately
	 * (wait.c, chanpoll.c): the helper looks every 1 to 4 ms, or
	 * sleeps. */
	UR_WATCH_WAITER,
};

enum { UR_WATCHES = UR_WATCH_WAITER + 1 };

enum ur_handover {
	UR_HANDOVER_POLLED,	/* a thread has polled for long enough */
	UR_HANDOVER_ARMED,	/* a poller arms a queue */
	UR_HANDOVER_ARMED_SOON, /* … where threads have waited before */
	UR_HANDOVER_WAITS, /* a thread begins to wait, and serves the lane */
	UR_HANDOVER_ENDS,  /* its wait is over; no other thread waits */
	UR_HANDOVER_ENDS_RESTING, /* … and the helper sleeps without a timer */
	/* Its wait is over and others wait, or it cannot serve all lanes of its
	 * channel. */
	UR_HANDOVER_LEAVES,
	UR_HANDOVER_CHAN_BEGINS, /* programs that poll a channel do the work */
	UR_HANDOVER_CHAN_ENDS,	 /* the helper does it again */
	UR_HANDOVER_GONE, /* the helper saw that no thread polls or waits any more */
	UR_HANDOVERS,
};

struct ur_handed {
	enum ur_watch watch; /* from now on */
	bool wake; /* the helper, which sleeps as the old state says */
};

struct ur_handed ur_handover(enum ur_watch watch, enum ur_handover event);

#endif
