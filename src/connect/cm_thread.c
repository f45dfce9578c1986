/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation.  A round of the thread: free the graves, deliver queued
 * events (lock released around each handler), run timers that are due, sleep,
 * run the descriptors that are ready.  A thread that queues something or arms
 * an earlier timer while this one sleeps writes to wake_fd.
 */
#include "connect/cm_thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/sys.h"
#include "connect/conn_internal.h"
#include "engine/internal.h"

#define EVENTS	  64
#define NS_PER_MS 1000000u
#define MS_MAX	  3600000u
#define NAP_NS	  1000000000u

/* An event on its way to its owner. */
struct queued {
	struct ur_list all;  /* of the thread's queue */
	struct ur_list mine; /* of the connection's */
	struct ur_conn *conn;
	struct ur_conn_event ev;
	uint8_t private_data[UR_CONN_PRIVATE_MAX];
};

static pthread_mutex_t make_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ur_cmt *_Atomic the_thread; /* written under make_lock */
/* Connections made before a fork() still point at it. */
static struct ur_cmt *inherited __attribute__((used));

static bool is_own_thread(const struct ur_cmt *t)
{
	return pthread_equal(pthread_self(), t->thread);
}

static void wake(struct ur_cmt *t)
{
	if (t->sleep_until_ns == 0 || t->woken)
		return;
	t->woken = true;
	ur_event_signal(t->wake_fd);
}

int ur_conn_post(struct ur_conn *c, const struct ur_conn_event *ev)
{
	struct queued *m;
	size_t len = ev->param.private_len;

	if (c->ended || c->removed)
		return 0;
	m = malloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->conn = c;
	m->ev = *ev;
	if (!m->ev.conn)
		m->ev.conn = c;
	m->ev.param.private_data = NULL;
	if (len && ev->param.private_data) {
		memcpy(m->private_data, ev->param.private_data, len);
		m->ev.param.private_data = m->private_data;
	}
	ur_list_init(&m->all);
	ur_list_init(&m->mine);
	ur_list_add_tail(&c->cmt->events, &m->all);
	ur_list_add_tail(&c->events, &m->mine);
	wake(c->cmt);
	return 0;
}

static void take_out(struct queued *m)
{
	ur_list_del(&m->all);
	ur_list_del(&m->mine);
}

/* Nothing of the connection is touched after its handler: it may have ended
 * itself. */
static void tell(struct ur_cmt *t, struct queued *m)
{
	struct ur_conn *c = m->conn;
	ur_conn_handler handler = c->handler;
	void *user = c->user;

	take_out(m);
	t->running = c;
	ur_unlock(&t->lock);
	handler(user, &m->ev);
	ur_lock(&t->lock);
	t->running = NULL;
	if (t->waiting)
		pthread_cond_broadcast(&t->delivered);
	free(m);
}

void ur_cmt_forget(struct ur_cmt *t, struct ur_conn *c, struct ur_list *orphans)
{
	c->ended = true;
	ur_list_for_each_safe(n, tmp, &c->events) {
		struct queued *m = ur_container_of(n, struct queued, mine);

		take_out(m);
		if (m->ev.type == UR_CONN_REQUEST)
			ur_list_add_tail(orphans, &m->ev.conn->orphan);
		free(m);
	}
	while (t->running == c && !is_own_thread(t)) {
		t->waiting++;
		pthread_cond_wait(&t->delivered, &t->lock.m);
		t->waiting--;
	}
}

void ur_cmt_bury(struct ur_cmt *t, struct ur_cmt_grave *g,
		 void (*fn)(struct ur_cmt_grave *g))
{
	g->free = fn;
	ur_list_init(&g->node);
	ur_list_add_tail(&t->graves, &g->node);
}

static void clear_graves(struct ur_cmt *t)
{
	ur_list_for_each_safe(n, tmp, &t->graves) {
		struct ur_cmt_grave *g =
			ur_container_of(n, struct ur_cmt_grave, node);

		ur_list_del(n);
		g->free(g);
	}
}

int ur_cmt_watch(struct ur_cmt *t, struct ur_cmt_source *src, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = src };

	return epoll_ctl(t->epfd, EPOLL_CTL_ADD, src->fd, &ev) ? -errno : 0;
}

int ur_cmt_rewatch(struct ur_cmt *t, struct ur_cmt_source *src, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = src };

	return epoll_ctl(t->epfd, EPOLL_CTL_MOD, src->fd, &ev) ? -errno : 0;
}

void ur_cmt_unwatch(struct ur_cmt *t, struct ur_cmt_source *src)
{
	if (src->fd >= 0)
		epoll_ctl(t->epfd, EPOLL_CTL_DEL, src->fd, NULL);
	src->fd = -1;
}

int ur_cmt_timer_init(struct ur_cmt *t, struct ur_cmt_timer *timer,
		      void (*fire)(struct ur_cmt_timer *t, uint64_t now_ns))
{
	int err = ur_timers_reserve(&t->timers, t->ntimers + 1);

	if (err)
		return err;
	t->ntimers++;
	ur_timer_init(&timer->timer);
	timer->fire = fire;
	return 0;
}

void ur_cmt_timer_arm(struct ur_cmt *t, struct ur_cmt_timer *timer,
		      uint64_t at_ns)
{
	if (at_ns == UR_NEVER)
		ur_timer_cancel(&t->timers, &timer->timer);
	else
		ur_timer_arm(&t->timers, &timer->timer, at_ns);
	if (at_ns < t->sleep_until_ns)
		wake(t);
}

