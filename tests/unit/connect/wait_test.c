/* SPDX-License-Identifier: BSD-2-Clause */
/* Which thread does the CM thread's work: ur_conn_wait(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "../../skip.h"
#include "base/clock.h"
#include "base/sys.h"
#include "connect/cm_thread.h"
#include "connect/conn.h"

/* Work that a round does, which makes a descriptor readable. */
struct work {
	struct ur_cmt_timer timer;
	struct ur_cmt_source source; /* an eventfd */
	int fd;			     /* what is made readable */
	pthread_t by;		     /* the thread that did it */
};

struct waiter {
	pthread_t thread;
	int fd;
	int rc;
};

static struct ur_cmt *t;

static void fire(struct ur_cmt_timer *timer, uint64_t now_ns)
{
	struct work *w = ur_container_of(timer, struct work, timer);

	w->by = pthread_self();
	ur_event_signal(w->fd);
}

static void ready(struct ur_cmt_source *src, uint32_t events)
{
	struct work *w = ur_container_of(src, struct work, source);

	ur_event_clear(src->fd);
	w->by = pthread_self();
	ur_event_signal(w->fd);
}

static int setup(void **state)
{
	return ur_cmt_get(&t);
}

static void make(struct work *w)
{
	w->fd = eventfd(0, 0);
	w->source = (struct ur_cmt_source){ .fd = eventfd(0, EFD_NONBLOCK),
					    .ready = ready };
	ur_lock(&t->lock);
	assert_int_equal(ur_cmt_timer_init(t, &w->timer, fire), 0);
	assert_int_equal(ur_cmt_watch(t, &w->source, EPOLLIN), 0);
	ur_unlock(&t->lock);
}

static void unmake(struct work *w)
{
	int fd = w->source.fd;

	ur_lock(&t->lock);
	ur_cmt_unwatch(t, &w->source);
	ur_cmt_timer_fini(t, &w->timer);
	ur_unlock(&t->lock);
	close(fd);
	close(w->fd);
}

static void arm(struct work *w, uint64_t after_ns)
{
	ur_lock(&t->lock);
	ur_cmt_timer_arm(t, &w->timer, ur_clock_ns() + after_ns);
	ur_unlock(&t->lock);
}

static pthread_t done_by(const struct work *w)
{
	pthread_t by;

	ur_lock(&t->lock);
	by = w->by;
	ur_unlock(&t->lock);
	return by;
}

/* Waits for the work, as a program that does not wait for events of rdma_cm. */
static void expect_by(const struct work *w, pthread_t thread)
{
	struct pollfd p = { .fd = w->fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, 20000), 1);
	ur_event_clear(w->fd);
	assert_true(pthread_equal(done_by(w), thread));
}

static void *wait_once(void *arg)
{
	struct waiter *w = arg;

	w->rc = ur_conn_wait(w->fd);
	return NULL;
}

static void short_sleep(void)
{
	struct timespec ts = { .tv_nsec = 1000000 };

	nanosleep(&ts, NULL);
}

/* Until so many threads wait, and the one that runs the loop is asleep. */
static void start(struct waiter *w, int fd, uint32_t callers)
{
	bool asleep = false;

	w->fd = fd;
	assert_int_equal(pthread_create(&w->thread, NULL, wait_once, w), 0);
	while (!asleep) {
		short_sleep();
		ur_lock(&t->lock);
		asleep = t->callers == callers && t->sleep_until_ns;
		ur_unlock(&t->lock);
	}
}

static void end(const struct waiter *w)
{
	assert_int_equal(pthread_join(w->thread, NULL), 0);
}

static void test_waiter_works(void **state)
{
	struct work a;
	struct waiter w;

	make(&a);
	start(&w, a.fd, 1);
	arm(&a, 1000000);
	end(&w);
	assert_int_equal(w.rc, 1);
	expect_by(&a, w.thread);
	start(&w, a.fd, 1);
	ur_event_signal(a.source.fd);
	end(&w);
	expect_by(&a, w.thread);
	unmake(&a);
}

static void test_not_back(void **state)
{
	struct work a;
	struct waiter w;

	make(&a);
	start(&w, a.fd, 1);
	ur_event_signal(a.fd);
	end(&w);
	ur_event_clear(a.fd);
	arm(&a, 0);
	expect_by(&a, t->thread);
	/* Asleep again, the CM thread is woken by what comes. */
	ur_event_signal(a.source.fd);
	expect_by(&a, t->thread);
	unmake(&a);
}

