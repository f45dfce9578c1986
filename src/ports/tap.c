/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/log.h"

#define TUN_FILE  "/dev/net/tun"
#define REPLY_MAX 512

/* One request of rtnetlink. */
struct request {
	struct nlmsghdr nh;
	union {
		struct ifinfomsg link;
		struct ifaddrmsg addr;
		struct rtmsg route;
		struct ndtmsg neigh;
	} body;
	uint8_t attrs[64];
};

static void put_attr(struct request *r, uint16_t type, const void *data,
		     uint16_t len)
{
	struct rtattr a = { .rta_type = type,
			    .rta_len = (uint16_t)RTA_LENGTH(len) };
	uint8_t *at = (uint8_t *)r + NLMSG_ALIGN(r->nh.nlmsg_len);

	memcpy(at, &a, sizeof(a));
	memcpy(at + RTA_LENGTH(0), data, len);
	r->nh.nlmsg_len =
		(uint32_t)(NLMSG_ALIGN(r->nh.nlmsg_len) + RTA_ALIGN(a.rta_len));
}

/* Send it and wait for the kernel's answer: 0 or -errno. */
static int ask(int sock, struct request *r)
{
	struct {
		struct nlmsghdr nh;
		struct nlmsgerr err;
		uint8_t rest[REPLY_MAX];
	} reply;
	ssize_t n;

	r->nh.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (send(sock, r, r->nh.nlmsg_len, 0) < 0)
		return -errno;
	n = recv(sock, &reply, sizeof(reply), 0);
	if (n < 0)
		return -errno;
	if ((size_t)n < sizeof(reply.nh) + sizeof(int) ||
	    reply.nh.nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	return reply.err.error;
}

/* No duplicate address detection: it is the one configured. */
static int add_address(int sock, uint32_t ifindex, const struct ur_port_addr *a)
{
	bool v4 = ur_addr_is_v4(a->ip);
	const uint8_t *ip = v4 ? a->ip + 12 : a->ip;
	uint16_t len = v4 ? 4 : 16;
	struct request r = {
		.nh = { .nlmsg_len = NLMSG_LENGTH(sizeof(r.body.addr)),
			.nlmsg_type = RTM_NEWADDR,
			.nlmsg_flags = NLM_F_CREATE | NLM_F_REPLACE },
		.body.addr = { .ifa_family = v4 ? AF_INET : AF_INET6,
			       .ifa_prefixlen = a->prefix,
			       .ifa_flags = v4 ? 0 : IFA_F_NODAD,
			       .ifa_index = ifindex },
	};

	put_attr(&r, IFA_LOCAL, ip, len);
	put_attr(&r, IFA_ADDRESS, ip, len);
	return ask(sock, &r);
}

static int add_gateway(int sock, uint32_t ifindex, const uint8_t gw[16])
{
	bool v4 = ur_addr_is_v4(gw);
	struct request r = {
		.nh = { .nlmsg_len = NLMSG_LENGTH(sizeof(r.body.route)),
			.nlmsg_type = RTM_NEWROUTE,
			.nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL },
		.body.route = { .rtm_family = v4 ? AF_INET : AF_INET6,
				.rtm_table = RT_TABLE_MAIN,
				.rtm_protocol = RTPROT_STATIC,
				.rtm_scope = RT_SCOPE_UNIVERSE,
				.rtm_type = RTN_UNICAST },
	};

	if (ur_addr_is_zero(gw))
		return 0;
	put_attr(&r, RTA_GATEWAY, v4 ? gw + 12 : gw, v4 ? 4 : 16);
	put_attr(&r, RTA_OIF, &ifindex, sizeof(ifindex));
	return ask(sock, &r);
}

/*
 * No address but the port's: the stack would not know one that the kernel
 * makes by itself.  A kernel without IPv6 makes none.
 */
static void make_no_address(int sock, uint32_t ifindex)
{
	struct {
		struct rtattr family;
		struct rtattr mode;
		uint8_t none[RTA_ALIGN(1)];
	} spec = {
		.family = { .rta_len = sizeof(spec), .rta_type = AF_INET6 },
		.mode = { .rta_len = RTA_LENGTH(1),
			  .rta_type = IFLA_INET6_ADDR_GEN_MODE },
		.none = { IN6_ADDR_GEN_MODE_NONE },
	};
	struct request r = {
		.nh = { .nlmsg_len = NLMSG_LENGTH(sizeof(r.body.link)),
			.nlmsg_type = RTM_NEWLINK },
		.body.link = { .ifi_index = (int)ifindex },
	};
	int err;

	put_attr(&r, IFLA_AF_SPEC, &spec, sizeof(spec));
	err = ask(sock, &r);
	if (err)
		ur_debug("port: link-local addresses stay: %s", strerror(-err));
}

/*
 * The kernel ignores what ARP says of a neighbour for a second after it has
 * learnt it.  A peer that restarts on a memif changes its address sooner, and
 * the host would send to the old one for half a minute.
 */
static void believe_moves(int sock, uint32_t ifindex)
{
	static const char table[] = "arp_cache";
	const struct {
		struct rtattr index;
		uint32_t ifindex;
		struct rtattr lock;
		uint32_t none_ms[2];
	} of = {
		.index = { .rta_len = RTA_LENGTH(sizeof(ifindex)),
			   .rta_type = NDTPA_IFINDEX },
		.ifindex = ifindex,
		.lock = { .rta_len = RTA_LENGTH(sizeof(of.none_ms)),
			  .rta_type = NDTPA_LOCKTIME },
	};
	struct request r = {
		.nh = { .nlmsg_len = NLMSG_LENGTH(sizeof(r.body.neigh)),
			.nlmsg_type = RTM_SETNEIGHTBL },
		.body.neigh = { .ndtm_family = AF_INET },
	};
	int err;

	put_attr(&r, NDTA_NAME, table, sizeof(table));
	put_attr(&r, NDTA_PARMS, &of, sizeof(of));
	err = ask(sock, &r);
	if (err)
		ur_debug("port: neighbours that move are noticed late: %s",
			 strerror(-err));
}

/* An existing route is the administrator's. */
static int set_gateways(int sock, uint32_t ifindex,
			const struct ur_port_spec *spec)
{
	int err = add_gateway(sock, ifindex, spec->gateway4);

	if (!err || err == -EEXIST)
		err = add_gateway(sock, ifindex, spec->gateway6);
	return err == -EEXIST ? 0 : err;
}

/* Set the MTU, the MAC address, or the flags, by the SIOCSIF… request. */
static int set_link(const char *name, unsigned long what, struct ifreq *r)
{
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = sock < 0 ? -errno : 0;

	memcpy(r->ifr_name, name, strlen(name) + 1);
	if (!err && ioctl(sock, what, r))
		err = -errno;
	if (sock >= 0)
		close(sock);
	return err;
}

/* A program that sees the interface come up sees its addresses. */
static int set_up(const char *name, uint32_t ifindex,
		  const struct ur_port_spec *spec, const uint8_t mac[6])
{
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct ifreq mtu = { .ifr_mtu = (int)spec->mtu };
	struct ifreq hw = { .ifr_hwaddr.sa_family = ARPHRD_ETHER };
	struct ifreq up = { .ifr_flags = IFF_UP };
	int err = sock < 0 ? -errno : 0;

	if (err)
		return err;
	make_no_address(sock, ifindex);
	believe_moves(sock, ifindex);
	memcpy(hw.ifr_hwaddr.sa_data, mac, 6);
	err = set_link(name, SIOCSIFMTU, &mtu);
	if (!err)
		err = set_link(name, SIOCSIFHWADDR, &hw);
	for (uint32_t i = 0; i < spec->naddrs && !err; i++)
		err = add_address(sock, ifindex, &spec->addrs[i]);
	if (!err)
		err = set_link(name, SIOCSIFFLAGS, &up);
	if (!err)
		err = set_gateways(sock, ifindex, spec);
	close(sock);
	return err;
}

static int make(const char *name)
{
	struct ifreq r = { .ifr_flags = (short)(IFF_TAP | IFF_NO_PI |
						IFF_TUN_EXCL) };
	int fd = open(TUN_FILE, O_RDWR | O_CLOEXEC | O_NONBLOCK), err;

	if (fd < 0) {
		err = -errno;
		ur_err("port: %s: %s", TUN_FILE, strerror(-err));
		return err;
	}
	memcpy(r.ifr_name, name, strlen(name) + 1);
	if (ioctl(fd, TUNSETIFF, &r) == 0)
		return fd;
	err = -errno;
	close(fd);
	if (err != -EBUSY)
		ur_err("port: making %s: %s", name, strerror(-err));
	return err;
}

int ur_tap_open(const char *name, const struct ur_port_spec *spec,
		const uint8_t mac[6], uint32_t *ifindex)
{
	int fd = make(name), err;

	if (fd < 0)
		return fd;
	*ifindex = if_nametoindex(name);
	err = set_up(name, *ifindex, spec, mac);
	if (err) {
		ur_err("port: setting up %s: %s", name, strerror(-err));
		close(fd);
		return err;
	}
	return fd;
}
