/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of a flow differ in length, identification and checksum alone.  So
 * of the last one that passed all checks its headers are kept, and the next
 * that has the same needs only those three looked at.  Whatever is not quite
 * so takes the long way, where it is counted; what was ours stays ours, since
 * an address that is ready is not given up.
 */
#include "net/internal.h"

#define HEADERS (UR_IPV4_LEN + UR_UDP_LEN)

/* By what its flows differ most: the host and the port they come from. */
static struct ur_net_known *place_of(struct ur_net *net, const uint8_t *ip)
{
	return &net->known[(ip[15] ^ ip[UR_IPV4_LEN + 1]) % UR_NET_KNOWN_FLOWS];
}

static uint64_t differ(const uint8_t *a, const uint8_t *b, size_t len)
{
	uint64_t x = 0, y = 0;

	memcpy(&x, a, len);
	memcpy(&y, b, len);
	return x ^ y;
}

/* All of the headers but total length, identification and both checksums. */
static bool is_same(const struct ur_net_known *k, const uint8_t *frame,
		    uint32_t l2)
{
	const uint8_t *a = frame, *b = k->hdr;
	uint64_t d = differ(a, b, 8) | differ(a + 6, b + 6, 8);

	if (l2 > UR_ETH_LEN)
		d |= differ(a + UR_ETH_LEN, b + UR_ETH_LEN, UR_VLAN_LEN);
	a += l2;
	b += l2;
	d |= differ(a, b, 2) | differ(a + 6, b + 6, 4);
	d |= differ(a + 12, b + 12, 8);
	d |= differ(a + UR_IPV4_LEN, b + UR_IPV4_LEN, 4);
	return !d;
}

static bool sum_is_good(const struct ur_net_known *k, const uint8_t *ip)
{
	uint32_t sum = k->sum + ur_get16(ip + 2) + ur_get16(ip + 4) +
		       ur_get16(ip + 10);

	return ur_csum_fold(sum) == 0;
}

bool ur_known_input(struct ur_net *net, const struct ur_net_rx *rx,
		    struct ur_rx *out)
{
	const uint8_t *ip = rx->frame + net->l2, *udp = ip + UR_IPV4_LEN;
	const struct ur_net_known *k;
	uint32_t room, total, len;

	if (rx->tpid || (rx->flags & UR_NET_RX_L4_BAD) ||
	    rx->len < net->l2 + HEADERS)
		return false;
	k = place_of(net, ip);
	if (!k->sum || !is_same(k, rx->frame, net->l2))
		return false;
	room = rx->len - net->l2;
	total = ur_get16(ip + 2);
	len = ur_get16(udp + 4);
	if (room > UINT16_MAX || total > room || len < UR_UDP_LEN ||
	    len + UR_IPV4_LEN > total)
		return false;
	if (!(rx->flags & UR_NET_RX_IP_GOOD) && !sum_is_good(k, ip))
		return false;
	*out = k->rx;
	out->data = udp + UR_UDP_LEN;
	out->len = len - UR_UDP_LEN;
	out->index = ur_get16(ip + 4);
	net->count.rx_roce++;
	return true;
}

void ur_known_learn(struct ur_net *net, const struct ur_net_pkt *p,
		    const struct ur_rx *rx)
{
	struct ur_net_known *k;

	if (!p->v4 || p->l2_group || p->to_group || p->l3 != net->l2 ||
	    p->payload != p->ip + UR_IPV4_LEN)
		return;
	k = place_of(net, p->ip);
	memcpy(k->hdr, p->frame, net->l2 + HEADERS);
	memset(k->hdr + net->l2 + 2, 0, 4);
	memset(k->hdr + net->l2 + 10, 0, 2);
	k->sum = (uint32_t)ur_csum_add(0, k->hdr + net->l2, UR_IPV4_LEN);
	k->rx = *rx;
}
