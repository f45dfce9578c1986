/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 over UDP sockets: creation, multicast, destruction. A lane receives on
 * its slot's socket of the port 4791 group and sends from sockets of its own,
 * one per address family and source port (entropy for ECMP, separate flows for
 * GRO).
 */
#include <errno.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/refused.h"
#include "base/rng.h"
#include "base/socket.h"
#include "sockets/udp_internal.h"

/* RoCEv2 senders use the upper quarter of the ports (IBTA A17.4.3). */
#define SPORT_FIRST 0xc000u
#define SPORT_COUNT 0x4000u
#define SPORT_TRIES 32

/* As large as permitted: beyond the system's limit only with privileges.
 * urnicd, which created the socket, may have had more privileges. */
static void set_buffer(int fd, int force, int normal, int bytes)
{
	/* The kernel doubles the requested size. */
	if (ur_sockopt_get(fd, SOL_SOCKET, normal) < 2 * bytes)
		ur_sockopt_buffer(fd, force, normal, bytes);
}

static const uint8_t any_addr[16];

static int bind_to(int fd, bool v4, const uint8_t addr[16], uint32_t scope_id,
		   uint16_t port)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET,
				  .sin_port = htons(port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
				   .sin6_scope_id = scope_id,
				   .sin6_port = htons(port) };
	int err;

	memcpy(&a4.sin_addr, addr + 12, 4);
	memcpy(&a6.sin6_addr, addr, 16);
	err = v4 ? bind(fd, (struct sockaddr *)&a4, sizeof(a4))
		 : bind(fd, (struct sockaddr *)&a6, sizeof(a6));
	return err ? -errno : 0;
}

static int bind_any(int fd, bool v4, uint16_t port)
{
	return bind_to(fd, v4, any_addr, 0, port);
}

/* A port of the RoCE range if one is free, else any. */
static int bind_sport(int fd, bool v4)
{
	for (int i = 0; i < SPORT_TRIES; i++) {
		uint32_t r;
		int err;

		ur_rng_secret(&r, sizeof(r));
		err = bind_any(fd, v4,
			       (uint16_t)(SPORT_FIRST + r % SPORT_COUNT));
		if (err != -EADDRINUSE && err != -EACCES)
			return err;
	}
	return bind_any(fd, v4, 0);
}

static int read_sport(int fd, uint16_t *port)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a = { .v6 = { 0 } };
	socklen_t len = sizeof(a);

	if (getsockname(fd, &a.any, &len))
		return -errno;
	*port = ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port
						 : a.v6.sin6_port);
	return 0;
}

/* These options set DF and identification. */
int ur_udp_set_fragment(int fd, bool v4, bool on)
{
	int err;

	if (v4)
		return ur_sockopt_set(fd, IPPROTO_IP, IP_MTU_DISCOVER,
				      on ? IP_PMTUDISC_DONT
					 : IP_PMTUDISC_PROBE);
	err = ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER,
			     on ? IPV6_PMTUDISC_DONT : IPV6_PMTUDISC_PROBE);
	if (!err)
		err = ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_DONTFRAG, !on);
	return err;
}

/* All these options are required. */
static int tx_options_v4(int fd)
{
	int err = ur_udp_set_fragment(fd, true, false);

	if (!err)
		err = ur_sockopt_set(fd, IPPROTO_IP, IP_TTL, UR_UDP_HOPS);
	if (!err)
		err = ur_sockopt_set(fd, IPPROTO_IP, IP_MULTICAST_TTL,
				     UR_UDP_HOPS);
	return err;
}

static int tx_options_v6(int fd)
{
	int err = ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);

	if (!err)
		err = ur_udp_set_fragment(fd, false, false);
	if (!err)
		err = ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS,
				     UR_UDP_HOPS);
	if (!err)
		err = ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS,
				     UR_UDP_HOPS);
	return err;
}

/* A sending socket without a port, or -errno. It is never read: packets to its
 * port fill a receive buffer of minimum size. */
