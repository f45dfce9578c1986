/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why no request is missed: a poster commits its requests and then sets
 * db_rung by an exchange; the holder clears db_rung by an exchange and then
 * reads the queue.  Exchanges on one variable have one order.  If the
 * poster's comes first, the holder's exchange reads what it wrote (or what
 * another poster wrote over it, by an exchange, which keeps the chain), so
 * the committed requests are visible to the holder.  If it comes second, the
 * poster finds db_rung false and queues the QP again.
 */
#include "engine/doorbell.h"

void ur_doorbell_ring(struct ur_doorbell *d, struct ur_qp *qp)
{
	struct ur_qp *head;

	if (atomic_exchange_explicit(&qp->db_rung, true, memory_order_acq_rel))
		return;
	head = atomic_load_explicit(&d->head, memory_order_relaxed);
	do {
		atomic_store_explicit(&qp->db_next, head, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(&d->head, &head, qp,
							memory_order_release,
							memory_order_relaxed));
}

struct ur_qp *ur_doorbell_next(struct ur_qp *qp)
{
	return atomic_load_explicit(&qp->db_next, memory_order_relaxed);
}

struct ur_qp *ur_doorbell_take(struct ur_doorbell *d)
{
	struct ur_qp *qp =
		atomic_exchange_explicit(&d->head, NULL, memory_order_acquire);
	struct ur_qp *oldest = NULL;

	/* A stack is last in, first out: reverse it, for fairness. */
	while (qp) {
		struct ur_qp *next = ur_doorbell_next(qp);

		atomic_store_explicit(&qp->db_next, oldest,
				      memory_order_relaxed);
		oldest = qp;
		qp = next;
	}
	return oldest;
}

void ur_doorbell_seen(struct ur_qp *qp)
{
	(void)atomic_exchange_explicit(&qp->db_rung, false,
				       memory_order_acq_rel);
}
