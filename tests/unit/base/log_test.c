/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

static int evaluated;

static int count_evaluation(void)
{
	return ++evaluated;
}

static void write_lines(void)
{
	char longer[3000];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	ur_log_init();
	ur_err("one %d", count_evaluation());
	errno = ENOENT;
	ur_warn("two %d: %m", count_evaluation());
	if (errno != ENOENT)
		ur_err("errno has changed");
	ur_info("three %d", count_evaluation());
	ur_debug("four %d", count_evaluation());
	ur_err("evaluated %d", evaluated);
	ur_err("%s", longer);
}

/* The standard error of a process with this environment. */
static char *run(const char *level, const char *file)
{
	static char text[8192];
	size_t used = 0;
	ssize_t n;
	int fd[2];
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	pid = fork();
	if (!pid) {
		dup2(fd[1], STDERR_FILENO);
		unsetenv("URNIC_LOG");
		unsetenv("URNIC_LOG_FILE");
		if (level)
			setenv("URNIC_LOG", level, 1);
		if (file)
			setenv("URNIC_LOG_FILE", file, 1);
		write_lines();
		_exit(0);
	}
	close(fd[1]);
	while ((n = read(fd[0], text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = 0;
	close(fd[0]);
	waitpid(pid, NULL, 0);
	return text;
}

static void default_is_warn(void **state)
{
	const char *text = run(NULL, NULL);

	assert_memory_equal(text, "urnic[", 6);
	assert_non_null(strstr(text, "]: error: one 1\n"));
	assert_non_null(strstr(text, "]: warn: two 2: No such file"));
	assert_null(strstr(text, "three"));
	assert_null(strstr(text, "errno has changed"));
	/* suppressed arguments are not evaluated */
	assert_non_null(strstr(text, "evaluated 2\n"));
}

static void levels_are_thresholds(void **state)
{
	const char *text = run("error", NULL);

	assert_non_null(strstr(text, "one"));
	assert_null(strstr(text, "two"));
	text = run("debug", NULL);
	assert_non_null(strstr(text, "four"));
	text = run("no such level", NULL);
	assert_non_null(strstr(text, "two"));
	assert_null(strstr(text, "three"));
}

static void long_lines_are_cut_and_ended(void **state)
{
	const char *text = run(NULL, NULL);
	const char *x = strstr(text, "xxx");

	assert_non_null(x);
	assert_in_range(strspn(x, "x"), 900, 1024);
	assert_string_equal(x + strspn(x, "x"), "\n");
}

static void a_file_is_appended_to(void **state)
{
	char name[] = "urnic_log_test_XXXXXX";
	char text[8192] = { 0 };
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	assert_string_equal(run(NULL, name), "");
	assert_string_equal(run("error", name), "");
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "two 2"));
	assert_non_null(strstr(strstr(text, "two 2"), "one 1"));
	close(fd);
	unlink(name);
}

static uint32_t warn_often(uint32_t times)
{
	uint32_t told = 0;

	for (uint32_t i = 0; i < times; i++) {
		ur_warn_some("often %u", ++told);
	}
	return told;
}

/* The border of two windows may lie in between. */
static void remote_causes_are_rate_limited(void **state)
{
	static struct ur_log_limit one, other;
	uint32_t n = 0;

	for (uint32_t i = 0; i < 10 * UR_LOG_SOME; i++)
		n += ur_log_may(&one, UR_LOG_WARN);
	assert_in_range(n, UR_LOG_SOME, 2 * UR_LOG_SOME);
	assert_true(ur_log_may(&other, UR_LOG_WARN));
	assert_in_range(warn_often(10 * UR_LOG_SOME), UR_LOG_SOME,
			2 * UR_LOG_SOME);
	/* Another window: the suppressed lines are reported, and counting
	 * restarts. */
	one.window--;
	assert_true(one.lines > UR_LOG_SOME);
	assert_true(ur_log_may(&one, UR_LOG_WARN));
	assert_int_equal(one.lines, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(default_is_warn),
		cmocka_unit_test(levels_are_thresholds),
		cmocka_unit_test(long_lines_are_cut_and_ended),
		cmocka_unit_test(a_file_is_appended_to),
		cmocka_unit_test(remote_causes_are_rate_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
