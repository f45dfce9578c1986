/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <stdlib.h>

#include "base/rng.h"
#include "base/timer.h"

#define TIMERS 200

static struct ur_timers ts;
static struct ur_timer t[TIMERS];

static int set_up(void **state)
{
	ur_timers_init(&ts);
	for (int i = 0; i < TIMERS; i++)
		ur_timer_init(&t[i]);
	return ur_timers_reserve(&ts, TIMERS);
}

static int tear_down(void **state)
{
	ur_timers_fini(&ts);
	return 0;
}

static void nothing_armed(void **state)
{
	assert_true(ur_timers_deadline(&ts) == UR_NEVER);
	assert_null(ur_timers_expire(&ts, UR_NEVER - 1));
	ur_timer_cancel(&ts, &t[0]);
	assert_int_equal(ts.count, 0);
}

static void fires_in_order_when_due(void **state)
{
	ur_timer_arm(&ts, &t[0], 300);
	ur_timer_arm(&ts, &t[1], 100);
	ur_timer_arm(&ts, &t[2], 200);
	assert_int_equal(ur_timers_deadline(&ts), 100);
	assert_null(ur_timers_expire(&ts, 99));
	assert_ptr_equal(ur_timers_expire(&ts, 250), &t[1]);
	assert_true(t[1].at_ns == UR_NEVER);
	assert_ptr_equal(ur_timers_expire(&ts, 250), &t[2]);
	assert_null(ur_timers_expire(&ts, 250));
	assert_ptr_equal(ur_timers_expire(&ts, 300), &t[0]);
	assert_int_equal(ts.count, 0);
}

/*
 * Moving a timer to a later time leaves the heap unchanged until its old time.
 */
static void later_is_lazy(void **state)
{
	ur_timer_arm(&ts, &t[0], 100);
	ur_timer_arm(&ts, &t[1], 150);
	ur_timer_arm(&ts, &t[0], 500);
	assert_int_equal(t[0].heap_at_ns, 100);
	assert_int_equal(ur_timers_deadline(&ts), 100);
	assert_null(ur_timers_expire(&ts, 120));
	assert_int_equal(ur_timers_deadline(&ts), 150);
	assert_ptr_equal(ur_timers_expire(&ts, 499), &t[1]);
	assert_null(ur_timers_expire(&ts, 499));
	assert_ptr_equal(ur_timers_expire(&ts, 500), &t[0]);
}

static void earlier_is_at_once(void **state)
{
	ur_timer_arm(&ts, &t[0], 100);
	ur_timer_arm(&ts, &t[1], 200);
	ur_timer_arm(&ts, &t[1], 50);
	assert_int_equal(ur_timers_deadline(&ts), 50);
	/* later, then earlier, but not before its key in the heap */
	ur_timer_arm(&ts, &t[1], 400);
	ur_timer_arm(&ts, &t[1], 60);
	assert_ptr_equal(ur_timers_expire(&ts, 60), &t[1]);
	assert_null(ur_timers_expire(&ts, 60));
}

static void arming_for_never_disarms(void **state)
{
	ur_timer_arm(&ts, &t[0], 100);
	ur_timer_arm(&ts, &t[0], UR_NEVER);
	assert_int_equal(ts.count, 0);
	assert_int_equal(t[0].slot, 0);
}

static void reserve_keeps_what_is_armed(void **state)
{
	ur_timer_arm(&ts, &t[0], 100);
	assert_int_equal(ur_timers_reserve(&ts, 100000), 0);
	assert_true(ts.capacity >= 100000);
	assert_ptr_equal(ur_timers_expire(&ts, 100), &t[0]);
}

/* The due timer according to the plain array, UR_NEVER if none. */
static uint64_t model_earliest(const uint64_t *at)
{
	uint64_t min = UR_NEVER;

	for (int i = 0; i < TIMERS; i++)
		if (at[i] < min)
			min = at[i];
	return min;
}

static void expire_against_model(uint64_t *at, uint64_t now)
{
	struct ur_timer *due;

	assert_true(ur_timers_deadline(&ts) <= model_earliest(at));
	while ((due = ur_timers_expire(&ts, now))) {
		assert_true(at[due - t] <= now);
		at[due - t] = UR_NEVER;
	}
	assert_true(model_earliest(at) > now);
}

static void random_walk_against_model(void **state)
{
	uint64_t at[TIMERS];
	uint64_t now = 0;
	struct ur_rng r;

	ur_rng_seed(&r, 42);
	for (int i = 0; i < TIMERS; i++)
		at[i] = UR_NEVER;
	for (int step = 0; step < 50000; step++) {
		uint32_t i = ur_rng_below(&r, TIMERS);

		switch (ur_rng_below(&r, 4)) {
		case 0:
			ur_timer_cancel(&ts, &t[i]);
			at[i] = UR_NEVER;
			break;
		case 1:
			now += ur_rng_below(&r, 40);
			expire_against_model(at, now);
			break;
		default:
			at[i] = now + ur_rng_below(&r, 2000);
			ur_timer_arm(&ts, &t[i], at[i]);
		}
	}
	expire_against_model(at, UR_NEVER - 1);
	assert_int_equal(ts.count, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_armed),
		TEST(fires_in_order_when_due),
		TEST(later_is_lazy),
		TEST(earlier_is_at_once),
		TEST(arming_for_never_disarms),
		TEST(reserve_keeps_what_is_armed),
		TEST(random_walk_against_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
