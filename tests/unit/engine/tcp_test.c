/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The set of TCP connections, over loopback.  An edge is reported once, so most
 * tests check that none is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../skip.h"
#include "base/remote.h"
#include "engine/tcp.h"

#define MANY 1000

struct fixture {
	struct ur_tcp t;
	int listener;
	struct sockaddr_in addr;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	socklen_t len = sizeof(f->addr);

	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	f->addr.sin_family = AF_INET;
	f->addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(f->listener, (void *)&f->addr, len), 0);
	assert_int_equal(listen(f->listener, 1024), 0);
	assert_int_equal(getsockname(f->listener, (void *)&f->addr, &len), 0);
	assert_int_equal(ur_tcp_init(&f->t), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->t.count, 0);
	assert_int_equal(f->t.blocked, 0);
	ur_tcp_fini(&f->t);
	close(f->listener);
	free(f);
	return 0;
}

/* One end goes into the set, the other is returned. */
static int connect_to(struct fixture *f, struct ur_tcp_conn *c)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int peer;

	assert_int_equal(connect(fd, (void *)&f->addr, sizeof(f->addr)), 0);
	peer = accept(f->listener, NULL, NULL);
	assert_true(peer >= 0);
	assert_int_equal(ur_tcp_add(&f->t, c, fd), 0);
	return peer;
}

static ssize_t read_up_to(struct fixture *f, struct ur_tcp_conn *c, void *buf,
			  size_t len)
{
	struct iovec v = { buf, len };

	return ur_tcp_read(&f->t, c, &v, 1);
}

static ssize_t write_all_of(struct fixture *f, struct ur_tcp_conn *c,
			    const void *buf, size_t len)
{
	struct iovec v = { (void *)(uintptr_t)buf, len };

	return ur_tcp_write(&f->t, c, &v, 1);
}

