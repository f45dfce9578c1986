/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/passed.h"

static int pair[2];

static int setup(void **state)
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair);
}

static int teardown(void **state)
{
	close(pair[0]);
	close(pair[1]);
	return 0;
}

static unsigned int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* A message of len bytes with n descriptors. */
static void send_fds(size_t len, unsigned int n)
{
	const char text[8] = "message";
	int fds[UR_FDS_MAX];

	for (unsigned int i = 0; i < n; i++)
		fds[i] = pair[0];
	assert_int_equal(ur_fds_send(pair[0], text, len, fds, n), 0);
}

static void expect_refused(size_t len, unsigned int n)
{
	unsigned int before = open_files();
	char text[8];
	int fd = 0;

	send_fds(len, n);
	assert_int_equal(ur_take_fd(pair[1], text, sizeof(text), &fd), -EPROTO);
	assert_int_equal(fd, -1);
	assert_int_equal(open_files(), before);
}

static void test_one(void **state)
{
	char text[8];
	int fd;

	assert_int_equal(ur_pass_fd(pair[0], "message", 8, pair[0]), 0);
	assert_int_equal(ur_take_fd(pair[1], text, sizeof(text), &fd), 0);
	assert_string_equal(text, "message");
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	assert_int_equal(ur_pass_fd(pair[0], "message", 8, -1), 0);
	assert_int_equal(ur_take_fd(pair[1], text, sizeof(text), &fd), 0);
	assert_int_equal(fd, -1);
	assert_int_equal(ur_take_fd(pair[1], text, sizeof(text), &fd), -EAGAIN);
}

static void test_refused(void **state)
{
	expect_refused(8, 2);
	expect_refused(8, 5);
	expect_refused(7, 1);
	expect_refused(7, 0);
}

static void test_longer(void **state)
{
	char text[4];
	int fd;

	send_fds(8, 1);
	assert_int_equal(ur_take_fd(pair[1], text, sizeof(text), &fd), -EPROTO);
	assert_int_equal(fd, -1);
}

/* Those beyond `max` are closed, whether they fit into the buffer or not. */
static void test_more_than_max(void **state)
{
	for (unsigned int n = 0; n <= 6; n++) {
		unsigned int before = open_files(), got;
		int fds[3], flags = 0;
		char text[8];

		send_fds(8, n);
		assert_int_equal(ur_fds_recv(pair[1], text, sizeof(text), fds,
					     3, &got, &flags),
				 8);
		assert_int_equal(got, n < 3 ? n : 3);
		assert_int_equal(!!(flags & MSG_CTRUNC), n > 4);
		while (got)
			close(fds[--got]);
		assert_int_equal(open_files(), before);
	}
}

static void test_peek(void **state)
{
	int fds[1], flags = MSG_PEEK;
	unsigned int got;
	char text[8];

	send_fds(8, 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ur_fds_recv(pair[1], text, sizeof(text), fds,
					     1, &got, &flags),
				 8);
		assert_int_equal(got, 1);
		close(fds[0]);
		flags = 0;
	}
	assert_int_equal(ur_fds_recv(pair[1], text, sizeof(text), fds, 1, &got,
				     &flags),
			 -EAGAIN);
	assert_int_equal(got, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_one),		  TEST(test_refused), TEST(test_longer),
		TEST(test_more_than_max), TEST(test_peek),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
