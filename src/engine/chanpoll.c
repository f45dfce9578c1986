/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that sleep in poll(2) or epoll on the descriptor of a non-blocking
 * completion channel, together with others.  When such a program arms a queue, the
 * kernel is asked to add a count to the channel's eventfd once a packet comes
 * (base/aiopoll.h).  So the packet wakes the program, whose ibv_get_cq_event()
 * does the lane's work: one wakeup instead of two.
 *
 * A descriptor that is readable has an event: programs take EAGAIN after poll(2)
 * for an error.  So if the packet has brought no completion, the call returns an
 * event all the same, and the queue is not armed any more.  Programs know that:
 * after an event the queue may be empty, since a poll after arming has taken the
 * completion.  Only a call that finds the descriptor readable does so; others fail
 * with EAGAIN, or a program that calls until then would not end.  The descriptor
 * itself says it, not the kernel's ring, which is ahead of it.
 *
 * The kernel's polls are one-shot, only add wakeups, and no other thread relies on
 * them outside of the state below.  One that is left over, since its queue got an
 * event by the work of another thread, wakes the program once too often.
 *
 * The lane is in WAITER meanwhile (l->chan.q).  Only in this state do these
 * programs do the lane's work, and take peers' signals from the wakeup descriptors:
 * otherwise the helper or a waiting thread sleeps on them.  No call precedes the
 * program's sleep, so:
 *  - Peers of this host signal from the time of arming.
 *  - The helper runs the timers, also those set by posts: it publishes until when
 *    it sleeps, and ur_lane_unlock() wakes it for earlier ones.
 *  - The helper looks every 4 ms, reads what was left, and sends acknowledgements
 *    that have waited for an answer.  Only those wait that usually get one
 *    (roce/rc_answer.c); while it finds some it looks every 250 us.
 *  - If no program has come for 4 ms, the helper watches the link again.
 *
 * One channel of a lane at a time: a packet would wake the programs of all.
 */
#include "engine/chanpoll.h"

#include "base/refused.h"
#include "core/cq.h"
#include "engine/internal.h"
#include "engine/wakefd.h"

/* After so many steps the lane is unlocked once, for threads that want it. */
#define STEPS_PER_HOLD 16u
#define WORK_NS	       1000000u
/* For so long the helper serves programs for which the packets' own wakeups do not
 * pay.  Each trial costs them a look of the helper at most (4 ms). */
#define OFF_NS	       256000000u
/* Wakeups without a completion, above those with one: one-sided requests of the peer,
 * or large messages.  The helper does such work without waking the program.  With two
 * in a row as the limit, pairs that answer each other through shared memory, where 2 to
 * 7 % are without one, had the helper in between most of the time. */
#define IDLE_MAX       8u
/* Armings, and polls of armed queues, without a call for an event: the program does
 * not sleep.  One that does has one or two. */
#define SPINS	       16u

/* Notes the polls of the kernel that have ended. */
static void reap(struct ur_lane *l)
{
	struct ur_chanpoll *c = &l->chan;
	uint64_t i;

	while (ur_aiopoll_next(&c->aio, &i)) {
		c->kpoll[i].pending = false;
		c->fired = true;
		if (c->q && c->kpoll[i].fd == l->peer_wakefds)
			ur_wakefd_drain(l);
	}
}

/* The kernel polls fd for q.  False: it does not. */
static bool kpoll(struct ur_chanpoll *c, struct ur_evq *q, int fd)
{
	uint32_t at = UR_KPOLLS;
	int err;

	for (uint32_t i = 0; i < UR_KPOLLS; i++) {
		if (!c->kpoll[i].pending)
			at = i;
		else if (c->kpoll[i].q == q && c->kpoll[i].fd == fd)
			return true;
	}
	if (at == UR_KPOLLS)
		return false;
	err = ur_aiopoll_add(&c->aio, fd, q->fd, at);
	if (err) {
		ur_refused_note(UR_REFUSED_AIO, -err);
		return false;
	}
	c->kpoll[at].q = q;
	c->kpoll[at].fd = fd;
	c->kpoll[at].pending = true;
	return true;
}

