/* SPDX-License-Identifier: BSD-2-Clause */
/* The will of this process (client/will.h); under the CM thread's lock. */
#ifndef UR_CONNECT_CM_WILL_H
#define UR_CONNECT_CM_WILL_H

#include <stdint.h>

#include "client/will.h"
#include "cm/ib_cm.h"

struct ur_cm_will {
	struct ur_will *map; /* NULL: there is none */
	uint32_t *unused;    /* entries that were used before */
	uint32_t nunused;
	uint32_t cap;
};

/* The descriptor for urnicd, or -errno: then nothing is written. */
int ur_cm_will_open(struct ur_cm_will *w);
void ur_cm_will_close(struct ur_cm_will *w);

/*
 * A connection that is open, or only accepted: the peer is to get a DREQ or a
 * REJ.  Its entry, or -1: none, and the peer is not told.
 */
int32_t ur_cm_will_add(struct ur_cm_will *w, const struct ur_cm_id *id,
		       bool open);

/* It is closed; -1 does nothing. */
void ur_cm_will_del(struct ur_cm_will *w, int32_t entry);

#endif
