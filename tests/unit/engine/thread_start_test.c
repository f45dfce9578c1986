/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "engine/internal.h"

/* NOLINTBEGIN(readability-identifier-naming): the linker's */
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg);

/* In the place of the C library's, by the linker's --wrap. */
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg)
{
	return EAGAIN;
}
/* NOLINTEND(readability-identifier-naming) */

static void *never(void *arg)
{
	return arg;
}

/* Programs say no more than that a queue pair cannot be created. */
static void test_failure_is_told(void **state)
{
	char text[512] = "";
	int fd[2], err_fd = dup(STDERR_FILENO), rc;
	pthread_t t;

	assert_int_equal(pipe2(fd, O_NONBLOCK), 0);
	ur_log_init();
	dup2(fd[1], STDERR_FILENO);
	rc = ur_thread_start(&t, "urnic-test", never, NULL);
	dup2(err_fd, STDERR_FILENO);
	assert_int_equal(rc, -EAGAIN);
	assert_true(read(fd[0], text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "urnic-test"));
	assert_non_null(strstr(text, "ulimit -u"));
	close(fd[0]);
	close(fd[1]);
	close(err_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failure_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
