/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>

#include "setup.h"
#include "verbs/objects.h"

static void holds_its_pd(void **state)
{
	struct fixture *f = *state;
	struct ibv_ah *ah = make_ah(f);

	assert_int_equal(ibv_dealloc_pd(f->pd), EBUSY);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void refuses_what_leads_nowhere(void **state)
{
	struct fixture *f = *state;
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	assert_null(ibv_create_ah(f->pd, &attr)); /* no destination */
	assert_int_equal(errno, EINVAL);
	memcpy(attr.grh.dgid.raw, ur_fake_v4, 16);
	attr.port_num = 2;
	assert_null(ibv_create_ah(f->pd, &attr));
	attr.port_num = 1;
	attr.grh.sgid_index = 1; /* an empty entry */
	assert_null(ibv_create_ah(f->pd, &attr));
	attr.grh.sgid_index = 200;
	assert_null(ibv_create_ah(f->pd, &attr));
}

/* An IPv4 datagram from 192.0.2.9 to dst, as in a UD receive. */
static void put_ipv4(struct ibv_grh *grh, const uint8_t dst[4])
{
	/* Version 4, 20 bytes, class 0x28, UDP; checksum in bytes 10, 11 */
	uint8_t h[20] = { 0x45, 0x28, 0, 100, 0,   0, 0x40, 0,
			  64,	17,   0, 0,   192, 0, 2,    9 };
	uint32_t sum = 0;

	memcpy(h + 16, dst, 4);
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(h[i] * 256 + h[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	h[10] = (uint8_t)(~sum >> 8);
	h[11] = (uint8_t)~sum;
	memset(grh, 0x66,
	       sizeof(*grh)); /* undefined, and resembles version 6 */
	memcpy((uint8_t *)grh + 20, h, 20);
}

static const uint8_t our_v4[4] = { 192, 0, 2, 1 };

static void answers_an_ipv4_datagram(void **state)
{
	struct fixture *f = *state;
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH, .sl = 2 };
	struct ibv_ah_attr attr;
	struct ibv_grh grh;
	struct ibv_ah *ah;
	uint8_t peer[16];

	put_ipv4(&grh, our_v4);
	assert_int_equal(ibv_init_ah_from_wc(f->ctx, 1, &wc, &grh, &attr), 0);
	memcpy(peer, ur_fake_v4, 16);
	peer[15] = 9;
	assert_memory_equal(attr.grh.dgid.raw, peer, 16);
	assert_int_equal(attr.grh.sgid_index, UR_FAKE_V4_INDEX);
	assert_int_equal(attr.grh.traffic_class, 0x28);
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.port_num, 1);

	ah = ibv_create_ah_from_wc(f->pd, &wc, &grh, 1);
	assert_non_null(ah);
	assert_memory_equal(urv_ah(ah)->av.sgid, ur_fake_v4, 16);
	ibv_destroy_ah(ah);
}

static void a_wrong_checksum_is_not_ipv4(void **state)
{
	struct fixture *f = *state;
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_ah_attr attr;
	struct ibv_grh grh;

	put_ipv4(&grh, our_v4);
	((uint8_t *)&grh)[30] ^= 1;
	assert_int_equal(ibv_init_ah_from_wc(f->ctx, 1, &wc, &grh, &attr), -1);
	assert_int_equal(errno, ENOENT);
}

static void answers_an_ipv6_datagram(void **state)
{
	struct fixture *f = *state;
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_grh grh = {
		.version_tclass_flow = htobe32(0x6ab12345),
	};
	struct ibv_ah_attr attr;

	memcpy(grh.dgid.raw, ur_fake_v6, 16);
	memcpy(grh.sgid.raw, ur_fake_v6, 16);
	grh.sgid.raw[15] = 2;
	assert_int_equal(ibv_init_ah_from_wc(f->ctx, 1, &wc, &grh, &attr), 0);
	assert_memory_equal(attr.grh.dgid.raw, grh.sgid.raw, 16);
	assert_int_equal(attr.grh.sgid_index, UR_FAKE_V6_INDEX);
	assert_int_equal(attr.grh.traffic_class, 0xab);
	assert_int_equal(attr.grh.flow_label, 0x12345);
}

static void answers_a_group_from_an_own_address(void **state)
{
	static const uint8_t group[4] = { 239, 1, 1, 1 };
	struct fixture *f = *state;
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_ah_attr attr;
	struct ibv_grh grh;

	put_ipv4(&grh, group);
	assert_int_equal(ibv_init_ah_from_wc(f->ctx, 1, &wc, &grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, UR_FAKE_V4_INDEX);
}

static void answers_a_lid(void **state)
{
	struct fixture *f = *state;
	struct ibv_wc wc = { .slid = 77, .sl = 3, .dlid_path_bits = 1 };
	struct ibv_ah_attr attr;

	assert_int_equal(ibv_init_ah_from_wc(f->ctx, 1, &wc, NULL, &attr), 0);
	assert_int_equal(attr.dlid, 77);
	assert_int_equal(attr.sl, 3);
	assert_int_equal(attr.src_path_bits, 1);
	assert_int_equal(attr.is_global, 0);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(holds_its_pd),
		TEST(refuses_what_leads_nowhere),
		TEST(answers_an_ipv4_datagram),
		TEST(a_wrong_checksum_is_not_ipv4),
		TEST(answers_an_ipv6_datagram),
		TEST(answers_a_group_from_an_own_address),
		TEST(answers_a_lid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
