/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving, in one of three modes chosen by recent traffic.
 *
 *  bursts  One recvmsg(2) reads one datagram as the kernel holds it, which
 *          with UDP_GRO is a whole burst: several packets of one size,
 *          concatenated, the size in a control message.  One burst per call
 *          keeps its buffer in the cache and lets the lane answer burst by
 *          burst.
 *  crowds  When the queue holds many short datagrams (many peers, no bursts)
 *          a recvmmsg(2) reads several.
 *  lone    Packets that come one at a time, with empty reads between, are a
 *          conversation that waits for each of them.  recvfrom(2) is faster,
 *          above all when it finds nothing, but returns no segment size: so
 *          GRO is off, and the kernel splits inbound bursts.  A burst merged
 *          before that is read with GRO on, to get the segment size.  Nor does
 *          it return the traffic class, so a few packets are read otherwise,
 *          to see marks of ECN.
 */
#include <string.h>

#include "base/addr.h"
#include "base/sys.h"
#include "sockets/udp.h"
#include "sockets/udp_internal.h"

/* Room for packet info of both families, TOS, TTL, GRO size, overflow. */
#define CTL_LEN 256

/*
 * Consecutive single packets, without an empty read between, before batching.
 */
#define BATCH_AFTER 2

/* Single packets before entering lone mode; the first burst leaves it. */
#define LONE_AFTER  64
#define CROWD_AFTER 8

/* In lone mode the traffic class of every 7th packet is read.  A switch with a
 * standing queue marks so many that this suffices.  Where two
 * kinds of packets alternate, both are read, since 7 is odd. */
#define LOOK_EVERY 7

/* Number of empty reads after which another processor that saw GRO on has
 * queued its burst. */
#define SETTLE_READS 2

struct slot {
	struct sockaddr_storage from;
	_Alignas(struct cmsghdr) uint8_t ctl[CTL_LEN];
	struct iovec iov;
};

static int cmsg_int(const struct cmsghdr *c)
{
	int v;

	memcpy(&v, CMSG_DATA(c), sizeof(v));
	return v;
}

static void cmsg_ip(struct ur_rx *rx, const struct cmsghdr *c)
{
	struct in_pktinfo pi;

	switch (c->cmsg_type) {
	case IP_PKTINFO:
		memcpy(&pi, CMSG_DATA(c), sizeof(pi));
		ur_addr_from_v4(rx->dst, &pi.ipi_addr);
		rx->dst_unknown = false;
		rx->scope_id = (uint32_t)pi.ipi_ifindex;
		break;
	case IP_TOS:
		rx->tclass = *CMSG_DATA(c);
		break;
	case IP_TTL:
		rx->hop_limit = (uint8_t)cmsg_int(c);
		break;
	default:
		break;
	}
}

/* IPv4 packets on a dual-stack socket have mapped addresses. */
static void cmsg_ipv6(struct ur_rx *rx, const struct cmsghdr *c)
{
	struct in6_pktinfo pi;

	switch (c->cmsg_type) {
	case IPV6_PKTINFO:
		memcpy(&pi, CMSG_DATA(c), sizeof(pi));
		memcpy(rx->dst, &pi.ipi6_addr, 16);
		rx->dst_unknown = false;
		rx->scope_id = pi.ipi6_ifindex;
		break;
	case IPV6_TCLASS:
		rx->tclass = (uint8_t)cmsg_int(c);
		break;
	case IPV6_HOPLIMIT:
		rx->hop_limit = (uint8_t)cmsg_int(c);
		break;
	default:
		break;
	}
}

/* The kernel's counter has 32 bits and is never reset. */
static void count_overflow(struct ur_udp *u, uint32_t now)
{
	u->link.rx_overflow += now - u->rx_ovfl;
	u->rx_ovfl = now;
}

/* Returns the segment size of the datagram; 0: it is one packet. */
static uint32_t read_control(struct ur_udp *u, struct msghdr *mh,
			     struct ur_rx *rx)
{
	uint32_t gso = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level == IPPROTO_IP)
			cmsg_ip(rx, c);
		else if (c->cmsg_level == IPPROTO_IPV6)
			cmsg_ipv6(rx, c);
		else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
			gso = (uint32_t)cmsg_int(c);
		else if (c->cmsg_level == SOL_SOCKET &&
			 c->cmsg_type == SO_RXQ_OVFL)
			count_overflow(u, (uint32_t)cmsg_int(c));
	}
	return gso;
}

static bool read_source(const struct sockaddr_storage *from, struct ur_rx *rx)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;

	if (from->ss_family == AF_INET) {
		ur_addr_from_v4(rx->src, &v4->sin_addr);
		rx->sport = ntohs(v4->sin_port);
	} else if (from->ss_family == AF_INET6) {
		memcpy(rx->src, &v6->sin6_addr, 16);
		rx->sport = ntohs(v6->sin6_port);
	} else {
		return false;
	}
	return true;
}

