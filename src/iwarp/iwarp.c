/* SPDX-License-Identifier: BSD-2-Clause */
/* The lane: the queue of QPs with work for their link, and deadlines. */
#include "iwarp/iwarp.h"

#include <errno.h>
#include <stdlib.h>

#include "core/ringmem.h"
#include "iwarp/internal.h"

int ur_iwarp_create(const struct ur_iwarp_config *cfg, struct ur_iwarp **out)
{
	struct ur_iwarp *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->qps = calloc(1u << UR_SLOT_SHIFT, sizeof(struct ur_iwqp *));
	if (!w->qps) {
		free(w);
		return -ENOMEM;
	}
	w->slot = cfg->slot;
	w->mrs = cfg->mrs;
	w->patient = cfg->patient;
	w->delivered = cfg->delivered;
	ur_rng_seed(&w->rng, cfg->seed);
	w->next_index = ur_rng_below(&w->rng, UR_IW_INDEX_MASK);
	ur_timers_init(&w->timers);
	ur_list_init(&w->ready);
	ur_list_init(&w->batches);
	*out = w;
	return 0;
}

void ur_iwarp_destroy(struct ur_iwarp *w)
{
	ur_list_each_safe(struct ur_iw_batch, b, &w->batches, node)
		free(b);
	while (w->spares)
		ur_ring_unmap(w->spare[--w->spares], UR_IW_RX_BUF);
	ur_timers_fini(&w->timers);
	free(w->qps);
	free(w);
}

void ur_iw_schedule(struct ur_iwqp *q)
{
	if (q->link && ur_list_empty(&q->ready))
		ur_list_add_tail(&q->w->ready, &q->ready);
}

/* A blocked one is skipped, unless its link is to be closed. */
struct ur_qp *ur_iwarp_next(struct ur_iwarp *w)
{
	while (!ur_list_empty(&w->ready)) {
		struct ur_iwqp *q =
			ur_container_of(w->ready.next, struct ur_iwqp, ready);

		ur_list_del(&q->ready);
		if (!q->tx.blocked || ur_iwarp_link_action(q->qp) != UR_IW_KEEP)
			return q->qp;
	}
	return NULL;
}

void ur_iwarp_kick(struct ur_iwarp *w, struct ur_qp *qp, uint64_t now_ns)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);

	w->now_ns = now_ns;
	if (ur_iwqp_state(q) == UR_QPS_ERR) {
		ur_iwqp_flush(q);
		ur_iwqp_check_overrun(q);
	} else if (ur_iwqp_open(q)) {
		ur_iw_schedule(q);
	}
}

uint64_t ur_iwarp_deadline(const struct ur_iwarp *w)
{
	return ur_timers_deadline(&w->timers);
}

void ur_iwarp_expire(struct ur_iwarp *w, uint64_t now_ns)
{
	struct ur_timer *t;

	w->now_ns = now_ns;
	while ((t = ur_timers_expire(&w->timers, now_ns))) {
		struct ur_iwqp *q = ur_container_of(t, struct ur_iwqp, timer);

		if (ur_iwqp_open(q)) {
			ur_iwqp_release(q);
			ur_iwqp_repeat_rtr(q);
		} else {
			w->cnt.linger_timeouts++;
			q->abort = true;
			ur_iw_tx_drop(q);
		}
		ur_iw_schedule(q);
	}
}

const struct ur_iwarp_counters *ur_iwarp_counters(const struct ur_iwarp *w)
{
	return &w->cnt;
}

void ur_iwarp_for_each_qp(struct ur_iwarp *w,
			  void (*fn)(void *arg, const struct ur_qp *qp),
			  void *arg)
{
	for (uint32_t i = 0; i < 1u << UR_SLOT_SHIFT; i++) {
		if (w->qps[i])
			fn(arg, w->qps[i]->qp);
	}
}
