/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fast path. Packets of a flow differ only in length, identification (IPv4) and
 * checksum. So the headers of the last packet that passed all checks are
 * cached, and a packet with the same headers needs only those fields checked.
 * Any other packet takes the slow path, which also counts errors. A destination
 * that was ours stays ours: no address is given up.
 */
#include "net/internal.h"

#define HEADERS	 (UR_IPV4_LEN + UR_UDP_LEN)
#define HEADERS6 (UR_IPV6_LEN + UR_UDP_LEN)

/* Hashed by the fields that differ most: the source's host part and port. */
static struct ur_net_known *place_of(struct ur_net *net, uint8_t host,
				     uint8_t port)
{
	return &net->known[(host ^ port) % UR_NET_KNOWN_FLOWS];
}

static struct ur_net_known *place4(struct ur_net *net, const uint8_t *ip)
{
	return place_of(net, ip[15], ip[UR_IPV4_LEN + 1]);
}

static struct ur_net_known *place6(struct ur_net *net, const uint8_t *ip)
{
	return place_of(net, ip[23], ip[UR_IPV6_LEN + 1]);
}

static uint64_t differ(const uint8_t *a, const uint8_t *b, size_t len)
{
	uint64_t x = 0, y = 0;

	memcpy(&x, a, len);
	memcpy(&y, b, len);
	return x ^ y;
}

static uint64_t l2_differs(const uint8_t *a, const uint8_t *b, uint32_t l2)
{
	uint64_t d = differ(a, b, 8) | differ(a + 6, b + 6, 8);

	if (l2 > UR_ETH_LEN)
		d |= differ(a + UR_ETH_LEN, b + UR_ETH_LEN, UR_VLAN_LEN);
	return d;
}

/*
 * Compares all headers except total length, identification and both checksums.
 */
static bool is_same4(const struct ur_net_known *k, const uint8_t *frame,
		     uint32_t l2)
{
	const uint8_t *a = frame + l2, *b = k->hdr + l2;
	uint64_t d = l2_differs(frame, k->hdr, l2);

	d |= differ(a, b, 2) | differ(a + 6, b + 6, 4);
	d |= differ(a + 12, b + 12, 8);
	d |= differ(a + UR_IPV4_LEN, b + UR_IPV4_LEN, 4);
	return !d;
}

/* All except both lengths and the checksum. */
static bool is_same6(const struct ur_net_known *k, const uint8_t *frame,
		     uint32_t l2)
{
	const uint8_t *a = frame + l2, *b = k->hdr + l2;
	uint64_t d = l2_differs(frame, k->hdr, l2);

	d |= differ(a, b, 4) | differ(a + 6, b + 6, 2);
	for (uint32_t at = 8; at < UR_IPV6_LEN; at += 8)
		d |= differ(a + at, b + at, 8);
	d |= differ(a + UR_IPV6_LEN, b + UR_IPV6_LEN, 4);
	return !d;
}

static bool sum_is_good(const struct ur_net_known *k, const uint8_t *ip)
{
	uint32_t sum = k->sum + ur_be16_at(ip + 2) + ur_be16_at(ip + 4) +
		       ur_be16_at(ip + 10);

	return ur_csum_fold(sum) == 0;
}

/* Accepts the datagram at udp; the packet has that many bytes for it. */
static bool take(struct ur_net *net, const struct ur_net_known *k,
		 const uint8_t *udp, uint32_t room, struct ur_rx *out)
{
	uint32_t len = ur_be16_at(udp + 4);

	if (len < UR_UDP_LEN || len > room)
		return false;
	*out = k->rx;
	out->data = udp + UR_UDP_LEN;
	out->len = len - UR_UDP_LEN;
	net->count.rx_roce++;
	return true;
}

static bool input4(struct ur_net *net, const struct ur_net_rx *rx,
		   const uint8_t *ip, uint32_t room, struct ur_rx *out)
{
	const struct ur_net_known *k = place4(net, ip);
	uint32_t total = ur_be16_at(ip + 2);

	if (!k->sum || !is_same4(k, rx->frame, net->l2))
		return false;
	if (total > room || total < HEADERS)
		return false;
	if (!(rx->flags & UR_NET_RX_IP_GOOD) && !sum_is_good(k, ip))
		return false;
	if (!take(net, k, ip + UR_IPV4_LEN, total - UR_IPV4_LEN, out))
		return false;
	out->index = ur_be16_at(ip + 4);
	return true;
}

/* An empty entry matches no EtherType. */
static bool input6(struct ur_net *net, const struct ur_net_rx *rx,
		   const uint8_t *ip, uint32_t room, struct ur_rx *out)
{
	const struct ur_net_known *k;
	uint32_t payload = ur_be16_at(ip + 4);

	if (room < HEADERS6 || payload > room - UR_IPV6_LEN)
		return false;
	k = place6(net, ip);
	return is_same6(k, rx->frame, net->l2) &&
	       take(net, k, ip + UR_IPV6_LEN, payload, out);
}

bool ur_known_input(struct ur_net *net, const struct ur_net_rx *rx,
		    struct ur_rx *out)
{
	const uint8_t *ip = rx->frame + net->l2;
	uint32_t room;

	if (rx->tpid || (rx->flags & UR_NET_RX_L4_BAD) ||
	    rx->len < net->l2 + HEADERS)
		return false;
	room = rx->len - net->l2;
	if (room > UINT16_MAX)
		return false;
	return ip[0] >> 4 == 6 ? input6(net, rx, ip, room, out)
			       : input4(net, rx, ip, room, out);
}

void ur_known_add(struct ur_net *net, const struct ur_net_pkt *p,
		  const struct ur_rx *rx)
{
	uint32_t ip_len = p->v4 ? UR_IPV4_LEN : UR_IPV6_LEN;
	struct ur_net_known *k;

	if (p->l2_group || p->to_group || p->l3 != net->l2 ||
	    p->payload != p->ip + ip_len)
		return;
	k = p->v4 ? place4(net, p->ip) : place6(net, p->ip);
	memcpy(k->hdr, p->frame, net->l2 + ip_len + UR_UDP_LEN);
	k->sum = 0;
	k->rx = *rx;
	if (!p->v4)
		return;
	memset(k->hdr + net->l2 + 2, 0, 4);
	memset(k->hdr + net->l2 + 10, 0, 2);
	k->sum = (uint32_t)ur_csum_add(0, k->hdr + net->l2, UR_IPV4_LEN);
}
