/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Neighbours: whether the kernel knows where on the link the next hop to an
 * address is.  The kernel resolves it with the first packet; a caller that
 * must know before that asks here.
 */
#ifndef UR_CONNECT_NEIGH_H
#define UR_CONNECT_NEIGH_H

#include <sys/socket.h>

/*
 * For packets from src (a wildcard: any address) to dst.  0: it is known, or
 * nothing has to be (the host itself, a link without addresses), or netlink
 * cannot tell; -ENODATA: not known; else the routing table's error
 * (-ENETUNREACH, -EHOSTUNREACH …).
 */
int ur_neigh_check(const struct sockaddr_storage *src,
		   const struct sockaddr_storage *dst);

/*
 * Make the kernel look for it.  Without privileges only a packet does: an
 * empty datagram to the port "discard" that no router passes on.
 */
void ur_neigh_ask(const struct sockaddr_storage *src,
		  const struct sockaddr_storage *dst);

#endif
