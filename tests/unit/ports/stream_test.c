/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams over a port and a TCP that do what a case wants. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/guard.h"
#include "base/timer.h"
#include "ports/nic.h"
#include "ports/stream.h"
#include "stream_rig.h"

#define TICK UR_STACK_TICK_NS

/* ---- Two ports ---- */

#define V4(n)                                                                  \
	{                                                                      \
		[10] = 0xff, [11] = 0xff, 10, 0, n, 1                          \
	}

static const struct ur_port_spec specs[] = {
	{ .naddrs = 2,
	  .addrs = { { .ip = V4(1), .prefix = 24 },
		     { .ip = { 0xfe, 0x80, [15] = 1 }, .prefix = 64 } },
	  .mtu = 1500 },
	{ .naddrs = 1,
	  .addrs = { { .ip = V4(2), .prefix = 24 } },
	  .mtu = 1500 },
};

static const struct ur_stack_end from[2] = { { .addr = V4(1), .port = 1000 },
					     { .addr = V4(2), .port = 1001 } };
static const struct ur_stack_end to = { .addr = V4(9), .port = 80 };

static int open_port(const struct ur_port_spec *spec)
{
	struct ur_port_config cfg = { .spec = spec, .ifname = "x" };

	return ur_streams_open(&cfg);
}

/* All of its addresses, or none, and then the port is gone again. */
static void test_open(void **state)
{
	uint8_t packet[20] = { 0x45, [9] = 6, [16] = 10, 0, 1, 1 };
	struct ur_stack_counters c;

	assert_true(ur_streams_available());
	assert_false(ur_streams_are_there());
	assert_false(ur_streams_counters(&c));
	fail_add = 2;
	assert_int_equal(open_port(&specs[0]), -ENOSPC);
	assert_int_equal(nwhere, 0);
	assert_int_equal(closed, 1);
	assert_false(ur_streams_are_there());
	assert_int_equal(open_port(&specs[0]), 0);
	assert_int_equal(nwhere, 2);
	assert_int_equal(open_port(&specs[0]), -EADDRINUSE);
	assert_int_equal(closed, 2);
	serve_in_open = true;
	assert_int_equal(open_port(&specs[1]), 0);
	assert_int_equal(nwhere, 3);
	assert_true(ur_streams_are_there());
	assert_true(ur_streams_carry(from[0].addr, to.addr));
	assert_false(ur_streams_carry(to.addr, from[0].addr));
	assert_false(ur_streams_carry(from[0].addr, from[1].addr));
	/* A packet for an address of another port is not this one's. */
	assert_true(ports[0]->cfg.tcp(ports[0]->cfg.arg, packet, 20));
	assert_false(ports[1]->cfg.tcp(ports[1]->cfg.arg, packet, 20));
}

/* TCP ignores packets from the wire with a source address of ours, of this port
 * or of another: an answer could not be delivered. */
static void test_spoofed(void **state)
{
	static const uint8_t ours[][4] = { { 10, 0, 1, 1 }, { 10, 0, 2, 1 } };
	uint8_t p4[20] = { 0x45, [9] = 6 };
	uint8_t p6[40] = { 0x60, [6] = 6, [24] = 0xfe, 0x80, [39] = 1 };

	for (int at = 0; at < 2; at++) {
		memcpy(p4 + 16, ours[at], 4);
		for (int src = 0; src < 2; src++) {
			memcpy(p4 + 12, ours[src], 4);
			inputs = 0;
			for (int port = 0; port < 2; port++)
				assert_false(ports[port]->cfg.tcp(
					ports[port]->cfg.arg, p4, 20));
			assert_int_equal(inputs, 0);
		}
		/* One host further it is heard. */
		p4[15] = 2;
		assert_true(ports[at]->cfg.tcp(ports[at]->cfg.arg, p4, 20));
		assert_int_equal(inputs, 1);
	}
	inputs = 0;
	memcpy(p6 + 8, p6 + 24, 16);
	assert_false(ports[0]->cfg.tcp(ports[0]->cfg.arg, p6, 40));
	assert_int_equal(inputs, 0);
	p6[23] = 2;
	(void)ports[0]->cfg.tcp(ports[0]->cfg.arg, p6, 40);
	assert_int_equal(inputs, 1);
	/* An address of another port, whatever the source. */
	assert_false(ports[1]->cfg.tcp(ports[1]->cfg.arg, p6, 40));
	assert_int_equal(inputs, 1);
}

