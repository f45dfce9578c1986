/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lookups without a lock while regions are added, removed and re-registered and
 * the table grows. A region that stays must be found at every time; a removed
 * one must not be accessed after its lane was unlocked (address sanitizer and
 * thread sanitizer watch).
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/lock.h"
#include "core/mr.h"

#define READERS	 2u
#define STANDING 64u
#define MOVING	 512u
#define ROUNDS	 60u
#define LOOKS	 100u

struct world {
	struct ur_mr_table t;
	struct ur_pd pd;
	struct ur_lock lane[READERS];
	struct ur_mr *standing[STANDING];
	uint32_t keys[STANDING];
	_Atomic uint32_t moving[MOVING]; /* keys that may be removed */
	_Atomic bool stop;
	_Atomic uint32_t looks[READERS];
};

struct reader {
	struct world *w;
	uint32_t id;
	uint32_t key; /* looked up until it is removed */
	struct ur_mr_hint hint;
};

static void quiesce(void *arg)
{
	struct world *w = arg;

	for (uint32_t i = 0; i < READERS; i++) {
		ur_lock(&w->lane[i]);
		ur_unlock(&w->lane[i]);
	}
}

/* The lookups of a lane, in bursts under its lock. */
static void look_around(struct world *w, uint32_t from)
{
	for (uint32_t i = 0; i < STANDING; i++) {
		const struct ur_mr *mr = ur_mr_lookup(&w->t, w->keys[i]);

		assert_non_null(mr);
		assert_int_equal(mr->iova, i);
		mr = ur_mr_lookup(&w->t, w->moving[(from + i) % MOVING]);
		if (mr)
			assert_in_range(mr->iova, STANDING, STANDING + MOVING);
	}
}

/* A cached lookup over several bursts. */
static void look_again(struct reader *r, uint32_t from)
{
	const struct ur_mr *mr;

	for (uint32_t i = 0; i < STANDING; i++) {
		mr = ur_mr_lookup_again(&r->w->t, r->key, &r->hint);
		if (mr) {
			assert_int_equal(mr->key, r->key);
			assert_in_range(mr->iova, STANDING, STANDING + MOVING);
		} else {
			r->key = r->w->moving[(from + i) % MOVING];
		}
	}
}

static void *reader(void *arg)
{
	struct reader *r = arg;
	uint32_t from = 0;

	while (!r->w->stop) {
		ur_lock(&r->w->lane[r->id]);
		look_around(r->w, from);
		look_again(r, from);
		ur_unlock(&r->w->lane[r->id]);
		from += STANDING;
		r->w->looks[r->id]++;
		sched_yield(); /* a mutex is not fair to the writer */
	}
	return NULL;
}

static struct ur_mr *reg(struct world *w, uint64_t iova)
{
	struct ur_mr *mr;

	assert_int_equal(ur_mr_create(&w->t, &w->pd, NULL, 0, iova, 0, &mr), 0);
	return mr;
}

static void move_regions(struct world *w)
{
	struct ur_mr *mr[MOVING];

	for (uint32_t i = 0; i < MOVING; i++) {
		mr[i] = reg(w, STANDING + i);
		w->moving[i] = mr[i]->key;
	}
	for (uint32_t i = 0; i < STANDING; i += 8)
		assert_int_equal(ur_mr_rereg(&w->t, &w->standing[i],
					     UR_REREG_PD, &w->pd, NULL, 0, 0),
				 0);
	for (uint32_t i = 0; i < MOVING; i++)
		ur_mr_destroy(&w->t, mr[i]);
}

static void world_init(struct world *w)
{
	assert_int_equal(ur_mr_table_init(&w->t), 0);
	w->t.quiesce = quiesce;
	w->t.quiesce_arg = w;
	for (uint32_t i = 0; i < READERS; i++)
		ur_lock_init(&w->lane[i]);
	for (uint32_t i = 0; i < STANDING; i++) {
		w->standing[i] = reg(w, i);
		w->keys[i] = w->standing[i]->key;
	}
}

static void world_fini(struct world *w)
{
	for (uint32_t i = 0; i < STANDING; i++)
		ur_mr_destroy(&w->t, w->standing[i]);
	assert_int_equal(w->pd.users, 0);
	for (uint32_t i = 0; i < READERS; i++)
		ur_lock_fini(&w->lane[i]);
	ur_mr_table_fini(&w->t);
}

static void test_lookups_while_the_table_changes(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct reader r[READERS];
	pthread_t t[READERS];

	world_init(w);
	for (uint32_t i = 0; i < READERS; i++) {
		r[i] = (struct reader){ .w = w, .id = i };
		pthread_create(&t[i], NULL, reader, &r[i]);
	}
	/* Until both sides have run enough, however they are scheduled. */
	for (uint32_t round = 0;
	     round < ROUNDS || w->looks[0] < LOOKS || w->looks[1] < LOOKS;
	     round++) {
		move_regions(w);
		usleep(100);
	}
	w->stop = true;
	for (uint32_t i = 0; i < READERS; i++)
		pthread_join(t[i], NULL);
	world_fini(w);
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lookups_while_the_table_changes),
	};

	alarm(100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
