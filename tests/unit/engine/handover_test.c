/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No wakeup is lost between threads that poll, threads that wait, programs that poll
 * a channel, and the helper: all orders of their steps, with two threads, on
 * ur_handover().  A step is what a thread does under the lane's lock; wakeups are
 * written after it.  The time limits are left out: what depends on one may happen at
 * any time, but a timer fires only where no other step is due.
 *
 * A state is lost if a packet stays in the link, or a thread asleep although there is
 * an event, whatever the threads do that have to go on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/handover.h"

#define THREADS	   2u
#define EVENTS_MAX 3u
#define NEXT_MAX   64u
#define KEYS	   (1u << 26)
#define REACHED	   23u

enum thread {
	OUT,	/* of our calls */
	POLLS,	/* a completion queue */
	WORKS,	/* waits, serves the lane, is awake */
	SLEEPS, /* waits, serves the lane, sleeps on its descriptors */
	LOST,	/* has found the lane taken over */
	ONLY,	/* waits for an event by the work of another thread */
	DONE,	/* has its event, and ends its wait */
	EPOLLS, /* asleep in epoll on the channel */
};

enum helper { AWAKE, ON_LINK, ON_TIMER, RESTS };

enum { OWES_HELPER = 1, OWES_BOTH };

struct model {
	uint32_t watch : 2;
	uint32_t packet : 1; /* in the link */
	uint32_t events : 2; /* in the channel */
	uint32_t fresh : 1;  /* a thread polled or waited since the last look */
	uint32_t rests : 1;  /* l->helper_rests */
	uint32_t helper : 2;
	uint32_t wake_fd : 1; /* written: the helper's, and the waiter's */
	uint32_t wait_fd : 1;
	uint32_t chan : 2;  /* l->chan.q: of that thread, from 1 */
	uint32_t kpoll : 1; /* the kernel polls the link for it */
	uint32_t t0 : 3, t1 : 3;
	uint32_t owes0 : 2, owes1 : 2; /* wakes next */
	uint32_t : 8;
};

/* The steps from a state; those a thread need not take are `free`. */
struct steps {
	struct model next[NEXT_MAX];
	bool free[NEXT_MAX];
	unsigned int n, due;
	bool timer; /* the last one */
};

/* A wakeup that is left out, to see that it is missed. */
static struct {
	bool on;
	enum ur_handover event;
	enum ur_watch watch;
} omit;

/* Rows of the table that the search has used. */
static bool reached[UR_HANDOVERS][UR_WATCHES];

static enum thread at(const struct model *m, unsigned int i)
{
	return i ? m->t1 : m->t0;
}

static struct model go(struct model m, unsigned int i, enum thread to)
{
	if (i)
		m.t1 = to & 7u;
	else
		m.t0 = to & 7u;
	return m;
}

static unsigned int owes(const struct model *m, unsigned int i)
{
	return i ? m->owes1 : m->owes0;
}

static void set_owes(struct model *m, unsigned int i, unsigned int what)
{
	if (i)
		m->owes1 = what & 3u;
	else
		m->owes0 = what & 3u;
}

static bool is_waiting(enum thread t)
{
	return t == WORKS || t == SLEEPS || t == LOST || t == ONLY || t == DONE;
}

/* Threads that wait, but for thread i. */
static bool others_wait(const struct model *m, unsigned int i)
{
	return is_waiting(at(m, !i));
}

static void add(struct steps *s, struct model m, bool free)
{
	assert_true(s->n < NEXT_MAX);
	s->free[s->n] = free;
	s->next[s->n++] = m;
	s->due += !free;
}

static bool hand(struct model *m, enum ur_handover event)
{
	struct ur_handed next = ur_handover(m->watch, event);
	bool wake = next.wake &&
		    !(omit.on && omit.event == event && omit.watch == m->watch);

	reached[event][m->watch] = true;
	m->watch = next.watch & 3u;
	if (next.watch != UR_WATCH_WAITER)
		m->chan = m->kpoll = 0;
	return wake;
}

/* By thread i, which wakes the helper after unlocking. */
static void hand_by(struct model *m, unsigned int i, enum ur_handover event)
{
	if (hand(m, event))
		set_owes(m, i,
			 event == UR_HANDOVER_POLLED ? OWES_BOTH : OWES_HELPER);
}

