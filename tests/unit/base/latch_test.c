/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "base/latch.h"

#define THREADS 4
#define TURNS	20000u

static struct ur_latch latch;
static uint32_t plain; /* latch */

static void one_at_a_time(void **state)
{
	ur_latch_init(&latch);
	assert_true(ur_latch_try(&latch));
	assert_false(ur_latch_try(&latch));
	assert_false(ur_latch_knock(&latch));
	ur_latch_unlock(&latch);
	assert_true(ur_latch_knock(&latch));
	assert_false(ur_latch_knock(&latch));
	ur_latch_unlock(&latch);
	ur_latch_lock(&latch);
	ur_latch_unlock(&latch);
}

/* Every way to take it. */
static void *worker(void *arg)
{
	for (uint32_t i = 0; i < TURNS; i++) {
		if (i % 3 == 0)
			while (!ur_latch_knock(&latch))
				sched_yield();
		else if (i % 3 == 1)
			while (!ur_latch_try(&latch))
				sched_yield();
		else
			ur_latch_lock(&latch);
		plain++;
		ur_latch_unlock(&latch);
	}
	return NULL;
}

static void threads_count_together(void **state)
{
	pthread_t t[THREADS];

	ur_latch_init(&latch);
	plain = 0;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, worker, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(plain, THREADS * TURNS);
}

static void *sleeper(void *arg)
{
	ur_latch_lock(&latch);
	plain++;
	ur_latch_unlock(&latch);
	return NULL;
}

/* All are asleep before it is given back, and each wakes the next. */
static void sleepers_wake(void **state)
{
	pthread_t t[THREADS];

	ur_latch_init(&latch);
	plain = 0;
	ur_latch_lock(&latch);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, sleeper, NULL), 0);
	usleep(20000);
	assert_false(ur_latch_knock(&latch));
	assert_int_equal(plain, 0);
	ur_latch_unlock(&latch);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(plain, THREADS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(threads_count_together),
		cmocka_unit_test(sleepers_wake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