/* The first one works until it has its event, then the CM thread. */
static void test_two_wait(void **state)
{
	struct work a, b;
	struct waiter v, w;

	make(&a);
	make(&b);
	start(&v, a.fd, 1);
	start(&w, b.fd, 2);
	ur_event_signal(a.source.fd);
	end(&v);
	expect_by(&a, v.thread);
	arm(&b, 0);
	end(&w);
	expect_by(&b, t->thread);
	unmake(&a);
	unmake(&b);
}

static void on_signal(int sig)
{
}

static void test_signals(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_RESETHAND };
	struct sigaction fault = { .sa_handler = on_signal }, old, old_fault;
	struct work a;
	struct waiter w;

	make(&a);
	/* As base/guard.h does. */
	sigaction(SIGBUS, &fault, &old_fault);
	sigaction(SIGUSR1, &sa, &old);
	start(&w, a.fd, 1);
	pthread_kill(w.thread, SIGUSR1);
	end(&w);
	assert_int_equal(w.rc, -EINTR);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &sa, NULL);
	start(&w, a.fd, 1);
	for (int i = 0; i < 10; i++) {
		pthread_kill(w.thread, SIGUSR1);
		short_sleep();
	}
	arm(&a, 0);
	end(&w);
	assert_int_equal(w.rc, 1);
	sigaction(SIGUSR1, &old, NULL);
	sigaction(SIGBUS, &old_fault, NULL);
	unmake(&a);
}

static void test_cancelled(void **state)
{
	struct work a;
	struct waiter w;
	void *result;

#ifdef __SANITIZE_THREAD__
	/* Its runtime sees no locks of a thread that is cancelled in a call. */
	SKIP_BECAUSE("ThreadSanitizer does not follow a cancelled thread");
#endif
	make(&a);
	start(&w, a.fd, 1);
	pthread_cancel(w.thread);
	assert_int_equal(pthread_join(w.thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	arm(&a, 0);
	expect_by(&a, t->thread);
	unmake(&a);
}

/* No thread sees its wakeup; the next one must be seen. */
static void test_cancelled_when_woken(void **state)
{
	bool asleep = false;
	struct work a;
	struct waiter w;

#ifdef __SANITIZE_THREAD__
	SKIP_BECAUSE("ThreadSanitizer does not follow a cancelled thread");
#endif
	make(&a);
	start(&w, a.fd, 1);
	ur_lock(&t->lock);
	t->active_ns = 0; /* else it sleeps for a second at most */
	ur_cmt_timer_arm(t, &a.timer, ur_clock_ns());
	ur_cmt_timer_arm(t, &a.timer, UR_NEVER);
	pthread_cancel(w.thread);
	ur_unlock(&t->lock);
	end(&w);
	while (!asleep) {
		short_sleep();
		ur_lock(&t->lock);
		asleep = t->watch == UR_CMT_OWN && t->sleep_until_ns;
		ur_unlock(&t->lock);
	}
	arm(&a, 0);
	expect_by(&a, t->thread);
	unmake(&a);
}

static void test_does_not_block(void **state)
{
	struct work a;

	make(&a);
	fcntl(a.fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(ur_conn_wait(a.fd), 0);
	unmake(&a);
}

enum { THREADS = 4, TURNS = 300 };

/* The times lie around that after which the CM thread takes over. */
static void *take_turns(void *arg)
{
	unsigned int *seed = arg;
	struct work a;

	make(&a);
	for (int i = 0; i < TURNS; i++) {
		uint64_t count;

		arm(&a, (uint64_t)(rand_r(seed) % 1500) * 1000);
		if (rand_r(seed) % 8 == 0)
			short_sleep();
		assert_int_equal(ur_conn_wait(a.fd), 1);
		assert_int_equal(read(a.fd, &count, sizeof(count)), 8);
	}
	unmake(&a);
	return NULL;
}

static void test_no_lost_wakeup(void **state)
{
	unsigned int seed[THREADS];
	pthread_t thread[THREADS];

	for (unsigned int n = 1; n <= THREADS; n += THREADS - 1) {
		for (unsigned int i = 0; i < n; i++) {
			seed[i] = n + i;
			pthread_create(&thread[i], NULL, take_turns, &seed[i]);
		}
		for (unsigned int i = 0; i < n; i++)
			pthread_join(thread[i], NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waiter_works),
		cmocka_unit_test(test_not_back),
		cmocka_unit_test(test_two_wait),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_cancelled_when_woken),
		cmocka_unit_test(test_does_not_block),
		cmocka_unit_test(test_no_lost_wakeup),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
