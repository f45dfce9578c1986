/* SPDX-License-Identifier: BSD-2-Clause */
/* Inbound IPv4 (RFC 791, RFC 1122 3.2.1). */
#include "net/internal.h"
#include "wire/bth.h"

static const uint8_t limited_broadcast[4] = { 255, 255, 255, 255 };

/* Checks version, lengths and checksum; sets the parts. */
static bool check_header(struct ur_net *net, struct ur_net_pkt *p, uint32_t len)
{
	const uint8_t *ip = p->frame + p->l3;
	uint32_t hlen, total;

	if (len < UR_IPV4_LEN) {
		net->count.drop_ip_length++;
		return false;
	}
	if (ip[0] >> 4 != 4) {
		net->count.drop_ip_version++;
		return false;
	}
	hlen = (ip[0] & 15u) * 4;
	total = ur_be16_at(ip + 2);
	if (hlen < UR_IPV4_LEN || total < hlen || total > len) {
		net->count.drop_ip_length++;
		return false;
	}
	if (!(p->flags & UR_NET_RX_IP_GOOD) &&
	    ur_csum_fold(ur_csum_add(0, ip, hlen))) {
		net->count.drop_ip_sum++;
		return false;
	}
	p->v4 = true;
	p->ip = ip;
	p->extended = hlen > UR_IPV4_LEN;
	p->tclass = ip[1];
	p->id = ur_be16_at(ip + 4);
	p->hops = ip[8];
	p->proto = ip[9];
	p->payload = ip + hlen;
	p->payload_len = total - hlen;
	ur_addr_of_packet(ip, p->src, p->dst);
	return true;
}

/* RFC 1122 3.2.1.3: invalid sources; also our own addresses. */
static bool source_is_good(struct ur_net *net, const uint8_t src[16])
{
	return src[12] != 0 && src[12] != 127 && src[12] < 224 &&
	       !ur_own_find(net, src);
}

static bool is_broadcast(const struct ur_net *net, const uint8_t dst[16])
{
	if (!memcmp(dst + 12, limited_broadcast, 4))
		return true;
	for (uint32_t i = 0; i < net->nown; i++) {
		const struct ur_own *o = &net->own[i];
		bool ones = o->v4 && o->a.prefix < 31;

		for (uint32_t k = 12; k < 16 && ones; k++)
			ones = (dst[k] | o->mask[k]) == 0xff;
		if (ones && ur_own_on_link(o, dst))
			return true;
	}
	return false;
}

/* Is it addressed to us? */
static bool dest_is_ours(struct ur_net *net, struct ur_net_pkt *p)
{
	if (!p->l2_group && ur_own_find(net, p->dst))
		return true;
	if (ur_addr_is_multicast(p->dst)) {
		p->to_group = true;
		return ur_group_is_ours(net, p->dst);
	}
	p->to_group = is_broadcast(net, p->dst);
	return false;
}

/* Only the first fragment has the port. */
static bool is_roce_fragment(const struct ur_net_pkt *p)
{
	return p->proto == UR_IPPROTO_UDP && p->payload_len >= 4 &&
	       (ur_be16_at(p->ip + 6) & 0x1fff) == 0 &&
	       ur_be16_at(p->payload + 2) == UR_ROCE_PORT;
}

enum ur_net_verdict ur_ip4_input(struct ur_net *net, struct ur_net_pkt *p,
				 uint32_t len, struct ur_net_in *out)
{
	if (!check_header(net, p, len))
		return UR_NET_DONE;
	if (!source_is_good(net, p->src)) {
		net->count.drop_ip_source++;
		return UR_NET_DONE;
	}
	if (!dest_is_ours(net, p))
		return ur_net_to_host(net, out, p);
	if (ur_be16_at(p->ip + 6) & UR_IP4_FRAGMENT_MASK) {
		if (!is_roce_fragment(p))
			return ur_net_to_host(net, out, p);
		net->count.drop_fragment++;
		return UR_NET_DONE;
	}
	if (p->proto == UR_IPPROTO_UDP)
		return ur_udp_input(net, p, out);
	/* RFC 1122 3.2.1.3: the reply would be broadcast. */
	if (p->proto == UR_IPPROTO_ICMP && is_broadcast(net, p->src)) {
		net->count.drop_ip_source++;
		return UR_NET_DONE;
	}
	if (p->proto == UR_IPPROTO_ICMP && !p->to_group)
		return ur_icmp4_input(net, p, out);
	return ur_net_to_host(net, out, p);
}
