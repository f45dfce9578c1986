/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/timer.h"
#include "link/nic.h"
#include "link/tap.h"
#include "net/net.h"
#include "wire/icrc.h"

#define HOST_BURST 32
#define ROOM_TRIES 16

/* The share of the time without packets that may pass until the next look,
 * and its bounds. */
#define IDLE_SHARE  16
#define IDLE_MIN_NS 20000u
#define IDLE_MAX_NS 10000000u

#define MAC_SINGLE    0xfcu
#define MAC_LOCAL     0x02u
#define ETHER_TYPE_AT 12u
#define ETHER_LEN     14u
#define TAG_LEN	      4u
#define TYPE_VLAN     0x8100u
#define TYPE_ARP      0x0806u
#define TYPE_IP6      0x86ddu
#define TELL_NS	      1000000000u
#define LINK_NS	      250000000u /* between two looks at the link */
#define PROBES	      3u	 /* RFC 5227 1.1 */
#define FIRST_QPN     2u
#define IP4_LEN	      20u
#define IP6_LEN	      40u
#define IP6_FRAG_LEN  8u
#define PROTO_FRAG    44u
#define PROTO_TCP     6u
#define PROTO_ICMP6   58u
#define ND_SOLICIT    135u
#define ND_ADVERT     136u
#define ARP_REQUEST   1u
#define ARP_REPLY     2u
#define ARP_LEN	      28u

_Static_assert(UR_NIC_TX_IPV4_SUM == UR_NET_TX_IPV4_SUM &&
		       UR_NIC_TX_UDP_SUM == UR_NET_TX_UDP_SUM,
	       "the controller's words are the stack's");
_Static_assert(UR_NIC_RX_IP_GOOD == UR_NET_RX_IP_GOOD &&
		       UR_NIC_RX_L4_GOOD == UR_NET_RX_L4_GOOD &&
		       UR_NIC_RX_L4_BAD == UR_NET_RX_L4_BAD,
	       "likewise");

struct ur_port {
	const struct ur_nic_plugin *ops;
	struct ur_nic *nic;
	struct ur_net *net;
	struct ur_nic_info info;
	bool (*deliver)(void *arg, const struct ur_rx *rx);
	bool (*tcp)(void *arg, const uint8_t *packet, uint32_t len);
	void *arg;
	uint16_t vlan;
	uint32_t naddrs;
	uint8_t addrs[UR_PORT_ADDRS][16];
	int tap;
	int epfd;
	int timer;
	uint64_t now_ns;		      /* of the poll under way */
	uint64_t busy_ns;		      /* when something came or left */
	uint64_t told_ns[UR_NET_EVENT_KINDS]; /* when one was told last */
	uint32_t ifindex;		      /* of the TAP */
	uint64_t link_at_ns; /* when the link is to be looked at */
	uint64_t timer_ns;   /* what the timer is set to */
	bool linked;
	bool host_asks; /* the last that the host said is such a question */
	uint64_t tx_lost;
	uint64_t host_lost;
	/* A frame with room for a tag before it. */
	uint8_t frame[TAG_LEN + UR_NET_FRAME_MAX];
};

static uint16_t be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

/* ---- To the host ---- */

/* Is it about who has an address: ARP with that operation, or that message of
 * ND, without those that say or ask it of themselves? */
static bool is_about(const uint8_t *frame, uint32_t len, uint16_t arp,
		     uint8_t nd)
{
	static const uint8_t nobody[16];
	const uint8_t *l3 = frame + ETHER_LEN;

	if (len >= ETHER_LEN + ARP_LEN &&
	    be16(frame + ETHER_TYPE_AT) == TYPE_ARP)
		return be16(l3 + 6) == arp && memcmp(l3 + 14, l3 + 24, 4) != 0;
	return len > ETHER_LEN + IP6_LEN &&
	       be16(frame + ETHER_TYPE_AT) == TYPE_IP6 &&
	       l3[6] == PROTO_ICMP6 && l3[IP6_LEN] == nd &&
	       memcmp(l3 + 8, nobody, sizeof(nobody)) != 0;
}

