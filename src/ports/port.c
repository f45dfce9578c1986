/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/bytes.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/sys.h"
#include "ports/port_internal.h"

#define HOST_BURST 32
#define ROOM_TRIES 16

#define ETHER_TYPE_AT 12u
#define ETHER_LEN     14u
#define TAG_LEN	      UR_PORT_TAG_LEN
#define TYPE_VLAN     0x8100u
#define TYPE_ARP      0x0806u
#define TYPE_IP6      0x86ddu
#define LINK_NS	      250000000u /* between two looks at the link */
#define ALONE_NS      10000u	 /* that its owner has not looked */
#define OTHER_EVERY   4u	 /* looks that found nothing */
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

/* ---- To the host ---- */

/* Is it ARP with that operation, or that message of ND, about the owner of an
 * address, except for announcements and probes of one's own address? */
static bool is_about(const uint8_t *frame, uint32_t len, uint16_t arp,
		     uint8_t nd)
{
	const uint8_t *l3 = frame + ETHER_LEN;

	if (len >= ETHER_LEN + ARP_LEN &&
	    ur_be16_at(frame + ETHER_TYPE_AT) == TYPE_ARP)
		return ur_be16_at(l3 + 6) == arp &&
		       memcmp(l3 + 14, l3 + 24, 4) != 0;
	return len > ETHER_LEN + IP6_LEN &&
	       ur_be16_at(frame + ETHER_TYPE_AT) == TYPE_IP6 &&
	       l3[6] == PROTO_ICMP6 && l3[IP6_LEN] == nd &&
	       !ur_addr_is_zero(l3 + 8);
}

/* The host's interface has no tags: `l3` is where what is behind one begins. */
static void to_host(struct ur_port *p, const uint8_t *frame, uint32_t len,
		    uint32_t l3)
{
	struct ur_port_core *c = p->core;
	uint8_t *at = p->frame;

	if (l3 > ETHER_LEN && l3 <= len) {
		memcpy(at, frame, ETHER_TYPE_AT);
		memcpy(at + ETHER_TYPE_AT, frame + l3 - 2, len - l3 + 2);
		len -= l3 - ETHER_LEN;
		frame = at;
	}
	if (is_about(frame, len, ARP_REPLY, ND_ADVERT)) {
		ur_port_hold(c);
		c->host_asks = false;
		ur_port_drop(c);
	}
	if (ur_sys_write(c->tap, frame, len) < 0)
		p->host_lost++;
}

/* Where the payload of Ethernet begins; 0: it is too short. */
static uint32_t find_l3(const uint8_t *frame, uint32_t len)
{
	uint32_t l3 = ETHER_LEN;

	if (len >= ETHER_LEN && ur_be16_at(frame + ETHER_TYPE_AT) == TYPE_VLAN)
		l3 += TAG_LEN;
	return len >= l3 ? l3 : 0;
}

/* ---- In ---- */

static uint32_t qpn_of(const struct ur_rx *rx)
{
	return rx->len < 8 ? 0 : ur_be24_at(rx->data + 5);
}

/* Length of the IP packet at `ip` if it is of TCP, without extension headers,
 * or a fragment of one; else 0. */
