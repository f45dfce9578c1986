/* SPDX-License-Identifier: BSD-2-Clause */
#include "raw/flow.h"

#include <errno.h>
#include <string.h>

#define VLAN_AT 14u /* in the fields of Ethernet */
#define TYPE_AT 12u

static const uint8_t layer_len[UR_LAYERS] = {
	[UR_LAYER_ETH] = 16,  [UR_LAYER_IPV4] = 8,  [UR_LAYER_IPV4_EXT] = 12,
	[UR_LAYER_IPV6] = 39, [UR_LAYER_TCP] = 4,   [UR_LAYER_UDP] = 4,
	[UR_LAYER_ESP] = 8,   [UR_LAYER_VXLAN] = 4, [UR_LAYER_GRE] = 8,
	[UR_LAYER_MPLS] = 4,
};

uint32_t ur_flow_layer_len(enum ur_flow_layer layer)
{
	return (unsigned int)layer < UR_LAYERS ? layer_len[layer] : 0;
}

static void fields_eth(uint8_t *out, const struct ur_hdrs *h)
{
	memcpy(out, h->macs, UR_MACS_LEN);
	ur_put_be16(out + TYPE_AT, h->type);
	ur_put_be16(out + VLAN_AT, h->tci);
}

static void fields_ipv4_ext(uint8_t *out, const uint8_t *ip)
{
	memcpy(out, ip + 12, 8);
	out[8] = ip[9];
	out[9] = ip[1];
	out[10] = ip[8];
	/* As in the kernel's ib_verbs.h: DF 2, MF 4. */
	out[11] = (uint8_t)((ip[6] & 0x40 ? 2 : 0) | (ip[6] & 0x20 ? 4 : 0));
}

static void fields_ipv6(uint8_t *out, const struct ur_hdrs *h)
{
	const uint8_t *ip = h->ipv6;

	memcpy(out, ip + 8, 32);
	out[32] = 0;
	out[33] = ip[1] & 15;
	out[34] = ip[2];
	out[35] = ip[3];
	out[36] = h->proto;
	out[37] = (uint8_t)(ip[0] << 4 | ip[1] >> 4);
	out[38] = ip[7];
}

static bool fields_l4(uint8_t *out, const struct ur_hdrs *h, uint8_t proto)
{
	if (!h->l4 || h->proto != proto)
		return false;
	if (proto == UR_IPPROTO_ESP) {
		memcpy(out, h->l4, 8);
		return true;
	}
	memcpy(out, h->l4 + 2, 2);
	memcpy(out + 2, h->l4, 2);
	return true;
}

/* The key is present only with its flag; otherwise it is 0. */
static void fields_gre(uint8_t *out, const struct ur_pkt *p)
{
	bool csum = p->gre[0] & 0x80, key = p->gre[0] & 0x20;

	memcpy(out, p->gre, 4);
	memset(out + 4, 0, 4);
	if (key)
		memcpy(out + 4, p->gre + (csum ? 8 : 4), 4);
}

/* The fields of a layer; false: the packet lacks the layer. */
static bool fields(uint8_t out[UR_FLOW_FIELDS], const struct ur_pkt *p,
		   enum ur_flow_layer layer, bool inner)
{
	const struct ur_hdrs *h = inner ? &p->inner : &p->outer;

	switch (layer) {
	case UR_LAYER_ETH:
		if (h->macs)
			fields_eth(out, h);
		return h->macs != NULL;
	case UR_LAYER_IPV4:
		if (h->ipv4)
			memcpy(out, h->ipv4 + 12, 8);
		return h->ipv4 != NULL;
	case UR_LAYER_IPV4_EXT:
		if (h->ipv4)
			fields_ipv4_ext(out, h->ipv4);
		return h->ipv4 != NULL;
	case UR_LAYER_IPV6:
		if (h->ipv6)
			fields_ipv6(out, h);
		return h->ipv6 != NULL;
	case UR_LAYER_TCP:
		return fields_l4(out, h, UR_IPPROTO_TCP);
	case UR_LAYER_UDP:
		return fields_l4(out, h, UR_IPPROTO_UDP);
	case UR_LAYER_ESP:
		return fields_l4(out, h, UR_IPPROTO_ESP);
	case UR_LAYER_VXLAN:
		out[0] = 0;
		if (p->vxlan)
			memcpy(out + 1, p->vxlan + 4, 3);
		return p->vxlan != NULL;
	case UR_LAYER_GRE:
		if (p->gre)
			fields_gre(out, p);
		return p->gre != NULL;
	case UR_LAYER_MPLS:
		if (h->mpls)
			memcpy(out, h->mpls, 4);
		return h->mpls != NULL;
	case UR_LAYERS:
		break;
	}
	return false;
}