/* The host's interface has no tags: `l3` is where what is behind one begins. */
static void to_host(struct ur_port *p, const uint8_t *frame, uint32_t len,
		    uint32_t l3)
{
	uint8_t *at = p->frame;

	if (l3 > ETHER_LEN && l3 <= len) {
		memcpy(at, frame, ETHER_TYPE_AT);
		memcpy(at + ETHER_TYPE_AT, frame + l3 - 2, len - l3 + 2);
		len -= l3 - ETHER_LEN;
		frame = at;
	}
	if (is_about(frame, len, ARP_REPLY, ND_ADVERT))
		p->host_asks = false;
	if (write(p->tap, frame, len) < 0)
		p->host_lost++;
}

/* Where the payload of Ethernet begins; 0: it is too short. */
static uint32_t find_l3(const uint8_t *frame, uint32_t len)
{
	uint32_t l3 = ETHER_LEN;

	if (len >= ETHER_LEN && be16(frame + ETHER_TYPE_AT) == TYPE_VLAN)
		l3 += TAG_LEN;
	return len >= l3 ? l3 : 0;
}

/* ---- In ---- */

static uint32_t qpn_of(const struct ur_rx *rx)
{
	const uint8_t *b = rx->data;

	return rx->len < 8 ? 0 : (uint32_t)(b[5] << 16 | b[6] << 8 | b[7]);
}

/* Length of the IP packet at `ip` if it is of TCP, without extension headers,
 * or a fragment of one; else 0. */
static uint32_t tcp_len(const uint8_t *ip, uint32_t room)
{
	uint32_t len = 0;

	if (room >= IP4_LEN && ip[0] >> 4 == 4 && ip[9] == PROTO_TCP)
		len = be16(ip + 2);
	else if (room >= IP6_LEN + IP6_FRAG_LEN && ip[0] >> 4 == 6 &&
		 (ip[6] == PROTO_TCP ||
		  (ip[6] == PROTO_FRAG && ip[IP6_LEN] == PROTO_TCP)))
		len = IP6_LEN + be16(ip + 4);
	return len <= room ? len : 0;
}

/* Whether the segment's checksum holds is for TCP to see. */
static bool take_tcp(struct ur_port *p, const struct ur_nic_rx *rx, uint32_t l3)
{
	uint32_t len;

	if (!p->tcp || !l3 || (rx->frame[0] & 1))
		return false;
	len = tcp_len(rx->frame + l3, rx->len - l3);
	return len && p->tcp(p->arg, rx->frame + l3, len);
}

static void on_frame(void *arg, const struct ur_nic_rx *nrx)
{
	struct ur_net_rx rx = { .frame = nrx->frame,
				.len = nrx->len,
				.flags = nrx->flags };
	struct ur_port *p = arg;
	struct ur_net_in in;
	uint32_t l3;

	switch (ur_net_input(p->net, &rx, p->now_ns, &in)) {
	case UR_NET_ROCE:
		if (qpn_of(&in.roce) < FIRST_QPN ||
		    !p->deliver(p->arg, &in.roce))
			to_host(p, nrx->frame, nrx->len,
				find_l3(nrx->frame, nrx->len));
		break;
	case UR_NET_HOST:
		l3 = find_l3(nrx->frame, nrx->len);
		if (!take_tcp(p, nrx, l3))
			to_host(p, nrx->frame, nrx->len, l3);
		break;
	case UR_NET_DONE:
		break;
	}
}

/* ---- Out ---- */

static uint8_t *room(struct ur_port *p, uint32_t len)
{
	uint8_t *at = p->ops->room(p->nic, len);

	for (int i = 0; !at && i < ROOM_TRIES; i++) {
		p->tx_lost += p->ops->flush(p->nic);
		at = p->ops->room(p->nic, len);
	}
	return at;
}

/* A frame that is complete; lost if there is no room. */
static void send_frame(struct ur_port *p, const uint8_t *frame, uint32_t len)
{
	struct ur_nic_tx tx = { .len = len };
	uint8_t *at = room(p, len);

	if (!at) {
		p->tx_lost++;
		return;
	}
	memcpy(at, frame, len);
	p->ops->tx(p->nic, &tx);
}

