/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Domains, regions and device memory between processes (decision 0008): what
 * an owner tells of its own (import.c), and what an importer makes of it
 * (borrow.c).
 *
 * An importer has a root of its own for each object, with the owner's handle
 * and, for a region, the owner's key; the application's handles all stand for
 * that.  A region's root has a core only while the owner's exists.
 */
#ifndef UR_VERBS_IMPORT_H
#define UR_VERBS_IMPORT_H

#include "verbs/objects.h"

#define URV_FILE_MAGIC 0x32636e7275u /* "urnc2" */

/* What another process reads to know what it was given. */
struct urv_file_mark {
	uint64_t magic;
	int32_t pid; /* as its owner sees itself; for messages only */
	uint32_t pad;
	uint8_t token[UR_IMPORT_TOKEN];
	char device[64];
	char socket[UR_IMPORT_NAME]; /* "": it cannot be imported */
};

extern const struct ur_import_hooks urv_import_hooks;

/* ---- the owner ---- */

/* It has ended, or a region is another one now: tell importers and, unless
 * this is for one of them, wait until none uses it as it was. */
void urv_lend_end(struct urv_shared *s, bool wait);
void urv_lend_changed(struct urv_mr *root);

/* ---- the importer ---- */

/* The index here of the device of that name; -ENODEV. */
int urv_borrow_device(const struct urv_file_mark *mark, uint32_t *index);

/* -EPERM, -EOPNOTSUPP, with a line in the log that says why. */
int urv_borrow_open(struct urv_file *f, const struct urv_file_mark *mark,
		    struct urv_borrow **out);
/* No object of it has a handle any more. */
void urv_borrow_close(struct urv_borrow *b);

/* The owner has given up waiting for us: what we know may be old. */
bool urv_borrow_is_shut(const struct urv_borrow *b);

/*
 * The root of an object that is not known here yet, with a reference for the
 * caller.  -ENOENT: there is none; -EIO: its owner has ended; -EEXIST: a key
 * here has the same upper bits; -EPERM, -EOPNOTSUPP: its memory cannot be
 * reached.
 */
int urv_borrow(struct urv_file *f, enum urv_shared_kind kind, uint32_t handle,
	       struct urv_shared **out);

/* Destroy it at its owner.  0, or what the owner said; then it is as it was. */
int urv_borrow_end(struct urv_shared *s);

/* The last handle of a region or of device memory was given up. */
void urv_borrow_release_mr(struct urv_mr *root);

/* For the hooks. */
void urv_borrow_changed(void *arg, const struct ur_import_object *o, int fd);
void urv_borrow_lost(void *arg);

#endif
