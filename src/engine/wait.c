/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that waits for an event of a completion channel does the work of
 * the lanes that feed the channel: one wakeup for a message, as a blocking
 * recv(2) has.  It sleeps on the lanes' links, on their wakeup descriptors, on
 * the channel's descriptor (events that other threads raise) and until the
 * lanes' next deadline.  Blocking calls of rsockets do the same with their own
 * descriptors (ur_wait_poll()).
 *
 * Theory of operation.  ur_lane.watch says which thread watches the link
 * (docs/decisions/0021 has the transitions).  count_wait() sets UR_WATCH_WAITER;
 * the helper then stops watching.  The state stays after the wait, since the
 * next one usually begins within microseconds; meanwhile no thread watches the
 * link.  The helper looks every 1 to 4 ms (longer in a crowd, ur_crowd()), and if
 * no thread has waited since its last look, it watches the link again.
 *
 * If several threads wait on a lane, the helper serves it: a serving thread
 * that gets its own event would leave, and no thread would watch the link for
 * the others.
 *
 * Events that this thread raises while it works are not written to the
 * channel's descriptor (ur_evq_defer_wakes()): it takes the first one itself,
 * and only the others are signalled.  rsockets take all of them
 * (ur_evq_hand_out()).
 */
#include "engine/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/sys.h"
#include "base/timer.h"
#include "engine/internal.h"
#include "engine/wakefd.h"

/* After so many steps the lane is unlocked once, for threads that want it. */
#define STEPS_PER_HOLD 16u
/* Then the thread looks at its descriptors, signals and time limit. */
#define WORK_NS	       1000000u
#define SPIN_PAUSES    8

/* Places in fds of a lane's descriptors; 0: it is not there. */
struct places {
	nfds_t link;
	nfds_t own;
	nfds_t peers;
};

struct wait {
	struct ur_wait_lanes lanes;
	struct places at[UR_WAIT_LANES];
	struct ur_evq *q; /* its event is awaited; NULL: descriptors are */
	struct ur_ev *out;
	int64_t spin_ns; /* UR_WAIT_ADAPTIVE, or how long to poll before sleeping */
	bool look;	 /* the descriptors may have become readable */
	uint32_t served; /* bit i: lane[i] is this thread's to serve */
	bool serves;	 /* all of them are */
	uint32_t wet;	 /* bit i: poll(2) has seen data in lane[i]'s link */
	bool polled;	 /* poll(2) was called since serve() */
	bool busy;	 /* work() ended although there was more to do */
	bool lost;	 /* another thread serves one of the lanes by now */
	struct pollfd *fds;
	nfds_t own; /* the first ones are the caller's */
	nfds_t nfds;
	uint64_t end;	/* time limit of the call */
	uint64_t until; /* the earlier of that and the lanes' deadlines */
	/* Signals are blocked while the thread works.  One that arrives then
	 * ends the next ppoll(2), as it would end read(2). */
	bool masked;
	sigset_t mask; /* the application's */
};

static void add_lane(struct ur_wait_lanes *lanes, struct ur_lane *l)
{
	for (uint32_t i = 0; i < lanes->n; i++)
		if (lanes->lane[i] == l)
			return;
	if (lanes->n == UR_WAIT_LANES || !l || l->adapter->dev.spec.port)
		lanes->unserved = true;
	else
		lanes->lane[lanes->n++] = l;
}

void ur_wait_add(struct ur_wait_lanes *lanes, const struct ur_adapter *a,
		 const struct ur_evq *q)
{
	uint64_t set = atomic_load_explicit(&q->feeders, memory_order_acquire);

	for (; set; set &= set - 1)
		add_lane(lanes,
			 atomic_load_explicit(&a->lanes[__builtin_ctzll(set)],
					      memory_order_acquire));
}

void ur_wait_join(struct ur_wait_lanes *to, const struct ur_wait_lanes *from)
{
	to->unserved |= from->unserved;
	for (uint32_t i = 0; i < from->n; i++)
		add_lane(to, from->lane[i]);
}

