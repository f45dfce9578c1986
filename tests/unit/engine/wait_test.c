/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that wait for events and do the lane's work: each way into and out
 * of the states of engine/wake.c, and that no event is lost on any.
 */
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../../skip.h"
#include "../own_net.h"
#include "engine/internal.h"
#include "engine/wait.h"

#define SECOND 1000000000ull

/* A thread that takes events until it is told to stop. */
struct taker {
	struct pair *p;
	struct ur_evq *q;
	pthread_t thread;
	_Atomic uint32_t taken;
	_Atomic int err;
	_Atomic bool stop;
};

static void take_one(struct taker *t)
{
	struct ur_cqe cqe[8];
	struct ur_ev ev;
	int err;

	err = ur_adapter_wait(t->p->a, t->q, &ev);
	if (err) {
		atomic_store(&t->err, err);
		return;
	}
	ur_evq_ack(t->q, ev.source, 1);
	if (t->q == &t->p->channel) {
		ur_cq_arm(&t->p->cq, false);
		ur_adapter_arm(t->p->a, &t->p->cq);
		while (ur_cq_poll(&t->p->cq, cqe, 8))
			;
	}
	atomic_fetch_add(&t->taken, 1);
}

static void *taker_main(void *arg)
{
	struct taker *t = arg;

	while (!atomic_load(&t->stop) && !atomic_load(&t->err))
		take_one(t);
	return NULL;
}

static void start(struct taker *t, struct pair *p, struct ur_evq *q)
{
	struct ur_lane *l = p->qa.lane;

	*t = (struct taker){ .p = p, .q = q };
	/* Tests before may have had the helper serve such threads for a time. */
	ur_lane_lock(l);
	l->no_waiter_until_ns = 0;
	atomic_store(&l->waits_ended, 0);
	ur_lane_unlock(l);
	ur_cq_arm(&p->cq, false);
	ur_adapter_arm(p->a, &p->cq);
	assert_int_equal(pthread_create(&t->thread, NULL, taker_main, t), 0);
}

static void nap(void)
{
	const struct timespec t = { .tv_nsec = 100000 };

	nanosleep(&t, NULL);
}

static bool took(struct taker *t, uint32_t n)
{
	uint64_t end = ur_adapter_now() + 10 * SECOND;

	while (atomic_load(&t->taken) < n && ur_adapter_now() < end)
		nap();
	return atomic_load(&t->taken) >= n;
}

static void post_event(struct ur_evq *q, struct ur_ev *ev,
		       struct ur_ev_source *source)
{
	ur_ev_init(ev, source, NULL);
	ur_evq_post(q, ev);
}

/* Ends a taker with an event of no queue. */
static void end_thread(struct taker *t)
{
	static struct ur_ev ev;
	static struct ur_ev_source source;

	atomic_store(&t->stop, true);
	post_event(t->q, &ev, &source);
	assert_int_equal(pthread_join(t->thread, NULL), 0);
	/* The taker may have ended before it came to this event. */
	ur_evq_purge(t->q, &source);
}

static enum ur_watch watch_of(struct ur_lane *l)
{
	enum ur_watch w;

	ur_lane_lock(l);
	w = l->watch;
	ur_lane_unlock(l);
	return w;
}

static bool becomes(struct ur_lane *l, enum ur_watch w)
{
	uint64_t end = ur_adapter_now() + 10 * SECOND;

	while (watch_of(l) != w && ur_adapter_now() < end)
		nap();
	return watch_of(l) == w;
}

static bool sleeps(struct ur_lane *l)
{
	uint64_t end = ur_adapter_now() + 10 * SECOND;

	while (!atomic_load(&l->waiter_sleeps) && ur_adapter_now() < end)
		nap();
	return atomic_load(&l->waiter_sleeps);
}

/* One event for each message: the next is sent when the last was taken. */
static void exchange(struct taker *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t before = atomic_load(&t->taken);

		pair_post_write(t->p, 0, 8);
		assert_true(took(t, before + 1));
	}
}

static void test_waiter_serves_the_lane(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	struct pollfd fd = { .fd = p->channel.fd, .events = POLLIN };
	struct taker t;

	start(&t, p, &p->channel);
	assert_true(sleeps(l));
	assert_int_equal(watch_of(l), UR_WATCH_WAITER);
	exchange(&t, 200);
	assert_true(sleeps(l));
	assert_int_equal(poll(&fd, 1, 0), 0);
	end_thread(&t);
}

