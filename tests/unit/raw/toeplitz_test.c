/* SPDX-License-Identifier: BSD-2-Clause */
/* The vectors of Microsoft's "Verifying the RSS Hash Calculation". */
#include "frames.h"

#include <string.h>

#include "raw/toeplitz.h"

static const uint8_t key[UR_RSS_KEY_LEN] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
	0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
	0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static const struct {
	uint8_t src[4];
	uint8_t dst[4];
	uint16_t sport;
	uint16_t dport;
	uint32_t with_ports;
	uint32_t addresses;
} v4[] = {
	{ { 66, 9, 149, 187 },
	  { 161, 142, 100, 80 },
	  2794,
	  1766,
	  0x51ccc178,
	  0x323e8fc2 },
	{ { 199, 92, 111, 2 },
	  { 65, 69, 140, 83 },
	  14230,
	  4739,
	  0xc626b0ea,
	  0xd718262a },
	{ { 24, 19, 198, 95 },
	  { 12, 22, 207, 184 },
	  12898,
	  38024,
	  0x5c2b394a,
	  0xd2d0a5de },
};

#define V4  (UR_RSS_SRC_IPV4 | UR_RSS_DST_IPV4)
#define V6  (UR_RSS_SRC_IPV6 | UR_RSS_DST_IPV6)
#define UDP (UR_RSS_SRC_PORT_UDP | UR_RSS_DST_PORT_UDP)
#define TCP (UR_RSS_SRC_PORT_TCP | UR_RSS_DST_PORT_TCP)

static uint32_t hash(const uint8_t *f, size_t len, uint64_t fields)
{
	struct ur_rss rss = { .fields = fields };
	struct ur_pkt p;

	memcpy(rss.key, key, sizeof(key));
	assert_true(ur_pkt_parse(&p, f, (uint32_t)len, 0, 0));
	return ur_rss_hash(&rss, &p);
}

static void test_ipv4(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(v4); i++) {
		uint8_t f[sizeof(udp4)];

		memcpy(f, udp4, sizeof(f));
		memcpy(f + 26, v4[i].src, 4);
		memcpy(f + 30, v4[i].dst, 4);
		ur_put_be16(f + 34, v4[i].sport);
		ur_put_be16(f + 36, v4[i].dport);
		assert_int_equal(hash(f, sizeof(f), V4), v4[i].addresses);
		assert_int_equal(hash(f, sizeof(f), V4 | UDP),
				 v4[i].with_ports);
		assert_int_equal(hash(f, sizeof(f), V4 | TCP | V6),
				 v4[i].addresses);
	}
}

/* 3ffe:2501:200:1fff::7, 2794 -> 3ffe:2501:200:3::1, 1766 */
static void test_ipv6(void **state)
{
	static const uint8_t src[16] = { 0x3f, 0xfe, 0x25, 0x01,    0x02,
					 0x00, 0x1f, 0xff, [15] = 7 };
	static const uint8_t dst[16] = { 0x3f, 0xfe, 0x25, 0x01,    0x02,
					 0x00, 0x00, 0x03, [15] = 1 };
	uint8_t f[sizeof(tcp6)];

	memcpy(f, tcp6, sizeof(f));
	memcpy(f + 22, src, 16);
	memcpy(f + 38, dst, 16);
	ur_put_be16(f + 62, 2794);
	ur_put_be16(f + 64, 1766);
	assert_int_equal(hash(f, sizeof(f), V6), 0x2cc18cd5);
	assert_int_equal(hash(f, sizeof(f), V6 | TCP), 0x40207d3d);
}

static void test_other_fields(void **state)
{
	uint8_t spi[4] = { 0xde, 0xad, 0xbe, 0xef };

	assert_int_equal(hash(esp, sizeof(esp), UR_RSS_IPSEC_SPI),
			 ur_toeplitz(key, spi, 4));
	assert_int_equal(hash(udp4, sizeof(udp4), V6), 0);
	assert_int_equal(hash(udp4, sizeof(udp4), 0), 0);
	/* Of the packet within the tunnel */
	assert_int_equal(hash(vxlan, sizeof(vxlan), UR_RSS_INNER | V4 | UDP),
			 hash(udp4, sizeof(udp4), V4 | UDP));
}

/* All 36 bytes of the longest input, with every bit set: the key's last bit
 * counts. */
static void test_longest_input(void **state)
{
	uint8_t data[36], k[UR_RSS_KEY_LEN] = { [39] = 1 };

	memset(data, 0xff, sizeof(data));
	assert_int_equal(ur_toeplitz(k, data, 36), 0);
	k[39] = 2;
	assert_int_equal(ur_toeplitz(k, data, 36), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ipv4),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_other_fields),
		cmocka_unit_test(test_longest_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
