/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/net.h"

#include <errno.h>
#include <stdlib.h>

#include "net/internal.h"

/* RFC 4443 2.4 f; RFC 1812 4.3.2.8 leaves the numbers open. */
#define ECHOES_BURST 200u
#define ECHO_NS	     (1 * UR_MS)

bool ur_net_bucket_take(struct ur_net_bucket *b, uint64_t now_ns)
{
	uint64_t more = (now_ns - b->last_ns) / b->per_ns;

	if (more) {
		b->tokens = more > b->burst - b->tokens
				    ? b->burst
				    : b->tokens + (uint32_t)more;
		b->last_ns += more * b->per_ns;
	}
	if (!b->tokens)
		return false;
	b->tokens--;
	return true;
}

static bool is_valid(const struct ur_net_config *c)
{
	return ur_mac_is_station(c->mac) && c->vlan < UR_VLAN_VID_MASK &&
	       c->pcp < 8 && c->mtu >= UR_NET_MTU_MIN6 &&
	       c->mtu <= UR_NET_MTU_MAX &&
	       (ur_addr_is_zero(c->gateway4) ||
		(ur_addr_is_v4(c->gateway4) &&
		 !ur_addr_is_multicast(c->gateway4))) &&
	       !ur_addr_is_v4(c->gateway6) &&
	       !ur_addr_is_multicast(c->gateway6);
}

int ur_net_create(const struct ur_net_config *cfg, struct ur_net **out)
{
	struct ur_net *net;
	int err;

	if (!is_valid(cfg))
		return -EINVAL;
	net = calloc(1, sizeof(*net));
	if (!net)
		return -ENOMEM;
	net->cfg = *cfg;
	net->l2 = (uint8_t)(UR_ETH_LEN + (cfg->vlan ? UR_VLAN_LEN : 0));
	net->echoes = (struct ur_net_bucket){ .burst = ECHOES_BURST,
					      .tokens = ECHOES_BURST,
					      .per_ns = ECHO_NS };
	ur_rng_seed(&net->rng, cfg->seed);
	ur_list_init(&net->neighs);
	ur_list_init(&net->flows);
	ur_list_init(&net->outbox);
	ur_timers_init(&net->timers);
	err = ur_timers_reserve(&net->timers, UR_NET_NEIGHS + UR_NET_ADDRS);
	if (!err)
		err = ur_own_init(net);
	if (err) {
		ur_net_destroy(net);
		return err;
	}
	*out = net;
	return 0;
}

void ur_net_destroy(struct ur_net *net)
{
	ur_flow_fini(net);
	ur_neigh_fini(net);
	ur_outbox_drop_all(net);
	ur_timers_fini(&net->timers);
	free(net);
}

const struct ur_net_counters *ur_net_counters(const struct ur_net *net)
{
	return &net->count;
}

enum ur_net_verdict ur_net_to_host(struct ur_net *net, struct ur_net_in *out,
				   const struct ur_net_pkt *p)
{
	net->count.rx_host++;
	out->l3 = p->l3;
	return UR_NET_HOST;
}

/* The tag must be ours; one of VLAN 0 only sets a priority (802.1Q 9.6). */
static bool check_tag(struct ur_net *net, uint16_t tpid, uint16_t tci)
{
	uint16_t vid = tci & UR_VLAN_VID_MASK;

	if (tpid == UR_ETHERTYPE_VLAN && vid == net->cfg.vlan)
		return true;
	net->count.drop_vlan++;
	return false;
}

/* Checks addresses, tag and type of the frame; false: not for us, counted. */
static bool ethernet(struct ur_net *net, const struct ur_net_rx *rx,
		     struct ur_net_pkt *p, uint16_t *type)
{
	struct ur_rd r = ur_rd_init(rx->frame, rx->len);
	const uint8_t *macs = ur_rd_bytes(&r, UR_MACS_LEN);
	bool tagged = rx->tpid != 0;
	uint16_t tpid = rx->tpid, tci = rx->tci;

	*type = ur_rd_be16(&r);
	if (!tagged && *type == UR_ETHERTYPE_VLAN) {
		tagged = true;
		tpid = *type;
		tci = ur_rd_be16(&r);
		*type = ur_rd_be16(&r);
	}
	if (r.bad || ur_rd_left(&r) > UINT16_MAX) {
		net->count.drop_runt++;
		return false;
	}
	p->l2_group = ur_mac_is_group(macs);
	if (!p->l2_group && memcmp(macs, net->cfg.mac, UR_MAC_LEN) != 0) {
		net->count.drop_mac++;
		return false;
	}
	if (tagged)
		return check_tag(net, tpid, tci);
	if (net->cfg.vlan)
		net->count.drop_vlan++;
	return !net->cfg.vlan;
}

