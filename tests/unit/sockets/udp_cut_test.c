/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bursts sent packet by packet: each packet is sent once and in order, whatever
 * errors the socket returns in between. A pair of UNIX datagram sockets stands
 * for a socket that is full after a few packets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../own_net.h"
#include "sockets/udp_internal.h"

#define PKTS 60u
#define LEN  100u
#define LAST 44u

struct fixture {
	int in;
	int out;
	uint32_t got; /* packets */
	uint8_t first[2 * PKTS];
	struct ur_burst burst;
	uint8_t memory[PKTS * LEN];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fds[2],
		least = 1; /* the kernel raises it to a few thousand bytes */

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
	f->in = fds[0];
	f->out = fds[1];
	assert_int_equal(setsockopt(f->out, SOL_SOCKET, SO_SNDBUF, &least,
				    sizeof(least)),
			 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	close(f->in);
	close(f->out);
	free(f);
	return 0;
}

/* Packet i is LEN bytes of i (the last LAST); pieces end anywhere. */
static struct ur_burst *make(struct fixture *f)
{
	struct ur_burst *t = &f->burst;

	memset(t, 0, sizeof(*t));
	for (uint32_t i = 0; i < PKTS * LEN; i++)
		f->memory[i] = (uint8_t)(i / LEN);
	t->npkts = PKTS;
	t->pkt_len = LEN;
	t->bytes = (PKTS - 1) * LEN + LAST;
	for (uint32_t at = 0; at < t->bytes; at += 37) {
		uint32_t n = t->bytes - at < 37 ? t->bytes - at : 37;

		t->iov[t->niov++] = (struct iovec){ f->memory + at, n };
	}
	return t;
}

/* Read all datagrams. */
static void take(struct fixture *f)
{
	uint8_t buf[2 * LEN];
	ssize_t n;

	while ((n = recv(f->in, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
		assert_true(f->got < 2 * PKTS);
		assert_int_equal(n, buf[0] == PKTS - 1 ? LAST : LEN);
		/* After that comes the ICRC, which was changed. */
		for (ssize_t i = 1; i < n - 4; i++)
			assert_int_equal(buf[i], buf[0]);
		f->first[f->got++] = buf[0];
	}
}

static void check_once(const struct fixture *f, int without)
{
	uint8_t want = 0;

	assert_int_equal(f->got, without < 0 ? PKTS : PKTS - 1);
	for (uint32_t i = 0; i < f->got; i++, want++) {
		want = (uint8_t)(want + (want == without));
		assert_int_equal(f->first[i], want);
	}
}

static void test_full_socket(void **state)
{
	struct fixture *f = *state;
	struct ur_burst *t = make(f);
	struct msghdr mh = { 0 };
	uint32_t refused = 0;
	int err;

	while ((err = ur_udp_send_cut(f->out, &mh, t)) == -EAGAIN) {
		refused++;
		assert_true(refused < PKTS);
		assert_true(t->sent > f->got);
		take(f);
		assert_int_equal(t->sent, f->got);
	}
	assert_int_equal(err, 0);
	take(f);
	assert_true(refused > 0); /* otherwise the socket was never full */
	check_once(f, -1);
}

/* The memory of one packet is unmapped: only that one is not sent. */
static void test_fault(void **state)
{
	struct fixture *f = *state;
	struct ur_burst *t = make(f);
	uint8_t *gone =
		mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct msghdr mh = { 0 };
	int err;

	/* [740, 777) is in the middle of packet 7. */
	t->iov[20].iov_base = gone;
	while ((err = ur_udp_send_cut(f->out, &mh, t)) == -EAGAIN)
		take(f);
	take(f);
	munmap(gone, 4096);
	/* The fault may have been reported before a full socket was. */
	assert_true(err == 0 || err == -EFAULT);
	check_once(f, 7);
}

static int udp_socket(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)a, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)a, &len), 0);
	return fd;
}

/*
 * The answer to an earlier packet is an ICMP error: this burst is sent whole.
 */
static void test_refused_before(void **state)
{
	struct fixture *f = *state;
	struct ur_burst *t = make(f);
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct msghdr mh = { 0 };
	int error = 0;
	socklen_t len = sizeof(error);

	close(f->in);
	close(f->out);
	f->in = udp_socket(&a);
	f->out = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(connect(f->out, (struct sockaddr *)&a, sizeof(a)), 0);
	close(f->in);
	assert_int_equal(send(f->out, "x", 1, 0), 1);
	f->in = udp_socket(&a);
	assert_int_equal(ur_udp_send_cut(f->out, &mh, t), 0);
	take(f);
	check_once(f, -1);
	assert_int_equal(getsockopt(f->out, SOL_SOCKET, SO_ERROR, &error, &len),
			 0);
	assert_int_equal(error, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_full_socket),
		TEST(test_fault),
		TEST(test_refused_before),
	};

	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
