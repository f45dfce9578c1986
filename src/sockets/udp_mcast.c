/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast membership. The receiving socket joins the groups, so that it
 * receives those and no others. The kernel limits memberships per socket
 * (igmp_max_memberships, 20 by default): further groups are joined by extra
 * sockets, and then the receiving socket accepts packets for any group that the
 * host has joined; the protocol drops those without an attached QP.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/socket.h"
#include "base/sys.h"
#include "sockets/udp_internal.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

/* The interface with an IPv6 address; 0: none. */
static uint32_t ifindex_of(const uint8_t addr[16])
{
	struct ifaddrs *list;
	uint32_t index = 0;

	if (getifaddrs(&list))
		return 0;
	for (struct ifaddrs *i = list; i && !index; i = i->ifa_next) {
		const struct sockaddr_in6 *a =
			(const struct sockaddr_in6 *)i->ifa_addr;

		if (a && a->sin6_family == AF_INET6 &&
		    !memcmp(&a->sin6_addr, addr, 16))
			index = if_nametoindex(i->ifa_name);
	}
	freeifaddrs(list);
	return index;
}

static int membership_v4(int fd, bool join, const uint8_t group[16],
			 const uint8_t source[16])
{
	struct ip_mreqn m = { 0 };
	int name = join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP;

	memcpy(&m.imr_multiaddr, group + 12, 4);
	memcpy(&m.imr_address, source + 12, 4);
	return setsockopt(fd, IPPROTO_IP, name, &m, sizeof(m)) ? -errno : 0;
}

static int membership_v6(int fd, bool join, const uint8_t group[16],
			 const uint8_t source[16])
{
	struct ipv6_mreq m = { .ipv6mr_interface = ifindex_of(source) };
	int name = join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP;

	if (!m.ipv6mr_interface)
		return -ENODEV;
	memcpy(&m.ipv6mr_multiaddr, group, 16);
	return setsockopt(fd, IPPROTO_IPV6, name, &m, sizeof(m)) ? -errno : 0;
}

static int membership(int fd, bool join, const uint8_t group[16],
		      const uint8_t source[16])
{
	return ur_addr_is_v4(group) ? membership_v4(fd, join, group, source)
				    : membership_v6(fd, join, group, source);
}

void ur_udp_all_groups(struct ur_udp *u, bool on)
{
	(void)ur_sockopt_set(u->rx_fd, IPPROTO_IP, IP_MULTICAST_ALL, on);
	if (u->rx_v6)
		(void)ur_sockopt_set(u->rx_fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL,
				     on);
}

static bool is_full(int err)
{
	return err == -ENOBUFS || err == -ENOMEM;
}

/* Another socket for memberships; it is unbound, so it receives nothing. */
static int add_joiner(struct ur_udp *u)
{
	int *joiners =
		realloc(u->joiners, (u->njoiners + 1) * sizeof(u->joiners[0]));
	int fd;

	if (!joiners)
		return -ENOMEM;
	u->joiners = joiners;
	fd = socket(u->rx_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC,
		    0);
	if (fd < 0)
		return -errno;
	u->joiners[u->njoiners++] = fd;
	ur_udp_all_groups(u, true);
	return 0;
}

int ur_udp_join(struct ur_link *link, const uint8_t group[16],
		const uint8_t source[16])
{
	struct ur_udp *u = ur_udp_of(link);
	int err;

	if (!ur_addr_is_v4(group) && !u->rx_v6)
		return -EAFNOSUPPORT;
	err = membership(u->rx_fd, true, group, source);
	for (uint32_t i = 0; is_full(err) && i < u->njoiners; i++)
		err = membership(u->joiners[i], true, group, source);
	if (!is_full(err))
		return err;
	err = add_joiner(u);
	if (err)
		return err;
	return membership(u->joiners[u->njoiners - 1], true, group, source);
}

int ur_udp_leave(struct ur_link *link, const uint8_t group[16],
		 const uint8_t source[16])
{
	struct ur_udp *u = ur_udp_of(link);
	int err;

	if (!ur_addr_is_v4(group) && !u->rx_v6)
		return -EAFNOSUPPORT;
	err = membership(u->rx_fd, false, group, source);
	for (uint32_t i = 0; err == -EADDRNOTAVAIL && i < u->njoiners; i++)
		err = membership(u->joiners[i], false, group, source);
	return err;
}

void ur_udp_close_joiners(struct ur_udp *u)
{
	for (uint32_t i = 0; i < u->njoiners; i++)
		ur_sys_close(u->joiners[i]);
	free(u->joiners);
}
