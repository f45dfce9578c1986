/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/service.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/lock.h"

struct urs_service {
	/* Held while a watch's fn runs, so that stopping waits for it. */
	struct ur_lock lock;
	struct ur_list watches;
	bool started;
	bool once; /* the list is initialised */
	pthread_t thread;
	int epfd;
	int kick;
};

struct urs_service urs_cm_service = { .lock = { PTHREAD_MUTEX_INITIALIZER } };
struct urs_service urs_udp_service = { .lock = { PTHREAD_MUTEX_INITIALIZER } };

void urs_watch_init(struct urs_watch *w, void (*fn)(struct urs_watch *w))
{
	*w = (struct urs_watch){ .fd = -1, .due_ns = URS_NEVER, .fn = fn };
	ur_list_init(&w->node);
}

static int timeout_ms(struct urs_service *svc)
{
	int64_t due = URS_NEVER;
	int64_t left;

	ur_list_each(struct urs_watch, w, &svc->watches, node)
		if (w->due_ns < due)
			due = w->due_ns;
	if (due == URS_NEVER)
		return -1;
	left = (due - urs_now_ns() + 999999) / 1000000;
	return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

static struct urs_watch *find_due(struct urs_service *svc, int64_t now)
{
	ur_list_each(struct urs_watch, w, &svc->watches, node)
		if (w->due_ns <= now)
			return w;
	return NULL;
}

static void run_fd(struct urs_service *svc, void *which)
{
	uint64_t n;

	if (which == svc) {
		if (read(svc->kick, &n, sizeof(n)) < 0)
			return;
		return;
	}
	/* It may have been stopped since epoll_wait() saw it. */
	ur_list_each(struct urs_watch, w, &svc->watches, node) {
		if (w == which) {
			w->fn(w);
			return;
		}
	}
}

static void *run(void *arg)
{
	struct urs_service *svc = arg;
	struct epoll_event ev[16];
	struct urs_watch *w;
	int64_t now;
	int n;

	ur_lock_open(&svc->lock);
	for (;;) {
		int ms = timeout_ms(svc);

		ur_unlock_open(&svc->lock);
		n = epoll_wait(svc->epfd, ev, 16, ms);
		ur_lock_open(&svc->lock);
		for (int i = 0; i < n; i++)
			run_fd(svc, ev[i].data.ptr);
		now = urs_now_ns();
		while ((w = find_due(svc, now))) {
			w->due_ns = URS_NEVER;
			w->fn(w);
		}
	}
	return NULL;
}

/* The thread's code must not go when a program closes the library. */
static void stay_loaded(void)
{
	Dl_info info;
	void *lib;

	if (!dladdr(&urs_cm_service, &info))
		return;
	lib = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
	if (lib)
		dlclose(lib);
}

/* Signals are for the application's threads. */
static int spawn(struct urs_service *svc)
{
	sigset_t all, old;
	int rc;

	stay_loaded();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&svc->thread, NULL, run, svc);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!rc)
		pthread_detach(svc->thread);
	return -rc;
}

static int start(struct urs_service *svc)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = svc };
	int rc = -ENOMEM;

	if (!svc->once)
		ur_list_init(&svc->watches);
	svc->once = true;
	svc->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (svc->epfd < 0)
		return -errno;
	svc->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (svc->kick < 0) {
		rc = -errno;
		goto close_epoll;
	}
	if (epoll_ctl(svc->epfd, EPOLL_CTL_ADD, svc->kick, &ev)) {
		rc = -errno;
		goto close_kick;
	}
	rc = spawn(svc);
	if (rc)
		goto close_kick;
	svc->started = true;
	return 0;

close_kick:
	close(svc->kick);
close_epoll:
	close(svc->epfd);
	return rc;
}

static bool in_thread(struct urs_service *svc)
{
	return svc->started && pthread_equal(svc->thread, pthread_self());
}

static int start_watch(struct urs_service *svc, struct urs_watch *w,
		       bool inside)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = w };
	uint64_t one = 1;
	int rc = 0;

	if (!svc->started)
		rc = start(svc);
	if (!rc && !w->on && w->fd >= 0 &&
	    epoll_ctl(svc->epfd, EPOLL_CTL_ADD, w->fd, &ev))
		rc = -errno;
	if (!rc && !w->on) {
		ur_list_add_tail(&svc->watches, &w->node);
		w->on = true;
	}
	if (!rc && !inside && write(svc->kick, &one, sizeof(one)) < 0)
		rc = -errno;
	return rc;
}

int urs_watch_start_at(struct urs_service *svc, struct urs_watch *w,
		       int64_t due_ns)
{
	bool inside = in_thread(svc);
	int rc;

	if (!inside)
		ur_lock_open(&svc->lock);
	w->due_ns = due_ns;
	rc = start_watch(svc, w, inside);
	if (!inside)
		ur_unlock_open(&svc->lock);
	return rc;
}

int urs_watch_start(struct urs_service *svc, struct urs_watch *w)
{
	return urs_watch_start_at(svc, w, URS_NEVER);
}

void urs_watch_stop(struct urs_service *svc, struct urs_watch *w)
{
	bool inside = in_thread(svc);

	if (!inside)
		ur_lock_open(&svc->lock);
	if (w->on) {
		w->on = false;
		ur_list_del(&w->node);
		if (w->fd >= 0)
			epoll_ctl(svc->epfd, EPOLL_CTL_DEL, w->fd, NULL);
	}
	if (!inside)
		ur_unlock_open(&svc->lock);
}

void urs_service_after_fork(struct urs_service *svc)
{
	ur_lock_init(&svc->lock);
	if (svc->started) {
		close(svc->epfd);
		close(svc->kick);
	}
	svc->started = false;
	svc->once = false;
}
