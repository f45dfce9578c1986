/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The helper thread of a lane.  It does the lane's work while no application
 * thread does:
 *
 *  ARMED  asleep on its eventfd and the link, until the next deadline.  A
 *         packet wakes it; it works until the link is empty, spins for some
 *         microseconds if that has paid lately (spin.h), and sleeps.
 *  WAITER a thread of the application waits for an event and does the work
 *         (wait.c), or has done so lately.  Asleep on the eventfd alone; every
 *         1 to 4 ms it looks whether a thread has waited since, and if not
 *         becomes ARMED.  While one waits without traffic it sleeps without a
 *         timer.  For programs that poll a channel (chanpoll.c) it runs the
 *         timers as well.
 *  TICK   an application polls.  Asleep on the eventfd alone, since a thread
 *         asleep on a socket has to be woken for each packet, which slows down
 *         the poller; once a millisecond it looks whether the application still
 *         polls, mostly without the lane's lock, and if not becomes ARMED.
 *
 * A poller sets TICK after 200 us of polls without a gap of 20 us.
 * ur_adapter_arm() sets ARMED, or WAITER where threads have waited before.  All
 * of it happens under the lane's lock, so others see the state that the helper
 * goes to sleep with.
 *
 * The ticks of ARMED and WAITER are longer where threads wait for a processor
 * (ur_crowd()), but not those for programs that poll a channel.
 *
 * Deadlines: the thread that watches the link publishes until when it sleeps
 * (sleep_until_ns), and the thread that unlocks the lane wakes it if a deadline
 * is earlier by more than a tick.  While there is traffic the helper does not
 * sleep longer than a tick, so that posts need not wake it; a lane without
 * traffic causes no wakeups.
 *
 * Events are signalled after unlocking (ur_evq_flush_wakes()), or the woken
 * thread would block on the lane's lock.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/signals.h"
#include "base/sys.h"
#include "base/thread_sched.h"
#include "base/timer.h"
#include "engine/internal.h"
#include "engine/publish.h"
#include "engine/spin.h"
#include "engine/wakefd.h"
#include "shm/share.h"

#define SPIN_PAUSES	8
#define READS_PER_HOLD	16u
#define MAKE_WAY_NS	50000u
#define NO_BATCH_NS	10000000u
#define STACK_BYTES	(256u << 10)
#define TICKS_PER_LOCK	8u
/* With so many waits within a tick, the next is expected soon. */
#define WAITS_GOOD	8u
#define WAITS_ENDED_MAX 6u

struct helper {
	struct ur_lane *lane;
	int link_fd;	     /* what ARMED sleeps on, besides … */
	int peer_wakefd;     /* … ur_wakefd_polled() */
	bool peers_signaled; /* it was readable */
	bool woken;	     /* wake_fd was: ur_helper_wake() */
	struct ur_spin spin;
	uint32_t streak; /* of the lane's latch, as last seen */
	uint32_t polls;	 /* the lane's, as last seen */
	uint32_t ticks;
	bool chan;	  /* programs poll a channel (l->chan.q) */
	uint64_t tick_ns; /* the time between looks in WAITER */
};

/* When the batch must leave, if no answer brings a thread here before. */
static uint64_t batch_due(const struct ur_lane *l)
{
	return l->batched
		       ? l->app_ns + (uint64_t)UR_BATCH_LATE_NS * l->timescale
		       : UR_NEVER;
}

uint64_t ur_lane_earliest(const struct ur_lane *l)
{
	uint64_t at = ur_moderator_deadline(&l->adapter->moderator);
	uint64_t own = l->ops->deadline(l);

	if (own < at)
		at = own;
	own = batch_due(l);
	if (own < at)
		at = own;
	return at < l->retry_ns ? at : l->retry_ns;
}

bool ur_helper_is_late(const struct ur_lane *l, uint64_t slack_ns)
{
	uint64_t due;

	if (l->watch == UR_WATCH_TICK)
		return false;
	due = ur_lane_earliest(l);
	return due < l->sleep_until_ns && l->sleep_until_ns - due > slack_ns;
}

bool ur_helper_leaves_posts(const struct ur_lane *l)
{
	switch (l->watch) {
	case UR_WATCH_ARMED:
		return batch_due(l) < l->sleep_until_ns;
	case UR_WATCH_WAITER:
		return l->batched && !l->waiters;
	case UR_WATCH_TICK:
		break;
	}
	return false;
}

