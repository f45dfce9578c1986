/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of the adapter's objects; those of the data path are latches
 * (latch.h), in the same order.  A waiter sleeps in the kernel: on a
 * machine with few cores the holder may be off the CPU, and then a spinning
 * waiter burns the holder's time.  Order, outermost first:
 * lane > qp.sq / qp.rq / srq > cq > channel, event queue > mr table > window.
 */
#ifndef UR_BASE_LOCK_H
#define UR_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct ur_lock {
	pthread_mutex_t m;
};

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
	pthread_mutex_lock(&l->m);
}

static inline bool ur_trylock(struct ur_lock *l)
{
	return pthread_mutex_trylock(&l->m) == 0;
}

static inline void ur_unlock(struct ur_lock *l)
{
	pthread_mutex_unlock(&l->m);
}

#endif
