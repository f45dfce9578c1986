/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc.h"

#include <errno.h>
#include <stdlib.h>

struct ur_srq_table *ur_srq_table_new(void)
{
	struct ur_srq_table *t = calloc(1, sizeof(*t));

	if (t)
		ur_lock_init(&t->lock);
	return t;
}

void ur_srq_table_free(struct ur_srq_table *t)
{
	ur_lock_fini(&t->lock);
	free(t);
}

static struct ur_srq *at(const struct ur_srq_table *t, uint32_t index)
{
	return atomic_load_explicit(&t->slots[index & UR_SRQ_INDEX_MASK],
				    memory_order_acquire);
}

/* Numbers are reused late, so that delayed packets do not reach a new queue;
 * none is 0. */
int ur_srq_table_add(struct ur_srq_table *t, struct ur_srq *srq, uint32_t slot)
{
	int ret = -ENOMEM;

	ur_lock(&t->lock);
	if (t->count < UR_SRQ_INDEX_MASK) {
		do {
			t->next = (t->next + 1) & UR_SRQ_INDEX_MASK;
		} while (t->next == 0 || at(t, t->next));
		srq->number = slot << UR_SLOT_SHIFT | t->next;
		atomic_store_explicit(&t->slots[t->next], srq,
				      memory_order_release);
		t->count++;
		ret = 0;
	}
	ur_unlock(&t->lock);
	return ret;
}

void ur_srq_table_remove(struct ur_srq_table *t, struct ur_srq *srq)
{
	ur_lock(&t->lock);
	if (at(t, srq->number) == srq) {
		atomic_store_explicit(
			&t->slots[srq->number & UR_SRQ_INDEX_MASK], NULL,
			memory_order_release);
		t->count--;
	}
	ur_unlock(&t->lock);
}

struct ur_srq *ur_srq_lookup(const struct ur_srq_table *t, uint32_t number,
			     const struct ur_xrcd *xrcd)
{
	struct ur_srq *srq = at(t, number);

	return srq && srq->number == number && srq->xrcd == xrcd ? srq : NULL;
}

void ur_srq_table_feed(struct ur_srq_table *t, const struct ur_xrcd *xrcd,
		       uint64_t bit)
{
	ur_lock(&t->lock);
	for (uint32_t i = 1; i <= UR_SRQ_INDEX_MASK; i++) {
		struct ur_srq *srq = at(t, i);

		if (srq && srq->xrcd == xrcd)
			atomic_fetch_or_explicit(&srq->cq->lanes, bit,
						 memory_order_release);
	}
	ur_unlock(&t->lock);
}
