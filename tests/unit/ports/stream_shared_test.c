/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams over ports that urnicd runs, which the test is, with a TCP that does
 * next to nothing. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "ports/ring.h"
#include "ports/ring_port.h"
#include "ports/stream.h"

#define TICK ((uint64_t)UR_STACK_TICK_NS)

/* ---- A TCP ---- */

struct ur_stack_conn {
	void *arg;
};

static struct ur_stack_calls up;
static bool has_port;
static int inputs;

static int t_start(const struct ur_stack_calls *calls, uint64_t secret)
{
	up = *calls;
	return 0;
}

static int t_add(const uint8_t addr[16], uint8_t prefix, uint32_t mtu,
		 void *arg, struct ur_stack_addr **out)
{
	*out = arg;
	return 0;
}

static bool t_input(struct ur_stack_addr *a, const uint8_t *packet,
		    uint32_t len)
{
	inputs++;
	return true;
}

static bool t_is_busy(void)
{
	return false;
}

static void t_resume(void)
{
}

static bool t_has_port(uint16_t port)
{
	return has_port;
}

static int t_connect(struct ur_stack_addr *a, uint16_t port,
		     const struct ur_stack_end *to, void *arg,
		     struct ur_stack_conn **out)
{
	static const uint8_t syn[40] = { 0x45 };

	*out = calloc(1, sizeof(**out));
	assert_non_null(*out);
	(*out)->arg = arg;
	return up.output(a, syn, sizeof(syn));
}

static int t_error(const struct ur_stack_conn *c)
{
	return 0;
}

static bool t_is_connected(const struct ur_stack_conn *c)
{
	return true;
}

static void t_close(struct ur_stack_conn *c, bool reset)
{
	free(c);
}

static const struct ur_stack_plugin plugin = {
	.abi = UR_STACK_ABI,
	.start = t_start,
	.add = t_add,
	.input = t_input,
	.is_busy = t_is_busy,
	.resume = t_resume,
	.has_port = t_has_port,
	.connect = t_connect,
	.error = t_error,
	.is_connected = t_is_connected,
	.close = t_close,
};

bool ur_stack_is_there(void)
{
	return true;
}

int ur_stack_load(const struct ur_stack_plugin **out)
{
	*out = &plugin;
	return 0;
}

/* ---- Two ports of urnicd's ---- */

#define V4(n)                                                                  \
	{                                                                      \
		[10] = 0xff, [11] = 0xff, 10, 0, n, 1                          \
	}

static const struct ur_port_spec specs[2] = {
	{ .naddrs = 1,
	  .addrs = { { .ip = V4(1), .prefix = 24 } },
	  .mtu = 1500 },
	{ .naddrs = 1,
	  .addrs = { { .ip = V4(2), .prefix = 24 } },
	  .mtu = 1500 },
};
static const struct ur_stack_end from[2] = { { .addr = V4(1), .port = 1000 },
					     { .addr = V4(2), .port = 1001 } };
static const struct ur_stack_end to = { .addr = V4(9), .port = 80 };
static struct ur_rings sides[2];
static uint64_t now = 1000 * TICK;

static int rings(struct ur_rings *r)
{
	int sock;

	assert_int_equal(ur_rings_make(r, &sock), 0);
	return sock;
}

static void serve(int ticks)
{
	while (ticks-- > 0)
		(void)ur_streams_serve(now += TICK, false);
}

/* What was said to urnicd; UINT32_MAX: nothing. */
static uint32_t next_kind(struct ur_rings *r, uint32_t *scope_id)
{
	struct ur_ring_rec rec;
	const uint8_t *at;

	if (ur_ring_peek(&r->rx, &rec, &at) != 1)
		return UINT32_MAX;
	ur_ring_pop(&r->rx);
	*scope_id = rec.scope_id;
	return rec.index;
}

static struct ur_stream *call(int port)
{
	struct ur_stream *s;

	assert_int_equal(ur_stream_connect(&from[port], &to, -1, 0, &s), 0);
	assert_int_equal(ur_stream_state(s), 0);
	return s;
}

