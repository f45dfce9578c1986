/* SPDX-License-Identifier: BSD-2-Clause */
#include "connect/neigh.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/socket.h"
#include "base/sys.h"
#include "connect/conn_internal.h"

#define BUF_LEN	      1024u
#define DISCARD	      9 /* RFC 863 */
#define NO_NEIGHBOURS (IFF_NOARP | IFF_LOOPBACK | IFF_POINTOPOINT)
#define KNOWN                                                                  \
	(NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE |   \
	 NUD_DELAY)

/* A netlink message, and what came as the answer. */
struct exchange {
	int fd;
	size_t len;
	union {
		struct nlmsghdr hdr;
		uint8_t buf[BUF_LEN];
	};
};

struct hop {
	int ifindex;
	uint8_t addr[16];
};

static unsigned int addr_bytes(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET6 ? 16 : 4;
}

static const void *addr_of(const struct sockaddr_storage *a)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;

	return a->ss_family == AF_INET6 ? (const void *)&v6->sin6_addr
					: (const void *)&v4->sin_addr;
}

static void begin(struct exchange *x, uint16_t type, size_t body)
{
	memset(x->buf, 0, sizeof(x->buf));
	x->hdr.nlmsg_type = type;
	x->hdr.nlmsg_flags = NLM_F_REQUEST;
	x->len = NLMSG_LENGTH(body);
}

static void add_attr(struct exchange *x, uint16_t type, const void *data,
		     size_t len)
{
	struct rtattr a = { .rta_len = (uint16_t)RTA_LENGTH(len),
			    .rta_type = type };

	x->len = NLMSG_ALIGN(x->len);
	memcpy(x->buf + x->len, &a, sizeof(a));
	memcpy(x->buf + x->len + RTA_LENGTH(0), data, len);
	x->len += RTA_LENGTH(len);
}

/* The answer is in x->buf, at least `body` bytes of it; -errno of the kernel,
 * or -EIO. */
static int ask(struct exchange *x, uint16_t type, size_t body)
{
	struct nlmsgerr err;
	ssize_t n;

	x->hdr.nlmsg_len = (uint32_t)x->len;
	if (ur_sys_send(x->fd, x->buf, x->len, 0) < 0)
		return -EIO;
	n = ur_sys_recv(x->fd, x->buf, sizeof(x->buf), 0);
	if (n < (ssize_t)sizeof(x->hdr) || x->hdr.nlmsg_len > (size_t)n)
		return -EIO;
	x->len = x->hdr.nlmsg_len;
	if (x->hdr.nlmsg_type == NLMSG_ERROR &&
	    x->len >= NLMSG_LENGTH(sizeof(err))) {
		memcpy(&err, x->buf + NLMSG_HDRLEN, sizeof(err));
		return err.error ? err.error : -EIO;
	}
	if (x->hdr.nlmsg_type != type || x->len < NLMSG_LENGTH(body))
		return -EIO;
	return 0;
}

/* The attribute's bytes, len of them; false: it is not there. */
static bool get_attr(const struct exchange *x, size_t body, uint16_t type,
		     void *out, size_t len)
{
	size_t at = NLMSG_LENGTH(NLMSG_ALIGN(body));
	struct rtattr a;

	while (at + sizeof(a) <= x->len) {
		memcpy(&a, x->buf + at, sizeof(a));
		if (a.rta_len < sizeof(a) || at + a.rta_len > x->len)
			return false;
		if (a.rta_type == type && a.rta_len >= RTA_LENGTH(len)) {
			memcpy(out, x->buf + at + RTA_LENGTH(0), len);
			return true;
		}
		at += RTA_ALIGN(a.rta_len);
	}
	return false;
}

static uint32_t scope_of(const struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;

	return a->ss_family == AF_INET6 ? v6->sin6_scope_id : 0;
}

