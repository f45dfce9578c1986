/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What waits for a burst to fill, and for how long: two QPs of one lane talk to
 * each other over loopback, without a daemon.
 */
#include "pair.h"

#include "../own_net.h"
#include "engine/internal.h"
#include "engine/timescale.h"

#define SECOND 1000000000ull

static uint32_t gathered(struct ur_lane *l)
{
	uint32_t n;

	ur_lane_lock(l);
	n = l->gathered;
	ur_lane_unlock(l);
	return n;
}

static void set_gather_ns(struct ur_lane *l, uint64_t ns)
{
	ur_lane_lock(l);
	l->gather_ns = ns;
	l->no_gather_until_ns = 0;
	ur_lane_unlock(l);
}

/*
 * A request that waits for a burst to fill leaves within ticks, though nobody
 * polls any more.  (The moment of gathering is made long, so that the test
 * does not depend on the speed of posting.)
 */
static void test_gathering_is_bounded(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	bool paused = false;

	for (uint8_t i = 1; i < 60 && !paused; i++) {
		bool waited;

		assert_true(pair_become_poller(p));
		set_gather_ns(l, SECOND);
		for (int k = 0; k < 8; k++)
			pair_write_byte(p, i);
		waited = gathered(l) > 0;
		assert_true(pair_seen_in_memory(p, i, SECOND / 5));
		pair_drain(p);
		/* It was a bad bet, so there is a pause; but not if the helper
		 * came while the posts were new. */
		ur_lane_lock(l);
		paused = waited && l->no_gather_until_ns > 0;
		ur_lane_unlock(l);
	}
	assert_true(paused);
	set_gather_ns(l, UR_GATHER_NS);
}

/* STYLE, rule 10: the limit of gathering, and one more. */
static void test_gathering_is_limited(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint32_t most = 0;

	for (uint8_t i = 1; i < 60 && most < 63; i++) {
		assert_true(pair_become_poller(p));
		set_gather_ns(l, SECOND);
		for (int k = 0; k < 100; k++) {
			uint32_t n;

			pair_write_byte(p, i);
			n = gathered(l);
			assert_true(n <= 63);
			most = n > most ? n : most;
		}
		pair_drain(p);
	}
	set_gather_ns(l, UR_GATHER_NS);
	assert_int_equal(most, 63);
}

/* Posts of one who never polls; true if some waited for others. */
static bool burst(struct pair *p, uint8_t v, uint32_t n)
{
	struct ur_lane *l = p->qa.lane;
	bool waited = false;

	for (uint32_t k = 0; k < n; k++) {
		pair_write_byte(p, v);
		waited |= gathered(l) > 0;
	}
	return waited;
}

/* Everything posted is answered, and nobody polled for it. */
static bool all_done(struct pair *p, uint64_t within_ns)
{
	uint64_t end = ur_adapter_now() + within_ns;
	const struct ur_sq *sq = &p->qa.sq;

	while (atomic_load(&sq->head) != atomic_load(&sq->tail) &&
	       ur_adapter_now() < end)
		sched_yield();
	return atomic_load(&sq->head) == atomic_load(&sq->tail);
}

/* The same, with never so many outstanding that this alone is a reason. */
static bool loose_burst(struct pair *p, uint8_t v, uint32_t n)
{
	bool waited = false;

	for (uint32_t k = 0; k < n; k += 15) {
		waited |= burst(p, v, 15);
		assert_true(all_done(p, SECOND / 5));
	}
	return waited;
}

/*
 * Who posts many in a row is gathered for though he does not poll, and though
 * the helper has not let go: and what waits at the end leaves all the same.
 */
static void test_burst_is_gathered(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint32_t scale = l->poll_timescale; /* all tests share the lane */
	bool waited = false;

	for (uint8_t i = 1; i < 60 && !waited; i++) {
		pair_wait_until_asleep(p);
		set_gather_ns(l, SECOND);
		ur_lane_lock(l);
		l->poll_timescale = UR_TIMESCALE_MAX * UR_TIMESCALE_SERVED;
		l->post_streak = 0;
		ur_lane_unlock(l);
		assert_false(loose_burst(p, i, 60));
		waited = loose_burst(p, i, 90);
		ur_lane_lock(l);
		assert_true(l->watch == UR_WATCH_ARMED);
		ur_lane_unlock(l);
		assert_true(pair_seen_in_memory(p, i, SECOND / 5));
		pair_drain(p);
	}
	ur_lane_lock(l);
	l->poll_timescale = scale;
	ur_lane_unlock(l);
	set_gather_ns(l, UR_GATHER_NS);
	assert_true(waited);
}

