/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors by which peers of this host wake the thread that sleeps on a
 * lane.  Each peer gets its own, one end of a socket pair, so a peer that
 * drains it or changes its flags affects no other peer.  Signalling never
 * blocks.
 *
 * The lane's lock guards all calls but ur_wakefd_signal() and
 * ur_wakefd_is_valid().
 */
#ifndef UR_ENGINE_WAKEFD_H
#define UR_ENGINE_WAKEFD_H

#include <stdbool.h>

struct ur_lane;

/* Our end, or -errno.  *theirs is for the peer; the caller closes it. */
int ur_wakefd_create(struct ur_lane *l, int *theirs);
void ur_wakefd_destroy(struct ur_lane *l, int ours);

/* What a thread that sleeps on the lane polls; -1: there are no peers.  After
 * ur_wakefd_create() it is another one. */
int ur_wakefd_polled(const struct ur_lane *l);

/* Reads what peers have written, so that the next signal is an edge. */
void ur_wakefd_drain(struct ur_lane *l);

/* Is a descriptor that a peer has passed of the right kind? */
bool ur_wakefd_is_valid(int theirs);
void ur_wakefd_signal(int theirs);

#endif
