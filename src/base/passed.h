/* SPDX-License-Identifier: BSD-2-Clause */
/* One file descriptor attached to a Unix socket's message (SCM_RIGHTS). */
#ifndef UR_BASE_PASSED_H
#define UR_BASE_PASSED_H

#include <stddef.h>
#include <sys/socket.h>

/*
 * Control buffer for one descriptor; has room for two, since it is rounded up.
 */
#define UR_PASSED_SPACE CMSG_SPACE(sizeof(int))

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
