/* SPDX-License-Identifier: BSD-2-Clause */
/* RoCEv2 over the kernel's UDP sockets (DESIGN 4 and 5). */
#ifndef UR_LINK_UDP_H
#define UR_LINK_UDP_H

#include "link/link.h"

/*
 * Take over rx_fd, a dual-stack socket of the port 4791 group (the caller's
 * slot), and open the sending sockets.  On failure rx_fd stays the caller's.
 */
int ur_udp_link_create(int rx_fd, struct ur_link **out);

/*
 * The socket of one slot: dual stack if the host has IPv6, else IPv4;
 * SO_REUSEPORT, packet info, GRO, no multicast of others, bound to port.
 * `first`: attach the program that steers by the slot bits of the QPN.
 * Returns the descriptor or -errno (-EADDRINUSE: another user's group).
 */
int ur_udp_slot_socket(uint16_t port, int first);

#endif
