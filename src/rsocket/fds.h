/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From descriptors to the objects behind them (rsockets, epoll sets).  A
 * lookup takes a reference, so that an object closed by one thread lives until
 * the calls of the others have returned.
 */
#ifndef UR_RSOCKET_FDS_H
#define UR_RSOCKET_FDS_H

#include <stdbool.h>

/* Embedded in what is found by descriptor. */
struct urs_ref {
	int kind; /* the user's */
	_Atomic int count;
	void (*release)(struct urs_ref *r); /* at zero */
};

/* The table takes over one reference.  -EBADF, -EMFILE, -ENOMEM, or -EEXIST:
 * something is there already. */
int urs_fds_set(int fd, struct urs_ref *r);

/* NULL if there is none of that kind. */
struct urs_ref *urs_fds_get(int fd, int kind);
void urs_fds_put(struct urs_ref *r);

/* Takes it out and gives the table's reference to the caller; NULL if it was
 * not there (any more). */
struct urs_ref *urs_fds_clear(int fd, int kind);

/* After fork(): locks may be held by threads that do not exist. */
void urs_fds_after_fork(void);

#endif
