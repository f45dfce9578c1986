/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that sleep in poll(2) or epoll on a completion channel: when they do the
 * lane's work, and when the helper or other threads do.  How long the states last
 * depends on the machine, so tests only wait for them.
 */
#include "chanpoll_pair.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "../own_net.h"
#include "engine/wait.h"
#include "engine/wakefd.h"
#include "roce/internal.h"

/* Packets without completions, one after another, are left to the helper. */
static void test_helper_takes_idle_packets(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint64_t end = ur_adapter_now() + 10 * SECOND, off;

	do {
		arm_polled(p);
		set_armed(&p->cq, UR_CQ_ARMED_SOLICITED);
		/* Arming for the program's habit has brought an event. */
		ur_lane_lock(l);
		l->chan.idle = 7;
		ur_lane_unlock(l);
		pair_post_write(p, 0, 8);
		sleep_by_poll(p);
		empty_cq(p);
		ur_lane_lock(l);
		off = l->chan.off_until_ns;
		ur_lane_unlock(l);
	} while (!off && ur_adapter_now() < end);
	assert_true(off);
	assert_true(is_polled_by(l, NULL));
	arm_cq(p, &p->cq);
	pair_post_write(p, 0, 8);
	sleep_until_done(p);
}

/* As many with as without a completion: the program goes on to do the work. */
static void test_some_packets_are_idle(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;

	for (uint32_t i = 0; i < 80; i++) {
		arm_polled(p);
		if (i % 4 < 2)
			set_armed(&p->cq, UR_CQ_ARMED_SOLICITED);
		pair_post_write(p, 0, 8);
		sleep_by_poll(p);
		empty_cq(p);
		take_rest(p);
		pair_drain(p);
	}
	ur_lane_lock(l);
	assert_false(l->chan.off_until_ns);
	ur_lane_unlock(l);
}

/* The program does not call us: the helper places what comes. */
static void test_program_stays_away(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;

	for (uint8_t i = 1; i < 20; i++) {
		arm_polled(p);
		pair_write_byte(p, i);
		assert_true(pair_seen_in_memory(p, i, 10 * SECOND));
		sleep_until_done(p);
	}
	/* Nor without traffic has the helper a timer for ever. */
	arm_polled(p);
	assert_true(leaves_to_helper(l));
	pair_wait_until_asleep(p);
	pair_post_write(p, 0, 8);
	sleep_until_done(p);
}

static void test_not_for_these(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;

	for (uint32_t i = 0; i < 3; i++) {
		block(&p->channel, i == 0);
		p->channel.inner = i == 1;
		allow(l);
		atomic_store(&p->cq.armed_ns, ur_clock_ns());
		ur_cq_arm(&p->cq, i == 2);
		ur_adapter_arm(p->a, &p->cq);
		assert_true(is_polled_by(l, NULL));
		set_armed(&p->cq, UR_CQ_IDLE);
	}
}

static void test_channels_of_a_lane(void **state)
{
	struct pair *p = *state;
	struct other o;

	other_init(&o, p, NULL, false);
	for (uint32_t i = 0; i < 100; i++) {
		arm_polled(p);
		arm_cq(p, &o.cq);
		assert_true(is_polled_by(p->qa.lane, NULL));
		pair_post_write(p, 0, 8);
		sleep_until_done(p);
		other_exchange(&o, p);
		while (is_readable(p->channel.fd, 0))
			assert_true(take(p));
	}
	other_fini(&o, p);
}

/* One queue has its event and is not armed again: the kernel polls for the other
 * one. */
static void test_queues_of_a_channel(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	struct ur_cqe cqe = { 0 };
	struct other o;
	bool pending = false;

	other_init(&o, p, &p->channel, false);
	for (uint32_t i = 0; i < 50; i++) {
		arm_polled(p);
		arm_cq(p, &o.cq);
		pair_post_write(p, 0, 8);
		/* The kernel's poll has ended: its count comes with another. */
		assert_true(is_readable(p->channel.fd, TEN_S_MS));
		assert_true(ur_cq_push(&o.cq, &cqe, false));
		sleep_by_poll(p);
		empty_cq(p);
		/* A late count of the kernel brings an event without completion,
		 * and disarms the queue. */
		do
			ur_cq_arm(&p->cq, false);
		while (take(p));
		ur_lane_lock(l);
		for (uint32_t k = 0; l->chan.q && k < UR_KPOLLS; k++)
			pending |= l->chan.kpoll[k].pending &&
				   l->chan.kpoll[k].q == &p->channel;
		ur_lane_unlock(l);
		pair_post_write(p, 0, 8);
		sleep_until_done(p);
		while (is_readable(p->channel.fd, 0))
			assert_true(take(p));
		assert_int_equal(ur_cq_poll(&o.cq, &cqe, 1), 1);
	}
	assert_true(pending);
	other_fini(&o, p);
}