enum ur_net_verdict ur_net_input(struct ur_net *net, const struct ur_net_rx *rx,
				 uint64_t now_ns, struct ur_net_in *out)
{
	struct ur_net_pkt p;
	uint16_t type;
	uint32_t len;

	net->count.rx_frames++;
	if (ur_known_input(net, rx, &out->roce))
		return UR_NET_ROCE;
	p.frame = rx->frame;
	p.flags = rx->flags;
	p.now_ns = now_ns;
	p.extended = false;
	p.to_group = false;
	if (!ethernet(net, rx, &p, &type))
		return UR_NET_DONE;
	p.l3 = UR_ETH_LEN;
	if (!rx->tpid &&
	    ur_be16_at(rx->frame + UR_MACS_LEN) == UR_ETHERTYPE_VLAN)
		p.l3 += UR_VLAN_LEN;
	len = rx->len - p.l3;
	if (type == UR_ETHERTYPE_IP)
		return ur_ip4_input(net, &p, len, out);
	if (type == UR_ETHERTYPE_IPV6)
		return ur_ip6_input(net, &p, len, out);
	if (type == UR_ETHERTYPE_ARP)
		return ur_arp_input(net, &p, len, out);
	return ur_net_to_host(net, out, &p);
}

uint64_t ur_net_deadline(const struct ur_net *net)
{
	return ur_timers_deadline(&net->timers);
}

void ur_net_expire(struct ur_net *net, uint64_t now_ns)
{
	struct ur_timer *t;

	while ((t = ur_timers_expire(&net->timers, now_ns))) {
		struct ur_net_timer *nt =
			ur_container_of(t, struct ur_net_timer, timer);

		switch (nt->kind) {
		case UR_NET_TIMER_NEIGH:
			ur_neigh_expire(net,
					ur_container_of(nt, struct ur_neigh,
							timer),
					now_ns);
			break;
		case UR_NET_TIMER_ADDR:
			ur_own_expire(net,
				      ur_container_of(nt, struct ur_own, timer),
				      now_ns);
			break;
		}
	}
}

void ur_net_link_up(struct ur_net *net, uint64_t now_ns)
{
	for (uint32_t i = 0; i < net->nown; i++)
		ur_own_announce(net, &net->own[i], now_ns);
	ur_neigh_probe_all(net, now_ns);
}

/* The addresses of a packet built by the caller. */
static int read_addrs(const uint8_t *ip, uint32_t len, uint8_t src[16],
		      uint8_t dst[16])
{
	uint32_t version = len >= UR_IPV4_LEN ? ip[0] >> 4 : 0;

	if (version != 4 && (version != 6 || len < UR_IPV6_LEN))
		return -EINVAL;
	ur_addr_of_packet(ip, src, dst);
	return 0;
}

/* *via: the neighbour, unless the destination is a group. */
static int find_hop(struct ur_net *net, const uint8_t *packet, uint32_t len,
		    uint64_t now_ns, struct ur_neigh **via,
		    uint8_t mac[UR_MAC_LEN])
{
	uint8_t src[16], dst[16], hop[16], own;
	int err = read_addrs(packet, len, src, dst);

	*via = NULL;
	if (err)
		return err;
	if (len > net->cfg.mtu)
		return -EMSGSIZE;
	if (!ur_own_find(net, src))
		return -EADDRNOTAVAIL;
	if (ur_addr_is_multicast(dst)) {
		ur_net_group_mac(dst, mac);
		return 0;
	}
	err = ur_route(net, dst, hop, &own);
	if (err)
		return err;
	*via = ur_neigh_get(net, hop, own, now_ns);
	if (!*via)
		return -ENOMEM;
	if ((*via)->state == UR_NEIGH_FAILED)
		return -EHOSTUNREACH;
	memcpy(mac, (*via)->mac, UR_MAC_LEN);
	return 0;
}

static uint16_t type_of(const uint8_t *packet)
{
	return packet[0] >> 4 == 4 ? UR_ETHERTYPE_IP : UR_ETHERTYPE_IPV6;
}

int ur_net_hop(struct ur_net *net, const uint8_t *packet, uint32_t len,
	       uint64_t now_ns, struct ur_net_hop *out)
{
	uint8_t mac[UR_MAC_LEN];
	struct ur_neigh *n;
	int err = find_hop(net, packet, len, now_ns, &n, mac);

	if (err)
		return err;
	(void)ur_net_put_l2(net, out->l2, mac, type_of(packet));
	out->len = net->l2;
	out->ready = !n || ur_neigh_ready(n);
	return 0;
}

int ur_net_send_ip(struct ur_net *net, const uint8_t *packet, uint32_t len,
		   uint64_t now_ns)
{
	uint8_t mac[UR_MAC_LEN], *body;
	struct ur_neigh *n;
	struct ur_net_frame *f;
	int err = find_hop(net, packet, len, now_ns, &n, mac);

	if (err)
		return err;
	f = ur_outbox_new(net, len, mac, type_of(packet), &body);
	if (!f)
		return -ENOMEM;
	memcpy(body, packet, len);
	if (n && !ur_neigh_ready(n))
		ur_neigh_park(net, n, f);
	else
		ur_outbox_push(net, f);
	return 0;
}