static bool can_serve(const struct ur_wait_lanes *lanes)
{
	if (!lanes->n || lanes->unserved)
		return false;
	for (uint32_t i = 0; i < lanes->n; i++)
		if (atomic_load_explicit(&lanes->lane[i]->adapter->dead,
					 memory_order_relaxed))
			return false;
	return true;
}

/* Is there an event for this thread to take or to hand out? */
static bool is_ready(const struct wait *w)
{
	return w->q ? ur_evq_has(w->q) : ur_evq_has_deferred();
}

static enum ur_handover how_ends(const struct ur_lane *l)
{
	if (l->waiters)
		return UR_HANDOVER_LEAVES;
	return l->helper_rests ? UR_HANDOVER_ENDS_RESTING : UR_HANDOVER_ENDS;
}

/*
 * The wait ends.  The lane stays in WAITER until the helper's next looks
 * (wake.c), or becomes ARMED if other threads still wait.  dry: its link was
 * empty.
 */
static void end_wait(struct ur_lane *l, bool served, bool dry)
{
	bool wake = false;

	ur_lane_lock(l);
	l->waiters--;
	if (served)
		atomic_store_explicit(&l->waiter_sleeps, false,
				      memory_order_relaxed);
	if (served && l->watch == UR_WATCH_WAITER) {
		l->sleep_until_ns = 0;
		wake = ur_lane_hand(l, how_ends(l));
		l->helper_rests = false;
		if (!l->waiters)
			(void)ur_lane_rest(l, false);
		l->left_dry = dry;
	}
	ur_lane_unlock(l);
	if (wake)
		ur_helper_wake(l);
}

/* True: this thread serves the lane from now on; false: another thread does. */
static bool count_wait(struct ur_lane *l)
{
	bool served, wake = false;
	uint64_t now;

	ur_lane_lock(l);
	now = ur_clock_ns();
	wake = ur_chanpoll_pause(l, now);
	served = l->waiters++ == 0 && now >= l->no_waiter_until_ns;
	if (served) {
		wake |= ur_lane_hand(l, UR_HANDOVER_WAITS);
		l->waits = true;
		atomic_fetch_add_explicit(&l->wait_count, 1,
					  memory_order_relaxed);
	}
	ur_lane_unlock(l);
	if (wake)
		ur_helper_wake(l);
	return served;
}

/* Counts this thread as a waiter of each lane.  True: it serves all of them. */
static bool count_waits(struct wait *w)
{
	w->serves = true;
	for (uint32_t i = 0; i < w->lanes.n; i++)
		if (count_wait(w->lanes.lane[i]))
			w->served |= 1u << i;
		else
			w->serves = false;
	return w->serves;
}

/* Hands the lanes that this thread serves back to the helpers. */
static void give_up(struct wait *w)
{
	for (uint32_t i = 0; i < w->lanes.n; i++) {
		struct ur_lane *l = w->lanes.lane[i];
		bool wake;

		if (!(w->served & 1u << i))
			continue;
		ur_lane_lock(l);
		wake = ur_lane_hand(l, UR_HANDOVER_LEAVES);
		if (wake)
			l->sleep_until_ns = 0;
		atomic_store_explicit(&l->waiter_sleeps, false,
				      memory_order_relaxed);
		ur_lane_unlock(l);
		if (wake)
			ur_helper_wake(l);
	}
	w->served = 0;
}

/*
 * Steps the lane until its link is empty, even if there is an event already
 * (then STEPS_PER_HOLD times at most): a peer's answer may come by shared memory
 * and the acknowledgement of our request by the link, and a program with one
 * channel for both CQs (perftest) expects the send completion first.
 */
