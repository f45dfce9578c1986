/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCE's outbound packets. A destination has a next hop, a neighbour, and a
 * path MTU. A flow adds the rest of the header fields: source address and port,
 * traffic class, hop limit. Its headers are built once and cached; when a
 * neighbour changes, the headers of its flows are updated.
 */
#include <errno.h>
#include <stdlib.h>

#include "net/internal.h"
#include "wire/bth.h"

/* RFC 1191 6.3, RFC 8201 4: after this time the larger MTU is tried again. */
#define PMTU_NS (600 * UR_S)

uint32_t ur_net_hash(const void *data, uint32_t len)
{
	const uint8_t *p = data;
	uint64_t h = 0x9e3779b97f4a7c15u, v;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&v, p, 8);
		h = (h ^ v) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	v = 0;
	memcpy(&v, p, len);
	h = (h ^ v) * 0xff51afd7ed558ccdu;
	return (uint32_t)(h >> 32);
}

/* ---- Next hops ---- */

/* Our address to send ARP or ND from; UINT8_MAX: there is none. */
static uint8_t source_for_hop(const struct ur_net *net, const uint8_t hop[16])
{
	uint8_t any = UINT8_MAX;

	for (uint8_t i = 0; i < net->nown; i++) {
		const struct ur_own *o = &net->own[i];

		if (o->v4 != ur_addr_is_v4(hop))
			continue;
		if (ur_own_on_link(o, hop))
			return i;
		if (any == UINT8_MAX)
			any = i;
	}
	return any;
}

static bool on_link(const struct ur_net *net, const uint8_t dst[16])
{
	if (ur_net_is_link_local(dst))
		return true;
	for (uint32_t i = 0; i < net->nown; i++)
		if (net->own[i].v4 == ur_addr_is_v4(dst) &&
		    ur_own_on_link(&net->own[i], dst))
			return true;
	return false;
}

int ur_route(struct ur_net *net, const uint8_t dst[16], uint8_t hop[16],
	     uint8_t *own)
{
	const uint8_t *gw =
		ur_addr_is_v4(dst) ? net->cfg.gateway4 : net->cfg.gateway6;
	const uint8_t *next = on_link(net, dst) ? dst : gw;
	uint8_t i;

	if (ur_addr_is_zero(next))
		return -ENETUNREACH;
	i = source_for_hop(net, next);
	if (i == UINT8_MAX)
		return -ENETUNREACH;
	memcpy(hop, next, 16);
	*own = i;
	return 0;
}

/* ---- Destinations ---- */

static uint32_t bucket_of(const void *key, uint32_t len)
{
	return ur_net_hash(key, len) % UR_NET_FLOW_BUCKETS;
}

struct ur_dest *ur_dest_find(const struct ur_net *net, const uint8_t addr[16])
{
	struct ur_dest *d = net->dest_hash[bucket_of(addr, 16)];

	while (d && memcmp(d->addr, addr, 16) != 0)
		d = d->hash_next;
	return d;
}

bool ur_dest_has_flow(const struct ur_dest *d, const uint8_t src[16],
		      uint16_t sport)
{
	ur_list_each(const struct ur_flow_entry, e, &d->flows, node)
		if (e->key.sport == sport && !memcmp(e->key.src, src, 16))
			return true;
	return false;
}

static uint16_t mtu_of(const struct ur_net *net, const struct ur_dest *d)
{
	return d->pmtu ? d->pmtu : (uint16_t)net->cfg.mtu;
}

static struct ur_dest *dest_new(struct ur_net *net, const uint8_t addr[16])
{
	struct ur_dest *d = calloc(1, sizeof(*d));
	uint32_t b = bucket_of(addr, 16);

	if (!d)
		return NULL;
	ur_list_init(&d->node);
	ur_list_init(&d->flows);
	memcpy(d->addr, addr, 16);
	d->group = ur_addr_is_multicast(addr);
	d->local = ur_own_find(net, addr) != NULL;
	d->hash_next = net->dest_hash[b];
	net->dest_hash[b] = d;
	return d;
}

