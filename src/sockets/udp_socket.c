/* SPDX-License-Identifier: BSD-2-Clause */
#include "sockets/udp.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/socket.h"
#include "base/sys.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

/* QPN = slot (10 bits) | index (14 bits): docs/decisions/0002. */
#define MAX_SLOTS 1024u

/* BTH bytes 4..7: a reserved byte, then the destination QPN (IBTA 9.2). */
#define BTH_QPN_WORD 4

/*
 * In a datagram to QP1, after BTH and DETH: a MAD with a CM message. The
 * receiver's communication ID is its second field (13.4.2, 12.6), and begins
 * with a slot as well.
 */
#define MAD_ATTR_HALF 36
#define MAD_RECV_WORD 48
#define COMM_ID_BITS  22
#define CM_FIRST      0x11 /* MRA */
#define CM_SIDR_REQ   0x17
#define CM_SIDR_REP   0x18
#define CM_LAST	      0x1a /* APR */

/* Groups that other sockets of the host have joined; a kernel without the option
 * (gVisor's, qemu-user's) delivers them, and queue pairs drop them. */
static int refuse_all_groups(int fd, int level, int option)
{
	int err = ur_sockopt_set(fd, level, option, 0);

	return err == -ENOPROTOOPT ? 0 : err;
}

/*
 * Both families' options are set on a dual-stack socket: it receives IPv4
 * packets as well. Their packet info comes as a mapped address, so the IPv4
 * form is requested only where there is no IPv6. Adapters and the kernel's rxe
 * send no UDP checksum (IBTA A17.3.1.2), which IPv6 sockets reject by default:
 * the ICRC protects the packet.
 */
static int set_options(int fd, int family, bool shared)
{
	int err = 0;

	if (shared)
		err = ur_sockopt_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	/* Optional: the link of the slot's owner notes a refusal. */
	(void)ur_sockopt_set(fd, IPPROTO_UDP, UDP_GRO, 1);
	if (!err)
		err = refuse_all_groups(fd, IPPROTO_IP, IP_MULTICAST_ALL);
	if (family == AF_INET)
		return err ? err
			   : ur_sockopt_set(fd, IPPROTO_IP, IP_PKTINFO, 1);
	if (!err)
		err = ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (!err)
		err = ur_sockopt_set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	if (!err)
		err = refuse_all_groups(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL);
	if (!err)
		err = ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
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
 * The kernel uses the result as index of the socket in the group. A packet too
 * short for a load gives index 0, urnicd's own socket, as do packets to QP1
 * without a communication ID of ours: requests, for which urnicd finds the
 * listener.
 */
int ur_udp_steer(int fd, uint32_t slots)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BTH_QPN_WORD),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 2, 0),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, UR_SLOT_SHIFT),
		BPF_JUMP(BPF_JMP | BPF_JA, 7, 0, 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, MAD_ATTR_HALF),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, CM_FIRST, 0, 7),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, CM_LAST, 6, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CM_SIDR_REQ, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CM_SIDR_REP, 4, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, MAD_RECV_WORD),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, COMM_ID_BITS),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, slots, 1, 0),
		BPF_STMT(BPF_RET | BPF_A, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
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
		err = ur_udp_steer(fd, MAX_SLOTS);
	if (err) {
		ur_sys_close(fd);
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

/* One of the two fails, depending on the socket's family. */
void ur_udp_tell_destination(int fd)
{
	if (ur_sockopt_set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1))
		(void)ur_sockopt_set(fd, IPPROTO_IP, IP_PKTINFO, 1);
}
