/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <endian.h>

#include "setup.h"

static void the_device_reports_its_limits(void **state)
{
	struct fixture *f = *state;
	struct ibv_device_attr a;

	assert_int_equal(ibv_query_device(f->ctx, &a), 0);
	assert_int_equal(be64toh(a.node_guid), 0x0200c0fffe000201ull);
	assert_int_equal(a.sys_image_guid, a.node_guid);
	assert_int_equal(ibv_get_device_guid(f->list[0]), a.node_guid);
	assert_int_equal(a.max_qp_wr, 16384);
	assert_true(a.max_sge >= 32);
	assert_int_equal(a.max_cqe, 4194303);
	assert_int_equal(a.max_qp_rd_atom, 128);
	assert_int_equal(a.atomic_cap, IBV_ATOMIC_HCA);
	assert_int_equal(a.phys_port_cnt, 1);
	/* Not one of the vendors that programs treat specially */
	assert_int_not_equal(a.vendor_id, 0);
	assert_int_not_equal(a.vendor_id, 0x1d0f);
	assert_int_not_equal(a.vendor_id, 5157);
	assert_int_not_equal(a.vendor_id, 0x8086);
	assert_int_equal(a.vendor_part_id, 4119);
}

static void extended_attributes_end_at_the_callers_size(void **state)
{
	struct fixture *f = *state;
	struct verbs_context *v = verbs_get_ctx(f->ctx);
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	uint8_t raw[sizeof(struct ibv_device_attr_ex) + 32];
	struct ibv_device_attr_ex a;
	struct ibv_device_attr orig;

	assert_int_equal(ibv_query_device_ex(f->ctx, NULL, &a), 0);
	ibv_query_device(f->ctx, &orig);
	assert_memory_equal(&a.orig_attr, &orig, sizeof(orig));
	assert_int_equal(a.hca_core_clock, 1000000);
	assert_int_equal(a.completion_timestamp_mask, UINT64_MAX);
	assert_int_equal(a.phys_port_cnt_ex, 1);
	/* The kernel's FLUSH_GLOBAL and ATOMIC_WRITE */
	assert_int_equal(a.device_cap_flags_ex,
			 orig.device_cap_flags | 1ull << 38 | 1ull << 40);

	memset(raw, 0xee, sizeof(raw));
	assert_int_equal(v->query_device_ex(f->ctx, NULL, (void *)raw, 240), 0);
	assert_int_equal(raw[240], 0xee);
	assert_int_equal(
		v->query_device_ex(f->ctx, NULL, (void *)raw, sizeof(raw)), 0);
	assert_int_equal(raw[sizeof(raw) - 1], 0);
	assert_int_equal(v->query_device_ex(f->ctx, &input, &a, sizeof(a)),
			 EINVAL);
}

static void the_port_reports_its_state(void **state)
{
	struct fixture *f = *state;
	struct ibv_port_attr a;

	assert_int_equal(ibv_query_port(f->ctx, 1, &a), 0);
	assert_int_equal(a.state, IBV_PORT_ACTIVE);
	assert_int_equal(a.max_mtu, IBV_MTU_4096);
	assert_int_equal(a.active_mtu, IBV_MTU_1024);
	assert_int_equal(a.gid_tbl_len, 64);
	assert_int_equal(a.pkey_tbl_len, 1);
	assert_int_equal(a.lid, 0x0201);
	assert_int_equal(a.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(a.max_msg_sz, 1u << 31);
	assert_int_equal(a.active_width, 2); /* 100 Gbit/s: four of 25 */
	assert_int_equal(a.active_speed, 32);
	assert_int_equal(a.bad_pkey_cntr, UR_FAKE_BAD_PKEYS);
	assert_int_equal(a.qkey_viol_cntr, UR_FAKE_BAD_QKEYS);
	assert_int_equal(ibv_query_port(f->ctx, 0, &a), EINVAL);
	assert_int_equal(ibv_query_port(f->ctx, 2, &a), EINVAL);
}

/* NCCL passes its own, longer structure to ibv_query_port@IBVERBS_1.1. */
static void the_plain_symbol_writes_48_bytes(void **state)
{
	struct fixture *f = *state;
	int (*query)(struct ibv_context *, uint8_t, void *);
	uint8_t raw[64];

	*(void **)&query =
		dlvsym(RTLD_DEFAULT, "ibv_query_port", "IBVERBS_1.1");
	assert_non_null(query);
	memset(raw, 0xee, sizeof(raw));
	assert_int_equal(query(f->ctx, 1, raw), 0);
	assert_int_equal(raw[46], IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(raw[47], 0);
	for (size_t i = 48; i < sizeof(raw); i++)
		assert_int_equal(raw[i], 0xee);
}

static void port_attributes_end_at_the_callers_size(void **state)
{
	static const size_t lens[] = { 48, 52, 56, 72 };
	struct fixture *f = *state;
	struct verbs_context *v = verbs_get_ctx(f->ctx);
	uint8_t raw[80];
	uint32_t speed;

	for (size_t i = 0; i < 4; i++) {
		memset(raw, 0xee, sizeof(raw));
		assert_int_equal(v->query_port(f->ctx, 1, (void *)raw, lens[i]),
				 0);
		for (size_t at = 47; at < sizeof(raw); at++)
			if (at < 52 || at >= 56)
				assert_int_equal(raw[at],
						 at < lens[i] ? 0 : 0xee);
	}
	memcpy(&speed, raw + 52, sizeof(speed));
	assert_int_equal(speed, 32); /* active_speed_ex */
}

static void newer_calls_work_or_are_refused(void **state)
{
	struct fixture *f = *state;
	int (*port_speed)(struct ibv_context *, uint32_t, uint64_t *);
	void *(*comp_cntr)(void *, void *);
	uint64_t speed;

	*(void **)&port_speed =
		dlvsym(RTLD_DEFAULT, "ibv_query_port_speed", "IBVERBS_1.16");
	assert_int_equal(port_speed(f->ctx, 1, &speed), 0);
	assert_int_equal(speed, 1000); /* of 100 Mbit/s */
	assert_int_equal(port_speed(f->ctx, 2, &speed), EINVAL);
	*(void **)&comp_cntr =
		dlvsym(RTLD_DEFAULT, "ibv_create_comp_cntr", "IBVERBS_1.18");
	errno = 0;
	assert_null(comp_cntr(f->ctx, NULL));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void the_raw_clock_counts_nanoseconds(void **state)
{
	struct fixture *f = *state;
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	assert_int_equal(ibv_query_rt_values_ex(f->ctx, &v), 0);
	assert_int_equal(v.raw_clock.tv_nsec, UR_FAKE_NOW_NS);
	assert_int_equal(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	v.comp_mask = 2;
	assert_int_equal(ibv_query_rt_values_ex(f->ctx, &v), EOPNOTSUPP);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_device_reports_its_limits),
		TEST(extended_attributes_end_at_the_callers_size),
		TEST(the_port_reports_its_state),
		TEST(the_plain_symbol_writes_48_bytes),
		TEST(port_attributes_end_at_the_callers_size),
		TEST(newer_calls_work_or_are_refused),
		TEST(the_raw_clock_counts_nanoseconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