/* Work on the lane: the packet is an event. */
static void step(struct model *m)
{
	if (m->packet && m->events < EVENTS_MAX)
		m->events++;
	m->packet = 0;
}

static void pay(struct steps *s, struct model m, unsigned int i)
{
	m.wake_fd = 1;
	if (owes(&m, i) == OWES_BOTH &&
	    (at(&m, 0) == SLEEPS || at(&m, 1) == SLEEPS))
		m.wait_fd = 1;
	set_owes(&m, i, 0);
	add(s, m, false);
}

/*
 * count_wait().  Threads whose waits did not pay are left to the helper
 * (no_waiter_until_ns), but the lane is not in WAITER then.
 */
static void begin_wait(struct steps *s, struct model m, unsigned int i)
{
	struct model served;

	if (m.chan)
		hand_by(&m, i, UR_HANDOVER_CHAN_ENDS);
	served = go(m, i, WORKS);
	served.fresh = 1;
	hand_by(&served, i, UR_HANDOVER_WAITS);
	if (!others_wait(&m, i))
		add(s, served, true);
	if (others_wait(&m, i) || m.watch != UR_WATCH_WAITER)
		add(s, go(m, i, ONLY), true);
}

/* ur_chanpoll_arm(), then epoll_wait(2). */
static void begin_epoll(struct steps *s, struct model m, unsigned int i)
{
	struct model begun = m;

	if (!m.chan && !others_wait(&m, i)) {
		hand_by(&begun, i, UR_HANDOVER_CHAN_BEGINS);
		step(&begun);
		begun.chan = (i + 1) & 3u;
	}
	if (begun.chan == i + 1) {
		step(&begun);
		begun.kpoll = 1;
		begun.fresh = 1;
		add(s, go(begun, i, EPOLLS), true);
	}
	/* It is not served, or its turn is over. */
	if (m.chan)
		hand_by(&m, i, UR_HANDOVER_CHAN_ENDS);
	if (m.watch == UR_WATCH_TICK)
		hand_by(&m, i, UR_HANDOVER_ARMED);
	add(s, go(m, i, EPOLLS), true);
}

static void begin(struct steps *s, struct model m, unsigned int i)
{
	struct model next = go(m, i, POLLS);

	begin_wait(s, m, i);
	begin_epoll(s, m, i);
	next.fresh = 1;
	add(s, next, true);
}

/* Polls, or arms its queue and will wait, or does neither any more. */
static void poll_or_arm(struct steps *s, struct model m, unsigned int i)
{
	struct model next = m;

	hand_by(&next, i, UR_HANDOVER_POLLED);
	next.packet = 0;
	next.fresh = 1;
	add(s, next, true);
	if (others_wait(&m, i) && m.packet) {
		/* The packet was for the other one. */
		next.packet = 1;
		step(&next);
		add(s, next, true);
	}
	next = go(m, i, OUT);
	add(s, next, true);
	hand_by(&next, i, UR_HANDOVER_ARMED);
	add(s, next, true);
	next = go(m, i, OUT);
	hand_by(&next, i, UR_HANDOVER_ARMED_SOON);
	if (!others_wait(&m, i))
		add(s, next, true);
}

/* serve(), is_over() */
static void serve(struct steps *s, struct model m, unsigned int i)
{
	if (m.watch != UR_WATCH_WAITER) {
		add(s, go(m, i, LOST), false);
		return;
	}
	step(&m);
	if (!m.events) {
		add(s, go(m, i, SLEEPS), false);
		return;
	}
	m.events--;
	add(s, go(m, i, DONE), false);
}

/* end_wait() */
static void end_wait(struct steps *s, struct model m, unsigned int i)
{
	enum ur_handover how = UR_HANDOVER_ENDS;

	if (m.rests)
		how = UR_HANDOVER_ENDS_RESTING;
	if (others_wait(&m, i))
		how = UR_HANDOVER_LEAVES;
	if (m.watch == UR_WATCH_WAITER) {
		hand_by(&m, i, how);
		m.rests = 0;
	}
	add(s, go(m, i, OUT), false);
}