/* Does the helper come by as soon as it should for what waits now? */
static bool is_seen_to(struct ur_lane *l)
{
	uint64_t late;
	bool ok;

	ur_lane_lock(l);
	late = (uint64_t)UR_GATHER_LATE_NS * l->timescale;
	ok = !l->gathered || l->sleep_until_ns <= l->app_ns + late ||
	     atomic_load(&l->woken);
	ur_lane_unlock(l);
	return ok;
}

/*
 * Who posts a burst and then looks at memory alone is not kept waiting for a
 * tick, should the answer to what is under way be late.
 */
static void test_burst_does_not_wait_for_a_tick(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint32_t waited = 0, late = 0;

	for (uint8_t i = 1; i < 60 && waited < 20; i++) {
		set_gather_ns(l, SECOND);
		ur_lane_lock(l);
		l->watch = UR_WATCH_ARMED;
		l->post_streak = 100;
		ur_lane_unlock(l);
		for (int k = 0; k < 100; k++) {
			pair_write_byte(p, i);
			if (!gathered(l))
				continue;
			waited++;
			/* It may have been woken, and not have the lane yet. */
			late += !is_seen_to(l);
		}
		pair_drain(p);
	}
	set_gather_ns(l, UR_GATHER_NS);
	assert_true(waited >= 20);
	assert_true(late <= waited / 2);
}

/* Who has filled a burst is expected to fill the next: from its first on. */
static void test_company_is_expected(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	bool alone = false, waited = false;

	for (uint8_t i = 1; i < 60 && !(alone && waited); i++) {
		assert_true(pair_become_poller(p));
		set_gather_ns(l, SECOND / 10);
		pair_write_byte(p, i);
		for (uint32_t c = 0; c < 2; c++) {
			bool *seen = c ? &waited : &alone;

			ur_lane_lock(l);
			l->company = c * 20;
			l->flush_ticks -= l->gather_ns * UR_TICKS_PER_NS * 2;
			ur_lane_unlock(l);
			pair_write_byte(p, i);
			*seen |= (gathered(l) > 0) == (c > 0);
		}
		pair_drain(p);
	}
	set_gather_ns(l, UR_GATHER_NS);
	assert_true(alone && waited);
}

/* Threads that share a core look too seldom to be pollers; what they post
 * behind much else is gathered all the same, and leaves though nobody looks. */
static void test_a_stream_is_gathered(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint32_t most = 0;

	for (uint8_t i = 1; i < 60 && !most; i++) {
		pair_wait_until_asleep(p);
		set_gather_ns(l, SECOND);
		for (int k = 0; k < 100; k++) {
			uint32_t n;

			pair_write_byte(p, i);
			n = gathered(l);
			assert_true(n <= 63);
			most = n > most ? n : most;
		}
		assert_true(all_done(p, SECOND / 5));
		pair_drain(p);
	}
	set_gather_ns(l, UR_GATHER_NS);
	assert_true(most > 0);
}

/* Who has armed does not poll, whatever the lane believes. */
static void test_armed_does_not_gather(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;

	assert_true(pair_become_poller(p));
	set_gather_ns(l, SECOND);
	for (int k = 0; k < 8; k++) {
		ur_cq_arm(&p->cq, false);
		pair_write_byte(p, 1);
		assert_int_equal(gathered(l), 0);
	}
	set_gather_ns(l, UR_GATHER_NS);
	pair_drain(p);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, pair_setup, pair_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_gathering_is_bounded),
		TEST(test_gathering_is_limited),
		TEST(test_a_stream_is_gathered),
		TEST(test_burst_is_gathered),
		TEST(test_burst_does_not_wait_for_a_tick),
		TEST(test_company_is_expected),
		TEST(test_armed_does_not_gather),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
