/* SPDX-License-Identifier: BSD-2-Clause */
/* Positions of headers in frames, and no header where the frame ends. */
#include "frames.h"

#include <stdlib.h>
#include <string.h>

#include "raw/csum.h"
#include "raw/pkt.h"

static void parse(struct ur_pkt *p, const uint8_t *f, size_t len)
{
	assert_true(ur_pkt_parse(p, f, (uint32_t)len, 0, 0));
}

#define PARSE(p, frame) parse(p, frame, sizeof(frame))

static void test_udp4(void **state)
{
	struct ur_pkt p;

	PARSE(&p, udp4);
	assert_ptr_equal(p.outer.macs, udp4);
	assert_int_equal(p.outer.type, 0x0800);
	assert_ptr_equal(p.outer.ipv4, udp4 + 14);
	assert_null(p.outer.ipv6);
	assert_int_equal(p.outer.proto, 17);
	assert_ptr_equal(p.outer.l4, udp4 + 34);
	assert_int_equal(p.outer.l4_len, 14);
	assert_false(p.outer.tagged);
	assert_int_equal(p.tpid, 0);
	assert_int_equal(p.l2, 12);
	assert_null(p.inner.ipv4);
}

static void test_tag_in_the_frame_and_beside_it(void **state)
{
	struct ur_pkt p;

	PARSE(&p, udp4_vlan);
	assert_true(p.outer.tagged);
	assert_int_equal(p.outer.tci, 0xac0c);
	assert_int_equal(p.tpid, 0x8100);
	assert_int_equal(p.l2, 16);
	assert_ptr_equal(p.outer.ipv4, udp4_vlan + 18);

	assert_true(ur_pkt_parse(&p, udp4, sizeof(udp4), 0x88a8, 5));
	assert_true(p.outer.tagged);
	assert_int_equal(p.outer.tci, 5);
	assert_int_equal(p.tpid, 0x88a8);
	assert_int_equal(p.l2, 12);
}

static void test_extensions_of_ipv6(void **state)
{
	struct ur_pkt p;

	PARSE(&p, tcp6);
	assert_ptr_equal(p.outer.ipv6, tcp6 + 14);
	assert_int_equal(p.outer.proto, 6);
	assert_ptr_equal(p.outer.l4, tcp6 + 14 + 48);
	assert_int_equal(p.outer.l4_len, 20);
}

static void test_tunnels(void **state)
{
	struct ur_pkt p;

	PARSE(&p, vxlan);
	assert_ptr_equal(p.vxlan, vxlan + 42);
	assert_ptr_equal(p.inner.macs, vxlan + 50);
	assert_ptr_equal(p.inner.ipv4, vxlan + 64);
	assert_int_equal(p.inner.l4_len, 14);

	PARSE(&p, gre);
	assert_ptr_equal(p.gre, gre + 34);
	assert_int_equal(p.gre_len, 12);
	assert_null(p.inner.macs);
	assert_ptr_equal(p.inner.ipv4, gre + 46);

	PARSE(&p, mpls);
	assert_ptr_equal(p.outer.mpls, mpls + 14);
	assert_ptr_equal(p.inner.ipv4, mpls + 22);
	assert_null(p.outer.ipv4);
}

static void test_fragments_have_no_ports(void **state)
{
	uint8_t f[sizeof(udp4)];
	struct ur_pkt p;

	memcpy(f, udp4, sizeof(f));
	f[14 + 6] = 0x20; /* more fragments */
	PARSE(&p, f);
	assert_true(p.outer.fragment);
	assert_null(p.outer.l4);
	f[14 + 6] = 0;
	f[14 + 7] = 9; /* offset */
	PARSE(&p, f);
	assert_null(p.outer.l4);
	f[14 + 6] = 0x40; /* DF alone is no fragment */
	f[14 + 7] = 0;
	PARSE(&p, f);
	assert_non_null(p.outer.l4);
}

/* Padding to Ethernet's minimum after the packet. */
static void test_padding(void **state)
{
	uint8_t f[60] = { 0 };
	struct ur_pkt p;

	memcpy(f, udp4, sizeof(udp4));
	PARSE(&p, f);
	assert_int_equal(p.outer.l4_len, 14);
}