static void asleep(struct steps *s, struct model m, unsigned int i)
{
	add(s, go(m, i, DONE), true); /* a signal, or its time limit */
	if (!m.packet && !m.wait_fd && !m.events)
		return;
	m.wait_fd = 0;
	add(s, go(m, i, WORKS), false);
}

static void only(struct steps *s, struct model m, unsigned int i)
{
	add(s, go(m, i, OUT), true);
	if (!m.events)
		return;
	m.events--;
	add(s, go(m, i, OUT), false);
}

/* ur_chanpoll_take() */
static void take(struct steps *s, struct model m, unsigned int i)
{
	bool fired = m.chan == i + 1 && m.kpoll && m.packet;

	add(s, go(m, i, OUT), true);
	if (!m.events && !fired)
		return;
	if (fired) {
		m.kpoll = 0;
		m.fresh = 1;
		step(&m);
	}
	if (m.events)
		m.events--;
	m = go(m, i, OUT);
	add(s, m, false);
	if (!m.chan)
		return;
	hand_by(&m, i,
		UR_HANDOVER_CHAN_ENDS); /* too many without a completion */
	add(s, m, false);
}

static void give_up(struct steps *s, struct model m, unsigned int i)
{
	hand_by(&m, i, UR_HANDOVER_LEAVES);
	add(s, go(m, i, ONLY), false);
}

static void by_thread(struct steps *s, const struct model *m, unsigned int i)
{
	static void (*const run[])(struct steps *, struct model,
				   unsigned int) = {
		[OUT] = begin,	   [POLLS] = poll_or_arm, [WORKS] = serve,
		[SLEEPS] = asleep, [LOST] = give_up,	  [ONLY] = only,
		[DONE] = end_wait, [EPOLLS] = take,
	};

	if (owes(m, i))
		pay(s, *m, i);
	else
		run[at(m, i)](s, *m, i);
}

/* tick(), tick_waiter(), look_for_pollers() */
static bool look(struct model *m, bool quiet)
{
	bool waiters = is_waiting(at(m, 0)) || is_waiting(at(m, 1));
	bool fresh = m->fresh;

	m->fresh = 0;
	if (m->watch == UR_WATCH_WAITER && !m->chan) {
		m->rests = waiters && !fresh && quiet;
		fresh |= waiters;
	}
	if (!fresh)
		(void)hand(m, UR_HANDOVER_GONE);
	return m->rests == quiet;
}

/* run_once(); while threads wait it rests only without traffic. */
static void help(struct steps *s, struct model m, bool quiet)
{
	m.rests = 0;
	if (m.watch != UR_WATCH_ARMED && !look(&m, quiet) && quiet)
		return;
	if (m.watch == UR_WATCH_ARMED)
		step(&m);
	m.helper = m.watch == UR_WATCH_ARMED ? ON_LINK : ON_TIMER;
	if (m.rests)
		m.helper = RESTS;
	add(s, m, false);
}

static void by_helper(struct steps *s, struct model m)
{
	bool woken = m.wake_fd || (m.helper == ON_LINK && m.packet);

	if (m.helper == AWAKE) {
		help(s, m, false);
		help(s, m, true);
		return;
	}
	if (!woken && m.helper != ON_TIMER)
		return;
	s->timer = !woken;
	m.helper = AWAKE;
	m.wake_fd = 0;
	add(s, m, false);
}

static void all_steps(struct steps *s, const struct model *m)
{
	struct model arrived = *m;

	s->n = s->due = 0;
	s->timer = false;
	arrived.packet = 1;
	add(s, arrived, true);
	for (unsigned int i = 0; i < THREADS; i++)
		by_thread(s, m, i);
	by_helper(s, *m);
}

static bool awaits_event(enum thread t)
{
	return t == SLEEPS || t == ONLY || t == EPOLLS;
}

static bool is_unserved(const struct model *m)
{
	return m->packet || (m->events && (awaits_event(at(m, 0)) ||
					   awaits_event(at(m, 1))));
}

static uint32_t key_of(const struct model *m)
{
	uint32_t key;

	_Static_assert(sizeof(*m) == sizeof(key), "one word");
	memcpy(&key, m, sizeof(key));
	assert_true(key < KEYS);
	return key;
}

enum { SEEN = 1, GOING = 2, SERVED = 4 };

