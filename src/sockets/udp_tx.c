/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending. A burst is one sendmsg(2) with UDP_SEGMENT. The sockets are not
 * connected and do path MTU discovery by probing: so the kernel sets DF and
 * identification 0 (incremented within a burst), as the protocol assumed for
 * the ICRC (wire/icrc.h).
 */
#include <errno.h>
#include <string.h>

#include "base/addr.h"
#include "base/memcheck.h"
#include "base/sys.h"
#include "sockets/udp_internal.h"
#include "wire/bth.h"
#include "wire/icrc.h"

/* Packet info, segment size, traffic class, hop limit. */
#define CTL_LEN 128

struct out {
	struct msghdr mh;
	struct sockaddr_storage to;
	_Alignas(struct cmsghdr) uint8_t ctl[CTL_LEN];
};

static void put_cmsg(struct out *o, int level, int type, const void *data,
		     size_t len)
{
	struct cmsghdr *c =
		(struct cmsghdr *)(void *)(o->ctl + o->mh.msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	o->mh.msg_controllen += CMSG_SPACE(len);
}

static void put_int(struct out *o, int level, int type, int v)
{
	put_cmsg(o, level, type, &v, sizeof(v));
}

static void address_v4(struct out *o, const struct ur_burst *t)
{
	struct sockaddr_in *to = (struct sockaddr_in *)&o->to;

	*to = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_port = htons(UR_ROCE_PORT) };
	memcpy(&to->sin_addr, t->dst + 12, 4);
	o->mh.msg_namelen = sizeof(*to);
}

static void source_v4(struct out *o, const struct ur_burst *t)
{
	struct in_pktinfo pi = { 0 };

	/* For a group the kernel takes the interface of the source address. */
	if (t->dst[12] >> 4 != 0xe)
		pi.ipi_ifindex = (int)t->scope_id;
	memcpy(&pi.ipi_spec_dst, t->src + 12, 4);
	put_cmsg(o, IPPROTO_IP, IP_PKTINFO, &pi, sizeof(pi));
}

static void address_v6(struct out *o, const struct ur_burst *t)
{
	struct sockaddr_in6 *to = (struct sockaddr_in6 *)&o->to;

	*to = (struct sockaddr_in6){ .sin6_family = AF_INET6,
				     .sin6_port = htons(UR_ROCE_PORT),
				     .sin6_scope_id = t->scope_id };
	memcpy(&to->sin6_addr, t->dst, 16);
	o->mh.msg_namelen = sizeof(*to);
}

static void source_v6(struct out *o, const struct ur_burst *t)
{
	struct in6_pktinfo pi = { .ipi6_ifindex = t->scope_id };

	memcpy(&pi.ipi6_addr, t->src, 16);
	put_cmsg(o, IPPROTO_IPV6, IPV6_PKTINFO, &pi, sizeof(pi));
}

/* Everything but the payload. Control messages that equal the socket's settings
 * are omitted: each costs the kernel time in every call. */
static void prepare(struct out *o, const struct ur_burst *t, bool v4,
		    bool bound)
{
	o->mh = (struct msghdr){ .msg_name = &o->to, .msg_control = o->ctl };
	if (v4)
		address_v4(o, t);
	else
		address_v6(o, t);
	if (bound)
		return;
	if (v4)
		source_v4(o, t);
	else
		source_v6(o, t);
	if (t->tclass)
		put_int(o, v4 ? IPPROTO_IP : IPPROTO_IPV6,
			v4 ? IP_TOS : IPV6_TCLASS, t->tclass);
	if (t->hop_limit && t->hop_limit != UR_UDP_HOPS)
		put_int(o, v4 ? IPPROTO_IP : IPPROTO_IPV6,
			v4 ? IP_TTL : IPV6_HOPLIMIT, t->hop_limit);
}

/* A message without control messages uses the cheaper system call. */
static ssize_t send_once(int fd, const struct msghdr *mh)
{
	const struct iovec *v = mh->msg_iov;
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL;

	if (mh->msg_iovlen == 1 && mh->msg_controllen == 0)
		return ur_sys_sendto(fd, v->iov_base, v->iov_len, flags,
				     mh->msg_name, mh->msg_namelen);
	return ur_sys_sendmsg(fd, mh, flags);
}

static int send_message(int fd, const struct msghdr *mh)
{
	for (uint32_t tries = 0;; tries++) {
		if (send_once(fd, mh) >= 0)
			return 0;
		if (ur_udp_is_transient(errno) && tries < UR_UDP_TRIES)
			continue;
		if (errno == ENOBUFS || errno == EWOULDBLOCK)
			return -EAGAIN;
		return -errno;
	}
}

