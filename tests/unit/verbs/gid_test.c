/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>

#include "setup.h"

static void every_index_answers(void **state)
{
	static const uint8_t zero[16];
	struct fixture *f = *state;
	union ibv_gid gid;

	for (int i = 0; i < 64; i++) {
		const uint8_t *want = i == UR_FAKE_V4_INDEX   ? ur_fake_v4
				      : i == UR_FAKE_V6_INDEX ? ur_fake_v6
							      : zero;

		assert_int_equal(ibv_query_gid(f->ctx, 1, i, &gid), 0);
		assert_memory_equal(gid.raw, want, 16);
	}
	assert_int_equal(ibv_query_gid(f->ctx, 1, 64, &gid), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_gid(f->ctx, 1, -1, &gid), -1);
	assert_int_equal(ibv_query_gid(f->ctx, 0, 0, &gid), -1);
	assert_int_equal(ibv_query_gid(f->ctx, 2, 0, &gid), -1);
}

static void entries_have_type_and_interface(void **state)
{
	struct fixture *f = *state;
	struct ibv_gid_entry e;

	assert_int_equal(ibv_query_gid_ex(f->ctx, 1, UR_FAKE_V6_INDEX, &e, 0),
			 0);
	assert_memory_equal(e.gid.raw, ur_fake_v6, 16);
	assert_int_equal(e.gid_index, UR_FAKE_V6_INDEX);
	assert_int_equal(e.port_num, 1);
	assert_int_equal(e.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(e.ndev_ifindex, 7);
	assert_int_equal(ibv_query_gid_ex(f->ctx, 1, 1, &e, 0), ENODATA);
	assert_int_equal(ibv_query_gid_ex(f->ctx, 1, 64, &e, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(f->ctx, 1, 0, &e, 1), EOPNOTSUPP);
}

static void the_table_has_the_valid_ones(void **state)
{
	struct fixture *f = *state;
	struct ibv_gid_entry e[4];

	assert_int_equal(ibv_query_gid_table(f->ctx, e, 4, 0), 2);
	assert_int_equal(e[0].gid_index, UR_FAKE_V4_INDEX);
	assert_int_equal(e[1].gid_index, UR_FAKE_V6_INDEX);
	assert_int_equal(ibv_query_gid_table(f->ctx, e, 2, 0), 2);
	assert_int_equal(ibv_query_gid_table(f->ctx, e, 1, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(f->ctx, e, 0, 0), -EINVAL);
}

/* Callers built with a newer library pass longer entries. */
static void the_callers_entry_size_counts(void **state)
{
	struct fixture *f = *state;
	uint8_t table[3 * 40];
	struct ibv_gid_entry e;

	memset(table, 0xee, sizeof(table));
	assert_int_equal(_ibv_query_gid_table(f->ctx,
					      (struct ibv_gid_entry *)table, 3,
					      0, 40),
			 2);
	memcpy(&e, table + 40, sizeof(e));
	assert_int_equal(e.gid_index, UR_FAKE_V6_INDEX);
	assert_int_equal(table[32], 0);
	assert_int_equal(table[79], 0);
	assert_int_equal(table[80], 0xee);
	assert_int_equal(_ibv_query_gid_ex(f->ctx, 1, 0, &e, 0, sizeof(e) - 1),
			 EINVAL);
}

static void there_is_one_pkey(void **state)
{
	struct fixture *f = *state;
	__be16 pkey;

	assert_int_equal(ibv_query_pkey(f->ctx, 1, 0, &pkey), 0);
	assert_int_equal(be16toh(pkey), 0xffff);
	assert_int_equal(ibv_query_pkey(f->ctx, 1, 1, &pkey), -1);
	assert_int_equal(ibv_query_pkey(f->ctx, 2, 0, &pkey), -1);
	assert_int_equal(ibv_get_pkey_index(f->ctx, 1, htobe16(0xffff)), 0);
	assert_int_equal(ibv_get_pkey_index(f->ctx, 1, htobe16(0x7fff)), -1);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_index_answers),
		TEST(entries_have_type_and_interface),
		TEST(the_table_has_the_valid_ones),
		TEST(the_callers_entry_size_counts),
		TEST(there_is_one_pkey),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
