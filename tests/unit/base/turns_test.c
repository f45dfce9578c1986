/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/turns.h"

static int policy(void)
{
	return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

/* It sleeps nowhere meanwhile, but works for a moment only. */
static void first_and_ordinary_again(void **state)
{
	struct sched_param p;
	int status;
	pid_t pid;

	if (!ur_turns_first(3)) {
		assert_int_equal(policy(), SCHED_OTHER);
		skip();
	}
	assert_int_equal(policy(), SCHED_FIFO);
	assert_int_equal(sched_getparam(0, &p), 0);
	assert_int_equal(p.sched_priority, 3);
	/* What it starts is ordinary. */
	pid = fork();
	if (pid == 0)
		_exit(policy() != SCHED_OTHER);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(ur_turns_first(0));
	assert_int_equal(policy(), SCHED_OTHER);
	assert_int_equal(sched_getparam(0, &p), 0);
	assert_int_equal(p.sched_priority, 0);
	assert_true(ur_turns_first(1));
	assert_true(ur_turns_first(0));
}

static void cores_are_those_it_may_have(void **state)
{
	cpu_set_t was, one;
	int i = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(was), &was), 0);
	assert_int_equal(ur_turns_cores(), CPU_COUNT(&was));
	while (!CPU_ISSET(i, &was))
		i++;
	CPU_ZERO(&one);
	CPU_SET(i, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(ur_turns_cores(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(was), &was), 0);
}

static void a_nap_is_as_long(void **state)
{
	assert_true(ur_turns_nap(50000) >= 50000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_and_ordinary_again),
		cmocka_unit_test(cores_are_those_it_may_have),
		cmocka_unit_test(a_nap_is_as_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
