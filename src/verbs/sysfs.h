/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the tree of device attributes lies: URNIC_SYSFS, else /sys.  Attributes
 * that no file has are answered from the device itself.
 */
#ifndef UR_VERBS_SYSFS_H
#define UR_VERBS_SYSFS_H

#include <infiniband/verbs.h>

#include "core/dev.h"

const char *ur_sysfs_root(void);

/* name, dev_name and the two paths of a device. */
void urv_sysfs_fill(struct ibv_device *dev, const struct ur_dev_spec *spec);

#endif
