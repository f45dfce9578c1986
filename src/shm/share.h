/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Converts private memory into shared memory in place, so that peers can map
 * memory that the application has from malloc(). Decision 0012 says when this
 * is safe.  URNIC_SHARE limits the bytes; 0 turns it off.
 *
 * A thread of the application does it inside a call of the adapter, since then
 * the only thread that could write to the memory is not writing.  It happens
 * when a queue pair gets a peer on this host, since a program that is only a
 * target may never call again, and later on request of peers, which the watcher
 * queues.
 */
#ifndef UR_SHM_SHARE_H
#define UR_SHM_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/export.h"

/* Bytes per process: they are copied once, and again by some forks. */
#define UR_SHARE_TOTAL (1ull << 30)
/* After more forks than these, memory that a fork made private stays so. */
#define UR_SHARE_FORKS 16u

/*
 * Each thread of ours calls these when it starts and when it ends; all other
 * threads are the application's.
 */
void ur_share_thread_begin(void);
void ur_share_thread_end(void);

/* Are there requests? One load. */
bool ur_share_requested(const struct ur_export *e);

/*
 * Serve the requests, if it is safe at present; otherwise the memory stays
 * private.  The caller is a thread of the application and holds every lane of
 * the process, so that no thread of ours writes to the application's memory.
 */
void ur_share_do(struct ur_export *e);

/* Is there a new region, not yet considered? One load. */
bool ur_share_has_fresh(const struct ur_export *e);

/*
 * As ur_share_do(), for the domain's regions that were registered since.  Each
 * is considered once.  False: not safe at present; the rest stays new.
 */
bool ur_share_offer(struct ur_export *e, const struct ur_pd *pd);

/* The domain's regions are no longer new; peers may request them. */
void ur_share_pass_over(struct ur_export *e, const struct ur_pd *pd);

#endif
