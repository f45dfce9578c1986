/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that sleep in poll(2) or epoll on a completion channel: a descriptor
 * that is readable has an event, each completion wakes them, and the helper does
 * what they leave.
 */
#include "chanpoll_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../own_net.h"
#include "engine/wait.h"
#include "shm/maps.h"
#include "shm/share_internal.h"

static void test_poll(void **state)
{
	struct pair *p = *state;

	for (uint32_t i = 0; i < EXCHANGES; i++) {
		arm_polled(p);
		pair_post_write(p, 0, 8);
		sleep_until_done(p);
	}
	take_rest(p);
}

static int epoll_of(int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events };
	int set = epoll_create1(EPOLL_CLOEXEC);

	assert_true(set >= 0);
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev), 0);
	return set;
}

static void exchange_by_epoll(struct pair *p, uint32_t events)
{
	int set = epoll_of(p->channel.fd, events);
	struct epoll_event ev;

	for (uint32_t i = 0; i < EXCHANGES; i++) {
		arm_polled(p);
		pair_post_write(p, 0, 8);
		while (ur_cq_is_empty(&p->cq)) {
			arm_cq(p, &p->cq);
			assert_int_equal(epoll_wait(set, &ev, 1, TEN_S_MS), 1);
			assert_true(take(p));
			while (events & EPOLLET && take(p))
				;
		}
		empty_cq(p);
	}
	close(set);
}

static void test_epoll(void **state)
{
	exchange_by_epoll(*state, EPOLLIN);
	exchange_by_epoll(*state, EPOLLIN | EPOLLEXCLUSIVE);
	exchange_by_epoll(*state, EPOLLIN | EPOLLET);
}

/* A packet without a completion that the queue is armed for: still an event, once,
 * and the queue is not armed afterwards. */
static void test_event_without_completion(void **state)
{
	struct pair *p = *state;
	uint32_t idle = 0;

	for (uint32_t i = 0; i < 50; i++) {
		arm_polled(p);
		set_armed(&p->cq, UR_CQ_ARMED_SOLICITED);
		pair_post_write(p, 0, 8);
		sleep_by_poll(p);
		assert_int_equal(atomic_load(&p->cq.armed), UR_CQ_IDLE);
		idle++;
		empty_cq(p);
		take_rest(p);
		pair_drain(p);
	}
	assert_int_equal(idle, 50);
	assert_int_equal(p->cq.source.delivered, p->cq.source.acked);
}

/* A poll by the kernel that is left over. */
static void test_queue_not_armed(void **state)
{
	struct pair *p = *state;

	for (uint32_t i = 0; i < 50; i++) {
		arm_polled(p);
		set_armed(&p->cq, UR_CQ_IDLE);
		pair_post_write(p, 0, 8);
		sleep_by_poll(p);
		pair_drain(p);
	}
}

/* Calls without poll(2) do not end otherwise.  A signal of the link and one of the
 * peers may be left. */
static void test_eagain(void **state)
{
	struct pair *p = *state;
	uint32_t taken;

	for (uint32_t i = 0; i < 50; i++) {
		arm_polled(p);
		for (uint32_t k = taken = 0; k < 20; k++)
			taken += take(p);
		assert_true(taken <= 2);
		arm_cq(p, &p->cq);
		pair_post_write(p, 0, 8);
		sleep_until_done(p);
	}
}

/* It polls the queue that it has armed. */
static void test_program_spins(void **state)
{
	struct pair *p = *state;
	uint64_t end = ur_adapter_now() + 10 * SECOND;

	for (uint32_t i = 0; i < 50; i++) {
		arm_polled(p);
		pair_post_write(p, 0, 8);
		while (ur_cq_is_empty(&p->cq) && ur_adapter_now() < end)
			ur_adapter_poll(p->a, &p->cq);
		assert_false(ur_cq_is_empty(&p->cq));
		sleep_by_poll(p);
		empty_cq(p);
	}
}

static void test_timers_run(void **state)
{
	struct pair *p = *state;
	struct ur_cqe cqe;

	pair_destroy_b(p);
	arm_polled(p);
	pair_post_send(p, 8);
	while (ur_cq_is_empty(&p->cq)) {
		sleep_by_poll(p);
		arm_cq(p, &p->cq);
	}
	assert_int_equal(ur_cq_poll(&p->cq, &cqe, 1), 1);
	assert_int_equal(cqe.status, UR_WC_RETRY_EXC_ERR);
}

/* Readable means that a call does not block; a call that blocks ends. */
static void test_mode_changes(void **state)
{
	struct pair *p = *state;

	for (uint32_t i = 0; i < 50; i++) {
		arm_polled(p);
		if (i % 2)
			pair_post_write(p, 0, 8);
		block(&p->channel, true);
		if (i % 3 == 0)
			arm_cq(p, &p->cq);
		if (i % 2 == 0)
			pair_post_write(p, 0, 8);
		do {
			arm_cq(p, &p->cq);
			if (ur_cq_is_empty(&p->cq))
				assert_true(take(p));
		} while (ur_cq_is_empty(&p->cq));
		empty_cq(p);
		block(&p->channel, false);
		while (take(p))
			;
	}
}

/* Two threads that sleep on one channel. */
struct taker {
	struct pair *p;
	int set;
	_Atomic uint32_t *done;
	_Atomic bool *stop;
};

