/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <string.h>

#include "base/crc.h"
#include "base/rng.h"

/* The definition, bit by bit. */
static uint32_t crc_bitwise(uint32_t crc, const uint8_t *p, size_t len)
{
	crc = ~crc;
	while (len--) {
		crc ^= *p++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? (crc >> 1) ^ 0xedb88320u : crc >> 1;
	}
	return ~crc;
}

static void fill(uint8_t *p, size_t len, uint64_t seed)
{
	struct ur_rng r;

	ur_rng_seed(&r, seed);
	while (len--)
		*p++ = (uint8_t)ur_rng_next(&r);
}

static void check_value(void **state)
{
	assert_int_equal(ur_crc32(0, "123456789", 9), 0xcbf43926u);
	assert_int_equal(ur_crc32(0, "", 0), 0);
	assert_int_equal(ur_crc32(0xdeadbeefu, "", 0), 0xdeadbeefu);
}

/* Short ones go through tables, long ones through ISA-L. */
static void every_length_and_alignment(void **state)
{
	uint8_t buf[600];

	fill(buf, sizeof(buf), 1);
	for (size_t len = 0; len < 520; len++)
		for (size_t at = 0; at < 9; at++)
			assert_int_equal(ur_crc32(0x1234, buf + at, len),
					 crc_bitwise(0x1234, buf + at, len));
}

static void in_pieces(void **state)
{
	uint8_t buf[300];
	uint32_t whole;

	fill(buf, sizeof(buf), 2);
	whole = ur_crc32(0, buf, sizeof(buf));
	for (size_t cut = 0; cut <= sizeof(buf); cut++)
		assert_int_equal(ur_crc32(ur_crc32(0, buf, cut), buf + cut,
					  sizeof(buf) - cut),
				 whole);
}

static void shift_moves_a_difference(void **state)
{
	static const size_t lens[] = { 0,    1,	    2,	   3,	 4,
				       7,    8,	    15,	   16,	 20,
				       255,  256,   257,   1024, 4096,
				       4139, 65535, 65536, 70000 };
	static uint8_t buf[70000];

	fill(buf, sizeof(buf), 3);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		uint32_t a = 0x01020304u;
		uint32_t b = 0xcafebabeu;
		uint32_t after =
			ur_crc32(a, buf, lens[i]) ^ ur_crc32(b, buf, lens[i]);

		assert_int_equal(ur_crc32_shift(a ^ b, lens[i]), after);
		assert_int_equal(ur_crc32_unshift(after, lens[i]), a ^ b);
	}
}

/* x^(2^32 - 1) is 1: shifts beyond 32 bits of length wrap around. */
static void shift_by_huge_lengths(void **state)
{
	uint32_t d = 0x13579bdfu;

	assert_int_equal(ur_crc32_shift(d, 0xffffffffu), d);
	assert_int_equal(ur_crc32_shift(d, (1ull << 32) + 5),
			 ur_crc32_shift(d, 6));
	assert_int_equal(
		ur_crc32_unshift(ur_crc32_shift(d, SIZE_MAX), SIZE_MAX), d);
}

static void product_is_a_shift(void **state)
{
	struct ur_rng r;

	ur_rng_seed(&r, 4);
	for (int i = 0; i < 1000; i++) {
		uint32_t d = (uint32_t)ur_rng_next(&r);
		uint32_t e = (uint32_t)ur_rng_next(&r);
		size_t len = ur_rng_below(&r, 10000);
		uint32_t factor = ur_crc32_shift(UR_CRC32_ONE, len);

		assert_int_equal(ur_crc32_times(d, UR_CRC32_ONE), d);
		assert_int_equal(ur_crc32_times(d, factor),
				 ur_crc32_shift(d, len));
		assert_int_equal(ur_crc32_times(d, e), ur_crc32_times(e, d));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_value),
		cmocka_unit_test(every_length_and_alignment),
		cmocka_unit_test(in_pieces),
		cmocka_unit_test(shift_moves_a_difference),
		cmocka_unit_test(shift_by_huge_lengths),
		cmocka_unit_test(product_is_a_shift),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
