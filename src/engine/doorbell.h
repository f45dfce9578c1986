/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From threads that post to the holder of the lane's lock: a stack of QPs, with
 * any number of producers and one consumer.  A QP is on it at most once.
 */
#ifndef UR_ENGINE_DOORBELL_H
#define UR_ENGINE_DOORBELL_H

#include "core/qp.h"

struct ur_doorbell {
	struct ur_qp *_Atomic head;
};

static inline void ur_doorbell_init(struct ur_doorbell *d)
{
	atomic_init(&d->head, NULL);
}

/* Any thread.  The requests must have been committed. */
void ur_doorbell_ring(struct ur_doorbell *d, struct ur_qp *qp);

/*
 * The lock's holder: takes all QPs off, oldest first, linked by
 * ur_doorbell_next(), which must be called before ur_doorbell_seen().
 */
struct ur_qp *ur_doorbell_take(struct ur_doorbell *d);
struct ur_qp *ur_doorbell_next(struct ur_qp *qp);

/* The next post rings again.  Call it before reading the QP's queue. */
void ur_doorbell_seen(struct ur_qp *qp);

static inline bool ur_doorbell_is_set(struct ur_doorbell *d)
{
	return atomic_load_explicit(&d->head, memory_order_relaxed) != NULL;
}

#endif
