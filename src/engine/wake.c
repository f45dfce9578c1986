/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The helper thread of a lane.  It does the lane's work while no application
 * thread does, and is out of the way while one does:
 *
 *  ARMED  asleep on its eventfd and the link, until the next deadline.  A
 *         packet wakes it; it works until the link is dry, spins a moment if
 *         that has paid lately, and sleeps again.
 *  TICK   an application polls.  Asleep on the eventfd alone, since waiting on
 *         a socket slows down whoever polls it (a thread asleep there has to
 *         be woken for each packet); once a millisecond it looks whether the
 *         application still polls, and if not becomes ARMED.
 *
 * A poller sets TICK after a streak of polls, ur_adapter_arm() sets ARMED;
 * both then write the eventfd.  All of it happens under the lane's lock, so
 * what the helper decides before it sleeps is what others see.
 *
 * Deadlines: the helper notes until when it sleeps (sleep_until_ns), and who
 * unlocks the lane wakes it if a deadline has come up much earlier.  While
 * there is traffic the helper does not sleep longer than a tick, so that
 * posts need not wake it; a lane without traffic costs nothing at all.
 *
 * Whom it wakes by an event would run into the lane's lock: it lets go first.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/timer.h"
#include "engine/bell.h"
#include "engine/internal.h"
#include "reach/share.h"
#include "roce/near.h"

#define SPIN_MAX_NS	20000u
#define SPIN_MIN_NS	2000u
#define SPIN_PAUSES	8
#define READS_PER_HOLD	16u
#define MAKE_WAY_NS	50000u
#define ACTIVE_NS	10000000u /* traffic this recent: keep ticking */
#define PAUSE_GATHER_NS 10000000u
#define TIMER_SLACK_NS	2000u
#define STACK_BYTES	(256u << 10)
#define SLICE_NS	100000u /* the least that the kernel takes */

struct helper {
	struct ur_lane *lane;
	int link_fd;	  /* what ARMED waits for, besides … */
	int bells_fd;	  /* … and peers of this host; -1: none */
	bool rung;	  /* by one of those */
	uint64_t spin_ns; /* budget; 0: spinning has not paid */
};

static uint64_t earliest(const struct ur_lane *l)
{
	uint64_t at = ur_moderator_deadline(&l->adapter->moderator);
	uint64_t own = ur_lane_deadline(l);

	if (own < at)
		at = own;
	return at < l->retry_ns ? at : l->retry_ns;
}

bool ur_helper_is_late(const struct ur_lane *l, uint64_t slack_ns)
{
	uint64_t due;

	if (l->watch == UR_WATCH_TICK)
		return false;
	due = earliest(l);
	return due < l->sleep_until_ns && l->sleep_until_ns - due > slack_ns;
}

/* Written once until it is read: a burst of wishes costs one system call. */
void ur_helper_wake(struct ur_lane *l)
{
	uint64_t one = 1;

	if (atomic_exchange_explicit(&l->woken, true, memory_order_acq_rel))
		return;
	if (write(l->wake_fd, &one, sizeof(one)) < 0)
		ur_debug("lane %u: wake: errno %d", l->id, errno);
}

static void clear_wake(struct ur_lane *l)
{
	uint64_t n;

	(void)!read(l->wake_fd, &n, sizeof(n));
	/* Whoever wants us from now on writes again; what he wanted before
	 * is seen under the lock, which is taken next. */
	atomic_store_explicit(&l->woken, false, memory_order_release);
}

static bool is_polled(const struct ur_lane *l, uint64_t now)
{
	return now - l->app_ns < UR_POLL_FRESH_NS;
}

/*
 * Let those pass who sleep on the lock: it is not fair by itself.  Only for as
 * long as waking them takes, and without yielding: on a busy machine either
 * would let the lane stand still for milliseconds.
 */
static void make_way(const struct ur_lane *l)
{
	uint64_t end = ur_clock_ns() + MAKE_WAY_NS;

	while (atomic_load_explicit(&l->waiting, memory_order_relaxed) &&
	       ur_clock_ns() < end)
		ur_cpu_relax();
}

/*
 * The poller has gone without a word (one that arms tells us).  Until now
 * nobody watched the link, up to a tick long; so a program that polls in
 * short bursts and then spins on its memory must not be taken for a poller
 * again and again.
 */
static void poller_left(struct ur_lane *l, uint64_t now)
{
	l->watch = UR_WATCH_ARMED;
	if (now - l->tick_since_ns > ACTIVE_NS)
		l->streak_need_ns = UR_POLL_STREAK_NS;
	else if (l->streak_need_ns < UR_POLL_STREAK_MAX_NS)
		l->streak_need_ns *= 2;
}

