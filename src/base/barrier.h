/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Barriers between threads of this process of which one side runs often and
 * the other seldom: who stores, then looks at what the other has stored.  The
 * frequent side takes the light one, which only the compiler sees; the other
 * the heavy one, which makes every running thread of the process pass a full
 * barrier (membarrier(2); 1 to 10 us).  Where the kernel does not let us, both
 * are full barriers (docs/decisions/0017).
 */
#ifndef UR_BASE_BARRIER_H
#define UR_BASE_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

/* Set when the library is loaded; cleared if the kernel changes its mind. */
extern _Atomic bool ur_barrier_split;

static inline void ur_barrier_light(void)
{
	if (__builtin_expect(atomic_load_explicit(&ur_barrier_split,
						  memory_order_relaxed),
			     1))
		atomic_signal_fence(memory_order_seq_cst);
	else
		atomic_thread_fence(memory_order_seq_cst);
}

/* Not in a signal handler; errno is kept. */
void ur_barrier_heavy(void);

#endif