/* For the first time, opens the kernel's ring. */
static bool ready_aio(struct ur_lane *l, struct ur_evq *q)
{
	struct ur_chanpoll *c = &l->chan;
	int err = c->aio.ring ? 0 : ur_aiopoll_open(&c->aio, UR_KPOLLS);

	if (err) {
		ur_refused_note(UR_REFUSED_AIO, -err);
		return false;
	}
	atomic_fetch_or_explicit(&q->polled_lanes, 1ull << l->id,
				 memory_order_release);
	return true;
}

/* What comes from now on makes q's descriptor readable.  False: it does not. */
static bool watch(struct ur_lane *l, struct ur_evq *q)
{
	struct ur_chanpoll *c = &l->chan;
	int link = l->ops->wait_fd(l);

	if (link < 0 || !ready_aio(l, q))
		return false;
	reap(l);
	for (uint32_t i = 0; !ur_lane_rest(l, true); i++) {
		if (i == STEPS_PER_HOLD)
			return false;
		(void)ur_lane_step(l, ur_clock_ns());
	}
	return kpoll(c, q, link) &&
	       (l->peer_wakefds < 0 || kpoll(c, q, l->peer_wakefds));
}

bool ur_chanpoll_pause(struct ur_lane *l, uint64_t now)
{
	if (!l->chan.q)
		return false;
	l->chan.off_until_ns = now + OFF_NS;
	l->chan.idle = 0;
	l->sleep_until_ns = 0;
	return ur_lane_hand(l, UR_HANDOVER_CHAN_ENDS);
}

static bool may_begin(const struct ur_lane *l, enum ur_chanpoll_use use,
		      uint64_t now)
{
	return use == UR_CHANPOLL_OFTEN && now >= l->chan.off_until_ns &&
	       now >= l->no_waiter_until_ns && !l->waiters &&
	       !l->adapter->dev.spec.port;
}

static bool begin(struct ur_lane *l, struct ur_evq *q, uint64_t now)
{
	struct ur_chanpoll *c = &l->chan;
	bool wake;

	c->q = q;
	c->came_ns = now;
	/* Soon: peers that took the lane for polled may not have signalled
	 * (ur_spsc_polled()). */
	c->tick_ns = UR_TICK_NS;
	c->look_ns = now + c->tick_ns;
	l->sleep_until_ns = 0;
	atomic_store_explicit(&q->spins, 0, memory_order_relaxed);
	wake = ur_lane_hand(l, UR_HANDOVER_CHAN_BEGINS);
	if (l->ops->watched)
		l->ops->watched(l);
	/* A connection that was polled itself returns into the set (tcp.h). */
	(void)ur_lane_step(l, now);
	return wake;
}

static bool is_spinning(struct ur_evq *q)
{
	return atomic_fetch_add_explicit(&q->spins, 1, memory_order_relaxed) >=
	       SPINS;
}

bool ur_chanpoll_arm(struct ur_lane *l, struct ur_evq *q,
		     enum ur_chanpoll_use use, uint64_t now)
{
	struct ur_chanpoll *c = &l->chan;
	bool wake = false;

	if (!c->q) {
		if (!may_begin(l, use, now))
			return false;
		wake = begin(l, q, now);
	}
	if (c->q != q || use == UR_CHANPOLL_NO || is_spinning(q) ||
	    !watch(l, q))
		return ur_chanpoll_pause(l, now);
	atomic_fetch_add_explicit(&l->wait_count, 1, memory_order_relaxed);
	return wake;
}

/* Steps the lane until nothing is left.  False: there is more. */
static bool run_dry(struct ur_lane *l, struct ur_evq *q)
{
	uint64_t end = ur_clock_ns() + WORK_NS;

	for (;;) {
		for (uint32_t i = 0; i < STEPS_PER_HOLD; i++)
			if (!ur_lane_step(l, ur_clock_ns()))
				return true;
		if (ur_evq_has(q) || ur_clock_ns() >= end)
			return false;
		ur_lane_unlock(l);
		ur_evq_flush_wakes();
		ur_lane_make_way(l);
		ur_lane_lock(l);
	}
}

/* After wakeups of the caller's channel without an event the helper goes on: true,
 * wake it. */