/* Without traffic the helper has no timer; both it and events come back. */
static void test_helper_rests_and_returns(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint64_t end = ur_adapter_now() + 10 * SECOND;
	bool rests = false;
	struct taker t;

	start(&t, p, &p->channel);
	while (!rests && ur_adapter_now() < end) {
		nap();
		ur_lane_lock(l);
		rests = l->helper_rests;
		ur_lane_unlock(l);
	}
	assert_true(rests);
	exchange(&t, 1);
	end_thread(&t);
	assert_true(becomes(l, UR_WATCH_ARMED));
	pair_write_byte(p, 9);
	assert_true(pair_seen_in_memory(p, 9, 10 * SECOND));
}

static void test_helper_takes_over(void **state)
{
	struct pair *p = *state;
	struct taker t;

	for (uint8_t i = 1; i < 20; i++) {
		start(&t, p, &p->channel);
		exchange(&t, 3);
		end_thread(&t);
		pair_write_byte(p, i);
		assert_true(pair_seen_in_memory(p, i, 10 * SECOND));
		pair_drain(p);
	}
}

/* Two threads that wait on one lane, each on a queue of its own. */
struct two {
	struct taker first, second;
	struct ur_evq other; /* the second one's */
	struct ur_ev_source source;
	struct ur_ev ev;
};

/* From the first one's next event on, the helper serves both. */
static void start_two(struct two *t, struct pair *p)
{
	struct ur_lane *l = p->qa.lane;

	*t = (struct two){ 0 };
	assert_int_equal(ur_evq_init(&t->other), 0);
	atomic_store(&t->other.feeders, atomic_load(&p->channel.feeders));
	start(&t->first, p, &p->channel);
	assert_true(sleeps(l));
	start(&t->second, p, &t->other);
	post_event(&t->other, &t->ev, &t->source);
	assert_true(took(&t->second, 1));
	exchange(&t->first, 1);
	assert_true(becomes(l, UR_WATCH_ARMED));
}

static void test_two_waiters(void **state)
{
	struct two t;

	start_two(&t, *state);
	exchange(&t.first, 20);
	post_event(&t.other, &t.ev, &t.source);
	assert_true(took(&t.second, 2));
	end_thread(&t.second);
	exchange(&t.first, 20);
	end_thread(&t.first);
	ur_evq_fini(&t.other);
}

/* The helper serves them; a third thread polls, and then arms. */
static void test_poller_beside_two_waiters(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	struct two t;

	start_two(&t, p);
	for (int i = 0; i < 20; i++) {
		ur_lane_lock(l);
		l->watch = UR_WATCH_TICK;
		ur_lane_unlock(l);
		ur_adapter_arm(p->a, &p->cq);
		assert_int_equal(watch_of(l), UR_WATCH_ARMED);
		exchange(&t.first, 1);
	}
	end_thread(&t.second);
	end_thread(&t.first);
	ur_evq_fini(&t.other);
}

static struct {
	bool takes;
	int asked;
} hook;

static bool raised(struct ur_evq *q)
{
	struct ur_ev ev;

	hook.asked++;
	if (!hook.takes || !ur_evq_take_now(q, &ev))
		return false;
	ur_evq_ack(q, ev.source, 1);
	return true;
}

static void *write_soon(void *arg)
{
	uint64_t one = 1;

	for (int i = 0; i < 20; i++)
		nap();
	assert_int_equal(write(*(int *)arg, &one, sizeof(one)), sizeof(one));
	return NULL;
}

/* What ur_wait_poll() says once a message is on its way. */
static int poll_for_message(struct pair *p)
{
	struct pollfd fds[1 + UR_WAIT_FDS] = { { .fd = p->channel.fd,
						 .events = POLLIN } };
	struct ur_wait_lanes lanes = { 0 };
	struct ur_cqe cqe[8];

	while (ur_cq_poll(&p->cq, cqe, 8))
		;
	ur_wait_add(&lanes, p->a, &p->channel);
	assert_int_equal(lanes.n, 1);
	ur_cq_arm(&p->cq, false);
	ur_adapter_arm(p->a, &p->cq);
	pair_post_write(p, 0, 8);
	return ur_wait_poll(&lanes, fds, 1, ur_adapter_now() + 10 * SECOND, 0);
}

