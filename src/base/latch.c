/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whoever has to wait takes the latch as one with sleepers, whether there are
 * more or not: at worst it is given back with a call that wakes nobody.
 * Programs do not expect errno to change by a lock.
 *
 * Ending a bias.  One at a time marks it as revoked, then passes the heavy
 * barrier, then looks whether the owner is inside.  The owner says that it is,
 * and then looks for the mark.  So either it finds the mark and turns back, or
 * it is seen inside; and what it does after it was seen there, such as giving
 * the latch back and then looking at the bell, comes after all that was written
 * before the mark.
 *
 * A place in by[] is never given to another thread.  Its owner may have looked
 * at the word long ago and mark itself inside only now: that must not be taken
 * for somebody else's mark, nor wipe it out.  (A thread that comes to have the
 * name of one that has ended is the same to us.)
 */
#include "base/latch.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/barrier.h"
#include "base/sys.h"

/* The first bias comes after so many turns; ending one costs as much as a
 * thousand of them save. */
#define NEED_MIN 64u
#define NEED_MAX (1u << 24)
#define PAID_OFF 1024u
#define YIELDS	 16u

static void futex_wait(_Atomic uint32_t *word, uint32_t is)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, is, NULL, NULL, 0);
	errno = saved;
}

/* Its memory may be gone by now: the kernel then finds nobody there. */
static void futex_wake(_Atomic uint32_t *word, int n)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
	errno = saved;
}

void ur_latch_init(struct ur_latch *l)
{
	*l = (struct ur_latch){ .need = NEED_MIN };
}

void ur_latch_wake(struct ur_latch *l)
{
	futex_wake(&l->word, 1);
}

/* Who ends the bias may be waiting for that. */
void ur_latch_left(struct ur_latch *l, uint32_t by)
{
	atomic_store_explicit(&l->by[by].inside, 0, memory_order_release);
	futex_wake(&l->by[by].inside, 1);
}

static bool is_own(const struct ur_latch *l, uint32_t word)
{
	return atomic_load_explicit(&l->by[word / UR_LATCH_OF].owner,
				    memory_order_relaxed) == ur_latch_self();
}

/* We, and inside already: as if somebody else were. */
static bool is_inside(const struct ur_latch *l, uint32_t word)
{
	return word & (UR_LATCH_BIASED | UR_LATCH_REVOKED) && is_own(l, word) &&
	       atomic_load_explicit(&l->by[word / UR_LATCH_OF].inside,
				    memory_order_relaxed);
}

/* Somebody is about to end a bias, and may need our core for that. */
static void give_way(unsigned int *times)
{
	const struct timespec nap = { .tv_nsec = 20000 };
	int saved = errno;

	if (++*times < YIELDS)
		sched_yield();
	else
		ur_sys_nanosleep(&nap);
	errno = saved;
}

static bool mark(struct ur_latch *l, uint32_t word)
{
	return atomic_compare_exchange_strong_explicit(
		&l->word, &word, (word ^ UR_LATCH_BIASED) | UR_LATCH_REVOKED,
		memory_order_acq_rel, memory_order_relaxed);
}

/* Those who came meanwhile sleep, and are woken when it is given back. */
static void take_revoked(struct ur_latch *l)
{
	if (atomic_load_explicit(&l->streak, memory_order_relaxed) < PAID_OFF)
		l->need = l->need < NEED_MAX ? l->need * 2 : NEED_MAX;
	else
		l->need = l->need / 2 > NEED_MIN ? l->need / 2 : NEED_MIN;
	l->last = NULL;
	atomic_store_explicit(&l->streak, 0, memory_order_relaxed);
	atomic_exchange_explicit(&l->word, UR_LATCH_HELD | UR_LATCH_SLEEPERS,
				 memory_order_acq_rel);
}

