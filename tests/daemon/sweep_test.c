/* SPDX-License-Identifier: BSD-2-Clause */
/* Views of network namespaces that are gone are removed, and no others. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime_sweep.h"

#define DEAD 4000000001ul /* smaller than any that is given */

static char base[] = "/tmp/urnic-sweep-test-XXXXXX";

static ino_t own_ns(void)
{
	struct stat st;

	assert_int_equal(stat("/proc/self/ns/net", &st), 0);
	return st.st_ino;
}

static const char *in_base(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	return path;
}

static const char *view_of(unsigned long ns)
{
	char name[64];

	snprintf(name, sizeof(name), "net-%lu", ns);
	return in_base(name);
}

static void touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static void make_view(unsigned long ns)
{
	char path[300];

	assert_int_equal(mkdir(view_of(ns), 0700), 0);
	assert_int_equal(ur_runtime_mark(view_of(ns)), 0);
	snprintf(path, sizeof(path), "%s/sys", view_of(ns));
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/sys/file", view_of(ns));
	touch(path);
}

static bool there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* A process in a namespace of its own, whose number that is. */
static pid_t in_new_ns(unsigned long *ns)
{
	char path[64];
	struct stat st;
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNET) || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	assert_int_equal(stat(path, &st), 0);
	*ns = (unsigned long)st.st_ino;
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void of_the_dead(void **state)
{
	unsigned long ns;
	pid_t pid = in_new_ns(&ns);

	make_view(ns);
	make_view(DEAD);
	make_view((unsigned long)own_ns());
	ur_runtime_sweep(base, own_ns(), -1);
	assert_true(there(view_of(ns)));
	assert_false(there(view_of(DEAD)));
	assert_true(there(view_of((unsigned long)own_ns())));
	end(pid);
	ur_runtime_sweep(base, own_ns(), -1);
	assert_false(there(view_of(ns)));
	assert_true(there(view_of((unsigned long)own_ns())));
}

/* Others do not wait until the files are removed. */
static void lock_is_released(void **state)
{
	int lock = open(base, O_DIRECTORY | O_CLOEXEC);
	int other = open(base, O_DIRECTORY | O_CLOEXEC);

	(void)state;
	make_view(DEAD);
	assert_int_equal(flock(lock, LOCK_EX), 0);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
	ur_runtime_sweep(base, own_ns(), lock);
	assert_false(there(view_of(DEAD)));
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
	close(other);
	close(lock);
}

/* A program does not wait for the removal of many. */
static void few_at_once(void **state)
{
	unsigned int left = 0;

	(void)state;
	for (unsigned long i = 0; i < 5; i++)
		make_view(DEAD + i);
	ur_runtime_sweep(base, own_ns(), -1);
	for (unsigned long i = 0; i < 5; i++)
		left += there(view_of(DEAD + i));
	assert_int_equal(left, 3);
	ur_runtime_sweep(base, own_ns(), -1);
	ur_runtime_sweep(base, own_ns(), -1);
	for (unsigned long i = 0; i < 5; i++)
		assert_false(there(view_of(DEAD + i)));
}

/* A name keeps a namespace that no process is in. */
static void named(void **state)
{
	char path[64], name[256];
	unsigned long ns;
	pid_t pid = in_new_ns(&ns);

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	snprintf(name, sizeof(name), "%s", in_base("name"));
	touch(name);
	assert_int_equal(mount(path, name, NULL, MS_BIND, NULL), 0);
	end(pid);
	make_view(ns);
	ur_runtime_sweep(base, own_ns(), -1);
	assert_true(there(view_of(ns)));
	assert_int_equal(umount(name), 0);
	ur_runtime_sweep(base, own_ns(), -1);
	assert_false(there(view_of(ns)));
}

static void links_are_not_followed(void **state)
{
	char precious[256], file[300], link[300];

	snprintf(precious, sizeof(precious), "%s", in_base("precious"));
	assert_int_equal(mkdir(precious, 0700), 0);
	snprintf(file, sizeof(file), "%s/file", precious);
	touch(file);
	assert_int_equal(symlink(precious, view_of(DEAD + 1)), 0);
	make_view(DEAD);
	snprintf(link, sizeof(link), "%s/sys/link", view_of(DEAD));
	assert_int_equal(symlink(precious, link), 0);
	ur_runtime_sweep(base, own_ns(), -1);
	assert_false(there(view_of(DEAD)));
	assert_true(there(file));
}

static void other_names_stay(void **state)
{
	static const char *const names[] = { "net-", "net-12a", "netx", "net-0",
					     "12" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(mkdir(in_base(names[i]), 0700), 0);
	ur_runtime_sweep(base, own_ns(), -1);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_true(there(in_base(names[i])));
}

static void sweep_in_pid_namespace(unsigned long ns)
{
	pid_t pid;

	if (unshare(CLONE_NEWPID | CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		_exit(1);
	pid = fork();
	if (pid == 0) {
		if (mount("proc", "/proc", "proc", 0, NULL))
			_exit(1);
		ur_runtime_sweep(base, own_ns(), -1);
		_exit(there(view_of(ns)) ? 0 : 2);
	}
	waitpid(pid, &pid, 0);
	_exit(WEXITSTATUS(pid));
}

/* A sweep that does not see the processes of another PID namespace removes
 * nothing of theirs. */
static void unseen_users(void **state)
{
	unsigned long ns;
	pid_t user = in_new_ns(&ns), pid;
	int status;

	make_view(ns);
	pid = fork();
	if (pid == 0)
		sweep_in_pid_namespace(ns);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	end(user);
}

static int setup(void **state)
{
	memcpy(strrchr(base, '-'), "-XXXXXX", sizeof("-XXXXXX"));
	return mkdtemp(base) ? 0 : -1;
}

static int teardown(void **state)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", base);
	return system(cmd);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(of_the_dead),	 T(lock_is_released),	    T(few_at_once),
		T(named),	 T(links_are_not_followed), T(other_names_stay),
		T(unseen_users),
	};

	/* Our mounts are private. */
	if (geteuid() != 0 || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
		fprintf(stderr, "skipped: needs root and mounts\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