/* Polls since the last tick that looked at no clock. */
static uint32_t glances(struct ur_lane *l)
{
	uint32_t n = l->near_polls - l->near_polls_seen;

	l->near_polls_seen = l->near_polls;
	return n;
}

/* He posts, and finds completions that are there: nobody looks at the link. */
static void look_for_poster(struct ur_lane *l, uint64_t now)
{
	if (l->polls == l->polls_seen)
		(void)ur_lane_step(l, now);
	l->polls_seen = l->polls;
}

/*
 * While the application polls it does everything itself.  When it has ceased
 * to, the caller goes on as ARMED, which sends what was left waiting; leaving
 * something was a bet that did not pay, so it is not made again soon.
 */
static void tick(struct ur_lane *l, uint64_t now)
{
	if (is_polled(l, now)) {
		look_for_poster(l, now);
		return;
	}
	if (glances(l) >= UR_TICK_NS / UR_POLL_FRESH_NS) {
		l->app_ns = now;
		l->near_hot = 0; /* the next one looks at the link as well */
		return;
	}
	if (l->gathered)
		l->no_gather_until_ns = now + PAUSE_GATHER_NS;
	poller_left(l, now);
}

static uint64_t next_wake(const struct ur_lane *l, uint64_t now)
{
	uint64_t at = earliest(l);

	if (l->watch == UR_WATCH_TICK)
		return now + UR_TICK_NS;
	if (now - l->activity_ns < ACTIVE_NS && at > now + UR_TICK_NS)
		at = now + UR_TICK_NS;
	return at;
}

/*
 * An application that polls does the work itself, also where it has to share
 * the core with the helper: who only found the lane taken counts as well.
 */
static bool poller_came(struct ur_lane *l)
{
	uint64_t at = atomic_exchange_explicit(&l->missed_ns, 0,
					       memory_order_relaxed);

	if (at == 0)
		return false;
	(void)ur_lane_note_poll(l, at);
	return true;
}

/* Work until the link is dry, giving up the lane now and then.  Returns the
 * number of packets; the lane is held before and after. */
static uint32_t run_dry(struct ur_lane *l)
{
	uint32_t got = 0;
	bool way = false;

	for (;;) {
		for (uint32_t i = 0; i < READS_PER_HOLD; i++) {
			int n = ur_lane_step(l, ur_clock_ns());

			got += (uint32_t)n;
			way = poller_came(l);
			if (n == 0 || l->watch == UR_WATCH_TICK)
				return got;
			if (way || atomic_load_explicit(&l->waiting,
							memory_order_relaxed))
				break;
		}
		ur_lane_unlock(l);
		ur_evq_wake();
		if (way)
			sched_yield();
		else
			make_way(l);
		ur_lane_lock(l);
	}
}

/* Look again for a moment before sleeping; true if that found something. */
static bool spin(struct helper *h)
{
	struct ur_lane *l = h->lane;
	uint64_t now = ur_clock_ns(), end = now + h->spin_ns;

	/*
	 * Once to whoever was woken by what we did; from then on no yielding:
	 * on a busy machine that gives the core away for milliseconds.
	 */
	sched_yield();
	while (now < end) {
		bool polled;
		uint32_t got;

		for (int i = 0; i < SPIN_PAUSES; i++)
			ur_cpu_relax();
		ur_lane_lock(l);
		now = ur_clock_ns();
		polled = is_polled(l, now) || l->watch == UR_WATCH_TICK;
		got = polled ? 0 : run_dry(l);
		ur_lane_unlock(l);
		ur_evq_wake();
		if (got)
			return true;
		if (polled)
			return false;
	}
	h->spin_ns = h->spin_ns > SPIN_MIN_NS ? h->spin_ns / 2 : 0;
	return false;
}

/* Do what there is to do, then decide how to sleep: returns until when. */
static uint64_t turn(struct helper *h, enum ur_watch *watch, uint32_t *got)
{
	struct ur_lane *l = h->lane;
	uint64_t now, until;
	bool busy;

	ur_lane_lock(l);
	now = ur_clock_ns();
	busy = now - l->app_ns < UR_POLL_GAP_NS;
	l->sleep_until_ns = 0;
	if (h->rung)
		ur_bell_hush(l);
	if (l->roce)
		(void)ur_near_sleep(l->roce, false);
	*got = 0;
	if (l->watch == UR_WATCH_TICK)
		tick(l, now);
	if (l->watch == UR_WATCH_ARMED)
		*got = run_dry(l);
	ur_moderator_expire(&l->adapter->moderator, ur_clock_ns());
	now = ur_clock_ns();
	if (busy)
		l->excuse_ns = now;
	until = next_wake(l, now);
	l->sleep_until_ns = until;
	h->link_fd = l->ops->wait_fd(l);
	h->bells_fd = l->bells_fd;
	*watch = l->watch;
	ur_lane_unlock(l);
	ur_evq_wake();
	return until;
}

