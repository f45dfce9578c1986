/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/moderate.h"

#include "base/timer.h"

void ur_moderator_init(struct ur_moderator *m)
{
	ur_lock_init(&m->lock);
	ur_list_init(&m->queues);
}

static void put_on(struct ur_moderator *m, struct ur_cq *cq)
{
	ur_list_add_tail(&m->queues, &cq->moderated);
	atomic_fetch_add_explicit(&m->count, 1, memory_order_relaxed);
}

static void take_off(struct ur_moderator *m, struct ur_cq *cq)
{
	ur_list_del(&cq->moderated);
	atomic_fetch_sub_explicit(&m->count, 1, memory_order_relaxed);
}

void ur_moderator_set(struct ur_moderator *m, struct ur_cq *cq, uint32_t count,
		      uint32_t period_us)
{
	bool wanted = count && period_us, is_on;

	ur_lock(&m->lock);
	is_on = !ur_list_empty(&cq->moderated);
	ur_cq_moderate(cq, count, period_us);
	if (wanted && !is_on)
		put_on(m, cq);
	else if (!wanted && is_on)
		take_off(m, cq);
	ur_unlock(&m->lock);
}

static uint64_t fires_at(const struct ur_cq *cq)
{
	return atomic_load_explicit(&cq->fire_at_ns, memory_order_relaxed);
}

uint64_t ur_moderator_deadline(struct ur_moderator *m)
{
	uint64_t at = UR_NEVER;

	if (!atomic_load_explicit(&m->count, memory_order_relaxed))
		return at;
	ur_lock(&m->lock);
	ur_list_each(struct ur_cq, cq, &m->queues, moderated)
		if (fires_at(cq) < at)
			at = fires_at(cq);
	ur_unlock(&m->lock);
	return at;
}

void ur_moderator_expire(struct ur_moderator *m, uint64_t now_ns)
{
	if (!atomic_load_explicit(&m->count, memory_order_relaxed))
		return;
	ur_lock(&m->lock);
	ur_list_each(struct ur_cq, cq, &m->queues, moderated)
		if (fires_at(cq) <= now_ns)
			ur_cq_fire(cq, now_ns);
	ur_unlock(&m->lock);
}