/* What the stack itself has to say. */
static void send_own(struct ur_port *p)
{
	uint8_t *buf = p->frame + TAG_LEN;
	uint32_t len;

	while ((len = ur_net_output(p->net, buf, UR_NET_FRAME_MAX)))
		send_frame(p, buf, len);
}

static void flush(struct ur_port *p)
{
	send_own(p);
	p->tx_lost += p->ops->flush(p->nic);
}

/* Where in a train the next packet begins. */
struct cut {
	const struct ur_train *train;
	const struct iovec *iov;
	size_t off;
};

/* The train's own memory needs no guard. */
static int copy_piece(const struct ur_train *t, uint8_t *to,
		      const uint8_t *from, size_t len)
{
	if (from < t->linear || from >= t->linear + sizeof(t->linear))
		return ur_guard_copy(to, from, len);
	memcpy(to, from, len);
	return 0;
}

static int copy_payload(struct cut *c, uint8_t *to, uint32_t len)
{
	int err = 0;

	while (len && !err) {
		size_t part = c->iov->iov_len - c->off;

		if (part > len)
			part = len;
		err = copy_piece(c->train, to,
				 (const uint8_t *)c->iov->iov_base + c->off,
				 part);
		to += part;
		len -= (uint32_t)part;
		c->off += part;
		if (c->off == c->iov->iov_len) {
			c->iov++;
			c->off = 0;
		}
	}
	return err;
}

/* Packet number i of a train. */
static int send_packet(struct ur_port *p, const struct ur_net_flow *f,
		       struct cut *c, uint16_t i, uint32_t len)
{
	struct ur_nic_tx tx = { .len = f->len + len,
				.l2 = f->l2,
				.l3 = f->l3,
				.v4 = f->v4,
				.sums = f->sums &
					(UR_NET_SUM_IP | UR_NET_SUM_UDP) };
	uint8_t *frame = room(p, tx.len);
	struct iovec payload;
	int err;

	if (!frame)
		return -EAGAIN;
	ur_net_put(f, frame, i, len);
	err = copy_payload(c, frame + f->len, len);
	if (err)
		return err;
	payload = (struct iovec){ frame + f->len, len };
	if (f->sums & UR_NET_SUM_SOFT)
		ur_net_sum(f, frame, &payload, 1);
	if (f->ready)
		p->ops->tx(p->nic, &tx);
	else
		err = ur_net_park(p->net, f, frame, tx.len, p->now_ns);
	return err;
}

static int send_packets(struct ur_port *p, const struct ur_train *t,
			const struct ur_net_flow *f)
{
	struct cut c = { .train = t, .iov = t->iov };
	uint32_t left = t->bytes;
	int err = 0;

	for (uint32_t i = 0; i < t->npkts; i++) {
		uint32_t len = left < t->pkt_len ? left : t->pkt_len;

		err = send_packet(p, f, &c, (uint16_t)i, len);
		if (err)
			/* What has left cannot be called back: the rest is
			 * lost, as it would be on the wire. */
			return err == -EAGAIN && i > 0 ? 0 : err;
		left -= len;
	}
	return err;
}

int ur_port_send(struct ur_port *p, const struct ur_train *t, uint64_t now_ns)
{
	struct ur_net_key key = { .sport = t->sport,
				  .tclass = t->tclass,
				  .hop_limit = t->hop_limit };
	const struct ur_net_flow *f;
	int err;

	memcpy(key.src, t->src, 16);
	memcpy(key.dst, t->dst, 16);
	p->now_ns = now_ns;
	err = ur_net_flow(p->net, &key, now_ns, &f);
	if (!err)
		err = t->pkt_len > ur_net_payload_max(f)
			      ? -EMSGSIZE
			      : send_packets(p, t, f);
	p->busy_ns = now_ns;
	flush(p);
	return err;
}