/* 0 and *hop; 1: there is none to be known; -errno. */
static int next_hop(struct exchange *x, const struct sockaddr_storage *src,
		    const struct sockaddr_storage *dst, struct hop *hop)
{
	unsigned int n = addr_bytes(dst);
	uint32_t scope = scope_of(dst);
	struct rtmsg r = { .rtm_family = (uint8_t)dst->ss_family,
			   .rtm_dst_len = (uint8_t)(8 * n) };
	bool from = src->ss_family == dst->ss_family && !ur_conn_addr_any(src);
	int err;

	if (from)
		r.rtm_src_len = r.rtm_dst_len;
	begin(x, RTM_GETROUTE, sizeof(r));
	memcpy(x->buf + NLMSG_HDRLEN, &r, sizeof(r));
	add_attr(x, RTA_DST, addr_of(dst), n);
	if (from)
		add_attr(x, RTA_SRC, addr_of(src), n);
	if (scope)
		add_attr(x, RTA_OIF, &scope, sizeof(scope));
	err = ask(x, RTM_NEWROUTE, sizeof(r));
	if (err)
		return err;
	memcpy(&r, x->buf + NLMSG_HDRLEN, sizeof(r));
	if (r.rtm_type != RTN_UNICAST ||
	    !get_attr(x, sizeof(r), RTA_OIF, &hop->ifindex,
		      sizeof(hop->ifindex)))
		return 1;
	if (!get_attr(x, sizeof(r), RTA_GATEWAY, hop->addr, n))
		memcpy(hop->addr, addr_of(dst), n);
	return 0;
}

static bool has_neighbours(const struct exchange *x, int ifindex)
{
	struct ifreq req = { .ifr_flags = 0 };

	if (!if_indextoname((unsigned int)ifindex, req.ifr_name) ||
	    ioctl(x->fd, SIOCGIFFLAGS, &req))
		return false;
	return !(req.ifr_flags & NO_NEIGHBOURS);
}

static int look_up(struct exchange *x, sa_family_t family, unsigned int n,
		   const struct hop *hop)
{
	struct ndmsg m = { .ndm_family = (uint8_t)family,
			   .ndm_ifindex = hop->ifindex };
	int err;

	begin(x, RTM_GETNEIGH, sizeof(m));
	memcpy(x->buf + NLMSG_HDRLEN, &m, sizeof(m));
	add_attr(x, NDA_DST, hop->addr, n);
	err = ask(x, RTM_NEWNEIGH, sizeof(m));
	if (err)
		return err == -ENOENT ? -ENODATA : 0;
	memcpy(&m, x->buf + NLMSG_HDRLEN, sizeof(m));
	return m.ndm_state & KNOWN ? 0 : -ENODATA;
}

int ur_neigh_check(const struct sockaddr_storage *src,
		   const struct sockaddr_storage *dst)
{
	struct exchange x = { .fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC,
					   NETLINK_ROUTE) };
	struct hop hop;
	int err;

	if (x.fd < 0)
		return 0;
	err = next_hop(&x, src, dst, &hop);
	if (err == 0 && has_neighbours(&x, hop.ifindex))
		err = look_up(&x, dst->ss_family, addr_bytes(dst), &hop);
	close(x.fd);
	return err == -EIO || err > 0 ? 0 : err;
}

void ur_neigh_ask(const struct sockaddr_storage *src,
		  const struct sockaddr_storage *dst)
{
	socklen_t len = ur_sockaddr_len(dst);
	struct sockaddr_storage from = *src, to = *dst;
	int fd = socket(dst->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	ur_sockaddr_set_port(&from, 0);
	ur_sockaddr_set_port(&to, DISCARD);
	if (dst->ss_family == AF_INET6)
		(void)ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 1);
	else
		(void)ur_sockopt_set(fd, IPPROTO_IP, IP_TTL, 1);
	if (from.ss_family == to.ss_family)
		(void)bind(fd, (struct sockaddr *)&from, len);
	(void)ur_sys_sendto(fd, "", 0, MSG_DONTWAIT, (struct sockaddr *)&to,
			    len);
	close(fd);
}
