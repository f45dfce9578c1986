/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that sleep until an event of a completion channel (wait.c). */
#ifndef UR_ENGINE_WAIT_H
#define UR_ENGINE_WAIT_H

#include <poll.h>

#include "core/event.h"

struct ur_adapter;
struct ur_lane;

enum {
	UR_WAIT_LANES = 4, /* with more of them the helpers do the work */
	UR_WAIT_FDS = 3 * UR_WAIT_LANES,
	UR_WAIT_ADAPTIVE = -1, /* poll before the first sleep while that pays */
};

/* Lanes whose work a sleeping thread does; all zero at first. */
struct ur_wait_lanes {
	struct ur_lane *lane[UR_WAIT_LANES];
	uint32_t n;
	/* There are more, or the link of one has no descriptor of the kernel:
	 * only the helpers do the work. */
	bool unserved;
};

/*
 * As ur_evq_take() on a completion channel of the adapter, but the thread does
 * the lanes' work while it waits, where it can.
 */
int ur_adapter_wait(struct ur_adapter *a, struct ur_evq *q, struct ur_ev *out);

/* Adds the lanes that feed the channel now. */
void ur_wait_add(struct ur_wait_lanes *lanes, const struct ur_adapter *a,
		 const struct ur_evq *q);
void ur_wait_join(struct ur_wait_lanes *to, const struct ur_wait_lanes *from);

/*
 * As poll(2) on n descriptors, until a time of ur_clock_ns(), but the thread
 * does the lanes' work while it waits.  fds has room for UR_WAIT_FDS more.
 * Returns how many of them are ready; 0 when the time has come or when events
 * that this thread itself has raised were taken by their queues' `raised`;
 * -EINTR.  spin_ns: UR_WAIT_ADAPTIVE, or how long it polls before it sleeps,
 * which is not used where other threads do the work.  A cancellation point.
 */
int ur_wait_poll(const struct ur_wait_lanes *lanes, struct pollfd *fds,
		 nfds_t n, uint64_t until_ns, int64_t spin_ns);

#endif