/* Take connections off the list until it is empty; reads what is there. */
static size_t drain(struct fixture *f)
{
	struct ur_tcp_conn *c;
	static char buf[4096];
	size_t got = 0;

	ur_tcp_poll(&f->t, false, 0);
	while ((c = ur_tcp_next_readable(&f->t))) {
		ssize_t n = read_up_to(f, c, buf, sizeof(buf));

		got += n > 0 ? (size_t)n : 0;
	}
	return got;
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void data_before_the_set_counts(void **state)
{
	struct fixture *f = *state;
	struct ur_tcp_conn c;
	char buf[8];
	int fd = socket(AF_INET, SOCK_STREAM, 0), peer;

	assert_int_equal(connect(fd, (void *)&f->addr, sizeof(f->addr)), 0);
	peer = accept(f->listener, NULL, NULL);
	assert_int_equal(write(peer, "early", 5), 5);
	assert_int_equal(ur_tcp_add(&f->t, &c, fd), 0);
	assert_true(is_readable(ur_tcp_wait_fd(&f->t)));
	assert_ptr_equal(ur_tcp_next_readable(&f->t), &c);
	assert_int_equal(read_up_to(f, &c, buf, 8), 5);
	ur_tcp_del(&f->t, &c, false);
	close(peer);
}

/* What was not read is read without another edge. */
static void a_full_read_is_repeated(void **state)
{
	struct fixture *f = *state;
	struct ur_tcp_conn c;
	int peer = connect_to(f, &c);
	char buf[4];

	drain(f);
	assert_int_equal(write(peer, "abcdef", 6), 6);
	ur_tcp_poll(&f->t, false, 0);
	assert_ptr_equal(ur_tcp_next_readable(&f->t), &c);
	assert_int_equal(read_up_to(f, &c, buf, 4), 4);
	assert_ptr_equal(ur_tcp_next_readable(&f->t), &c);
	assert_int_equal(read_up_to(f, &c, buf, 4), 2);
	assert_null(ur_tcp_next_readable(&f->t));
	assert_int_equal(write(peer, "g", 1), 1);
	ur_tcp_poll(&f->t, false, 0);
	assert_ptr_equal(ur_tcp_next_readable(&f->t), &c);
	assert_int_equal(read_up_to(f, &c, buf, 4), 1);
	ur_tcp_del(&f->t, &c, false);
	close(peer);
}

/* The end came together with data, whose edge is consumed with it. */
static void the_end_behind_data_is_seen(void **state)
{
	struct fixture *f = *state;
	struct ur_tcp_conn c;
	int peer = connect_to(f, &c);
	char buf[64];

	drain(f);
	assert_int_equal(write(peer, "last", 4), 4);
	close(peer);
	ur_tcp_poll(&f->t, false, 0);
	assert_ptr_equal(ur_tcp_next_readable(&f->t), &c);
	assert_int_equal(read_up_to(f, &c, buf, sizeof(buf)), 4);
	assert_ptr_equal(ur_tcp_next_readable(&f->t), &c);
	assert_int_equal(read_up_to(f, &c, buf, sizeof(buf)), 0);
	ur_tcp_del(&f->t, &c, false);
}

static void a_reset_is_an_error(void **state)
{
	struct fixture *f = *state;
	struct linger hard = { 1, 0 };
	struct ur_tcp_conn c;
	int peer = connect_to(f, &c);
	char buf[64];

	setsockopt(peer, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	close(peer);
	ur_tcp_poll(&f->t, false, 0);
	assert_ptr_equal(ur_tcp_next_readable(&f->t), &c);
	assert_int_equal(read_up_to(f, &c, buf, sizeof(buf)), -ECONNRESET);
	ur_tcp_del(&f->t, &c, false);
}

/* A failed write does not hide what the peer sent before, as a TERMINATE. */
static void a_broken_write_is_told_after_the_last_data(void **state)
{
	struct fixture *f = *state;
	struct ur_tcp_conn c;
	int peer = connect_to(f, &c);
	char buf[64];

	drain(f);
	assert_int_equal(write(peer, "why", 3), 3);
	close(peer); /* nothing unread: an end in order */
	assert_int_equal(write_all_of(f, &c, "x", 1), 1); /* answered: reset */
	usleep(20000);
	assert_int_equal(write_all_of(f, &c, "y", 1), 0);
	assert_false(c.blocked);
	assert_ptr_equal(ur_tcp_next_readable(&f->t), &c);
	/* The kernel throws away what a reset overtakes; an error it is. */
	assert_true(read_up_to(f, &c, buf, sizeof(buf)) <= 3);
	while (read_up_to(f, &c, buf, sizeof(buf)) > 0)
		continue;
	assert_true(read_up_to(f, &c, buf, sizeof(buf)) < 0);
	ur_tcp_del(&f->t, &c, false);
}

static void room_is_reported_after_a_full_write(void **state)
{
	struct fixture *f = *state;
	struct ur_tcp_conn c;
	int peer = connect_to(f, &c);
	size_t len = 1 << 20, sent = 0, got = 0;
	char *buf = calloc(1, len);
	ssize_t n;

	while ((n = write_all_of(f, &c, buf, len)) > 0)
		sent += (size_t)n;
	assert_int_equal(n, 0);
	assert_true(c.blocked);
	assert_int_equal(f->t.blocked, 1);
	drain(f);
	assert_null(ur_tcp_next_writable(&f->t));
	while (got < sent) {
		n = read(peer, buf, len);
		assert_true(n > 0);
		got += (size_t)n;
	}
	assert_true(is_readable(ur_tcp_wait_fd(&f->t)));
	ur_tcp_poll(&f->t, false, 0);
	assert_ptr_equal(ur_tcp_next_writable(&f->t), &c);
	assert_null(ur_tcp_next_writable(&f->t));
	assert_false(c.blocked);
	ur_tcp_del(&f->t, &c, false);
	close(peer);
	free(buf);
}

static void unmapped_memory_is_no_crash(void **state)
{
	struct fixture *f = *state;
	struct ur_tcp_conn c;
	int peer = connect_to(f, &c);
	char *gone =
		mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char buf[8];

	drain(f);
	assert_int_equal(write_all_of(f, &c, gone, 8), -EFAULT);
	assert_int_equal(write(peer, "data", 4), 4);
	ur_tcp_poll(&f->t, false, 0);
	assert_ptr_equal(ur_tcp_next_readable(&f->t), &c);
	assert_int_equal(read_up_to(f, &c, gone, 8), -EFAULT);
	/* It is still there to be read elsewhere. */
	assert_ptr_equal(ur_tcp_next_readable(&f->t), &c);
	assert_int_equal(read_up_to(f, &c, buf, 8), 4);
	ur_tcp_del(&f->t, &c, false);
	close(peer);
	munmap(gone, 4096);
}

static uint8_t elsewhere[50000];

static int move(const struct ur_remote *f, uint64_t off, void *buf, size_t len,
		bool write)
{
	assert_true(write);
	memcpy(elsewhere + off, buf, len);
	return 0;
}

/* Remote memory is not mapped; nothing is lost. */
static void remote_memory_is_filled(void **state)
{
	struct fixture *f = *state;
	struct ur_remote far = { .move = move };
	uint8_t sent[sizeof(elsewhere)];
	struct ur_tcp_conn c;
	int peer = connect_to(f, &c);
	size_t got = 0;

	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (uint8_t)(i * 5 + i / 256);
	assert_int_equal(ur_remote_add(&far, sizeof(elsewhere), 0), 0);
	assert_int_equal(send(peer, sent, sizeof(sent), 0), sizeof(sent));
	while (got < sizeof(sent)) {
		size_t first = got < sizeof(sent) - 7 ? 7 : 0;
		struct iovec iov[2] = { { far.base + got, first },
					{ far.base + got + first,
					  sizeof(sent) - got - first } };
		ssize_t n = ur_tcp_read(&f->t, &c, iov, 2);

		assert_true(n > 0 || n == -EAGAIN);
		got += n > 0 ? (size_t)n : 0;
	}
	assert_memory_equal(elsewhere, sent, sizeof(sent));
	ur_remote_remove(&far);
	ur_tcp_del(&f->t, &c, false);
	close(peer);
}

static void shut_tells_the_peer_and_still_reads(void **state)
{
	struct fixture *f = *state;
	struct ur_tcp_conn c;
	int peer = connect_to(f, &c);
	char buf[8];

	ur_tcp_shut(&c);
	assert_int_equal(read(peer, buf, 8), 0);
	assert_int_equal(write(peer, "late", 4), 4);
	assert_int_equal(drain(f), 4);
	ur_tcp_del(&f->t, &c, false);
	close(peer);
}

/* A poller reads its connection directly; that must not starve the others. */
static void quick_polls_see_all_connections(void **state)
{
	struct fixture *f = *state;
	struct ur_tcp_conn hot, cold;
	int hot_peer = connect_to(f, &hot), cold_peer = connect_to(f, &cold);
	struct ur_tcp_conn *c;
	char buf[8];
	int looks;

	drain(f);
	for (int i = 0; i < 2; i++) {
		assert_null(f->t.hot);
		assert_int_equal(write(hot_peer, "a", 1), 1);
		assert_int_equal(drain(f), 1);
	}
	assert_ptr_equal(f->t.hot, &hot);
	/* A look that finds nothing does not change that. */
	ur_tcp_poll(&f->t, true, 0);
	assert_ptr_equal(ur_tcp_next_readable(&f->t), &hot);
	assert_int_equal(read_up_to(f, &hot, buf, sizeof(buf)), -EAGAIN);
	assert_ptr_equal(f->t.hot, &hot);
	assert_int_equal(write(cold_peer, "b", 1), 1);
	for (looks = 0; looks < 100; looks++) {
		ssize_t n;

		/* The hot one always has something: the worst case. */
		assert_int_equal(write(hot_peer, "a", 1), 1);
		ur_tcp_poll(&f->t, true, 0);
		while ((c = ur_tcp_next_readable(&f->t)) && c == &hot) {
			n = read_up_to(f, c, buf, sizeof(buf));
			assert_true(n == 1 || n == -EAGAIN);
		}
		if (c == &cold)
			break;
	}
	assert_true(looks < 10);
	assert_int_equal(read_up_to(f, &cold, buf, sizeof(buf)), 1);
	assert_null(f->t.hot);
	ur_tcp_del(&f->t, &hot, false);
	ur_tcp_del(&f->t, &cold, false);
	close(hot_peer);
	close(cold_peer);
}

/* Reads bytes of c, as a poller does, until it leaves the set. */
static void make_hot(struct fixture *f, struct ur_tcp_conn *c, int peer)
{
	char buf[8];

	for (int i = 0; i < 3000 && f->t.out != c; i++) {
		assert_int_equal(write(peer, "a", 1), 1);
		ur_tcp_poll(&f->t, true, 0);
		while (ur_tcp_next_readable(&f->t))
			(void)read_up_to(f, c, buf, sizeof(buf));
	}
	assert_ptr_equal(f->t.out, c);
}

/* A thread polls the set before it sleeps on it: that brings the hot connection
 * back, with what has come meanwhile. */
static void the_hot_one_rejoins_for_sleepers(void **state)
{
	struct fixture *f = *state;
	struct ur_tcp_conn c;
	int peer = connect_to(f, &c);

	make_hot(f, &c, peer);
	assert_int_equal(drain(f), 0);
	make_hot(f, &c, peer);
	assert_int_equal(write(peer, "new", 3), 3);
	assert_false(is_readable(ur_tcp_wait_fd(&f->t)));
	ur_tcp_poll(&f->t, false, 0);
	assert_null(f->t.out);
	assert_ptr_equal(ur_tcp_next_readable(&f->t), &c);
	ur_tcp_del(&f->t, &c, false);
	close(peer);
}

/* It also rejoins when it falls silent, although polling goes on, and when it
 * has no room, which only the set reports. */
static void the_hot_one_rejoins_by_itself(void **state)
{
	struct fixture *f = *state;
	struct ur_tcp_conn c;
	int peer = connect_to(f, &c);
	static char big[1 << 20];
	char buf[8];

	make_hot(f, &c, peer);
	for (int i = 0; i < 1000 && f->t.out; i++) {
		ur_tcp_poll(&f->t, true, 0);
		while (ur_tcp_next_readable(&f->t))
			(void)read_up_to(f, &c, buf, sizeof(buf));
	}
	assert_null(f->t.out);
	make_hot(f, &c, peer);
	while (write_all_of(f, &c, big, sizeof(big)) > 0)
		;
	assert_true(c.blocked);
	assert_null(f->t.out);
	ur_tcp_del(&f->t, &c, true);
	close(peer);
}

static void a_removed_one_is_forgotten(void **state)
{
	struct fixture *f = *state;
	struct ur_tcp_conn c;
	int peer = connect_to(f, &c), fd = c.fd;

	assert_int_equal(write(peer, "x", 1), 1);
	ur_tcp_poll(&f->t, false, 0);
	ur_tcp_remove(&f->t, &c);
	assert_null(ur_tcp_next_readable(&f->t));
	assert_int_equal(write(peer, "x", 1), 1);
	assert_false(is_readable(ur_tcp_wait_fd(&f->t)));
	close(fd);
	close(peer);
}

/* One of a thousand has data: it is found, and the others cost nothing. */
static void idle_connections_are_not_read(void **state)
{
	struct fixture *f = *state;
	struct ur_tcp_conn *c = calloc(MANY, sizeof(*c));
	int *peers = calloc(MANY, sizeof(int));
	struct rlimit lim;
	int n = 0;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
	if (lim.rlim_cur < 2 * MANY + 100)
		SKIP_BECAUSE("needs two descriptors for each stream");
	for (int i = 0; i < MANY; i++)
		peers[i] = connect_to(f, &c[i]);
	/* New ones are looked at once, without being asked to. */
	do
		drain(f);
	while (is_readable(ur_tcp_wait_fd(&f->t)));
	assert_int_equal(write(peers[777], "x", 1), 1);
	ur_tcp_poll(&f->t, false, 0);
	for (struct ur_tcp_conn *r; (r = ur_tcp_next_readable(&f->t)); n++)
		assert_ptr_equal(r, &c[777]);
	assert_int_equal(n, 1);
	for (int i = 0; i < MANY; i++) {
		ur_tcp_del(&f->t, &c[i], false);
		close(peers[i]);
	}
	free(c);
	free(peers);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(data_before_the_set_counts),
		TEST(a_full_read_is_repeated),
		TEST(the_end_behind_data_is_seen),
		TEST(a_reset_is_an_error),
		TEST(a_broken_write_is_told_after_the_last_data),
		TEST(room_is_reported_after_a_full_write),
		TEST(unmapped_memory_is_no_crash),
		TEST(remote_memory_is_filled),
		TEST(shut_tells_the_peer_and_still_reads),
		TEST(quick_polls_see_all_connections),
		TEST(the_hot_one_rejoins_for_sleepers),
		TEST(the_hot_one_rejoins_by_itself),
		TEST(a_removed_one_is_forgotten),
		TEST(idle_connections_are_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
