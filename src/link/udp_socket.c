/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

/* QPN = slot (10 bits) | index (14 bits), DESIGN 4. */
#define QPN_INDEX_BITS 14

/* BTH bytes 4..7: a reserved byte, then the destination QPN (IBTA 9.2). */
#define BTH_QPN_WORD 4

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/*
 * Both families' options are set on a dual-stack socket: it receives IPv4
 * packets as well.  Their packet info comes as a mapped address, so the IPv4
 * form of it is asked for only where there is no IPv6.  Adapters and the
 * kernel's rxe leave out the UDP checksum (IBTA A17.3.1.2), which IPv6 sockets
 * otherwise take for an error: the ICRC is what protects the packet.
 */
static int set_options(int fd, int family, bool shared)
{
	int err = 0;

	if (shared)
		err = set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (!err)
		err = set_int(fd, IPPROTO_UDP, UDP_GRO, 1);
	if (!err)
		err = set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	if (family == AF_INET)
		return err ? err : set_int(fd, IPPROTO_IP, IP_PKTINFO, 1);
	if (!err)
		err = set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (!err)
		err = set_int(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	if (!err)
		err = set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	if (!err)
		err = set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	return err;
}

static int bind_any(int fd, int family, uint16_t port)
{
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
	};
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
	};
	int r;

	if (family == AF_INET6)
		r = bind(fd, (struct sockaddr *)&in6, sizeof(in6));
	else
		r = bind(fd, (struct sockaddr *)&in, sizeof(in));
	return r ? -errno : 0;
}

/*
 * The kernel takes the result as index of the socket in the group.  A packet
 * too short for the load gives index 0, urnicd's own socket.
 */
static int attach_steering(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BTH_QPN_WORD),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, QPN_INDEX_BITS),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog prog = {
		.len = sizeof(code) / sizeof(code[0]),
		.filter = code,
	};

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog,
		       sizeof(prog)))
		return -errno;
	return 0;
}

static int open_socket(int family, uint16_t port, bool shared, bool steer)
{
	int fd, err;

	fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
		    IPPROTO_UDP);
	if (fd < 0)
		return -errno;
	err = set_options(fd, family, shared);
	if (!err)
		err = bind_any(fd, family, port);
	if (!err && steer)
		err = attach_steering(fd);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

/* A host without IPv6 refuses the family, or the wildcard address. */
static int open_any_family(uint16_t port, bool shared, bool steer)
{
	int fd = open_socket(AF_INET6, port, shared, steer);

	if (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL)
		return fd;
	ur_debug("udp: no IPv6 on this host, port %u is IPv4 only", port);
	return open_socket(AF_INET, port, shared, steer);
}

int ur_udp_slot_socket(uint16_t port, int first)
{
	return open_any_family(port, true, first != 0);
}

int ur_udp_sole_socket(uint16_t port)
{
	return open_any_family(port, false, false);
}
