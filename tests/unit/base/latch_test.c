/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "../../skip.h"
#include "base/latch.h"

#define NO_BIAS "no bias here: membarrier(2) is refused or not used"

#define THREADS 4
#define TURNS	20000u

static struct ur_latch latch;
static uint32_t plain; /* latch */

static void one_at_a_time(void **state)
{
	ur_latch_init(&latch);
	assert_true(ur_latch_try(&latch));
	assert_false(ur_latch_try(&latch));
	assert_false(ur_latch_contend(&latch));
	ur_latch_unlock(&latch);
	assert_true(ur_latch_contend(&latch));
	assert_false(ur_latch_contend(&latch));
	ur_latch_unlock(&latch);
	ur_latch_lock(&latch);
	ur_latch_unlock(&latch);
}

/* Uses every function that locks. */
static void *worker(void *arg)
{
	for (uint32_t i = 0; i < TURNS; i++) {
		if (i % 3 == 0)
			while (!ur_latch_contend(&latch))
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

/* All are asleep before the unlock, and each wakes the next. */
static void sleepers_wake(void **state)
{
	pthread_t t[THREADS];

	ur_latch_init(&latch);
	plain = 0;
	ur_latch_lock(&latch);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, sleeper, NULL), 0);
	usleep(20000);
	assert_false(ur_latch_contend(&latch));
	assert_int_equal(plain, 0);
	ur_latch_unlock(&latch);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(plain, THREADS);
}

/* --- bias --- */

#define STREAK 1000u /* more than the first bias takes */

static bool is_biased(void)
{
	return atomic_load(&latch.word) & UR_LATCH_BIASED;
}

/* False where the kernel has no membarrier(), or it is not used. */
static bool take_streak(void)
{
	for (uint32_t i = 0; i < STREAK; i++) {
		ur_latch_lock(&latch);
		plain++;
		ur_latch_unlock(&latch);
	}
	return is_biased();
}

static void *try_once(void *arg)
{
	*(bool *)arg = ur_latch_try(&latch);
	if (*(bool *)arg)
		ur_latch_unlock(&latch);
	return NULL;
}

static void *knock_once(void *arg)
{
	*(bool *)arg = ur_latch_contend(&latch);
	if (*(bool *)arg)
		ur_latch_unlock(&latch);
	return NULL;
}

static bool elsewhere(void *(*fn)(void *))
{
	pthread_t t;
	bool got;

	assert_int_equal(pthread_create(&t, NULL, fn, &got), 0);
	pthread_join(t, NULL);
	return got;
}

static void others_revoke_a_bias(void **state)
{
	ur_latch_init(&latch);
	if (!take_streak())
		SKIP_BECAUSE(NO_BIAS);
	assert_true(elsewhere(try_once));
	assert_false(is_biased());
	assert_true(take_streak());
	assert_true(elsewhere(knock_once));
	assert_false(is_biased());
	assert_true(take_streak());
	elsewhere(sleeper);
	assert_false(is_biased());
}

static void others_find_the_owner_inside(void **state)
{
	pthread_t t;

	ur_latch_init(&latch);
	plain = 0;
	if (!take_streak())
		SKIP_BECAUSE(NO_BIAS);
	ur_latch_lock(&latch);
	assert_true(is_biased());
	assert_false(elsewhere(try_once));
	assert_false(elsewhere(knock_once));
	assert_true(is_biased());
	assert_int_equal(pthread_create(&t, NULL, sleeper, NULL), 0);
	usleep(20000);
	assert_int_equal(plain, STREAK);
	ur_latch_unlock(&latch);
	pthread_join(t, NULL);
	assert_int_equal(plain, STREAK + 1);
	assert_false(is_biased());
}

/*
 * One thread after the other locks many times, until all places are taken; from
 * then on it is an ordinary latch. All threads stay alive, so that no two have
 * the same address.
 */
static pthread_barrier_t turns, all_had;

static void *streak(void *arg)
{
	ur_latch_lock(&latch);
	latch.need = 1;
	ur_latch_unlock(&latch);
	*(bool *)arg = take_streak();
	pthread_barrier_wait(&turns);
	pthread_barrier_wait(&all_had);
	return NULL;
}

static void places_run_out(void **state)
{
	pthread_t t[UR_LATCH_OWNERS + 1];
	bool biased[UR_LATCH_OWNERS + 1];

	ur_latch_init(&latch);
	if (!take_streak())
		SKIP_BECAUSE(NO_BIAS);
	ur_latch_init(&latch);
	pthread_barrier_init(&turns, NULL, 2);
	pthread_barrier_init(&all_had, NULL, UR_LATCH_OWNERS + 2);
	for (uint32_t i = 0; i <= UR_LATCH_OWNERS; i++) {
		assert_int_equal(
			pthread_create(&t[i], NULL, streak, &biased[i]), 0);
		pthread_barrier_wait(&turns);
		assert_int_equal(biased[i], i < UR_LATCH_OWNERS);
	}
	pthread_barrier_wait(&all_had);
	for (uint32_t i = 0; i <= UR_LATCH_OWNERS; i++)
		pthread_join(t[i], NULL);
	pthread_barrier_destroy(&turns);
	pthread_barrier_destroy(&all_had);
}

/* For example a signal handler that calls exit(), which takes the lanes. */
static void the_owner_does_not_take_it_twice(void **state)
{
	ur_latch_init(&latch);
	if (!take_streak())
		SKIP_BECAUSE(NO_BIAS);
	ur_latch_lock(&latch);
	assert_true(is_biased());
	assert_false(ur_latch_try(&latch));
	assert_false(ur_latch_contend(&latch));
	ur_latch_unlock(&latch);
	assert_true(ur_latch_try(&latch));
	ur_latch_unlock(&latch);
}

