/* SPDX-License-Identifier: BSD-2-Clause */
/* Data over iWARP: which thread drives the lane, in one process and in two. */
#include "side.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../own_net.h"
#include "base/guard.h"
#include "engine/internal.h"
#include "engine/lane_iwarp.h"
#include "engine/wait.h"

static int open_both(void **state)
{
	struct side *s = calloc(2, sizeof(*s));

	side_open(&s[0]);
	side_open(&s[1]);
	side_connect(&s[0], &s[1]);
	*state = s;
	return 0;
}

static int close_both(void **state)
{
	struct side *s = *state;

	side_close(&s[0]);
	side_close(&s[1]);
	free(s);
	return 0;
}

static void fill(struct side *s, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		s->buf[i] = (uint8_t)(i * 31 + seed + (i >> 8));
}

static void send_and_receive_all_sizes(void **state)
{
	static const uint32_t sizes[] = { 0,	 1,	2,     3,	4,
					  64,	 1447,	1448,  1449,	4096,
					  65483, 65536, 99999, 1u << 20 };
	struct side *a = *state, *b = a + 1;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ur_cqe cqe;

		fill(a, sizes[i], (uint32_t)i);
		memset(b->buf, 0xee, SIDE_BUF);
		side_recv(b, i, 0, SIDE_BUF);
		side_send(a, i, 0, sizes[i]);
		side_poll(b, &cqe);
		assert_int_equal(cqe.wr_id, i);
		assert_int_equal(cqe.status, UR_WC_SUCCESS);
		assert_int_equal(cqe.opcode, UR_WC_RECV);
		assert_int_equal(cqe.byte_len, sizes[i]);
		assert_memory_equal(a->buf, b->buf, sizes[i]);
		side_expect(a, i, UR_WC_SUCCESS);
	}
}

static void both_sides_sleep(void **state)
{
	struct side *a = *state, *b = a + 1;

	for (uint32_t i = 0; i < 50; i++) {
		struct ur_cqe cqe;

		side_recv(a, i, 0, 64);
		side_recv(b, i, 64, 64);
		side_send(a, i, 0, 64);
		do {
			side_sleep(b, &cqe);
		} while (cqe.opcode != UR_WC_RECV);
		assert_int_equal(cqe.status, UR_WC_SUCCESS);
		side_send(b, i, 0, 64);
		do {
			side_sleep(a, &cqe);
		} while (cqe.opcode != UR_WC_RECV);
		assert_int_equal(cqe.status, UR_WC_SUCCESS);
	}
}

/* Arms so that the kernel's polls wake a program (engine/chanpoll). */
static bool arm_polled(struct side *s)
{
	struct ur_lane *l = s->qp.lane;
	bool polled;

	ur_lane_lock(l);
	l->no_waiter_until_ns = 0;
	l->chan.off_until_ns = 0;
	ur_lane_unlock(l);
	atomic_store(&s->cq.armed_ns, ur_clock_ns());
	ur_cq_arm(&s->cq, false);
	ur_adapter_arm(s->a, &s->cq);
	ur_lane_lock(l);
	polled = l->chan.q == &s->channel;
	ur_lane_unlock(l);
	return polled;
}

static void sleep_by_poll(struct side *s)
{
	struct pollfd fd = { .fd = s->channel.fd, .events = POLLIN };
	struct ur_ev ev;

	assert_int_equal(poll(&fd, 1, 10000), 1);
	assert_int_equal(ur_adapter_wait(s->a, &s->channel, &ev), 0);
	ur_evq_ack(&s->channel, ev.source, 1);
}

static void stop_polling(struct side *s)
{
	ur_chanpoll_leave(s->a, &s->channel);
	ur_adapter_cq_unlist(s->a, &s->cq);
}

/* Two messages at a time: one may be left in the connection when the event of the
 * other is taken. */
