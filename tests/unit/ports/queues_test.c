/* SPDX-License-Identifier: BSD-2-Clause */
/* A port of several queues, each with a lane or free, on a controller that is
 * the test's. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../own_net.h"
#include "ports/port_group.h"
#include "ports/port_link.h"
#include "queues_rig.h"
#include "sockets/udp.h"

/* ---- Cases ---- */

static void test_one_lane_has_all_queues(void **state)
{
	begin(false);
	for (uint32_t q = 0; q < QUEUES; q++)
		come(q, SLOT, (uint8_t)(1 + q));
	assert_int_equal(poll_lane(0), QUEUES);
	assert_int_equal(lanes[0].n, QUEUES);
	leave(0);
	assert_int_equal(closed, 1);
	close(host);
}

static void test_each_its_own(void **state)
{
	struct ur_port_facts f;

	assert_int_equal(sit(1, false), -ENOENT);
	begin(false);
	for (uint32_t i = 1; i < QUEUES; i++)
		assert_int_equal(sit(i, false), 0);
	assert_int_equal(sit(QUEUES, false), -EBUSY);
	for (uint32_t i = 0; i < QUEUES; i++) {
		ur_port_facts(lanes[i].seat.port, &f);
		assert_int_equal(f.queue, i);
		assert_int_equal(f.queues, QUEUES);
		assert_string_equal(f.driver, "toy");
		assert_int_equal(ur_port_serves_host(lanes[i].seat.port),
				 i == 0);
		come(i, SLOT + i, 1);
	}
	for (uint32_t i = 0; i < QUEUES; i++) {
		assert_int_equal(poll_lane(i), 1);
		assert_int_equal(lanes[i].n, 1);
	}
	/* Any of them may be the last. */
	leave(0);
	leave(2);
	assert_int_equal(closed, 0);
	leave(1);
	assert_int_equal(closed, 1);
	close(host);
}

/* Packets in the queue of another lane go to their own, in order; packets of no
 * lane go to the host. */
static void test_handed(void **state)
{
	begin(false);
	assert_int_equal(sit(1, false), 0);
	for (uint8_t i = 0; i < 4; i++)
		come(0, SLOT + 1, i);
	assert_int_equal(poll_lane(0), 0);
	assert_false(to_host());
	assert_int_equal(poll_lane(1), 4);
	for (uint8_t i = 0; i < 4; i++)
		assert_int_equal(lanes[1].marks[i], i);
	come(0, SLOT + 9, 0);
	(void)poll_lane(0);
	assert_true(to_host());
	leave(1);
	come(0, SLOT + 1, 0);
	(void)poll_lane(0);
	assert_true(to_host());
	leave(0);
	close(host);
}

static void sit_down(void)
{
	if (!lanes[1].seat.group)
		assert_int_equal(sit(1, false), 0);
	/* It is not ours while another thread polls it. */
	assert_int_equal(ur_port_poll(lanes[1].seat.port, now), 0);
}

/* A lane takes a queue while another thread polls it: the packets that the
 * thread has taken come first. */
static void test_order_of_change(void **state)
{
	begin(false);
	memset(&lanes[1], 0, sizeof(lanes[1]));
	while_busy = sit_down;
	come(1, SLOT + 1, 10);
	come(1, SLOT + 1, 11);
	assert_int_equal(poll_lane(0), 0);
	while_busy = NULL;
	come(1, SLOT + 1, 12);
	come(1, SLOT + 1, 13);
	assert_int_equal(poll_lane(0), 0);
	(void)poll_lane(1);
	/* The first one came before the lane did. */
	assert_true(to_host());
	assert_false(to_host());
	assert_int_equal(lanes[1].n, 3);
	for (uint8_t i = 0; i < 3; i++)
		assert_int_equal(lanes[1].marks[i], 11 + i);
	leave(1);
	leave(0);
	close(host);
}

/* A queue that its owner does not poll is polled by others, and the packets that
 * they pass to the owner precede those left in the queue. */
static void test_left_alone(void **state)
{
	begin(false);
	assert_int_equal(sit(1, false), 0);
	come(1, SLOT + 1, 1);
	assert_int_equal(poll_lane(1), 1);
	come(1, SLOT + 1, 2);
	come(1, SLOT, 3);
	for (int i = 0; i < 50; i++)
		assert_int_equal(poll_lane(0), 0);
	now += S / 1000;
	for (int i = 0; i < 50; i++)
		(void)poll_lane(0);
	assert_int_equal(lanes[0].n, 1);
	assert_int_equal(lanes[0].marks[0], 3);
	come(1, SLOT + 1, 4);
	assert_int_equal(poll_lane(1), 2);
	assert_int_equal(lanes[1].marks[1], 2);
	assert_int_equal(lanes[1].marks[2], 4);
	leave(1);
	leave(0);
	close(host);
}