int ur_port_send_ip(struct ur_port *p, const uint8_t *packet, uint32_t len,
		    uint64_t now_ns)
{
	struct ur_nic_tx tx = { 0 };
	struct ur_net_hop hop;
	uint8_t *frame;
	int err = ur_net_hop(p->net, packet, len, now_ns, &hop);

	p->now_ns = now_ns;
	p->busy_ns = now_ns;
	if (err)
		return err;
	if (!hop.ready)
		return ur_net_send_ip(p->net, packet, len, now_ns);
	tx.len = hop.len + len;
	frame = room(p, tx.len);
	if (!frame)
		return -EAGAIN;
	memcpy(frame, hop.l2, hop.len);
	memcpy(frame + hop.len, packet, len);
	p->ops->tx(p->nic, &tx);
	return 0;
}

void ur_port_flush(struct ur_port *p)
{
	flush(p);
}

/* Whoever is at the other end now may know nothing of us, and our addresses
 * may be his. */
static void look_at_link(struct ur_port *p, uint64_t now_ns)
{
	bool linked = p->ops->link(p->nic);

	p->link_at_ns = now_ns + LINK_NS;
	if (linked == p->linked)
		return;
	p->linked = linked;
	ur_info_some("port: the link is %s", linked ? "up" : "down");
	if (!linked)
		return;
	ur_net_link_up(p->net, now_ns);
	flush(p);
}

uint32_t ur_port_poll(struct ur_port *p, uint64_t now_ns)
{
	uint32_t n;

	p->now_ns = now_ns;
	if (p->link_at_ns <= now_ns)
		look_at_link(p, now_ns);
	n = p->ops->rx(p->nic, on_frame, p);
	if (ur_net_deadline(p->net) <= now_ns)
		ur_net_expire(p->net, now_ns);
	else if (!n)
		return 0;
	if (n)
		p->busy_ns = now_ns;
	flush(p);
	return n;
}

/* With the port's tag, if it has one. */
static void from_host(struct ur_port *p, uint32_t len)
{
	uint8_t *frame = p->frame + TAG_LEN;

	p->host_asks = is_about(frame, len, ARP_REQUEST, ND_SOLICIT);
	if (p->vlan && len >= ETHER_LEN) {
		memmove(p->frame, frame, ETHER_TYPE_AT);
		frame = p->frame;
		frame[12] = TYPE_VLAN >> 8;
		frame[13] = TYPE_VLAN & 0xff;
		frame[14] = (uint8_t)(p->vlan >> 8);
		frame[15] = (uint8_t)p->vlan;
		len += TAG_LEN;
	}
	send_frame(p, frame, len);
}

uint32_t ur_port_host(struct ur_port *p, uint64_t now_ns)
{
	uint32_t n;

	for (n = 0; n < HOST_BURST; n++) {
		ssize_t len = read(p->tap, p->frame + TAG_LEN,
				   UR_NET_FRAME_MAX - TAG_LEN);

		if (len <= 0)
			break;
		from_host(p, (uint32_t)len);
	}
	if (!n)
		return 0;
	p->busy_ns = now_ns;
	flush(p);
	return n;
}

bool ur_port_host_asks(const struct ur_port *p)
{
	return p->host_asks;
}

bool ur_port_carries(const uint8_t (*addrs)[16], uint32_t naddrs,
		     const uint8_t src[16], const uint8_t dst[16])
{
	bool ours = false;

	if (dst[0] == 0xff || (ur_addr_is_v4(dst) && (dst[12] & 0xf0) == 0xe0))
		return false;
	for (uint32_t i = 0; i < naddrs; i++) {
		if (!memcmp(addrs[i], dst, 16))
			return false;
		ours |= !memcmp(addrs[i], src, 16);
	}
	return ours;
}

bool ur_port_has(const struct ur_port *p, const uint8_t src[16],
		 const uint8_t dst[16])
{
	return ur_port_carries(p->addrs, p->naddrs, src, dst);
}

void ur_port_stats(const struct ur_port *p, struct ur_port_stats *out)
{
	struct ur_nic_stats s;

	p->ops->stats(p->nic, &s);
	*out = (struct ur_port_stats){
		.rx_missed = s.rx_missed,
		.tx_lost = p->tx_lost,
		.host_lost = p->host_lost,
		.rx_bytes = p->info.rx_depth * p->info.mtu / 2,
	};
}

uint32_t ur_port_ifindex(const struct ur_port *p)
{
	return p->ifindex;
}