static void program_sleeps_in_poll(void **state)
{
	struct side *a = *state, *b = a + 1;
	uint32_t polled = 0, got;
	struct ur_cqe cqe[2];

	assert_int_equal(fcntl(b->channel.fd, F_SETFL, O_NONBLOCK), 0);
	ur_adapter_cq_list(b->a, &b->cq);
	for (uint32_t i = 0; i < 300; i++) {
		uint32_t len = i % 3 ? 64 : 100000;

		side_recv(b, i, 0, len);
		side_recv(b, i, 0, len);
		polled += arm_polled(b);
		side_send(a, i, 0, len);
		side_send(a, i, 0, len);
		for (got = 0; got < 2;) {
			sleep_by_poll(b);
			(void)arm_polled(b);
			got += ur_cq_poll(&b->cq, cqe, 2);
		}
		side_expect(a, i, UR_WC_SUCCESS);
		side_expect(a, i, UR_WC_SUCCESS);
	}
	assert_true(polled);
	stop_polling(b);
}

/* Nothing in the set says that a connection is still to be read. */
static void program_sleeps_beside_unread_bytes(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct ur_lane *l = b->qp.lane;
	struct ur_iw_link *k;
	bool left = true;

	assert_int_equal(fcntl(b->channel.fd, F_SETFL, O_NONBLOCK), 0);
	ur_adapter_cq_list(b->a, &b->cq);
	for (uint32_t i = 0; left && i < 1000; i++) {
		if (!arm_polled(b))
			continue;
		ur_lane_lock(l);
		k = ur_iwarp_link(&b->qp);
		ur_tcp_again(&l->iw->tcp, &k->tcp);
		ur_lane_unlock(l);
		(void)arm_polled(b);
		ur_lane_lock(l);
		left = ur_tcp_has_readable(&l->iw->tcp);
		ur_lane_unlock(l);
	}
	assert_false(left);
	stop_polling(b);
}

static bool becomes(const uint8_t *at, uint8_t value)
{
	uint64_t end = ur_adapter_now() + 5 * SECOND;

	while (*(const volatile uint8_t *)at != value)
		if (ur_adapter_now() > end)
			return false;
	return true;
}

/* The target does nothing: its helper places the data. */
static void writes_need_no_help(void **state)
{
	struct side *a = *state, *b = a + 1;

	for (uint8_t i = 1; i < 20; i++) {
		a->buf[0] = i;
		side_rdma(a, i, UR_WR_RDMA_WRITE, 0, 1, b, 100);
		assert_true(becomes(b->buf + 100, i));
		usleep(i * 500);
	}
}

static void reads_and_writes_of_a_mebibyte(void **state)
{
	struct side *a = *state, *b = a + 1;

	fill(a, SIDE_BUF, 3);
	side_rdma(a, 1, UR_WR_RDMA_WRITE, 0, SIDE_BUF, b, 0);
	side_expect(a, 1, UR_WC_SUCCESS);
	memset(a->buf, 0, SIDE_BUF);
	side_rdma(a, 2, UR_WR_RDMA_READ, 0, SIDE_BUF, b, 0);
	side_expect(a, 2, UR_WC_SUCCESS);
	fill(b, SIDE_BUF, 3);
	assert_memory_equal(a->buf, b->buf, SIDE_BUF);
}

/* More than may be outstanding: they wait for their turn. */
static void many_reads_in_order(void **state)
{
	struct side *a = *state, *b = a + 1;

	fill(b, 64 * 1024, 9);
	for (uint32_t i = 0; i < 64; i++)
		side_rdma(a, i, UR_WR_RDMA_READ, i * 1024, 1024, b, i * 1024);
	for (uint32_t i = 0; i < 64; i++)
		side_expect(a, i, UR_WC_SUCCESS);
	assert_memory_equal(a->buf, b->buf, 64 * 1024);
}

