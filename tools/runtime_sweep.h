/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_TOOLS_RUNTIME_SWEEP_H
#define UR_TOOLS_RUNTIME_SWEEP_H

#include <sys/types.h>

/*
 * Remove a few of the directories net-N of base, which is ours alone, if their
 * network namespaces are gone: no process is in them, nothing is mounted that
 * holds them, and N is not `own`.  Nothing is removed where that cannot be
 * told: by a process that does not see all processes that may have used them
 * (they are marked with the PID namespace of their users), or may not look at
 * them.  The caller holds `lock`, a lock of flock() or -1; it is released
 * before the files are removed, as a file system with "discard" takes seconds
 * for that.
 */
void ur_runtime_sweep(const char *base, ino_t own, int lock);

/* Mark the directory net-N as used from our PID namespace: 0 or -errno. */
int ur_runtime_mark(const char *path);

#endif
