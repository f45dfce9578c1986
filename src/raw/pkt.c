/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Formats: IEEE 802.3 and 802.1Q, RFC 791, 8200, 9293, 768, 4303, VXLAN RFC
 * 7348, GRE RFC 2784 and 2890, MPLS RFC 3032, over UDP RFC 7510 and over GRE
 * RFC 4023.
 */
#include "raw/pkt.h"

#include <string.h>

#include "base/bytes.h"

#define TYPE_MPLS      0x8847u
#define TYPE_MPLS_MC   0x8848u
#define TYPE_TEB       0x6558u /* Ethernet within GRE */
#define PORT_VXLAN     4789u
#define PORT_MPLS      6635u
#define EXTENSIONS_MAX 8u
#define TAGS_MAX       2u
#define LABELS_MAX     8u
#define LABEL_LAST     0x01u /* in the third byte: bottom of stack */
#define FRAGMENT_HDR   44u
#define NO_NEXT	       59u
#define GRE_CSUM       0x8000u
#define GRE_KEY	       0x2000u
#define GRE_SEQ	       0x1000u
#define GRE_VERSION    0x0007u

static bool is_vlan(uint16_t type)
{
	return type == UR_ETHERTYPE_VLAN || type == UR_ETHERTYPE_QINQ;
}

/* RFC 8200 4: extension headers between IPv6 and its payload. */
static bool is_extension(uint8_t proto)
{
	return proto == 0 || proto == 43 || proto == FRAGMENT_HDR ||
	       proto == 60;
}

static void parse_l4(struct ur_hdrs *h, struct ur_rd *r)
{
	static const struct {
		uint8_t proto;
		uint8_t len;
	} least[] = {
		{ UR_IPPROTO_TCP, UR_TCP_LEN },
		{ UR_IPPROTO_UDP, UR_UDP_LEN },
		{ UR_IPPROTO_ESP, 8 },
		{ UR_IPPROTO_GRE, 4 },
	};

	if (h->fragment)
		return;
	for (size_t i = 0; i < sizeof(least) / sizeof(least[0]); i++)
		if (h->proto == least[i].proto &&
		    ur_rd_left(r) >= least[i].len) {
			h->l4 = r->p;
			h->l4_len = (uint32_t)ur_rd_left(r);
		}
}

/* Bytes after the IP packet are padding of the frame. */
static void trim(struct ur_rd *r, size_t len)
{
	if (len < ur_rd_left(r))
		r->end = r->p + len;
}

static void parse_ipv4(struct ur_hdrs *h, struct ur_rd *r)
{
	const uint8_t *ip = r->p;
	uint32_t ihl, total;

	if (ur_rd_left(r) < UR_IPV4_LEN || ip[0] >> 4 != 4)
		return;
	ihl = (ip[0] & 15u) * 4;
	total = ur_be16_at(ip + 2);
	if (ihl < UR_IPV4_LEN || ihl > ur_rd_left(r) || total < ihl)
		return;
	trim(r, total);
	if (!ur_rd_bytes(r, ihl))
		return;
	h->ipv4 = ip;
	h->proto = ip[9];
	/* Only the first fragment has ports, and not the whole payload. */
	h->fragment = (ur_be16_at(ip + 6) & 0x3fff) != 0;
	parse_l4(h, r);
}

static void parse_ipv6(struct ur_hdrs *h, struct ur_rd *r)
{
	const uint8_t *ip = ur_rd_bytes(r, UR_IPV6_LEN);

	if (!ip || ip[0] >> 4 != 6)
		return;
	trim(r, ur_be16_at(ip + 4));
	h->ipv6 = ip;
	h->proto = ip[6];
	for (uint32_t i = 0; i < EXTENSIONS_MAX && is_extension(h->proto);
	     i++) {
		const uint8_t *x = ur_rd_bytes(r, 8);

		if (!x)
			return;
		if (h->proto == FRAGMENT_HDR)
			h->fragment |= (ur_be16_at(x + 2) & 0xfff9) != 0;
		else if (!ur_rd_bytes(r, (size_t)x[1] * 8))
			return;
		h->proto = x[0];
	}
	parse_l4(h, r);
}

static void parse_ip(struct ur_hdrs *h, struct ur_rd *r)
{
	if (h->type == UR_ETHERTYPE_IP)
		parse_ipv4(h, r);
	else if (h->type == UR_ETHERTYPE_IPV6)
		parse_ipv6(h, r);
}

