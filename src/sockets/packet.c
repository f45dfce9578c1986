/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two packet sockets: one receives, one sends. A socket does not see the frames
 * that it sends itself, but those of others. So frames that a network adapter
 * would loop back to its own queues arrive at the receiving socket, whichever
 * queue sent them, and the filter selects among them.
 *
 * Both put a virtio header before the frame: it tells which checksums are not
 * filled in yet, and that a frame is several packets in one (GSO).
 */
#include "sockets/packet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memcheck.h"
#include "base/socket.h"
#include "base/sys.h"
#include "raw/flow.h"

#define BUFFER_BYTES (8u << 20)
#define SLOT_BYTES   (UR_FRAME_MAX + 64u)

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

struct rx_slot {
	struct virtio_net_hdr vnet;
	struct iovec iov[2];
	_Alignas(8) uint8_t control[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
};

struct ur_packet {
	int rx;
	int tx;
	uint32_t ifindex;
	uint32_t wants;
	uint64_t drops;
	uint8_t *frames; /* UR_PACKET_BATCH of SLOT_BYTES */
	struct rx_slot slot[UR_PACKET_BATCH];
	struct mmsghdr rx_msg[UR_PACKET_BATCH];
	struct mmsghdr tx_msg[UR_PACKET_BATCH];
	struct virtio_net_hdr tx_vnet[UR_PACKET_BATCH];
	struct iovec tx_iov[UR_PACKET_BATCH][UR_FRAME_IOV + 1];
};

/* Opening a socket to find out would cost milliseconds: closing it waits for an
 * RCU grace period. */
int ur_packet_allowed(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data))
		return -errno;
	return data[0].effective & 1u << CAP_NET_RAW ? 0 : -EPERM;
}

static int query(int fd, struct ifreq *r, struct ur_netdev *out)
{
	uint16_t type;

	if (ioctl(fd, SIOCGIFINDEX, r))
		return -ENODEV;
	out->ifindex = (uint32_t)r->ifr_ifindex;
	if (ioctl(fd, SIOCGIFHWADDR, r))
		return -ENODEV;
	type = r->ifr_hwaddr.sa_family;
	if (type != ARPHRD_ETHER && type != ARPHRD_LOOPBACK)
		return -ENODEV;
	out->loopback = type == ARPHRD_LOOPBACK;
	memcpy(out->mac, r->ifr_hwaddr.sa_data, sizeof(out->mac));
	return 0;
}

int ur_netdev_find(const char *name, struct ur_netdev *out)
{
	struct ifreq r = { 0 };
	int fd, err;

	if (strlen(name) >= sizeof(r.ifr_name))
		return -ENODEV;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	memcpy(r.ifr_name, name, strlen(name));
	err = query(fd, &r, out);
	close(fd);
	return err;
}

static int open_socket(uint32_t ifindex, uint16_t protocol)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = (int)ifindex,
	};
	/* Without a protocol it receives nothing until it is bound. */
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sock_filter none = { .code = BPF_RET | BPF_K, .k = 0 };
	struct sock_fprog prog = { .len = 1, .filter = &none };
	int err;

	if (fd < 0)
		return -errno;
	err = ur_sockopt_set(fd, SOL_PACKET, PACKET_VNET_HDR, 1);
	if (!err &&
	    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)))
		err = -errno;
	if (!err && bind(fd, (struct sockaddr *)&at, sizeof(at)))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int open_sockets(struct ur_packet *p)
{
	int err;

	p->rx = open_socket(p->ifindex, ETH_P_ALL);
	if (p->rx < 0)
		return p->rx;
	p->tx = open_socket(p->ifindex, 0);
	if (p->tx < 0) {
		err = p->tx;
		goto close_rx;
	}
	err = ur_sockopt_set(p->rx, SOL_PACKET, PACKET_AUXDATA, 1);
	if (err)
		goto close_tx;
	ur_sockopt_buffer(p->rx, SO_RCVBUFFORCE, SO_RCVBUF, (int)BUFFER_BYTES);
	ur_sockopt_buffer(p->tx, SO_SNDBUFFORCE, SO_SNDBUF, (int)BUFFER_BYTES);
	return 0;
close_tx:
	close(p->tx);
close_rx:
	close(p->rx);
	return err;
}

