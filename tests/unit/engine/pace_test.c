/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/pace.h"

static void real_processors_keep_their_moments(void **state)
{
	assert_int_equal(ur_pace_of(0), 1);
	assert_int_equal(ur_pace_of(200), 1);
	assert_int_equal(ur_pace_of(599), 1);
}

static void slow_ones_have_longer_ones(void **state)
{
	assert_int_equal(ur_pace_of(600), 4);
	assert_int_equal(ur_pace_of(900), 6);
	assert_int_equal(ur_pace_of(1200), UR_PACE_MAX);
	assert_int_equal(ur_pace_of(UINT64_MAX), UR_PACE_MAX);
}

static void is_measured_once(void **state)
{
	uint32_t pace = ur_pace();

	assert_true(pace >= 1 && pace <= UR_PACE_MAX);
	assert_int_equal(ur_pace(), pace);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_processors_keep_their_moments),
		cmocka_unit_test(slow_ones_have_longer_ones),
		cmocka_unit_test(is_measured_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
