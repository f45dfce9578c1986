/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "urnicd/quota.h"

#define DAEMON 0
#define BOB    7
#define ALICE  8

static struct ur_quota q;

static int setup(void **state)
{
	ur_quota_init(&q, DAEMON, UR_QUOTA_PERCENT);
	return 0;
}

static int teardown(void **state)
{
	ur_quota_fini(&q);
	return 0;
}

/* The limit of each table, and one more; another user has its own. */
static void a_quarter_of_each_table(void **state)
{
	for (enum ur_quota_table t = 0; t < UR_QUOTA_TABLES; t++) {
		uint32_t share = ur_quota_share(&q, BOB, t);

		assert_int_equal(share, q.size[t] / 4);
		assert_true(share > 0);
		assert_int_equal(ur_quota_take(&q, BOB, t, share - 1), 0);
		assert_int_equal(ur_quota_take(&q, BOB, t, 2), -EDQUOT);
		assert_int_equal(ur_quota_take(&q, BOB, t, 1), 0);
		assert_int_equal(ur_quota_take(&q, BOB, t, 1), -EDQUOT);
		assert_int_equal(ur_quota_take(&q, ALICE, t, share), 0);
	}
}

static void the_daemons_user_has_no_limit(void **state)
{
	for (enum ur_quota_table t = 0; t < UR_QUOTA_TABLES; t++)
		assert_int_equal(ur_quota_take(&q, DAEMON, t, q.size[t]), 0);
}

static void what_is_given_back_can_be_had_again(void **state)
{
	uint32_t share = ur_quota_share(&q, BOB, UR_QUOTA_SLOTS);

	for (int i = 0; i < 3; i++) {
		assert_int_equal(ur_quota_take(&q, BOB, UR_QUOTA_SLOTS, share),
				 0);
		assert_int_equal(ur_quota_take(&q, BOB, UR_QUOTA_SLOTS, 1),
				 -EDQUOT);
		ur_quota_give(&q, BOB, UR_QUOTA_SLOTS, share);
		assert_true(ur_list_empty(&q.users));
	}
}

static void no_share_is_none_at_all(void **state)
{
	ur_quota_fini(&q);
	ur_quota_init(&q, DAEMON, 1);
	q.size[UR_QUOTA_HELD] = 50;
	assert_int_equal(ur_quota_share(&q, BOB, UR_QUOTA_HELD), 1);
	assert_int_equal(ur_quota_share(&q, BOB, UR_QUOTA_SLOTS), 10);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_quarter_of_each_table),
		T(the_daemons_user_has_no_limit),
		T(what_is_given_back_can_be_had_again),
		T(no_share_is_none_at_all),
	};

	ur_log_level = UR_LOG_ERROR;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
