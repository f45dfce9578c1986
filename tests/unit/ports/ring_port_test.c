/* SPDX-License-Identifier: BSD-2-Clause */
/* A process' side of a port that urnicd runs; the test is urnicd. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ports/ring.h"
#include "ports/ring_port.h"

static struct ur_rings daemon_side;
static struct ur_ring_port *port;
static uint32_t came, last_len;
static bool known;

static bool take(void *arg, const uint8_t *packet, uint32_t len)
{
	assert_ptr_equal(arg, &came);
	came++;
	last_len = len;
	return known;
}

static int setup(void **state)
{
	const struct ur_ring_port_config cfg = { .ifindex = 9,
						 .tcp = take,
						 .arg = &came };
	int sock;

	came = 0;
	known = true;
	return ur_rings_make(&daemon_side, &sock) ||
	       ur_ring_port_create(sock, &cfg, &port);
}

static int teardown(void **state)
{
	ur_ring_port_destroy(port);
	ur_rings_drop(&daemon_side);
	return 0;
}

static void give(const void *data, uint32_t len)
{
	const struct ur_ring_rec rec = { .index = UR_RING_TCP_SEGMENT };
	uint8_t *at = ur_ring_reserve(&daemon_side.tx, len);

	assert_non_null(at);
	memcpy(at, data, len);
	if (ur_ring_publish(&daemon_side.tx, &rec, len))
		ur_rings_wake(&daemon_side);
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void make(uint8_t p[60], bool v6)
{
	memset(p, 0, 60);
	p[0] = v6 ? 0x60 : 0x45;
	p[v6 ? 6 : 9] = 6;
	p[v6 ? 23 : 15] = 2;
	p[v6 ? 39 : 19] = 1;
	p[v6 ? 41 : 21] = 80;
	p[v6 ? 43 : 23] = 40;
}

static void packets_pass(void **state)
{
	uint8_t p[60];
	struct ur_ring_rec rec;
	const uint8_t *at;

	make(p, false);
	assert_int_equal(ur_ring_port_ifindex(port), 9);
	assert_int_equal(ur_ring_port_send_ip(port, p, 60), 0);
	assert_int_equal(ur_ring_peek(&daemon_side.rx, &rec, &at), 1);
	assert_int_equal(rec.len, 60);
	assert_int_equal(rec.index, UR_RING_TCP_SEGMENT);
	assert_memory_equal(at, p, 60);
	ur_ring_pop(&daemon_side.rx);
	give(p, 40);
	assert_int_equal(ur_ring_port_poll(port), 1);
	assert_int_equal(came, 1);
	assert_int_equal(last_len, 40);
	assert_int_equal(ur_ring_port_poll(port), 0);
	/* Nothing was said about it. */
	assert_int_equal(ur_ring_peek(&daemon_side.rx, &rec, &at), 0);
	assert_true(ur_ring_port_put(port, 0x1234));
	assert_int_equal(ur_ring_peek(&daemon_side.rx, &rec, &at), 1);
	assert_int_equal(rec.index, UR_RING_TCP_PUT);
	assert_int_equal(rec.scope_id, 0x1234);
	assert_int_equal(rec.len, 0);
}

/* One wakeup for packets that leave together, none if urnicd is awake. */
static void wakeups(void **state)
{
	uint8_t p[60];

	make(p, false);
	assert_true(ur_ring_sleep(&daemon_side.rx, true));
	assert_int_equal(ur_ring_port_send_ip(port, p, 60), 0);
	assert_int_equal(ur_ring_port_send_ip(port, p, 60), 0);
	assert_false(is_readable(daemon_side.sock));
	ur_ring_port_flush(port);
	assert_true(is_readable(daemon_side.sock));
	assert_true(ur_rings_woken(&daemon_side));
	assert_false(is_readable(daemon_side.sock));
	ur_ring_port_flush(port);
	assert_false(is_readable(daemon_side.sock));
}

static void waiting(void **state)
{
	int fd = ur_ring_port_wait_fd(port);
	uint8_t p[60];

	make(p, true);
	assert_false(is_readable(fd));
	give(p, 60);
	assert_true(is_readable(fd));
	/* The waiter wakes, though another thread took the packet: the next one
	 * would not signal. */
	assert_int_equal(ur_ring_port_poll(port), 1);
	assert_true(is_readable(fd));
	assert_int_equal(ur_ring_port_wait_fd(port), fd);
	assert_false(is_readable(fd));
	assert_int_equal(ur_ring_port_poll(port), 0);
	give(p, 60);
	assert_true(is_readable(fd));
	assert_int_equal(ur_ring_port_poll(port), 1);
	/* It came before the request to sleep. */
	give(p, 60);
	assert_int_equal(ur_ring_port_wait_fd(port), fd);
	assert_true(is_readable(fd));
	assert_int_equal(ur_ring_port_poll(port), 1);
	assert_int_equal(ur_ring_port_wait_fd(port), fd);
	assert_false(is_readable(fd));
}