/* RFC 3032 has no type field for the payload: the IP version identifies it. */
static void parse_mpls(struct ur_hdrs *outer, struct ur_hdrs *inner,
		       struct ur_rd *r)
{
	const uint8_t *label;

	for (uint32_t i = 0; i < LABELS_MAX; i++) {
		label = ur_rd_bytes(r, 4);
		if (!label)
			return;
		if (!outer->mpls)
			outer->mpls = label;
		if (label[2] & LABEL_LAST)
			break;
	}
	if (!ur_rd_left(r))
		return;
	inner->type = r->p[0] >> 4 == 4	  ? UR_ETHERTYPE_IP
		      : r->p[0] >> 4 == 6 ? UR_ETHERTYPE_IPV6
					  : 0;
	parse_ip(inner, r);
}

/* Parses from the EtherType on. */
static void parse_type(struct ur_hdrs *h, struct ur_rd *r)
{
	h->type = ur_rd_be16(r);
	for (uint32_t i = 0; i < TAGS_MAX && is_vlan(h->type); i++) {
		uint16_t tci = ur_rd_be16(r);

		if (!h->tagged) {
			h->tagged = true;
			h->tci = tci;
		}
		h->type = ur_rd_be16(r);
	}
	if (r->bad)
		h->type = 0;
}

static void parse_inner_eth(struct ur_hdrs *h, struct ur_rd *r)
{
	h->macs = ur_rd_bytes(r, UR_MACS_LEN);
	if (!h->macs || ur_rd_left(r) < 2) {
		h->macs = NULL;
		return;
	}
	parse_type(h, r);
	if (!r->bad)
		parse_ip(h, r);
}

static void parse_gre(struct ur_pkt *p, struct ur_rd *r)
{
	const uint8_t *gre = r->p;
	uint16_t flags = ur_rd_be16(r);
	uint16_t type = ur_rd_be16(r);
	size_t more = (flags & GRE_CSUM ? 4u : 0) + (flags & GRE_KEY ? 4u : 0) +
		      (flags & GRE_SEQ ? 4u : 0);

	if ((flags & GRE_VERSION) || !ur_rd_bytes(r, more))
		return;
	p->gre = gre;
	p->gre_len = (uint32_t)(4 + more);
	if (type == TYPE_TEB) {
		parse_inner_eth(&p->inner, r);
	} else if (type == TYPE_MPLS || type == TYPE_MPLS_MC) {
		parse_mpls(&p->outer, &p->inner, r);
	} else {
		p->inner.type = type;
		parse_ip(&p->inner, r);
	}
}

static void parse_tunnel(struct ur_pkt *p)
{
	struct ur_hdrs *h = &p->outer;
	struct ur_rd r;

	if (!h->l4)
		return;
	r = ur_rd_init(h->l4, h->l4_len);
	if (h->proto == UR_IPPROTO_GRE) {
		parse_gre(p, &r);
		return;
	}
	if (h->proto != UR_IPPROTO_UDP)
		return;
	(void)ur_rd_bytes(&r, UR_UDP_LEN);
	if (ur_be16_at(h->l4 + 2) == PORT_MPLS) {
		parse_mpls(h, &p->inner, &r);
	} else if (ur_be16_at(h->l4 + 2) == PORT_VXLAN) {
		p->vxlan = ur_rd_bytes(&r, 8);
		if (p->vxlan)
			parse_inner_eth(&p->inner, &r);
	}
}

bool ur_pkt_parse(struct ur_pkt *p, const uint8_t *frame, uint32_t len,
		  uint16_t tpid, uint16_t tci)
{
	struct ur_rd r = ur_rd_init(frame, len);
	struct ur_hdrs *h = &p->outer;

	memset(p, 0, sizeof(*p));
	if (len < UR_ETH_LEN)
		return false;
	p->frame = frame;
	p->len = len;
	p->l2 = UR_MACS_LEN;
	h->macs = ur_rd_bytes(&r, UR_MACS_LEN);
	h->tagged = tpid != 0;
	h->tci = tci;
	p->tpid = tpid;
	if (!tpid && is_vlan(ur_be16_at(r.p)) &&
	    len >= UR_ETH_LEN + UR_VLAN_LEN) {
		p->tpid = ur_be16_at(r.p);
		p->l2 = UR_MACS_LEN + UR_VLAN_LEN;
	}
	parse_type(h, &r);
	if (r.bad)
		return true;
	if (h->type == TYPE_MPLS || h->type == TYPE_MPLS_MC)
		parse_mpls(h, &p->inner, &r);
	else
		parse_ip(h, &r);
	parse_tunnel(p);
	return true;
}