static void work(struct wait *w, struct ur_lane *l)
{
	uint64_t end = ur_clock_ns() + WORK_NS;

	for (;;) {
		for (uint32_t i = 0; i < STEPS_PER_HOLD; i++)
			if (!ur_lane_step(l, ur_clock_ns()))
				return;
		if (is_ready(w))
			return;
		if (ur_clock_ns() >= end) {
			w->busy = true;
			return;
		}
		ur_lane_unlock(l);
		ur_evq_flush_wakes();
		ur_lane_make_way(l);
		ur_lane_lock(l);
		if (l->watch != UR_WATCH_WAITER)
			return;
	}
}

/* Returns its place; 0: there is none. */
static nfds_t add_fd(struct wait *w, int fd)
{
	if (fd < 0)
		return 0;
	w->fds[w->nfds] = (struct pollfd){ .fd = fd, .events = POLLIN };
	return w->nfds++;
}

/*
 * Until when to sleep; under the lane's lock.  While there is traffic for
 * UR_WAITER_TICK_NS at most: then threads that post need not wake this one for
 * each of their timers.
 */
static uint64_t wake_at(struct ur_lane *l, uint64_t now)
{
	uint64_t at = ur_lane_earliest(l);

	if (now - l->activity_ns < UR_ACTIVE_NS && at > now + UR_WAITER_TICK_NS)
		at = now + UR_WAITER_TICK_NS;
	return at;
}

/* Publishes until when this thread sleeps, and adds the lane's descriptors to
 * fds.  False: do not sleep, there is work or an event. */
static bool ready_to_sleep(struct wait *w, uint32_t i)
{
	struct ur_lane *l = w->lanes.lane[i];
	uint64_t now, at;

	if (is_ready(w))
		return false;
	if (!ur_lane_rest(l, true))
		return false;
	now = ur_clock_ns();
	at = wake_at(l, now);
	if (at <= now)
		return false;
	l->sleep_until_ns = at;
	if (at < w->until)
		w->until = at;
	atomic_store_explicit(&l->waiter_sleeps, true, memory_order_relaxed);
	w->at[i].link = add_fd(w, l->ops->wait_fd(l));
	w->at[i].own = add_fd(w, l->wait_fd);
	w->at[i].peers = add_fd(w, ur_wakefd_polled(l));
	return true;
}

/*
 * Does not read the link where it is known to be empty: after poll(2), if that
 * saw nothing; before a sleep, since poll(2) will tell.  If an event ends the
 * wait without a poll(2), the link is read after all.
 */
static void work_on(struct wait *w, uint32_t i, bool may_sleep)
{
	struct ur_lane *l = w->lanes.lane[i];

	l->link_dry = w->polled ? !(w->wet & 1u << i) : may_sleep;
	work(w, l);
	if (l->link_dry && !w->polled && is_ready(w)) {
		l->link_dry = false;
		work(w, l);
	}
	l->link_dry = false;
}

/*
 * Works on all lanes.  True: all done, the thread may sleep.  Sets `lost` if a
 * lane is not in WAITER any more: a poller or the helper has taken it over.
 */
static bool serve(struct wait *w, bool may_sleep)
{
	bool sleep = true;

	w->busy = false;
	w->nfds = w->own;
	w->until = w->end;
	for (uint32_t i = 0; i < w->lanes.n; i++) {
		struct ur_lane *l = w->lanes.lane[i];

		w->at[i] = (struct places){ 0 };
		ur_lane_lock(l);
		if (l->watch == UR_WATCH_WAITER)
			work_on(w, i, may_sleep);
		ur_moderator_expire(&l->adapter->moderator, ur_clock_ns());
		w->lost |= l->watch != UR_WATCH_WAITER;
		sleep = sleep && may_sleep && !w->lost && ready_to_sleep(w, i);
		ur_lane_unlock(l);
	}
	w->polled = false;
	return sleep;
}

static bool has_input(const struct wait *w, nfds_t place)
{
	return place && w->fds[place].revents;
}

static void clear_fd(int fd)
{
	uint64_t n;

	(void)!ur_sys_read(fd, &n, sizeof(n));
}

/* From now on other threads of the process wake the helper instead of this
 * thread.  Empties the wakeup descriptors. */
