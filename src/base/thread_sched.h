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
 * Are there more runnable threads than cores, as sampled within the last
 * millisecond (of CLOCK_MONOTONIC)? Then spinning may keep the awaited thread
 * off its core.
 */
bool ur_sched_is_oversubscribed(uint64_t now_ns);

#endif
