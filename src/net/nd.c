/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Neighbour discovery of IPv6 (RFC 4861): solicitations and advertisements.
 * Routers come from the configuration; router advertisements and redirects are
 * left to the host.
 */
#include "net/internal.h"

#define NS	     135u
#define NA	     136u
#define ND_LEN	     24u /* type to target */
#define OPT_SOURCE   1u
#define OPT_TARGET   2u
#define OPT_LEN	     8u /* that holds a MAC address */
#define NA_SOLICITED 0x40000000u
#define NA_OVERRIDE  0x20000000u
#define HOPS	     255u

static const uint8_t all_nodes[16] = { 0xff, 2, [15] = 1 };
static const uint8_t unspecified[16];

struct nd {
	uint8_t type;
	uint32_t flags;
	const uint8_t *target;
	/* From the option that belongs to the type; or NULL. */
	const uint8_t *mac;
};

void ur_nd_solicited_node(const uint8_t addr[16], uint8_t group[16])
{
	static const uint8_t prefix[13] = { 0xff, 2, [11] = 1, 0xff };

	memcpy(group, prefix, sizeof(prefix));
	memcpy(group + 13, addr + 13, 3);
}

/* RFC 4861 7.1: an option of length 0 makes the message invalid. */
static bool decode_options(struct nd *d, struct ur_rd *r)
{
	uint8_t wanted = d->type == NS ? OPT_SOURCE : OPT_TARGET;

	while (ur_rd_left(r) && !r->bad) {
		uint8_t type = ur_rd_u8(r), words = ur_rd_u8(r);
		const uint8_t *body;

		if (!words)
			return false;
		body = ur_rd_bytes(r, words * 8u - 2);
		if (type == wanted && body && words == 1 && !d->mac)
			d->mac = body;
	}
	return !r->bad;
}

static bool decode(struct nd *d, const struct ur_net_pkt *p)
{
	struct ur_rd r = ur_rd_init(p->payload, p->payload_len);
	uint8_t code;

	*d = (struct nd){ .type = ur_rd_u8(&r) };
	code = ur_rd_u8(&r);
	ur_rd_be16(&r);
	d->flags = ur_rd_be32(&r);
	d->target = ur_rd_bytes(&r, 16);
	if (!d->target || code || p->hops != HOPS || p->extended ||
	    ur_addr_is_multicast(d->target) || !decode_options(d, &r))
		return false;
	return !d->mac || ur_mac_is_station(d->mac);
}

/* From src to dst at `mac`; with our MAC address in the option, if any. */
static void send(struct ur_net *net, uint8_t type, uint32_t flags,
		 const uint8_t *target, const uint8_t src[16],
		 const uint8_t dst[16], const uint8_t mac[UR_MAC_LEN])
{
	uint32_t len = ND_LEN + (ur_addr_is_zero(src) ? 0 : OPT_LEN);
	struct ur_net_frame *f;
	struct ur_wr w;
	uint8_t *p;

	f = ur_outbox_new(net, UR_IPV6_LEN + len, mac, UR_ETHERTYPE_IPV6, &p);
	if (!f)
		return;
	ur_net_put_ip6(p, src, dst, UR_IPPROTO_ICMPV6, HOPS, len);
	w = ur_wr_init(p + UR_IPV6_LEN, len);
	ur_wr_u8(&w, type);
	ur_wr_u8(&w, 0);
	ur_wr_be16(&w, 0);
	ur_wr_be32(&w, flags);
	memcpy(ur_wr_bytes(&w, 16), target, 16);
	if (len > ND_LEN) {
		ur_wr_u8(&w, type == NS ? OPT_SOURCE : OPT_TARGET);
		ur_wr_u8(&w, 1);
		memcpy(ur_wr_bytes(&w, UR_MAC_LEN), net->cfg.mac, UR_MAC_LEN);
	}
	ur_net_sum_icmp6(src, dst, p + UR_IPV6_LEN, len);
	net->count.tx_nd++;
	ur_outbox_push(net, f);
}

void ur_nd_solicit(struct ur_net *net, const uint8_t *src,
		   const uint8_t addr[16], const uint8_t *mac)
{
	uint8_t group[16], group_mac[UR_MAC_LEN];

	ur_nd_solicited_node(addr, group);
	ur_net_group_mac(group, group_mac);
	send(net, NS, 0, addr, src ? src : unspecified, mac ? addr : group,
	     mac ? mac : group_mac);
}

/* RFC 4861 7.2.6 */
void ur_nd_announce(struct ur_net *net, const uint8_t addr[16])
{
	uint8_t mac[UR_MAC_LEN];

	ur_net_group_mac(all_nodes, mac);
	send(net, NA, NA_OVERRIDE, addr, addr, all_nodes, mac);
}

static void solicitation(struct ur_net *net, const struct ur_net_pkt *p,
			 const struct nd *d)
{
	struct ur_own *o = ur_own_find(net, d->target);
	const uint8_t *mac = d->mac ? d->mac : p->frame + UR_MAC_LEN;
	bool probe = ur_addr_is_zero(p->src);

	if (!o || !memcmp(mac, net->cfg.mac, UR_MAC_LEN) ||
	    !ur_mac_is_station(mac)) {
		net->count.drop_nd_other++;
	} else if (probe) {
		/* RFC 4862 5.4.3: another station probes our address; RFC 4861
		 * 7.1.1: to the group, without the option. */
		if (p->to_group && !d->mac)
			ur_nd_announce(net, o->a.ip);
		else
			net->count.drop_nd_form++;
	} else {
		if (d->mac)
			ur_neigh_claim(net, p->src, d->mac, true, p->now_ns);
		send(net, NA, NA_SOLICITED | NA_OVERRIDE, o->a.ip, o->a.ip,
		     p->src, mac);
	}
}

static void advertisement(struct ur_net *net, const struct ur_net_pkt *p,
			  const struct nd *d)
{
	struct ur_own *o = ur_own_find(net, d->target);
	bool solicited = (d->flags & NA_SOLICITED) && !p->to_group;
	struct ur_neigh *n;
	const uint8_t *mac;

	if (o) {
		mac = d->mac ? d->mac : p->frame + UR_MAC_LEN;
		if (memcmp(mac, net->cfg.mac, UR_MAC_LEN) != 0)
			ur_own_conflict(net, o, mac, p->now_ns);
		return;
	}
	n = ur_neigh_find(net, d->target);
	/* RFC 4861 7.2.4: the reply to a unicast solicitation may omit the
	 * option. */
	mac = d->mac ? d->mac : n && n->has_mac ? n->mac : NULL;
	if (!n || !mac)
		net->count.drop_nd_other++;
	else if (solicited)
		ur_neigh_reply(net, n, mac, d->flags & NA_OVERRIDE, p->now_ns);
	else if (d->flags & NA_OVERRIDE)
		ur_neigh_claim(net, d->target, mac, false, p->now_ns);
}

enum ur_net_verdict ur_nd_input(struct ur_net *net, struct ur_net_pkt *p,
				struct ur_net_in *out)
{
	struct nd d;

	net->count.rx_nd++;
	if (!decode(&d, p)) {
		net->count.drop_nd_form++;
		return UR_NET_DONE;
	}
	if (d.type == NS) {
		solicitation(net, p, &d);
		return UR_NET_DONE;
	}
	if ((d.flags & NA_SOLICITED) && p->to_group) {
		net->count.drop_nd_form++;
		return UR_NET_DONE;
	}
	advertisement(net, p, &d);
	return ur_net_to_host(net, out, p);
}
