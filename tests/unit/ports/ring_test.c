/* SPDX-License-Identifier: BSD-2-Clause */
/* The link of a lane whose port urnicd runs; the test is urnicd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../own_net.h"
#include "base/passed.h"
#include "ports/port.h"
#include "ports/ring.h"
#include "sockets/udp.h"
#include "wire/bth.h"

struct fixture {
	struct ur_rings urnicd;
	struct ur_link *link;
	struct ur_burst burst;
	uint8_t memory[UR_BURST_BYTES];
	struct ur_rx last;
};

static void addr(uint8_t out[16], const char *v4)
{
	memset(out, 0, 16);
	memset(out + 10, 0xff, 2);
	assert_int_equal(inet_pton(AF_INET, v4, out + 12), 1);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct ur_port_spec spec = { .naddrs = 1 };
	int sock;

	addr(spec.addrs[0].ip, "10.0.0.1");
	assert_int_equal(ur_rings_make(&f->urnicd, &sock), 0);
	assert_int_equal(ur_ring_link_create(sock, &spec,
					     ur_udp_sole_socket(UR_ROCE_PORT),
					     &f->link),
			 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	f->link->ops->destroy(f->link);
	ur_rings_drop(&f->urnicd);
	free(f);
	return 0;
}

/* A burst in two pieces, of packets of 1000 bytes. */
static int post(struct fixture *f, const char *src, const char *dst,
		uint32_t bytes)
{
	struct ur_burst *t = &f->burst;

	addr(t->src, src);
	addr(t->dst, dst);
	t->sport = f->link->sports.v4[0];
	t->tclass = 5;
	t->hop_limit = 9;
	t->pkt_len = bytes < 1000 ? bytes : 1000;
	t->npkts = (bytes - 1) / t->pkt_len + 1;
	t->bytes = bytes;
	t->niov = 2;
	for (uint32_t i = 0; i < bytes; i++)
		f->memory[i] = (uint8_t)(i * 7);
	t->iov[0] = (struct iovec){ f->memory, 11 };
	t->iov[1] = (struct iovec){ f->memory + 11, bytes - 11 };
	return f->link->ops->send(f->link, t);
}

static void on_rx(void *arg, const struct ur_rx *rx)
{
	struct fixture *f = arg;

	f->last = *rx;
}

static int receive(struct fixture *f)
{
	return f->link->ops->recv(f->link, on_rx, f);
}

