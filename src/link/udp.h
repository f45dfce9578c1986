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

/* For tests: send trains packet by packet, as on a kernel without GSO. */
void ur_udp_link_set_gso(struct ur_link *link, int on);

/*
 * The socket of one slot: dual stack if the host has IPv6, else IPv4;
 * SO_REUSEPORT, packet info, GRO, no multicast of others, bound to port.
 * `first`: attach the program that steers by the slot bits of the QPN.
 * Returns the descriptor or -errno (-EADDRINUSE: another user's group).
 */
int ur_udp_slot_socket(uint16_t port, int first);

/*
 * The same socket without SO_REUSEPORT: nobody shares the port, and every QPN
 * is received.  -EADDRINUSE if anybody has the port, also a group of our own.
 */
int ur_udp_sole_socket(uint16_t port);

#endif
