/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Turning private memory into shared memory in place, so that peers can map
 * what the application has from malloc(): decision 0012 says when this is
 * safe.  URNIC_SHARE says how much at most, 0 turns it off.
 *
 * It is done by a thread of the application inside a call of the adapter,
 * since the one safe moment is when the only thread that could write to the
 * memory is not writing: when a queue pair gets a peer on this host, since a
 * program that only lets others read and write may never call again; and
 * later for what peers wish, which the watcher notes.
 */
#ifndef UR_SHM_SHARE_H
#define UR_SHM_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/export.h"

/* Bytes of a process: they are copied once, and once more by some forks. */
#define UR_SHARE_TOTAL (1ull << 30)
/* A process that forks more often keeps as private what a fork has made so. */
#define UR_SHARE_FORKS 16u

/*
 * Every thread of ours calls these as it starts and as it ends; all others
 * are the application's.
 */
void ur_share_thread_begin(void);
void ur_share_thread_end(void);

/* So many more threads that others have begun in our name, for good: they
 * write to no memory of the application. */
void ur_share_threads_add(unsigned int n);

/* We ourselves wish that the region of that key were shared; under any lock of
 * the adapter. */
void ur_share_want(struct ur_export *e, uint32_t key);

/* Is there something to do?  One load. */
bool ur_share_wished(const struct ur_export *e);

/*
 * Do it, if it is safe just now; what was not stays as it was.  The caller is
 * a thread of the application and holds every lane of the process, so that
 * nobody of ours writes to memory of the application.
 */
void ur_share_do(struct ur_export *e);

/* Is there a region that nobody has thought of yet?  One load. */
bool ur_share_has_fresh(const struct ur_export *e);

/*
 * As ur_share_do(), for the regions of a protection domain that have been
 * registered since.  Each is thought of once.  False: not safe just now; what
 * is left is still fresh.
 */
bool ur_share_offer(struct ur_export *e, const struct ur_pd *pd);

/* Those of the domain are no longer fresh; peers may wish for them. */
void ur_share_pass_over(struct ur_export *e, const struct ur_pd *pd);

#endif