static void what_nobody_has_is_told(void **state)
{
	struct ur_ring_tcp_ends e;
	struct ur_ring_rec rec;
	const uint8_t *at;
	uint8_t p[60];

	known = false;
	for (int v6 = 0; v6 < 2; v6++) {
		make(p, v6);
		give(p, 60);
		assert_int_equal(ur_ring_port_poll(port), 1);
		assert_int_equal(ur_ring_peek(&daemon_side.rx, &rec, &at), 1);
		assert_int_equal(rec.index, UR_RING_TCP_UNKNOWN);
		assert_int_equal(rec.len, sizeof(e));
		memcpy(&e, at, sizeof(e));
		ur_ring_pop(&daemon_side.rx);
		assert_int_equal(e.local[15], 1);
		assert_int_equal(e.peer[15], 2);
		assert_int_equal(e.local[10], v6 ? 0 : 0xff);
		assert_int_equal(e.local_port[1], 40);
		assert_int_equal(e.peer_port[1], 80);
	}
	/* A fragment does not tell whose it is. */
	make(p, false);
	p[7] = 1;
	give(p, 60);
	make(p, true);
	p[6] = 44;
	give(p, 60);
	make(p, false);
	p[0] = 0x4f;
	give(p, 60);
	assert_int_equal(ur_ring_port_poll(port), 3);
	assert_int_equal(ur_ring_peek(&daemon_side.rx, &rec, &at), 0);
}

static void no_room(void **state)
{
	uint8_t p[60];
	uint32_t n = 0;

	make(p, false);
	while (!ur_ring_port_send_ip(port, p, 60))
		n++;
	assert_int_equal(n, UR_RING_TX_BYTES / 128);
	assert_int_equal(ur_ring_port_send_ip(port, p, 60), -EAGAIN);
	assert_false(ur_ring_port_put(port, 1));
	assert_false(ur_ring_port_is_dead(port));
}

static void urnicd_ends(void **state)
{
	int sock, fd = ur_ring_port_wait_fd(port);
	uint8_t p[60];

	make(p, false);
	ur_rings_drop(&daemon_side);
	assert_true(is_readable(fd));
	assert_false(ur_ring_port_is_dead(port));
	(void)ur_ring_port_poll(port);
	assert_true(ur_ring_port_is_dead(port));
	assert_false(is_readable(fd));
	assert_int_equal(ur_ring_port_send_ip(port, p, 60), -ENETDOWN);
	ur_ring_port_flush(port);
	assert_true(ur_ring_port_put(port, 1));
	/* The next one. */
	assert_int_equal(ur_rings_make(&daemon_side, &sock), 0);
	assert_int_equal(ur_ring_port_renew(port, sock, 10), 0);
	assert_false(ur_ring_port_is_dead(port));
	assert_int_equal(ur_ring_port_ifindex(port), 10);
	give(p, 60);
	assert_int_equal(ur_ring_port_poll(port), 1);
	assert_int_equal(ur_ring_port_wait_fd(port), fd);
	give(p, 60);
	assert_true(is_readable(fd));
}

/* While no thread sleeps the socket is polled now and then. */
static void urnicd_ends_while_we_look(void **state)
{
	uint32_t n = 0;

	ur_rings_drop(&daemon_side);
	while (!ur_ring_port_is_dead(port) && n < 1000) {
		(void)ur_ring_port_poll(port);
		n++;
	}
	assert_true(ur_ring_port_is_dead(port));
}

static void nonsense(void **state)
{
	static const uint8_t zeros[64];
	static const uint32_t lens[] = { 0, 19, 39 };

	for (uint32_t i = 0; i < 3; i++) {
		int sock;

		give(zeros, lens[i]);
		(void)ur_ring_port_poll(port);
		assert_true(ur_ring_port_is_dead(port));
		assert_int_equal(came, 0);
		ur_rings_drop(&daemon_side);
		assert_int_equal(ur_rings_make(&daemon_side, &sock), 0);
		assert_int_equal(ur_ring_port_renew(port, sock, 9), 0);
	}
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(packets_pass), CASE(wakeups),
		CASE(waiting),	    CASE(what_nobody_has_is_told),
		CASE(no_room),	    CASE(urnicd_ends),
		CASE(nonsense),	    CASE(urnicd_ends_while_we_look),
	};
#undef CASE

	return cmocka_run_group_tests(tests, NULL, NULL);
}
