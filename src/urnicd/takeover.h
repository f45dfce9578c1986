/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a service dies, its clients start a urnicd on demand at once, which runs
 * no DPDK ports and may never be idle.  The next service replaces it.
 */
#ifndef UR_URNICD_TAKEOVER_H
#define UR_URNICD_TAKEOVER_H

#include <stdbool.h>

#include "urnicd/slot_store.h"

/*
 * If the urnicd that has the name is of our user and was started on demand: get
 * its slot store, so that no slot is lost, and end it.  The store is the
 * caller's (both -1: it had no slots).  True: the name is free soon.
 */
bool ur_takeover(struct ur_slot_store *store);

#endif