/* Channels come and go, and leave the kernel's polls behind. */
static void test_many_channels(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	struct other o;

	/* Those of earlier tests end. */
	pair_post_write(p, 0, 8);
	pair_drain(p);
	for (uint32_t i = 0; i < 4 * UR_KPOLLS; i++) {
		other_init(&o, p, NULL, false);
		if (i < UR_KPOLLS / 2)
			arm_polled_cq(p, &o.cq);
		else
			arm_cq(p, &o.cq);
		other_exchange(&o, p);
		other_fini(&o, p);
		assert_true(is_polled_by(l, NULL));
	}
	arm_cq(p, &p->cq);
	pair_post_write(p, 0, 8);
	sleep_until_done(p);
	for (uint32_t i = 0; i < 10; i++) {
		arm_polled(p);
		pair_post_write(p, 0, 8);
		sleep_until_done(p);
	}
}

/* A thread that waits in a blocking call, beside. */
static void *wait_once(void *arg)
{
	struct other *o = arg;
	struct ur_ev ev;

	if (ur_adapter_wait(o->cq.object, o->q, &ev) == 0)
		ur_evq_ack(o->q, ev.source, 1);
	return NULL;
}

static void test_beside_a_waiter(void **state)
{
	struct pair *p = *state;
	struct ur_cqe cqe = { 0 };
	struct other o;
	pthread_t t;

	other_init(&o, p, NULL, true);
	o.cq.object = p->a;
	for (uint32_t i = 0; i < 50; i++) {
		if (i % 2)
			arm_polled(p);
		arm_cq(p, &o.cq);
		assert_int_equal(pthread_create(&t, NULL, wait_once, &o), 0);
		arm_cq(p, &p->cq);
		pair_post_write(p, 0, 8);
		sleep_until_done(p);
		assert_true(ur_cq_push(&o.cq, &cqe, false));
		pthread_join(t, NULL);
		assert_int_equal(ur_cq_poll(&o.cq, &cqe, 1), 1);
		while (is_readable(p->channel.fd, 0))
			assert_true(take(p));
	}
	other_fini(&o, p);
}

/* Threads other than the caller's have gone to sleep so often. */
static long switches_of_others(void)
{
	DIR *d = opendir("/proc/self/task");
	char path[64], line[128];
	long sum = 0, n;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		if (atoi(e->d_name) <= 0 || atoi(e->d_name) == gettid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/status",
			 atoi(e->d_name));
		FILE *f = fopen(path, "r");

		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) ==
			    1)
				sum += n;
		if (f)
			fclose(f);
	}
	closedir(d);
	return sum;
}

/* Nor does it take the lane back, which would delay a packet by 4 ms. */
static void test_helper_sleeps(void **state)
{
	struct pair *p = *state;
	uint64_t end = ur_adapter_now() + 30 * SECOND;
	long woken;

	do {
		long before = switches_of_others();

		begun = 0;
		for (uint32_t i = 0; i < EXCHANGES; i++) {
			arm_polled(p);
			pair_post_write(p, 0, 8);
			sleep_until_done(p);
		}
		woken = switches_of_others() - before;
	} while ((woken > EXCHANGES / 4 || begun > EXCHANGES / 20) &&
		 ur_adapter_now() < end);
	assert_true(woken <= EXCHANGES / 4);
	assert_true(begun <= EXCHANGES / 20);
}

/* Does a call leave a peer's signal to a thread that waits? */
static bool leaves_signal(struct pair *p, int ours, int theirs)
{
	struct ur_lane *l = p->qa.lane;
	bool left;

	arm_polled(p);
	ur_lane_lock(l);
	(void)ur_lane_hand(l, UR_HANDOVER_GONE);
	(void)ur_lane_hand(l, UR_HANDOVER_WAITS);
	l->waiters++;
	ur_lane_unlock(l);
	ur_wakefd_signal(theirs);
	sleep_by_poll(p);
	left = is_readable(ours, 0);
	ur_lane_lock(l);
	l->waiters--;
	(void)ur_lane_hand(l, UR_HANDOVER_GONE);
	ur_lane_unlock(l);
	ur_helper_wake(l);
	return left;
}

