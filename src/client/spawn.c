/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The application may have threads, signal handlers, a SIGCHLD handler that
 * reaps everything, and huge memory.  So the child shares our memory until it
 * execs (CLONE_VM, CLONE_VFORK: cheap at any size, and pthread_atfork handlers
 * do not run), and is cloned with exit signal 0: then only __WCLONE sees it.
 * exec would set that signal to SIGCHLD, which is why there is an intermediate
 * process: it alone is our child and never execs.
 */
#include "client/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/beside.h"

#ifndef UR_URNICD_PATH
#define UR_URNICD_PATH "/usr/sbin/urnicd"
#endif

#define STACK_SIZE  ((size_t)64 << 10) /* of each of the two processes */
#define MAX_ENV	    4096u
#define KERNEL_NSIG 64

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* Relative to the directory of the library: build tree first, then installed
 * below one prefix. */
static const char *const places[] = {
	"urnicd",
	"urnicd/urnicd",
	"../src/urnicd/urnicd",
	"../libexec/urnicd",
	"../bin/urnicd",
	"../sbin/urnicd",
	"../../bin/urnicd",
	"../../sbin/urnicd",
	"../../../bin/urnicd",
	"../../../sbin/urnicd",
};

static bool runnable(const char *path)
{
	return access(path, X_OK) == 0;
}

static bool find_in_path(char *path, size_t cap)
{
	const char *p = getenv("PATH");

	while (p && *p) {
		size_t len = strcspn(p, ":");
		int n = snprintf(path, cap, "%.*s/urnicd", (int)len, p);

		/* Only absolute entries: never the current directory. */
		if (*p == '/' && n > 0 && (size_t)n < cap && runnable(path))
			return true;
		p += len + (p[len] == ':');
	}
	return false;
}

int ur_spawn_find(char *path, size_t cap)
{
	const char *env = secure_getenv("URNICD");

	if (env && *env) {
		if (snprintf(path, cap, "%s", env) >= (int)cap ||
		    !runnable(path))
			return -ENOENT;
		return 0;
	}
	if (ur_find_beside(places, places, sizeof(places) / sizeof(places[0]),
			   X_OK, path, cap))
		return 0;
	snprintf(path, cap, "%s", UR_URNICD_PATH);
	if (runnable(path) || find_in_path(path, cap))
		return 0;
	return -ENOENT;
}

/*
 * The children run on stacks of their own in our memory: no instrumentation,
 * and nothing but bare system calls, since an interposed C library (a
 * sanitizer, a preload library) would take them for a thread of the program.  They end by returning.
 */
#define CHILD __attribute__((no_sanitize("address", "thread"), noinline))

/* clone(2) under the C library's second name, which is not interposed. */
int ur_clone(int (*fn)(void *), void *stack, int flags, void *arg,
	     ...) __asm__("__clone");

struct spawn {
	char *path;
	char **env;
	const char *log; /* URNIC_DAEMON_LOG or NULL */
	char *stack;	 /* of the second process */
	int err;	 /* memory is shared: set by any of the three */
};

/* What the kernel takes; all zero is SIG_DFL on every machine. */
struct kernel_sigaction {
	uint64_t word[4];
};

static CHILD void reset_signals(void)
{
	static const struct kernel_sigaction dfl;
	static const uint64_t none;

	for (long sig = 1; sig <= KERNEL_NSIG; sig++)
		syscall(SYS_rt_sigaction, sig, &dfl, NULL, sizeof(none));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
}

static CHILD void redirect_stdio(const struct spawn *s)
{
	long null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
	long out = null;

	if (s->log)
		out = syscall(SYS_openat, AT_FDCWD, s->log,
			      O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (out < 0)
		out = null;
	/* dup3() refuses equal numbers, as when the program has closed 0. */
	syscall(SYS_dup3, null, STDIN_FILENO, 0);
	syscall(SYS_dup3, out, STDOUT_FILENO, 0);
	syscall(SYS_dup3, out, STDERR_FILENO, 0);
}

static CHILD void close_rest(void)
{
	if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0)
		return;
	for (long fd = 3; fd < 65536; fd++)
		syscall(SYS_close, fd);
}

static CHILD int daemon_process(void *arg)
{
	struct spawn *s = arg;
	static char name[] = "urnicd", option[] = "--on-demand";
	char *argv[] = { name, option, NULL };

	syscall(SYS_setsid);
	redirect_stdio(s);
	if (syscall(SYS_chdir, "/"))
		return 1;
	close_rest();
	reset_signals();
	syscall(SYS_execve, s->path, argv, s->env);
	s->err = -errno;
	return 1;
}

static CHILD int middle_process(void *arg)
{
	struct spawn *s = arg;

	if (ur_clone(daemon_process, s->stack, CLONE_VM | CLONE_VFORK, s) < 0)
		s->err = -errno;
	return 0;
}

/* Where the library is: the libraries that it came with may be there, too, as in
 * the directory that dist/container/urnic-drop fills.  NULL: not found. */
static char *library_path(void)
{
	static const char *const own[] = { "liburnic.so" };
	char dir[PATH_MAX], *line;

	if (!ur_find_beside(own, own, 1, R_OK, dir, sizeof(dir)))
		return NULL;
	*strrchr(dir, '/') = 0;
	return asprintf(&line, "LD_LIBRARY_PATH=%s", dir) < 0 ? NULL : line;
}

/* The daemon must not load what was preloaded into the application. */
static char **clean_environment(char *libs)
{
	char **env = calloc(MAX_ENV + 2, sizeof(*env));
	size_t n = 0;

	if (env && libs)
		env[n++] = libs;
	for (char **e = environ; env && e && *e && n < MAX_ENV + 1; e++) {
		if (strncmp(*e, "LD_", 3) != 0)
			env[n++] = *e;
	}
	return env;
}

static int run_middle(struct spawn *s, char *stacks)
{
	sigset_t all, old;
	int pid, err = 0;

	/* A handler of the application must not run in the child, on our
	 * memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	s->stack = stacks + STACK_SIZE;
	pid = ur_clone(middle_process, stacks + 2 * STACK_SIZE,
		       CLONE_VM | CLONE_VFORK, s);
	if (pid < 0)
		err = -errno;
	else
		while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err ? err : s->err;
}

int ur_spawn_daemon(const char *path)
{
	struct spawn s = { .log = getenv("URNIC_DAEMON_LOG") };
	char *stacks, *libs;
	int err = -ENOMEM, saved = errno, cancel;

	if (getauxval(AT_SECURE))
		return -EPERM;
	stacks = mmap(NULL, 2 * STACK_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stacks == MAP_FAILED)
		return -ENOMEM;
	s.path = realpath(path, NULL);
	libs = library_path();
	s.env = clean_environment(libs);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (s.path && s.env)
		err = run_middle(&s, stacks);
	pthread_setcancelstate(cancel, NULL);
	free(s.env);
	free(libs);
	free(s.path);
	munmap(stacks, 2 * STACK_SIZE);
	errno = saved;
	return err;
}