/* More than a burst waits in the inbox: the queue is not looked into before
 * all of it was taken. */
static void test_long_inbox(void **state)
{
	begin(false);
	assert_int_equal(sit(1, false), 0);
	for (uint8_t i = 0; i < 100; i++) {
		come(0, SLOT + 1, i);
		(void)poll_lane(0);
	}
	come(1, SLOT + 1, 100);
	for (uint8_t i = 0; i <= 100;) {
		lanes[1].n = 0;
		assert_true(poll_lane(1) > 0);
		for (uint32_t k = 0; k < lanes[1].n; k++, i++)
			assert_int_equal(lanes[1].marks[k], i);
	}
	leave(1);
	leave(0);
	close(host);
}

/* A waiting lane is woken by its own queue and inbox, the first lane also by
 * free queues. */
static void test_waits(void **state)
{
	uint64_t one = 1;
	int fd[2];

	begin(true);
	assert_int_equal(sit(1, false), 0);
	for (uint32_t i = 0; i < 2; i++) {
		(void)poll_lane(i);
		ur_port_seat_sleep(&lanes[i].seat);
		fd[i] = ur_port_wait_fd(lanes[i].seat.port, now);
		assert_false(is_readable(fd[i]));
	}
	for (uint32_t q = 0; q < QUEUES; q++)
		assert_true(toy[q].armed > 0);
	assert_int_equal(write(toy[1].fd, &one, 8), 8);
	assert_false(is_readable(fd[0]));
	assert_true(is_readable(fd[1]));
	assert_int_equal(read(toy[1].fd, &one, 8), 8);
	one = 1;
	assert_int_equal(write(toy[2].fd, &one, 8), 8);
	assert_true(is_readable(fd[0]));
	assert_false(is_readable(fd[1]));
	/* The wakeup fd, until it was drained. */
	come(0, SLOT + 1, 1);
	assert_int_equal(poll_lane(0), 0);
	assert_true(is_readable(ur_port_seat_fd(&lanes[1].seat)));
	ur_port_seat_wake(&lanes[1].seat);
	assert_false(is_readable(ur_port_seat_fd(&lanes[1].seat)));
	/* A lane that wants to sleep, but has packets, is woken at once. */
	ur_port_seat_sleep(&lanes[1].seat);
	assert_true(is_readable(ur_port_seat_fd(&lanes[1].seat)));
	leave(1);
	/* It is the first one's again. */
	assert_int_equal(read(toy[2].fd, &one, 8), 8);
	assert_false(is_readable(fd[0]));
	one = 1;
	assert_int_equal(write(toy[1].fd, &one, 8), 8);
	assert_true(is_readable(fd[0]));
	leave(0);
	close(host);
}

static int busy_fd;

