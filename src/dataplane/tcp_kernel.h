/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel's own TCP has of four numbers, by sock_diag(7). */
#ifndef UR_DATAPLANE_TCP_KERNEL_H
#define UR_DATAPLANE_TCP_KERNEL_H

#include <stdint.h>

struct ur_steer_ends;

enum ur_tcp_kernel {
	UR_TCP_KERNEL_NONE,    /* or a connection in TIME-WAIT */
	UR_TCP_KERNEL_LISTENS, /* no connection, but somebody listens there */
	UR_TCP_KERNEL_HAS,     /* a connection, or it could not be learned */
};

/* A socket to ask by, or -errno: the kernel does not tell. */
int ur_tcp_kernel_open(void);

/* ifindex: what would come there by this interface; 0: by any. */
enum ur_tcp_kernel ur_tcp_kernel_ask(int fd, const struct ur_steer_ends *e,
				     uint32_t ifindex);

#endif
