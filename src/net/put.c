/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The headers of a packet: a copy of its flow's, plus the fields that differ.
 */
#include "net/internal.h"

#define ETH	 (UR_ETH_LEN)
#define TAG	 (UR_ETH_LEN + UR_VLAN_LEN)
#define UDP4_LEN (UR_IPV4_LEN + UR_UDP_LEN)
#define UDP6_LEN (UR_IPV6_LEN + UR_UDP_LEN)

/* There are four lengths, which the compiler copies without a loop. */
static void copy_headers(const struct ur_net_flow *f, uint8_t *frame)
{
	switch (f->len) {
	case ETH + UDP4_LEN:
		memcpy(frame, f->hdr, ETH + UDP4_LEN);
		break;
	case TAG + UDP4_LEN:
		memcpy(frame, f->hdr, TAG + UDP4_LEN);
		break;
	case ETH + UDP6_LEN:
		memcpy(frame, f->hdr, ETH + UDP6_LEN);
		break;
	default:
		memcpy(frame, f->hdr, TAG + UDP6_LEN);
		break;
	}
}

void ur_net_put(const struct ur_net_flow *f, uint8_t *frame, uint16_t id,
		uint32_t payload)
{
	uint8_t *ip = frame + f->l2, *udp = ip + f->l3;
	uint32_t len = payload + UR_UDP_LEN;

	copy_headers(f, frame);
	if (f->v4) {
		ur_put_be16(ip + 2, (uint16_t)(UR_IPV4_LEN + len));
		ur_put_be16(ip + 4, id);
		if (!(f->sums & UR_NET_SUM_IP))
			ur_put_be16(ip + 10,
				    ur_csum_fold((uint64_t)f->sum3 +
						 UR_IPV4_LEN + len + id));
	} else {
		ur_put_be16(ip + 4, (uint16_t)len);
	}
	ur_put_be16(udp + 4, (uint16_t)len);
	/* The port continues from the pseudo header's sum, not complemented;
	 * sum4 includes the ports. */
	if (f->sums & UR_NET_SUM_UDP) {
		uint64_t ports =
			(uint64_t)ur_be16_at(udp) + ur_be16_at(udp + 2);

		ur_put_be16(udp + 6,
			    (uint16_t)~ur_csum_fold(f->sum4 - ports + len));
	}
}

void ur_net_sum(const struct ur_net_flow *f, uint8_t *frame)
{
	uint8_t *udp = frame + f->l2 + f->l3;
	uint32_t len = ur_be16_at(udp + 4);
	/* The length is in the pseudo header and in UDP's. */
	uint64_t sum = f->sum4 + 2 * (uint64_t)len;
	uint16_t v = ur_csum_fold(
		ur_csum_add(sum, frame + f->len, len - UR_UDP_LEN));

	ur_put_be16(udp + 6, v ? v : 0xffff);
}