const struct ur_net_counters *ur_port_counters(const struct ur_port *p)
{
	return ur_net_counters(p->net);
}

/* ---- Waiting ---- */

/*
 * How long to sleep where nothing can wake us: a share of the time that the
 * silence has lasted.  So the first packet after a silence is late by that
 * share of it at most, and a port without traffic costs a hundred looks a
 * second.
 */
static uint64_t nap_ns(const struct ur_port *p, uint64_t now_ns)
{
	/* Something may have left since that was read. */
	uint64_t silence = now_ns > p->busy_ns ? now_ns - p->busy_ns : 0;
	uint64_t nap = silence / IDLE_SHARE;
	uint64_t due = ur_net_deadline(p->net);

	if (p->info.interrupts && p->ops->arm(p->nic))
		nap = UR_NEVER;
	else if (nap < IDLE_MIN_NS)
		nap = IDLE_MIN_NS;
	else if (nap > IDLE_MAX_NS)
		nap = IDLE_MAX_NS;
	if (p->link_at_ns < due)
		due = p->link_at_ns;
	due = due > now_ns ? due - now_ns : 1;
	return due < nap ? due : nap;
}

/* One that is early costs less than to set it at every sleep. */
static void set_timer(struct ur_port *p, uint64_t at_ns, uint64_t now_ns)
{
	struct itimerspec t = { 0 };

	if (p->timer_ns > now_ns && p->timer_ns <= at_ns)
		return;
	p->timer_ns = at_ns;
	t.it_value.tv_sec = (time_t)(at_ns / 1000000000u);
	t.it_value.tv_nsec = (long)(at_ns % 1000000000u);
	(void)timerfd_settime(p->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

int ur_port_wait_fd(struct ur_port *p, uint64_t now_ns)
{
	set_timer(p, now_ns + nap_ns(p, now_ns), now_ns);
	return p->epfd;
}

static int watch(const struct ur_port *p, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(p->epfd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int open_wait(struct ur_port *p)
{
	int err;

	p->epfd = epoll_create1(EPOLL_CLOEXEC);
	p->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (p->epfd < 0 || p->timer < 0)
		return -errno;
	err = watch(p, p->timer);
	if (!err)
		err = watch(p, p->tap);
	if (!err && p->info.interrupts)
		err = watch(p, p->ops->wait_fd(p->nic));
	return err;
}

/* ---- Life ---- */

/* How often that has been so. */
static uint64_t counted(const struct ur_port *p, enum ur_net_event_kind kind)
{
	const struct ur_net_counters *c = ur_net_counters(p->net);

	if (kind == UR_NET_ADDR_TAKEN)
		return c->addr_conflict;
	return kind == UR_NET_NEIGH_MOVED ? c->neigh_moved : c->neigh_conflict;
}

/* The host asks by itself, but an answer that it has holds for half a minute,
 * and announcements end in the stack. */
static void tell_host_moved(struct ur_port *p, const struct ur_net_event *ev)
{
	static const uint8_t head[10] = { 8, 6, 0, 1, 8, 0, 6, 4, 0, 2 };
	uint8_t arp[42];

	if (!ur_addr_is_v4(ev->addr))
		return;
	memcpy(arp, p->info.mac, 6);
	memcpy(arp + 6, ev->mac_new, 6);
	memcpy(arp + 12, head, sizeof(head));
	memcpy(arp + 22, ev->mac_new, 6);
	memcpy(arp + 28, ev->addr + 12, 4);
	memcpy(arp + 32, p->info.mac, 6);
	/* Answered to itself: the kernel looks at who answers. */
	memcpy(arp + 38, ev->addr + 12, 4);
	to_host(p, arp, sizeof(arp), ETHER_LEN);
}

static void on_event(void *arg, const struct ur_net_event *ev)
{
	static const char *const text[UR_NET_EVENT_KINDS] = {
		[UR_NET_ADDR_TAKEN] = "somebody else has an address of ours",
		[UR_NET_NEIGH_CLAIM] =
			"somebody claims to be a live neighbour: "
			"not believed",
		[UR_NET_NEIGH_MOVED] = "a neighbour has another address now",
	};
	const uint8_t *a = ev->addr, *m = ev->mac_new;
	struct ur_port *p = arg;
	uint64_t *told_ns = &p->told_ns[ev->kind];

	if (ev->kind == UR_NET_NEIGH_MOVED)
		tell_host_moved(p, ev);
	if (!text[ev->kind])
		return;
	/* A station that lies all the time fills no disk. */
	if (*told_ns && p->now_ns - *told_ns < TELL_NS)
		return;
	*told_ns = p->now_ns;
	ur_warn("port: %s (…%02x%02x%02x%02x, %02x:%02x:%02x:%02x:%02x:%02x), "
		"%llu times so far",
		text[ev->kind], a[12], a[13], a[14], a[15], m[0], m[1], m[2],
		m[3], m[4], m[5], (unsigned long long)counted(p, ev->kind));
}

static int make_net(struct ur_port *p, const struct ur_port_spec *spec)
{
	struct ur_net_config cfg = {
		.vlan = spec->vlan,
		.mtu = spec->mtu,
		.scope_id = p->ifindex,
		.naddrs = spec->naddrs,
		.tx = p->info.tx,
		.host = true,
		.probes = PROBES,
		.early = true,
		.event = on_event,
		.arg = p,
	};

	memcpy(cfg.mac, p->info.mac, sizeof(cfg.mac));
	memcpy(cfg.gateway4, spec->gateway4, 16);
	memcpy(cfg.gateway6, spec->gateway6, 16);
	for (uint32_t i = 0; i < spec->naddrs; i++) {
		memcpy(cfg.addrs[i].ip, spec->addrs[i].ip, 16);
		cfg.addrs[i].prefix = spec->addrs[i].prefix;
		memcpy(p->addrs[i], spec->addrs[i].ip, 16);
	}
	p->naddrs = spec->naddrs;
	p->vlan = spec->vlan;
	ur_rng_secret(&cfg.seed, sizeof(cfg.seed));
	return ur_net_create(&cfg, &p->net);
}

/* The kernel would take the frames of its own address for its own; and there
 * are drivers that have none. */
static void choose_mac(struct ur_nic_info *info)
{
	static const uint8_t none[6];

	if (memcmp(info->mac, none, sizeof(none)) == 0) {
		ur_rng_secret(info->mac, sizeof(info->mac));
		info->mac[0] = (info->mac[0] & MAC_SINGLE) | MAC_LOCAL;
	} else if (info->shared) {
		info->mac[0] ^= MAC_LOCAL;
	}
}

static int open_parts(struct ur_port *p, const struct ur_port_config *cfg)
{
	int err = ur_nic_load(&p->ops);

	if (!err)
		err = p->ops->open(cfg->eal, cfg->spec, &p->nic);
	if (err)
		return err;
	p->ops->info(p->nic, &p->info);
	p->linked = p->ops->link(p->nic);
	choose_mac(&p->info);
	p->tap = ur_tap_open(cfg->ifname, cfg->spec, p->info.mac, &p->ifindex);
	if (p->tap < 0)
		return p->tap;
	err = make_net(p, cfg->spec);
	return err ? err : open_wait(p);
}

int ur_port_open(const struct ur_port_config *cfg, struct ur_port **out)
{
	struct ur_port *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->tap = -1;
	p->epfd = -1;
	p->timer = -1;
	p->deliver = cfg->deliver;
	p->tcp = cfg->tcp;
	p->arg = cfg->arg;
	err = open_parts(p, cfg);
	if (err) {
		ur_port_close(p);
		return err;
	}
	ur_info("port %s: %s, MTU %u", cfg->ifname, p->info.driver,
		p->info.mtu);
	*out = p;
	return 0;
}

void ur_port_abandon(const struct ur_port *p)
{
	if (p->tap >= 0)
		close(p->tap);
	if (p->timer >= 0)
		close(p->timer);
	if (p->epfd >= 0)
		close(p->epfd);
}

void ur_port_close(struct ur_port *p)
{
	if (p->net)
		ur_net_destroy(p->net);
	if (p->nic)
		p->ops->close(p->nic);
	ur_port_abandon(p);
	free(p);
}
