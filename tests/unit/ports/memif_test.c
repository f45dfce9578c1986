/* SPDX-License-Identifier: BSD-2-Clause */
/* Which files of sockets are removed before a memif begins: those of servers
 * that are gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ports/dpdk/internal.h"

static struct sockaddr_un addr = { .sun_family = AF_UNIX };

/* Another socket is bound to it. */
static int take_place(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* … and listens. */
static int serve(void)
{
	int fd = take_place();

	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

/* Is it left when the environment begins with that? */
static bool is_left(const char *before, const char *after)
{
	char arg[256];

	snprintf(arg, sizeof(arg), "%ssocket=%s%s", before, addr.sun_path,
		 after);
	ur_memif_clear(arg);
	return access(addr.sun_path, F_OK) == 0;
}

static bool is_left_by_server(void)
{
	return is_left("--vdev=net_memif0,role=server,", ",socket-abstract=no");
}

static void of_one_that_has_gone(void **state)
{
	static const char *const before[] = {
		"--vdev=net_memif0,role=server,",
		"net_memif7,bsize=4096,role=master,",
	};

	for (size_t i = 0; i < 2; i++) {
		close(serve());
		assert_false(is_left(before[i], ",socket-abstract=no"));
	}
	assert_false(is_left_by_server());
}

static void not_of_one_that_is_there(void **state)
{
	int fd = serve();

	assert_true(is_left_by_server());
	/* Nor is it connected to: an early close would crash the driver. */
	assert_int_equal(accept(fd, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	/* As many wait as may. */
	for (int i = 0; i < 3; i++) {
		int c = socket(AF_UNIX,
			       SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			       0);

		(void)!connect(c, (struct sockaddr *)&addr, sizeof(addr));
	}
	assert_true(is_left_by_server());
	close(fd);
	assert_false(is_left_by_server());
}

static void not_of_one_that_begins(void **state)
{
	int fd = take_place();

	assert_true(is_left_by_server());
	close(fd);
	assert_false(is_left_by_server());
}

/* Neither a client's, nor another kind's, nor what is no file. */
static void not_of_others(void **state)
{
	close(serve());
	assert_true(is_left("--vdev=net_memif0,role=client,",
			    ",socket-abstract=no"));
	assert_true(is_left("--vdev=net_memif0,", ",socket-abstract=no"));
	assert_true(is_left("--vdev=net_memif0,role=server,", ""));
	assert_true(is_left("--vdev=net_memif0,role=server,",
			    ",socket-abstract=yes"));
	assert_true(is_left("--vdev=net_memif0,role=servers,",
			    ",socket-abstract=no"));
	assert_true(
		is_left("--vdev=net_tap0,role=server,", ",socket-abstract=no"));
	assert_false(is_left_by_server());
}

static void nothing_but_sockets(void **state)
{
	int fd = open(addr.sun_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
	assert_true(is_left_by_server());
	assert_int_equal(unlink(addr.sun_path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_one_that_has_gone),
		cmocka_unit_test(not_of_one_that_is_there),
		cmocka_unit_test(not_of_one_that_begins),
		cmocka_unit_test(not_of_others),
		cmocka_unit_test(nothing_but_sockets),
	};
	char dir[] = "/tmp/urnic-memif-XXXXXX";
	int failed;

	if (!mkdtemp(dir))
		return 1;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/link", dir);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(dir);
	return failed;
}
