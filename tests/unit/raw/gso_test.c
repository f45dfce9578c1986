/* SPDX-License-Identifier: BSD-2-Clause */
/* Cutting: the packets are those that the wire would have carried. */
#include "frames.h"

#include <string.h>

#include "raw/csum.h"
#include "raw/gso.h"

#define MSS 1000u

/* A TCP packet with `payload` bytes of a pattern after 54 of headers. */
static uint32_t make_tcp(uint8_t *f, uint32_t payload)
{
	static const uint8_t head[] = {
		DST_MAC, SRC_MAC, 0x08, 0x00, 0x45, 0, 0,    0,	   0xff,
		0xff,	 0x40,	  0,	64,   6,    0, 0,    10,   0,
		0,	 1,	  10,	0,    0,    2, 0x03, 0xe8, 0x07,
		0xd0,	 0xff,	  0xff, 0xff, 0x00, 0, 0,    0,	   9,
		0x50,	 0x99,	  0xff, 0xff, 0,    0, 0,    0,
	};

	memcpy(f, head, sizeof(head));
	ur_put_be16(f + 16, (uint16_t)(40 + payload));
	for (uint32_t i = 0; i < payload; i++)
		f[54 + i] = (uint8_t)(i * 7);
	return 54 + payload;
}

static uint32_t seq_of(const uint8_t *f)
{
	return (uint32_t)ur_be16_at(f + 38) << 16 | ur_be16_at(f + 40);
}

static void check_segment(const uint8_t *s, uint32_t len, uint32_t i,
			  uint32_t payload, bool last)
{
	uint32_t n = last ? payload - i * MSS : MSS;
	struct ur_pkt p;

	assert_int_equal(len, 54 + n);
	assert_true(ur_pkt_parse(&p, s, len, 0, 0));
	assert_true(ur_csum_verify(&p.outer));
	assert_int_equal(ur_be16_at(s + 16), 40 + n);
	assert_int_equal(ur_be16_at(s + 18), (uint16_t)(0xffff + i));
	assert_int_equal(seq_of(s), 0xffffff00u + i * MSS);
	/* 0x99: CWR, ACK, PSH, FIN */
	assert_int_equal(s[47], (i ? 0 : 0x80) | 0x10 | (last ? 0x09 : 0));
	for (uint32_t k = 0; k < n; k++)
		assert_int_equal(s[54 + k], (uint8_t)((i * MSS + k) * 7));
}

static void cut_tcp(uint32_t payload)
{
	static uint8_t f[UR_FRAME_MAX], s[UR_FRAME_MAX];
	uint32_t len = make_tcp(f, payload), i = 0, n;
	struct ur_pkt p;
	struct ur_cut c;

	assert_true(ur_pkt_parse(&p, f, len, 0, 0));
	assert_true(ur_cut_init(&c, &p, MSS));
	assert_int_equal(c.count, (payload + MSS - 1) / MSS);
	while ((n = ur_cut_next(&c, s, sizeof(s)))) {
		check_segment(s, n, i, payload, i + 1 == c.count);
		i++;
	}
	assert_int_equal(i, c.count);
}

static void test_tcp(void **state)
{
	cut_tcp(1);
	cut_tcp(MSS);
	cut_tcp(MSS + 1);
	cut_tcp(3 * MSS);
	cut_tcp(64 * MSS + 999);
}

static void test_udp(void **state)
{
	uint8_t s[64];
	struct ur_pkt p;
	struct ur_cut c;

	assert_true(ur_pkt_parse(&p, udp4, sizeof(udp4), 0, 0));
	assert_true(ur_cut_init(&c, &p, 4));
	assert_int_equal(c.count, 2);
	assert_int_equal(ur_cut_next(&c, s, sizeof(s)), 46);
	assert_int_equal(ur_be16_at(s + 38), 12);
	assert_memory_equal(s + 42, "hell", 4);
	assert_int_equal(ur_cut_next(&c, s, sizeof(s)), 44);
	assert_int_equal(ur_be16_at(s + 38), 10);
	assert_true(ur_pkt_parse(&p, s, 44, 0, 0));
	assert_true(ur_csum_verify(&p.outer));
	assert_int_equal(ur_cut_next(&c, s, sizeof(s)), 0);
}

static void test_what_cannot_be_cut(void **state)
{
	uint8_t f[128], s[128];
	struct ur_pkt p;
	struct ur_cut c;
	uint32_t len = make_tcp(f, 10);

	assert_true(ur_pkt_parse(&p, f, len, 0, 0));
	assert_false(ur_cut_init(&c, &p, 0));
	assert_true(ur_cut_init(&c, &p, 4));
	assert_int_equal(ur_cut_next(&c, s, 57), 0); /* no room for 58 */
	f[46] = 0x40; /* TCP header of 16 bytes */
	assert_false(ur_cut_init(&c, &p, 4));
	f[46] = 0xf0; /* longer than the packet */
	assert_false(ur_cut_init(&c, &p, 4));
	len = make_tcp(f, 0);
	assert_true(ur_pkt_parse(&p, f, len, 0, 0));
	assert_false(ur_cut_init(&c, &p, 4));
	assert_true(ur_pkt_parse(&p, esp, sizeof(esp), 0, 0));
	assert_false(ur_cut_init(&c, &p, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp),
		cmocka_unit_test(test_udp),
		cmocka_unit_test(test_what_cannot_be_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
