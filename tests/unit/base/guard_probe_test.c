/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ur_guard_probe() by each of its ways.  The two for older kernels and for
 * processes without /proc run in a child whose system calls fail as there.
 */
#include "unit.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../skip.h"
#include "base/guard.h"

#define PAGE 4096u

/* Three pages: writable, read-only, none; behind them nothing. */
static uint8_t *pages;

static int set_up(void **state)
{
	pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		return -1;
	mprotect(pages + PAGE, PAGE, PROT_READ);
	mprotect(pages + 2 * PAGE, PAGE, PROT_NONE);
	return munmap(pages + 3 * PAGE, PAGE);
}

static int tear_down(void **state)
{
	return munmap(pages, 3 * PAGE);
}

static const struct {
	size_t at;
	size_t len;
	bool want_write;
	bool answer;
} cases[] = {
	{ 0, PAGE, true, true },	   { 17, 1, true, true },
	{ 0, 2 * PAGE, false, true },	   { 0, 0, true, true },
	{ 0, PAGE + 1, true, false },	   { PAGE, 1, true, false },
	{ 0, 2 * PAGE + 1, false, false }, { 2 * PAGE, 1, false, false },
	{ 3 * PAGE, 1, false, false },	   { 0, SIZE_MAX, false, false },
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

/* The number of the first case answered wrongly, from 1; 0: none. */
static int wrong_case(void)
{
	for (unsigned int i = 0; i < CASES; i++)
		if (!!ur_guard_probe(pages + cases[i].at, cases[i].len,
				     cases[i].want_write) != cases[i].answer)
			return (int)i + 1;
	return ur_guard_probe(NULL, 1, 0) ? 100 : 0;
}

/* Without access rights: what is mapped and what is not. */
static int wrong_mapping(void)
{
	if (!ur_guard_probe(pages, 2 * PAGE, 0) ||
	    !ur_guard_probe(pages + 17, 1, 1))
		return 1;
	return ur_guard_probe(pages, 3 * PAGE + 1, 0) ||
	       ur_guard_probe(pages + 3 * PAGE, 1, 0);
}

/* Run fn in a child in which a system call fails with that error. */
static int run_without(int syscall_nr, int err, int (*fn)(void))
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)syscall_nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = 4, .filter = code };
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
			_exit(77);
		_exit(fn());
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		SKIP_BECAUSE("seccomp(2) is refused");
	return WEXITSTATUS(status);
}

static void rights_and_holes(void **state)
{
	assert_int_equal(wrong_case(), 0);
}

static void rights_and_holes_from_the_text(void **state)
{
	assert_int_equal(run_without(SYS_ioctl, ENOTTY, wrong_case), 0);
}

static void holes_without_proc(void **state)
{
	assert_int_equal(run_without(SYS_openat, ENOENT, wrong_mapping), 0);
}

static void a_gigabyte_touches_nothing(void **state)
{
	const size_t len = 1ul << 30;
	struct rusage before, after;
	uint8_t *big = mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(big, MAP_FAILED);
	getrusage(RUSAGE_SELF, &before);
	assert_true(ur_guard_probe(big, len, 1));
	mprotect(big + len / 2, PAGE, PROT_READ);
	assert_true(ur_guard_probe(big, len, 0));
	assert_false(ur_guard_probe(big, len, 1));
	munmap(big + len / 2, PAGE);
	assert_false(ur_guard_probe(big, len, 0));
	getrusage(RUSAGE_SELF, &after);
	assert_true(after.ru_minflt - before.ru_minflt < 100);
	munmap(big, len);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rights_and_holes),
		TEST(rights_and_holes_from_the_text),
		TEST(holes_without_proc),
		TEST(a_gigabyte_touches_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