struct search {
	uint8_t *marks; /* by key */
	struct model *todo;
	uint32_t n;
	unsigned int watches, states;
};

/* Do the steps that are due serve it, in whatever order? */
static bool is_served(struct search *x, const struct model *m)
{
	uint8_t *mark = &x->marks[key_of(m)];
	struct steps s;
	bool ok;

	if (!is_unserved(m) || *mark & SERVED)
		return true;
	if (*mark & GOING)
		return false;
	all_steps(&s, m);
	ok = s.due;
	*mark |= GOING;
	for (unsigned int i = 0; ok && i < s.n; i++)
		if (!s.free[i] && !(s.timer && i == s.n - 1 && s.due > 1))
			ok = is_served(x, &s.next[i]);
	*mark = (uint8_t)(*mark & ~GOING) | (ok ? SERVED : 0);
	return ok;
}

static void find(struct search *x, const struct model *m)
{
	uint8_t *mark = &x->marks[key_of(m)];

	if (*mark & SEEN)
		return;
	*mark |= SEEN;
	x->todo[x->n++] = *m;
}

static void print_state(const struct model *m)
{
	print_message("lost: watch %u packet %u events %u fresh %u rests %u "
		      "helper %u fds %u %u chan %u kpoll %u threads %u %u\n",
		      m->watch, m->packet, m->events, m->fresh, m->rests,
		      m->helper, m->wake_fd, m->wait_fd, m->chan, m->kpoll,
		      m->t0, m->t1);
}

/* Every state that can be reached.  False: one is lost. */
static bool explore(struct search *x)
{
	struct model m = { .watch = UR_WATCH_ARMED };
	bool ok = true;

	*x = (struct search){ .marks = calloc(1, KEYS),
			      .todo = malloc(KEYS / 16 * sizeof(m)) };
	assert_non_null(x->marks);
	assert_non_null(x->todo);
	find(x, &m);
	while (ok && x->n) {
		struct steps s;

		m = x->todo[--x->n];
		x->states++;
		x->watches |= 1u << m.watch;
		ok = is_served(x, &m);
		if (!ok && !omit.on)
			print_state(&m);
		all_steps(&s, &m);
		assert_true(x->n + s.n < KEYS / 16);
		for (unsigned int i = 0; i < s.n; i++)
			find(x, &s.next[i]);
	}
	free(x->marks);
	free(x->todo);
	return ok;
}

static void no_wakeup_is_lost(void **state)
{
	struct search x;

	assert_true(explore(&x));
	assert_int_equal(x.watches, (1u << UR_WATCHES) - 1);
	assert_true(x.states > 10000);
}

/* Is a wakeup lost without that one of the table? */
static bool is_needed(enum ur_handover event, enum ur_watch watch)
{
	struct search x;
	bool lost;

	omit.on = true;
	omit.event = event;
	omit.watch = watch;
	lost = !explore(&x);
	omit.on = false;
	return lost;
}

/* The others only come sooner than the helper's timer or a packet. */
static const struct {
	enum ur_handover event;
	enum ur_watch watch;
} needed[] = {
	{ UR_HANDOVER_POLLED, UR_WATCH_WAITER },
	{ UR_HANDOVER_ENDS_RESTING, UR_WATCH_WAITER },
	{ UR_HANDOVER_LEAVES, UR_WATCH_WAITER },
};

static void missing_wakeups_are_found(void **state)
{
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		assert_true(ur_handover(needed[i].watch, needed[i].event).wake);
		assert_true(is_needed(needed[i].event, needed[i].watch));
	}
}

/* What cannot happen changes nothing. */
static void other_events_keep_the_state(void **state)
{
	unsigned int n = 0;

	for (unsigned int e = 0; e < UR_HANDOVERS; e++)
		for (unsigned int w = 0; w < UR_WATCHES; w++) {
			struct ur_handed next = ur_handover(w, e);

			n += reached[e][w];
			if (reached[e][w])
				continue;
			assert_int_equal(next.watch, w);
			assert_false(next.wake);
		}
	assert_int_equal(n, REACHED);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_wakeup_is_lost),
		cmocka_unit_test(missing_wakeups_are_found),
		cmocka_unit_test(other_events_keep_the_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
