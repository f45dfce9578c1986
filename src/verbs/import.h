/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Domains, regions and device memory between processes (decision 0008): the
 * owner's side (export.c) and the importer's (import.c).
 *
 * An importer has a root of its own for each object, with the owner's handle
 * and, for a region, the owner's key; all of the application's handles refer to
 * that. A region's root has a core only while the owner's exists.
 */
#ifndef UR_VERBS_IMPORT_H
#define UR_VERBS_IMPORT_H

#include "verbs/objects.h"

#define URV_FILE_MAGIC 0x32636e7275u /* "urnc2" */

/* Read by another process to identify the received descriptor. */
struct urv_file_mark {
	uint64_t magic;
	int32_t pid; /* as its owner sees it; for messages only */
	uint32_t pad;
	uint8_t token[UR_IMPORT_TOKEN];
	char device[64];
	char socket[UR_IMPORT_NAME]; /* "": it cannot be imported */
};

extern const struct ur_import_hooks urv_import_hooks;

/* Drop a handle, or another reference; the last one frees the object's memory. */
void urv_handle_put(struct urv_shared *s);

/*
 * ibv_import_pd(3) and the like: a new handle of `size` bytes, counted in the
 * context, of the object with that number; NULL and errno.
 */
void *urv_import_handle(struct urv_context *c, enum urv_shared_kind kind,
			uint32_t handle, size_t size, struct urv_shared **root);

/* ---- the owner ---- */

/* Destroy an object of ours, regardless of handles: 0, or -EBUSY; informs
 * importers. */
int urv_export_destroy(struct urv_shared *s, bool wait);

/* The object has ended, or a region was re-registered: inform importers and,
 * unless this is for one of them, wait until none uses the old state. */
void urv_export_end(struct urv_shared *s, bool wait);
void urv_export_changed(struct urv_mr *root);

/* ---- the importer ---- */

/* The index of the device of that name in this process; -ENODEV. */
int urv_import_device(const struct urv_file_mark *mark, uint32_t *index);

/* -EPERM, -EOPNOTSUPP, with the reason in the log. */
int urv_import_open(struct urv_file *f, const struct urv_file_mark *mark,
		    struct urv_import_link **out);
/* Called when none of its objects has a handle any more. */
void urv_import_close(struct urv_import_link *b);

/* Has the owner ended or stopped waiting for us, so that our state may be
 * outdated? */
bool urv_import_is_stale(const struct urv_import_link *b);

/*
 * Import an object: its new root, with a reference for the caller. -ENOENT: no
 * such object; -EIO: its owner has ended; -EEXIST: a key in this process has
 * the same upper bits; -EPERM, -EOPNOTSUPP: its memory is not accessible.
 */
int urv_import_object(struct urv_file *f, enum urv_shared_kind kind,
		      uint32_t handle, struct urv_shared **out);

/* Destroy it at its owner. 0, or the owner's error; then it is unchanged. */
int urv_import_destroy(struct urv_shared *s);

/* The last handle of a region or of device memory was freed. */
void urv_import_release_mr(struct urv_mr *root);

/* For the hooks. */
void urv_import_changed(void *arg, const struct ur_import_object *o, int fd);
void urv_import_owner_lost(void *arg);

#endif
