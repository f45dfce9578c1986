/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notices from posters to the holder of a lane: a stack of QPs, any number of
 * producers, one consumer.  A QP is on it at most once.
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
 * The holder of the lane: all QPs that have rung, oldest first, linked by
 * ur_doorbell_next(), which must be asked before ur_doorbell_seen().
 */
struct ur_qp *ur_doorbell_take(struct ur_doorbell *d);
struct ur_qp *ur_doorbell_next(struct ur_qp *qp);

/* What the QP's owner posts from now on rings again; so call this before
 * looking at its queue. */
void ur_doorbell_seen(struct ur_qp *qp);

static inline bool ur_doorbell_is_set(struct ur_doorbell *d)
{
	return atomic_load_explicit(&d->head, memory_order_relaxed) != NULL;
}

#endif
