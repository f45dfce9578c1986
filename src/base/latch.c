/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A waiter always takes the latch with UR_LATCH_SLEEPERS set, whether there are
 * more waiters or not: at worst the unlock makes one futile futex call. errno
 * is preserved, since programs do not expect a lock to change it.
 *
 * Revoking a bias. One thread at a time marks it as revoked, passes the heavy
 * barrier, then checks whether the owner is inside. The owner says that it is
 * inside, then checks for the mark. So either the owner finds the mark and
 * backs out, or it is seen inside. What the owner does after it was seen there,
 * such as unlocking and then checking the wakeup fd, is ordered after all that
 * was written before the mark.
 *
 * A place in by[] is never given to another thread: its owner may have read the
 * word long ago and mark itself inside only now. That must neither count as
 * another owner's mark nor clear it. (A new thread whose control block has the
 * address of one that has ended counts as the same owner.)
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

/* The first bias comes after NEED_MIN acquisitions in a row. Revoking one costs
 * as much as about a thousand biased acquisitions save. */
#define NEED_MIN   64u
#define NEED_MAX   (1u << 24)
#define BIAS_WORTH 1024u
#define YIELDS	   16u

static void futex_wait(_Atomic uint32_t *word, uint32_t is)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, is, NULL, NULL, 0);
	errno = saved;
}

/* The latch may be freed by now: the kernel then finds no waiter. */
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

/* The thread that revokes the bias may be waiting for `inside`. */
void ur_latch_exit(struct ur_latch *l, uint32_t by)
{
	atomic_store_explicit(&l->by[by].inside, 0, memory_order_release);
	futex_wake(&l->by[by].inside, 1);
}

static bool is_own(const struct ur_latch *l, uint32_t word)
{
	return atomic_load_explicit(&l->by[word / UR_LATCH_OF].owner,
				    memory_order_relaxed) == ur_latch_self();
}

/* This thread is inside already: to be treated as a foreign holder. */
static bool is_inside(const struct ur_latch *l, uint32_t word)
{
	return word & (UR_LATCH_BIASED | UR_LATCH_REVOKED) && is_own(l, word) &&
	       atomic_load_explicit(&l->by[word / UR_LATCH_OF].inside,
				    memory_order_relaxed);
}

/* Another thread is revoking a bias and may need this core. */
static void back_off(unsigned int *times)
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

/* Threads that came meanwhile sleep, and are woken by the unlock. */
static void take_revoked(struct ur_latch *l)
{
	if (atomic_load_explicit(&l->streak, memory_order_relaxed) < BIAS_WORTH)
		l->need = l->need < NEED_MAX ? l->need * 2 : NEED_MAX;
	else
		l->need = l->need / 2 > NEED_MIN ? l->need / 2 : NEED_MIN;
	l->last = NULL;
	atomic_store_explicit(&l->streak, 0, memory_order_relaxed);
	atomic_exchange_explicit(&l->word, UR_LATCH_HELD | UR_LATCH_SLEEPERS,
				 memory_order_acq_rel);
}

/* After mark() of `word`. Without `wait`, false if the owner is inside. */
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

void ur_latch_lock_slow(struct ur_latch *l)
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
 * Does not wait for a holder. The owner itself never fails because a revocation
 * is in progress: the revoker may find it inside, by this very attempt, and
 * leave the wakeup to it. A contender does not fail for that reason either: the
 * revoker's barrier may have preceded the contender's stores.
 */
static bool attempt(struct ur_latch *l, bool contend)
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
			if (!contend && !is_own(l, word))
				return false;
			back_off(&times);
		} else if (word != 0 && !contend) {
			return false;
		} else if (atomic_compare_exchange_strong_explicit(
				   &l->word, &word, word | UR_LATCH_HELD,
				   memory_order_acq_rel,
				   memory_order_relaxed)) {
			return !(word & UR_LATCH_HELD);
		}
	}
}

bool ur_latch_try_slow(struct ur_latch *l)
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

/* This thread's place; UR_LATCH_OWNERS: none is free. */
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

/* Unlock, biased towards the holder if no thread waits. */
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