static void prepare(struct ur_packet *p)
{
	for (uint32_t i = 0; i < UR_PACKET_BATCH; i++) {
		struct rx_slot *s = &p->slot[i];

		s->iov[0].iov_base = &s->vnet;
		s->iov[0].iov_len = sizeof(s->vnet);
		s->iov[1].iov_base = p->frames + (size_t)i * SLOT_BYTES;
		s->iov[1].iov_len = UR_FRAME_MAX;
		p->rx_msg[i].msg_hdr.msg_iov = s->iov;
		p->rx_msg[i].msg_hdr.msg_iovlen = 2;
		p->rx_msg[i].msg_hdr.msg_control = s->control;
		p->tx_msg[i].msg_hdr.msg_iov = p->tx_iov[i];
	}
}

int ur_packet_open(const struct ur_netdev *dev, struct ur_packet **out)
{
	struct ur_packet *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->ifindex = dev->ifindex;
	p->frames = mmap(NULL, (size_t)UR_PACKET_BATCH * SLOT_BYTES,
			 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	if (p->frames == MAP_FAILED) {
		err = -ENOMEM;
		goto free_packet;
	}
	err = open_sockets(p);
	if (err)
		goto unmap;
	prepare(p);
	*out = p;
	return 0;
unmap:
	munmap(p->frames, (size_t)UR_PACKET_BATCH * SLOT_BYTES);
free_packet:
	free(p);
	return err;
}

void ur_packet_close(struct ur_packet *p)
{
	close(p->tx);
	close(p->rx);
	munmap(p->frames, (size_t)UR_PACKET_BATCH * SLOT_BYTES);
	free(p);
}

int ur_packet_filter(struct ur_packet *p, struct sock_filter *code, uint32_t n)
{
	struct sock_fprog prog = { .len = (uint16_t)n, .filter = code };

	return setsockopt(p->rx, SOL_SOCKET, SO_ATTACH_FILTER, &prog,
			  sizeof(prog))
		       ? -errno
		       : 0;
}

static int member(const struct ur_packet *p, uint16_t type, bool join)
{
	struct packet_mreq m = { .mr_ifindex = (int)p->ifindex,
				 .mr_type = type };

	return setsockopt(p->rx, SOL_PACKET,
			  join ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP,
			  &m, sizeof(m))
		       ? -errno
		       : 0;
}

int ur_packet_want(struct ur_packet *p, uint32_t wants)
{
	static const struct {
		uint32_t want;
		uint16_t type;
	} kinds[] = {
		{ UR_WANT_ALL_MULTICAST, PACKET_MR_ALLMULTI },
		{ UR_WANT_PROMISCUOUS, PACKET_MR_PROMISC },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		bool want = wants & kinds[i].want;
		int err;

		if (want == !!(p->wants & kinds[i].want))
			continue;
		err = member(p, kinds[i].type, want);
		if (err)
			return err;
		p->wants ^= kinds[i].want;
	}
	return 0;
}

static uint8_t to_vnet_gso(uint8_t gso)
{
	switch ((enum ur_gso)gso) {
	case UR_GSO_TCP4:
		return VIRTIO_NET_HDR_GSO_TCPV4;
	case UR_GSO_TCP6:
		return VIRTIO_NET_HDR_GSO_TCPV6;
	case UR_GSO_NONE:
	case UR_GSO_UDP: /* unreachable */
		break;
	}
	return VIRTIO_NET_HDR_GSO_NONE;
}

static uint8_t from_vnet_gso(uint8_t type)
{
	switch (type & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_TCPV4:
		return UR_GSO_TCP4;
	case VIRTIO_NET_HDR_GSO_TCPV6:
		return UR_GSO_TCP6;
	case VIRTIO_NET_HDR_GSO_UDP_L4:
		return UR_GSO_UDP;
	default:
		return UR_GSO_NONE;
	}
}

static void fill_tx(struct ur_packet *p, uint32_t i,
		    const struct ur_frame_tx *f)
{
	struct virtio_net_hdr *v = &p->tx_vnet[i];
	struct msghdr *m = &p->tx_msg[i].msg_hdr;

	*v = (struct virtio_net_hdr){
		.flags = f->csum_partial ? VIRTIO_NET_HDR_F_NEEDS_CSUM : 0,
		.gso_type = to_vnet_gso(f->gso),
		.hdr_len = f->hdr_len,
		.gso_size = f->gso_size,
		.csum_start = f->csum_start,
		.csum_offset = f->csum_offset,
	};
	m->msg_iov[0].iov_base = v;
	m->msg_iov[0].iov_len = sizeof(*v);
	memcpy(m->msg_iov + 1, f->iov, f->niov * sizeof(f->iov[0]));
	m->msg_iovlen = f->niov + 1;
}

static int tx_error(int err)
{
	return err == EINTR ? -EAGAIN : -err;
}

uint32_t ur_packet_send(struct ur_packet *p, const struct ur_frame_tx *f,
			uint32_t n, int *err)
{
	uint32_t done = 0;

	*err = 0;
	for (uint32_t i = 0; i < n; i++)
		fill_tx(p, i, &f[i]);
	while (done < n) {
		int r;

		ur_memcheck_mute();
		r = ur_sys_sendmmsg(p->tx, p->tx_msg + done, n - done, 0);
		ur_memcheck_unmute();
		if (r <= 0) {
			*err = r < 0 ? tx_error(errno) : -EAGAIN;
			break;
		}
		done += (uint32_t)r;
	}
	return done;
}

static void read_aux(struct msghdr *m, struct ur_frame_rx *f)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct tpacket_auxdata aux;

		if (c->cmsg_level != SOL_PACKET ||
		    c->cmsg_type != PACKET_AUXDATA)
			continue;
		memcpy(&aux, CMSG_DATA(c), sizeof(aux));
		if (aux.tp_status & TP_STATUS_VLAN_VALID) {
			f->tci = aux.tp_vlan_tci;
			f->tpid = aux.tp_status & TP_STATUS_VLAN_TPID_VALID
					  ? aux.tp_vlan_tpid
					  : ETH_P_8021Q;
		}
		f->csum_valid |= (aux.tp_status & TP_STATUS_CSUM_VALID) != 0;
	}
}

