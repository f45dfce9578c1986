/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of faults that are not ours.  Each case runs in a child, which
 * starts with default dispositions and reports by exit code or signal.
 */
#include "unit.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/guard.h"

#define PAGE 4096u

static uint8_t *closed;		       /* a page without rights */
static volatile sig_atomic_t calls[3]; /* per handler */

static void touch(void)
{
	*(volatile uint8_t *)closed = 1;
}

static int guarded_still_works(void)
{
	uint8_t b = 0;

	return ur_guard_copy(&b, closed, 1) == -EFAULT;
}

/* The child's wait status. */
static int run(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct rlimit none = { 0 };

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		alarm(20);
		closed = mmap(NULL, PAGE, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		_exit(fn());
	}
	waitpid(pid, &status, 0);
	return status;
}

static void assert_killed(int status, int sig)
{
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), sig);
}

static void assert_good(int status)
{
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void on_signal(int sig, void (*fn)(int, siginfo_t *, void *), int flags)
{
	struct sigaction act = { .sa_sigaction = fn,
				 .sa_flags = SA_SIGINFO | flags };

	sigaction(sig, &act, NULL);
}

static int fault_with_default(void)
{
	ur_guard_install();
	if (!guarded_still_works())
		return 1;
	touch();
	return 2;
}

static int raise_with_default(void)
{
	ur_guard_install();
	raise(SIGBUS);
	return 2;
}

static int fault_ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	ur_guard_install();
	touch();
	return 2;
}

static int raise_ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	ur_guard_install();
	kill(getpid(), SIGSEGV);
	return !guarded_still_works();
}

static void default_and_ignore(void **state)
{
	assert_killed(run(fault_with_default), SIGSEGV);
	assert_killed(run(raise_with_default), SIGBUS);
	assert_killed(run(fault_ignored), SIGSEGV);
	assert_good(run(raise_ignored));
}

/* Checks what it is given and repairs the page. */
static void repair(int sig, siginfo_t *info, void *context)
{
	sigset_t mask;

	calls[0]++;
	if (sig != SIGSEGV || info->si_addr != closed || !context)
		_exit(10);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	if (!sigismember(&mask, SIGSEGV))
		_exit(11);
	mprotect(closed, PAGE, PROT_READ | PROT_WRITE);
	errno = EDOM;
}

static int handled_by_the_one_before(void)
{
	sigset_t mask;

	on_signal(SIGSEGV, repair, 0);
	ur_guard_install();
	if (!guarded_still_works())
		return 1;
	errno = 0;
	touch();
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	return calls[0] != 1 || errno || sigismember(&mask, SIGSEGV);
}

static void old_style(int sig)
{
	calls[0]++;
	mprotect(closed, PAGE, PROT_READ | PROT_WRITE);
}

static int old_style_handler(void)
{
	signal(SIGSEGV, old_style);
	ur_guard_install();
	touch();
	return calls[0] != 1;
}

static int one_shot_handler(void)
{
	on_signal(SIGSEGV, repair, (int)SA_RESETHAND);
	ur_guard_install();
	touch();
	mprotect(closed, PAGE, PROT_NONE);
	touch(); /* the default now */
	return 2;
}

static sigjmp_buf back;

static void leave(int sig, siginfo_t *info, void *context)
{
	calls[1]++;
	siglongjmp(back, 1);
}

static int leaves_by_longjmp(void)
{
	on_signal(SIGSEGV, leave, SA_NODEFER);
	ur_guard_install();
	for (int i = 0; i < 100; i++) {
		if (!sigsetjmp(back, 1))
			touch();
		if (!guarded_still_works())
			return 1;
	}
	return calls[1] != 100;
}

static void handlers_before_ours(void **state)
{
	assert_good(run(handled_by_the_one_before));
	assert_good(run(old_style_handler));
	assert_killed(run(one_shot_handler), SIGSEGV);
	assert_good(run(leaves_by_longjmp));
}

static struct sigaction below;

/* Knows nothing and asks the handler that it replaced: ours. */
static void chaining(int sig, siginfo_t *info, void *context)
{
	if (++calls[2] > 5)
		_exit(12);
	below.sa_sigaction(sig, info, context);
}

static void install_over_ours(void (*fn)(int, siginfo_t *, void *))
{
	struct sigaction act = { .sa_sigaction = fn, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &act, &below);
}

/* repair() stands lowest, then ours, chaining(), and ours again. */
static int ours_above_and_below(void)
{
	on_signal(SIGSEGV, repair, 0);
	ur_guard_install();
	install_over_ours(chaining);
	ur_guard_install();
	if (!guarded_still_works() || calls[2])
		return 1;
	touch();
	return calls[2] != 1 || calls[0] != 1;
}

static int nobody_knows(void)
{
	ur_guard_install();
	install_over_ours(chaining);
	ur_guard_install();
	touch();
	return 2;
}

/* As crash reporters do: put back what was there and raise. */
static void report_and_raise(int sig, siginfo_t *info, void *context)
{
	if (++calls[2] > 1)
		_exit(12);
	sigaction(SIGSEGV, &below, NULL);
	raise(SIGSEGV);
}

static int crash_reporter(void)
{
	struct sigaction act = { .sa_sigaction = report_and_raise,
				 .sa_flags = SA_SIGINFO | SA_NODEFER };

	ur_guard_install();
	sigaction(SIGSEGV, &act, &below);
	ur_guard_install();
	touch();
	return 2;
}

static void handlers_after_ours(void **state)
{
	assert_good(run(ours_above_and_below));
	assert_killed(run(nobody_knows), SIGSEGV);
	/* The thread sanitizer holds back what is raised in a handler. */
	if (!UNDER_TSAN)
		assert_killed(run(crash_reporter), SIGSEGV);
}

/* Many rounds of install do not overflow the chain nor make a cycle. */
static int installed_again_and_again(void)
{
	for (int i = 0; i < 50; i++) {
		signal(SIGSEGV, i & 1 ? old_style : SIG_DFL);
		ur_guard_install();
		ur_guard_install();
		if (!guarded_still_works())
			return 1;
	}
	touch();
	return calls[0] != 1;
}

/* A guarded fault while little stack is left for handlers of others. */
static int on_an_alternate_stack(void)
{
	static uint8_t stack[65536];
	stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };

	sigaltstack(&alt, NULL);
	ur_guard_install();
	for (int i = 0; i < 1000; i++)
		if (!guarded_still_works())
			return 1;
	sigaltstack(NULL, &alt);
	return alt.ss_flags & SS_ONSTACK ? 2 : 0;
}

static void installing(void **state)
{
	assert_good(run(installed_again_and_again));
	assert_good(run(on_an_alternate_stack));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(default_and_ignore),
		cmocka_unit_test(handlers_before_ours),
		cmocka_unit_test(handlers_after_ours),
		cmocka_unit_test(installing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
