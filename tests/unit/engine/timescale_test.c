/* SPDX-License-Identifier: BSD-2-Clause */
/* Factors of the engine's times: of the machine, and of its load. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../skip.h"
#include "engine/internal.h"
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

#define THREADS_MAX 512u

static void *burn(void *arg)
{
	while (!atomic_load((atomic_bool *)arg))
		;
	return NULL;
}

/* Of the time `now_ns`; each call has a later one, so that it samples. */
static bool load_reaches(uint32_t load, uint64_t *now_ns)
{
	uint64_t end = ur_clock_ns() + 30000000000ull;

	do
		*now_ns += 1000000000u;
	while (ur_sched_load(*now_ns) < load && ur_clock_ns() < end);
	return ur_sched_last_load() >= load;
}

/* More runnable threads than UR_CROWD_MAX for each processor. */
static void ticks_follow_the_load(void **state)
{
	uint32_t n =
		(UR_CROWD_MAX + 1) * (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t now = ur_clock_ns();
	atomic_bool end = false;
	pthread_t t[THREADS_MAX];

	if (n > THREADS_MAX)
		SKIP_BECAUSE("too many processors to keep busy");
	assert_true(ur_crowd() >= 1);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(pthread_create(&t[i], NULL, burn, &end), 0);
	assert_true(load_reaches(UR_CROWD_MAX + 1, &now));
	/* The load counts up to a limit. */
	assert_int_equal(ur_crowd(), UR_CROWD_MAX);
	assert_true(ur_sched_is_oversubscribed(now));
	assert_int_equal(ur_tick_ns(), UR_TICK_NS * UR_CROWD_MAX);
	assert_int_equal(ur_waiter_tick_ns(), UR_WAITER_TICK_NS * UR_CROWD_MAX);
	atomic_store(&end, true);
	for (uint32_t i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	/* It is not sampled again before 16 ms have passed. */
	assert_true(ur_sched_load(now + 15999999u) > UR_CROWD_MAX);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_factors_count_as_one),
		cmocka_unit_test(factor_follows_the_call),
		cmocka_unit_test(is_measured_once),
		cmocka_unit_test(ticks_follow_the_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
