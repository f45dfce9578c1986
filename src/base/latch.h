/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of the data path: queues and lanes. Same lock order as base/lock.h,
 * but inline: one atomic operation to lock, one to unlock, and waiters sleep in
 * the kernel. It has no condition variables.
 *
 * A thread that has locked it many times in a row, without another in between,
 * is given a bias: it then locks and unlocks by plain loads and stores. Another
 * thread that wants the latch revokes the bias (latch.c; docs/decisions/0017).
 *
 * Without a bias, ur_latch_contend() and unlocking are read-modify-writes of
 * one word and so are ordered, which engine/lane.c relies on: the unlocking
 * thread sees all that was written before a ur_latch_contend() that failed
 * meanwhile. With a bias, the heavy barrier in ur_latch_contend() has the same
 * effect.
 */
#ifndef UR_BASE_LATCH_H
#define UR_BASE_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/barrier.h"

#define UR_LATCH_HELD	  1u
#define UR_LATCH_SLEEPERS 2u /* only together with HELD */
/* The bits above hold the owner's index in by[]. */
#define UR_LATCH_BIASED	  4u /* only together with the index */
#define UR_LATCH_REVOKED  8u /* likewise: the bias is being revoked */
#define UR_LATCH_OF	  16u

#define UR_LATCH_OWNERS	     4u
#define UR_LATCH_RUNNING_MIN 64u

struct ur_latch {
	_Atomic uint32_t word;
	/* Acquisitions in a row by `last` or the bias' owner; written by the
	 * holder. */
	_Atomic uint32_t streak;
	uint32_t need; /* streak that earns a bias; holder only */
	struct {
		_Atomic uint32_t inside;     /* holds it by its bias */
		_Atomic(const void *) owner; /* never changes once set */
	} by[UR_LATCH_OWNERS];
	const void *last; /* holder only */
};

/* Identifies the calling thread: the address of its control block. */
static inline const void *ur_latch_self(void)
{
#if defined(__x86_64__) /* clang 14 has no __builtin_thread_pointer() for it */
	const void *self;

	__asm__("mov %%fs:0, %0" : "=r"(self));
	return self;
#else
	return __builtin_thread_pointer();
#endif
}

/* latch.c: slow paths of the functions below. */
void ur_latch_init(struct ur_latch *l);
void ur_latch_lock_slow(struct ur_latch *l);
void ur_latch_wake(struct ur_latch *l);
void ur_latch_exit(struct ur_latch *l, uint32_t by);
void ur_latch_grant(struct ur_latch *l);
bool ur_latch_try_slow(struct ur_latch *l);
bool ur_latch_contend(struct ur_latch *l);

static inline uint32_t ur_latch_count(struct ur_latch *l)
{
	uint32_t n = atomic_load_explicit(&l->streak, memory_order_relaxed) + 1;

	atomic_store_explicit(&l->streak, n, memory_order_relaxed);
	return n;
}

/* The owner sets `inside`, then checks the word. A revoker changes the word,
 * then checks `inside`, with the heavy barrier between. */
static inline bool ur_latch_enter(struct ur_latch *l, uint32_t word)
{
	uint32_t by = word / UR_LATCH_OF;

	/* Inside already: this is a signal handler. */
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
	ur_latch_exit(l, by);
	return false;
}

/* Without writing to the latch: has a biased thread locked it at least
 * UR_LATCH_RUNNING_MIN times since *seen was written here? */
static inline bool ur_latch_is_running(const struct ur_latch *l, uint32_t *seen)
{
	uint32_t was = *seen;

	*seen = atomic_load_explicit(&l->streak, memory_order_relaxed);
	return atomic_load_explicit(&l->word, memory_order_relaxed) &
		       UR_LATCH_BIASED &&
	       *seen - was >= UR_LATCH_RUNNING_MIN;
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
	       ur_latch_try_slow(l);
}

static inline void ur_latch_lock(struct ur_latch *l)
{
	uint32_t word = atomic_load_explicit(&l->word, memory_order_relaxed);

	if (ur_latch_enter(l, word))
		return;
	if (word != 0 || !atomic_compare_exchange_strong_explicit(
				 &l->word, &word, UR_LATCH_HELD,
				 memory_order_acquire, memory_order_relaxed))
		ur_latch_lock_slow(l);
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
			ur_latch_exit(l, by);
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
