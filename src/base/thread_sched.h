/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a thread that serves others wants the processor: soon, for a moment.
 */
#ifndef UR_BASE_THREAD_SCHED_H
#define UR_BASE_THREAD_SCHED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Of the calling thread: short slices, for which it takes the core when it
 * wakes (Linux 6.12 and newer; nothing else of its scheduling changes), and
 * timers that are not late on purpose.
 */
void ur_sched_short(void);

/*
 * Of the calling thread: from now on it comes before ordinary ones, with that
 * priority (SCHED_FIFO, 1 to 99), or is one of them again (0).  False: it may
 * not, and nothing has changed.
 */
bool ur_sched_first(int priority);

/* How many cores the calling thread may have, 1 at least. */
unsigned int ur_sched_cores(void);

/* A lock of such a thread: while it waits for it who has it comes first too. */
void ur_sched_mutex_init(pthread_mutex_t *m);

/*
 * A lock that such a thread has nearly all the time, and others now and then.
 * An ordinary thread would never get it: it is woken, but before it runs the
 * other takes it again, or a program has the core.
 */
struct ur_sched_lock {
	pthread_mutex_t m;
	pthread_mutex_t next; /* who is to have m next, till he has it */
	atomic_bool wanted;   /* by him */
};

void ur_sched_lock_init(struct ur_sched_lock *l);
void ur_sched_lock_fini(struct ur_sched_lock *l);

/* Of the thread that has it often: who waits has it before, and comes first
 * until he gives it back. */
void ur_sched_take(struct ur_sched_lock *l);

/* Of the others. */
void ur_sched_ask(struct ur_sched_lock *l);

void ur_sched_give(struct ur_sched_lock *l);

/* Sleep so long, less than a second; how long it was. */
uint64_t ur_sched_nap(uint64_t ns);

/*
 * Do more threads want to run than the machine has cores, as far as was seen
 * within the last millisecond (of CLOCK_MONOTONIC)?  Then who spins may keep
 * the one from working that he waits for.
 */
bool ur_sched_crowded(uint64_t now_ns);

#endif
