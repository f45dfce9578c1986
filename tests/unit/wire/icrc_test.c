/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "base/addr.h"
#include "base/crc.h"
#include "base/rng.h"
#include "wire/icrc.h"

static const struct ur_icrc_flow flow4 = {
	.src = { [10] = 0xff, [11] = 0xff, 10, 77, 0, 2 },
	.dst = { [10] = 0xff, [11] = 0xff, 10, 77, 0, 3 },
	.sport = 0xc123,
	.dport = 4791,
};

static const struct ur_icrc_flow flow6 = {
	.src = { 0xfe, 0x80, [15] = 2 },
	.dst = { 0xfe, 0x80, [15] = 3 },
	.sport = 0xc123,
	.dport = 4791,
};

static uint32_t crc_bitwise(const uint8_t *p, size_t len)
{
	uint32_t crc = 0xffffffffu;

	while (len--) {
		crc ^= *p++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? (crc >> 1) ^ 0xedb88320u : crc >> 1;
	}
	return ~crc;
}

/* The whole pseudo packet of IBTA A17.3.3 for IPv4, byte by byte. */
static uint32_t reference(const uint8_t *pkt, size_t udp_len, uint16_t id)
{
	uint8_t b[8192] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* no LRH */
		0x45, 0xff, 0,	  0,	0,    0,    0x40, 0,	0xff, 17,
		0xff, 0xff, 10,	  77,	0,    2,    10,	  77,	0,    3,
		0xc1, 0x23, 0x12, 0xb7, 0,    0,    0xff, 0xff,
	};
	size_t total = 28 + udp_len;

	b[10] = (uint8_t)(total >> 8);
	b[11] = (uint8_t)total;
	b[12] = (uint8_t)(id >> 8);
	b[13] = (uint8_t)id;
	b[32] = (uint8_t)((total - 20) >> 8);
	b[33] = (uint8_t)(total - 20);
	memcpy(b + 36, pkt, udp_len - 4);
	b[36 + 4] = 0xff;
	return crc_bitwise(b, 36 + udp_len - 4);
}

static void fill(uint8_t *pkt, size_t len)
{
	struct ur_rng r;

	ur_rng_seed(&r, len);
	while (len--)
		*pkt++ = (uint8_t)ur_rng_next(&r);
}

static void put_icrc(uint8_t *pkt, size_t udp_len, uint16_t id)
{
	uint32_t crc = reference(pkt, udp_len, id);

	for (int i = 0; i < 4; i++)
		pkt[udp_len - 4 + i] = (uint8_t)(crc >> 8 * i);
}

static bool check(const struct ur_icrc_flow *flow, const uint8_t *pkt,
		  size_t udp_len, uint16_t id, bool *exact)
{
	static struct ur_icrc_cache cache;

	return ur_icrc_check(flow, ur_icrc_prefix(flow, udp_len), &cache, pkt,
			     udp_len, id, exact);
}

static void agrees_with_the_definition(void **state)
{
	static const size_t lens[] = { 16, 20, 44, 64, 272, 1040, 4116 };
	static const uint16_t ids[] = { 0,	1,	2,	0x00ff,
					0x0100, 0x8000, 0xbeef, 0xffff };
	uint8_t pkt[4200];
	bool exact;

	for (size_t l = 0; l < sizeof(lens) / sizeof(lens[0]); l++) {
		fill(pkt, lens[l]);
		for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
			put_icrc(pkt, lens[l], ids[i]);
			exact = false;
			assert_true(
				check(&flow4, pkt, lens[l], ids[i], &exact));
			assert_true(exact);
			assert_true(check(&flow4, pkt, lens[l], 0, &exact));
			assert_int_equal(exact, ids[i] == 0);
		}
	}
}

static void every_id_is_accepted_hidden(void **state)
{
	const size_t len = 16;
	uint8_t pkt[16];

	fill(pkt, len);
	for (unsigned int id = 0; id <= 0xffff; id += 13) {
		put_icrc(pkt, len, (uint16_t)id);
		assert_true(check(&flow4, pkt, len, 7, NULL));
	}
}

/* Of random ICRCs one in 65536 corresponds to some identification: 2^22 tries
 * expect 64. */
static void sixteen_bits_are_left(void **state)
{
	unsigned int passed = 0;
	uint8_t pkt[64];
	struct ur_rng r;

	fill(pkt, sizeof(pkt));
	ur_rng_seed(&r, 99);
	for (int i = 0; i < 1 << 22; i++) {
		uint32_t crc = (uint32_t)ur_rng_next(&r);

		memcpy(pkt + 60, &crc, 4);
		passed += check(&flow4, pkt, sizeof(pkt), 0, NULL);
	}
	assert_in_range(passed, 40, 90);
}

/*
 * An ICRC that is valid over IPv4 with another identification fails over IPv6.
 */
static void ipv6_has_no_id(void **state)
{
	uint8_t pkt[64];
	uint32_t crc;
	bool exact;

	assert_int_equal(ur_icrc_prefix_id(&flow6, 77), 0);
	fill(pkt, sizeof(pkt));
	crc = ur_icrc_run(ur_icrc_prefix(&flow6, sizeof(pkt)), pkt, 12);
	crc = ur_crc32(crc, pkt + 12, 48);
	memcpy(pkt + 60, &crc, 4);
	assert_true(check(&flow6, pkt, sizeof(pkt), 77, &exact));
	assert_true(exact);
	for (unsigned int id = 1; id <= 0xffff; id++) {
		uint32_t wrong = crc ^ ur_crc32_shift(id, 24 + 60);

		memcpy(pkt + 60, &wrong, 4);
		assert_false(check(&flow6, pkt, sizeof(pkt), 0, NULL));
	}
}

static void prefix_id_is_the_difference(void **state)
{
	uint8_t pkt[16];
	uint32_t base, with;

	fill(pkt, sizeof(pkt));
	base = ur_icrc_prefix(&flow4, sizeof(pkt));
	for (unsigned int id = 0; id < 0x10000; id += 257) {
		with = ur_icrc_run(base ^ ur_icrc_prefix_id(&flow4,
							    (uint16_t)id),
				   pkt, 12);
		assert_int_equal(with, reference(pkt, 16, (uint16_t)id));
	}
}

static void too_short_is_refused(void **state)
{
	uint8_t pkt[16] = { 0 };

	for (size_t len = 0; len < 16; len++)
		assert_false(check(&flow4, pkt, len, 0, NULL));
}

static void mapped_addresses(void **state)
{
	static const uint8_t any[16] = { 0 };

	assert_true(ur_addr_is_v4(flow4.src));
	assert_false(ur_addr_is_v4(flow6.src));
	assert_false(ur_addr_is_v4(any));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_the_definition),
		cmocka_unit_test(every_id_is_accepted_hidden),
		cmocka_unit_test(sixteen_bits_are_left),
		cmocka_unit_test(ipv6_has_no_id),
		cmocka_unit_test(prefix_id_is_the_difference),
		cmocka_unit_test(too_short_is_refused),
		cmocka_unit_test(mapped_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
