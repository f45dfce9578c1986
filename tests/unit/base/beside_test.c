/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "base/beside.h"

static const char *const places[] = { "nothing", "../base/base_beside_test",
				      "base_beside_test" };

static void the_first_that_can_be_accessed(void **state)
{
	char path[4096];

	assert_true(
		ur_find_beside(places, places, 3, X_OK, path, sizeof(path)));
	assert_non_null(strstr(path, "/../base/base_beside_test"));
	assert_int_equal(access(path, X_OK), 0);
	assert_true(ur_find_beside(places, places + 2, 1, R_OK, path,
				   sizeof(path)));
	assert_null(strstr(path, "/../"));
}

static void none(void **state)
{
	char path[4096];
	int here = 0;

	assert_false(
		ur_find_beside(places, places, 1, R_OK, path, sizeof(path)));
	/* A buffer that is too small for the path. */
	assert_false(ur_find_beside(places, places, 3, R_OK, path, 8));
	/* An address in no loaded file. */
	assert_false(
		ur_find_beside(&here, places, 3, R_OK, path, sizeof(path)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_that_can_be_accessed),
		cmocka_unit_test(none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
