/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asymmetric barriers between threads of this process: each side stores, then
 * reads what the other has stored. The frequent side takes the light barrier,
 * which only the compiler sees. The rare side takes the heavy one, which makes
 * every running thread of the process pass a full barrier (membarrier(2); 1 to
 * 10 us). Where the kernel refuses membarrier(), both are full barriers
 * (docs/decisions/0017).
 */
#ifndef UR_BASE_BARRIER_H
#define UR_BASE_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

/* Set when the library is loaded; cleared if membarrier() fails later. */
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