static void atomics(void **state)
{
	struct side *a = *state, *b = a + 1;
	uint64_t v = 5;

	memcpy(b->buf, &v, 8);
	side_rdma(a, 1, UR_WR_CMP_SWP, 8, 8, b, 0);
	side_expect(a, 1, UR_WC_SUCCESS);
	memcpy(&v, a->buf + 8, 8);
	assert_int_equal(v, 5);
	side_rdma(a, 2, UR_WR_FETCH_ADD, 16, 8, b, 0);
	side_expect(a, 2, UR_WC_SUCCESS);
	memcpy(&v, a->buf + 16, 8);
	assert_int_equal(v, 77);
	memcpy(&v, b->buf, 8);
	assert_int_equal(v, 82);
}

/* A full socket holds requests back; each continues once there is room. */
static void streams_both_ways(void **state)
{
	struct side *a = *state, *b = a + 1;
	uint32_t done_a = 0, done_b = 0, posted = 0;
	uint64_t end = ur_adapter_now() + 30 * SECOND;

	while (done_a < 400 || done_b < 400) {
		struct ur_cqe cqe;

		if (posted < 400 && posted - done_a < 64 &&
		    posted - done_b < 64) {
			side_rdma(a, posted, UR_WR_RDMA_WRITE, 0, 100000, b, 0);
			side_rdma(b, posted, UR_WR_RDMA_WRITE, 200000, 100000,
				  a, 200000);
			posted++;
		}
		ur_adapter_poll(a->a, &a->cq);
		if (ur_cq_poll(&a->cq, &cqe, 1)) {
			assert_int_equal(cqe.status, UR_WC_SUCCESS);
			assert_int_equal(cqe.wr_id, done_a++);
		}
		if (ur_cq_poll(&b->cq, &cqe, 1)) {
			assert_int_equal(cqe.status, UR_WC_SUCCESS);
			assert_int_equal(cqe.wr_id, done_b++);
		}
		assert_true(ur_adapter_now() < end);
	}
}

/* As RNR on InfiniBand: TCP holds the sender back. */
static void a_send_waits_for_a_receive(void **state)
{
	struct side *a = *state, *b = a + 1;
	uint32_t sent = 0, done = 0, got = 0;
	struct ur_cqe cqe;

	while (got < 2000) {
		if (sent < 2000 && sent - done < 200)
			side_send(b, sent++, 0, 4096);
		while (ur_cq_poll(&b->cq, &cqe, 1)) {
			assert_int_equal(cqe.status, UR_WC_SUCCESS);
			done++;
		}
		/* Always behind, and late in turns. */
		if (sent % 64 == 0)
			usleep(1000);
		if (got < sent) {
			side_recv(a, got, 0, 4096);
			side_expect(a, got++, UR_WC_SUCCESS);
		}
	}
}

/* Without polling, the helper sees that a receive was posted. */
static void the_helper_finds_receives(void **state)
{
	struct side *a = *state, *b = a + 1;

	side_send(b, 1, 0, 64);
	side_expect(b, 1, UR_WC_SUCCESS);
	usleep(100000);
	b->buf[0] = 42;
	side_send(b, 2, 0, 64);
	side_expect(b, 2, UR_WC_SUCCESS);
	side_recv(a, 1, 100, 64);
	side_recv(a, 2, 200, 64);
	assert_true(becomes(a->buf + 200, 42));
}

static void a_starved_queue_pair_sees_the_end(void **state)
{
	struct side *a = *state, *b = a + 1;

	side_send(b, 1, 0, 64);
	side_expect(b, 1, UR_WC_SUCCESS);
	assert_int_equal(ur_conn_disconnect(b->conn), 0);
	side_wait(a, UR_CONN_DISCONNECTED);
	side_wait(b, UR_CONN_DISCONNECTED);
}

