/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "dataplane/port_sched.h"

#define MS 1000000u

static void comes_first_while_crowded(void **state)
{
	struct ur_port_sched t = { 0 };

	assert_false(ur_port_sched_comes_first(&t, false, MS));
	assert_true(ur_port_sched_comes_first(&t, true, 2 * MS));
	assert_true(ur_port_sched_comes_first(
		&t, false, 2 * MS + UR_PORT_SCHED_STAY_NS - 1));
	assert_false(ur_port_sched_comes_first(&t, false,
					       2 * MS + UR_PORT_SCHED_STAY_NS));
}

/* Whatever it does, ordinary threads get their share of each window. */
static void leaves_a_share(void **state)
{
	struct ur_port_sched t = { .first = true, .begun_ns = 10 * MS };
	uint64_t now = 10 * MS, busy = 0, rest = 0;

	while (now < 210 * MS) {
		uint64_t ns = ur_port_sched_rest_ns(&t, now);

		if (ns) {
			rest += ns;
			now += ns;
		}
		now += 10000;
		busy += 10000;
	}
	assert_in_range(rest * 4, busy * 9 / 8, busy * 3 / 2);
}

/* A thread that sleeps enough need not rest; long sleep gives no credit. */
static void sleep_is_rest(void **state)
{
	struct ur_port_sched t = { .first = true, .begun_ns = MS };
	uint64_t now = MS;

	for (int i = 0; i < 100; i++) {
		now += 30000;
		assert_int_equal(ur_port_sched_rest_ns(&t, now), 0);
		now += 20000;
		ur_port_sched_slept(&t, 20000);
	}
	now += 1000 * (uint64_t)MS;
	ur_port_sched_slept(&t, 1000 * (uint64_t)MS);
	now += UR_PORT_SCHED_BUSY_NS;
	assert_int_equal(ur_port_sched_rest_ns(&t, now), 0);
	now += UR_PORT_SCHED_BUSY_NS;
	assert_int_not_equal(ur_port_sched_rest_ns(&t, now), 0);
}

static void ordinary_ones_never_rest(void **state)
{
	struct ur_port_sched t = { .begun_ns = MS };

	for (uint64_t now = MS; now < 50 * MS; now += 50000)
		assert_int_equal(ur_port_sched_rest_ns(&t, now), 0);
}

static void wake_soon(struct ur_port_sched *t, unsigned int times)
{
	while (times--)
		ur_port_sched_slept(t, UR_PORT_SCHED_SOON_NS - 1);
	ur_port_sched_worked(t, UR_PORT_SCHED_NAP_WORTH);
}

static void naps_in_a_stream(void **state)
{
	struct ur_port_sched t = { .first = true };

	wake_soon(&t, UR_PORT_SCHED_SOON_MANY - 1);
	assert_int_equal(ur_port_sched_nap_ns(&t), 0);
	wake_soon(&t, 1);
	assert_int_equal(ur_port_sched_nap_ns(&t), UR_PORT_SCHED_NAP_NS);
	for (int i = 0; i < 10; i++) {
		ur_port_sched_napped(&t, UR_PORT_SCHED_NAP_NS);
		ur_port_sched_worked(&t, 1);
		ur_port_sched_worked(&t, UR_PORT_SCHED_NAP_WORTH - 1);
		assert_int_equal(ur_port_sched_nap_ns(&t),
				 UR_PORT_SCHED_NAP_NS);
	}
}

/* A message a time, and its answer later: each is waited for. */
static void waits_for_single_messages(void **state)
{
	struct ur_port_sched t = { .first = true };

	for (int i = 0; i < 100; i++) {
		ur_port_sched_slept(&t, i % 2 ? 1000 : 30000);
		ur_port_sched_worked(&t, 1);
		assert_int_equal(ur_port_sched_nap_ns(&t), 0);
	}
}

static void stops_when_the_stream_does(void **state)
{
	struct ur_port_sched t = { .first = true };

	wake_soon(&t, UR_PORT_SCHED_SOON_MANY);
	assert_int_equal(ur_port_sched_nap_ns(&t), UR_PORT_SCHED_NAP_NS);
	ur_port_sched_napped(&t, UR_PORT_SCHED_NAP_NS);
	ur_port_sched_worked(&t, UR_PORT_SCHED_NAP_WORTH - 1);
	assert_int_equal(ur_port_sched_nap_ns(&t), 0);
	ur_port_sched_worked(&t, UR_PORT_SCHED_NAP_WORTH);
	assert_int_equal(ur_port_sched_nap_ns(&t), 0);
}

static void naps_only_where_cores_are_few(void **state)
{
	struct ur_port_sched t = { .first = false };

	wake_soon(&t, 2 * UR_PORT_SCHED_SOON_MANY);
	assert_int_equal(ur_port_sched_nap_ns(&t), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_first_while_crowded),
		cmocka_unit_test(leaves_a_share),
		cmocka_unit_test(sleep_is_rest),
		cmocka_unit_test(ordinary_ones_never_rest),
		cmocka_unit_test(naps_in_a_stream),
		cmocka_unit_test(waits_for_single_messages),
		cmocka_unit_test(stops_when_the_stream_does),
		cmocka_unit_test(naps_only_where_cores_are_few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
