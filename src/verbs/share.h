/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects of which a process has several handles. A context's command
 * descriptor is the kernel's file on other devices: importing a duplicate of it
 * (ibv_import_device(3)) gives another context with the same objects, found
 * there by their handles. The file here is a list of importable objects; the
 * descriptor is a memfd whose inode identifies it.
 *
 * An object ends when it is destroyed through any of its handles; memory stays
 * until the last handle is freed.
 *
 * The file of another process' context has a link to that process; its list has
 * the objects imported from there (import.h).
 */
#ifndef UR_VERBS_SHARE_H
#define UR_VERBS_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/dev.h"
#include "sharing/import.h"

/* The values are part of the messages between processes. */
enum urv_shared_kind {
	URV_SHARED_PD = UR_IMPORT_PD,
	URV_SHARED_MR = UR_IMPORT_MR,
	URV_SHARED_DM = UR_IMPORT_DM,
};

struct urv_import_link;
struct urv_file;

struct urv_shared {
	struct ur_list node; /* importable objects; the file's lock */
	struct urv_file *file;
	enum urv_shared_kind kind;
	uint32_t handle;
	_Atomic uint32_t refs; /* handles */
	_Atomic bool gone;
	_Atomic bool exported; /* another process has imported it */
	bool imported;	       /* owned by another process */
	uint32_t
		ending_thread; /* generation + 1 of the thread that is ending it */
};

/* A new file and its descriptor, the caller's. device: its index; name: that of
 * the device, for other processes. */
int urv_file_create(uint32_t device, const char *name, struct urv_file **out,
		    int *fd);

/* The file of fd: 0, -EINVAL if fd is not a file's. If it is another process'
 * and new to us: as urv_import_open(). */
int urv_file_find(int fd, struct urv_file **out);
struct urv_file *urv_file_by_token(const uint8_t token[UR_IMPORT_TOKEN]);
/* Takes a reference, unless it is being freed. */
bool urv_file_tryget(struct urv_file *f);
void urv_file_put(struct urv_file *f);

uint32_t urv_file_device(const struct urv_file *f);
const uint8_t *urv_file_token(const struct urv_file *f);
/* NULL: it is of this process. */
struct urv_import_link *urv_file_link(const struct urv_file *f);
uint32_t urv_file_handle(struct urv_file *f); /* a new number */

/* Enters a new object with one handle, found by its number. */
void urv_share(struct urv_file *f, struct urv_shared *s,
	       enum urv_shared_kind kind, uint32_t handle);

/* Has its owner ended or stopped waiting for us, so that our state may be
 * outdated? */
bool urv_share_has_ended(const struct urv_shared *s);

/* Another handle of the object with that number; NULL: none. */
struct urv_shared *urv_share_import(struct urv_file *f,
				    enum urv_shared_kind kind, uint32_t handle);

/* The same, asking another process if the file is that process'. 0, -ENOENT, or
 * as urv_import_object(). */
int urv_share_get(struct urv_file *f, enum urv_shared_kind kind,
		  uint32_t handle, struct urv_shared **out);

/* Enters a new object without a handle, found until the file is freed, or it
 * ends. */
void urv_share_kept(struct urv_file *f, struct urv_shared *s,
		    enum urv_shared_kind kind, uint32_t handle);

/* End all imported ones: fn has a reference to each, and ends it. */
void urv_share_end_imported(struct urv_file *f,
			    void (*fn)(struct urv_shared *s));

/*
 * End it by fn, which takes several steps and may wait for importers (`wait`):
 * one thread at a time. Without `wait` (the watcher's): 0 if another thread is
 * ending it already, which is left to do so.
 */
int urv_share_finish(struct urv_shared *s, bool wait,
		     int (*fn)(struct urv_shared *s, bool wait));

/* Removes it from the list: false if it had ended already. */
bool urv_share_end(struct urv_shared *s);

/* Drops a handle: true if it was the last, and the memory may be freed. */
bool urv_share_put(struct urv_shared *s);

#endif
