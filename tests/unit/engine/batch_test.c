/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which posts are batched, and for how long: two QPs of one lane exchange
 * messages over loopback, without a daemon.
 */
#include "pair.h"

#include "../own_net.h"
#include "engine/internal.h"

#define SECOND 1000000000ull

static uint32_t batched(struct ur_lane *l)
{
	uint32_t n;

	ur_lane_lock(l);
	n = l->batched;
	ur_lane_unlock(l);
	return n;
}

static void set_window_ns(struct ur_lane *l, uint64_t ns)
{
	ur_lane_lock(l);
	l->batch_window_ns = ns;
	l->no_batch_until_ns = 0;
	ur_lane_unlock(l);
}

/*
 * A batch that is not full leaves within ticks, although no thread polls any
 * more.  (The window is long, so that the test does not depend on the speed of
 * posting.)
 */
static void test_batch_leaves_within_ticks(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	bool paused = false;

	for (uint8_t i = 1; i < 60 && !paused; i++) {
		bool waited;

		assert_true(pair_become_poller(p));
		set_window_ns(l, SECOND);
		for (int k = 0; k < 8; k++)
			pair_write_byte(p, i);
		waited = batched(l) > 0;
		assert_true(pair_seen_in_memory(p, i, SECOND / 5));
		pair_drain(p);
		/* Batching pauses then, unless the helper came while the posts
		 * were new. */
		ur_lane_lock(l);
		paused = waited && l->no_batch_until_ns > 0;
		ur_lane_unlock(l);
	}
	assert_true(paused);
	set_window_ns(l, UR_BATCH_WINDOW_NS);
}

/* STYLE, rule 10: the limit of a batch, and one more. */
static void test_batch_has_a_limit(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint32_t most = 0;

	for (uint8_t i = 1; i < 60 && most < 63; i++) {
		assert_true(pair_become_poller(p));
		set_window_ns(l, SECOND);
		for (int k = 0; k < 100; k++) {
			uint32_t n;

			pair_write_byte(p, i);
			n = batched(l);
			assert_true(n <= 63);
			most = n > most ? n : most;
		}
		pair_drain(p);
	}
	set_window_ns(l, UR_BATCH_WINDOW_NS);
	assert_int_equal(most, 63);
}

/* Are all posts answered, without polling? */
static bool all_done(struct pair *p, uint64_t within_ns)
{
	uint64_t end = ur_adapter_now() + within_ns;
	const struct ur_sq *sq = &p->qa.sq;

	while (atomic_load(&sq->head) != atomic_load(&sq->tail) &&
	       ur_adapter_now() < end)
		sched_yield();
	return atomic_load(&sq->head) == atomic_load(&sq->tail);
}

/* Will the helper send in time what waits now? */
static bool is_due_in_time(struct ur_lane *l)
{
	uint64_t late;
	bool ok;

	ur_lane_lock(l);
	late = (uint64_t)UR_BATCH_LATE_NS * l->timescale;
	ok = !l->batched || l->sleep_until_ns <= l->app_ns + late ||
	     atomic_load(&l->woken);
	ur_lane_unlock(l);
	return ok;
}

/*
 * An application that posts a burst and then reads memory alone does not wait
 * for a tick if the answer is late.
 */
static void test_batch_does_not_wait_for_a_tick(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint32_t waited = 0, late = 0;

	for (uint8_t i = 1; i < 60 && waited < 20; i++) {
		set_window_ns(l, SECOND);
		ur_lane_lock(l);
		l->watch = UR_WATCH_ARMED;
		ur_lane_unlock(l);
		for (int k = 0; k < 100; k++) {
			pair_write_byte(p, i);
			if (!batched(l))
				continue;
			waited++;
			/* It may have been woken without having the lane yet. */
			late += !is_due_in_time(l);
		}
		pair_drain(p);
	}
	set_window_ns(l, UR_BATCH_WINDOW_NS);
	assert_true(waited >= 20);
	assert_true(late <= waited / 2);
}

/* Threads that share a core poll too rarely to be pollers.  Their posts are
 * batched with many outstanding, and leave although no thread polls. */
static void test_many_outstanding_are_batched(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint32_t most = 0;

	for (uint8_t i = 1; i < 60 && !most; i++) {
		pair_wait_until_asleep(p);
		set_window_ns(l, SECOND);
		for (int k = 0; k < 100; k++) {
			uint32_t n;

			pair_write_byte(p, i);
			n = batched(l);
			assert_true(n <= 63);
			most = n > most ? n : most;
		}
		assert_true(all_done(p, SECOND / 5));
		pair_drain(p);
	}
	set_window_ns(l, UR_BATCH_WINDOW_NS);
	assert_true(most > 0);
}

/* Posts of an armed queue leave at once, also while the lane is polled. */
static void test_armed_queue_is_not_batched(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;

	assert_true(pair_become_poller(p));
	set_window_ns(l, SECOND);
	for (int k = 0; k < 8; k++) {
		ur_cq_arm(&p->cq, false);
		pair_write_byte(p, 1);
		assert_int_equal(batched(l), 0);
	}
	set_window_ns(l, UR_BATCH_WINDOW_NS);
	pair_drain(p);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, pair_setup, pair_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_batch_leaves_within_ticks),
		TEST(test_batch_has_a_limit),
		TEST(test_many_outstanding_are_batched),
		TEST(test_batch_does_not_wait_for_a_tick),
		TEST(test_armed_queue_is_not_batched),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
