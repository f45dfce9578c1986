/* SPDX-License-Identifier: BSD-2-Clause */
#include "raw/toeplitz.h"

#include <string.h>

uint32_t ur_toeplitz(const uint8_t key[UR_RSS_KEY_LEN], const uint8_t *data,
		     uint32_t len)
{
	uint32_t window = (uint32_t)ur_be16_at(key) << 16 | ur_be16_at(key + 2);
	uint32_t hash = 0;

	for (uint32_t i = 0; i < len; i++) {
		uint8_t next = key[(i + 4) % UR_RSS_KEY_LEN];

		for (int bit = 7; bit >= 0; bit--) {
			if (data[i] >> bit & 1)
				hash ^= window;
			window = window << 1 | (next >> bit & 1);
		}
	}
	return hash;
}

struct input {
	uint8_t data[40];
	uint32_t len;
};

static void add(struct input *in, bool wanted, const uint8_t *field,
		uint32_t len)
{
	if (!wanted)
		return;
	memcpy(in->data + in->len, field, len);
	in->len += len;
}

static void add_ports(struct input *in, const struct ur_hdrs *h,
		      uint64_t fields, uint64_t src, uint64_t dst)
{
	add(in, fields & src, h->l4, 2);
	add(in, fields & dst, h->l4 + 2, 2);
}

uint32_t ur_rss_hash(const struct ur_rss *rss, const struct ur_pkt *p)
{
	const struct ur_hdrs *h =
		rss->fields & UR_RSS_INNER ? &p->inner : &p->outer;
	struct input in = { .len = 0 };
	uint64_t f = rss->fields;

	if (h->ipv4) {
		add(&in, f & UR_RSS_SRC_IPV4, h->ipv4 + 12, 4);
		add(&in, f & UR_RSS_DST_IPV4, h->ipv4 + 16, 4);
	} else if (h->ipv6) {
		add(&in, f & UR_RSS_SRC_IPV6, h->ipv6 + 8, 16);
		add(&in, f & UR_RSS_DST_IPV6, h->ipv6 + 24, 16);
	}
	if (h->l4 && h->proto == UR_IPPROTO_TCP)
		add_ports(&in, h, f, UR_RSS_SRC_PORT_TCP, UR_RSS_DST_PORT_TCP);
	else if (h->l4 && h->proto == UR_IPPROTO_UDP)
		add_ports(&in, h, f, UR_RSS_SRC_PORT_UDP, UR_RSS_DST_PORT_UDP);
	else if (h->l4 && h->proto == UR_IPPROTO_ESP)
		add(&in, f & UR_RSS_IPSEC_SPI, h->l4, 4);
	return ur_toeplitz(rss->key, in.data, in.len);
}
