/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process leaves to urnicd when it exits (roce/timewait.h). */
#ifndef UR_ENGINE_LEAVE_H
#define UR_ENGINE_LEAVE_H

#include "engine/internal.h"

struct ur_leave {
	struct ur_timewait *lasts; /* UR_LEAVE_MAX; NULL: none yet */
	uint32_t count;
};

#define UR_LEAVE_MAX 1024u

/* Under the lane's lock. */
void ur_leave_lane(struct ur_leave *v, const struct ur_lane *l);

/* Hand it over and free it; never waits. */
void ur_leave_send(struct ur_leave *v, struct ur_client *c);

#endif
