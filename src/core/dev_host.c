/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/dev_host.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/socket.h"

#define SPEED_LOOPBACK 100000u
#define SPEED_OTHER    10000u /* as the kernel reports for veth and tap */
#define MTU_DEFAULT    1500u

/* The order of the GID table (dev.h). */
enum rank {
	RANK_V4,
	RANK_V6_GLOBAL,
	RANK_V6_LINK_LOCAL,
	RANK_LOOPBACK,
	RANK_COUNT,
	RANK_NONE,
};

static enum rank rank_of(const struct ifaddrs *ifa)
{
	const struct sockaddr_in6 *v6 = (const void *)ifa->ifa_addr;

	if (!ifa->ifa_addr)
		return RANK_NONE;
	switch (ifa->ifa_addr->sa_family) {
	case AF_INET:
		return ifa->ifa_flags & IFF_LOOPBACK ? RANK_LOOPBACK : RANK_V4;
	case AF_INET6:
		if (ifa->ifa_flags & IFF_LOOPBACK)
			return RANK_LOOPBACK;
		return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)
			       ? RANK_V6_LINK_LOCAL
			       : RANK_V6_GLOBAL;
	default:
		return RANK_NONE;
	}
}

static uint32_t mtu_of(int sock, const char *ifname)
{
	struct ifreq req = { .ifr_mtu = 0 };

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", ifname);
	if (ioctl(sock, SIOCGIFMTU, &req) || req.ifr_mtu <= 0)
		return MTU_DEFAULT;
	return (uint32_t)req.ifr_mtu;
}

/* For a secondary IPv4 address the name may be a label, such as eth0:1. */
static void fill(struct ur_gid *g, int sock, const struct ifaddrs *ifa)
{
	const unsigned int running = IFF_UP | IFF_RUNNING;
	int len = (int)strcspn(ifa->ifa_name, ":");

	*g = (struct ur_gid){
		.loopback = (ifa->ifa_flags & IFF_LOOPBACK) != 0,
		.up = (ifa->ifa_flags & running) == running,
	};
	snprintf(g->ifname, sizeof(g->ifname), "%.*s", len, ifa->ifa_name);
	g->ifindex = if_nametoindex(g->ifname);
	g->mtu = mtu_of(sock, g->ifname);
	ur_addr_from_sockaddr(g->addr, ifa->ifa_addr);
}

int ur_host_gids(struct ur_gid *out, uint32_t max)
{
	struct ifaddrs *list;
	uint32_t n = 0;
	int sock;

	if (getifaddrs(&list))
		return -errno;
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (unsigned int rank = 0; rank < RANK_COUNT; rank++)
		for (struct ifaddrs *i = list; i && n < max; i = i->ifa_next)
			if (rank_of(i) == rank)
				fill(&out[n++], sock, i);
	if (sock >= 0)
		close(sock);
	freeifaddrs(list);
	return (int)n;
}

int ur_host_netdev(struct ur_dev_netdev *n)
{
	const unsigned int running = IFF_UP | IFF_RUNNING;
	struct ifreq req = { .ifr_flags = 0 };
	int sock, err = 0;

	if (!if_indextoname(n->ifindex, n->name))
		return errno == ENXIO || errno == ENODEV ? -ENODEV : -errno;
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", n->name);
	if (ioctl(sock, SIOCGIFFLAGS, &req))
		err = -errno;
	n->mtu = mtu_of(sock, n->name);
	close(sock);
	if (err)
		return err;
	n->up = (req.ifr_flags & running) == running;
	n->loopback = (req.ifr_flags & IFF_LOOPBACK) != 0;
	return 0;
}

/* The beginning of a file in /sys or /proc; false if it cannot be read. */
static bool read_file(const char *path, char *buf, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, buf, cap - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = 0;
	return true;
}

uint64_t ur_host_speed(const struct ur_dev_netdev *n)
{
	char path[64], buf[32];
	long speed;

	if (n->loopback)
		return SPEED_LOOPBACK;
	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", n->name);
	if (read_file(path, buf, sizeof(buf))) {
		speed = strtol(buf, NULL, 10); /* -1: unknown to the driver */
		if (speed > 0)
			return (uint64_t)speed;
	}
	return SPEED_OTHER;
}

static uint64_t eui64(const uint8_t mac[ETH_ALEN])
{
	const uint8_t id[8] = {
		mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5],
	};
	uint64_t v = 0;

	for (size_t i = 0; i < sizeof(id); i++)
		v = v << 8 | id[i];
	return v;
}

/* From the interface `name`, or from any that is up if name is NULL; 0: no
 * Ethernet address. */
static uint64_t guid_of_mac(const char *name)
{
	struct ifaddrs *list;
	uint64_t guid = 0;

	if (getifaddrs(&list))
		return 0;
	for (struct ifaddrs *i = list; i && !guid; i = i->ifa_next) {
		const struct sockaddr_ll *ll = (const void *)i->ifa_addr;

		if (ll && ll->sll_family == AF_PACKET &&
		    ll->sll_halen == ETH_ALEN &&
		    !(i->ifa_flags & IFF_LOOPBACK) &&
		    (name ? !strcmp(i->ifa_name, name)
			  : (i->ifa_flags & IFF_UP) != 0))
			guid = eui64(ll->sll_addr);
	}
	freeifaddrs(list);
	return guid;
}

/* FNV-1a over the boot's and the network namespace's identity. */
static uint64_t guid_of_boot(void)
{
	char buf[64] = "";
	struct stat ns;
	uint64_t h = 0xcbf29ce484222325;

	(void)read_file("/proc/sys/kernel/random/boot_id", buf, sizeof(buf));
	for (const char *p = buf; *p; p++)
		h = (h ^ (uint8_t)*p) * 0x100000001b3;
	if (stat("/proc/self/ns/net", &ns) == 0)
		h = (h ^ ns.st_ino) * 0x100000001b3;
	/* An EUI-64 is "local" if the bit that eui64() toggles is 0. */
	return h & ~(UINT64_C(3) << 56);
}

uint64_t ur_host_guid(void)
{
	uint64_t guid = guid_of_mac(NULL);

	return guid ? guid : guid_of_boot();
}

uint64_t ur_host_netdev_guid(const char *name)
{
	uint64_t guid = guid_of_mac(name);

	return guid ? guid : ur_host_guid();
}