static bool spec_match(const struct ur_flow_spec *s, const struct ur_pkt *p)
{
	const struct ur_hdrs *h = s->inner ? &p->inner : &p->outer;
	uint8_t f[UR_FLOW_FIELDS], diff = 0;

	if (!fields(f, p, s->layer, s->inner))
		return false;
	/* A rule with a VLAN tag does not match untagged packets. */
	if (s->layer == UR_LAYER_ETH && !h->tagged &&
	    (s->mask[VLAN_AT] | s->mask[VLAN_AT + 1]))
		return false;
	for (uint32_t i = 0; i < layer_len[s->layer]; i++)
		diff |= (uint8_t)((f[i] ^ s->val[i]) & s->mask[i]);
	return diff == 0;
}

bool ur_flow_match(const struct ur_flow *f, const struct ur_pkt *p)
{
	for (uint32_t i = 0; i < f->nspecs; i++)
		if (!spec_match(&f->specs[i], p))
			return false;
	return true;
}

static bool same_spec(const struct ur_flow_spec *a,
		      const struct ur_flow_spec *b)
{
	uint8_t diff = 0;

	if (a->layer != b->layer || a->inner != b->inner)
		return false;
	for (uint32_t i = 0; i < layer_len[a->layer]; i++)
		diff |= (uint8_t)(a->mask[i] ^ b->mask[i]) |
			(uint8_t)((a->val[i] ^ b->val[i]) & a->mask[i]);
	return diff == 0;
}

static bool same_rule(const struct ur_flow *a, const struct ur_flow *b)
{
	if (a->priority != b->priority || a->nspecs != b->nspecs)
		return false;
	for (uint32_t i = 0; i < a->nspecs; i++)
		if (!same_spec(&a->specs[i], &b->specs[i]))
			return false;
	return true;
}

void ur_flow_table_init(struct ur_flow_table *t)
{
	for (unsigned int i = 0; i < UR_FLOW_TYPES; i++)
		ur_list_init(&t->flows[i]);
	t->count = 0;
}

static const struct ur_flow_spec *
find_spec(const struct ur_flow *f, enum ur_flow_layer layer, bool inner)
{
	for (uint32_t i = 0; i < f->nspecs; i++)
		if (f->specs[i].layer == layer && f->specs[i].inner == inner)
			return &f->specs[i];
	return NULL;
}

/* An EtherType that is matched in full has to be that of the IP version. */
static bool type_agrees(const struct ur_flow *f, bool inner)
{
	const struct ur_flow_spec *eth = find_spec(f, UR_LAYER_ETH, inner);
	bool v4 = find_spec(f, UR_LAYER_IPV4, inner) ||
		  find_spec(f, UR_LAYER_IPV4_EXT, inner);
	bool v6 = find_spec(f, UR_LAYER_IPV6, inner);
	uint16_t type;

	if (v4 && v6)
		return false;
	if (!eth || ur_be16_at(eth->mask + TYPE_AT) != 0xffff)
		return true;
	type = ur_be16_at(eth->val + TYPE_AT);
	return !(v4 && type != UR_ETHERTYPE_IP) &&
	       !(v6 && type != UR_ETHERTYPE_IPV6);
}

static bool one_transport(const struct ur_flow *f, bool inner)
{
	return !!find_spec(f, UR_LAYER_TCP, inner) +
		       !!find_spec(f, UR_LAYER_UDP, inner) +
		       !!find_spec(f, UR_LAYER_ESP, inner) <=
	       1;
}

static bool is_valid(const struct ur_flow *f)
{
	if (f->nspecs > UR_FLOW_SPECS_MAX ||
	    (unsigned int)f->type >= UR_FLOW_TYPES)
		return false;
	if (f->type != UR_FLOW_NORMAL && (f->nspecs || f->dont_trap))
		return false;
	return type_agrees(f, false) && type_agrees(f, true) &&
	       one_transport(f, false) && one_transport(f, true);
}