static void test_report(void **state)
{
	struct ur_stack_counters c;
	struct ur_net_counters net;
	struct ur_port_stats stats;
	uint32_t ifindex;

	assert_true(ur_streams_counters(&c));
	assert_int_equal(c.alive, 5);
	assert_true(ur_streams_port(1, &stats, &net, &ifindex));
	assert_int_equal(stats.tx_lost, 3);
	assert_int_equal(ifindex, 7);
	assert_false(ur_streams_port(2, &stats, &net, &ifindex));
}

static struct ur_stream *call(int port)
{
	struct ur_stream *s;

	assert_int_equal(ur_stream_connect(&from[port], &to, -1, 0, &s), 0);
	return s;
}

/* A sleeping thread is woken for each port separately, once. */
static void test_asleep(void **state)
{
	struct ur_stream *s[4];
	uint64_t until;
	int waits[2];

	assert_true(ur_streams_wait_fd(1, &until) >= 0);
	assert_true(until == UR_NEVER);
	waits[0] = ports[0]->waits;
	waits[1] = ports[1]->waits;
	s[0] = call(0);
	assert_int_equal(ports[0]->waits, waits[0] + 1);
	s[1] = call(1);
	assert_int_equal(ports[1]->waits, waits[1] + 1);
	s[2] = call(0);
	assert_int_equal(ports[0]->waits, waits[0] + 1);
	(void)ur_streams_wait_fd(1, &until);
	(void)ur_streams_serve(1, false);
	s[3] = call(0);
	assert_int_equal(ports[0]->waits, waits[0] + 2);
	for (int i = 0; i < 4; i++)
		ur_stream_close(s[i], true);
	assert_int_equal(conns, 0);
}

/* Time says when the host's side is looked at, not how often lanes look. */
static void test_host(void **state)
{
	uint64_t now = 100 * TICK;
	int looks;

	(void)ur_streams_serve(now, true);
	looks = ports[1]->looks;
	for (int i = 0; i < 200; i++)
		(void)ur_streams_serve(now + 10, false);
	assert_int_equal(ports[1]->looks, looks);
	(void)ur_streams_serve(now + 900000, false);
	assert_int_equal(ports[1]->looks, looks + 1);
	(void)ur_streams_serve(now + 900001, true);
	assert_int_equal(ports[1]->looks, looks + 2);
}

static void test_ticks(void **state)
{
	uint64_t now = 200 * TICK, until;
	int before;

	busy = true;
	(void)ur_streams_serve(now, false);
	before = ticks;
	(void)ur_streams_serve(now + TICK - 1, false);
	assert_int_equal(ticks, before);
	(void)ur_streams_wait_fd(now, &until);
	assert_true(until == now + TICK);
	(void)ur_streams_serve(now + TICK, false);
	assert_int_equal(ticks, before + 1);
	busy = false;
	(void)ur_streams_serve(now + 2 * TICK, false);
	assert_int_equal(ticks, before + 1);
}