void ur_cmt_timer_fini(struct ur_cmt *t, struct ur_cmt_timer *timer)
{
	ur_timer_cancel(&t->timers, &timer->timer);
	t->ntimers--;
}

static void run_timers(struct ur_cmt *t)
{
	uint64_t now = ur_clock_ns();
	struct ur_timer *due;

	while ((due = ur_timers_expire(&t->timers, now)) != NULL) {
		struct ur_cmt_timer *timer =
			ur_container_of(due, struct ur_cmt_timer, timer);

		timer->fire(timer, now);
	}
}

/* Rounded up: a millisecond is nothing to these timers. */
static int timeout_ms(uint64_t until_ns)
{
	uint64_t now = ur_clock_ns(), ms;

	if (until_ns == UR_NEVER)
		return -1;
	if (until_ns <= now)
		return 0;
	ms = (until_ns - now + NS_PER_MS - 1) / NS_PER_MS;
	return ms > MS_MAX ? (int)MS_MAX : (int)ms;
}

static void clear_wake(struct ur_cmt *t)
{
	uint64_t n;

	if (!t->woken)
		return;
	(void)!read(t->wake_fd, &n, sizeof(n));
	t->woken = false;
}

/*
 * Every connection sets timers of seconds that it mostly does not need, and
 * waking the thread only to have it sleep again costs more than all else of
 * them.  So while there are connections coming and going it sleeps shortly.
 */
static uint64_t sleep_end(const struct ur_cmt *t)
{
	uint64_t at = ur_timers_deadline(&t->timers), now = ur_clock_ns();

	if (now - t->active_ns < NAP_NS && at > now + NAP_NS)
		return now + NAP_NS;
	return at ? at : 1;
}

static void sleep_and_watch(struct ur_cmt *t)
{
	struct epoll_event ev[EVENTS];
	uint64_t until = sleep_end(t);
	int n;

	t->sleep_until_ns = until;
	ur_unlock(&t->lock);
	n = epoll_wait(t->epfd, ev, EVENTS, timeout_ms(until));
	ur_lock(&t->lock);
	t->sleep_until_ns = 0;
	clear_wake(t);
	if (n > 0)
		t->active_ns = ur_clock_ns();
	for (int i = 0; i < n; i++) {
		struct ur_cmt_source *src = ev[i].data.ptr;

		if (src && src->fd >= 0)
			src->ready(src, ev[i].events);
	}
}

static void *thread_main(void *arg)
{
	struct ur_cmt *t = arg;

	ur_lock(&t->lock);
	for (;;) {
		clear_graves(t);
		while (!ur_list_empty(&t->events))
			tell(t, ur_container_of(t->events.next, struct queued,
						all));
		run_timers(t);
		if (ur_list_empty(&t->events))
			sleep_and_watch(t);
	}
	return NULL;
}

/* The child has no such thread, and must not touch what the parent watches. */
static void abandon(void)
{
	struct ur_cmt *t = atomic_load(&the_thread);

	if (!t)
		return;
	close(t->epfd);
	close(t->wake_fd);
	inherited = t;
	atomic_store(&the_thread, NULL);
	pthread_mutex_init(&make_lock, NULL);
}

static int start(struct ur_cmt *t)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int err;

	if (epoll_ctl(t->epfd, EPOLL_CTL_ADD, t->wake_fd, &ev))
		return -errno;
	/* It sees its own id: until that is written it waits for the lock. */
	ur_lock(&t->lock);
	err = ur_thread_start(&t->thread, "urnic-cm", thread_main, t);
	ur_unlock(&t->lock);
	return err;
}

static int make(struct ur_cmt **out)
{
	static bool registered;
	struct ur_cmt *t = calloc(1, sizeof(*t));
	int err = -ENOMEM;

	if (!t)
		return -ENOMEM;
	ur_lock_init(&t->lock);
	pthread_cond_init(&t->delivered, NULL);
	ur_timers_init(&t->timers);
	ur_list_init(&t->events);
	ur_list_init(&t->graves);
	ur_list_init(&t->conns);
	t->epfd = epoll_create1(EPOLL_CLOEXEC);
	t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->epfd < 0 || t->wake_fd < 0)
		err = -errno;
	else
		err = start(t);
	if (err)
		goto close_fds;
	if (!registered)
		registered = pthread_atfork(NULL, NULL, abandon) == 0;
	*out = t;
	return 0;
close_fds:
	if (t->epfd >= 0)
		close(t->epfd);
	if (t->wake_fd >= 0)
		close(t->wake_fd);
	ur_timers_fini(&t->timers);
	free(t);
	return err;
}

struct ur_cmt *ur_cmt_started(void)
{
	return atomic_load_explicit(&the_thread, memory_order_acquire);
}

int ur_cmt_get(struct ur_cmt **out)
{
	struct ur_cmt *t =
		atomic_load_explicit(&the_thread, memory_order_acquire);
	int err = 0;

	if (t) {
		*out = t;
		return 0;
	}
	pthread_mutex_lock(&make_lock);
	t = atomic_load(&the_thread);
	if (!t) {
		err = make(&t);
		if (!err)
			atomic_store_explicit(&the_thread, t,
					      memory_order_release);
	}
	pthread_mutex_unlock(&make_lock);
	if (!err)
		*out = t;
	return err;
}
