/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_VERBS_DM_H
#define UR_VERBS_DM_H

#include "verbs/objects.h"

/*
 * Newer than some headers: a descriptor of the memory, the caller's to close;
 * -1 and errno.  It is that of a nameless file, which can be mapped and given
 * to ibv_reg_dmabuf_mr(3) of this device, but not to another device's driver.
 */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *ibdm);

#endif
