/* SPDX-License-Identifier: BSD-2-Clause */
/* RoCEv2 over the kernel's UDP sockets: docs/decisions/0002, 0003, 0004. */
#ifndef UR_SOCKETS_UDP_H
#define UR_SOCKETS_UDP_H

#include "sockets/link.h"

/* Bytes that sockets ask the kernel for; the limits of an ordinary user are
 * net.core.rmem_max and wmem_max. */
#define UR_UDP_RX_BUFFER (8 << 20)
#define UR_UDP_TX_BUFFER (8 << 20)

/* Take over rx_fd, a dual-stack socket of the port 4791 group (the caller's
 * slot), and open the sending sockets. On failure rx_fd stays the caller's. */
int ur_udp_link_create(int rx_fd, struct ur_link **out);

/*
 * Provide destination, interface and hop limit of inbound packets, or only
 * dst_unknown, 0 and the default limit, since the kernel needs time to provide
 * them; and the traffic class of each, or of most (ur_rx.tclass).
 */
void ur_udp_tell_ip(struct ur_link *link, bool on);

/* Multicast membership on the interface with that source address. */
int ur_udp_join(struct ur_link *link, const uint8_t group[16],
		const uint8_t source[16]);
int ur_udp_leave(struct ur_link *link, const uint8_t group[16],
		 const uint8_t source[16]);

/*
 * The socket of one slot: dual stack if the host has IPv6, else IPv4;
 * SO_REUSEPORT, packet info, GRO, no multicast of others, bound to port.
 * `first`: attach the program of ur_udp_steer().
 * Returns the descriptor or -errno (-EADDRINUSE: another user's group).
 */
int ur_udp_slot_socket(uint16_t port, int first);

/*
 * Have the kernel steer the packets of fd's group: by the slot bits of the QPN,
 * or for CM messages to QP1 by those of their communication ID. Messages
 * without one, or beyond `slots`, go to the first socket, which fd must be. 0
 * or -errno.
 */
int ur_udp_steer(int fd, uint32_t slots);

/* As the link's recv, but from fd, another socket of its kind, once. The link
 * must have ur_udp_tell_ip() on. */
int ur_udp_recv_from(struct ur_link *link, int fd,
		     void (*rx)(void *arg, const struct ur_rx *rx), void *arg);
/* fd provides the destination of its packets, as a link with ur_udp_tell_ip() on. */
void ur_udp_tell_destination(int fd);

/*
 * The same socket without SO_REUSEPORT: the port is not shared, and every QPN
 * is received. -EADDRINUSE if the port is in use, even by a group of our own.
 */
int ur_udp_sole_socket(uint16_t port);

#endif