static void test_join(void **state)
{
	struct ur_rings other;

	assert_true(ur_streams_want(&specs[0]));
	assert_false(ur_streams_need_lease(NULL));
	assert_int_equal(ur_streams_join(rings(&sides[0]), &specs[0], 11), 0);
	assert_false(ur_streams_want(&specs[0]));
	assert_true(ur_streams_need_lease(NULL));
	assert_true(ur_streams_need_lease(from[0].addr));
	assert_false(ur_streams_need_lease(to.addr));
	assert_true(ur_streams_carry(from[0].addr, to.addr));
	/* Once is enough. */
	assert_int_equal(ur_streams_join(rings(&other), &specs[0], 11),
			 -EEXIST);
	ur_rings_drop(&other);
	assert_int_equal(ur_streams_join(rings(&sides[1]), &specs[1], 12), 0);
	/* Between addresses of this host the kernel carries. */
	assert_false(ur_streams_carry(from[0].addr, from[1].addr));
}

static void test_packets(void **state)
{
	const struct ur_ring_rec rec = { .index = UR_RING_TCP_SEGMENT };
	uint8_t packet[40] = { 0x45, [9] = 6, [12] = 10, 0, 1, 9, 10, 0, 1, 1 };
	struct ur_stream *s = call(0);
	uint32_t id;

	assert_int_equal(next_kind(&sides[0], &id), UR_RING_TCP_SEGMENT);
	ur_stream_close(s, true);
	for (int i = 0; i < 2; i++) {
		uint8_t *at = ur_ring_reserve(&sides[0].tx, sizeof(packet));

		assert_non_null(at);
		/* For an address of another port it is not taken. */
		packet[18] = (uint8_t)(i + 1);
		memcpy(at, packet, sizeof(packet));
		(void)ur_ring_publish(&sides[0].tx, &rec, sizeof(packet));
	}
	serve(1);
	assert_int_equal(inputs, 1);
	assert_int_equal(next_kind(&sides[0], &id), UR_RING_TCP_UNKNOWN);
}

/* The lease goes back when TCP is done with the number. */
static void test_lease(void **state)
{
	int fd = eventfd(0, 0);
	struct ur_stream *s;
	uint32_t id = 0;

	has_port = true;
	assert_int_equal(ur_stream_connect(&from[0], &to, fd, 77, &s), 0);
	assert_int_equal(next_kind(&sides[0], &id), UR_RING_TCP_SEGMENT);
	ur_stream_close(s, false);
	serve(50);
	assert_int_equal(next_kind(&sides[0], &id), UINT32_MAX);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	has_port = false;
	serve(50);
	assert_int_equal(next_kind(&sides[0], &id), UR_RING_TCP_PUT);
	assert_int_equal(id, 77);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* Connections over a port end with it, others do not. */
static void test_end(void **state)
{
	struct ur_stream *s = call(0), *t = call(1);
	struct pollfd p = { .fd = ur_stream_fd(s), .events = POLLIN };
	uint64_t until;

	ur_stream_heard(s);
	assert_int_equal(poll(&p, 1, 0), 0);
	ur_rings_drop(&sides[0]);
	(void)ur_streams_wait_fd(now, &until);
	serve(1);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(ur_stream_state(s), -ENODEV);
	assert_int_equal(ur_stream_state(t), 0);
	assert_false(ur_streams_carry(from[0].addr, to.addr));
	assert_true(ur_streams_carry(from[1].addr, to.addr));
	assert_true(ur_streams_want(&specs[0]));
	ur_stream_close(s, false);
	ur_stream_close(t, false);
	/* The next urnicd. */
	assert_int_equal(ur_streams_join(rings(&sides[0]), &specs[0], 13), 0);
	assert_false(ur_streams_want(&specs[0]));
	assert_true(ur_streams_carry(from[0].addr, to.addr));
	s = call(0);
	ur_stream_close(s, false);
}

static void test_child(void **state)
{
	ur_streams_before_fork();
	ur_streams_after_fork();
	ur_streams_child();
	assert_false(ur_streams_want(&specs[0]));
	assert_int_equal(ur_streams_join(rings(&sides[1]), &specs[1], 1),
			 -ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_join),  cmocka_unit_test(test_packets),
		cmocka_unit_test(test_lease), cmocka_unit_test(test_end),
		cmocka_unit_test(test_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