static void dest_free(struct ur_net *net, struct ur_dest *d)
{
	struct ur_dest **pp = &net->dest_hash[bucket_of(d->addr, 16)];

	while (*pp != d)
		pp = &(*pp)->hash_next;
	*pp = d->hash_next;
	ur_list_del(&d->node);
	free(d);
}

/* The neighbour through which it is reached, marked as used. */
static int dest_resolve(struct ur_net *net, struct ur_dest *d, uint64_t now_ns)
{
	uint8_t hop[16], own;
	int err;

	if (d->group || d->local)
		return 0;
	if (!d->neigh) {
		err = ur_route(net, d->addr, hop, &own);
		if (err)
			return err;
		d->neigh = ur_neigh_get(net, hop, own, now_ns);
		if (!d->neigh)
			return -ENOMEM;
		ur_list_add_tail(&d->neigh->dests, &d->node);
		ur_flow_neigh_changed(net, d->neigh);
	} else {
		ur_neigh_use(net, d->neigh, now_ns);
	}
	return d->neigh->state == UR_NEIGH_FAILED ? -EHOSTUNREACH : 0;
}

void ur_flow_neigh_freed(struct ur_neigh *n)
{
	ur_list_each_safe(struct ur_dest, d, &n->dests, node) {
		ur_list_del(&d->node);
		d->neigh = NULL;
	}
}

static void set_mac(struct ur_flow_entry *e, const struct ur_neigh *n)
{
	memcpy(e->flow.hdr, n->mac, UR_MAC_LEN);
	e->flow.ready = ur_neigh_ready(n);
}

void ur_flow_neigh_changed(struct ur_net *net, struct ur_neigh *n)
{
	(void)net;
	ur_list_each(struct ur_dest, d, &n->dests, node)
		ur_list_each(struct ur_flow_entry, e, &d->flows, node)
			set_mac(e, n);
}

static void dest_set_pmtu(struct ur_net *net, struct ur_dest *d, uint16_t pmtu)
{
	d->pmtu = pmtu;
	ur_list_each(struct ur_flow_entry, e, &d->flows, node)
		e->flow.mtu = mtu_of(net, d);
}

void ur_dest_too_big(struct ur_net *net, struct ur_dest *d, uint32_t mtu,
		     uint64_t now_ns)
{
	struct ur_net_event ev = { .kind = UR_NET_TOO_BIG };
	uint32_t least =
		ur_addr_is_v4(d->addr) ? UR_NET_MTU_MIN4 : UR_NET_MTU_MIN6;

	if (d->local || d->group)
		return;
	if (mtu < least)
		mtu = least;
	if (mtu >= mtu_of(net, d))
		return;
	dest_set_pmtu(net, d, (uint16_t)mtu);
	d->pmtu_until_ns = now_ns + PMTU_NS;
	memcpy(ev.addr, d->addr, 16);
	ev.mtu = mtu;
	ur_net_report(net, &ev);
}

/* ---- Headers ---- */

static uint8_t sums_of(const struct ur_net *net, bool v4)
{
	bool port = net->cfg.tx & UR_NET_TX_UDP_SUM;
	uint8_t sums = 0;

	if (v4 && (net->cfg.tx & UR_NET_TX_IPV4_SUM))
		sums |= UR_NET_SUM_IP;
	/* RFC 8200 8.1: IPv6 requires it. */
	if (v4 && !port && !net->cfg.udp4_sum)
		return sums;
	return sums | (port ? UR_NET_SUM_UDP : UR_NET_SUM_SOFT);
}

static void put_ip4(struct ur_net_flow *f, uint8_t *ip,
		    const struct ur_net_key *k)
{
	ur_net_put_ip4(ip, k->src, k->dst, UR_IPPROTO_UDP,
		       k->hop_limit ? k->hop_limit : UR_NET_HOPS, 0);
	ip[1] = k->tclass;
	memset(ip + 2, 0, 2);
	memset(ip + 10, 0, 2);
	f->l3 = UR_IPV4_LEN;
	f->sum3 = (uint32_t)ur_csum_add(0, ip, UR_IPV4_LEN);
	f->sum4 = (uint32_t)ur_csum_add(UR_IPPROTO_UDP, ip + 12, 8);
}

