/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How peers of this host wake the helper of a lane that sleeps.  Each peer has
 * a bell of its own, the far end of a socket pair: what it does to it, draining
 * it or changing its flags, concerns nobody else, and no ringing ever waits.
 *
 * Who may touch it: all but ur_bell_ring() and ur_bell_is_one() by whoever
 * holds the lane.
 */
#ifndef UR_ENGINE_BELL_H
#define UR_ENGINE_BELL_H

#include <stdbool.h>

struct ur_lane;

/*
 * A new bell of the lane: our end, or -errno; *theirs is to be handed to the
 * peer, and the caller's.
 */
int ur_bell_make(struct ur_lane *l, int *theirs);
void ur_bell_drop(struct ur_lane *l, int ours);

/* Some were rung: they are silent again, for the next time. */
void ur_bell_hush(struct ur_lane *l);

/* Could what a peer has handed us be one? */
bool ur_bell_is_one(int theirs);
void ur_bell_ring(int theirs);

#endif