static void awake(struct wait *w)
{
	for (uint32_t i = 0; i < w->lanes.n; i++) {
		struct ur_lane *l = w->lanes.lane[i];

		if (has_input(w, w->at[i].own))
			clear_fd(l->wait_fd);
		ur_lane_lock(l);
		if (has_input(w, w->at[i].peers))
			ur_wakefd_drain(l);
		/* Else it is the helper's by now. */
		if (l->watch == UR_WATCH_WAITER)
			l->sleep_until_ns = 0;
		atomic_store_explicit(&l->waiter_sleeps, false,
				      memory_order_relaxed);
		ur_lane_unlock(l);
	}
}

static void unmask(struct wait *w)
{
	if (w->masked)
		pthread_sigmask(SIG_SETMASK, &w->mask, NULL);
	w->masked = false;
}

static void leave(void *arg)
{
	struct wait *w = arg;

	unmask(w);
	if (w->serves) {
		ur_evq_flush_wakes();
		ur_evq_end_deferring();
	}
	for (uint32_t i = 0; i < w->lanes.n; i++)
		end_wait(w->lanes.lane[i], w->served & 1u << i,
			 w->lanes.n == 1);
	/* only_sleep() and sleep_on() both call it if the thread is cancelled. */
	w->lanes.n = 0;
	w->serves = false;
}

/*
 * How many of the caller's descriptors are ready, or -EINTR.  A cancellation
 * point, as read(2) and poll(2) are.
 */
static int sleep_on(struct wait *w)
{
	uint64_t now = ur_clock_ns(), ns = w->until > now ? w->until - now : 0;
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000u),
			       .tv_nsec = (long)(ns % 1000000000u) };
	int n = 0, ready = 0;

	pthread_cleanup_push(leave, w);
	n = ppoll(w->fds, w->nfds, w->until == UR_NEVER ? NULL : &ts,
		  w->masked ? &w->mask : NULL);
	pthread_cleanup_pop(0);
	if (n < 0)
		return -errno;
	for (nfds_t i = 0; n && i < w->own; i++)
		ready += w->fds[i].revents != 0;
	return ready;
}

static void note_wet_links(struct wait *w)
{
	w->polled = true;
	w->wet = 0;
	for (uint32_t i = 0; i < w->lanes.n; i++)
		if (!w->at[i].link || has_input(w, w->at[i].link))
			w->wet |= 1u << i;
}

/* sleep_on() with signals blocked before and after it. */
static int sleep_between(struct wait *w)
{
	int n;

	/* until == 0 only looks at the descriptors: no signal has to end it. */
	if (!w->masked && w->until)
		ur_signals_block(&w->mask);
	w->masked |= w->until != 0;
	n = sleep_on(w);
	if (n >= 0)
		note_wet_links(w);
	awake(w);
	return n;
}

/* Counts of the kernel, from the time when the channel did not block, would leave
 * the descriptor readable. */
static bool take_now(struct wait *w)
{
	bool readable;

	return atomic_load_explicit(&w->q->polled_lanes, memory_order_relaxed)
		       ? ur_evq_take_polled(w->q, w->out, &readable)
		       : ur_evq_take_now(w->q, w->out);
}

/* Takes the awaited event, if it is there, and signals those of others. */
static bool is_over(struct wait *w)
{
	struct ur_evq_told told;
	bool taken;

	if (w->q) {
		taken = take_now(w);
		ur_evq_flush_wakes();
		return taken;
	}
	told = ur_evq_hand_out();
	w->look = told.signalled;
	return told.raised;
}

static uint64_t spin_budget(struct wait *w)
{
	struct ur_lane *l = w->lanes.lane[0];

	return w->spin_ns == UR_WAIT_ADAPTIVE
		       ? ur_spin_begin(&l->wait_spin, l->timescale)
		       : (uint64_t)w->spin_ns;
}

