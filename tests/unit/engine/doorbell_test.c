/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The doorbell alone: many posters, one lock holder at a time, as in a lane.
 * Once all posters have returned, all that was posted has been seen, without
 * another look.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "base/latch.h"
#include "engine/doorbell.h"

#define POSTERS 4
#define QPS	3
#define POSTS	30000

struct toy_lane {
	struct ur_latch lock;
	struct ur_doorbell doorbell;
	struct ur_qp qps[QPS];
	uint32_t seen[QPS]; /* sq.tail at the last look; lock */
};

static void drain(struct toy_lane *l)
{
	struct ur_qp *qp, *next;

	for (qp = ur_doorbell_take(&l->doorbell); qp; qp = next) {
		next = ur_doorbell_next(qp);
		ur_doorbell_seen(qp);
		l->seen[qp - l->qps] = atomic_load_explicit(
			&qp->sq.tail, memory_order_relaxed);
	}
}

/* As ur_lane_unlock() does. */
static void run(struct toy_lane *l)
{
	do {
		if (!ur_latch_contend(&l->lock))
			return;
		drain(l);
		ur_latch_unlock(&l->lock);
	} while (ur_doorbell_is_set(&l->doorbell));
}

static void *poster(void *arg)
{
	struct toy_lane *l = arg;

	for (uint32_t i = 0; i < POSTS; i++) {
		struct ur_qp *qp = &l->qps[i % QPS];

		/* Relaxed: only the doorbell orders it. */
		atomic_fetch_add_explicit(&qp->sq.tail, 1,
					  memory_order_relaxed);
		ur_doorbell_ring(&l->doorbell, qp);
		run(l);
	}
	return NULL;
}

static void test_nothing_is_lost(void **state)
{
	struct toy_lane *l = calloc(1, sizeof(*l));
	pthread_t t[POSTERS];

	ur_latch_init(&l->lock);
	ur_doorbell_init(&l->doorbell);
	for (int i = 0; i < POSTERS; i++)
		pthread_create(&t[i], NULL, poster, l);
	for (int i = 0; i < POSTERS; i++)
		pthread_join(t[i], NULL);
	assert_false(ur_doorbell_is_set(&l->doorbell));
	for (int i = 0; i < QPS; i++)
		assert_int_equal(l->seen[i], POSTERS * (POSTS / QPS));
	free(l);
}

static void test_oldest_first_and_once(void **state)
{
	struct toy_lane *l = calloc(1, sizeof(*l));
	struct ur_qp *qp;

	ur_doorbell_init(&l->doorbell);
	assert_null(ur_doorbell_take(&l->doorbell));
	for (int i = 0; i < QPS; i++)
		ur_doorbell_ring(&l->doorbell, &l->qps[i]);
	ur_doorbell_ring(&l->doorbell, &l->qps[0]);
	qp = ur_doorbell_take(&l->doorbell);
	for (int i = 0; i < QPS; i++) {
		struct ur_qp *next = ur_doorbell_next(qp);

		assert_ptr_equal(qp, &l->qps[i]);
		ur_doorbell_seen(qp);
		qp = next;
	}
	assert_null(qp);
	ur_doorbell_ring(&l->doorbell, &l->qps[1]);
	assert_ptr_equal(ur_doorbell_take(&l->doorbell), &l->qps[1]);
	free(l);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_oldest_first_and_once),
		cmocka_unit_test(test_nothing_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
