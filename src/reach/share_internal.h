/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of sharing in place have in common. */
#ifndef UR_REACH_SHARE_INTERNAL_H
#define UR_REACH_SHARE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "reach/maps.h"

/* Begin of the names of our memfds, as /proc/self/maps has them. */
#define UR_SHARE_NAME "urnic-shared"

#define UR_SHARE_PAGE 4096u

/*
 * Is the calling thread the only one of the application, and is there nobody
 * else who could write to its memory: io_uring, AIO, devices that pin memory,
 * an allocator that counts on MADV_DONTNEED?
 */
bool ur_share_process_ok(void);

/* Threads of ours. */
int ur_share_own_threads(void);
void ur_share_threads_forget(void);

/*
 * Put the memory [at, end) into the file, at an offset of `at` - base, and the
 * file in its place.  What was never touched becomes a hole.  On failure the
 * memory holds what it held, some of it shared.
 */
bool ur_share_convert(int fd, uint64_t base, uint64_t at, uint64_t end);

/* Is [at, end) plain private anonymous memory, nothing special about it? */
bool ur_share_range_ok(uint64_t at, uint64_t end);

/* Serialises conversions with forks, which must know of all of them. */
void ur_share_lock(void);
void ur_share_unlock(void);

/*
 * A memfd of ours is mapped from now on (ur_share_lock held); the descriptor
 * is the keeper's then.  False: no room.
 */
bool ur_share_keep(int fd, uint64_t bytes);

/* The descriptor of the memfd of ours that is mapped there; -1: none, or the
 * application has closed it.  ur_share_lock held. */
int ur_share_fd(const struct ur_map *m);

/* Is it one of our own mappings (pin.h), of which a child has none?
 * ur_share_lock held. */
bool ur_share_is_pin(const struct ur_map *m);

/* Bytes that are shared in this process; ur_share_lock held. */
uint64_t ur_share_bytes(void);

#endif
