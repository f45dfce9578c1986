/* SPDX-License-Identifier: BSD-2-Clause */
/* The locks, and the library's beginning and end. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check/internal.h"
#include "check/options.h"

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static _Thread_local bool inside;
static _Thread_local int kept_errno;
static _Thread_local pid_t thread;
static _Thread_local uintptr_t stack_start, stack_end;
static bool used;	/* a device was opened */
static int exit_status; /* 0: the program's */

pid_t urk_thread(void)
{
	return thread;
}

uintptr_t urk_thread_stack_end(uintptr_t here)
{
	return here >= stack_start && here < stack_end ? stack_end : 0;
}

/* Without a limit of the stack, all memory below it would be that of the first
 * thread; the kernel maps nothing so close to it. */
#define STACK_MAX (UINT64_C(128) << 20)

/* It calls malloc(). */
static void look_at_thread(void)
{
	pthread_attr_t attr;
	size_t size;
	void *low;

	thread = (pid_t)syscall(SYS_gettid);
	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (pthread_attr_getstack(&attr, &low, &size) == 0) {
		stack_end = (uintptr_t)low + size;
		stack_start = stack_end - (size < STACK_MAX ? size : STACK_MAX);
	}
	pthread_attr_destroy(&attr);
}

bool urk_stack_dead(const void *p, uintptr_t here)
{
	return (uintptr_t)p >= stack_start && (uintptr_t)p < here &&
	       urk_thread_stack_end(here);
}

void urk_lock(void)
{
	pthread_mutex_lock(&lock);
}

void urk_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

bool urk_begin(void)
{
	if (!urk_on || inside)
		return false;
	kept_errno = errno;
	inside = true;
	if (!thread)
		look_at_thread();
	errno = kept_errno;
	return true;
}

void urk_end(void)
{
	kept_errno = errno;
	urk_report_flush();
	inside = false;
	errno = kept_errno;
}

bool urk_enter(void)
{
	if (!urk_begin())
		return false;
	urk_lock();
	return true;
}

void urk_leave(void)
{
	used |= urk_objects() != NULL;
	urk_unlock();
	urk_end();
}

static void check_fork(void)
{
	unsigned int n = 0;
	const struct urk_object *one = NULL;

	for (const struct urk_object *o = urk_objects(); o; o = o->older)
		if (o->kind == URK_MR && !o->ended) {
			n++;
			one = o;
		}
	if (n && !urk_fork_init_called)
		urk_find(URK_FORK, one, NULL, NULL, NULL,
			 "%u memory regions are registered", n);
}

static void before_fork(void)
{
	if (urk_enter()) {
		check_fork();
		urk_leave();
	}
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* What it has inherited is the parent's to destroy. The lock is held by the parent's
 * thread, which is not this one. */
static void in_child(void)
{
	lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	thread = 0;
	exit_status = 0;
	urk_objects_forget();
	urk_report_forget();
	used = false;
}

static void watch_forks(void)
{
	if (pthread_atfork(before_fork, after_fork, in_child))
		urk_on = false;
}

void urk_watch_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
}

static void set_status(int status, void *arg)
{
	if (!exit_status)
		return;
	fflush(NULL);
	_exit(exit_status);
}

/* What on_exit() is given before main() begins is called last, after all
 * destructors; atexit() here would be called with this library's. */
__attribute__((constructor)) static void begin(void)
{
	if (!urk_options_read())
		return;
	urk_stack_init();
	urk_report_init();
	urk_on = on_exit(set_status, NULL) == 0;
}

static void check_leaks(void)
{
	for (const struct urk_object *o = urk_objects(); o; o = o->older)
		if (!o->ended && o->kind != URK_CONTEXT)
			urk_find(URK_LEAK_AT_EXIT, NULL, o->made, NULL, NULL,
				 "a %s, and maybe more that were made there",
				 urk_kind_name(o->kind));
}

/* After the program's own handlers of exit(), and before the destructors of the
 * libraries that this one needs. */
__attribute__((destructor)) static void end(void)
{
	unsigned int findings;

	if (!urk_enter())
		return;
	for (const struct urk_object *o = urk_objects(); o; o = o->older)
		if (o->kind == URK_CQ && !o->ended)
			urk_check_overrun(o->ptr);
	check_leaks();
	urk_leave();
	if (!used)
		return;
	fflush(NULL);
	findings = urk_report_end();
	urk_on = false;
	if (findings)
		exit_status = urk_options.status;
}
