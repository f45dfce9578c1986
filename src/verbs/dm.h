/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_VERBS_DM_H
#define UR_VERBS_DM_H

#include "verbs/objects.h"

/*
 * Newer than some headers: a descriptor of the memory, the caller's to close;
 * -1 and errno. It is a memfd, which can be mapped and given to
 * ibv_reg_dmabuf_mr(3) of this device, but not to another device's driver.
 */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *ibdm);

/* Count a region in [offset, offset + length): 0, or -EINVAL. */
int urv_dm_use(struct urv_dm *dm, uint64_t offset, size_t length);
void urv_dm_unuse(struct urv_dm *dm);

/* For export.c. -ENOENT, -errno. */
int urv_dm_end(struct urv_shared *s, bool wait);
void urv_dm_free(struct urv_shared *s);
int urv_dm_export(struct urv_shared *s, struct ur_import_object *o, int *fd);

/* From another process' description: -EOPNOTSUPP, -ENOMEM. */
int urv_dm_import(struct urv_file *f, const struct ur_import_object *o, int fd,
		  struct urv_shared **out);

#endif
