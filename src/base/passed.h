/* SPDX-License-Identifier: BSD-2-Clause */
/* File descriptors attached to a Unix socket's message (SCM_RIGHTS). */
#ifndef UR_BASE_PASSED_H
#define UR_BASE_PASSED_H

#include <stddef.h>
#include <sys/socket.h>

/* Control buffer for n descriptors, aligned as the kernel requires. Its size is
 * rounded up, so more may arrive. */
#define UR_FDS_SPACE(n)                                                        \
	union {                                                                \
		struct cmsghdr align;                                          \
		char bytes[CMSG_SPACE((n) * sizeof(int))];                     \
	}

/* Attach n descriptors (0: none) to a message to be sent, with space for them. */
void ur_fds_put(struct msghdr *h, void *space, const int *fds, unsigned int n);

/* Take at most max descriptors from a received message, and close others: how
 * many were taken. With MSG_CTRUNC some are missing. */
unsigned int ur_fds_get(struct msghdr *h, int *fds, unsigned int max);

/* Send the whole message, with fd attached unless it is -1; fd stays the
 * caller's. Does not block. 0 or -errno. */
int ur_pass_fd(int sock, const void *msg, size_t len, int fd);

/*
 * 0: *fd is the message's only descriptor, now the caller's, or -1 if there is
 * none or this process' limit is reached. -EPROTO: there were more; all are
 * closed and *fd is -1.
 */
int ur_passed_fd(struct msghdr *h, int *fd);

#endif
