/* SPDX-License-Identifier: BSD-2-Clause */
/* A plugin whose library the program has already. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "ports/plugin.h"

static const struct ur_plugin_file file = {
	.dir = "../../../src/ports/lwip/",
	.name = "liburnic-lwip.so",
	.symbol = "urnic_stack_plugin",
	.deep = true,
	.alone = "liblwip.so",
};

static void test_alone(void **state)
{
	/* That of the build: Debian 12 and 13 have different versions. */
	void *lwip = dlopen(UR_TEST_LWIP, RTLD_NOW | RTLD_LOCAL);
	const void *p;

	assert_non_null(lwip);
	assert_true(ur_plugin_there(&file));
	assert_int_equal(ur_plugin_load(&file, &p), -EOPNOTSUPP);
	dlclose(lwip);
	assert_int_equal(ur_plugin_load(&file, &p), 0);
	assert_non_null(p);
}

static void test_missing(void **state)
{
	static const struct ur_plugin_file none = { .dir = "x/",
						    .name = "none.so",
						    .symbol = "x" };
	const void *p;

	assert_false(ur_plugin_there(&none));
	assert_int_equal(ur_plugin_load(&none, &p), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
