/* SPDX-License-Identifier: BSD-2-Clause */
/* Inbound IPv6 (RFC 8200). */
#include "net/internal.h"
#include "wire/bth.h"

#define EXT_HOPBYHOP 0u
#define EXT_ROUTING  43u
#define EXT_FRAGMENT 44u
#define EXT_AH	     51u
#define EXT_DEST     60u
#define EXT_MAX	     8u

static bool check_header(struct ur_net *net, struct ur_net_pkt *p, uint32_t len)
{
	const uint8_t *ip = p->frame + p->l3;
	uint32_t payload;

	if (len < UR_IPV6_LEN) {
		net->count.drop_ip_length++;
		return false;
	}
	if (ip[0] >> 4 != 6) {
		net->count.drop_ip_version++;
		return false;
	}
	payload = ur_be16_at(ip + 4);
	if (payload > len - UR_IPV6_LEN) {
		net->count.drop_ip_length++;
		return false;
	}
	p->v4 = false;
	p->ip = ip;
	p->tclass = (uint8_t)(ip[0] << 4 | ip[1] >> 4);
	p->proto = ip[6];
	p->hops = ip[7];
	p->payload = ip + UR_IPV6_LEN;
	p->payload_len = payload;
	memcpy(p->src, ip + 8, 16);
	memcpy(p->dst, ip + 24, 16);
	return true;
}

/* IPv4-mapped and loopback addresses are invalid on the wire (RFC 4291 2.5). */
static bool is_internal(const uint8_t a[16])
{
	static const uint8_t loopback[16] = { [15] = 1 };

	return ur_addr_is_v4(a) || !memcmp(a, loopback, 16);
}

/* A station with a duplicate of our address defends it from that address (RFC
 * 4862 5.4.4). */
static bool source_is_good(struct ur_net *net, const struct ur_net_pkt *p)
{
	bool nd = p->proto == UR_IPPROTO_ICMPV6 && p->hops == 255;

	return !ur_addr_is_multicast(p->src) && !is_internal(p->src) &&
	       (nd || !ur_own_find(net, p->src));
}

static bool dest_is_ours(struct ur_net *net, struct ur_net_pkt *p)
{
	if (ur_addr_is_multicast(p->dst)) {
		p->to_group = true;
		return ur_group_is_ours(net, p->dst);
	}
	return !p->l2_group && !is_internal(p->dst) &&
	       ur_own_find(net, p->dst) != NULL;
}

/* Length of an extension header; 0: unsupported. */
static uint32_t ext_len(uint8_t type, const uint8_t *h)
{
	switch (type) {
	case EXT_HOPBYHOP:
	case EXT_DEST:
	case EXT_ROUTING:
		return (h[1] + 1u) * 8;
	case EXT_AH:
		return (h[1] + 2u) * 4;
	case EXT_FRAGMENT:
		return 8;
	default:
		return 0;
	}
}

/* Skips the extension headers. *fragment: it is a fragment; *first: the first
 * one. False: they do not fit in the packet, or are too many. */
static bool pass_extensions(struct ur_net_pkt *p, bool *fragment, bool *first)
{
	*fragment = false;
	*first = true;
	for (uint32_t n = 0; n <= EXT_MAX; n++) {
		const uint8_t *h = p->payload;
		uint32_t len;

		if (ext_len(p->proto, (const uint8_t[]){ 0, 0 }) == 0)
			return true;
		if (p->payload_len < 8)
			return false;
		len = ext_len(p->proto, h);
		if (len > p->payload_len)
			return false;
		if (p->proto == EXT_FRAGMENT) {
			*fragment = true;
			*first = (ur_be16_at(h + 2) & 0xfff8) == 0;
		}
		p->extended = true;
		p->proto = h[0];
		p->payload += len;
		p->payload_len -= len;
		if (!*first)
			return true; /* no header follows */
	}
	return false;
}

static bool is_roce(const struct ur_net_pkt *p)
{
	return p->proto == UR_IPPROTO_UDP && p->payload_len >= 4 &&
	       ur_be16_at(p->payload + 2) == UR_ROCE_PORT;
}

enum ur_net_verdict ur_ip6_input(struct ur_net *net, struct ur_net_pkt *p,
				 uint32_t len, struct ur_net_in *out)
{
	bool fragment, first;

	if (!check_header(net, p, len))
		return UR_NET_DONE;
	if (!source_is_good(net, p)) {
		net->count.drop_ip_source++;
		return UR_NET_DONE;
	}
	if (!dest_is_ours(net, p))
		return ur_net_to_host(net, out, p);
	if (!pass_extensions(p, &fragment, &first)) {
		net->count.drop_ip_extension++;
		return UR_NET_DONE;
	}
	if (fragment && !(first && is_roce(p)))
		return ur_net_to_host(net, out, p);
	if (fragment) {
		net->count.drop_fragment++;
		return UR_NET_DONE;
	}
	if (p->proto == UR_IPPROTO_UDP && !ur_addr_is_zero(p->src))
		return ur_udp_input(net, p, out);
	if (p->proto == UR_IPPROTO_ICMPV6)
		return ur_icmp6_input(net, p, out);
	if (ur_addr_is_zero(p->src)) {
		net->count.drop_ip_source++;
		return UR_NET_DONE;
	}
	return ur_net_to_host(net, out, p);
}
