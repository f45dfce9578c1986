/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the files of a user and a network namespace are: below /run/urnic
 * (root), $XDG_RUNTIME_DIR/urnic, or /tmp/urnic-<uid>.
 */
#ifndef UR_TOOLS_RUNTIME_DIR_H
#define UR_TOOLS_RUNTIME_DIR_H

#include <stddef.h>

/*
 * Make it, if need be, and see to it that it is ours alone: a directory of
 * ours, mode 0700.  0 or -errno, with a message.
 */
int ur_runtime_dir(char *path, size_t cap);

#endif