/* False: the frame was truncated, or is shorter than its header. */
static bool read_slot(struct ur_packet *p, uint32_t i, struct ur_frame_rx *f)
{
	struct mmsghdr *m = &p->rx_msg[i];
	const struct virtio_net_hdr *v = &p->slot[i].vnet;

	if (m->msg_len < sizeof(*v) || (m->msg_hdr.msg_flags & MSG_TRUNC))
		return false;
	*f = (struct ur_frame_rx){
		.data = p->slot[i].iov[1].iov_base,
		.len = m->msg_len - (uint32_t)sizeof(*v),
		.csum_partial = v->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.csum_valid = v->flags & (VIRTIO_NET_HDR_F_NEEDS_CSUM |
					  VIRTIO_NET_HDR_F_DATA_VALID),
		.csum_start = v->csum_start,
		.csum_offset = v->csum_offset,
		.gso = from_vnet_gso(v->gso_type),
		.gso_size = v->gso_size,
	};
	read_aux(&m->msg_hdr, f);
	return true;
}

uint32_t ur_packet_recv(struct ur_packet *p, uint32_t max,
			void (*rx)(void *arg, const struct ur_frame_rx *f),
			void *arg)
{
	int n;

	for (uint32_t i = 0; i < max; i++)
		p->rx_msg[i].msg_hdr.msg_controllen =
			sizeof(p->slot[i].control);
	n = ur_sys_recvmmsg(p->rx, p->rx_msg, max, 0);
	for (int i = 0; i < n; i++) {
		struct ur_frame_rx f;

		if (read_slot(p, (uint32_t)i, &f))
			rx(arg, &f);
	}
	return n > 0 ? (uint32_t)n : 0;
}

int ur_packet_fd(const struct ur_packet *p)
{
	return p->rx;
}

bool ur_packet_ready(const struct ur_packet *p)
{
	struct pollfd fd = { .fd = p->rx, .events = POLLIN };

	return ur_sys_poll(&fd, 1, 0) > 0;
}

/* Reading the kernel's statistics resets them. */
uint64_t ur_packet_drops(struct ur_packet *p)
{
	struct tpacket_stats s;
	socklen_t len = sizeof(s);

	if (getsockopt(p->rx, SOL_PACKET, PACKET_STATISTICS, &s, &len) == 0)
		p->drops += s.tp_drops;
	return p->drops;
}
