/* SPDX-License-Identifier: BSD-2-Clause */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <string.h>

#include "config/environment.h"

static struct ur_config config;

static void good(const char *variable)
{
	char why[UR_ENVIRONMENT_WHY_LEN] = "";

	assert_true(ur_environment_check(&config, variable, why));
	assert_string_equal(why, "");
}

static void bad(const char *variable, const char *line)
{
	char why[UR_ENVIRONMENT_WHY_LEN] = "";

	assert_false(ur_environment_check(&config, variable, why));
	assert_string_equal(why, line);
}

static void test_variables_with_good_values(void **state)
{
	(void)state;
	good("URNIC_SHM=0");
	good("URNIC_DAEMON=1");
	good("URNIC_LANES=1");
	good("URNIC_LANES=64");
	good("URNIC_IDLE=86400");
	good("URNIC_LOG=trace");
	good("URNIC_DEVICES=");
	good("URNIC_DEVICES=urnic0");
	good("URNIC_DEVICES=urniw0,urnic0");
	good("URNIC_LOG_FILE=anything");
}

static void test_variables_of_others(void **state)
{
	(void)state;
	good("");
	good("=");
	good("URNIC");
	good("URNIC=");
	good("PATH=/bin");
	good("URNI_SHM=x");
	good("URNIC_VERSION=1.2");
	good("URNIC_LIB=/opt");
	good("URNIC_INSTALL_DIRECTORY=/opt");
	good("URNIC_THIS_NAME_IS_LONGER_THAN_ANY_OF_OURS=1");
}

static void test_misspelt_names(void **state)
{
	(void)state;
	bad("URNIC_DEVICE=urnic0",
	    "URNIC_DEVICE is no variable of urnic and ignored; URNIC_DEVICES "
	    "is one");
	bad("URNIC_SHMM=0",
	    "URNIC_SHMM is no variable of urnic and ignored; URNIC_SHM is one");
	bad("URNIC_RAWNETDEVS=lo",
	    "URNIC_RAWNETDEVS is no variable of urnic and ignored; "
	    "URNIC_RAW_NETDEV is one");
	bad("URNICLOG=debug",
	    "URNICLOG is no variable of urnic and ignored; URNIC_LOG is one");
}

static void test_values_that_are_not_used(void **state)
{
	(void)state;
	bad("URNIC_SHM=off",
	    "URNIC_SHM=off is no number from 0 to 1: 1 is used");
	bad("URNIC_DAEMON=",
	    "URNIC_DAEMON= is no number from 0 to 1: 1 is used");
	bad("URNIC_LANES=65",
	    "URNIC_LANES=65 is no number from 1 to 64: 1 is used");
	bad("URNIC_LANES=4x",
	    "URNIC_LANES=4x is no number from 1 to 64: 1 is used");
	bad("URNIC_IDLE=-1",
	    "URNIC_IDLE=-1 is no number from 0 to 86400: 10 is used");
	bad("URNIC_LOG=debgu",
	    "URNIC_LOG=debgu is none of error, warn, info, debug and trace, "
	    "and ignored");
	bad("URNIC_DEVICES=urnic0,eth0",
	    "URNIC_DEVICES: there is no device \"eth0\" (urnic devices lists "
	    "them)");
	bad("URNIC_DEVICES=urnic0,",
	    "URNIC_DEVICES: there is no device \"\" (urnic devices lists "
	    "them)");
}

static void test_long_values_are_cut(void **state)
{
	char variable[1024] = "URNIC_DEVICES=", why[UR_ENVIRONMENT_WHY_LEN];

	(void)state;
	memset(variable + strlen(variable), 'x', 1000);
	variable[1014] = '\0';
	assert_false(ur_environment_check(&config, variable, why));
	assert_in_range(strlen(why), 64, UR_ENVIRONMENT_WHY_LEN - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_variables_with_good_values),
		cmocka_unit_test(test_variables_of_others),
		cmocka_unit_test(test_misspelt_names),
		cmocka_unit_test(test_values_that_are_not_used),
		cmocka_unit_test(test_long_values_are_cut),
	};

	ur_config_default(&config);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