/* Frames for which a port has no room are retried by the next thread. */
static void test_stuck(void **state)
{
	struct ur_stream *s;
	uint64_t until;

	send_result = -EAGAIN;
	s = call(0);
	(void)ur_streams_wait_fd(5, &until);
	assert_true(until == 5);
	assert_int_equal(resumes, 0);
	(void)ur_streams_serve(6, false);
	assert_int_equal(resumes, 1);
	(void)ur_streams_serve(7, false);
	assert_int_equal(resumes, 1);
	send_result = -EHOSTUNREACH;
	ur_stream_close(s, true);
	s = call(0);
	(void)ur_streams_serve(8, false);
	assert_int_equal(resumes, 1);
	send_result = 0;
	ur_stream_close(s, true);
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* Accept one that a peer has connected to. */
static struct ur_stack_conn *accept_one(struct ur_stack_conn *listener)
{
	struct ur_stack_conn *c = new_conn(where[0], NULL);

	c->connected = true;
	c->arg = up.accepted(listener->arg, c);
	assert_non_null(c->arg);
	return c;
}

static void test_listen(void **state)
{
	struct rlimit was, none = { 0 };
	struct ur_stream_listener *l;
	struct ur_stack_conn *listener;
	struct ur_stream *s[2];
	uint8_t other[16] = V4(77);

	assert_int_equal(ur_stream_listen(other, 3, 80, 2, &l), -ENOENT);
	assert_int_equal(ur_stream_listen(NULL, 3, 80, 2, &l), 0);
	assert_int_equal(conns, 3);
	ur_stream_listener_close(l);
	assert_int_equal(conns, 0);
	assert_int_equal(ur_stream_listen(NULL, 2, 80, 2, &l), 0);
	assert_int_equal(conns, 1);
	ur_stream_listener_close(l);

	assert_int_equal(ur_stream_listen(from[0].addr, 3, 80, 2, &l), 0);
	listener = last;
	assert_int_equal(ur_stream_accept(l, &s[0]), -EAGAIN);
	assert_false(is_readable(ur_stream_listener_fd(l)));
	assert_true(up.has_room(listener->arg));
	(void)accept_one(listener);
	(void)accept_one(listener);
	assert_false(up.has_room(listener->arg));
	/* It had begun before. */
	(void)accept_one(listener);
	assert_true(is_readable(ur_stream_listener_fd(l)));
	/* No descriptors: it waits, and is not lost. */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(ur_stream_accept(l, &s[0]), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_false(up.has_room(listener->arg));
	assert_int_equal(ur_stream_accept(l, &s[0]), 0);
	assert_int_equal(ur_stream_accept(l, &s[1]), 0);
	assert_true(up.has_room(listener->arg));
	assert_int_equal(ur_stream_state(s[0]), 0);
	ur_stream_close(s[0], false);
	ur_stream_close(s[1], false);
	/* The third one goes with the listener. */
	ur_stream_listener_close(l);
	assert_int_equal(conns, 0);
}

static void test_state(void **state)
{
	struct ur_stack_end local, peer;
	struct ur_stream *s = call(0);

	/* There may have been events before the descriptor was asked for. */
	assert_true(is_readable(ur_stream_fd(s)));
	ur_stream_heard(s);
	assert_false(is_readable(ur_stream_fd(s)));
	assert_int_equal(ur_stream_state(s), -EINPROGRESS);
	last->connected = true;
	up.news(last->arg, false);
	assert_true(is_readable(ur_stream_fd(s)));
	assert_int_equal(ur_stream_state(s), 0);
	last->error = -ECONNRESET;
	assert_int_equal(ur_stream_state(s), -ECONNRESET);
	assert_true(ur_stream_has_end(s));
	assert_int_equal(ur_stream_mss(s), 1460);
	memcpy(last->local.addr, specs[0].addrs[1].ip, 16);
	ur_stream_ends(s, &local, &peer);
	assert_int_equal(local.scope, 7);
	assert_int_equal(peer.scope, 0);
	ur_stream_close(s, true);
}

static void test_read(void **state)
{
	struct ur_stream *s = call(0);
	char a[2], b[5];
	struct iovec v[2] = { { a, 2 }, { b, 5 } };
	bool more;

	assert_int_equal(ur_stream_read(s, v, 2, &more), -EAGAIN);
	memcpy(last->in, "abcdefghi", 9);
	last->in_len = 9;
	assert_int_equal(ur_stream_read(s, v, 2, &more), 7);
	assert_true(more);
	assert_memory_equal(a, "ab", 2);
	assert_memory_equal(b, "cdefg", 5);
	last->end = true;
	assert_int_equal(ur_stream_read(s, v, 1, &more), 2);
	assert_true(more);
	assert_int_equal(ur_stream_read(s, v, 1, &more), 0);
	last->error = -ECONNRESET;
	assert_int_equal(ur_stream_read(s, v, 1, &more), -ECONNRESET);
	ur_stream_close(s, true);
}

/* No room: the set hears of it as soon as there is some, and not before. */
static void test_write(void **state)
{
	struct ur_stream *s = call(0);
	struct iovec v[2] = { { (void *)(uintptr_t) "abc", 3 },
			      { (void *)(uintptr_t) "defg", 4 } };

	ur_stream_heard(s);
	up.news(last->arg, true);
	assert_false(is_readable(ur_stream_fd(s)));
	last->room = 5;
	assert_int_equal(ur_stream_write(s, v, 2), 5);
	assert_memory_equal(last->out, "abcde", 5);
	assert_false(ur_stream_is_delivered(s));
	assert_int_equal(ur_stream_write(s, v, 2), 0);
	up.news(last->arg, true);
	assert_true(is_readable(ur_stream_fd(s)));
	last->error = -ECONNRESET;
	assert_int_equal(ur_stream_write(s, v, 2), -ECONNRESET);
	ur_stream_close(s, true);
}

/* Memory that the application has unmapped is not accessed. */
static void test_gone(void **state)
{
	struct ur_stream *s = call(0);
	long page = sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, (size_t)page, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec v[2] = { { (void *)(uintptr_t) "abc", 3 }, { at, 4 } };
	bool more;

	/* In front of the handler that the harness has for each case. */
	assert_int_equal(ur_guard_install(), 0);
	assert_int_equal(ur_stream_write(s, v + 1, 1), -EFAULT);
	assert_int_equal(last->out_len, 0);
	assert_int_equal(ur_stream_write(s, v, 2), 3);
	last->in_len = 4;
	assert_int_equal(ur_stream_read(s, v + 1, 1, &more), -EFAULT);
	assert_int_equal(last->in_len, 4);
	munmap(at, (size_t)page);
	ur_stream_close(s, true);
}

struct heard {
	int n;
	void *user;
	bool ended;
};

static void on_news(void *arg, void *user, bool ended)
{
	struct heard *h = arg;

	h->n++;
	h->user = user;
	h->ended = ended;
}

static void test_set(void **state)
{
	struct ur_stream *s = call(0), *t = call(0);
	struct ur_stream_set set;
	struct heard h = { 0 };

	assert_int_equal(ur_stream_set_init(&set), 0);
	ur_stream_set_add(&set, s, &h);
	ur_stream_set_add(&set, t, &set);
	up.news(last->arg, false);
	up.news(last->arg, false);
	assert_true(is_readable(set.fd));
	last->end = true;
	ur_stream_set_poll(&set, false, 1, on_news, &h);
	assert_int_equal(h.n, 1);
	assert_ptr_equal(h.user, &set);
	assert_true(h.ended);
	assert_false(is_readable(set.fd));
	ur_stream_set_poll(&set, true, 5, on_news, &h);
	assert_int_equal(h.n, 1);
	assert_true(ur_streams_are_polled(6));
	assert_false(ur_streams_are_polled(2000000));
	up.news(last->arg, false);
	ur_stream_set_remove(t);
	ur_stream_set_poll(&set, false, 1, on_news, &h);
	assert_int_equal(h.n, 1);
	ur_stream_set_remove(s);
	ur_stream_close(s, true);
	ur_stream_close(t, true);
	ur_stream_set_fini(&set);
}

/* The socket that holds a port number stays until TCP is done with it. */
static void test_hold(void **state)
{
	uint64_t now = 1000 * TICK;
	struct ur_stream *s;
	int fd = eventfd(0, 0);

	has_port = true;
	assert_int_equal(ur_stream_connect(&from[0], &to, fd, 0, &s), 0);
	ur_stream_close(s, false);
	for (int i = 0; i < 50; i++)
		(void)ur_streams_serve(now += TICK, false);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	has_port = false;
	for (int i = 0; i < 50; i++)
		(void)ur_streams_serve(now += TICK, false);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_leave(void **state)
{
	struct ur_stream *s = call(0);
	struct iovec v = { (void *)(uintptr_t) "abc", 3 };
	bool more;

	ur_streams_leave();
	assert_int_equal(conns, 0);
	assert_int_equal(ur_stream_write(s, &v, 1), -EPIPE);
	assert_int_equal(ur_stream_read(s, &v, 1, &more), -ENOTCONN);
	ur_stream_close(s, false);
	ur_streams_before_fork();
	ur_streams_after_fork();
	ur_streams_child();
	assert_false(ur_streams_are_there());
	assert_int_equal(open_port(&specs[1]), -ENODEV);
	assert_int_equal(ur_stream_connect(&from[0], &to, -1, 0, &s), -ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open),   cmocka_unit_test(test_spoofed),
		cmocka_unit_test(test_report), cmocka_unit_test(test_asleep),
		cmocka_unit_test(test_host),   cmocka_unit_test(test_ticks),
		cmocka_unit_test(test_stuck),  cmocka_unit_test(test_listen),
		cmocka_unit_test(test_state),  cmocka_unit_test(test_read),
		cmocka_unit_test(test_write),  cmocka_unit_test(test_gone),
		cmocka_unit_test(test_set),    cmocka_unit_test(test_hold),
		cmocka_unit_test(test_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
