/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The view of a device that programs expect under /sys and /dev: the tree
 * below `root` has the same paths without "/sys", and dev/infiniband.
 */
#ifndef UR_TOOLS_SYSFS_TREE_H
#define UR_TOOLS_SYSFS_TREE_H

#include "core/dev.h"

/*
 * Write or refresh what is said of one device.  Programs may be reading: a file is replaced as a whole,
 * and one that is right already is not touched.  0 or -errno.
 */
int ur_sysfs_write(const char *root, struct ur_dev *dev);

/* Take it out again, for instance because its interface is gone. */
int ur_sysfs_remove(const char *root, struct ur_dev *dev);

#endif
