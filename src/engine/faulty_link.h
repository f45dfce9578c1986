/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link that injects faults stands in front of the lane's own by a table of
 * operations of its own, and is taken away when there is nothing more to do: a
 * lane without faults has no trace of it.  Packets are copied, and each one is
 * held until its time; the lane's thread of faults (faults.c) runs the lane then.
 * It records what it sends, and what it drops, in the lane's capture.
 */
#ifndef UR_ENGINE_FAULTY_LINK_H
#define UR_ENGINE_FAULTY_LINK_H

#include "sockets/link.h"

struct ur_lane;

/* Under the lane's lock; idempotent.  `device`, and `owner` with the number `lane`, stay
 * the caller's.  0 or -ENOMEM. */
int ur_faulty_link_install(struct ur_link *link, const char *device,
			   uint32_t lane, const struct ur_lane *owner);

/* What was done to the packet that is being received (enum ur_capture_injected). */
uint8_t ur_faulty_link_mark(const struct ur_link *link);

bool ur_faulty_link_is(const struct ur_link *link);

/* When the next packet that it holds is due; UR_NEVER: it holds none. */
uint64_t ur_faulty_link_due(const struct ur_link *link);

#endif