static void put_ip6(struct ur_net_flow *f, uint8_t *ip,
		    const struct ur_net_key *k)
{
	ur_net_put_ip6(ip, k->src, k->dst, UR_IPPROTO_UDP,
		       k->hop_limit ? k->hop_limit : UR_NET_HOPS, 0);
	ip[0] |= k->tclass >> 4;
	ip[1] = (uint8_t)(k->tclass << 4);
	f->l3 = UR_IPV6_LEN;
	f->sum4 = (uint32_t)ur_csum_add(UR_IPPROTO_UDP, ip + 8, 32);
}

static void put_headers(const struct ur_net *net, struct ur_flow_entry *e)
{
	const struct ur_net_key *k = &e->key;
	struct ur_net_flow *f = &e->flow;
	uint8_t mac[UR_MAC_LEN] = { 0 }, *ip, *udp;

	if (e->dest->group)
		ur_net_group_mac(k->dst, mac);
	else if (e->dest->local)
		memcpy(mac, net->cfg.mac, UR_MAC_LEN);
	f->v4 = ur_addr_is_v4(k->dst);
	ip = ur_net_put_l2(net, f->hdr, mac,
			   f->v4 ? UR_ETHERTYPE_IP : UR_ETHERTYPE_IPV6);
	f->l2 = net->l2;
	if (f->v4)
		put_ip4(f, ip, k);
	else
		put_ip6(f, ip, k);
	udp = ip + f->l3;
	memset(udp, 0, UR_UDP_LEN);
	ur_put_be16(udp, k->sport);
	ur_put_be16(udp + 2, UR_ROCE_PORT);
	f->sum4 += (uint32_t)k->sport + UR_ROCE_PORT;
	f->len = (uint8_t)(f->l2 + f->l3 + UR_UDP_LEN);
	f->sums = sums_of(net, f->v4);
	f->mtu = mtu_of(net, e->dest);
	f->local = e->dest->local;
	f->ready = e->dest->group || e->dest->local;
	if (e->dest->neigh)
		set_mac(e, e->dest->neigh);
}

/* ---- Flows ---- */

static bool key_equal(const struct ur_net_key *a, const struct ur_net_key *b)
{
	return !memcmp(a->dst, b->dst, 16) && !memcmp(a->src, b->src, 16) &&
	       a->sport == b->sport && a->tclass == b->tclass &&
	       a->hop_limit == b->hop_limit;
}

/* Cleared padding, whatever the caller left there. */
static uint32_t key_bucket(const struct ur_net_key *k)
{
	uint8_t bytes[36];

	memcpy(bytes, k->src, 16);
	memcpy(bytes + 16, k->dst, 16);
	memcpy(bytes + 32, &k->sport, 2);
	bytes[34] = k->tclass;
	bytes[35] = k->hop_limit;
	return bucket_of(bytes, sizeof(bytes));
}

static void entry_free(struct ur_net *net, struct ur_flow_entry *e)
{
	struct ur_flow_entry **pp = &net->flow_hash[key_bucket(&e->key)];

	while (*pp != e)
		pp = &(*pp)->hash_next;
	*pp = e->hash_next;
	if (net->last == e)
		net->last = NULL;
	ur_list_del(&e->node);
	ur_list_del(&e->lru);
	net->nflows--;
	if (ur_list_empty(&e->dest->flows))
		dest_free(net, e->dest);
	free(e);
}

static struct ur_flow_entry *oldest(const struct ur_net *net)
{
	return ur_container_of(net->flows.next, struct ur_flow_entry, lru);
}

