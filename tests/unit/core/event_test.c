/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "core/event.h"

struct fixture {
	struct ur_evq q;
	struct ur_ev_source src_a, src_b;
	struct ur_ev a, b;
};

static int setup(void **state)
{
	static struct fixture f;

	f = (struct fixture){ .a = { .type = 0 } };
	assert_int_equal(ur_evq_init(&f.q), 0);
	ur_ev_init(&f.a, &f.src_a, &f.a);
	ur_ev_init(&f.b, &f.src_b, &f.b);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ur_evq_fini(&f->q);
	return 0;
}

static void nonblocking(struct ur_evq *q)
{
	fcntl(q->fd, F_SETFL, fcntl(q->fd, F_GETFL) | O_NONBLOCK);
}

static void expect(struct fixture *f, const void *object)
{
	struct ur_ev out;

	assert_true(unit_readable(f->q.fd));
	assert_int_equal(ur_evq_take(&f->q, &out), 0);
	assert_ptr_equal(out.object, object);
}

static void test_each_post_is_one_event(void **state)
{
	struct fixture *f = *state;

	ur_evq_post(&f->q, &f->a);
	ur_evq_post(&f->q, &f->a);
	ur_evq_post(&f->q, &f->b);
	ur_evq_post(&f->q, &f->a);
	expect(f, &f->a);
	expect(f,
	       &f->b); /* a source with many events does not starve another */
	expect(f, &f->a);
	expect(f, &f->a);
	assert_false(unit_readable(f->q.fd));
	assert_int_equal(f->src_a.delivered, 3);
	assert_int_equal(f->src_b.delivered, 1);
	ur_evq_post(&f->q, &f->a);
	expect(f, &f->a);
}

static void test_nonblocking_empty_is_eagain(void **state)
{
	struct fixture *f = *state;
	struct ur_ev out;

	nonblocking(&f->q);
	assert_int_equal(ur_evq_take(&f->q, &out), -EAGAIN);
	ur_evq_post(&f->q, &f->a);
	assert_int_equal(ur_evq_take(&f->q, &out), 0);
	assert_int_equal(ur_evq_take(&f->q, &out), -EAGAIN);
}

static void test_async_events_carry_their_fields(void **state)
{
	struct fixture *f = *state;
	struct ur_ev out;
	int object;

	ur_evq_post_async(&f->q, UR_EVENT_QP_FATAL, &f->src_a, &object, 0);
	ur_evq_post_async(&f->q, UR_EVENT_PORT_ERR, &f->src_b, NULL, 1);
	assert_int_equal(ur_evq_take(&f->q, &out), 0);
	assert_int_equal(out.type, UR_EVENT_QP_FATAL);
	assert_ptr_equal(out.object, &object);
	assert_ptr_equal(out.source, &f->src_a);
	assert_int_equal(ur_evq_take(&f->q, &out), 0);
	assert_int_equal(out.type, UR_EVENT_PORT_ERR);
	assert_int_equal(out.port_num, 1);
}

/* Leak checkers see whether fini frees untaken events. */
static void test_fini_with_events_left(void **state)
{
	struct ur_evq q;
	struct ur_ev_source src = { 0 };

	assert_int_equal(ur_evq_init(&q), 0);
	ur_evq_post_async(&q, UR_EVENT_COMM_EST, &src, NULL, 0);
	ur_evq_post_async(&q, UR_EVENT_COMM_EST, &src, NULL, 0);
	ur_evq_fini(&q);
}

static void test_drain_takes_only_its_source(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 3; i++) {
		ur_evq_post(&f->q, &f->a);
		ur_evq_post_async(&f->q, UR_EVENT_QP_FATAL, &f->src_a, NULL, 0);
		ur_evq_post(&f->q, &f->b);
	}
	ur_evq_drain(&f->q, &f->src_a); /* the descriptor is blocking */
	expect(f, &f->b);
	expect(f, &f->b);
	expect(f, &f->b);
	assert_false(unit_readable(f->q.fd));
	ur_evq_drain(NULL, &f->src_a);
}

struct drainer {
	struct fixture *f;
	_Atomic int done;
};

static void *drain_thread(void *arg)
{
	struct drainer *d = arg;

	ur_evq_drain(&d->f->q, &d->f->src_a);
	d->done = 1;
	return NULL;
}

static void test_drain_waits_for_acknowledgements(void **state)
{
	struct fixture *f = *state;
	struct drainer d = { .f = f };
	pthread_t t;

	ur_evq_post(&f->q, &f->a);
	ur_evq_post(&f->q, &f->a);
	expect(f, &f->a);
	expect(f, &f->a);
	assert_int_equal(pthread_create(&t, NULL, drain_thread, &d), 0);
	usleep(20000);
	assert_int_equal(d.done, 0);
	ur_evq_ack(&f->q, &f->src_a, 1);
	usleep(20000);
	assert_int_equal(d.done, 0);
	ur_evq_ack(&f->q, &f->src_a, 1);
	pthread_join(t, NULL);
	assert_int_equal(d.done, 1);
}