/*
 * Events that the thread raises itself go to the queue's `raised`; those that
 * it leaves, and those of the helper, to the descriptor.
 */
static void test_poll_with_lanes(void **state)
{
	struct pair *p = *state;
	int taken = 0;
	struct ur_ev ev;

	p->channel.raised = raised;
	for (int i = 0; i < 100; i++) {
		hook.takes = i % 2;
		if (poll_for_message(p) == 0) {
			assert_true(hook.takes);
			assert_false(ur_evq_has(&p->channel));
			taken++;
			continue;
		}
		assert_int_equal(ur_evq_take(&p->channel, &ev), 0);
		ur_evq_ack(&p->channel, ev.source, 1);
	}
	assert_true(hook.asked > taken);
	assert_true(taken);
	p->channel.raised = NULL;
}

/* A thread that only looks, again and again, does the work as well. */
static void test_looks_serve_the_lane(void **state)
{
	struct pair *p = *state;
	struct pollfd fds[1 + UR_WAIT_FDS] = { { .fd = p->channel.fd,
						 .events = POLLIN } };
	struct ur_wait_lanes lanes = { 0 };
	struct ur_cqe cqe[8];
	struct ur_ev ev;
	int taken = 0;

	ur_wait_add(&lanes, p->a, &p->channel);
	p->channel.raised = raised;
	hook.takes = true;
	for (int i = 0; i < 200; i++) {
		uint64_t end = ur_adapter_now() + 10 * SECOND;
		int n = 0;

		while (ur_cq_poll(&p->cq, cqe, 8))
			;
		ur_cq_arm(&p->cq, false);
		ur_adapter_arm(p->a, &p->cq);
		hook.asked = 0;
		pair_post_write(p, 0, 8);
		while (!n && !hook.asked && ur_adapter_now() < end)
			n = ur_wait_poll(&lanes, fds, 1, 0, 0);
		assert_true(n || hook.asked);
		taken += hook.asked;
		/* Or the helper has brought it. */
		if (!n)
			continue;
		assert_int_equal(ur_evq_take(&p->channel, &ev), 0);
		ur_evq_ack(&p->channel, ev.source, 1);
	}
	p->channel.raised = NULL;
	assert_true(taken);
}

static void test_poll_without_news(void **state)
{
	struct pair *p = *state;
	int news = eventfd(0, EFD_CLOEXEC);
	struct pollfd fds[1 + UR_WAIT_FDS] = { { .fd = news,
						 .events = POLLIN } };
	struct ur_wait_lanes lanes = { 0 };
	uint64_t until = ur_adapter_now() + SECOND / 50;
	pthread_t t;

	ur_wait_add(&lanes, p->a, &p->channel);
	assert_int_equal(ur_wait_poll(&lanes, fds, 1, until, 0), 0);
	/* Without lanes, as a listening rsocket */
	assert_int_equal(ur_wait_poll(&(struct ur_wait_lanes){ 0 }, fds, 1,
				      ur_adapter_now() + SECOND / 100, 0),
			 0);
	assert_true(ur_adapter_now() >= until);
	pthread_create(&t, NULL, write_soon, &news);
	assert_int_equal(ur_wait_poll(&lanes, fds, 1, UR_NEVER, 0), 1);
	pthread_join(t, NULL);
	/* Already there, and with lanes that only helpers serve. */
	assert_int_equal(ur_wait_poll(&lanes, fds, 1, UR_NEVER, 0), 1);
	lanes.unserved = true;
	assert_int_equal(ur_wait_poll(&lanes, fds, 1, UR_NEVER, 0), 1);
	close(news);
}

static void test_timers_run_while_waiting(void **state)
{
	struct pair *p = *state;
	struct ur_evq *q = &p->channel;
	struct ur_cqe cqe;
	struct ur_ev ev;

	pair_destroy_b(p);
	ur_cq_arm(&p->cq, false);
	ur_adapter_arm(p->a, &p->cq);
	pair_post_send(p, 8);
	assert_int_equal(ur_adapter_wait(p->a, q, &ev), 0);
	ur_evq_ack(q, ev.source, 1);
	assert_int_equal(ur_cq_poll(&p->cq, &cqe, 1), 1);
	assert_int_equal(cqe.status, UR_WC_RETRY_EXC_ERR);
}

