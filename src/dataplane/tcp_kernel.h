/* SPDX-License-Identifier: BSD-2-Clause */
/* Does the kernel's TCP have a socket for these ends?  By sock_diag(7). */
#ifndef UR_DATAPLANE_TCP_KERNEL_H
#define UR_DATAPLANE_TCP_KERNEL_H

#include <stdint.h>

struct ur_steer_ends;

enum ur_tcp_kernel {
	UR_TCP_KERNEL_NONE,    /* or a connection in TIME-WAIT */
	UR_TCP_KERNEL_LISTENS, /* no connection, but a listener */
	UR_TCP_KERNEL_HAS,     /* a connection, or unknown */
};

/* A socket to ask by, or -errno: the kernel does not tell. */
int ur_tcp_kernel_open(void);

/* ifindex: for packets from this interface; 0: from any. */
enum ur_tcp_kernel ur_tcp_kernel_ask(int fd, const struct ur_steer_ends *e,
				     uint32_t ifindex);

#endif