static int tx_socket(bool v4)
{
	int fd = socket(v4 ? AF_INET : AF_INET6,
			SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err;

	if (fd < 0)
		return -errno;
	set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, UR_UDP_TX_BUFFER);
	(void)ur_sockopt_set(fd, SOL_SOCKET, SO_RCVBUF, 0);
	err = v4 ? tx_options_v4(fd) : tx_options_v6(fd);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

/* The port is bound exclusively first; after that, sockets bound to one address
 * may share it. */
static int tx_any(bool v4, uint16_t *sport)
{
	int fd = tx_socket(v4), err;

	if (fd < 0)
		return fd;
	err = bind_sport(fd, v4);
	if (!err)
		err = read_sport(fd, sport);
	if (err) {
		close(fd);
		return err;
	}
	(void)ur_sockopt_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	return fd;
}

static int source_options(int fd, bool v4, const struct ur_udp_source *s)
{
	int hops = s->hop_limit ? s->hop_limit : UR_UDP_HOPS;
	int err =
		v4 ? ur_sockopt_set(fd, IPPROTO_IP, IP_TTL, hops)
		   : ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, hops);

	if (err)
		return err;
	return v4 ? ur_sockopt_set(fd, IPPROTO_IP, IP_TOS, s->tclass)
		  : ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_TCLASS, s->tclass);
}

/* What the socket sends leaves by that interface, whatever the route says. */
static int leave_by(int fd, bool v4, uint32_t ifindex)
{
	int be = (int)htonl(ifindex);

	return v4 ? ur_sockopt_set(fd, IPPROTO_IP, IP_UNICAST_IF, be)
		  : ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_UNICAST_IF, be);
}