static void on_signal(int sig)
{
	(void)sig;
}

static void test_signal_and_mode(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	struct taker t;
	struct ur_ev ev;
	int flags = fcntl(p->channel.fd, F_GETFL);

	sigaction(SIGUSR1, &sa, NULL);
	start(&t, p, &p->channel);
	assert_true(sleeps(l));
	assert_int_equal(pthread_kill(t.thread, SIGUSR1), 0);
	assert_int_equal(pthread_join(t.thread, NULL), 0);
	assert_int_equal(atomic_load(&t.err), -EINTR);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &sa, NULL);
	start(&t, p, &p->channel);
	assert_true(sleeps(l));
	for (int i = 0; i < 10; i++) {
		assert_int_equal(pthread_kill(t.thread, SIGUSR1), 0);
		nap();
	}
	exchange(&t, 5);
	end_thread(&t);
	fcntl(p->channel.fd, F_SETFL, flags | O_NONBLOCK);
	assert_int_equal(ur_adapter_wait(p->a, &p->channel, &ev), -EAGAIN);
	fcntl(p->channel.fd, F_SETFL, flags);
	start(&t, p, &p->channel);
	exchange(&t, 5);
	end_thread(&t);
}

static void test_cancelled_waiter(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint32_t waiters;
	struct taker t;

#ifdef __SANITIZE_THREAD__
	/* Its runtime sees no locks of a thread that is cancelled in a call. */
	SKIP_BECAUSE("ThreadSanitizer does not follow a cancelled thread");
#endif
	for (int i = 0; i < 10; i++) {
		start(&t, p, &p->channel);
		assert_true(sleeps(l));
		assert_int_equal(pthread_cancel(t.thread), 0);
		assert_int_equal(pthread_join(t.thread, NULL), 0);
		ur_lane_lock(l);
		waiters = l->waiters;
		ur_lane_unlock(l);
		assert_int_equal(waiters, 0);
	}
	start(&t, p, &p->channel);
	exchange(&t, 5);
	end_thread(&t);
}

/* A program that slept on the descriptor by poll(2) after it had waited. */
static void test_poll_after_waiting(void **state)
{
	struct pair *p = *state;
	struct pollfd fd = { .fd = p->channel.fd, .events = POLLIN };
	struct ur_cqe cqe;
	struct ur_ev ev;
	struct taker t;

	start(&t, p, &p->channel);
	exchange(&t, 20);
	end_thread(&t);
	for (int i = 0; i < 20; i++) {
		while (ur_cq_poll(&p->cq, &cqe, 1))
			;
		ur_cq_arm(&p->cq, false);
		ur_adapter_arm(p->a, &p->cq);
		pair_post_write(p, 0, 8);
		assert_int_equal(poll(&fd, 1, 10000), 1);
		assert_int_equal(ur_evq_take(&p->channel, &ev), 0);
		ur_evq_ack(&p->channel, ev.source, 1);
	}
}

/* A completion disarms the queue; its event is thrown away. */
static void disarm(struct pair *p)
{
	pair_post_write(p, 0, 8);
	pair_drain(p);
	ur_evq_purge(&p->channel, &p->cq.source);
}

/* Waits, polls and sleeps of the helper's in turn, beside a thread that posts. */
static void test_states_in_turn(void **state)
{
	struct pair *p = *state;
	struct taker t;

	for (uint32_t i = 0; i < 30; i++) {
		start(&t, p, &p->channel);
		exchange(&t, 1 + i % 7);
		end_thread(&t);
		disarm(p);
		if (i % 3 == 0)
			assert_true(pair_become_poller(p));
		pair_write_byte(p, (uint8_t)(i + 1));
		pair_drain(p);
		if (i % 5 == 0)
			pair_wait_until_asleep(p);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_waiter_serves_the_lane),
		TEST(test_helper_rests_and_returns),
		TEST(test_helper_takes_over),
		TEST(test_two_waiters),
		TEST(test_poller_beside_two_waiters),
		TEST(test_poll_with_lanes),
		TEST(test_looks_serve_the_lane),
		TEST(test_poll_without_news),
		TEST(test_timers_run_while_waiting),
		TEST(test_signal_and_mode),
		TEST(test_cancelled_waiter),
		TEST(test_poll_after_waiting),
		TEST(test_states_in_turn),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
