/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channels between lanes of this host (shm/shm.h): made when a queue pair is
 * connected to one, through urnicd, by the watcher thread.
 *
 * Of two lanes the one with the lower slot offers, so that they do not both;
 * the other one asks it to.  A channel is open when either side has heard the
 * other's greeting on its socket, with the descriptor of its bell.  It ends
 * when the socket does, that is with the process.
 */
#ifndef UR_ENGINE_SHM_PEERS_H
#define UR_ENGINE_SHM_PEERS_H

#include <poll.h>
#include <stdint.h>

#include "engine/internal.h"
#include "shm/share.h"

struct json_object;
struct ur_roce_config;

#define UR_SHM_MAX 256u /* channels of a process */

/* A new adapter: its memory can be reached by peers from now on. */
void ur_shm_prepare(struct ur_adapter *a);

/* Before the protocol is made: may lanes of this process have channels? */
void ur_shm_configure(struct ur_lane *l, struct ur_roce_config *cfg);

/* Called by the application, without a lane: make memory that peers use such
 * that they can map it, if they wish so (shm/share.h). */
void ur_shm_share_now(struct ur_export *e);
static inline void ur_shm_share(const struct ur_adapter *a)
{
	if (a->export && ur_share_requested(a->export))
		ur_shm_share_now(a->export);
}

/*
 * The same before peers can wish for anything, since the application may not
 * call again: qp was connected, maybe to a lane of this host.
 */
void ur_shm_share_early(struct ur_adapter *a, const struct ur_qp *qp);

/* The watcher's part: its descriptors (at most UR_SHM_MAX), and what to do
 * when some are readable, or it was woken. */
unsigned int ur_shm_fds(struct pollfd *fds);
void ur_shm_work(struct ur_client *c, const struct pollfd *fds, unsigned int n);

/* The child after fork(): close our copies of the sockets. */
void ur_shm_abandon(void);

/* For `urnic show`: the channels of a lane, and why others have none. */
void ur_shm_report(const struct ur_lane *l, struct json_object *o);

#endif