/* Polls for spin_budget() before the first sleep; true: the wait is over. */
static bool spin(struct wait *w)
{
	uint64_t ns = spin_budget(w), end;
	bool over = false;

	if (!ns)
		return false;
	end = ur_clock_ns() + ns;
	while (!over && !w->lost && !w->look && ur_clock_ns() < end) {
		for (int i = 0; i < SPIN_PAUSES; i++)
			ur_cpu_relax();
		(void)serve(w, false);
		over = is_over(w);
	}
	if (w->spin_ns == UR_WAIT_ADAPTIVE)
		ur_spin_end(&w->lanes.lane[0]->wait_spin, over);
	return over;
}

/* From now on the helpers, pollers or another thread do the work. */
static void stop_serving(struct wait *w)
{
	if (w->serves) {
		ur_evq_flush_wakes();
		ur_evq_end_deferring();
	}
	w->serves = false;
	give_up(w);
}

/* As ur_evq_take(), but a signal that came while the thread worked ends it. */
static int take_masked(struct wait *w)
{
	int n = 0;

	while (!take_now(w)) {
		n = sleep_on(w);
		if (n < 0)
			return n;
		if (w->fds[0].revents & POLLNVAL)
			return -EBADF;
	}
	return 0;
}

/* wait_for() where helpers or another thread serve the lanes. */
static int only_sleep(struct wait *w)
{
	int n;

	stop_serving(w);
	w->nfds = w->own;
	w->until = w->end;
	pthread_cleanup_push(leave, w);
	if (!w->q)
		n = sleep_on(w);
	else if (w->masked)
		n = take_masked(w);
	else
		n = ur_evq_take(w->q, w->out);
	pthread_cleanup_pop(1);
	return n;
}

/* How many of the caller's descriptors are ready, or -errno; 0: the event of
 * w->q was taken, `raised` took some, or the time has come. */
static int wait_for(struct wait *w)
{
	uint64_t slept_ns = 0, since;
	bool over;
	int n = 0;

	if (!w->lanes.n || !count_waits(w))
		return only_sleep(w);
	ur_evq_defer_wakes();
	over = spin(w);
	while (!over && !n && !w->lost) {
		bool sleep = serve(w, true);

		over = is_over(w);
		if (over || (!sleep && !w->look && !w->busy))
			continue;
		if (!sleep)
			w->until = 0;
		since = ur_clock_ns();
		n = sleep_between(w);
		slept_ns += ur_clock_ns() - since;
		if (n > 0 && w->q)
			n = w->fds[0].revents & POLLNVAL ? -EBADF : 0;
		if (n > 0 ||
		    (!n && w->end != UR_NEVER && ur_clock_ns() >= w->end)) {
			/* Read what the last poll(2) saw in the links. */
			(void)serve(w, false);
			(void)is_over(w);
			over = true;
		}
	}
	if (!over && !n)
		return only_sleep(w);
	if (slept_ns)
		ur_spin_slept(&w->lanes.lane[0]->wait_spin, slept_ns);
	leave(w);
	return n;
}

/* Does the kernel add counts to q?  Then only ur_evq_take_polled() reads them. */
static bool is_counted(const struct ur_adapter *a, const struct ur_evq *q)
{
	return atomic_load_explicit(&q->polled_lanes, memory_order_relaxed) &&
	       !atomic_load_explicit(&a->dead, memory_order_relaxed);
}

static int wait_once(struct ur_adapter *a, struct ur_evq *q, struct ur_ev *out)
{
	struct pollfd fds[1 + UR_WAIT_FDS] = { { .fd = q->fd,
						 .events = POLLIN } };
	struct wait w = {
		.q = q,
		.out = out,
		.spin_ns = UR_WAIT_ADAPTIVE,
		.fds = fds,
		.own = 1,
		.end = UR_NEVER,
	};
	bool counted = is_counted(a, q);
	int flags;

	if (counted ? ur_chanpoll_take(a, q, out) : ur_evq_take_now(q, out))
		return 0;
	flags = fcntl(q->fd, F_GETFL);
	if (flags < 0)
		return -errno;
	atomic_store_explicit(&q->blocks, !(flags & O_NONBLOCK),
			      memory_order_relaxed);
	if (flags & O_NONBLOCK)
		return is_counted(a, q) ? -EAGAIN : ur_evq_take(q, out);
	ur_wait_add(&w.lanes, a, q);
	if (!can_serve(&w.lanes))
		w.lanes.n = 0;
	return wait_for(&w);
}

