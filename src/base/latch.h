/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of the data path: queues and lanes.  As base/lock.h, whose order
 * it shares, but inline: one atomic operation to take it, one to give it back,
 * and waiters sleep in the kernel.  Nobody can wait on a condition with it.
 *
 * A thread that has taken it many times in a row, with nobody in between, is
 * given a bias: it then takes it and gives it back by plain loads and stores,
 * until somebody else comes, who pays for both (latch.c; docs/decisions/0017).
 *
 * Without a bias, taking it by force and giving it back are read-modify-writes
 * of one word and so have an order, on which engine/lane.c relies: whoever
 * gives it back sees all that was written before a ur_latch_contend() that failed
 * meanwhile.  With one, the heavy barrier of who contenders does the same.
 */
#ifndef UR_BASE_LATCH_H
#define UR_BASE_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/barrier.h"

#if !defined(__x86_64__)
#error "latch.h: written for x86-64 only"
#endif

#define UR_LATCH_HELD	  1u
#define UR_LATCH_SLEEPERS 2u /* never alone */
/* Whose bias it is stands above: one of by[]. */
#define UR_LATCH_BIASED	  4u /* alone */
#define UR_LATCH_REVOKED  8u /* alone: somebody is about to end the bias */
#define UR_LATCH_OF	  16u

#define UR_LATCH_OWNERS 4u
#define UR_LATCH_OFTEN	64u

struct ur_latch {
	_Atomic uint32_t word;
	/* Times that `last`, or the owner, took it in a row; the holder's. */
	_Atomic uint32_t streak;
	uint32_t need; /* streak for a bias; the holder's */
	struct {
		_Atomic uint32_t inside;     /* by its bias */
		_Atomic(const void *) owner; /* once set, for good */
	} by[UR_LATCH_OWNERS];
	const void *last; /* the holder's */
};

/* A name for the calling thread: where its control block is. */
static inline const void *ur_latch_self(void)
{
	const void *self;

	__asm__("mov %%fs:0, %0" : "=r"(self));
	return self;
}

/* latch.c: what is not the usual case of the functions below. */
void ur_latch_init(struct ur_latch *l);
void ur_latch_wait(struct ur_latch *l);
void ur_latch_wake(struct ur_latch *l);
void ur_latch_left(struct ur_latch *l, uint32_t by);
void ur_latch_grant(struct ur_latch *l);
bool ur_latch_take_over(struct ur_latch *l);
bool ur_latch_contend(struct ur_latch *l);

static inline uint32_t ur_latch_count(struct ur_latch *l)
{
	uint32_t n = atomic_load_explicit(&l->streak, memory_order_relaxed) + 1;

	atomic_store_explicit(&l->streak, n, memory_order_relaxed);
	return n;
}

/* The owner tells that it is inside, then looks whether it may; who ends the
 * bias does both the other way round, with the heavy barrier. */
static inline bool ur_latch_enter(struct ur_latch *l, uint32_t word)
{
	uint32_t by = word / UR_LATCH_OF;

	/* Inside already: a handler has interrupted us there. */
	if (!(word & UR_LATCH_BIASED) ||
	    atomic_load_explicit(&l->by[by].owner, memory_order_relaxed) !=
		    ur_latch_self() ||
	    atomic_load_explicit(&l->by[by].inside, memory_order_relaxed))
		return false;
	atomic_store_explicit(&l->by[by].inside, 1, memory_order_relaxed);
	ur_barrier_light();
	if (__builtin_expect(atomic_load_explicit(&l->word,
						  memory_order_acquire) == word,
			     1)) {
		ur_latch_count(l);
		return true;
	}
	ur_latch_left(l, by);
	return false;
}

/*
 * Without touching it: has a thread with a bias taken it since *seen was
 * written here, more than now and then?
 */
static inline bool ur_latch_is_running(const struct ur_latch *l, uint32_t *seen)
{
	uint32_t was = *seen;

	*seen = atomic_load_explicit(&l->streak, memory_order_relaxed);
	return atomic_load_explicit(&l->word, memory_order_relaxed) &
		       UR_LATCH_BIASED &&
	       *seen - was >= UR_LATCH_OFTEN;
}

static inline bool ur_latch_try(struct ur_latch *l)
{
	uint32_t word = atomic_load_explicit(&l->word, memory_order_relaxed);

	if (ur_latch_enter(l, word))
		return true;
	if (word == 0)
		return atomic_compare_exchange_strong_explicit(
			&l->word, &word, UR_LATCH_HELD, memory_order_acquire,
			memory_order_relaxed);
	return word & (UR_LATCH_BIASED | UR_LATCH_REVOKED) &&
	       ur_latch_take_over(l);
}

static inline void ur_latch_lock(struct ur_latch *l)
{
	uint32_t word = atomic_load_explicit(&l->word, memory_order_relaxed);

	if (ur_latch_enter(l, word))
		return;
	if (word != 0 || !atomic_compare_exchange_strong_explicit(
				 &l->word, &word, UR_LATCH_HELD,
				 memory_order_acquire, memory_order_relaxed))
		ur_latch_wait(l);
}

static inline void ur_latch_unlock(struct ur_latch *l)
{
	uint32_t word = atomic_load_explicit(&l->word, memory_order_relaxed);

	if (word & (UR_LATCH_BIASED | UR_LATCH_REVOKED)) {
		uint32_t by = word / UR_LATCH_OF;

		atomic_store_explicit(&l->by[by].inside, 0,
				      memory_order_release);
		ur_barrier_light();
		if (atomic_load_explicit(&l->word, memory_order_relaxed) &
		    UR_LATCH_REVOKED)
			ur_latch_left(l, by);
		return;
	}
	if (l->last == ur_latch_self()) {
		if (ur_latch_count(l) >= l->need) {
			ur_latch_grant(l);
			return;
		}
	} else {
		l->last = ur_latch_self();
		atomic_store_explicit(&l->streak, 0, memory_order_relaxed);
	}
	if (atomic_exchange_explicit(&l->word, 0, memory_order_acq_rel) &
	    UR_LATCH_SLEEPERS)
		ur_latch_wake(l);
}

#endif
