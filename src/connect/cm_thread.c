/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation.  A round: free the graves, deliver queued events (lock
 * released around each handler), run timers that are due, sleep, run the
 * descriptors that are ready.  A thread that queues something or arms an earlier
 * timer during the sleep signals the wakeup descriptor of the sleeping thread.
 *
 * One thread at a time runs this event loop (enum ur_cmt_watch): the CM thread, or a
 * thread of the application that waits for an event (ur_conn_wait()), so that a
 * message wakes one thread and not two.  Such a thread leaves with its event and
 * usually waits again within microseconds, so nothing is handed back at once: the
 * state is AWAY, and a timer wakes the CM thread, which takes over if the other has
 * not come back within TICK_NS.  If other threads still wait when it leaves, the CM
 * thread takes over at once, and keeps the loop until none waits.
 */
#include "connect/cm_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/sys.h"
#include "connect/conn_internal.h"
#include "engine/internal.h"

#define EVENTS	      64
#define NS_PER_S      1000000000u
#define NAP_NS	      1000000000u
/* How long a CM message may wait for a thread that is busy with its last event. */
#define TICK_NS	      1000000u
/* So often a caller lets signals in. */
#define SIGNAL_ROUNDS 64u

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

static _Thread_local bool runs_loop;

bool ur_cmt_is_here(void)
{
	return runs_loop;
}