static struct ur_flow_entry *entry_new(struct ur_net *net,
				       const struct ur_net_key *key)
{
	uint32_t b = key_bucket(key);
	struct ur_flow_entry *e = calloc(1, sizeof(*e));
	struct ur_dest *d;

	if (!e)
		return NULL;
	if (net->nflows >= UR_NET_FLOWS)
		entry_free(net, oldest(net));
	d = ur_dest_find(net, key->dst);
	if (!d)
		d = dest_new(net, key->dst);
	if (!d) {
		free(e);
		return NULL;
	}
	e->key = *key;
	e->dest = d;
	ur_list_add_tail(&d->flows, &e->node);
	ur_list_add_tail(&net->flows, &e->lru);
	e->hash_next = net->flow_hash[b];
	net->flow_hash[b] = e;
	net->nflows++;
	put_headers(net, e);
	return e;
}

/* Is the key valid? */
static int check_key(struct ur_net *net, const struct ur_net_key *k)
{
	static const uint8_t loopback[16] = { [15] = 1 };
	bool v4 = ur_addr_is_v4(k->dst);

	if (v4 != ur_addr_is_v4(k->src) || ur_addr_is_zero(k->dst) ||
	    !memcmp(k->dst, loopback, 16))
		return -EINVAL;
	if (v4 && (k->dst[12] == 0 || k->dst[12] == 127 || k->dst[12] >= 240))
		return -EINVAL;
	return ur_own_find(net, k->src) ? 0 : -EADDRNOTAVAIL;
}

/* Usually the same as the last time. */
static struct ur_flow_entry *entry_find(const struct ur_net *net,
					const struct ur_net_key *key)
{
	struct ur_flow_entry *e = net->last;

	if (e && key_equal(&e->key, key))
		return e;
	e = net->flow_hash[key_bucket(key)];
	while (e && !key_equal(&e->key, key))
		e = e->hash_next;
	return e;
}

int ur_net_flow(struct ur_net *net, const struct ur_net_key *key,
		uint64_t now_ns, const struct ur_net_flow **out)
{
	struct ur_flow_entry *e = entry_find(net, key);
	int err;

	if (!e) {
		err = check_key(net, key);
		if (err)
			return err;
		e = entry_new(net, key);
		if (!e)
			return -ENOMEM;
	} else if (e->lru.next != &net->flows) {
		ur_list_del(&e->lru);
		ur_list_add_tail(&net->flows, &e->lru);
	}
	net->last = e;
	if (e->dest->pmtu && now_ns >= e->dest->pmtu_until_ns)
		dest_set_pmtu(net, e->dest, 0);
	err = dest_resolve(net, e->dest, now_ns);
	if (err)
		return err;
	*out = &e->flow;
	return 0;
}

void ur_flow_fini(struct ur_net *net)
{
	ur_list_each_safe(struct ur_flow_entry, e, &net->flows, lru)
		entry_free(net, e);
}

int ur_net_park(struct ur_net *net, const struct ur_net_flow *f,
		const uint8_t *frame, uint32_t len, uint64_t now_ns)
{
	const struct ur_flow_entry *e = ur_container_of(
		(struct ur_net_flow *)(uintptr_t)f, struct ur_flow_entry, flow);
	struct ur_net_frame *copy;

	(void)now_ns;
	if (len < f->len || len > (uint32_t)f->l2 + f->mtu)
		return -EMSGSIZE;
	copy = malloc(sizeof(*copy) + len);
	if (!copy)
		return -ENOMEM;
	ur_list_init(&copy->node);
	copy->len = len;
	memcpy(copy->data, frame, len);
	/* As the port would: it leaves by ur_net_output(). */
	if (f->sums & UR_NET_SUM_IP)
		ur_csum_ipv4(copy->data + f->l2);
	if (f->sums & UR_NET_SUM_UDP)
		ur_net_sum(f, copy->data);
	if (f->ready || !e->dest->neigh)
		ur_outbox_push(net, copy);
	else
		ur_neigh_park(net, e->dest->neigh, copy);
	return 0;
}