/* One write until it is read: a burst of wakeups costs one system call. */
void ur_helper_wake(struct ur_lane *l)
{
	uint64_t one = 1;

	if (atomic_exchange_explicit(&l->woken, true, memory_order_acq_rel))
		return;
	if (ur_sys_write(l->wake_fd, &one, sizeof(one)) < 0)
		ur_debug("lane %u: wake: errno %d", l->id, errno);
}

void ur_lane_wake(struct ur_lane *l)
{
	uint64_t one = 1;

	if (!atomic_load_explicit(&l->waiter_sleeps, memory_order_relaxed))
		ur_helper_wake(l);
	else if (ur_sys_write(l->wait_fd, &one, sizeof(one)) < 0)
		ur_debug("lane %u: wake: errno %d", l->id, errno);
}

void ur_lane_hand_over(struct ur_lane *l)
{
	if (atomic_load_explicit(&l->waiter_sleeps, memory_order_relaxed))
		ur_lane_wake(l);
	ur_helper_wake(l);
}

static void clear_wake(struct ur_lane *l)
{
	uint64_t n;

	(void)!ur_sys_read(l->wake_fd, &n, sizeof(n));
	/* A later request writes again; an earlier one is seen under the lock,
	 * which is taken next. */
	atomic_store_explicit(&l->woken, false, memory_order_release);
}

static bool is_polled(const struct ur_lane *l, uint64_t now)
{
	uint64_t fresh = (uint64_t)UR_POLL_FRESH_NS * l->poll_timescale;

	return now - l->app_ns < fresh || now < l->doze_until_ns + fresh;
}

/*
 * Only for as long as waking them takes, and without yielding: on a busy
 * machine either would stop the lane for milliseconds.
 */
void ur_lane_make_way(const struct ur_lane *l)
{
	uint64_t end = ur_clock_ns() + MAKE_WAY_NS;

	while (atomic_load_explicit(&l->waiting, memory_order_relaxed) &&
	       ur_clock_ns() < end)
		ur_cpu_relax();
}

/*
 * The poller has ceased to poll without arming a queue.  For up to a tick no
 * thread watched the link; so the next streak must be longer, or a program that
 * polls in short bursts and then spins on its memory would be taken for a
 * poller again and again.
 */
static void poller_left(struct ur_lane *l, uint64_t now)
{
	(void)ur_lane_hand(l, UR_HANDOVER_GONE);
	if (now - l->tick_since_ns > UR_ACTIVE_NS)
		l->streak_need_ns = UR_POLL_STREAK_NS;
	else if (l->streak_need_ns < UR_POLL_STREAK_MAX_NS)
		l->streak_need_ns *= 2;
}

/* Quick polls of shared memory, which read no clock, since the last tick. */
static uint32_t new_shm_polls(struct ur_lane *l)
{
	uint32_t n = l->shm_polls - l->shm_polls_seen;

	l->shm_polls_seen = l->shm_polls;
	return n;
}

/* The application posts but no poll reaches the lane: read the link for it. */
static void step_for_poster(struct ur_lane *l, uint64_t now)
{
	uint32_t polls = atomic_load_explicit(&l->polls, memory_order_relaxed);

	if (polls == l->polls_seen)
		(void)ur_lane_step(l, now);
	l->polls_seen = polls;
}

/*
 * While the application polls, it does everything itself.  When it has ceased
 * to, the caller goes on as ARMED, which sends the batch; batching was late
 * then, so it pauses.
 */
static void tick(struct ur_lane *l, uint64_t now)
{
	if (is_polled(l, now)) {
		step_for_poster(l, now);
		return;
	}
	if (new_shm_polls(l) >= UR_TICK_NS / UR_POLL_FRESH_NS / l->timescale) {
		l->app_ns = now;
		l->shm_hot = 0; /* the next one looks at the link as well */
		return;
	}
	if (l->batched)
		l->no_batch_until_ns = now + NO_BATCH_NS;
	poller_left(l, now);
}

/* Has a thread waited or polled since the last look?  The helper alone calls
 * it, with the lane's lock or without. */
static bool was_waited_on(struct ur_lane *l)
{
	uint32_t waits =
		atomic_load_explicit(&l->wait_count, memory_order_relaxed);
	uint32_t polls = atomic_load_explicit(&l->polls, memory_order_relaxed);
	bool waited = waits != l->waits_seen || polls != l->polls_seen;

	if (waits - l->waits_seen > WAITS_GOOD)
		atomic_store_explicit(&l->waits_ended, 0, memory_order_relaxed);
	l->waits_seen = waits;
	l->polls_seen = polls;
	return waited;
}