static uint32_t tcp_len(const uint8_t *ip, uint32_t room)
{
	uint32_t len = 0;

	if (room >= IP4_LEN && ip[0] >> 4 == 4 && ip[9] == PROTO_TCP)
		len = ur_be16_at(ip + 2);
	else if (room >= IP6_LEN + IP6_FRAG_LEN && ip[0] >> 4 == 6 &&
		 (ip[6] == PROTO_TCP ||
		  (ip[6] == PROTO_FRAG && ip[IP6_LEN] == PROTO_TCP)))
		len = IP6_LEN + ur_be16_at(ip + 4);
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
	enum ur_net_verdict verdict;
	struct ur_net_in in;
	uint32_t l3;

	ur_port_hold(p->core);
	verdict = ur_net_input(p->core->net, &rx,
			       ur_port_time(p->core, p->now_ns), &in);
	ur_port_drop(p->core);
	switch (verdict) {
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

static void put(const struct ur_port *p, const struct ur_nic_tx *tx)
{
	p->core->ops->tx(p->core->nic, p->queue, tx);
}

static uint8_t *room(struct ur_port *p, uint32_t len)
{
	const struct ur_port_core *c = p->core;
	uint8_t *at = c->ops->room(c->nic, p->queue, len);

	for (int i = 0; !at && i < ROOM_TRIES; i++) {
		p->tx_lost += c->ops->flush(c->nic, p->queue);
		at = c->ops->room(c->nic, p->queue, len);
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
	put(p, &tx);
}

/* Packets of the stack itself. */
static void send_own(struct ur_port *p)
{
	uint8_t *buf = p->frame + TAG_LEN;
	uint32_t len;

	for (;;) {
		ur_port_hold(p->core);
		len = ur_net_output(p->core->net, buf, UR_NET_FRAME_MAX);
		ur_port_drop(p->core);
		if (!len)
			break;
		send_frame(p, buf, len);
	}
}

static void flush(struct ur_port *p)
{
	send_own(p);
	p->tx_lost += p->core->ops->flush(p->core->nic, p->queue);
}

/* Where in a burst the next packet begins. */
struct cut {
	const struct ur_burst *burst;
	const struct iovec *iov;
	size_t off;
};

/* The burst's own memory needs no guard. */
static int copy_piece(const struct ur_burst *t, uint8_t *to,
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
		const uint8_t *from = c->iov->iov_base;
		size_t part = c->iov->iov_len - c->off;

		if (part > len)
			part = len;
		err = copy_piece(c->burst, to, from + c->off, part);
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

/* Packet number i of a burst.  The lock is held if the flow is not ready. */
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
	int err;

	if (!frame)
		return -EAGAIN;
	ur_net_put(f, frame, i, len);
	err = copy_payload(c, frame + f->len, len);
	if (err)
		return err;
	if (f->sums & UR_NET_SUM_SOFT)
		ur_net_sum(f, frame);
	if (f->ready)
		put(p, &tx);
	else
		err = ur_net_park(p->core->net, f, frame, tx.len, p->now_ns);
	return err;
}

static int send_packets(struct ur_port *p, const struct ur_burst *t,
			const struct ur_net_flow *f)
{
	struct cut c = { .burst = t, .iov = t->iov };
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

/* Headers of a flow that is ready are copied, and what is of any length is done
 * without the lock. */
static int send_flow(struct ur_port *p, const struct ur_burst *t,
		     const struct ur_net_flow *f)
{
	struct ur_net_flow own;
	int err;

	if (t->pkt_len > ur_net_payload_max(f))
		return -EMSGSIZE;
	if (!p->core->many || !f->ready)
		return send_packets(p, t, f);
	own = *f;
	ur_unlock(&p->core->lock);
	err = send_packets(p, t, &own);
	ur_lock(&p->core->lock);
	return err;
}

int ur_port_add(struct ur_port *p, const struct ur_burst *t, uint64_t now_ns)
{
	struct ur_net_key key = { .sport = t->sport,
				  .tclass = t->tclass,
				  .hop_limit = t->hop_limit };
	const struct ur_net_flow *f;
	int err;

	memcpy(key.src, t->src, 16);
	memcpy(key.dst, t->dst, 16);
	p->now_ns = now_ns;
	ur_port_hold(p->core);
	err = ur_net_flow(p->core->net, &key, ur_port_time(p->core, now_ns),
			  &f);
	if (!err)
		err = send_flow(p, t, f);
	ur_port_drop(p->core);
	p->busy_ns = now_ns;
	return err;
}

int ur_port_send(struct ur_port *p, const struct ur_burst *t, uint64_t now_ns)
{
	int err = ur_port_add(p, t, now_ns);

	flush(p);
	return err;
}

int ur_port_send_ip(struct ur_port *p, const uint8_t *packet, uint32_t len,
		    uint64_t now_ns)
{
	struct ur_port_core *c = p->core;
	struct ur_nic_tx tx = { 0 };
	struct ur_net_hop hop;
	uint8_t *frame;
	int err;

	ur_port_hold(c);
	err = ur_net_hop(c->net, packet, len, ur_port_time(c, now_ns), &hop);
	if (!err && !hop.ready)
		err = ur_net_send_ip(c->net, packet, len, c->now_ns);
	ur_port_drop(c);
	p->now_ns = now_ns;
	p->busy_ns = now_ns;
	if (err || !hop.ready)
		return err;
	tx.len = hop.len + len;
	frame = room(p, tx.len);
	if (!frame)
		return -EAGAIN;
	memcpy(frame, hop.l2, hop.len);
	memcpy(frame + hop.len, packet, len);
	put(p, &tx);
	return 0;
}

void ur_port_flush(struct ur_port *p)
{
	flush(p);
}

/* After a change of the link the peer may have no neighbour entry for us, or
 * may have our addresses. */
static void look_at_link(struct ur_port *p, uint64_t now_ns)
{
	struct ur_port_core *c = p->core;
	bool linked = c->ops->link(c->nic);

	p->link_at_ns = now_ns + LINK_NS;
	if (linked == p->linked)
		return;
	p->linked = linked;
	ur_info_some("port: the link is %s", linked ? "up" : "down");
	if (!linked)
		return;
	ur_port_hold(c);
	ur_net_link_up(c->net, ur_port_time(c, now_ns));
	ur_port_drop(c);
	flush(p);
}

/*
 * Only one thread polls a queue at a time, and it has passed on all packets of
 * the queue before another one does; a lane takes packets from its inbox first.
 * So the packets of a flow stay in order, whichever thread polls.
 */
static uint32_t poll_queue(struct ur_port *p, uint16_t q)
{
	struct ur_port_core *c = p->core;
	uint32_t n = 0;

	if (!ur_port_borrow(c, q))
		return 0;
	p->at = q;
	if (!p->before || p->before(p->arg))
		n = c->ops->rx(c->nic, q, on_frame, p);
	ur_port_unborrow(c, q);
	return n;
}

/* Has its owner not polled it lately?  Then others poll it: they take their
 * packets, and pass the owner's to its inbox. */
static bool is_left_alone(const struct ur_port_core *c, uint16_t q,
			  uint64_t now_ns)
{
	return atomic_load_explicit(&c->look[q].seen_ns, memory_order_relaxed) +
		       ALONE_NS <
	       now_ns;
}

/* Reading memory that other threads write costs more than reading our own. */
static uint32_t poll_other(struct ur_port *p, uint64_t now_ns)
{
	const struct ur_port_core *c = p->core;

	if (++p->empty % OTHER_EVERY)
		return 0;
	p->other = (uint16_t)((p->other + 1) % c->info.queues);
	if (p->other == p->queue || !ur_port_is_given(c, p->other) ||
	    !is_left_alone(c, p->other, now_ns))
		return 0;
	return poll_queue(p, p->other);
}

static void say_seen(struct ur_port_look *l, uint64_t now_ns)
{
	if (atomic_load_explicit(&l->seen_ns, memory_order_relaxed) != now_ns)
		atomic_store_explicit(&l->seen_ns, now_ns,
				      memory_order_relaxed);
}

/* Our own queue; then the free queues, if ours is the first; then one that its
 * owner has not polled lately. */
static uint32_t poll_queues(struct ur_port *p, uint64_t now_ns)
{
	struct ur_port_core *c = p->core;
	uint32_t n = poll_queue(p, p->queue);

	say_seen(&c->look[p->queue], now_ns);
	for (uint16_t q = 1; q < c->info.queues && p->queue == 0; q++)
		if (!ur_port_is_given(c, q))
			n += poll_queue(p, q);
	return n ? n : poll_other(p, now_ns);
}

/* True: timers were due. */
static bool expire(struct ur_port *p, uint64_t now_ns)
{
	struct ur_port_core *c = p->core;
	bool due;

	ur_port_hold(c);
	due = ur_net_deadline(c->net) <= ur_port_time(c, now_ns);
	if (due)
		ur_net_expire(c->net, c->now_ns);
	ur_port_drop(c);
	return due;
}

uint32_t ur_port_poll(struct ur_port *p, uint64_t now_ns)
{
	const struct ur_port_core *c = p->core;
	uint32_t n;

	p->now_ns = now_ns;
	if (p->queue == 0 && p->link_at_ns <= now_ns)
		look_at_link(p, now_ns);
	n = c->many ? poll_queues(p, now_ns)
		    : c->ops->rx(c->nic, p->queue, on_frame, p);
	if (!expire(p, now_ns) && !n)
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
	const uint16_t vlan = p->core->vlan;

	ur_port_hold(p->core);
	p->core->host_asks = is_about(frame, len, ARP_REQUEST, ND_SOLICIT);
	ur_port_drop(p->core);
	if (vlan && len >= ETHER_LEN) {
		memmove(p->frame, frame, ETHER_TYPE_AT);
		frame = p->frame;
		frame[12] = TYPE_VLAN >> 8;
		frame[13] = TYPE_VLAN & 0xff;
		frame[14] = (uint8_t)(vlan >> 8);
		frame[15] = (uint8_t)vlan;
		len += TAG_LEN;
	}
	send_frame(p, frame, len);
}

uint32_t ur_port_host(struct ur_port *p, uint64_t now_ns)
{
	uint32_t n;

	for (n = 0; n < HOST_BURST; n++) {
		ssize_t len = ur_sys_read(p->core->tap, p->frame + TAG_LEN,
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
	bool asks;

	ur_port_hold(p->core);
	asks = p->core->host_asks;
	ur_port_drop(p->core);
	return asks;
}

bool ur_port_carries(const uint8_t (*addrs)[16], uint32_t naddrs,
		     const uint8_t src[16], const uint8_t dst[16])
{
	bool ours = false;

	if (ur_addr_is_multicast(dst))
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
	return ur_port_carries(p->core->addrs, p->core->naddrs, src, dst);
}
