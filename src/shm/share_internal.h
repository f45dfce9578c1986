/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the conversion. */
#ifndef UR_SHM_SHARE_INTERNAL_H
#define UR_SHM_SHARE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/maps.h"

/* Names of our memfds in /proc/self/maps begin so. */
#define UR_SHARE_NAME "urnic-shared"

#define UR_SHARE_PAGE 4096u

/*
 * Is the calling thread the only one of the application, and can nothing else
 * write to its memory: io_uring, AIO, devices that pin memory, an allocator
 * that relies on MADV_DONTNEED?
 */
bool ur_share_process_ok(void);

/* Does only this process write to the mapping, and only by its own calls? */
bool ur_share_map_ok(const struct ur_map *m);

/* The same of all file descriptors; dir: an open /proc/self/fd. */
bool ur_share_descriptors_ok(int dir);

/* Has a mapping no other flags of smaps than these (" rd wr ... ")? */
bool ur_share_flags_ok(const char *line, const char *known);

/* Threads of ours. */
int ur_share_own_threads(void);
void ur_share_threads_forget(void);

/*
 * Copy [at, end) to the file, at offset `at` - base, and map the file there.
 * Holes: a page that is not in memory was never touched, and becomes a hole of
 * the file.  Returns the end of what
 * is shared then: `end`, or less after a failure.  The rest keeps its contents.
 */
uint64_t ur_share_convert(int fd, uint64_t base, uint64_t at, uint64_t end,
			  bool holes);

/*
 * Is [at, end) ordinary private memory: anonymous, or made private again by a
 * fork (*again: some of it)?
 */
bool ur_share_range_ok(uint64_t at, uint64_t end, bool *again);

/* Serialises conversions with forks, which must know all of them. */
void ur_share_lock(void);
void ur_share_unlock(void);

/* A memfd of ours that is mapped. */
struct ur_share_file {
	uint64_t bytes;
	dev_t dev;
	ino_t ino;
	int fd;
	bool fixed; /* another mapping exists that a fork must not invalidate */
	bool mapped; /* share_fork.c */
};

#define UR_SHARE_FILES 256u

/*
 * Register a memfd that is about to be mapped (ur_share_lock held); owns the
 * descriptor on success.  False: no room, or fork() could not read /proc later.
 */
bool ur_share_keep(int fd, uint64_t bytes);

/* Only so many bytes of the newest one are mapped; 0: it is dropped, and fd
 * closed. */
void ur_share_keep_less(int fd, uint64_t bytes);

/*
 * The memfd that is mapped there; or NULL. ur_share_lock held, also for the
 * next two.
 */
struct ur_share_file *ur_share_file_of(const struct ur_map *m);

/* Is its descriptor still ours?  The application may have closed it. */
bool ur_share_file_is_open(const struct ur_share_file *k);

/* Iterate over all, beginning with NULL. */
struct ur_share_file *ur_share_file_next(struct ur_share_file *k);

/* Drop those that are not mapped; all of them, in a child. */
void ur_share_drop_unmapped(void);
void ur_share_drop_all(void);

/*
 * /proc/self/smaps and /proc/self/fd, open since the first conversion, so that
 * fork() needs no new descriptor. -1: the application has closed it, and it
 * cannot be opened again.
 */
int ur_share_smaps(void);
int ur_share_fds(void);

/* Number of forks that made memory private again; ur_share_lock held. */
extern unsigned int ur_share_reverted;

/* Bytes that are shared in this process; ur_share_lock held. */
uint64_t ur_share_bytes(void);

#endif
