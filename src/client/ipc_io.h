/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of client/ipc.h over the abstract Unix socket "urnic". */
#ifndef UR_CLIENT_IPC_IO_H
#define UR_CLIENT_IPC_IO_H

#include <stdint.h>
#include <sys/types.h>

#include "client/ipc.h"

/* Listen under the name: the descriptor, -EADDRINUSE: a daemon is there. */
int ur_ipc_listen(void);

/* Connect: the descriptor, -ECONNREFUSED: no daemon, -EAGAIN: it is busy. */
int ur_ipc_connect(void);

/* The process at the other end (SO_PEERCRED).  0 or -errno. */
int ur_ipc_peer(int fd, pid_t *pid, uid_t *uid);

/* Send without waiting: 0, -EAGAIN: the other side does not read, -errno. */
int ur_ipc_send(int fd, const struct ur_ipc_msg *msg, const int *fds,
		unsigned int nfds);

/*
 * Receive without waiting.  0; -EAGAIN: nothing there; -ECONNRESET: the other
 * side is gone; -EPROTO: no message; -EMFILE: no room for a descriptor.
 * On success the *nfds descriptors are the caller's; unused places are -1.
 */
int ur_ipc_recv(int fd, struct ur_ipc_msg *msg, int fds[UR_IPC_MAX_FDS],
		unsigned int *nfds);

/* Close what is not -1 and set it to -1. */
void ur_ipc_close_fds(int *fds, unsigned int n);

#endif
