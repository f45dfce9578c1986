/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../skip.h"
#include "base/thread_sched.h"

static int policy(void)
{
	return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

/* Runs without sleeping, but only shortly. */
static void realtime_and_back(void **state)
{
	struct sched_param p;
	int status;
	pid_t pid;

	if (!ur_sched_set_realtime(3)) {
		assert_int_equal(policy(), SCHED_OTHER);
		SKIP_BECAUSE("real-time priority is refused");
	}
	assert_int_equal(policy(), SCHED_FIFO);
	assert_int_equal(sched_getparam(0, &p), 0);
	assert_int_equal(p.sched_priority, 3);
	/* Its children are ordinary. */
	pid = fork();
	if (pid == 0)
		_exit(policy() != SCHED_OTHER);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(ur_sched_set_realtime(0));
	assert_int_equal(policy(), SCHED_OTHER);
	assert_int_equal(sched_getparam(0, &p), 0);
	assert_int_equal(p.sched_priority, 0);
	assert_true(ur_sched_set_realtime(1));
	assert_true(ur_sched_set_realtime(0));
}

static void cpus_are_those_of_the_affinity_mask(void **state)
{
	cpu_set_t was, one;
	int i = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(was), &was), 0);
	assert_int_equal(ur_sched_cpus(), CPU_COUNT(&was));
	while (!CPU_ISSET(i, &was))
		i++;
	CPU_ZERO(&one);
	CPU_SET(i, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(ur_sched_cpus(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(was), &was), 0);
}

static void sleep_lasts_as_requested(void **state)
{
	assert_true(ur_sched_sleep(50000) >= 50000);
}

#define BURNERS 3

struct shared {
	struct ur_sched_lock lock;
	atomic_bool had, end;
	_Atomic uint64_t burnt, burnt_before;
};

static void *wait_for_lock(void *arg)
{
	struct shared *s = arg;

	ur_sched_lock_rare(&s->lock);
	atomic_store(&s->burnt_before, atomic_load(&s->burnt));
	atomic_store(&s->had, true);
	ur_sched_unlock(&s->lock);
	return NULL;
}

static void *want_the_core(void *arg)
{
	struct shared *s = arg;

	while (!atomic_load(&s->end))
		atomic_fetch_add(&s->burnt, 1);
	return NULL;
}

/*
 * A thread that never pauses unlocks and locks again: another, asleep on the
 * lock, has had it in between. A real-time holder passes its priority on, so
 * the other threads of the core do not run before that.
 */
static void hand_over(struct shared *s, bool first)
{
	pthread_t waiter, burners[BURNERS];
	uint64_t burnt;

	atomic_store(&s->had, false);
	atomic_store(&s->end, false);
	ur_sched_lock_frequent(&s->lock);
	assert_int_equal(pthread_create(&waiter, NULL, wait_for_lock, s), 0);
	while (!atomic_load(&s->lock.wanted))
		sched_yield();
	(void)ur_sched_sleep(2000000);
	for (int i = 0; i < BURNERS; i++)
		assert_int_equal(
			pthread_create(&burners[i], NULL, want_the_core, s), 0);
	(void)ur_sched_sleep(20000000);
	if (first)
		assert_true(ur_sched_set_realtime(2));
	burnt = atomic_load(&s->burnt);
	ur_sched_unlock(&s->lock);
	ur_sched_lock_frequent(&s->lock);
	assert_true(atomic_load(&s->had));
	ur_sched_unlock(&s->lock);
	if (first)
		assert_true(ur_sched_set_realtime(0));
	atomic_store(&s->end, true);
	for (int i = 0; i < BURNERS; i++)
		pthread_join(burners[i], NULL);
	pthread_join(waiter, NULL);
	if (first)
		assert_int_equal(atomic_load(&s->burnt_before), burnt);
}

/* All on one core. */
static void a_waiter_gets_the_lock(void **state)
{
	struct shared s = { .burnt = 0 };
	bool first = ur_sched_set_realtime(2) && ur_sched_set_realtime(0);
	cpu_set_t was, one;
	int i = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(was), &was), 0);
	while (!CPU_ISSET(i, &was))
		i++;
	CPU_ZERO(&one);
	CPU_SET(i, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	ur_sched_lock_init(&s.lock);
	for (int n = 0; n < 5; n++) {
		hand_over(&s, false);
		if (first)
			hand_over(&s, true);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(was), &was), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(realtime_and_back),
		cmocka_unit_test(cpus_are_those_of_the_affinity_mask),
		cmocka_unit_test(sleep_lasts_as_requested),
		cmocka_unit_test(a_waiter_gets_the_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
