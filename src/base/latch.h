/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of the data path: queues and lanes.  As base/lock.h, whose order
 * it shares, but inline: one atomic operation to take it, one to give it back,
 * and waiters sleep in the kernel.  Nobody can wait on a condition with it.
 *
 * Taking it by force and giving it back are read-modify-writes of one word
 * and so have an order, on which engine/lane.c relies: whoever gives it back
 * sees all that was written before a ur_latch_knock() that failed meanwhile.
 */
#ifndef UR_BASE_LATCH_H
#define UR_BASE_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define UR_LATCH_HELD	  1u
#define UR_LATCH_SLEEPERS 2u /* never alone */

struct ur_latch {
	_Atomic uint32_t word;
};

/* latch.c */
void ur_latch_wait(struct ur_latch *l);
void ur_latch_wake(struct ur_latch *l);

static inline void ur_latch_init(struct ur_latch *l)
{
	atomic_init(&l->word, 0);
}

static inline bool ur_latch_try(struct ur_latch *l)
{
	uint32_t open = 0;

	return atomic_compare_exchange_strong_explicit(&l->word, &open,
						       UR_LATCH_HELD,
						       memory_order_acquire,
						       memory_order_relaxed);
}

/* The same, and who holds it sees that we were here. */
static inline bool ur_latch_knock(struct ur_latch *l)
{
	return !(atomic_fetch_or_explicit(&l->word, UR_LATCH_HELD,
					  memory_order_acq_rel) &
		 UR_LATCH_HELD);
}

static inline void ur_latch_lock(struct ur_latch *l)
{
	if (!ur_latch_try(l))
		ur_latch_wait(l);
}

static inline void ur_latch_unlock(struct ur_latch *l)
{
	if (atomic_exchange_explicit(&l->word, 0, memory_order_acq_rel) &
	    UR_LATCH_SLEEPERS)
		ur_latch_wake(l);
}

/*
 * After a latch was given back: as atomic_thread_fence(memory_order_seq_cst).
 * Where locked instructions order everything before them with everything
 * behind them, the processor has had its barrier, and the compiler moves
 * nothing across an operation that acquires and releases.
 */
static inline void ur_latch_barrier(void)
{
#if defined(__x86_64__)
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

#endif
