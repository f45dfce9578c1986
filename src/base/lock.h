/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of control-path objects; queues and lanes use latches (latch.h), in
 * the same order. Waiters sleep in the kernel: on a machine with few cores the
 * holder may be off the CPU, and a spinning waiter would take its time. The order
 * is in docs/locks.md.
 */
#ifndef UR_BASE_LOCK_H
#define UR_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct ur_lock {
	pthread_mutex_t m;
};

#define UR_LOCK_INITIALIZER                                                    \
	{                                                                      \
		PTHREAD_MUTEX_INITIALIZER                                      \
	}

/*
 * Cancellation of the calling thread is off between `off` and the matching
 * `on`; they nest. A cancelled thread would never release its locks
 * (base/sys.h).
 */
void ur_cancel_off(void);
void ur_cancel_on(void);

static inline void ur_lock_init(struct ur_lock *l)
{
	pthread_mutex_init(&l->m, NULL);
}

static inline void ur_lock_fini(struct ur_lock *l)
{
	pthread_mutex_destroy(&l->m);
}

static inline void ur_lock(struct ur_lock *l)
{
	ur_cancel_off();
	pthread_mutex_lock(&l->m);
}

static inline bool ur_trylock(struct ur_lock *l)
{
	bool got;

	ur_cancel_off();
	got = pthread_mutex_trylock(&l->m) == 0;
	if (!got)
		ur_cancel_on();
	return got;
}

static inline void ur_unlock(struct ur_lock *l)
{
	pthread_mutex_unlock(&l->m);
	ur_cancel_on();
}

/* For calls that wait for the peer without limit and in which a thread may be
 * cancelled: rsockets. */
static inline void ur_lock_open(struct ur_lock *l)
{
	pthread_mutex_lock(&l->m);
}

static inline bool ur_trylock_open(struct ur_lock *l)
{
	return pthread_mutex_trylock(&l->m) == 0;
}

static inline void ur_unlock_open(struct ur_lock *l)
{
	pthread_mutex_unlock(&l->m);
}

#endif