static void *taker_main(void *arg)
{
	struct taker *t = arg;
	struct ur_cqe cqe[8];
	struct epoll_event ev;

	while (!atomic_load(t->stop)) {
		if (epoll_wait(t->set, &ev, 1, 10) != 1 || !take(t->p))
			continue;
		arm_cq(t->p, &t->p->cq);
		atomic_fetch_add(t->done, ur_cq_poll(&t->p->cq, cqe, 8));
	}
	return NULL;
}

static void two_threads(struct pair *p, uint32_t events)
{
	_Atomic uint32_t done = 0;
	_Atomic bool stop = false;
	struct taker t = { .p = p, .done = &done, .stop = &stop };
	pthread_t thread[2];

	t.set = epoll_of(p->channel.fd, events);
	arm_polled(p);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, taker_main, &t);
	for (uint32_t i = 1; i <= EXCHANGES; i++) {
		uint64_t end = ur_adapter_now() + 10 * SECOND;

		allow(p->qa.lane);
		pair_post_write(p, 0, 8);
		while (atomic_load(&done) < i && ur_adapter_now() < end)
			sched_yield();
		assert_int_equal(atomic_load(&done), i);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	close(t.set);
}

static void test_two_threads(void **state)
{
	two_threads(*state, EPOLLIN);
	two_threads(*state, EPOLLIN | EPOLLET);
}

static bool kernel_has_ended(struct ur_lane *l)
{
	uint64_t end = ur_adapter_now() + 10 * SECOND;

	while (!ur_aiopoll_any(&l->chan.aio) && ur_adapter_now() < end)
		sched_yield();
	return ur_aiopoll_any(&l->chan.aio);
}

/* The kernel's ring is ahead of the descriptor. */
static void test_late_count(void **state)
{
	struct pair *p = *state;
	uint64_t one = 1;

	for (uint32_t i = 0; i < 50; i++) {
		arm_polled(p);
		pair_post_write(p, 0, 8);
		assert_true(kernel_has_ended(p->qa.lane));
		assert_true(is_readable(p->channel.fd, TEN_S_MS));
		assert_int_equal(read(p->channel.fd, &one, sizeof(one)),
				 sizeof(one));
		(void)take(p);
		assert_int_equal(write(p->channel.fd, &one, sizeof(one)),
				 sizeof(one));
		sleep_by_poll(p);
		while (take(p))
			;
		empty_cq(p);
		pair_drain(p);
	}
}

static void test_queue_is_gone(void **state)
{
	struct pair *p = *state;
	struct other o;

	for (uint32_t i = 0; i < 50; i++) {
		other_init(&o, p, &p->channel, false);
		arm_polled(p);
		arm_cq(p, &o.cq);
		set_armed(&p->cq, UR_CQ_IDLE);
		pair_post_write(p, 0, 8);
		assert_true(is_readable(p->channel.fd, TEN_S_MS));
		other_fini(&o, p);
		sleep_by_poll(p);
		pair_drain(p);
	}
}

/* A child holds copies of the descriptors, and touches nothing of the parent's. */
static void test_fork(void **state)
{
	struct pair *p = *state;
	int status;
	pid_t child;

	arm_polled(p);
	child = fork();
	if (child == 0) {
		struct ur_ev ev;

		_exit(ur_adapter_wait(p->a, &p->channel, &ev) != -EAGAIN);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pair_post_write(p, 0, 8);
	sleep_until_done(p);
}

static uint32_t maps_refused(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4200];
	uint32_t n = 0;
	struct ur_map m;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (ur_map_parse(line, &m) && ur_map_begins(m.path, "/[aio]"))
			n += !ur_share_map_ok(&m);
	fclose(maps);
	return n;
}

/* The kernel's ring does not prevent that private memory is shared. */
static void test_ring_is_ours(void **state)
{
	struct pair *p = *state;
	aio_context_t ctx = 0;

	arm_polled(p);
	assert_int_equal(maps_refused(), 0);
	assert_int_equal(syscall(SYS_io_setup, 1, &ctx), 0);
	assert_int_equal(maps_refused(), 1);
	assert_int_equal(syscall(SYS_io_destroy, ctx), 0);
	pair_post_write(p, 0, 8);
	sleep_until_done(p);
}

/* The program closes the descriptor. */
static void test_closed_descriptor(void **state)
{
	struct pair *p = *state;
	struct other o;
	struct ur_ev ev;
	int fd, err;

	other_init(&o, p, NULL, false);
	arm_polled_cq(p, &o.cq);
	fd = o.own.fd;
	o.own.fd = 1000; /* other threads take low numbers meanwhile */
	/* A packet may be left. */
	while (!(err = ur_adapter_wait(p->a, &o.own, &ev)))
		ur_evq_ack(&o.own, ev.source, 1);
	assert_int_equal(err, -EBADF);
	o.own.fd = fd;
	other_fini(&o, p);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_poll),
		TEST(test_epoll),
		TEST(test_event_without_completion),
		TEST(test_queue_not_armed),
		TEST(test_eagain),
		TEST(test_program_spins),
		TEST(test_timers_run),
		TEST(test_mode_changes),
		TEST(test_two_threads),
		TEST(test_late_count),
		TEST(test_queue_is_gone),
		TEST(test_fork),
		TEST(test_ring_is_ours),
		TEST(test_closed_descriptor),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
