/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mappings of our own for regions from which large packets leave by a port
 * that need not copy them ("zero_copy", decision 0015).  The memory is made
 * shareable first, when that is safe (shm/share.h).
 */
#ifndef UR_ENGINE_PINNER_H
#define UR_ENGINE_PINNER_H

#include <stdint.h>

#include "base/lock.h"

#define UR_PINNER_WISHES 8u

/* Regions that are waiting for it; in an adapter. */
struct ur_pinner {
	struct ur_lock lock; /* inside a lane */
	uint32_t count;
	uint32_t keys[UR_PINNER_WISHES];
};

struct ur_export;
struct ur_lane;
struct ur_roce_config;

/* The lane's protocol is to tell which. */
void ur_pinner_configure(struct ur_lane *l, struct ur_roce_config *cfg);

/* Those of the adapters of this export that have been made shareable get one.
 * The caller holds every lane of the process. */
void ur_pinner_do(const struct ur_export *e);

#endif