static void a_bad_key_ends_the_connection(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct side wrong = *b;
	struct ur_mr mr = *b->mr;

	mr.key ^= 0x100;
	wrong.mr = &mr;
	side_recv(b, 7, 0, 64);
	side_rdma(a, 1, UR_WR_RDMA_READ, 0, 64, &wrong, 0);
	side_expect(a, 1, UR_WC_REM_ACCESS_ERR);
	side_expect(b, 7, UR_WC_WR_FLUSH_ERR);
	side_wait(a, UR_CONN_DISCONNECTED);
	side_wait(b, UR_CONN_DISCONNECTED);
}

static void unmapped_memory_is_no_crash(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct ur_mr *mr, *old = a->mr;
	uint8_t *buf = a->buf;
	struct ur_cqe cqe;

	/* cmocka has put its own handler before each test. */
	assert_int_equal(ur_guard_install(), 0);
	a->buf = mmap(NULL, SIDE_BUF, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(ur_mr_create(ur_adapter_mrs(a->a), &a->pd, a->buf,
				      SIDE_BUF, (uintptr_t)a->buf,
				      UR_ACCESS_LOCAL_WRITE |
					      UR_ACCESS_REMOTE_WRITE,
				      &mr),
			 0);
	a->mr = mr;
	munmap(a->buf, SIDE_BUF);
	side_rdma(b, 1, UR_WR_RDMA_WRITE, 0, 1000, a, 0);
	side_poll(b, &cqe);
	side_wait(a, UR_CONN_DISCONNECTED);
	side_wait(b, UR_CONN_DISCONNECTED);
	ur_mr_destroy(ur_adapter_mrs(a->a), mr);
	a->buf = buf;
	a->mr = old;
}

static int64_t cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* In one of several quarters of a second: on a busy machine earlier work takes
 * long to finish. */
static void idle_costs_nothing(void **state)
{
	int64_t us = INT64_MAX;

	for (int tries = 0; tries < 20 && us >= 3000; tries++) {
		us = cpu_us();
		usleep(250000);
		us = cpu_us() - us;
	}
	assert_true(us < 3000);
}

/* The other process: takes one connection, then does what `act` says. */
static void serve(int port_fd, void (*act)(struct side *s))
{
	struct side s;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	side_open(&s);
	if (side_listen(&s, "127.0.0.1", 0, 0))
		_exit(2);
	(void)!write(port_fd, &s.port, sizeof(s.port));
	side_wait(&s, UR_CONN_REQUEST);
	side_recv(&s, 1, 0, SIDE_BUF);
	if (side_accept(&s, NULL))
		_exit(3);
	side_wait(&s, UR_CONN_ESTABLISHED);
	act(&s);
	_exit(0);
}

static void echo(struct side *s)
{
	struct ur_cqe cqe;

	for (;;) {
		side_poll(s, &cqe);
		if (cqe.opcode != UR_WC_RECV || cqe.status)
			continue;
		side_recv(s, 1, 0, SIDE_BUF);
		side_send(s, 2, 0, cqe.byte_len);
	}
}

static void sleep_forever(struct side *s)
{
	for (;;)
		pause();
}

static void leave(struct side *s)
{
	exit(0);
}

/* A server that takes a request and then neither answers nor lives. */
static void a_server_killed_before_it_answers(void **state)
{
	struct sockaddr_storage to;
	struct side b;
	uint16_t port;
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		struct side s;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		side_open(&s);
		(void)side_listen(&s, "127.0.0.1", 0, 0);
		(void)!write(fds[1], &s.port, sizeof(s.port));
		side_wait(&s, UR_CONN_REQUEST);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(read(fds[0], &port, sizeof(port)), sizeof(port));
	close(fds[0]);
	close(fds[1]);
	side_open(&b);
	to = side_addr("127.0.0.1", port);
	assert_int_equal(side_call(&b, &to, NULL), 0);
	side_wait(&b, UR_CONN_REJECTED);
	waitpid(pid, NULL, 0);
	side_close(&b);
}

/* A child gets an adapter of its own, whatever this process has. */
static pid_t start(void (*act)(struct side *s), struct side *b)
{
	struct sockaddr_storage to;
	uint16_t port;
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0)
		serve(fds[1], act);
	assert_int_equal(read(fds[0], &port, sizeof(port)), sizeof(port));
	close(fds[0]);
	close(fds[1]);
	side_open(b);
	to = side_addr("127.0.0.1", port);
	assert_int_equal(side_call(b, &to, NULL), 0);
	side_wait(b, UR_CONN_ESTABLISHED);
	return pid;
}

