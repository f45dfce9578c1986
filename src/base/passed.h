/* SPDX-License-Identifier: BSD-2-Clause */
/* One descriptor that goes along with a message of a socket. */
#ifndef UR_BASE_PASSED_H
#define UR_BASE_PASSED_H

#include <stddef.h>
#include <sys/socket.h>

/* Room for it, and so for two, since it is rounded up. */
#define UR_PASSED_SPACE CMSG_SPACE(sizeof(int))

/* All of a message, with fd, or without if it is -1; it stays the caller's.
 * Does not wait.  0 or -errno. */
int ur_pass_fd(int sock, const void *msg, size_t len, int fd);

/*
 * 0: *fd is the only one, the caller's, or -1, also if this process has no
 * number left for it.  -EPROTO: there were more; all are closed and *fd is -1.
 */
int ur_passed_fd(struct msghdr *h, int *fd);

#endif
