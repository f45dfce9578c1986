/* SPDX-License-Identifier: BSD-2-Clause */
/* ARP (RFC 826), with address conflict detection (RFC 5227). */
#include "net/internal.h"

#define ARP_ETHERNET 1u
#define ARP_REQUEST  1u
#define ARP_REPLY    2u

static const uint8_t broadcast[UR_MAC_LEN] = { 255, 255, 255, 255, 255, 255 };
static const uint8_t nobody[16] = { [10] = 0xff, [11] = 0xff };

struct arp {
	uint16_t op;
	const uint8_t *sha;
	uint8_t spa[16];
	uint8_t tpa[16];
};

static bool decode(struct arp *a, const uint8_t *data, uint32_t len)
{
	struct ur_rd r = ur_rd_init(data, len);
	uint16_t htype = ur_rd_be16(&r), ptype = ur_rd_be16(&r);
	uint8_t hlen = ur_rd_u8(&r), plen = ur_rd_u8(&r);
	const uint8_t *spa, *tpa;

	a->op = ur_rd_be16(&r);
	a->sha = ur_rd_bytes(&r, UR_MAC_LEN);
	spa = ur_rd_bytes(&r, 4);
	ur_rd_bytes(&r, UR_MAC_LEN);
	tpa = ur_rd_bytes(&r, 4);
	if (!tpa || htype != ARP_ETHERNET || ptype != UR_ETHERTYPE_IP ||
	    hlen != UR_MAC_LEN || plen != 4)
		return false;
	ur_addr_from_v4(a->spa, spa);
	ur_addr_from_v4(a->tpa, tpa);
	return (a->op == ARP_REQUEST || a->op == ARP_REPLY) &&
	       ur_mac_is_station(a->sha) && !ur_addr_is_multicast(a->spa);
}

static void send(struct ur_net *net, uint16_t op, const uint8_t to[UR_MAC_LEN],
		 const uint8_t spa[16], const uint8_t tha[UR_MAC_LEN],
		 const uint8_t tpa[16])
{
	struct ur_net_frame *f;
	struct ur_wr w;
	uint8_t *p;

	f = ur_outbox_new(net, UR_NET_ARP_LEN, to, UR_ETHERTYPE_ARP, &p);
	if (!f)
		return;
	w = ur_wr_init(p, UR_NET_ARP_LEN);
	ur_wr_be16(&w, ARP_ETHERNET);
	ur_wr_be16(&w, UR_ETHERTYPE_IP);
	ur_wr_u8(&w, UR_MAC_LEN);
	ur_wr_u8(&w, 4);
	ur_wr_be16(&w, op);
	memcpy(ur_wr_bytes(&w, UR_MAC_LEN), net->cfg.mac, UR_MAC_LEN);
	memcpy(ur_wr_bytes(&w, 4), spa + 12, 4);
	memcpy(ur_wr_bytes(&w, UR_MAC_LEN), tha, UR_MAC_LEN);
	memcpy(ur_wr_bytes(&w, 4), tpa + 12, 4);
	net->count.tx_arp++;
	ur_outbox_push(net, f);
}

void ur_arp_request(struct ur_net *net, const uint8_t *src,
		    const uint8_t addr[16], const uint8_t *mac)
{
	static const uint8_t unknown[UR_MAC_LEN];

	send(net, ARP_REQUEST, mac ? mac : broadcast, src ? src : nobody,
	     unknown, addr);
}

/* RFC 5227 2.3: a request for an address from itself; needs no reply. */
void ur_arp_announce(struct ur_net *net, const uint8_t addr[16])
{
	static const uint8_t unknown[UR_MAC_LEN];

	send(net, ARP_REQUEST, broadcast, addr, unknown, addr);
}

static bool is_unassigned(const uint8_t addr[16])
{
	return !memcmp(addr, nobody, 16);
}

/* RFC 5227 2.1.1, 2.4: does another station use our address? */
static bool conflicts(struct ur_net *net, const struct arp *a, uint64_t now_ns)
{
	struct ur_own *sender = ur_own_find(net, a->spa);

	if (sender)
		ur_own_conflict(net, sender, a->sha, now_ns);
	return sender != NULL;
}

static void request(struct ur_net *net, const struct arp *a,
		    const struct ur_own *target, uint64_t now_ns)
{
	if (!is_unassigned(a->spa))
		ur_neigh_claim(net, a->spa, a->sha, target != NULL, now_ns);
	if (target)
		send(net, ARP_REPLY, a->sha, a->tpa, a->sha, a->spa);
	else
		net->count.drop_arp_other++;
}

/* A reply does not identify its request: it counts as an answer if it was
 * unicast to us and we are asking. */
static void reply(struct ur_net *net, const struct ur_net_pkt *p,
		  const struct arp *a, const struct ur_own *target)
{
	struct ur_neigh *n = ur_neigh_find(net, a->spa);

	if (is_unassigned(a->spa) || !n)
		net->count.drop_arp_other++;
	else if (target && !p->l2_group)
		ur_neigh_reply(net, n, a->sha, true, p->now_ns);
	else
		ur_neigh_claim(net, a->spa, a->sha, false, p->now_ns);
}

enum ur_net_verdict ur_arp_input(struct ur_net *net, struct ur_net_pkt *p,
				 uint32_t len, struct ur_net_in *out)
{
	const struct ur_own *target;
	struct arp a;

	net->count.rx_arp++;
	if (!decode(&a, p->frame + p->l3, len)) {
		net->count.drop_arp_form++;
		return UR_NET_DONE;
	}
	/*
	 * Our own frame looped back, or sent by a kernel that shares the port.
	 */
	if (!memcmp(a.sha, net->cfg.mac, UR_MAC_LEN)) {
		net->count.drop_arp_other++;
		return UR_NET_DONE;
	}
	if (conflicts(net, &a, p->now_ns))
		return UR_NET_DONE;
	target = ur_own_find(net, a.tpa);
	if (a.op == ARP_REQUEST)
		request(net, &a, target, p->now_ns);
	else
		reply(net, p, &a, target);
	/* The host may have sent the request. Announcements have no request,
	 * and tell it that a station has moved. */
	if (a.op == ARP_REQUEST && memcmp(a.spa, a.tpa, 16) != 0)
		return UR_NET_DONE;
	return ur_net_to_host(net, out, p);
}
