/* SPDX-License-Identifier: BSD-2-Clause */
/* Root of the tree of device attributes: URNIC_SYSFS, else /sys. Attributes
 * without a file are answered from the device itself. */
#ifndef UR_VERBS_SYSFS_H
#define UR_VERBS_SYSFS_H

#include <infiniband/verbs.h>

#include "core/dev.h"

/* name, dev_name and the two paths of a device. */
void urv_sysfs_fill(struct ibv_device *dev, const struct ur_dev_spec *spec);

#endif