static uint32_t biased_word;

static void *restore(void *arg)
{
	usleep(1000);
	atomic_store(&latch.word, biased_word);
	return NULL;
}

/*
 * Otherwise the thread that found the owner inside has left the wakeup to it.
 */
static void the_owners_try_does_not_fail(void **state)
{
	pthread_t t;

	ur_latch_init(&latch);
	if (!take_streak())
		SKIP_BECAUSE(NO_BIAS);
	biased_word = atomic_load(&latch.word);
	atomic_store(&latch.word,
		     (biased_word ^ UR_LATCH_BIASED) | UR_LATCH_REVOKED);
	assert_int_equal(pthread_create(&t, NULL, restore, NULL), 0);
	assert_true(ur_latch_try(&latch));
	ur_latch_unlock(&latch);
	pthread_join(t, NULL);
}

/* A biased thread nearly always, others now and then, with every function. */
static _Atomic bool over;
static _Atomic uint32_t
	hurried; /* acquisitions by the thread that never pauses */

static void *intruder(void *arg)
{
	uint32_t n = 0;

	while (!atomic_load(&over)) {
		bool got = true;

		if (n % 3 == 0)
			got = ur_latch_try(&latch);
		else if (n % 3 == 1)
			got = ur_latch_contend(&latch);
		else
			ur_latch_lock(&latch);
		if (got) {
			plain++;
			n++;
			ur_latch_unlock(&latch);
		}
		if (arg == &hurried)
			atomic_store_explicit(&hurried, n,
					      memory_order_relaxed);
		else
			usleep(n % 50);
	}
	*(uint32_t *)arg = n;
	return NULL;
}

#define OWN_TURNS 2000000u

static void a_bias_excludes(void **state)
{
	pthread_t t[THREADS];
	uint32_t n[THREADS], sum = OWN_TURNS, biased = 0;

	ur_latch_init(&latch);
	plain = 0;
	atomic_store(&over, false);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, intruder, &n[i]),
				 0);
	for (uint32_t i = 0; i < OWN_TURNS; i++) {
		if (i % 2)
			ur_latch_lock(&latch);
		else
			while (!ur_latch_try(&latch))
				sched_yield();
		plain++;
		biased += is_biased();
		ur_latch_unlock(&latch);
	}
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		sum += n[i];
	}
	assert_int_equal(plain, sum);
	print_message("%u of %u turns by bias\n", biased, OWN_TURNS);
}

#define HURRIED_TURNS 20000u

/* A bias after each acquisition, and another thread that revokes it all the
 * time. */
static void a_bias_excludes_a_busy_thread(void **state)
{
	pthread_t t;
	uint32_t n = 0;

	ur_latch_init(&latch);
	plain = 0;
	atomic_store(&over, false);
	atomic_store(&hurried, 0);
	assert_int_equal(pthread_create(&t, NULL, intruder, &hurried), 0);
	for (; atomic_load_explicit(&hurried, memory_order_relaxed) <
	       HURRIED_TURNS;
	     n++) {
		ur_latch_lock(&latch);
		latch.need = 1;
		plain++;
		ur_latch_unlock(&latch);
	}
	atomic_store(&over, true);
	pthread_join(t, NULL);
	assert_int_equal(plain, n + hurried);
}

/* A signal followed by a contention is noticed: by the contender itself, or by
 * the holder, which checks after its unlock (engine/lane.c). */
static _Atomic uint32_t rung, heard;

static void hear(void)
{
	while (atomic_load_explicit(&rung, memory_order_relaxed) !=
		       atomic_load_explicit(&heard, memory_order_relaxed) &&
	       ur_latch_try(&latch)) {
		atomic_store(&heard, atomic_load(&rung));
		ur_latch_unlock(&latch);
	}
}

static pthread_barrier_t round_ends;

#define ROUNDS 4000u
#define TAKES  300u

static void *holder(void *arg)
{
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		pthread_barrier_wait(&round_ends);
		for (uint32_t n = 0; n < TAKES; n++) {
			ur_latch_lock(&latch);
			plain++;
			ur_latch_unlock(&latch);
			hear();
		}
		pthread_barrier_wait(&round_ends);
	}
	return NULL;
}

static void no_wakeup_is_lost(void **state)
{
	pthread_t t;

	ur_latch_init(&latch);
	pthread_barrier_init(&round_ends, NULL, 2);
	assert_int_equal(pthread_create(&t, NULL, holder, NULL), 0);
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		latch.need = 1;
		pthread_barrier_wait(&round_ends);
		for (uint32_t n = 0; n < i % 256 * 4; n++)
			atomic_signal_fence(memory_order_seq_cst);
		atomic_store_explicit(&rung, i, memory_order_relaxed);
		if (ur_latch_contend(&latch)) {
			atomic_store(&heard, i);
			ur_latch_unlock(&latch);
		}
		pthread_barrier_wait(&round_ends);
		assert_int_equal(atomic_load(&heard), i);
	}
	pthread_join(t, NULL);
	pthread_barrier_destroy(&round_ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(threads_count_together),
		cmocka_unit_test(sleepers_wake),
		cmocka_unit_test(others_revoke_a_bias),
		cmocka_unit_test(others_find_the_owner_inside),
		cmocka_unit_test(places_run_out),
		cmocka_unit_test(the_owner_does_not_take_it_twice),
		cmocka_unit_test(the_owners_try_does_not_fail),
		cmocka_unit_test(a_bias_excludes),
		cmocka_unit_test(a_bias_excludes_a_busy_thread),
		cmocka_unit_test(no_wakeup_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
