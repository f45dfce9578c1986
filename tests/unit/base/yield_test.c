/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "base/yield.h"

#define MS 1000000u

static void short_yields_are_not_suspended(void **state)
{
	struct ur_yield w = { 0 };

	assert_true(ur_yield_allowed(&w, 0));
	assert_false(ur_yield_account(&w, 900, MS));
	assert_true(ur_yield_account(&w, 20000, MS));
	assert_true(ur_yield_allowed(&w, MS));
}

/* Yields are suspended for ever longer while another thread keeps the core. */
static void long_yields_are_suspended(void **state)
{
	struct ur_yield w = { 0 };

	assert_true(ur_yield_account(&w, 3 * MS, 10 * MS));
	assert_false(ur_yield_allowed(&w, 11 * MS - 1));
	assert_true(ur_yield_allowed(&w, 11 * MS));
	(void)ur_yield_account(&w, 3 * MS, 20 * MS);
	assert_false(ur_yield_allowed(&w, 22 * MS - 1));
	assert_true(ur_yield_allowed(&w, 22 * MS));
	for (int i = 0; i < 20; i++)
		(void)ur_yield_account(&w, 3 * MS, 30 * MS);
	assert_true(ur_yield_allowed(&w, 46 * MS));
	for (int i = 0; i < 20; i++)
		(void)ur_yield_account(&w, 20000, 50 * MS);
	(void)ur_yield_account(&w, 3 * MS, 50 * MS);
	assert_true(ur_yield_allowed(&w, 51 * MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_yields_are_not_suspended),
		cmocka_unit_test(long_yields_are_suspended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