/*
 * The threads that did the work have gone.  Packets that came meanwhile waited for
 * the helper, so from the second time in a row on it serves such threads for longer
 * and longer.
 */
static void note_ended(struct ur_lane *l, uint64_t now)
{
	uint32_t ended =
		atomic_load_explicit(&l->waits_ended, memory_order_relaxed);

	if (ended < WAITS_ENDED_MAX)
		ended++;
	atomic_store_explicit(&l->waits_ended, ended, memory_order_relaxed);
	if (ended > 1)
		l->no_waiter_until_ns = now + (UR_TICK_NS << ended);
}

/*
 * Threads wait for events and do the work.  When none has waited or polled
 * between two looks, the helper watches the link.
 */
static void tick_waiter(struct ur_lane *l, uint64_t now)
{
	bool waited = was_waited_on(l);

	l->helper_rests =
		l->waiters && !waited && now - l->activity_ns > UR_ACTIVE_NS;
	if (l->waiters || waited)
		return;
	(void)ur_lane_hand(l, UR_HANDOVER_GONE);
	l->waits = false;
	note_ended(l, now);
}

/*
 * Programs poll a channel and do the work when they wake; this thread does what is
 * due, or what they have left.  If no program comes for 4 ms, there is no traffic, or
 * the programs do something else.
 */
static void look_for_pollers(struct ur_lane *l, uint64_t now)
{
	struct ur_chanpoll *c = &l->chan;
	bool look = now >= c->look_ns;

	if (was_waited_on(l))
		c->came_ns = now;
	if (now - c->came_ns >= UR_WAITER_TICK_NS) {
		(void)ur_lane_hand(l, UR_HANDOVER_GONE);
		return;
	}
	if (!look && ur_lane_earliest(l) > now)
		return;
	if (ur_lane_step(l, now) == 0 && l->activity_ns == now)
		/* Acknowledgements that no answer has taken along. */
		c->tick_ns = UR_CHANPOLL_TICK_NS;
	else if (look && c->tick_ns < UR_WAITER_TICK_NS)
		c->tick_ns *= 2;
	if (look)
		c->look_ns = now + c->tick_ns;
}

static uint64_t next_wake(const struct helper *h, uint64_t now)
{
	const struct ur_lane *l = h->lane;
	uint64_t at = ur_lane_earliest(l);
	uint64_t late = (uint64_t)UR_BATCH_LATE_NS * l->timescale;

	if (l->chan.q)
		return at < l->chan.look_ns ? at : l->chan.look_ns;
	if (l->watch == UR_WATCH_WAITER) {
		at = l->waiters ? UR_NEVER : batch_due(l);
		if (!l->helper_rests && at > now + h->tick_ns)
			at = now + h->tick_ns;
		return at;
	}

	if (l->watch == UR_WATCH_TICK)
		return now + UR_TICK_NS;
	/* More posts will be batched, and need not wake the helper then. */
	if (l->last_batch && now - l->app_ns < late && at > now + late)
		at = now + late;
	if (now - l->activity_ns < UR_ACTIVE_NS && at > now + ur_tick_ns())
		at = now + ur_tick_ns();
	return at;
}

/*
 * Counts a poll that found the lane taken: an application that polls does the
 * work itself, even on the helper's core.  True: there was one.
 */
static bool report_missed_poll(struct ur_lane *l)
{
	uint64_t at = atomic_exchange_explicit(&l->missed_ns, 0,
					       memory_order_relaxed);

	if (at == 0)
		return false;
	(void)ur_lane_note_poll(l, at);
	return true;
}

/* Work until the link is empty, unlocking the lane now and then.  Returns the
 * number of packets; the lane is locked before and after. */
static uint32_t run_dry(struct ur_lane *l)
{
	uint32_t got = 0;
	bool yield = false;

	for (;;) {
		for (uint32_t i = 0; i < READS_PER_HOLD; i++) {
			int n = ur_lane_step(l, ur_clock_ns());

			got += (uint32_t)n;
			yield = report_missed_poll(l);
			if (n == 0 || l->watch == UR_WATCH_TICK)
				return got;
			if (yield || atomic_load_explicit(&l->waiting,
							  memory_order_relaxed))
				break;
		}
		ur_lane_unlock(l);
		ur_evq_flush_wakes();
		if (yield)
			sched_yield();
		else
			ur_lane_make_way(l);
		ur_lane_lock(l);
	}
}