static void test_too_many_acknowledgements_do_not_hang(void **state)
{
	struct fixture *f = *state;

	ur_evq_post(&f->q, &f->a);
	expect(f, &f->a);
	ur_evq_ack(&f->q, &f->src_a, 2);
	ur_evq_drain(&f->q, &f->src_a);
}

static void *take_thread(void *arg)
{
	struct fixture *f = arg;
	struct ur_ev out;

	return (void *)(intptr_t)ur_evq_take(&f->q, &out);
}

static void on_signal(int sig)
{
}

static void test_a_signal_interrupts_the_wait(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal };
	void *ret;
	pthread_t t;

	sigaction(SIGUSR1, &sa, NULL);
	assert_int_equal(pthread_create(&t, NULL, take_thread, *state), 0);
	/* A signal before the wait interrupts nothing. */
	do {
		usleep(50000);
		pthread_kill(t, SIGUSR1);
	} while (pthread_tryjoin_np(t, &ret));
	assert_int_equal((intptr_t)ret, -EINTR);
}

/* Takers, posters and drains at once: no thread hangs, no entry stays. */
#define RACE_POSTS 20000

static void *race_post(void *arg)
{
	struct fixture *f = arg;

	for (int i = 0; i < RACE_POSTS; i++) {
		ur_evq_post(&f->q, &f->a);
		ur_evq_post(&f->q, &f->b);
	}
	return NULL;
}

static void *race_take(void *arg)
{
	struct fixture *f = arg;
	struct ur_ev out;
	intptr_t b = 0;

	while (!ur_evq_take(&f->q, &out) && out.object) {
		b += out.object == &f->b;
		ur_evq_ack(&f->q, out.source, 1);
	}
	return (void *)b;
}

static uint32_t delivered(struct fixture *f, const struct ur_ev_source *src)
{
	uint32_t n;

	ur_lock(&f->q.lock);
	n = src->delivered;
	ur_unlock(&f->q.lock);
	return n;
}

static void test_drain_races_with_takers(void **state)
{
	struct fixture *f = *state;
	struct ur_ev_source stop = { 0 };
	pthread_t post, take[2];
	intptr_t b = 0;

	pthread_create(&take[0], NULL, race_take, f);
	pthread_create(&take[1], NULL, race_take, f);
	pthread_create(&post, NULL, race_post, f);
	for (int i = 0; i < 2000; i++)
		ur_evq_drain(&f->q, &f->src_a);
	pthread_join(post, NULL);
	ur_evq_drain(&f->q, &f->src_a);
	/* The stop marks would overtake an entry that counts for many. */
	while (delivered(f, &f->src_b) < RACE_POSTS)
		sched_yield();
	for (size_t i = 0; i < 2; i++)
		ur_evq_post_async(&f->q, UR_EVENT_SM_CHANGE, &stop, NULL, 0);
	for (size_t i = 0; i < 2; i++) {
		void *ret;

		pthread_join(take[i], &ret);
		b += (intptr_t)ret;
	}
	assert_int_equal(b,
			 RACE_POSTS); /* no drain took another source's event */
	assert_int_equal(f->src_b.delivered, RACE_POSTS);
	assert_int_equal(f->q.stale, 0);
	assert_false(unit_readable(f->q.fd));
}

/* Steps of the thread that defers its wakes. */
struct later {
	struct fixture *f;
	_Atomic int posted, may_wake;
};

static void *later_thread(void *arg)
{
	struct later *l = arg;

	ur_evq_defer_wakes();
	ur_evq_post(&l->f->q, &l->f->a);
	ur_evq_post(&l->f->q, &l->f->b);
	ur_evq_post(&l->f->q, &l->f->a);
	l->posted = 1;
	while (!l->may_wake)
		sched_yield();
	ur_evq_flush_wakes();
	return NULL;
}

static pthread_t start_later(struct later *l)
{
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, later_thread, l), 0);
	while (!l->posted)
		sched_yield();
	return t;
}

static void test_deferred_wakes_are_counted(void **state)
{
	struct fixture *f = *state;
	struct later l = { .f = f };
	pthread_t t = start_later(&l);

	assert_false(unit_readable(f->q.fd));
	l.may_wake = 1;
	pthread_join(t, NULL);
	expect(f, &f->a);
	expect(f, &f->b);
	expect(f, &f->a);
	assert_false(unit_readable(f->q.fd));
}

/* No thread is woken for an event drained meanwhile. */
static void test_drain_before_deferred_wakes(void **state)
{
	struct fixture *f = *state;
	struct later l = { .f = f };
	pthread_t t = start_later(&l);

	ur_evq_drain(&f->q, &f->src_a);
	assert_int_equal(f->q.stale, 0);
	l.may_wake = 1;
	pthread_join(t, NULL);
	expect(f, &f->b);
	assert_false(unit_readable(f->q.fd));
}

static void *fini_thread(void *arg)
{
	struct drainer *d = arg;

	ur_evq_fini(&d->f->q);
	d->done = 1;
	return NULL;
}

