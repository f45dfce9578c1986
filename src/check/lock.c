/* SPDX-License-Identifier: BSD-2-Clause */
/* The lock, and the library's beginning and end. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check/internal.h"
#include "check/options.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside;
static _Thread_local int kept_errno;
static _Thread_local pid_t thread;
static _Thread_local uintptr_t stack_end;
static bool used; /* a device was opened */

pid_t urc_thread(void)
{
	return thread;
}

uintptr_t urc_thread_stack_end(void)
{
	return stack_end;
}

/* It calls malloc(). */
static void look_at_thread(void)
{
	pthread_attr_t attr;
	size_t size;
	void *low;

	thread = (pid_t)syscall(SYS_gettid);
	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (pthread_attr_getstack(&attr, &low, &size) == 0)
		stack_end = (uintptr_t)low + size;
	pthread_attr_destroy(&attr);
}

bool urc_enter(void)
{
	if (!urc_on || inside)
		return false;
	kept_errno = errno;
	inside = true;
	if (!thread)
		look_at_thread();
	pthread_mutex_lock(&lock);
	errno = kept_errno;
	return true;
}

void urc_leave(void)
{
	kept_errno = errno;
	used |= urc_objects() != NULL;
	pthread_mutex_unlock(&lock);
	urc_report_flush();
	inside = false;
	errno = kept_errno;
}

static void check_fork(void)
{
	unsigned int n = 0;
	const struct urc_object *one = NULL;

	for (const struct urc_object *o = urc_objects(); o; o = o->older)
		if (o->kind == URC_MR && !o->ended) {
			n++;
			one = o;
		}
	if (n && !urc_fork_init_called)
		urc_find(URC_FORK, one, NULL, NULL, NULL,
			 "%u memory regions are registered", n);
}

static void before_fork(void)
{
	if (urc_enter()) {
		check_fork();
		urc_leave();
	}
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* What it has inherited is the parent's to destroy. */
static void in_child(void)
{
	thread = 0;
	urc_objects_forget();
	urc_report_forget();
	used = false;
	pthread_mutex_init(&lock, NULL);
}

__attribute__((constructor)) static void begin(void)
{
	if (!urc_options_read())
		return;
	urc_stack_init();
	urc_report_init();
	urc_on = pthread_atfork(before_fork, after_fork, in_child) == 0;
}

static void check_leaks(void)
{
	for (const struct urc_object *o = urc_objects(); o; o = o->older)
		if (!o->ended && o->kind != URC_CONTEXT)
			urc_find(URC_LEAK_AT_EXIT, NULL, o->made, NULL, NULL,
				 "a %s, and maybe more that were made there",
				 urc_kind_name(o->kind));
}

/*
 * Behind the program's own handlers of exit(). Other libraries' destructors are
 * left out where the status has to be changed.
 */
__attribute__((destructor)) static void end(void)
{
	unsigned int findings;

	if (!urc_enter())
		return;
	for (const struct urc_object *o = urc_objects(); o; o = o->older)
		if (o->kind == URC_CQ && !o->ended)
			urc_check_overrun(o->ptr);
	check_leaks();
	urc_leave();
	if (!used)
		return;
	fflush(NULL);
	findings = urc_report_end();
	urc_on = false;
	if (findings && urc_options.status)
		_exit(urc_options.status);
}
