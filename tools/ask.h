/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions of the urnic command to urnicd. */
#ifndef UR_TOOLS_ASK_H
#define UR_TOOLS_ASK_H

#include "client/ipc.h"

/*
 * A connection to urnicd, which knows that this is a tool; -ECONNREFUSED: there
 * is no urnicd; -EACCES was reported; else -errno.
 */
int ur_ask_open(void);

/* Send a request and wait for its reply: 0 or -errno. */
int ur_ask(int conn, struct ur_ipc_msg *m, int fds[UR_IPC_MAX_FDS]);

/* The same; with: a descriptor that goes along, -1: none. */
int ur_ask_with(int conn, struct ur_ipc_msg *m, int with,
		int fds[UR_IPC_MAX_FDS]);

/*
 * Send a process, which m describes, a text as an order (docs/wire/daemon.md), and
 * wait until it has obeyed.  0: *fd is the socket to it; 1: it was reported why not;
 * -errno: of urnicd.
 */
int ur_ask_order(int conn, const struct ur_ipc_msg *m, const void *text,
		 size_t len, int *fd);

#endif