static void test_fini_waits_for_deferred_wakes(void **state)
{
	struct fixture *f = *state;
	struct later l = { .f = f };
	struct drainer d = { .f = f };
	pthread_t t = start_later(&l), ending;

	assert_int_equal(pthread_create(&ending, NULL, fini_thread, &d), 0);
	usleep(20000);
	assert_int_equal(d.done, 0);
	l.may_wake = 1;
	pthread_join(t, NULL);
	pthread_join(ending, NULL);
	assert_int_equal(d.done, 1);
	assert_int_equal(ur_evq_init(&f->q), 0); /* for the teardown */
}

struct many {
	struct ur_evq q[UR_EVQ_DEFERRED_MAX + 1];
	struct ur_ev ev[UR_EVQ_DEFERRED_MAX + 1];
	uint32_t before, after; /* how many were readable */
};

static uint32_t readable(const struct many *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i <= UR_EVQ_DEFERRED_MAX; i++)
		n += unit_readable(m->q[i].fd);
	return n;
}

static void *many_thread(void *arg)
{
	struct many *m = arg;

	ur_evq_defer_wakes();
	for (uint32_t i = 0; i <= UR_EVQ_DEFERRED_MAX; i++)
		ur_evq_post(&m->q[i], &m->ev[i]);
	m->before = readable(m);
	ur_evq_flush_wakes();
	m->after = readable(m);
	return NULL;
}

/* One queue more than a thread can defer is signalled at once. */
static void test_more_queues_than_are_remembered(void **state)
{
	static struct many m;
	pthread_t t;

	for (uint32_t i = 0; i <= UR_EVQ_DEFERRED_MAX; i++) {
		assert_int_equal(ur_evq_init(&m.q[i]), 0);
		ur_ev_init(&m.ev[i], NULL, NULL);
	}
	assert_int_equal(pthread_create(&t, NULL, many_thread, &m), 0);
	pthread_join(t, NULL);
	assert_int_equal(m.before, 1);
	assert_int_equal(m.after, UR_EVQ_DEFERRED_MAX + 1);
	for (uint32_t i = 0; i <= UR_EVQ_DEFERRED_MAX; i++)
		ur_evq_fini(&m.q[i]);
}

/* As the kernel does when a packet comes. */
static void signal_by_kernel(struct ur_evq *q)
{
	uint64_t one = 1;

	assert_int_equal(write(q->fd, &one, sizeof(one)), sizeof(one));
}

static bool take_polled(struct fixture *f, bool *readable)
{
	struct ur_ev out;

	if (!ur_evq_take_polled(&f->q, &out, readable))
		return false;
	ur_evq_ack(&f->q, out.source, 1);
	return true;
}

static void test_counts_of_the_kernel(void **state)
{
	struct fixture *f = *state;
	bool readable;

	nonblocking(&f->q);
	assert_false(take_polled(f, &readable));
	assert_false(readable);
	signal_by_kernel(&f->q);
	signal_by_kernel(&f->q);
	assert_false(take_polled(f, &readable));
	assert_true(readable);
	assert_false(unit_readable(f->q.fd));

	/* Each entry keeps its count, and no more. */
	ur_evq_post(&f->q, &f->a);
	signal_by_kernel(&f->q);
	ur_evq_post(&f->q, &f->b);
	assert_true(take_polled(f, &readable));
	assert_true(unit_readable(f->q.fd));
	signal_by_kernel(&f->q);
	assert_true(take_polled(f, &readable));
	assert_false(unit_readable(f->q.fd));

	/* Another taker has read the entry's or the kernel's. */
	signal_by_kernel(&f->q);
	ur_evq_post(&f->q, &f->a);
	expect(f, &f->a);
	assert_false(take_polled(f, &readable));
	assert_true(readable);

	/* Beside entries whose counts come later. */
	ur_evq_defer_wakes();
	ur_evq_post(&f->q, &f->b);
	ur_evq_post(&f->q, &f->b);
	signal_by_kernel(&f->q);
	assert_true(take_polled(f, &readable));
	assert_false(unit_readable(f->q.fd));
	ur_evq_flush_wakes();
	ur_evq_end_deferring();
	assert_true(unit_readable(f->q.fd));
	assert_true(take_polled(f, &readable));
	assert_false(take_polled(f, &readable));
	assert_false(readable);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_each_post_is_one_event),
		T(test_nonblocking_empty_is_eagain),
		T(test_async_events_carry_their_fields),
		T(test_fini_with_events_left),
		T(test_drain_takes_only_its_source),
		T(test_drain_waits_for_acknowledgements),
		T(test_too_many_acknowledgements_do_not_hang),
		T(test_a_signal_interrupts_the_wait),
		T(test_drain_races_with_takers),
		T(test_deferred_wakes_are_counted),
		T(test_drain_before_deferred_wakes),
		T(test_fini_waits_for_deferred_wakes),
		T(test_counts_of_the_kernel),
		cmocka_unit_test(test_more_queues_than_are_remembered),
	};

	alarm(100); /* a lost count would hang a taker */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
