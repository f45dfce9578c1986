/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Start urnicd from inside an application without its noticing: no SIGCHLD,
 * nothing for its wait(), no atfork handlers, no descriptors passed on.
 */
#ifndef UR_CLIENT_SPAWN_H
#define UR_CLIENT_SPAWN_H

#include <stddef.h>

/*
 * Find the executable: $URNICD, else beside the library that holds this
 * function or in the usual directories relative to it, else where it was
 * installed, else in $PATH.  0, or -ENOENT.
 */
int ur_spawn_find(char *path, size_t cap);

/*
 * Start `path --on-demand`.  Returns when it has been exec'ed: 0 or -errno
 * (of exec too).  -EPERM in a set-user-ID program: never done there.
 */
int ur_spawn_daemon(const char *path);

#endif
