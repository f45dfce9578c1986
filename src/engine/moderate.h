/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues with moderated events (ur_cq_moderate()).  They are few.
 * The helpers of an adapter's lanes raise the events that are due.
 */
#ifndef UR_ENGINE_MODERATE_H
#define UR_ENGINE_MODERATE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "core/cq.h"

struct ur_moderator {
	struct ur_lock lock;   /* inside the lane's, outside the queues' */
	struct ur_list queues; /* ur_cq.moderated */
	_Atomic uint32_t count;
};

void ur_moderator_init(struct ur_moderator *m);

/* Moderate a queue, or with count or period 0 no longer. */
void ur_moderator_set(struct ur_moderator *m, struct ur_cq *cq, uint32_t count,
		      uint32_t period_us);

/* When the next event is due; UR_NEVER: none waits. */
uint64_t ur_moderator_deadline(struct ur_moderator *m);

/* Raise the events that are due. */
void ur_moderator_expire(struct ur_moderator *m, uint64_t now_ns);

#endif
