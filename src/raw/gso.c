/* SPDX-License-Identifier: BSD-2-Clause */
#include "raw/gso.h"

#include <string.h>

#include "raw/csum.h"

#define TCP_FIN 0x01u
#define TCP_PSH 0x08u
#define TCP_CWR 0x80u

static uint32_t transport_len(const struct ur_hdrs *h)
{
	if (h->proto == UR_IPPROTO_UDP)
		return UR_UDP_LEN;
	return (uint32_t)(h->l4[12] >> 4) * 4;
}

bool ur_cut_init(struct ur_cut *c, const struct ur_pkt *p, uint16_t gso_size)
{
	const struct ur_hdrs *h = &p->outer;
	uint32_t len, least;

	if (!gso_size || !h->l4 || !ur_csum_offset(h->proto))
		return false;
	len = transport_len(h);
	least = h->proto == UR_IPPROTO_TCP ? UR_TCP_LEN : UR_UDP_LEN;
	if (len < least || len >= h->l4_len)
		return false;
	*c = (struct ur_cut){
		.frame = p->frame,
		.l3 = (uint32_t)((h->ipv4 ? h->ipv4 : h->ipv6) - p->frame),
		.l4 = (uint32_t)(h->l4 - p->frame),
		.size = gso_size,
		.payload = h->l4_len - len,
		.ipv4 = h->ipv4 != NULL,
		.tcp = h->proto == UR_IPPROTO_TCP,
	};
	c->hdr_len = c->l4 + len;
	c->count = (c->payload + c->size - 1) / c->size;
	return true;
}

static void fix_ip(const struct ur_cut *c, uint8_t *buf, uint32_t len)
{
	uint8_t *ip = buf + c->l3;

	if (!c->ipv4) {
		ur_put_be16(ip + 4, (uint16_t)(len - c->l3 - UR_IPV6_LEN));
		return;
	}
	ur_put_be16(ip + 2, (uint16_t)(len - c->l3));
	ur_put_be16(ip + 4, (uint16_t)(ur_be16_at(ip + 4) + c->next));
	ur_csum_ipv4(ip);
}

/* FIN and PSH belong to the last segment, CWR to the first. */
static void fix_tcp(const struct ur_cut *c, uint8_t *l4)
{
	uint32_t seq = (uint32_t)ur_be16_at(l4 + 4) << 16 | ur_be16_at(l4 + 6);

	seq += c->next * c->size;
	ur_put_be16(l4 + 4, (uint16_t)(seq >> 16));
	ur_put_be16(l4 + 6, (uint16_t)seq);
	if (c->next + 1 < c->count)
		l4[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
	if (c->next > 0)
		l4[13] &= (uint8_t)~TCP_CWR;
}

uint32_t ur_cut_next(struct ur_cut *c, uint8_t *buf, uint32_t cap)
{
	uint32_t off = c->next * c->size, n, len, l4_len;
	struct ur_hdrs h = { .proto =
				     c->tcp ? UR_IPPROTO_TCP : UR_IPPROTO_UDP };
	uint8_t *l4 = buf + c->l4;

	if (c->next >= c->count)
		return 0;
	n = c->payload - off < c->size ? c->payload - off : c->size;
	len = c->hdr_len + n;
	if (len > cap || len - c->l3 > 0xffff)
		return 0;
	memcpy(buf, c->frame, c->hdr_len);
	memcpy(buf + c->hdr_len, c->frame + c->hdr_len + off, n);
	fix_ip(c, buf, len);
	l4_len = len - c->l4;
	if (c->tcp)
		fix_tcp(c, l4);
	else
		ur_put_be16(l4 + 4, (uint16_t)l4_len);
	h.ipv4 = c->ipv4 ? buf + c->l3 : NULL;
	h.ipv6 = c->ipv4 ? NULL : buf + c->l3;
	ur_put_be16(l4 + ur_csum_offset(h.proto),
		    (uint16_t)~ur_csum_fold(ur_csum_pseudo(&h, l4_len)));
	(void)ur_csum_complete(buf, len, c->l4, ur_csum_offset(h.proto));
	c->next++;
	return len;
}