/* Poll for a short time before sleeping; true if that found something. */
static bool spin(struct helper *h)
{
	struct ur_lane *l = h->lane;
	uint64_t ns = ur_spin_begin(&h->spin, l->timescale), now, end;

	if (!ns)
		return false;
	now = ur_clock_ns();
	end = now + ns;
	while (now < end) {
		bool polled;
		uint32_t got;

		for (int i = 0; i < SPIN_PAUSES; i++)
			ur_cpu_relax();
		ur_lane_lock(l);
		now = ur_clock_ns();
		polled = is_polled(l, now) || l->watch != UR_WATCH_ARMED;
		got = polled ? 0 : run_dry(l);
		ur_lane_unlock(l);
		ur_evq_flush_wakes();
		if (got) {
			ur_spin_end(&h->spin, true);
			return true;
		}
		if (polled)
			return false;
	}
	ur_spin_end(&h->spin, false);
	return false;
}

/* Does the work that is due as the lane's state says, which may change it.
 * Returns the number of packets. */
static uint32_t run(struct helper *h, uint64_t now)
{
	struct ur_lane *l = h->lane;
	bool chan = l->chan.q;
	uint32_t got = 0;

	if (l->watch == UR_WATCH_TICK)
		tick(l, now);
	else if (chan)
		look_for_pollers(l, now);
	else if (l->watch == UR_WATCH_WAITER)
		tick_waiter(l, now);
	if (l->watch != UR_WATCH_WAITER)
		(void)ur_lane_rest(l, false);
	if (l->watch == UR_WATCH_ARMED) {
		got = run_dry(l);
		if (chan && got)
			note_ended(l, now);
	} else if (l->watch == UR_WATCH_WAITER && !l->waiters && h->woken) {
		(void)ur_lane_step(l, ur_clock_ns()); /* send what waits */
	}
	return got;
}

/* Does the work that is due, then decides how to sleep; returns until when. */
static uint64_t run_once(struct helper *h, enum ur_watch *watch, uint32_t *got)
{
	struct ur_lane *l = h->lane;
	uint64_t now, until;
	bool busy;

	(void)ur_sched_load(ur_clock_ns()); /* for ur_crowd() */
	ur_lane_lock(l);
	now = ur_clock_ns();
	busy = now - l->app_ns < (uint64_t)UR_POLL_GAP_NS * l->poll_timescale;
	if (l->watch != UR_WATCH_WAITER) {
		l->sleep_until_ns = 0;
		l->helper_rests = false;
		h->tick_ns = ur_tick_ns();
	}
	/* Programs that poll a channel read them (chanpoll.c). */
	if (h->peers_signaled && !l->chan.q)
		ur_wakefd_drain(l);
	*got = run(h, now);
	ur_moderator_expire(&l->adapter->moderator, ur_clock_ns());
	now = ur_clock_ns();
	if (busy)
		l->helper_ran_ns = now;
	until = next_wake(h, now);
	h->chan = l->chan.q;
	if (l->watch != UR_WATCH_WAITER || h->chan)
		l->sleep_until_ns = until;
	/* Only a thread that will sleep on it asks for it: the link then
	 * signals it. */
	if (l->watch == UR_WATCH_ARMED)
		h->link_fd = l->ops->wait_fd(l);
	h->peer_wakefd = ur_wakefd_polled(l);
	*watch = l->watch;
	ur_lane_unlock(l);
	ur_evq_flush_wakes();
	return until;
}

/*
 * Peers of this host signal from now on; what they have sent before is seen by
 * this last poll.  False: there is something.
 */
static bool may_sleep(struct ur_lane *l, enum ur_watch watch)
{
	bool ok = true;

	if (watch != UR_WATCH_ARMED || !l->ops->rest)
		return true;
	ur_lane_lock(l);
	if (l->watch == UR_WATCH_ARMED)
		ok = ur_lane_rest(l, true);
	ur_lane_unlock(l);
	ur_evq_flush_wakes();
	return ok;
}

/* True: a descriptor became readable. */
static bool sleep_until(struct helper *h, enum ur_watch watch, uint64_t until)
{
	struct ur_lane *l = h->lane;
	struct pollfd fds[3] = {
		{ .fd = l->wake_fd, .events = POLLIN },
		{ .fd = h->link_fd, .events = POLLIN },
		{ .fd = h->peer_wakefd, .events = POLLIN },
	};
	nfds_t n = watch == UR_WATCH_ARMED ? 3 : 1;
	uint64_t now = ur_clock_ns(), ns = until > now ? until - now : 0;
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000u),
			       .tv_nsec = (long)(ns % 1000000000u) };

	if (atomic_load_explicit(&ur_publish_rests, memory_order_relaxed))
		ur_publish_resume();
	h->peers_signaled = false;
	h->woken = false;
	if (ppoll(fds, n, until == UR_NEVER ? NULL : &ts, NULL) <= 0)
		return false;
	h->woken = fds[0].revents;
	if (h->woken)
		clear_wake(l);
	h->peers_signaled = fds[2].revents;
	return true;
}