/* Is there something to wake up for? */
static bool is_readable(struct fixture *f, int ms)
{
	struct pollfd p = { .fd = f->link->ops->wait_fd(f->link),
			    .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* A packet for the lane, as dataplane/ports writes it. */
static bool deliver(struct fixture *f, uint32_t len)
{
	struct ur_ring_rec rec = { .sport = 77, .index = 3 };
	uint8_t *at = ur_ring_reserve(&f->urnicd.tx, len);

	if (!at) {
		ur_ring_count_lost(&f->urnicd.tx);
		return false;
	}
	memset(at, 1, len);
	if (ur_ring_publish(&f->urnicd.tx, &rec, len))
		ur_rings_wake(&f->urnicd);
	return true;
}

static void a_burst_arrives_as_it_is(void **state)
{
	struct fixture *f = *state;
	const uint8_t *payload;
	struct ur_ring_rec rec;

	assert_int_equal(post(f, "10.0.0.1", "10.0.0.2", 2500), 0);
	assert_int_equal(ur_ring_peek(&f->urnicd.rx, &rec, &payload), 1);
	assert_int_equal(rec.len, 2500);
	assert_int_equal(rec.pkt_len, 1000);
	assert_int_equal(rec.sport, f->link->sports.v4[0]);
	assert_int_equal(rec.tclass, 5);
	assert_int_equal(rec.hop_limit, 9);
	assert_memory_equal(rec.src, f->burst.src, 16);
	assert_memory_equal(rec.dst, f->burst.dst, 16);
	assert_memory_equal(payload, f->memory, 2500);
}

/* Not taken: no room is no error, and taking one makes room. */
static void a_full_ring_is_no_error(void **state)
{
	struct fixture *f = *state;
	const uint8_t *payload;
	struct ur_ring_rec rec;
	uint32_t n = 0;
	int err;

	while (!(err = post(f, "10.0.0.1", "10.0.0.2", UR_BURST_BYTES)))
		assert_true(++n < 100);
	assert_int_equal(err, -EAGAIN);
	assert_true(n > 8);
	assert_int_equal(f->link->tx_errors, 0);
	assert_int_equal(ur_ring_peek(&f->urnicd.rx, &rec, &payload), 1);
	ur_ring_pop(&f->urnicd.rx);
	assert_int_equal(post(f, "10.0.0.1", "10.0.0.2", UR_BURST_BYTES), 0);
}

static void who_sleeps_is_rung(void **state)
{
	struct fixture *f = *state;

	assert_false(is_readable(f, 0));
	assert_true(deliver(f, 100));
	assert_true(is_readable(f, 5000));
	assert_int_equal(receive(f), 1);
	assert_int_equal(f->last.len, 100);
	assert_int_equal(f->last.sport, 77);
	assert_int_equal(f->last.index, 3);
	assert_false(f->last.icrc_checked);
	/* It came before the sleep. */
	assert_true(deliver(f, 200));
	assert_true(is_readable(f, 0));
	assert_int_equal(receive(f), 1);
	assert_int_equal(f->last.len, 200);
	while (is_readable(f, 0))
		assert_int_equal(receive(f), 0);
}

/* Another thread polls before the signalled one is awake, and takes its packet:
 * it must wake nevertheless, for the next packet does not signal. */
static void a_signalled_thread_wakes_though_another_polls(void **state)
{
	struct fixture *f = *state;
	struct pollfd p = { .fd = f->link->ops->wait_fd(f->link),
			    .events = POLLIN };

	assert_true(deliver(f, 100));
	assert_int_equal(receive(f), 1);
	assert_int_equal(poll(&p, 1, 0), 1);
	/* A packet that is already there wakes it too, … */
	assert_true(deliver(f, 200));
	p.fd = f->link->ops->wait_fd(f->link);
	assert_int_equal(receive(f), 1);
	assert_int_equal(poll(&p, 1, 0), 1);
	/* … and a poll that checks whether urnicd is there. */
	p.fd = f->link->ops->wait_fd(f->link);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_true(deliver(f, 300));
	assert_false(ur_ring_link_is_dead(f->link));
	assert_int_equal(poll(&p, 1, 0), 1);
}

/* Between the host's own addresses it is as without a port. */
static void the_hosts_own_paths_go_by_sockets(void **state)
{
	struct fixture *f = *state;

	assert_false(is_readable(f, 0));
	assert_int_equal(post(f, "127.0.0.1", "127.0.0.1", 100), 0);
	assert_true(is_readable(f, 5000));
	assert_int_equal(receive(f), 1);
	assert_int_equal(f->last.len, 100);
	assert_int_equal(f->link->tx_errors, 0);
	/* There is no route. */
	assert_true(post(f, "127.0.0.1", "203.0.113.1", 100) < 0);
	assert_int_equal(f->link->tx_errors, 1);
}

/* A poller gets no wakeup for them, and checks rarely: but not by a count of
 * polls alone, since these may be far apart. */
static void a_poller_rarely_looks_at_the_host(void **state)
{
	struct fixture *f = *state;
	int looks = 0;

	assert_false(is_readable(f, 0));
	assert_int_equal(receive(f), 0);
	assert_int_equal(post(f, "127.0.0.1", "127.0.0.1", 100), 0);
	while (!receive(f)) {
		assert_true(++looks < 20);
		usleep(1000);
	}
	assert_int_equal(f->last.len, 100);
}

static void what_the_lane_does_not_take_is_counted(void **state)
{
	struct fixture *f = *state;

	while (deliver(f, 4000))
		continue;
	assert_true(is_readable(f, 0));
	assert_int_equal(receive(f), 64);
	assert_int_equal(f->link->rx_overflow, 1);
}

static void it_outlives_urnicd(void **state)
{
	struct fixture *f = *state;

	assert_false(is_readable(f, 0));
	ur_rings_drop(&f->urnicd);
	assert_true(is_readable(f, 5000));
	assert_int_equal(receive(f), 0);
	assert_false(is_readable(f, 0));
	assert_int_equal(post(f, "10.0.0.1", "10.0.0.2", 100), -ENETDOWN);
	assert_int_equal(f->link->tx_errors, 1);
	assert_int_equal(post(f, "127.0.0.1", "127.0.0.1", 100), 0);
	assert_true(is_readable(f, 5000));
	assert_int_equal(receive(f), 1);
}

/* A poller leaves the wakeups unread; they do not hide that urnicd has ended. */
static void it_sees_the_end_behind_a_wakeup(void **state)
{
	struct fixture *f = *state;

	ur_rings_wake(&f->urnicd);
	ur_rings_drop(&f->urnicd);
	for (uint32_t i = 0; i < UR_PORT_HOST_EVERY; i++)
		assert_int_equal(receive(f), 0);
	assert_int_equal(post(f, "10.0.0.1", "10.0.0.2", 100), -ENETDOWN);
}

/* Packets come and go again, and both ends are seen. */
static void it_goes_on_with_the_next_urnicd(void **state)
{
	struct fixture *f = *state;
	const uint8_t *payload;
	struct ur_ring_rec rec;
	int sock;

	assert_false(ur_ring_link_is_dead(f->link));
	ur_rings_drop(&f->urnicd);
	assert_true(ur_ring_link_is_dead(f->link));
	assert_int_equal(post(f, "10.0.0.1", "10.0.0.2", 100), -ENETDOWN);
	/* One that is no urnicd is no help. */
	assert_true(ur_ring_link_renew(f->link, dup(STDIN_FILENO)) < 0);
	assert_true(ur_ring_link_is_dead(f->link));
	assert_int_equal(receive(f), 0);
	assert_int_equal(ur_rings_make(&f->urnicd, &sock), 0);
	assert_int_equal(ur_ring_link_renew(f->link, sock), 0);
	assert_false(ur_ring_link_is_dead(f->link));
	assert_int_equal(post(f, "10.0.0.1", "10.0.0.2", 100), 0);
	assert_int_equal(ur_ring_peek(&f->urnicd.rx, &rec, &payload), 1);
	assert_int_equal(rec.len, 100);
	ur_rings_drop(&f->urnicd);
	assert_true(is_readable(f, 5000));
	assert_true(ur_ring_link_is_dead(f->link));
}

/* Its maker could shrink it, and each access would fault. */
static void memory_that_can_shrink_is_refused(void **state)
{
	size_t bytes = ur_ring_bytes(UR_RING_TX_BYTES) +
		       ur_ring_bytes(UR_RING_RX_BYTES);
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const uint8_t byte = 0;
	struct ur_rings r;
	int pair[2];

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	for (int sealed = 0; sealed < 2; sealed++) {
		if (sealed)
			assert_int_equal(fcntl(fd, F_ADD_SEALS,
					       F_SEAL_SHRINK | F_SEAL_GROW),
					 0);
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair),
				 0);
		assert_int_equal(ur_pass_fd(pair[0], &byte, 1, fd), 0);
		assert_int_equal(ur_rings_take(&r, pair[1]),
				 sealed ? 0 : -EPROTO);
		ur_rings_drop(&r);
		close(pair[0]);
	}
	close(fd);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_burst_arrives_as_it_is),
		T(a_full_ring_is_no_error),
		T(who_sleeps_is_rung),
		T(a_signalled_thread_wakes_though_another_polls),
		T(the_hosts_own_paths_go_by_sockets),
		T(a_poller_rarely_looks_at_the_host),
		T(what_the_lane_does_not_take_is_counted),
		T(it_outlives_urnicd),
		T(it_sees_the_end_behind_a_wakeup),
		T(it_goes_on_with_the_next_urnicd),
		T(memory_that_can_shrink_is_refused),
	};

	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
