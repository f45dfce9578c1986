/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channels between lanes of this host (roce/near.h): made when a queue pair is
 * connected to one, through urnicd, by the watcher thread.
 *
 * Of two lanes the one with the lower slot offers, so that they do not both;
 * the other one asks it to.  A channel is open when either side has heard the
 * other's greeting on its socket, with the descriptor of its bell.  It ends
 * when the socket does, that is with the process.
 */
#ifndef UR_ENGINE_NEAR_H
#define UR_ENGINE_NEAR_H

#include <poll.h>
#include <stdint.h>

#include "engine/internal.h"
#include "reach/share.h"

struct json_object;
struct ur_roce_config;

#define UR_NEAR_MAX 256u /* channels of a process */

/* A new adapter: its memory can be reached by peers from now on. */
void ur_near_prepare(struct ur_adapter *a);

/* Before the protocol is made: may lanes of this process have channels? */
void ur_near_configure(struct ur_lane *l, struct ur_roce_config *cfg);

/* Called by the application, without a lane: make memory that peers use such
 * that they can map it, if they wish so (reach/share.h). */
void ur_near_share_now(struct ur_export *e);
static inline void ur_near_share(const struct ur_adapter *a)
{
	if (a->export && ur_share_wished(a->export))
		ur_near_share_now(a->export);
}

/*
 * The same before peers can wish for anything, since the application may not
 * call again: qp was connected, maybe to a lane of this host.
 */
void ur_near_share_early(struct ur_adapter *a, const struct ur_qp *qp);

/* The watcher's part: its descriptors (at most UR_NEAR_MAX), and what to do
 * when some are readable, or it was woken. */
unsigned int ur_near_fds(struct pollfd *fds);
void ur_near_work(struct ur_client *c, const struct pollfd *fds,
		  unsigned int n);

/* The child after fork(): close our copies of the sockets. */
void ur_near_abandon(void);

/* For `urnic show`: the channels of a lane, and why others have none. */
void ur_near_report(const struct ur_lane *l, struct json_object *o);

#endif