/* After mark() of `word`.  False, without `wait`: the owner is inside. */
static bool end_bias(struct ur_latch *l, uint32_t word, bool wait)
{
	_Atomic uint32_t *inside = &l->by[word / UR_LATCH_OF].inside;

	ur_barrier_heavy();
	while (atomic_load_explicit(inside, memory_order_acquire)) {
		if (!wait) {
			atomic_exchange_explicit(&l->word, word,
						 memory_order_acq_rel);
			futex_wake(&l->word, INT_MAX);
			return false;
		}
		futex_wait(inside, 1);
	}
	take_revoked(l);
	return true;
}

void ur_latch_wait(struct ur_latch *l)
{
	const uint32_t full = UR_LATCH_HELD | UR_LATCH_SLEEPERS;

	for (;;) {
		uint32_t word =
			atomic_load_explicit(&l->word, memory_order_relaxed);

		if (ur_latch_enter(l, word))
			return;
		if (is_inside(l, word)) {
			futex_wait(&l->by[word / UR_LATCH_OF].inside, 1);
			continue;
		}
		if (word & UR_LATCH_BIASED) {
			if (is_own(l, word) || !mark(l, word))
				continue;
			(void)end_bias(l, word, true);
			return;
		}
		if (word == full || word & UR_LATCH_REVOKED) {
			futex_wait(&l->word, word);
			continue;
		}
		if (atomic_compare_exchange_strong_explicit(
			    &l->word, &word, full, memory_order_acquire,
			    memory_order_relaxed) &&
		    word == 0)
			return;
	}
}

/*
 * Without waiting for a holder.  The owner itself is never sent away because
 * somebody is about to end its bias: he may find it inside, by this very
 * attempt, and leave the bell to it.  Who contenders is not sent away either: whose
 * barrier that was may have been before him.
 */
static bool attempt(struct ur_latch *l, bool contenders)
{
	unsigned int times = 0;

	for (;;) {
		uint32_t word =
			atomic_load_explicit(&l->word, memory_order_relaxed);

		if (ur_latch_enter(l, word))
			return true;
		if (is_inside(l, word))
			return false;
		if (word & UR_LATCH_BIASED) {
			if (!is_own(l, word) && mark(l, word))
				return end_bias(l, word, false);
		} else if (word & UR_LATCH_REVOKED) {
			if (!contenders && !is_own(l, word))
				return false;
			give_way(&times);
		} else if (word != 0 && !contenders) {
			return false;
		} else if (atomic_compare_exchange_strong_explicit(
				   &l->word, &word, word | UR_LATCH_HELD,
				   memory_order_acq_rel,
				   memory_order_relaxed)) {
			return !(word & UR_LATCH_HELD);
		}
	}
}

bool ur_latch_take_over(struct ur_latch *l)
{
	return attempt(l, false);
}

bool ur_latch_contend(struct ur_latch *l)
{
	return attempt(l, true);
}

static void give_back(struct ur_latch *l)
{
	if (atomic_exchange_explicit(&l->word, 0, memory_order_acq_rel) &
	    UR_LATCH_SLEEPERS)
		ur_latch_wake(l);
}

/* This thread's place; UR_LATCH_OWNERS: there is none left. */
static uint32_t place(struct ur_latch *l)
{
	uint32_t i = 0;

	while (i < UR_LATCH_OWNERS) {
		const void *is = atomic_load_explicit(&l->by[i].owner,
						      memory_order_relaxed);

		if (!is)
			atomic_store_explicit(&l->by[i].owner, ur_latch_self(),
					      memory_order_relaxed);
		if (!is || is == ur_latch_self())
			break;
		i++;
	}
	return i;
}

/* Gives the latch back, to its holder alone if nobody waits for it. */
void ur_latch_grant(struct ur_latch *l)
{
	uint32_t by = UR_LATCH_OWNERS, held = UR_LATCH_HELD;

	if (atomic_load_explicit(&ur_barrier_split, memory_order_relaxed))
		by = place(l);
	atomic_store_explicit(&l->streak, 0, memory_order_relaxed);
	if (by == UR_LATCH_OWNERS ||
	    !atomic_compare_exchange_strong_explicit(
		    &l->word, &held, UR_LATCH_BIASED | by * UR_LATCH_OF,
		    memory_order_acq_rel, memory_order_relaxed))
		give_back(l);
}
