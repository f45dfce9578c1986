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
 *
 * The file of another process' context has a link to that process; its list is
 * of what was imported from there (import.h).
 */
#ifndef UR_VERBS_SHARE_H
#define UR_VERBS_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/dev.h"
#include "sharing/import.h"

/* They go by messages between processes as they are. */
enum urv_shared_kind {
	URV_SHARED_PD = UR_IMPORT_PD,
	URV_SHARED_MR = UR_IMPORT_MR,
	URV_SHARED_DM = UR_IMPORT_DM,
};

struct urv_borrow;
struct urv_file;

struct urv_shared {
	struct ur_list node; /* what can be found; the file's lock */
	struct urv_file *file;
	enum urv_shared_kind kind;
	uint32_t handle;
	_Atomic uint32_t refs; /* handles */
	_Atomic bool gone;
	_Atomic bool lent; /* another process has asked for it */
	bool borrowed;	   /* it is another process' */
	uint32_t ender;	   /* whose thread is ending it: generation + 1 */
};

/* A new file and the descriptor that stands for it, the caller's.  device:
 * its index; name: that of the device, for other processes. */
int urv_file_create(uint32_t device, const char *name, struct urv_file **out,
		    int *fd);

/*
 * The file that fd stands for: 0, -EINVAL if it stands for none.  If it is
 * another process' and new to us: what urv_borrow_open() says.
 */
int urv_file_find(int fd, struct urv_file **out);
struct urv_file *urv_file_by_token(const uint8_t token[UR_IMPORT_TOKEN]);
/* One reference more, unless it is on its way out. */
bool urv_file_tryget(struct urv_file *f);
void urv_file_put(struct urv_file *f);

uint32_t urv_file_device(const struct urv_file *f);
const uint8_t *urv_file_token(const struct urv_file *f);
/* NULL: it is of this process. */
struct urv_borrow *urv_file_borrow(const struct urv_file *f);
uint32_t urv_file_handle(struct urv_file *f); /* a number not used before */

/* A new object with one handle, to be found by its number. */
void urv_share(struct urv_file *f, struct urv_shared *s,
	       enum urv_shared_kind kind, uint32_t handle);

/* One handle more of the object with that number; NULL: there is none. */
struct urv_shared *urv_share_import(struct urv_file *f,
				    enum urv_shared_kind kind, uint32_t handle);

/* The same, asking another process if the file is one's.  0, -ENOENT, or as
 * urv_borrow(). */
int urv_share_get(struct urv_file *f, enum urv_shared_kind kind,
		  uint32_t handle, struct urv_shared **out);

/* A new object that is found as long as the file is there, or until it ends;
 * without a handle. */
void urv_share_kept(struct urv_file *f, struct urv_shared *s,
		    enum urv_shared_kind kind, uint32_t handle);

/* End all that are borrowed: fn has a reference to each, and ends it. */
void urv_share_end_borrowed(struct urv_file *f,
			    void (*fn)(struct urv_shared *s));

/*
 * End it by fn, which takes several steps and may wait for importers (`wait`):
 * one thread at a time.  Without `wait` (the watcher's): 0 if another one is at
 * it already, which is left to do so.
 */
int urv_share_finish(struct urv_shared *s, bool wait,
		     int (*fn)(struct urv_shared *s, bool wait));

/* Nobody finds it any more: false if it had ended already. */
bool urv_share_end(struct urv_shared *s);

/* One handle less: true if it was the last, and the memory may go. */
bool urv_share_put(struct urv_shared *s);

#endif