int ur_adapter_wait(struct ur_adapter *a, struct ur_evq *q, struct ur_ev *out)
{
	int err;

	do
		err = wait_once(a, q, out);
	while (err == -EINTR && ur_signals_restart());
	return err;
}

int ur_wait_poll(const struct ur_wait_lanes *lanes, struct pollfd *fds,
		 nfds_t n, uint64_t until_ns, int64_t spin_ns)
{
	struct wait w = {
		.spin_ns = spin_ns,
		.fds = fds,
		.own = n,
		.end = until_ns,
	};

	if (can_serve(lanes))
		w.lanes = *lanes;
	return wait_for(&w);
}

/*
 * A thread is about to sleep until an event: batches leave now.  If a poller had
 * the lane, its link is watched again: by the helper, or by this thread if it
 * usually waits for events.
 */
static void arm_lane(struct ur_lane *l, struct ur_evq *q,
		     enum ur_chanpoll_use use)
{
	uint64_t now;
	bool wake, late, soon;

	ur_lane_lock(l);
	now = ur_clock_ns();
	ur_lane_drain(l, now);
	ur_lane_send(l, now);
	l->app_ns = 0;
	/* Polls that found the lane taken were before this. */
	atomic_store_explicit(&l->missed_ns, 0, memory_order_relaxed);
	/* A thread that has waited before probably waits again; the helper's
	 * next look corrects a wrong guess.  Not while other threads wait:
	 * this one would not serve the lane then. */
	soon = l->waits && !l->waiters;
	wake = q && ur_chanpoll_arm(l, q, use, now);
	wake |= ur_lane_hand(l,
			     soon ? UR_HANDOVER_ARMED_SOON : UR_HANDOVER_ARMED);
	late = ur_helper_is_late(l, 0);
	ur_lane_unlock(l);
	if (wake)
		ur_helper_wake(l);
	else if (late)
		ur_lane_wake(l);
}

/*
 * Will the program probably sleep in poll(2) or epoll for any completion?  Where
 * events are solicited, most packets bring none.  `blocks` saves blocking programs
 * a system call.
 */
static bool is_polled(const struct ur_cq *cq)
{
	struct ur_evq *q = cq->channel;

	return q && !q->inner &&
	       !atomic_load_explicit(&q->blocks, memory_order_relaxed) &&
	       atomic_load_explicit(&cq->armed, memory_order_relaxed) ==
		       UR_CQ_ARMED_ANY &&
	       fcntl(q->fd, F_GETFL) & O_NONBLOCK;
}

/*
 * Without traffic the helper takes the lane back, and each such change wakes it:
 * for rare events both would be paid.
 */
static enum ur_chanpoll_use use_of(struct ur_cq *cq)
{
	uint64_t now, before;

	if (!is_polled(cq))
		return UR_CHANPOLL_NO;
	now = ur_clock_ns();
	before = atomic_exchange_explicit(&cq->armed_ns, now,
					  memory_order_relaxed);
	return now - before < UR_WAITER_TICK_NS ? UR_CHANPOLL_OFTEN
						: UR_CHANPOLL_RARELY;
}

void ur_adapter_arm(struct ur_adapter *a, struct ur_cq *cq)
{
	uint64_t lanes = atomic_load_explicit(&cq->lanes, memory_order_acquire);
	enum ur_chanpoll_use use;

	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return;
	use = use_of(cq);
	while (lanes)
		arm_lane(ur_adapter_next_lane(a, &lanes), cq->channel, use);
}