/* Split a datagram into its packets. Returns how many there were. */
static int deliver(struct ur_udp *u, struct msghdr *mh, uint32_t len,
		   void (*fn)(void *arg, const struct ur_rx *rx), void *arg)
{
	const uint8_t *data = mh->msg_iov->iov_base;
	struct ur_rx rx = { .hop_limit = UR_UDP_HOPS, .dst_unknown = true };
	uint32_t size = read_control(u, mh, &rx);
	uint16_t n = 0;

	if ((mh->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
	    !read_source(mh->msg_name, &rx))
		return 0;
	if (size == 0 || size > len)
		size = len;
	for (uint32_t off = 0; off < len; off += size) {
		rx.data = data + off;
		rx.len = len - off < size ? len - off : size;
		rx.index = n++;
		fn(arg, &rx);
	}
	return n;
}

static void slot_init(struct ur_udp *u, struct slot *s, struct msghdr *mh,
		      uint32_t i)
{
	s->iov = (struct iovec){ u->stage + (size_t)i * UR_UDP_STRIDE,
				 UR_UDP_STAGE };
	*mh = (struct msghdr){
		.msg_name = &s->from,
		.msg_namelen = sizeof(s->from),
		.msg_iov = &s->iov,
		.msg_iovlen = 1,
		.msg_control = s->ctl,
		.msg_controllen = sizeof(s->ctl),
	};
}

void ur_udp_set_lone(struct ur_udp *u, bool on)
{
	u->lone = on;
	u->streak = 0;
	u->crowd = 0;
	u->singles = 0;
	ur_udp_set_gro(u->rx_fd, !on);
}

static bool has_datagram(const struct ur_udp *u)
{
	return ur_sys_recvfrom(u->rx_fd, u->stage, 0, MSG_DONTWAIT | MSG_PEEK,
			       NULL, NULL) >= 0;
}

/* Only if nothing was merged between the empty read and switching GRO off. */
static void try_lone(struct ur_udp *u)
{
	ur_udp_set_lone(u, true);
	for (uint32_t i = 0; i < SETTLE_READS && u->lone; i++) {
		if (has_datagram(u))
			ur_udp_set_lone(u, false);
	}
}

static ssize_t read_marked(struct ur_udp *u, struct ur_rx *rx,
			   struct sockaddr_storage *from)
{
	struct slot s;
	struct msghdr mh;
	ssize_t len;

	slot_init(u, &s, &mh, 0);
	len = ur_sys_recvmsg(u->rx_fd, &mh, MSG_DONTWAIT);
	if (len < 0)
		return len;
	(void)read_control(u, &mh, rx);
	*from = s.from;
	return len;
}

static ssize_t read_plain(struct ur_udp *u, struct sockaddr_storage *from)
{
	socklen_t from_len = sizeof(*from);

	return ur_sys_recvfrom(u->rx_fd, u->stage, UR_UDP_STAGE, MSG_DONTWAIT,
			       (struct sockaddr *)from, &from_len);
}

static int recv_lone(struct ur_udp *u,
		     void (*fn)(void *arg, const struct ur_rx *rx), void *arg)
{
	struct ur_rx rx = { .hop_limit = UR_UDP_HOPS,
			    .dst_unknown = true,
			    .data = u->stage };
	struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
	ssize_t len = u->unseen == LOOK_EVERY - 1 ? read_marked(u, &rx, &from)
						  : read_plain(u, &from);

	if (len < 0) {
		u->crowd = 0;
		return 0;
	}
	u->unseen = (uint8_t)((u->unseen + 1) % LOOK_EVERY);
	rx.len = (uint32_t)len;
	if (read_source(&from, &rx))
		fn(arg, &rx);
	if (++u->crowd >= CROWD_AFTER)
		ur_udp_set_lone(u, false);
	return 1;
}

static int recv_one(struct ur_udp *u,
		    void (*fn)(void *arg, const struct ur_rx *rx), void *arg)
{
	struct slot s;
	struct msghdr mh;
	ssize_t len;
	int n;

	slot_init(u, &s, &mh, 0);
	len = ur_sys_recvmsg(u->rx_fd, &mh, MSG_DONTWAIT);
	if (len < 0) {
		u->singles = 0;
		if (u->streak >= LONE_AFTER && !u->told)
			try_lone(u);
		return 0;
	}
	n = deliver(u, &mh, (uint32_t)len, fn, arg);
	if (n > 1 || u->singles)
		u->streak = 0;
	else if (u->streak < LONE_AFTER)
		u->streak++;
	u->singles = n <= 1 ? (uint8_t)(u->singles + 1) : 0;
	/* A packet arrived, though not for us: not 0, so that polling
	 * continues. */
	return n > 0 ? n : 1;
}

static int recv_batch(struct ur_udp *u,
		      void (*fn)(void *arg, const struct ur_rx *rx), void *arg)
{
	struct slot s[UR_UDP_BATCH];
	struct mmsghdr mm[UR_UDP_BATCH];
	int got, n = 0;

	for (uint32_t i = 0; i < UR_UDP_BATCH; i++)
		slot_init(u, &s[i], &mm[i].msg_hdr, i);
	got = ur_sys_recvmmsg(u->rx_fd, mm, UR_UDP_BATCH, MSG_DONTWAIT);
	for (int i = 0; i < got; i++)
		n += deliver(u, &mm[i].msg_hdr, mm[i].msg_len, fn, arg);
	/* Bursts, or not even a second datagram: one at a time is better. */
	if (got < 2 || n > 2 * got)
		u->singles = 0;
	return got <= 0 ? 0 : n > 0 ? n : 1;
}

int ur_udp_recv(struct ur_link *link,
		void (*rx)(void *arg, const struct ur_rx *rx), void *arg)
{
	struct ur_udp *u = ur_udp_of(link);

	if (u->lone)
		return recv_lone(u, rx, arg);
	return u->singles >= BATCH_AFTER ? recv_batch(u, rx, arg)
					 : recv_one(u, rx, arg);
}

int ur_udp_recv_from(struct ur_link *link, int fd,
		     void (*rx)(void *arg, const struct ur_rx *rx), void *arg)
{
	struct ur_udp *u = ur_udp_of(link);
	uint64_t overflow = link->rx_overflow;
	uint32_t ovfl = u->rx_ovfl;
	int own = u->rx_fd, n;

	u->rx_fd = fd;
	n = recv_one(u, rx, arg);
	u->rx_fd = own;
	u->rx_ovfl = ovfl;
	link->rx_overflow = overflow;
	return n;
}