static void two_processes_talk(void **state)
{
	struct side b;
	pid_t pid = start(echo, &b);
	struct ur_cqe cqe;

	for (uint32_t i = 0; i < 100; i++) {
		uint32_t len = i * 997 % 60000;

		fill(&b, len, i);
		side_recv(&b, 1, 100000, 100000);
		side_send(&b, 2, 0, len);
		do {
			side_poll(&b, &cqe);
			assert_int_equal(cqe.status, UR_WC_SUCCESS);
		} while (cqe.opcode != UR_WC_RECV);
		assert_int_equal(cqe.byte_len, len);
		assert_memory_equal(b.buf, b.buf + 100000, len);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	side_wait(&b, UR_CONN_DISCONNECTED);
	side_close(&b);
}

/* The peer is killed: an error comes at once, not after a timeout. */
static void a_killed_peer_is_noticed(void **state)
{
	struct side b;
	pid_t pid = start(sleep_forever, &b);
	uint64_t t = ur_adapter_now();

	side_recv(&b, 9, 0, 64);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	side_wait(&b, UR_CONN_DISCONNECTED);
	side_expect(&b, 9, UR_WC_WR_FLUSH_ERR);
	assert_true(ur_adapter_now() - t < 2 * SECOND);
	side_close(&b);
}

static void a_peer_that_exits_is_noticed(void **state)
{
	struct side b;
	pid_t pid = start(leave, &b);
	int status;

	side_recv(&b, 9, 0, 64);
	side_wait(&b, UR_CONN_DISCONNECTED);
	side_expect(&b, 9, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	side_close(&b);
}

/* A child of fork() must not keep connections and ports alive. */
static void a_forked_child_keeps_nothing(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct sockaddr_storage at;
	struct ur_conn *c;
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (ur_conn_disconnect(b->conn) != -ENODEV)
			_exit(1);
		(void)!write(ready[1], "r", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	ur_conn_destroy(a->listener);
	a->listener = NULL;
	assert_int_equal(ur_conn_create(a->a, UR_PS_TCP, NULL, NULL, &c), 0);
	at = side_addr("127.0.0.1", a->port);
	assert_int_equal(ur_conn_bind(c, &at), 0);
	assert_int_equal(ur_conn_listen(c, 1), 0);
	ur_conn_destroy(c);
	assert_int_equal(ur_conn_disconnect(a->conn), 0);
	side_wait(b, UR_CONN_DISCONNECTED);
	side_wait(a, UR_CONN_DISCONNECTED);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, open_both, close_both)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		/* Before this process has an adapter of its own */
		cmocka_unit_test(two_processes_talk),
		cmocka_unit_test(a_killed_peer_is_noticed),
		cmocka_unit_test(a_server_killed_before_it_answers),
		cmocka_unit_test(a_peer_that_exits_is_noticed),
		TEST(send_and_receive_all_sizes),
		TEST(both_sides_sleep),
		TEST(program_sleeps_in_poll),
		TEST(program_sleeps_beside_unread_bytes),
		TEST(writes_need_no_help),
		TEST(reads_and_writes_of_a_mebibyte),
		TEST(many_reads_in_order),
		TEST(atomics),
		TEST(streams_both_ways),
		TEST(a_send_waits_for_a_receive),
		TEST(the_helper_finds_receives),
		TEST(a_starved_queue_pair_sees_the_end),
		TEST(a_bad_key_ends_the_connection),
		TEST(unmapped_memory_is_no_crash),
		TEST(idle_costs_nothing),
		TEST(a_forked_child_keeps_nothing),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