static bool work(struct ur_lane *l, const struct ur_evq *caller)
{
	struct ur_chanpoll *c = &l->chan;
	struct ur_evq *q = c->q;
	bool dry;

	atomic_fetch_add_explicit(&l->wait_count, 1, memory_order_relaxed);
	/* Until the next arming peers need not signal. */
	(void)ur_lane_rest(l, false);
	dry = run_dry(l, q);
	ur_moderator_expire(&l->adapter->moderator, ur_clock_ns());
	if (c->q != q) /* it was unlocked */
		return false;
	l->left_dry = dry;
	if (q != caller)
		return false;
	if (!ur_evq_has(q))
		c->idle++;
	else if (c->idle)
		c->idle--;
	return c->idle >= IDLE_MAX && ur_chanpoll_pause(l, ur_clock_ns());
}

static void serve(struct ur_lane *l, const struct ur_evq *caller)
{
	struct ur_chanpoll *c = &l->chan;
	bool wake;

	if (!c->fired && !ur_aiopoll_any(&c->aio))
		return;
	ur_lane_lock(l);
	reap(l);
	wake = atomic_exchange(&c->fired, false) && c->q && work(l, caller);
	ur_lane_unlock(l);
	if (wake)
		ur_helper_wake(l);
}

/* Queues of the channel are armed when the call returns. */
static void watch_again(struct ur_lane *l, struct ur_evq *q)
{
	bool wake;

	if (l->chan.q != q)
		return;
	ur_lane_lock(l);
	wake = l->chan.q == q && !watch(l, q) &&
	       ur_chanpoll_pause(l, ur_clock_ns());
	ur_lane_unlock(l);
	if (wake)
		ur_helper_wake(l);
}

/* Of a queue that is armed, if there is one.  False: the channel has no queue. */
static bool take_idle(struct ur_adapter *a, const struct ur_evq *q,
		      struct ur_ev *out)
{
	struct ur_cq *cq = NULL;

	ur_lock(&a->cqs_lock);
	ur_list_each(struct ur_cq, x, &a->cqs, listed) {
		if (x->channel == q && !ur_cq_is_armed(cq))
			cq = x;
	}
	if (cq)
		ur_cq_take_idle(cq, out);
	ur_unlock(&a->cqs_lock);
	return cq;
}

bool ur_chanpoll_take(struct ur_adapter *a, struct ur_evq *q, struct ur_ev *out)
{
	uint64_t polled =
		atomic_load_explicit(&q->polled_lanes, memory_order_acquire);
	uint64_t lanes = polled;
	bool taken, readable;

	atomic_store_explicit(&q->spins, 0, memory_order_relaxed);
	ur_evq_defer_wakes();
	while (lanes)
		serve(ur_adapter_next_lane(a, &lanes), q);
	taken = ur_evq_take_polled(q, out, &readable) ||
		(readable && take_idle(a, q, out));
	while (polled && atomic_load_explicit(&q->armed, memory_order_relaxed))
		watch_again(ur_adapter_next_lane(a, &polled), q);
	ur_evq_flush_wakes();
	ur_evq_end_deferring();
	return taken;
}

void ur_chanpoll_leave(struct ur_adapter *a, struct ur_evq *q)
{
	uint64_t lanes =
		atomic_load_explicit(&q->polled_lanes, memory_order_acquire);

	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return;
	while (lanes) {
		struct ur_lane *l = ur_adapter_next_lane(a, &lanes);
		struct ur_chanpoll *c = &l->chan;
		bool wake;

		ur_lane_lock(l);
		for (uint32_t i = 0; i < UR_KPOLLS; i++)
			if (c->kpoll[i].q == q)
				c->kpoll[i].q = NULL;
		wake = c->q == q && ur_lane_hand(l, UR_HANDOVER_CHAN_ENDS);
		ur_lane_unlock(l);
		if (wake)
			ur_helper_wake(l);
	}
}

void ur_chanpoll_spin(struct ur_lane *l, struct ur_evq *q)
{
	bool wake;

	if (l->chan.q != q || !is_spinning(q))
		return;
	ur_lane_lock(l);
	wake = l->chan.q == q && ur_chanpoll_pause(l, ur_clock_ns());
	ur_lane_unlock(l);
	if (wake)
		ur_helper_wake(l);
}
