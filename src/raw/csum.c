/* SPDX-License-Identifier: BSD-2-Clause */
#include "raw/csum.h"

#include <string.h>

uint64_t ur_csum_add(uint64_t sum, const void *data, uint32_t len)
{
	const uint8_t *p = data;
	uint64_t swapped = 0;

	/* Words in host order: the sum is only byte-swapped (RFC 1071 2). */
	for (; len >= 4; len -= 4, p += 4) {
		uint32_t w;

		memcpy(&w, p, sizeof(w));
		swapped += w;
	}
	while (swapped >> 16)
		swapped = (swapped & 0xffff) + (swapped >> 16);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	sum += (swapped & 0xff) << 8 | swapped >> 8;
#else
	sum += swapped;
#endif
	for (; len >= 2; len -= 2, p += 2)
		sum += ur_be16_at(p);
	return len ? sum + (uint64_t)(p[0] << 8) : sum;
}

uint16_t ur_csum_fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

uint64_t ur_csum_pseudo(const struct ur_hdrs *h, uint32_t l4_len)
{
	uint64_t sum = (uint64_t)h->proto + l4_len;

	return h->ipv4 ? ur_csum_add(sum, h->ipv4 + 12, 8)
		       : ur_csum_add(sum, h->ipv6 + 8, 32);
}

uint32_t ur_csum_offset(uint8_t proto)
{
	return proto == UR_IPPROTO_TCP ? 16 : proto == UR_IPPROTO_UDP ? 6 : 0;
}

bool ur_csum_verify(const struct ur_hdrs *h)
{
	uint32_t len = h->l4_len;

	if (!h->ipv4 || !h->l4 || !ur_csum_offset(h->proto))
		return false;
	if (ur_csum_fold(ur_csum_add(0, h->ipv4, (h->ipv4[0] & 15u) * 4)))
		return false;
	if (h->proto == UR_IPPROTO_UDP) {
		if (ur_be16_at(h->l4 + 6) == 0)
			return true;
		if (ur_be16_at(h->l4 + 4) < UR_UDP_LEN ||
		    ur_be16_at(h->l4 + 4) > len)
			return false;
		len = ur_be16_at(h->l4 + 4);
	}
	return ur_csum_fold(ur_csum_add(ur_csum_pseudo(h, len), h->l4, len)) ==
	       0;
}

bool ur_csum_complete(uint8_t *frame, uint32_t len, uint32_t start,
		      uint32_t offset)
{
	uint16_t sum;

	if (start > len || len - start < 2 || offset > len - start - 2)
		return false;
	sum = ur_csum_fold(ur_csum_add(0, frame + start, len - start));
	/* RFC 768: 0 would mean no checksum. */
	ur_put_be16(frame + start + offset, sum ? sum : 0xffff);
	return true;
}

void ur_csum_ipv4(uint8_t *ip)
{
	ur_put_be16(ip + 10, 0);
	ur_put_be16(ip + 10,
		    ur_csum_fold(ur_csum_add(0, ip, (ip[0] & 15u) * 4)));
}
