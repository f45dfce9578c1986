/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/timescale.h"

static void small_factors_count_as_one(void **state)
{
	assert_int_equal(ur_timescale_of(0), 1);
	assert_int_equal(ur_timescale_of(200), 1);
	assert_int_equal(ur_timescale_of(599), 1);
}

static void factor_follows_the_call(void **state)
{
	assert_int_equal(ur_timescale_of(600), 4);
	assert_int_equal(ur_timescale_of(900), 6);
	assert_int_equal(ur_timescale_of(1200), UR_TIMESCALE_MAX);
	assert_int_equal(ur_timescale_of(UINT64_MAX), UR_TIMESCALE_MAX);
}

static void is_measured_once(void **state)
{
	uint32_t factor = ur_timescale();

	assert_true(factor >= 1 && factor <= UR_TIMESCALE_MAX);
	assert_int_equal(ur_timescale(), factor);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_factors_count_as_one),
		cmocka_unit_test(factor_follows_the_call),
		cmocka_unit_test(is_measured_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
