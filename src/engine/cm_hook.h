/* SPDX-License-Identifier: BSD-2-Clause */
/* What lanes tell the communication manager; under any lock, never waits. */
#ifndef UR_ENGINE_CM_HOOK_H
#define UR_ENGINE_CM_HOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/packet.h"

/*
 * A packet came to the lane of a process that has the port alone.  True: it
 * was for QP1 and is taken.
 */
bool ur_cm_hook_input(const struct ur_rx *rx);

/* A QP has got its first packet in RTR (COMM_EST). */
void ur_cm_hook_comm_est(uint32_t qpn);

/* The device's addresses may have changed; from the watcher, no lock held. */
struct ur_adapter;
void ur_cm_hook_addresses(struct ur_adapter *a);

/* The device has been removed; likewise. */
void ur_cm_hook_removed(struct ur_adapter *a);

#endif
