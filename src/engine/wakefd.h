/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How peers of this host wake the helper of a lane that sleeps.  Each peer has
 * a bell of its own, the far end of a socket pair: what it does to it, draining
 * it or changing its flags, concerns nobody else, and no ringing ever waits.
 *
 * Who may touch it: all but ur_wakefd_ring() and ur_wakefd_is_one() by whoever
 * holds the lane.
 */
#ifndef UR_ENGINE_WAKEFD_H
#define UR_ENGINE_WAKEFD_H

#include <stdbool.h>

struct ur_lane;

/*
 * A new bell of the lane: our end, or -errno; *theirs is to be handed to the
 * peer, and the caller's.
 */
int ur_wakefd_make(struct ur_lane *l, int *theirs);
void ur_wakefd_drop(struct ur_lane *l, int ours);

/* Some were rung: they are silent again, for the next time. */
void ur_wakefd_hush(struct ur_lane *l);

/* Could what a peer has handed us be one? */
bool ur_wakefd_is_one(int theirs);
void ur_wakefd_ring(int theirs);

#endif