static int send_burst(int fd, struct out *o, const struct ur_burst *t)
{
	size_t plain = o->mh.msg_controllen;
	uint16_t segment = (uint16_t)t->pkt_len;
	int err;

	/* sendmsg(2) only reads it, though its type is not const. */
	o->mh.msg_iov = (struct iovec *)(uintptr_t)t->iov;
	o->mh.msg_iovlen = t->niov;
	if (t->npkts > 1)
		put_cmsg(o, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	ur_memcheck_mute();
	err = send_message(fd, &o->mh);
	ur_memcheck_unmute();
	o->mh.msg_controllen = plain;
	/* EINVAL, among other reasons: a segment exceeds the interface's MTU. */
	if (err == -EINVAL && t->npkts > 1)
		err = -EMSGSIZE;
	return err;
}

/*
 * Number of bursts to a destination whose interface refused to segment that are
 * cut before segmentation is tried again: its route or the interface's settings
 * may change.
 */
#define CUT_BURSTS 4096u

static struct ur_udp_unsegmented *unsegmented(struct ur_udp *u,
					      const struct ur_burst *t)
{
	return &u->unsegmented[t->dst[15] % UR_UDP_UNSEGMENTED];
}

static bool may_segment(struct ur_udp *u, const struct ur_burst *t)
{
	struct ur_udp_unsegmented *n = unsegmented(u, t);

	if (!u->gso)
		return false;
	if (!n->left || n->scope_id != t->scope_id ||
	    memcmp(n->dst, t->dst, sizeof(n->dst)) != 0)
		return true;
	n->left--;
	return false;
}

static void note_unsegmented(struct ur_udp *u, const struct ur_burst *t)
{
	struct ur_udp_unsegmented *n = unsegmented(u, t);

	n->left = CUT_BURSTS;
	n->scope_id = t->scope_id;
	memcpy(n->dst, t->dst, sizeof(n->dst));
}

/*
 * A burst with a packet that exceeds the interface's MTU: sends that, and those
 * behind it, without DF.  The kernel then chooses the IPv4
 * identification, which receivers behind sockets find out from the ICRC.
 */
static int send_fragments(struct ur_link *link, int fd, bool v4,
			  const struct out *o, struct ur_burst *t)
{
	uint32_t from = t->sent;
	int err = ur_udp_set_fragment(fd, v4, true);

	if (err)
		return err;
	t->fragmenting = true;
	err = ur_udp_send_cut(fd, &o->mh, t);
	(void)ur_udp_set_fragment(fd, v4, false);
	link->fragmented += (!err || err == -EAGAIN) && t->sent > from;
	return err;
}

/* Other errors than of memory or of the packets' length concern all packets. */
static bool may_be_cut(int err, const struct ur_burst *t)
{
	return t->npkts > 1 && (err == -EIO || err == -EFAULT ||
				(err == -EMSGSIZE && t->may_fragment));
}

static int send_unfragmented(struct ur_udp *u, int fd, struct out *o,
			     struct ur_burst *t)
{
	int err;

	/* A burst begun packet by packet is continued so. */
	if (t->npkts > 1 && (t->sent || !may_segment(u, t)))
		return ur_udp_send_cut(fd, &o->mh, t);
	err = send_burst(fd, o, t);
	/*
	 * EIO: the interface cannot compute UDP checksums, so the kernel does not
	 * segment for it. EFAULT: the memory of one packet is unmapped; the others
	 * may be of other queue pairs. EMSGSIZE: maybe (send_burst()), so single
	 * packets have to show it.
	 */
	if (err == -EIO && t->npkts > 1)
		note_unsegmented(u, t);
	return may_be_cut(err, t) ? ur_udp_send_cut(fd, &o->mh, t) : err;
}

int ur_udp_send(struct ur_link *link, struct ur_burst *t)
{
	struct ur_udp *u = ur_udp_of(link);
	bool v4 = ur_addr_is_v4(t->dst);
	int fd = (v4 ? u->tx4 : u->tx6)[ur_sport_of(t->dqpn)];
	int bound = fd < 0 ? -1 : ur_udp_source_fd(u, t, v4);
	struct out o;
	int err;

	if (fd < 0) {
		link->tx_errors++;
		return -EAFNOSUPPORT;
	}
	if (bound >= 0)
		fd = bound;
	prepare(&o, t, v4, bound >= 0);
	err = t->fragmenting ? -EMSGSIZE : send_unfragmented(u, fd, &o, t);
	if (err == -EMSGSIZE && t->may_fragment)
		err = send_fragments(link, fd, v4, &o, t);
	if (err && err != -EAGAIN)
		link->tx_errors++;
	return err;
}
