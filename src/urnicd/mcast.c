/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A membership lives until the last close of its socket, but a slot's socket
 * stays open when its owner goes, and a killed owner leaves no group.  The
 * kernel does not list the groups of one socket, only those of the namespace:
 * to leave each of them fails where the socket is no member.
 */
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "urnicd/group.h"

#define LINE_MAX_LEN 256

/* "1 lo : 1 V3" names the interface of the lines "\t\t010000E0 …". */
static void leave_ip4(int fd)
{
	FILE *f = fopen("/proc/net/igmp", "re");
	char line[LINE_MAX_LEN];
	long index = 0;

	while (f && fgets(line, sizeof(line), f)) {
		struct ip_mreqn m = { .imr_ifindex = (int)index };

		if (line[0] != '\t') {
			index = strtol(line, NULL, 10);
			continue;
		}
		m.imr_multiaddr.s_addr = (uint32_t)strtoul(line, NULL, 16);
		setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &m, sizeof(m));
	}
	if (f)
		fclose(f);
}

static bool parse_ip6(const char *hex, struct in6_addr *addr)
{
	char byte[3] = "";

	if (strspn(hex, "0123456789abcdef") != 2 * sizeof(addr->s6_addr))
		return false;
	for (size_t i = 0; i < sizeof(addr->s6_addr); i++) {
		memcpy(byte, hex + 2 * i, 2);
		addr->s6_addr[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return true;
}

/* "1 lo ff020000000000000000000000000001 1 0000000C 0" */
static void leave_ip6(int fd)
{
	FILE *f = fopen("/proc/net/igmp6", "re");
	char line[LINE_MAX_LEN], *save, *index, *group;
	struct ipv6_mreq m;

	while (f && fgets(line, sizeof(line), f)) {
		index = strtok_r(line, " \t", &save);
		strtok_r(NULL, " \t", &save);
		group = strtok_r(NULL, " \t", &save);
		if (!index || !group || !parse_ip6(group, &m.ipv6mr_multiaddr))
			continue;
		m.ipv6mr_interface = (unsigned int)strtoul(index, NULL, 10);
		setsockopt(fd, IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP, &m,
			   sizeof(m));
	}
	if (f)
		fclose(f);
}

void ur_mcast_leave_all(int fd)
{
	leave_ip4(fd);
	leave_ip6(fd);
}