static void wait_meanwhile(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	busy_fd = ur_port_wait_fd(lanes[1].seat.port,
				  (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec);
}

/* Another thread polls the queue of a lane that wants to sleep, so it cannot be
 * armed: the lane retries soon, however long the queue was idle. */
static void test_waits_while_looked_into(void **state)
{
	struct pollfd p = { .events = POLLIN };

	begin(true);
	assert_int_equal(sit(1, false), 0);
	busy_fd = -1;
	while_busy = wait_meanwhile;
	come(1, SLOT, 1);
	for (int i = 0; i < 50; i++)
		(void)poll_lane(0);
	while_busy = NULL;
	assert_int_equal(lanes[0].n, 1);
	assert_int_equal(toy[1].armed, 0);
	p.fd = busy_fd;
	assert_int_equal(poll(&p, 1, 5), 1);
	leave(1);
	leave(0);
	close(host);
}

/* An inbox that is not emptied overflows, and counts the lost packets. */
static void test_full(void **state)
{
	uint64_t lost;

	begin(false);
	assert_int_equal(sit(1, false), 0);
	for (int i = 0; i < 40000; i++) {
		come(0, SLOT + 1, 1);
		(void)poll_lane(0);
	}
	lost = ur_port_seat_lost(&lanes[1].seat);
	assert_in_range(lost, 1, 39999);
	assert_false(to_host());
	leave(1);
	leave(0);
	close(host);
}

/* A controller that takes rules has one for each lane, while it is there. */
static void test_steered(void **state)
{
	struct ur_port_facts f;

	steers = true;
	begin(false);
	assert_int_equal(sit(1, false), 0);
	for (uint32_t q = 0; q < 2; q++) {
		assert_int_equal(toy[q].steered, 1);
		assert_int_equal(toy[q].qpn, (SLOT + q) << 14);
		assert_int_equal(toy[q].mask, 0xffc000);
	}
	ur_port_facts(lanes[0].seat.port, &f);
	assert_int_equal(f.steered, 2);
	assert_string_equal(ur_port_spread(&f), "by QPN");
	leave(1);
	assert_int_equal(toy[1].steered, 0);
	ur_port_facts(lanes[0].seat.port, &f);
	assert_int_equal(f.steered, 1);
	leave(0);
	steers = false;
	close(host);
}

/* A controller that refuses a rule does no harm; packets in another queue than
 * their lane's are counted there, also when a third lane polls that queue. */
static void test_counts_what_came_elsewhere(void **state)
{
	struct ur_port_stats s;
	struct ur_port_facts f;

	begin(false);
	assert_int_equal(sit(1, false), 0);
	come(0, SLOT, 1);
	come(0, SLOT + 1, 2);
	come(0, SLOT + 9, 3); /* of no lane */
	come(1, SLOT + 1, 4);
	come(1, SLOT, 5);
	(void)poll_lane(0);
	(void)poll_lane(1);
	(void)poll_lane(0);
	ur_port_stats(lanes[0].seat.port, &s);
	assert_int_equal(s.elsewhere, 1);
	ur_port_facts(lanes[1].seat.port, &f);
	assert_int_equal(f.elsewhere, 1);
	assert_int_equal(f.steered, 0);
	assert_string_equal(ur_port_spread(&f), "by driver");
	now += S / 1000;
	come(1, SLOT + 1, 6);
	for (int i = 0; i < 50; i++)
		(void)poll_lane(0);
	ur_port_stats(lanes[0].seat.port, &s);
	assert_int_equal(s.elsewhere, 1);
	come(1, SLOT, 7);
	for (int i = 0; i < 50; i++)
		(void)poll_lane(0);
	ur_port_stats(lanes[0].seat.port, &s);
	assert_int_equal(s.elsewhere, 2);
	leave(1);
	leave(0);
	close(host);
}

/* As many as the driver has; with one there is no inbox. */
static void test_fewer(void **state)
{
	has_queues = 1;
	begin(false);
	assert_int_equal(asked_queues, QUEUES);
	assert_int_equal(sit(1, false), -EBUSY);
	assert_int_equal(ur_port_seat_fd(&lanes[0].seat), -1);
	come(0, SLOT + 1, 1);
	come(0, SLOT, 2);
	(void)poll_lane(0);
	assert_true(to_host());
	assert_int_equal(lanes[0].n, 1);
	leave(0);
	close(host);
	has_queues = QUEUES;
}

/* One queue, if several are not asked for. */
static void test_not_several(void **state)
{
	struct ur_port_config cfg = { .spec = &spec,
				      .ifname = "x",
				      .deliver = deliver,
				      .arg = &lanes[0] };
	struct ur_port *port, *other;

	assert_int_equal(ur_port_open(&cfg, &port), 0);
	assert_int_equal(asked_queues, 1);
	assert_int_equal(ur_port_attach(port, &cfg, &other), -EBUSY);
	ur_port_close(port);
	close(host);
}

/* A child of fork() has no port, and does no harm to its parent's. */
static void test_fork(void **state)
{
	int status;
	pid_t child;

	begin(true);
	assert_int_equal(sit(1, false), 0);
	child = fork();
	if (child == 0) {
		int err = sit(2, false);

		ur_port_seat_abandon(&lanes[0].seat);
		ur_port_seat_abandon(&lanes[1].seat);
		_exit(err == -ENOENT ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	come(0, SLOT + 1, 1);
	assert_int_equal(poll_lane(0), 0);
	assert_int_equal(poll_lane(1), 1);
	leave(0);
	leave(1);
	close(host);
}

/* ---- Links ---- */

static void count_packets(void *arg, const struct ur_rx *p)
{
	uint32_t *n = arg;

	++*n;
}

/* A packet is passed to a lane whose helper waits, and another thread polls the
 * lane before the helper runs.  It must wake: the next packet does not signal. */
static void test_wakeup_is_the_waiters(void **state)
{
	struct ur_port_config cfg = { .spec = &spec, .ifname = "x" };
	struct ur_link *link[2];
	uint32_t n[2] = { 0 };
	int fd;

	if (!own_net_enter())
		SKIP_BECAUSE(NO_OWN_NET);
	interrupts = true;
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(
			(i ? ur_port_link_join : ur_port_link_create)(
				&cfg, SLOT + i,
				ur_udp_sole_socket((uint16_t)(4791 + i)),
				&link[i]),
			0);
	for (int i = 0; i < 20; i++)
		(void)link[0]->ops->recv(link[0], count_packets, &n[0]);
	/* A timer may be due at first. */
	for (int i = 0; i < 100; i++) {
		fd = link[1]->ops->wait_fd(link[1]);
		if (!is_readable(fd))
			break;
		(void)link[1]->ops->recv(link[1], count_packets, &n[1]);
		usleep(1000);
	}
	assert_false(is_readable(fd));
	come(0, SLOT + 1, 1);
	(void)link[0]->ops->recv(link[0], count_packets, &n[0]);
	assert_int_equal(link[1]->ops->recv(link[1], count_packets, &n[1]), 1);
	assert_int_equal(n[0], 0);
	assert_int_equal(n[1], 1);
	assert_true(is_readable(fd));
	for (uint32_t i = 0; i < 2; i++)
		link[i]->ops->destroy(link[i]);
	close(host);
}

/* ---- Threads ---- */

#define ROUNDS 20000

static _Atomic uint32_t got[2];
static _Atomic uint32_t disorder;
static _Atomic bool stop;

/* What came by one queue comes in order.  Of that a lane sees its own alone. */
static void take(const struct lane *l, const struct ur_rx *p)
{
	static uint32_t last[2][2];
	uint32_t *at = &last[l - lanes][p->data[8]];
	uint32_t mark =
		(uint32_t)(p->data[9] << 16 | p->data[10] << 8 | p->data[11]);

	disorder += mark <= *at;
	*at = mark;
	got[l - lanes]++;
}

static bool count(void *arg, const struct ur_rx *p)
{
	struct lane *l = arg;
	bool taken;

	if (is_own(l, p, &taken))
		take(l, p);
	return taken;
}

static void count_rx(void *arg, const struct ur_rx *p)
{
	take(arg, p);
}

static bool count_before(void *arg)
{
	struct lane *l = arg;
	uint32_t n;

	return ur_port_seat_recv(&l->seat, count_rx, l, &n);
}

static bool has_room(uint32_t q)
{
	bool room;

	pthread_mutex_lock(&toy[q].lock);
	room = toy[q].n < DEPTH;
	pthread_mutex_unlock(&toy[q].lock);
	return room;
}

/* Each feeds its own queue with packets for either lane. */
static void *work(void *arg)
{
	struct lane *l = arg;
	uint32_t i = (uint32_t)(l - lanes), n = 0;
	uint64_t at = now;

	while (!stop) {

		if (n < ROUNDS && has_room(i)) {
			come(i, SLOT + n % 2, i << 24 | (n + 1));
			n++;
		}
		/* A lane that falls behind is helped. */
		(void)ur_port_poll(l->seat.port, at += 100);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct ur_port_config cfg = { .spec = &spec,
				      .ifname = "x",
				      .deliver = count,
				      .before = count_before };
	pthread_t t[2];

	got[0] = got[1] = 0;
	stop = false;
	for (uint32_t i = 0; i < 2; i++) {
		memset(&lanes[i], 0, sizeof(lanes[i]));
		lanes[i].slot = SLOT + i;
		cfg.arg = &lanes[i];
		assert_int_equal((i ? ur_port_seat_join : ur_port_seat_open)(
					 &cfg, SLOT + i, &lanes[i].seat),
				 0);
	}
	for (int i = 0; i < 20; i++)
		(void)ur_port_poll(lanes[0].seat.port, now += S / 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, work, &lanes[i]),
				 0);
	/* Nothing is lost here: the receiving lane polls all the time.
	 * If it were, the test's own limit of time would end it. */
	while (got[0] + got[1] + ur_port_seat_lost(&lanes[0].seat) +
		       ur_port_seat_lost(&lanes[1].seat) <
	       2 * ROUNDS)
		sched_yield();
	stop = true;
	for (uint32_t i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	assert_true(got[0] > 0 && got[1] > 0);
	assert_int_equal(disorder, 0);
	assert_int_equal(crowds, 0);
	leave(0);
	leave(1);
	close(host);
}

int main(void)
{
	struct timespec t;
	const struct CMUnitTest tests[] = {
		/* First: a process of one thread may have its own network. */
		cmocka_unit_test(test_wakeup_is_the_waiters),
		cmocka_unit_test(test_one_lane_has_all_queues),
		cmocka_unit_test(test_each_its_own),
		cmocka_unit_test(test_handed),
		cmocka_unit_test(test_order_of_change),
		cmocka_unit_test(test_left_alone),
		cmocka_unit_test(test_long_inbox),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_waits_while_looked_into),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_steered),
		cmocka_unit_test(test_counts_what_came_elsewhere),
		cmocka_unit_test(test_fewer),
		cmocka_unit_test(test_not_several),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_threads),
	};

	clock_gettime(CLOCK_MONOTONIC, &t);
	now = (uint64_t)t.tv_sec * S;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
