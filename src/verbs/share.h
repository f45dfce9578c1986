/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects of which a process has several handles.  A context's command
 * descriptor stands for the kernel's file on other devices: who imports a
 * duplicate of it (ibv_import_device(3)) gets another context with the same
 * objects, found there by their handles.  The file here is a list of what can
 * be imported; the descriptor is a nameless file whose inode identifies it.
 *
 * An object ends when it is destroyed through any of its handles; memory stays
 * until the last handle is given up.
 */
#ifndef UR_VERBS_SHARE_H
#define UR_VERBS_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/dev.h"

enum urv_shared_kind {
	URV_SHARED_PD,
	URV_SHARED_MR,
	URV_SHARED_DM,
};

struct urv_file;

struct urv_shared {
	struct ur_list node; /* what can be found; the file's lock */
	struct urv_file *file;
	enum urv_shared_kind kind;
	uint32_t handle;
	_Atomic uint32_t refs; /* handles */
	_Atomic bool gone;
};

/* A new file and the descriptor that stands for it, the caller's.  device:
 * its index. */
int urv_file_create(uint32_t device, struct urv_file **out, int *fd);

/*
 * The file that fd stands for: 0, -EINVAL if it stands for none, or
 * -EOPNOTSUPP if that is another process'.
 */
int urv_file_find(int fd, struct urv_file **out);
void urv_file_put(struct urv_file *f);

uint32_t urv_file_device(const struct urv_file *f);
uint32_t urv_file_handle(struct urv_file *f); /* a number not used before */

/* A new object with one handle, to be found by its number. */
void urv_share(struct urv_file *f, struct urv_shared *s,
	       enum urv_shared_kind kind, uint32_t handle);

/* One handle more of the object with that number; NULL: there is none. */
struct urv_shared *urv_share_import(struct urv_file *f,
				    enum urv_shared_kind kind, uint32_t handle);

/* Nobody finds it any more: false if it had ended already. */
bool urv_share_end(struct urv_shared *s);

/* One handle less: true if it was the last, and the memory may go. */
bool urv_share_put(struct urv_shared *s);

#endif
