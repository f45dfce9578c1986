/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for mappings of our own (shm/pin.h) of regions from which a port
 * sends large packets with zero copy (decision 0015).  The memory is made
 * shareable first, once that is safe (shm/share.h).
 */
#ifndef UR_ENGINE_PIN_QUEUE_H
#define UR_ENGINE_PIN_QUEUE_H

#include <stdint.h>

#include "base/lock.h"

#define UR_PIN_QUEUE_MAX 8u

/* Regions of an adapter that have no mapping yet. */
struct ur_pin_queue {
	struct ur_lock lock; /* inside a lane */
	uint32_t count;
	uint32_t keys[UR_PIN_QUEUE_MAX];
};

struct ur_export;
struct ur_lane;
struct ur_roce_config;

/* Let the lane's protocol add regions. */
void ur_pin_queue_configure(struct ur_lane *l, struct ur_roce_config *cfg);

/* Map the queued regions of this export's adapters, if they are shareable by
 * now.  The caller holds every lane of the process. */
void ur_pin_queue_run(const struct ur_export *e);

#endif