static bool was_polled(struct helper *h)
{
	uint32_t was = h->polls;

	h->polls = atomic_load_explicit(&h->lane->polls, memory_order_relaxed);
	return h->polls != was;
}

/*
 * Locking the lane ends its poller's bias (base/latch.h), so most ticks do
 * without, as long as the poller polls and does not only post.
 */
static void tick_unlocked(struct helper *h)
{
	struct ur_lane *l = h->lane;

	while (was_polled(h) && ur_latch_is_running(&l->lock, &h->streak) &&
	       ++h->ticks % TICKS_PER_LOCK != 0 &&
	       ur_moderator_deadline(&l->adapter->moderator) == UR_NEVER &&
	       !sleep_until(h, UR_WATCH_TICK, ur_clock_ns() + UR_TICK_NS))
		;
}

/*
 * Likewise while threads go on waiting on the lane, with longer and longer
 * sleeps: with many processes, ticks of the helpers alone kept the cores busy.
 * Until the helper watches the link they do not become shorter again: a thread that
 * was asleep for a whole tick has not gone away.
 */
static void tick_waiter_unlocked(struct helper *h)
{
	struct ur_lane *l = h->lane;

	while (was_waited_on(l) &&
	       ur_moderator_deadline(&l->adapter->moderator) == UR_NEVER &&
	       !sleep_until(h, UR_WATCH_WAITER, ur_clock_ns() + h->tick_ns)) {
		uint64_t longest;

		(void)ur_sched_load(ur_clock_ns()); /* for ur_crowd() */
		longest = ur_waiter_tick_ns();
		h->tick_ns *= 2;
		if (h->tick_ns > longest)
			h->tick_ns = longest;
	}
}

static void *helper_main(void *arg)
{
	struct helper h = { .lane = arg, .tick_ns = UR_TICK_NS };
	uint64_t slept_ns = UR_NEVER;
	bool spun = false;

	ur_sched_short_slices();
	ur_evq_defer_wakes();
	for (;;) {
		enum ur_watch watch;
		uint32_t got;
		uint64_t until = run_once(&h, &watch, &got), since;

		if (got)
			ur_spin_slept(&h.spin, slept_ns);
		spun = (got || spun) && watch == UR_WATCH_ARMED && spin(&h);
		if (spun) {
			slept_ns = 0;
			continue;
		}
		if (!may_sleep(h.lane, watch))
			continue;
		since = ur_clock_ns();
		if (!sleep_until(&h, watch, until) && watch == UR_WATCH_TICK)
			tick_unlocked(&h);
		else if (watch == UR_WATCH_WAITER && !h.chan && !h.woken)
			tick_waiter_unlocked(&h);
		slept_ns = ur_clock_ns() - since;
	}
	return NULL;
}

struct start {
	void *(*fn)(void *);
	void *arg;
};

/* Memory is made shareable in place only while no thread but ours runs. */
static void *thread_main(void *arg)
{
	struct start s = *(struct start *)arg;
	void *ret;

	free(arg);
	ur_share_thread_begin();
	ret = s.fn(s.arg);
	ur_share_thread_end();
	return ret;
}

static int create_detached(pthread_t *t, struct start *s)
{
	pthread_attr_t attr;
	sigset_t old;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ur_signals_block(&old);
	err = pthread_create(t, &attr, thread_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

int ur_thread_start(pthread_t *t, const char *name, void *(*fn)(void *),
		    void *arg)
{
	struct start *s = malloc(sizeof(*s));
	int err = ENOMEM;

	if (s) {
		*s = (struct start){ fn, arg };
		err = create_detached(t, s);
	}
	if (!err) {
		pthread_setname_np(*t, name);
		return 0;
	}
	free(s);
	ur_log_some(
		UR_LOG_ERROR, "thread %s cannot start: %s%s", name,
		strerror(err),
		err == EAGAIN
			? "; the limit of processes (ulimit -u, or the container's) counts threads, too"
			: "");
	return -err;
}

int ur_helper_start(struct ur_lane *l)
{
	pthread_t thread;

	return ur_thread_start(&thread, "urnic-lane", helper_main, l);
}