int ur_udp_tx_bound(bool v4, const struct ur_udp_source *s, uint16_t port)
{
	int fd = tx_socket(v4), err;

	if (fd < 0)
		return fd;
	err = ur_sockopt_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (!err)
		err = source_options(fd, v4, s);
	if (!err && s->scope_id)
		err = leave_by(fd, v4, s->scope_id);
	if (!err)
		err = bind_to(fd, v4, s->addr, s->scope_id, port);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

/* The size 0 means "off" and changes nothing where the option exists. */
static bool gso_works(int fd)
{
	int err = ur_sockopt_set(fd, SOL_UDP, UDP_SEGMENT, 0);

	if (err)
		ur_refused_note(UR_REFUSED_GSO, -err);
	return !err;
}

static void close_tx(struct ur_udp *u)
{
	for (uint32_t i = 0; i < UR_SPORTS; i++) {
		if (u->tx4[i] >= 0)
			close(u->tx4[i]);
		if (u->tx6[i] >= 0)
			close(u->tx6[i]);
	}
}

/* All ports of a family, or none: 0 or -errno. */
static int open_family(bool v4, int fds[UR_SPORTS], uint16_t ports[UR_SPORTS])
{
	int err = 0;

	for (uint32_t i = 0; i < UR_SPORTS && !err; i++) {
		fds[i] = tx_any(v4, &ports[i]);
		err = fds[i] < 0 ? fds[i] : 0;
	}
	for (uint32_t i = 0; i < UR_SPORTS && err; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
		ports[i] = 0;
	}
	return err;
}

static int open_tx(struct ur_udp *u)
{
	int err4 = open_family(true, u->tx4, u->link.sports.v4);
	int err6 = u->rx_v6 ? open_family(false, u->tx6, u->link.sports.v6)
			    : -EAFNOSUPPORT;

	if (err4 && err6) {
		ur_err("udp: no socket to send from: %s", strerror(-err4));
		return err4;
	}
	u->gso = gso_works(err4 ? u->tx6[0] : u->tx4[0]);
	return 0;
}

void ur_udp_set_gro(int fd, bool on)
{
	int err = ur_sockopt_set(fd, SOL_UDP, UDP_GRO, on);

	if (err)
		ur_refused_note(UR_REFUSED_GRO, -err);
}

void ur_udp_tell_ip(struct ur_link *link, bool on)
{
	struct ur_udp *u = ur_udp_of(link);

	u->told = on;
	if (on && u->lone)
		ur_udp_set_lone(u, false);
	if (u->rx_v6) {
		(void)ur_sockopt_set(u->rx_fd, IPPROTO_IPV6, IPV6_RECVPKTINFO,
				     on);
		(void)ur_sockopt_set(u->rx_fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT,
				     on);
	}
	if (!u->rx_v6)
		(void)ur_sockopt_set(u->rx_fd, IPPROTO_IP, IP_PKTINFO, on);
	(void)ur_sockopt_set(u->rx_fd, IPPROTO_IP, IP_RECVTTL, on);
}

/*
 * The creator of the socket has set most of these; setting them again makes the
 * link independent of that. GRO, overflow counter and hop limit are optional.
 */
static int rx_options(struct ur_udp *u)
{
	int fd = u->rx_fd, err;

	if (u->rx_v6)
		err = ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	else
		err = ur_sockopt_set(fd, IPPROTO_IP, IP_PKTINFO, 1);
	if (err)
		return err;
	/* Available; enabled on demand. */
	ur_udp_tell_ip(&u->link, false);
	/* For the marks of ECN. */
	(void)ur_sockopt_set(fd, IPPROTO_IP, IP_RECVTOS, 1);
	if (u->rx_v6)
		(void)ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	ur_udp_all_groups(u, false);
	ur_udp_set_gro(fd, true);
	(void)ur_sockopt_set(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
	set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, UR_UDP_RX_BUFFER);
	return 0;
}

/* The kernel charges for its own structures and unused tails of pages; about
 * half of the reported size is payload. */
static int read_rx_bytes(struct ur_udp *u)
{
	int bytes = ur_sockopt_get(u->rx_fd, SOL_SOCKET, SO_RCVBUF);

	if (bytes < 0)
		return bytes;
	u->link.rx_bytes = (uint64_t)bytes / 2;
	return 0;
}

/* A slot's socket outlives its owner: earlier drops are not this link's. */
static void read_rx_drops(struct ur_udp *u)
{
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t len = sizeof(info);

	if (!getsockopt(u->rx_fd, SOL_SOCKET, SO_MEMINFO, info, &len) &&
	    len > SK_MEMINFO_DROPS * sizeof(info[0]))
		u->rx_ovfl = info[SK_MEMINFO_DROPS];
}

static int udp_wait_fd(const struct ur_link *link)
{
	return ((const struct ur_udp *)link)->rx_fd;
}

static void udp_destroy(struct ur_link *link)
{
	struct ur_udp *u = ur_udp_of(link);

	close_tx(u);
	ur_udp_sources_close(u);
	ur_udp_close_joiners(u);
	close(u->rx_fd);
	munmap(u->stage, UR_UDP_STAGE_LEN);
	free(u);
}

static const struct ur_link_ops udp_ops = {
	.name = "udp",
	.send = ur_udp_send,
	.recv = ur_udp_recv,
	.wait_fd = udp_wait_fd,
	.destroy = udp_destroy,
};

static int setup(struct ur_udp *u)
{
	int domain = ur_sockopt_get(u->rx_fd, SOL_SOCKET, SO_DOMAIN), err;

	if (domain < 0)
		return domain;
	u->rx_v6 = domain == AF_INET6;
	err = rx_options(u);
	if (!err)
		err = read_rx_bytes(u);
	read_rx_drops(u);
	if (!err)
		err = open_tx(u);
	return err;
}

int ur_udp_link_create(int rx_fd, struct ur_link **out)
{
	struct ur_udp *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return -ENOMEM;
	u->link.ops = &udp_ops;
	u->link.udp = &u->link;
	u->rx_fd = rx_fd;
	memset(u->tx4, -1, sizeof(u->tx4));
	memset(u->tx6, -1, sizeof(u->tx6));
	ur_udp_sources_init(u);
	u->stage = mmap(NULL, UR_UDP_STAGE_LEN, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (u->stage == MAP_FAILED) {
		err = -ENOMEM;
		goto free_udp;
	}
	err = setup(u);
	if (err)
		goto unmap_stage;
	*out = &u->link;
	return 0;
unmap_stage:
	munmap(u->stage, UR_UDP_STAGE_LEN);
free_udp:
	free(u);
	return err;
}
