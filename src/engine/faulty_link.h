/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link that injects faults stands in front of the lane's own by a table of
 * operations of its own, and is taken away when there is nothing more to do: a
 * lane without faults has no trace of it.  Packets are copied, and each one is
 * held until its time; the lane's thread of faults (faults.c) runs the lane then.
 */
#ifndef UR_ENGINE_FAULTY_LINK_H
#define UR_ENGINE_FAULTY_LINK_H

#include "sockets/link.h"

/* Under the lane's lock; idempotent.  `device` stays the caller's.  0 or
 * -ENOMEM. */
int ur_faulty_link_install(struct ur_link *link, const char *device,
			   uint32_t lane);

bool ur_faulty_link_is(const struct ur_link *link);

/* When the next packet that it holds is due; UR_NEVER: it holds none. */
uint64_t ur_faulty_link_due(const struct ur_link *link);

#endif
