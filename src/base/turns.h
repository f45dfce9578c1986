/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a thread that serves others wants the processor: soon, for a moment.
 */
#ifndef UR_BASE_TURNS_H
#define UR_BASE_TURNS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Of the calling thread: short slices, for which it takes the core when it
 * wakes (Linux 6.12 and newer; nothing else of its scheduling changes), and
 * timers that are not late on purpose.
 */
void ur_turns_short(void);

/*
 * Of the calling thread: from now on it comes before ordinary ones, with that
 * priority (SCHED_FIFO, 1 to 99), or is one of them again (0).  False: it may
 * not, and nothing has changed.
 */
bool ur_turns_first(int priority);

/* A lock of such a thread: while it waits for it who has it comes first too. */
void ur_turns_lock_init(pthread_mutex_t *m);

/* Sleep so long, less than a second; how long it was. */
uint64_t ur_turns_nap(uint64_t ns);

/*
 * Do more threads want to run than the machine has cores, as far as was seen
 * within the last millisecond (of CLOCK_MONOTONIC)?  Then who spins may keep
 * the one from working that he waits for.
 */
bool ur_turns_crowded(uint64_t now_ns);

#endif
