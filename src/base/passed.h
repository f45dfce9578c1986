/* SPDX-License-Identifier: BSD-2-Clause */
/* File descriptors attached to a Unix socket's message (SCM_RIGHTS). */
#ifndef UR_BASE_PASSED_H
#define UR_BASE_PASSED_H

#include <stddef.h>
#include <sys/socket.h>

/* Control buffer for n descriptors, aligned as the kernel requires. */
#define UR_FDS_SPACE(n)                                                        \
	union {                                                                \
		struct cmsghdr align;                                          \
		char bytes[CMSG_SPACE((n) * sizeof(int))];                     \
	}

/* Attach n descriptors (0: none) to a message to be sent, with space for them. */
void ur_fds_put(struct msghdr *h, void *space, const int *fds, unsigned int n);

/* The most descriptors of a message that is sent or received as below. */
#define UR_FDS_MAX 16u

/* Send the whole message with n descriptors attached, which stay the caller's.
 * Does not block. 0 or -errno. */
int ur_fds_send(int sock, const void *msg, size_t len, const int *fds,
		unsigned int n);

/* The same with one descriptor, or none if fd is -1. */
int ur_pass_fd(int sock, const void *msg, size_t len, int fd);

/*
 * Receive a message by recvmsg(2), without blocking: its length, or -errno. At most
 * max descriptors, *n, are then the caller's, and others closed. *flags: before, more
 * flags of recvmsg(); after, the message's (with MSG_CTRUNC descriptors are
 * missing). Unchanged after an error.
 */
ssize_t ur_fds_recv(int sock, void *buf, size_t cap, int *fds, unsigned int max,
		    unsigned int *n, int *flags);

/*
 * Receive a message of len bytes. 0: *fd is its only descriptor, now the caller's,
 * or -1 if there is none or this process' limit is reached. -EPROTO: its length is
 * another, or it has more; all are closed and *fd is -1. Else -errno.
 */
int ur_take_fd(int sock, void *msg, size_t len, int *fd);

#endif