/*
 * Peers of this host ring from now on, and what they have sent before is seen
 * by this last look.  False: there is something.
 */
static bool may_sleep(struct ur_lane *l, enum ur_watch watch)
{
	bool ok = true;

	if (watch != UR_WATCH_ARMED || !l->roce)
		return true;
	ur_lane_lock(l);
	if (l->watch == UR_WATCH_ARMED && ur_near_any(l->roce)) {
		ur_near_settle(l->roce);
		ok = ur_near_sleep(l->roce, true);
	}
	ur_lane_unlock(l);
	ur_evq_wake();
	return ok;
}

static void sleep_until(struct helper *h, enum ur_watch watch, uint64_t until)
{
	struct ur_lane *l = h->lane;
	struct pollfd fds[3] = {
		{ .fd = l->wake_fd, .events = POLLIN },
		{ .fd = h->link_fd, .events = POLLIN },
		{ .fd = h->bells_fd, .events = POLLIN },
	};
	nfds_t n = watch == UR_WATCH_ARMED ? 3 : 1;
	uint64_t now = ur_clock_ns(), ns = until > now ? until - now : 0;
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000u),
			       .tv_nsec = (long)(ns % 1000000000u) };

	h->rung = false;
	if (ppoll(fds, n, until == UR_NEVER ? NULL : &ts, NULL) <= 0)
		return;
	if (fds[0].revents)
		clear_wake(l);
	h->rung = fds[2].revents;
}

/* Since Linux 6.12: how long an ordinary thread wants to run at a time. */
struct sched_wish {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns;
	uint64_t deadline_ns;
	uint64_t period_ns;
};

/*
 * Short turns, but soon: whoever asks for a shorter slice than the thread that
 * has the core takes it when it wakes, instead of waiting until the other's
 * (3 ms) is over.  A program that spins on its memory until we have written
 * there would otherwise wait for its own slice to end.  Older kernels ignore
 * it; the thread keeps its policy and weight.
 */
static void prefer_short_turns(void)
{
	struct sched_wish wish = { .size = sizeof(wish) };

	if (syscall(SYS_sched_getattr, 0, &wish, sizeof(wish), 0) ||
	    wish.policy != SCHED_OTHER)
		return;
	wish.runtime_ns = SLICE_NS;
	if (syscall(SYS_sched_setattr, 0, &wish, 0))
		ur_debug("no short slices: errno %d", errno);
}

static void *helper_main(void *arg)
{
	struct helper h = { .lane = arg };
	uint64_t slept_ns = UR_NEVER;

	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	prefer_short_turns();
	ur_evq_wake_later();
	for (;;) {
		enum ur_watch watch;
		uint32_t got;
		uint64_t until = turn(&h, &watch, &got), since;

		/* Sleeping for less than a spin was a spin missed. */
		if (got && slept_ns < SPIN_MAX_NS)
			h.spin_ns = SPIN_MAX_NS;
		if (got && h.spin_ns && watch == UR_WATCH_ARMED && spin(&h)) {
			slept_ns = 0;
			continue;
		}
		if (!may_sleep(h.lane, watch))
			continue;
		since = ur_clock_ns();
		sleep_until(&h, watch, until);
		slept_ns = ur_clock_ns() - since;
	}
	return NULL;
}

/*
 * Signals are the application's; only faults, which are synchronous and which
 * base/guard.h answers, may come to our threads.
 */
static void block_signals(sigset_t *old)
{
	static const int open[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP };
	sigset_t set;

	sigfillset(&set);
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
		sigdelset(&set, open[i]);
	pthread_sigmask(SIG_SETMASK, &set, old);
}

struct start {
	void *(*fn)(void *);
	void *arg;
};

/* Memory is shared in place only while no thread but ours runs beside. */
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

int ur_thread_start(pthread_t *t, const char *name, void *(*fn)(void *),
		    void *arg)
{
	struct start *s = malloc(sizeof(*s));
	pthread_attr_t attr;
	sigset_t old;
	int err;

	if (!s)
		return -ENOMEM;
	*s = (struct start){ fn, arg };
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	block_signals(&old);
	err = pthread_create(t, &attr, thread_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		free(s);
	else
		pthread_setname_np(*t, name);
	return -err;
}

int ur_helper_start(struct ur_lane *l)
{
	return ur_thread_start(&l->thread, "urnic-lane", helper_main, l);
}