static void wake(struct ur_cmt *t)
{
	if (t->sleep_until_ns == 0 || t->woken)
		return;
	t->woken = true;
	ur_event_signal(t->watch == UR_CMT_CALLER ? t->caller_fd : t->wake_fd);
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
	ur_list_each_safe(struct queued, m, &c->events, mine) {
		take_out(m);
		if (m->ev.type == UR_CONN_REQUEST)
			ur_list_add_tail(orphans, &m->ev.conn->orphan);
		free(m);
	}
	while (t->running == c && !runs_loop) {
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
	ur_list_each_safe(struct ur_cmt_grave, g, &t->graves, node) {
		ur_list_del(&g->node);
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

static void run_ready(struct ur_cmt *t)
{
	struct epoll_event ev[EVENTS];
	int n = ur_sys_epoll_wait(t->epfd, ev, EVENTS, 0);

	if (n > 0)
		t->active_ns = ur_clock_ns();
	for (int i = 0; i < n; i++) {
		struct ur_cmt_source *src = ev[i].data.ptr;

		if (src->fd >= 0)
			src->ready(src, ev[i].events);
	}
}

/* From here on another thread may run the loop. */
static void end_rounds(struct ur_cmt *t)
{
	t->busy = false;
	if (t->waiting)
		pthread_cond_broadcast(&t->delivered);
}

/* All that is due but ready descriptors. */
static void make_round(struct ur_cmt *t)
{
	t->busy = true;
	clear_graves(t);
	while (!ur_list_empty(&t->events))
		tell(t, ur_container_of(t->events.next, struct queued, all));
	run_timers(t);
}

/* An application's thread in ur_conn_wait(). */
struct caller {
	struct ur_cmt *t;
	sigset_t mask; /* its own */
	int cancel;    /* its cancelability */
	bool serves;   /* runs the event loop */
	uint32_t rounds;
};

static void tick_after(struct ur_cmt *t, uint64_t ns)
{
	struct itimerspec at = { .it_value.tv_nsec = (long)ns };

	if (!t->ticking)
		(void)timerfd_settime(t->tick_fd, 0, &at, NULL);
	t->ticking = true;
}

static void end_wait(struct caller *c)
{
	struct ur_cmt *t = c->t;

	t->callers--;
	if (c->serves) {
		runs_loop = false;
		end_rounds(t);
		t->sleep_until_ns = 0;
		t->left_ns = ur_clock_ns();
		t->watch = t->callers ? UR_CMT_OWN : UR_CMT_AWAY;
		if (t->callers)
			ur_event_signal(t->wake_fd);
		else
			tick_after(t, TICK_NS);
	}
	ur_unlock(&t->lock);
	pthread_setcancelstate(c->cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &c->mask, NULL);
}

static void cancelled(void *arg)
{
	struct caller *c = arg;

	ur_lock(&c->t->lock);
	end_wait(c);
}

/* ppoll(2) as the application's thread would call it: with its signals, and as a
 * cancellation point. */
static int poll_open(struct caller *c, struct pollfd *fds, nfds_t n,
		     const struct timespec *limit)
{
	int ready;

	pthread_cleanup_push(cancelled, c);
	pthread_setcancelstate(c->cancel, NULL);
	ready = ppoll(fds, n, limit, &c->mask);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
	return ready;
}

/* Sleeps on n descriptors with the lock released, until a time.  The result of
 * ppoll(2) or -errno.  c: NULL in the CM thread. */
static int sleep_on(struct ur_cmt *t, struct pollfd *fds, nfds_t n,
		    uint64_t until, struct caller *c)
{
	uint64_t now = ur_clock_ns(), ns = until > now ? until - now : 0;
	struct timespec ts = { .tv_sec = (time_t)(ns / NS_PER_S),
			       .tv_nsec = (long)(ns % NS_PER_S) };
	struct timespec *limit = until == UR_NEVER ? NULL : &ts;
	int ready;

	ur_unlock(&t->lock);
	ready = c ? poll_open(c, fds, n, limit) : ur_sys_ppoll(fds, n, limit);
	if (ready < 0)
		ready = -errno;
	ur_lock(&t->lock);
	return ready;
}

/* fds[0] is epfd, fds[1] the wakeup descriptor of this thread. */
static int sleep_and_watch(struct ur_cmt *t, struct pollfd *fds, nfds_t n,
			   struct caller *c)
{
	enum ur_cmt_watch mine = t->watch;
	int ready;

	end_rounds(t);
	t->woken = false;
	t->sleep_until_ns = sleep_end(t);
	ready = sleep_on(t, fds, n, t->sleep_until_ns, c);
	if (ready > 0 && fds[1].revents)
		ur_event_clear(fds[1].fd);
	if (t->watch != mine) /* a caller has taken over from the CM thread */
		return ready;
	t->sleep_until_ns = 0;
	t->busy = true;
	if (ready > 0 && fds[0].revents)
		run_ready(t);
	return ready;
}

/* The CM thread, while another runs the loop. */
static void park(struct ur_cmt *t)
{
	struct pollfd fds[] = { { .fd = t->wake_fd, .events = POLLIN },
				{ .fd = t->tick_fd, .events = POLLIN } };
	uint64_t away_ns;

	end_rounds(t);
	if (sleep_on(t, fds, 2, UR_NEVER, NULL) <= 0)
		return;
	if (fds[0].revents)
		ur_event_clear(t->wake_fd);
	if (!fds[1].revents)
		return;
	ur_event_clear(t->tick_fd);
	t->ticking = false;
	if (t->watch != UR_CMT_AWAY)
		return;
	away_ns = ur_clock_ns() - t->left_ns;
	if (away_ns >= TICK_NS)
		t->watch = UR_CMT_OWN;
	else
		tick_after(t, TICK_NS - away_ns);
}

static void *thread_main(void *arg)
{
	struct ur_cmt *t = arg;
	struct pollfd fds[] = { { .fd = t->epfd, .events = POLLIN },
				{ .fd = t->wake_fd, .events = POLLIN } };

	runs_loop = true;
	ur_lock(&t->lock);
	for (;;) {
		if (t->watch != UR_CMT_OWN) {
			park(t);
			continue;
		}
		make_round(t);
		if (t->watch == UR_CMT_OWN && ur_list_empty(&t->events))
			(void)sleep_and_watch(t, fds, 2, NULL);
	}
	return NULL;
}

static void take_over(struct ur_cmt *t)
{
	if (t->watch == UR_CMT_OWN && t->sleep_until_ns)
		ur_event_signal(t->wake_fd); /* to park */
	t->watch = UR_CMT_CALLER;
	while (t->busy) {
		t->waiting++;
		pthread_cond_wait(&t->delivered, &t->lock.m);
		t->waiting--;
	}
	t->sleep_until_ns = 0;
	runs_loop = true;
}

/* Only as the one thread that waits; see above. */
static void begin_wait(struct caller *c)
{
	ur_signals_block(&c->mask);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &c->cancel);
	ur_lock(&c->t->lock);
	c->serves = c->t->callers++ == 0;
	if (c->serves)
		take_over(c->t);
}

/* fds: those of sleep_and_watch(), and the caller's.  1: the last is ready; 0: not
 * yet; -errno. */
static int wait_once(struct caller *c, struct pollfd *fds)
{
	int n = 0;

	fds[2].revents = 0;
	if (!c->serves) {
		n = sleep_on(c->t, fds + 2, 1, UR_NEVER, c);
	} else {
		make_round(c->t);
		if (ur_list_empty(&c->t->events))
			n = sleep_and_watch(c->t, fds, 3, c);
		/* ppoll(2) lets no signal in while descriptors are ready. */
		if (n > 0 && ++c->rounds % SIGNAL_ROUNDS == 0)
			n = sleep_on(c->t, NULL, 0, 0, c);
	}
	if (n < 0)
		return n == -EINTR && ur_signals_restart() ? 0 : n;
	return fds[2].revents != 0;
}

int ur_conn_wait(int fd)
{
	struct ur_cmt *t = ur_cmt_started();
	struct caller c = { .t = t };
	int n = 0;

	if (!t || fcntl(fd, F_GETFL) & O_NONBLOCK)
		return 0;

	struct pollfd fds[] = { { .fd = t->epfd, .events = POLLIN },
				{ .fd = t->caller_fd, .events = POLLIN },
				{ .fd = fd, .events = POLLIN } };

	begin_wait(&c);
	while (n == 0)
		n = wait_once(&c, fds);
	end_wait(&c);
	return n;
}

static void close_all(const struct ur_cmt *t)
{
	const int fds[] = { t->epfd, t->wake_fd, t->caller_fd, t->tick_fd };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* The child has no such thread, and must not touch what the parent watches. */
static void abandon(void)
{
	struct ur_cmt *t = atomic_load(&the_thread);

	if (!t)
		return;
	close_all(t);
	inherited = t;
	atomic_store(&the_thread, NULL);
	pthread_mutex_init(&make_lock, NULL);
}

static int open_all(struct ur_cmt *t)
{
	t->epfd = epoll_create1(EPOLL_CLOEXEC);
	t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->caller_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->tick_fd =
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return t->epfd < 0 || t->wake_fd < 0 || t->caller_fd < 0 ||
			       t->tick_fd < 0
		       ? -errno
		       : 0;
}

static int make(struct ur_cmt **out)
{
	static bool registered;
	struct ur_cmt *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	ur_lock_init(&t->lock);
	pthread_cond_init(&t->delivered, NULL);
	ur_timers_init(&t->timers);
	ur_list_init(&t->events);
	ur_list_init(&t->graves);
	ur_list_init(&t->conns);
	err = open_all(t);
	if (!err)
		err = ur_thread_start(&t->thread, "urnic-cm", thread_main, t);
	if (err)
		goto close_fds;
	if (!registered)
		registered = pthread_atfork(NULL, NULL, abandon) == 0;
	*out = t;
	return 0;
close_fds:
	close_all(t);
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