static void check_within(const struct ur_pkt *p, const uint8_t *at,
			 uint32_t len)
{
	if (!at)
		return;
	assert_true(at >= p->frame);
	assert_true(at + len <= p->frame + p->len);
}

static void check_hdrs(const struct ur_pkt *p, const struct ur_hdrs *h)
{
	check_within(p, h->macs, 12);
	check_within(p, h->ipv4, 20);
	check_within(p, h->ipv6, 40);
	check_within(p, h->l4, h->l4_len);
	check_within(p, h->mpls, 4);
}

/* Each frame truncated at each byte, in a buffer of that size (ASan). */
static void test_every_truncation(void **state)
{
	static const struct {
		const uint8_t *f;
		size_t len;
	} all[] = {
		{ udp4, sizeof(udp4) }, { udp4_vlan, sizeof(udp4_vlan) },
		{ tcp6, sizeof(tcp6) }, { vxlan, sizeof(vxlan) },
		{ gre, sizeof(gre) },	{ mpls, sizeof(mpls) },
		{ esp, sizeof(esp) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		for (size_t n = 1; n <= all[i].len; n++) {
			uint8_t *f = malloc(n);
			struct ur_pkt p;

			memcpy(f, all[i].f, n);
			assert_int_equal(ur_pkt_parse(&p, f, (uint32_t)n, 0, 0),
					 n >= 14);
			check_hdrs(&p, &p.outer);
			check_hdrs(&p, &p.inner);
			check_within(&p, p.vxlan, 8);
			check_within(&p, p.gre, p.gre_len);
			free(f);
		}
}

static void test_sums(void **state)
{
	uint8_t f[sizeof(udp4)];
	struct ur_pkt p;

	/* RFC 1071, 3 */
	static const uint8_t rfc[] = { 0x00, 0x01, 0xf2, 0x03,
				       0xf4, 0xf5, 0xf6, 0xf7 };

	assert_int_equal(ur_csum_fold(ur_csum_add(0, rfc, 8)), 0x220d);
	assert_int_equal(ur_csum_fold(ur_csum_add(0, rfc, 3)),
			 (uint16_t)~0xf201);
	memcpy(f, udp4, sizeof(f));
	PARSE(&p, f);
	assert_true(ur_csum_verify(&p.outer));
	f[45] ^= 1;
	assert_false(ur_csum_verify(&p.outer));
	f[45] ^= 1;
	f[14 + 8]--; /* TTL */
	assert_false(ur_csum_verify(&p.outer));
	f[14 + 8]++;
	f[40] = 0; /* none at all */
	f[41] = 0;
	assert_true(ur_csum_verify(&p.outer));
	PARSE(&p, tcp6);
	assert_false(ur_csum_verify(&p.outer));
}

static void test_sum_to_be_completed(void **state)
{
	uint8_t f[sizeof(udp4)];
	struct ur_pkt p;

	memcpy(f, udp4, sizeof(f));
	PARSE(&p, f);
	ur_put_be16(f + 40,
		    (uint16_t)~ur_csum_fold(ur_csum_pseudo(&p.outer, 14)));
	assert_false(ur_csum_verify(&p.outer));
	assert_true(ur_csum_complete(f, sizeof(f), 34, 6));
	assert_memory_equal(f, udp4, sizeof(f));
	assert_false(ur_csum_complete(f, sizeof(f), sizeof(f), 0));
	assert_false(ur_csum_complete(f, sizeof(f), 34, 13));
	assert_false(ur_csum_complete(f, sizeof(f), 34, 0xffff));
	assert_false(ur_csum_complete(f, sizeof(f), 0xffff, 0xffff));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_udp4),
		cmocka_unit_test(test_tag_in_the_frame_and_beside_it),
		cmocka_unit_test(test_extensions_of_ipv6),
		cmocka_unit_test(test_tunnels),
		cmocka_unit_test(test_fragments_have_no_ports),
		cmocka_unit_test(test_padding),
		cmocka_unit_test(test_every_truncation),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_sum_to_be_completed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