/* A thread that waits sleeps on the peers' wakeup descriptors: what it has not read
 * is left there, if the helper was not about to read it. */
static void test_signals_of_peers(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint64_t end = ur_adapter_now() + 10 * SECOND;
	int theirs, ours;
	bool left = false;

	ur_lane_lock(l);
	ours = ur_wakefd_create(l, &theirs);
	ur_lane_unlock(l);
	assert_true(ours >= 0);
	for (uint32_t i = 0; !left && i < 50; i++)
		left = leaves_signal(p, ours, theirs);
	assert_true(left);
	/* But a program that does the lane's work reads them. */
	for (uint32_t i = 0; i < 50; i++) {
		arm_polled(p);
		ur_wakefd_signal(theirs);
		sleep_by_poll(p);
	}
	while (is_readable(ours, 0) && ur_adapter_now() < end)
		sched_yield();
	assert_false(is_readable(ours, 0));
	ur_lane_lock(l);
	ur_wakefd_destroy(l, ours);
	ur_lane_unlock(l);
	close(theirs);
}

static void *take_beside(void *arg)
{
	struct pair *p = arg;

	(void)take(p);
	return NULL;
}

/* Does a call end while this thread has the lane? */
static bool ends_beside(struct pair *p, struct ur_lane *l)
{
	struct timespec end;
	pthread_t t;
	int err;

	while (take(p))
		;
	ur_lane_lock(l);
	pthread_create(&t, NULL, take_beside, p);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec++;
	err = pthread_timedjoin_np(t, NULL, &end);
	ur_lane_unlock(l);
	if (err)
		pthread_join(t, NULL);
	return !err;
}

/* Without packets a call does not wait for the lane.  A poll of the kernel may end
 * late. */
static void test_lane_is_taken(void **state)
{
	struct pair *p = *state;
	bool ended = false;

	arm_polled(p);
	pair_post_write(p, 0, 8);
	sleep_until_done(p);
	pair_drain(p);
	set_armed(&p->cq, UR_CQ_IDLE);
	for (uint32_t i = 0; !ended && i < 10; i++)
		ended = ends_beside(p, p->qa.lane);
	assert_true(ended);
}

/* Whatever that channel's threads do. */
static void test_other_channel_arms(void **state)
{
	struct pair *p = *state;
	struct other o;

	other_init(&o, p, NULL, true);
	arm_polled(p);
	arm_cq(p, &o.cq);
	assert_true(is_polled_by(p->qa.lane, NULL));
	other_fini(&o, p);
}

/* Two queues that are armed together, but rarely. */
static void test_rarely(void **state)
{
	struct pair *p = *state;
	struct other o;

	other_init(&o, p, &p->channel, false);
	allow(p->qa.lane);
	atomic_store(&p->cq.armed_ns, 0);
	arm_cq(p, &o.cq);
	arm_cq(p, &p->cq);
	assert_true(is_polled_by(p->qa.lane, NULL));
	other_fini(&o, p);
}

/* It arms and polls, and never asks for an event. */
static void test_program_only_arms(void **state)
{
	struct pair *p = *state;

	arm_polled(p);
	for (uint32_t i = 0; i < 20; i++)
		arm_cq(p, &p->cq);
	assert_true(is_polled_by(p->qa.lane, NULL));
	while (take(p))
		;
}

/* The helper's looks are short while it finds acknowledgements that wait. */
static void test_no_answer(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint64_t end = ur_adapter_now() + 10 * SECOND, tick;

	do {
		arm_polled(p);
		ur_lane_lock(l);
		ur_rqp_of(&p->qb)->rsp.piggyback_score = 8;
		ur_lane_unlock(l);
		pair_post_write(p, 0, 8);
		sleep_until_done(p);
		ur_lane_lock(l);
		tick = l->chan.tick_ns;
		ur_lane_unlock(l);
	} while (tick != UR_CHANPOLL_TICK_NS && ur_adapter_now() < end);
	assert_int_equal(tick, UR_CHANPOLL_TICK_NS);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_helper_takes_idle_packets),
		TEST(test_some_packets_are_idle),
		TEST(test_program_stays_away),
		TEST(test_not_for_these),
		TEST(test_channels_of_a_lane),
		TEST(test_queues_of_a_channel),
		TEST(test_many_channels),
		TEST(test_beside_a_waiter),
		TEST(test_helper_sleeps),
		TEST(test_signals_of_peers),
		TEST(test_lane_is_taken),
		TEST(test_other_channel_arms),
		TEST(test_rarely),
		TEST(test_program_only_arms),
		TEST(test_no_answer),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