int ur_flow_add(struct ur_flow_table *t, struct ur_flow *f)
{
	struct ur_list *list, *at;

	if (!is_valid(f))
		return -EINVAL;
	if (t->count >= UR_MAX_FLOWS)
		return -ENOMEM;
	list = &t->flows[f->type];
	/* After all that are evaluated before it. */
	for (at = list->next; at != list; at = at->next)
		if (ur_container_of(at, struct ur_flow, node)->priority >
		    f->priority)
			break;
	ur_list_add_tail(at, &f->node);
	t->count++;
	return 0;
}

void ur_flow_del(struct ur_flow_table *t, struct ur_flow *f)
{
	if (ur_list_empty(&f->node))
		return;
	ur_list_del(&f->node);
	t->count--;
}

static void hit(const struct ur_flow *f, const struct ur_pkt *p,
		void (*deliver)(void *arg, const struct ur_flow *f), void *arg)
{
	uint32_t tag = p->tpid && p->l2 == UR_MACS_LEN ? UR_VLAN_LEN : 0;

	if (f->count) {
		atomic_fetch_add_explicit(&f->count->packets, 1,
					  memory_order_relaxed);
		atomic_fetch_add_explicit(&f->count->bytes, p->len + tag,
					  memory_order_relaxed);
	}
	if (!f->drop)
		deliver(arg, f);
}

static uint32_t hit_all(const struct ur_flow_table *t, enum ur_flow_type type,
			const struct ur_pkt *p,
			void (*deliver)(void *arg, const struct ur_flow *f),
			void *arg)
{
	uint32_t n = 0;

	ur_list_each(struct ur_flow, flow, &t->flows[type], node) {
		hit(flow, p, deliver, arg);
		n++;
	}
	return n;
}

/* How many normal rules matched; *taken by one that stops the search. */
static uint32_t
steer_normal(const struct ur_flow_table *t, const struct ur_pkt *p, bool *taken,
	     void (*deliver)(void *arg, const struct ur_flow *f), void *arg)
{
	const struct ur_flow *first = NULL;
	uint32_t n = 0;

	ur_list_each(const struct ur_flow, f, &t->flows[UR_FLOW_NORMAL], node) {
		if (first && f->priority != first->priority)
			break;
		if (first ? !same_rule(first, f) : !ur_flow_match(f, p))
			continue;
		hit(f, p, deliver, arg);
		n++;
		if (!first && !f->dont_trap)
			first = f;
	}
	*taken = first != NULL;
	return n;
}

uint32_t ur_flow_steer(const struct ur_flow_table *t, const struct ur_pkt *p,
		       void (*deliver)(void *arg, const struct ur_flow *f),
		       void *arg)
{
	uint32_t n = hit_all(t, UR_FLOW_SNIFFER, p, deliver, arg), defaults = 0;
	bool taken;

	n += steer_normal(t, p, &taken, deliver, arg);
	if (taken)
		return n;
	if (p->frame[0] & 1)
		defaults = hit_all(t, UR_FLOW_MC_DEFAULT, p, deliver, arg);
	if (!defaults)
		defaults = hit_all(t, UR_FLOW_ALL_DEFAULT, p, deliver, arg);
	return n + defaults;
}

static uint32_t wants(const struct ur_flow *f, const uint8_t mac[6])
{
	static const uint8_t full[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	const struct ur_flow_spec *eth = find_spec(f, UR_LAYER_ETH, false);

	if (!eth || memcmp(eth->mask, full, 6) != 0)
		return UR_WANT_PROMISCUOUS | UR_WANT_ALL_MULTICAST;
	if (eth->val[0] & 1)
		return memcmp(eth->val, full, 6) ? UR_WANT_ALL_MULTICAST : 0;
	return memcmp(eth->val, mac, 6) ? UR_WANT_PROMISCUOUS : 0;
}

uint32_t ur_flow_filters(const struct ur_flow_table *t, const uint8_t mac[6])
{
	uint32_t w = 0;

	if (!ur_list_empty(&t->flows[UR_FLOW_SNIFFER]) ||
	    !ur_list_empty(&t->flows[UR_FLOW_ALL_DEFAULT]))
		return UR_WANT_PROMISCUOUS | UR_WANT_ALL_MULTICAST;
	if (!ur_list_empty(&t->flows[UR_FLOW_MC_DEFAULT]))
		w = UR_WANT_ALL_MULTICAST;
	ur_list_each(struct ur_flow, f, &t->flows[UR_FLOW_NORMAL], node)
		w |= wants(f, mac);
	return w;
}
