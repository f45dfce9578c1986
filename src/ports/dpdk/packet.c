/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DPDK's driver for packet sockets reports no interrupts, though its socket
 * becomes readable with the next frame, and does not export the socket.  So we
 * search the process' descriptors for one that is bound to the interface and
 * has the kind of ring that this driver uses.
 */
#include <dirent.h>
#include <linux/if_packet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/socket.h"
#include "ports/dpdk/internal.h"

static bool is_bound(int fd, unsigned int ifindex)
{
	struct sockaddr_ll a = { 0 };
	socklen_t len = sizeof(a);

	return ur_sockopt_get(fd, SOL_SOCKET, SO_DOMAIN) == AF_PACKET &&
	       ur_sockopt_get(fd, SOL_PACKET, PACKET_VERSION) == TPACKET_V2 &&
	       getsockname(fd, (struct sockaddr *)&a, &len) == 0 &&
	       a.sll_ifindex == (int)ifindex;
}

int ur_packet_socket(unsigned int ifindex)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *e;
	int fd = -1;

	if (!dir)
		return -1;
	while (fd < 0 && (e = readdir(dir))) {
		int n = (int)strtol(e->d_name, NULL, 10); /* "." is 0 */

		if (n > 2 && is_bound(n, ifindex))
			fd = n;
	}
	closedir(dir);
	return fd;
}

void ur_packet_clear(int fd)
{
	(void)ur_sockopt_get(fd, SOL_SOCKET, SO_ERROR);
}
