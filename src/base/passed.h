/* SPDX-License-Identifier: BSD-2-Clause */
/* A descriptor that came with a message of a socket. */
#ifndef UR_BASE_PASSED_H
#define UR_BASE_PASSED_H

#include <sys/socket.h>

/* Room for it, and so for two, since it is rounded up. */
#define UR_PASSED_SPACE CMSG_SPACE(sizeof(int))

/*
 * 0: *fd is the only one, the caller's, or -1.  -EPROTO: there were more; all
 * are closed and *fd is -1.
 */
int ur_passed_fd(struct msghdr *h, int *fd);

#endif
