/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Turning private memory into shared memory in place, so that peers can map
 * what the application has from malloc(): decision 0012 says when this is
 * safe.  URNIC_SHARE=0 turns it off.
 *
 * What peers wish is noted by the watcher.  It is done by a thread of the
 * application inside a call of the adapter, since the one safe moment is when
 * the only thread that could write to the memory is not writing.
 */
#ifndef UR_REACH_SHARE_H
#define UR_REACH_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reach/export.h"

#define UR_SHARE_MAX   4194304u	 /* bytes of a region: some ms of copying */
#define UR_SHARE_TOTAL 67108864u /* of a process */

/*
 * Every thread of ours calls these as it starts and as it ends; all others
 * are the application's.
 */
void ur_share_thread_begin(void);
void ur_share_thread_end(void);

/* Is there something to do?  One load. */
bool ur_share_wished(const struct ur_export *e);

/*
 * Do it, if it is safe just now; what was not stays as it was.  The caller is
 * a thread of the application and holds every lane of the process, so that
 * nobody of ours writes to memory of the application.
 */
void ur_share_do(struct ur_export *e);

#endif
