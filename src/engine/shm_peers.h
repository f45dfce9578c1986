/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channels between lanes of this host (shm/shm.h). The watcher thread makes
 * one, through urnicd, when a queue pair is connected to such a lane.
 *
 * Of two lanes the one with the lower slot offers, so that not both do; the
 * other asks it to.  A channel is open when a side has received the other's
 * greeting on its socket, with a wakeup fd.  It ends with the socket, and so
 * with the process.
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

/* A new adapter: peers may access its memory from now on. */
void ur_shm_prepare(struct ur_adapter *a);

/* Before the protocol is made: enables channels for the lane. */
void ur_shm_configure(struct ur_lane *l, struct ur_roce_config *cfg);

/*
 * Called by the application without a lane: makes memory that peers use
 * shareable, if they requested it (shm/share.h).
 */
void ur_shm_share_now(struct ur_export *e);
static inline void ur_shm_share(const struct ur_adapter *a)
{
	if (a->export && ur_share_requested(a->export))
		ur_shm_share_now(a->export);
}

/*
 * The same before any request, since the application may not call again: qp was
 * connected, perhaps to a lane of this host.
 */
void ur_shm_share_early(struct ur_adapter *a, const struct ur_qp *qp);

/*
 * The watcher's part: its file descriptors (at most UR_SHM_MAX), and the work
 * when some are readable, or it was woken.
 */
unsigned int ur_shm_fds(struct pollfd *fds);
void ur_shm_work(struct ur_client *c, const struct pollfd *fds, unsigned int n);

/* In a child of fork(): close the copies of the sockets. */
void ur_shm_abandon(void);

/* For `urnic show`: why the lane has no channel to the slot; NULL: it was not
 * refused. */
const char *ur_shm_refused(const struct ur_lane *l, uint16_t slot);
/* For `urnic show`: the channels of a lane, and why others have none. */
void ur_shm_report(const struct ur_lane *l, struct json_object *o);

#endif
