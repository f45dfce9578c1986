/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of sharing in place have in common. */
#ifndef UR_SHM_SHARE_INTERNAL_H
#define UR_SHM_SHARE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/maps.h"

/* Begin of the names of our memfds, as /proc/self/maps has them. */
#define UR_SHARE_NAME "urnic-shared"

#define UR_SHARE_PAGE 4096u

/*
 * Is the calling thread the only one of the application, and is there nobody
 * else who could write to its memory: io_uring, AIO, devices that pin memory,
 * an allocator that counts on MADV_DONTNEED?
 */
bool ur_share_process_ok(void);

/* Of the mapping: does only this process write to it, and only when asked? */
bool ur_share_map_ok(const struct ur_map *m);

/* The same of all descriptors; dir: of /proc/self/fd. */
bool ur_share_descriptors_ok(int dir);

/* Has a mapping none but these flags (" rd wr … ") of smaps? */
bool ur_share_flags_ok(const char *line, const char *known);

/* Threads of ours. */
int ur_share_own_threads(void);
void ur_share_threads_forget(void);

/*
 * Put the memory [at, end) into the file, at an offset of `at` - base, and the
 * file in its place.  Holes: what is not in memory was never touched, and is a
 * hole of the file then.  On failure the memory holds what it held, some of it
 * shared.
 */
bool ur_share_convert(int fd, uint64_t base, uint64_t at, uint64_t end,
		      bool holes);

/*
 * Is [at, end) plain private memory, nothing special about it: anonymous, or
 * what a fork has made private again?  *again: some of it is the latter.
 */
bool ur_share_range_ok(uint64_t at, uint64_t end, bool *again);

/* Serialises conversions with forks, which must know of all of them. */
void ur_share_lock(void);
void ur_share_unlock(void);

/* A memfd of ours that is mapped somewhere. */
struct ur_kept {
	int fd;
	uint64_t bytes;
	dev_t dev;
	ino_t ino;
	bool fixed;  /* mapped elsewhere too, for longer than until a fork */
	bool mapped; /* share_fork.c */
};

#define UR_KEPT_MAX 256u

/*
 * A memfd of ours is mapped from now on (ur_share_lock held); the descriptor
 * is the keeper's then.  False: no room, or a fork could not look at it later.
 */
bool ur_share_keep(int fd, uint64_t bytes);

/* Which of them is mapped there; NULL.  ur_share_lock held, as for the next. */
struct ur_kept *ur_kept_of(const struct ur_map *m);

/* Is its descriptor still ours?  The application may have closed it. */
bool ur_kept_is_open(const struct ur_kept *k);

/* The mapping of that descriptor stays shared through every fork. */
void ur_share_fix(int fd);

/* All of them, one after the other from NULL on. */
struct ur_kept *ur_kept_next(struct ur_kept *k);

/* No longer kept: those that are not mapped; all, in a child. */
void ur_kept_drop_unmapped(void);
void ur_kept_drop_all(void);

/*
 * Descriptors of /proc/self/smaps and /proc/self/fd, open since memory was
 * first made shareable, so that a fork needs no new one.  -1: the application
 * has closed it, and there is none to be had.
 */
int ur_kept_smaps(void);
int ur_kept_fds(void);

/* Times that a fork made memory private again; ur_share_lock held. */
extern unsigned int ur_share_taken;

/* The descriptor of the memfd of ours that is mapped there; -1: none, or the
 * application has closed it.  ur_share_lock held. */
int ur_share_fd(const struct ur_map *m);

/* Is it one of our own mappings (pin.h), of which a child has none?
 * ur_share_lock held. */
bool ur_share_is_pin(const struct ur_map *m);

/* Bytes that are shared in this process; ur_share_lock held. */
uint64_t ur_share_bytes(void);

#endif
