/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which paths of a program are of the view, and where they are in it.
 * Part of liburnic-preload.so.
 */
#ifndef UR_TOOLS_VIEW_PATH_H
#define UR_TOOLS_VIEW_PATH_H

#include <limits.h>
#include <stdbool.h>

/*
 * The path to use instead of `path`, which is relative to the directory `dir`
 * (AT_FDCWD: the working directory): in `buf`, or `path` itself.  A NULL is
 * handed on, for the kernel answers EFAULT.  errno is kept.
 */
const char *ur_view_path(int dir, const char *path, char buf[PATH_MAX]);

/*
 * Does the path name a device node?  The view has a link to /dev/null there,
 * which has to look like the node.  errno is kept.
 */
bool ur_view_is_node(int dir, const char *path);

#endif
