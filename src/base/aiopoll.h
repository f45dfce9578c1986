/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-shot polls of descriptors by the kernel's AIO (IOCB_CMD_POLL, Linux 4.18):
 * when the descriptor becomes readable, or is so already, the kernel adds a count
 * to an eventfd.  So a thread asleep on the eventfd wakes up, and no other thread.
 *
 * A poll cannot be taken back without that signal, and it holds references on
 * both files.  Not thread-safe, where it does not say otherwise.
 */
#ifndef UR_BASE_AIOPOLL_H
#define UR_BASE_AIOPOLL_H

#include <stdbool.h>
#include <stdint.h>

struct ur_aio_ring;

struct ur_aiopoll {
	struct ur_aio_ring *ring; /* NULL: not open */
	unsigned long ctx;
};

/*
 * For up to n polls at a time.  0; -ENOSYS, -EPERM and others where the kernel
 * or its rules have no AIO.  There is no close: io_destroy(2) takes tens of
 * milliseconds, and the kernel does it when the process ends or calls execve(2);
 * a child of fork(2) has no part in it.
 */
int ur_aiopoll_open(struct ur_aiopoll *p, unsigned int n);

/* 0 or -errno.  `id` names the poll afterwards. */
int ur_aiopoll_add(struct ur_aiopoll *p, int fd, int eventfd, uint64_t id);

/*
 * Removes a poll that has ended; false: there is none.  The kernel signals the
 * eventfd just afterwards, or has done so.
 */
bool ur_aiopoll_next(struct ur_aiopoll *p, uint64_t *id);

/* Is there one?  Any thread may ask after ur_aiopoll_open(). */
bool ur_aiopoll_any(const struct ur_aiopoll *p);

/* Is a ring of ours mapped at that address, also in a child of fork(2)?  The
 * kernel writes to no other memory for it. */
bool ur_aiopoll_is_ring(uintptr_t at);

#endif
