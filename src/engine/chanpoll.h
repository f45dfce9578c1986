/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that sleep in poll(2) or epoll on a completion channel's descriptor
 * (chanpoll.c). */
#ifndef UR_ENGINE_CHANPOLL_H
#define UR_ENGINE_CHANPOLL_H

#include "base/aiopoll.h"
#include "core/event.h"

struct ur_adapter;
struct ur_lane;

/* Polls of the kernel at a time: of the link and the peers' descriptors for one
 * channel; the others are of channels that were before. */
#define UR_KPOLLS 8u

/* The helper's shortest time between looks, while it finds acknowledgements that
 * wait for an answer: peers ask for them after some 500 us. */
#define UR_CHANPOLL_TICK_NS 250000u

/* A part of the lane; under its lock. */
struct ur_chanpoll {
	/* Programs that poll this channel do the lane's work; NULL: none.  Only
	 * in WAITER.  Others may read it without the lock. */
	struct ur_evq *_Atomic q;
	struct ur_aiopoll aio;
	struct {
		struct ur_evq *q; /* NULL: it is gone */
		int fd;
		bool pending;
	} kpoll[UR_KPOLLS];
	/* A poll has ended since the last ur_chanpoll_take(); read without the
	 * lock. */
	_Atomic bool fired;
	uint32_t idle; /* wakeups without an event, above those with one */
	uint64_t off_until_ns; /* until then the helper does the work */
	uint64_t came_ns;      /* when the helper last saw that programs came */
	uint64_t look_ns;      /* when it looks next … */
	uint64_t tick_ns;      /* … and how long after that again */
};

/*
 * As ur_evq_take_polled() on a channel with polled_lanes, after the work of the
 * lanes.  If the descriptor was readable and there is no event, takes one without
 * a completion.
 */
bool ur_chanpoll_take(struct ur_adapter *a, struct ur_evq *q,
		      struct ur_ev *out);

/* The channel goes away; no call on it is in progress. */
void ur_chanpoll_leave(struct ur_adapter *a, struct ur_evq *q);

/* A program polls a queue of q that is armed. */
void ur_chanpoll_spin(struct ur_lane *l, struct ur_evq *q);

/* All under the lane's lock from here.  True: call ur_helper_wake() after
 * unlocking. */

enum ur_chanpoll_use {
	UR_CHANPOLL_NO,	    /* the program does not sleep in poll(2) or epoll */
	UR_CHANPOLL_RARELY, /* it armed the queue more than 4 ms ago */
	UR_CHANPOLL_OFTEN,
};

/* A queue of q was armed. */
bool ur_chanpoll_arm(struct ur_lane *l, struct ur_evq *q,
		     enum ur_chanpoll_use use, uint64_t now);

/* The helper serves such programs for some time. */
bool ur_chanpoll_pause(struct ur_lane *l, uint64_t now);

#endif
