/* SPDX-License-Identifier: BSD-2-Clause */
/* Scheduling of a thread that serves others: low wakeup latency, short runs. */
#ifndef UR_BASE_THREAD_SCHED_H
#define UR_BASE_THREAD_SCHED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Give the calling thread short slices, so that it preempts when it wakes
 * (Linux 6.12 and newer; nothing else of its scheduling changes), and minimal
 * timer slack.
 */
void ur_sched_short_slices(void);

/* Make the calling thread SCHED_FIFO with that priority (1 to 99), or
 * SCHED_OTHER again (0). False: not permitted, nothing has changed. */
bool ur_sched_set_realtime(int priority);

/* CPUs in the calling thread's affinity mask, at least 1. */
unsigned int ur_sched_cpus(void);

/* A mutex with priority inheritance. */
void ur_sched_mutex_init(pthread_mutex_t *m);

/*
 * A lock that a real-time thread holds nearly all the time and ordinary threads
 * take now and then. A plain mutex would starve them: a woken waiter does not
 * run before the real-time thread takes the lock again.
 */
struct ur_sched_lock {
	pthread_mutex_t m;
	pthread_mutex_t next; /* held by a waiter until it has m */
	atomic_bool wanted;   /* by the holder of next */
};

void ur_sched_lock_init(struct ur_sched_lock *l);

/* For the frequent holder: a waiter gets the lock first, and inherits this
 * thread's priority until it unlocks. */
void ur_sched_lock_frequent(struct ur_sched_lock *l);

/* For the other threads. */
void ur_sched_lock_rare(struct ur_sched_lock *l);

void ur_sched_unlock(struct ur_sched_lock *l);

/* Sleep for ns, less than a second; returns the time it took. */
uint64_t ur_sched_sleep(uint64_t ns);

/*
 * Runnable threads of the machine for each of its processors, rounded up; at least
 * 1.  Sampled within the last millisecond (of CLOCK_MONOTONIC), or, while it was
 * more than 1, the last 16 ms.
 */
uint32_t ur_sched_load(uint64_t now_ns);

/* The last sample of any thread; reads neither clock nor file. */
uint32_t ur_sched_last_load(void);

/* Then spinning may keep the awaited thread off its core. */
static inline bool ur_sched_is_oversubscribed(uint64_t now_ns)
{
	return ur_sched_load(now_ns) > 1;
}

#endif
