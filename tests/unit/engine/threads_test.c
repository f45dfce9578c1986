/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads on one lane: pollers, sleepers, regions that come and go, QPs
 * created and destroyed.  Each thread gets the completions it waits for; TSan
 * checks the rest.  cmocka's assertions are for the main thread only, so the
 * threads use check(), which ends the program.
 */
#include "pair.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "../own_net.h"

/* On a busy machine a thread that holds the lane may be preempted for tens of
 * milliseconds; pair_wait() detects a thread that is really stuck. */
#define PATIENT_TIMEOUT 16

#define ROUNDS 1500
#define WINDOW 16

static void check(bool ok, const char *name, uint32_t round, uint32_t value)
{
	if (ok)
		return;
	fprintf(stderr, "%s: round %u: %u\n", name, round, value);
	abort();
}

static void check_cqe(const struct ur_cqe *cqe, const char *name,
		      uint32_t round)
{
	check(cqe->status == UR_WC_SUCCESS, name, round, cqe->status);
}

static struct pair *pairs[4];
static _Atomic bool done;

static void *polling(void *arg)
{
	struct pair *p = arg;
	struct ur_cqe cqe;
	uint32_t posted = 0;

	for (uint32_t got = 0; got < ROUNDS; got++) {
		while (posted < ROUNDS && posted - got < WINDOW) {
			pair_post_write(p, posted % 64, 1 + posted % 5000);
			posted++;
		}
		pair_wait(p, &cqe);
		check_cqe(&cqe, "polling", got);
	}
	return NULL;
}

static void *sleeping(void *arg)
{
	struct pair *p = arg;
	struct ur_cqe cqe;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		pair_post_write(p, i % 64, 64);
		pair_sleep_for(p, &cqe);
		check_cqe(&cqe, "sleeping", i);
	}
	return NULL;
}

/* One queue pair, two threads: posts reach the holder by the doorbell alone. */
static void *posting_only(void *arg)
{
	struct pair *p = arg;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		while (atomic_load(&p->qa.sq.tail) -
			       atomic_load(&p->qa.sq.head) >=
		       200)
			sched_yield();
		pair_post_write(p, 0, 8);
	}
	return NULL;
}

static void *collecting(void *arg)
{
	struct ur_cqe cqe;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		pair_wait(arg, &cqe);
		check_cqe(&cqe, "collecting", i);
	}
	return NULL;
}

static void *churning(void *arg)
{
	struct ur_adapter *a = arg;
	static uint8_t memory[4096];
	struct ur_pd pd = { 0 };
	struct ur_mr *mr;

	while (!atomic_load(&done)) {
		void *p;

		assert_int_equal(ur_mr_create(ur_adapter_mrs(a), &pd, memory,
					      sizeof(memory), (uintptr_t)memory,
					      UR_ACCESS_LOCAL_WRITE, &mr),
				 0);
		ur_mr_destroy(ur_adapter_mrs(a), mr);
		pair_setup(&p);
		pair_teardown(&p);
	}
	return NULL;
}

static void test_threads(void **state)
{
	static void *(*const work[])(void *) = { polling, polling, sleeping,
						 posting_only, collecting };
	struct pair *const on[] = { pairs[0], pairs[1], pairs[2], pairs[3],
				    pairs[3] };
	pthread_t t[5], churn;

	pthread_create(&churn, NULL, churning, pairs[0]->a);
	for (int i = 0; i < 5; i++)
		pthread_create(&t[i], NULL, work[i], on[i]);
	for (int i = 0; i < 5; i++)
		pthread_join(t[i], NULL);
	atomic_store(&done, true);
	pthread_join(churn, NULL);
}

static int setup(void **state)
{
	for (int i = 0; i < 4; i++) {
		void *p;

		pair_setup(&p);
		pairs[i] = p;
		pair_reset(pairs[i]->a, &pairs[i]->qa);
		pair_reset(pairs[i]->a, &pairs[i]->qb);
		pair_connect(pairs[i], PATIENT_TIMEOUT, 7);
	}
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < 4; i++) {
		void *p = pairs[i];

		pair_teardown(&p);
	}
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
