/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of a port in the view of /sys that `urnic run` made. The
 * processes of the view add up there what they have counted: the watcher once a
 * second while something changes, and the process at its end. If nothing has
 * changed the watcher rests, without a timer, until a lane's helper is awake
 * anyway. A file is the sum, and the lock on its directory makes adding atomic
 * between processes. What a killed process has counted in its last second is
 * lost.
 */
#ifndef UR_ENGINE_PUBLISH_H
#define UR_ENGINE_PUBLISH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* There is a view, and the watcher rests; false without a view. */
extern _Atomic bool ur_publish_rests;

/* Before the watcher runs: is there a view? */
void ur_publish_start(void);

/* The watcher's thread. */
void ur_publish(uint64_t now_ns);

/* When the watcher is to call it; or UR_NEVER. */
uint64_t ur_publish_next_ns(void);

/* A helper, before it sleeps, if ur_publish_rests. */
void ur_publish_resume(void);

/* The end of the process. */
void ur_publish_end(void);

/* In a child of fork(): it has counted nothing. */
void ur_publish_child(void);

#endif
