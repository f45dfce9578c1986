/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of a port in the view of /sys that `urnic run` made. The
 * processes of the view add up there what they have counted: the watcher once a
 * second if something has changed, and the process at its end. A file is the
 * sum, and the lock on its directory makes adding atomic between processes. What
 * a killed process has counted in its last second is lost.
 */
#ifndef UR_ENGINE_PUBLISH_H
#define UR_ENGINE_PUBLISH_H

#include <stdint.h>

/* The watcher's thread, or the end of the process. */
void ur_publish(uint64_t now_ns);

/* When the watcher is to call it; UR_NEVER: there is no view. */
uint64_t ur_publish_next_ns(void);

/* In a child of fork(): it has counted nothing. */
void ur_publish_child(void);

#endif
