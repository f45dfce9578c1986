/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/qp.h"

static void begin_period(struct ur_qp_watch *w, uint32_t head)
{
	uint32_t done = head - w->before;

	w->before = head;
	w->stride = done / UR_WATCH_SAMPLES + 1;
	if (w->left > w->stride)
		w->left = w->stride;
	memset(&w->latency, 0, sizeof(w->latency));
}

int ur_watch_start(struct ur_qp *qp, uint64_t (*now)(void))
{
	uint32_t head = ur_sq_head(&qp->sq);
	struct ur_qp_watch *w = qp->watch;

	if (!w) {
		w = calloc(1, sizeof(*w));
		if (!w)
			return -ENOMEM;
		w->now = now;
		/* Posters of a cross-channel queue pair may come already. */
		atomic_thread_fence(memory_order_release);
		qp->watch = w;
	}
	/* How fast it is, is not known before the second report. */
	if (!w->on)
		w->before = head - UR_WATCH_SAMPLES * 64;
	begin_period(w, head);
	if (w->on)
		return 0;
	w->on = true;
	w->left = 0;
	atomic_store_explicit(&w->posted_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&w->wanted, true, memory_order_relaxed);
	atomic_store_explicit(&qp->aside, true, memory_order_release);
	return 0;
}

void ur_watch_stop(struct ur_qp *qp)
{
	if (!qp->watch)
		return;
	qp->watch->on = false;
	atomic_store_explicit(&qp->aside, qp->cross != NULL,
			      memory_order_relaxed);
}

void ur_watch_posted(struct ur_qp *qp)
{
	struct ur_qp_watch *w = qp->watch;

	if (!w || !atomic_load_explicit(&w->wanted, memory_order_relaxed))
		return;
	atomic_store_explicit(&w->wanted, false, memory_order_relaxed);
	atomic_store_explicit(&w->index, ur_sq_posted(&qp->sq) - 1,
			      memory_order_relaxed);
	atomic_store_explicit(&w->posted_ns, w->now(), memory_order_release);
}

/* The request that is timed, or one after it, is complete. */
static void sample(struct ur_qp_watch *w, uint32_t head)
{
	uint64_t from =
		atomic_load_explicit(&w->posted_ns, memory_order_acquire);
	uint32_t index = atomic_load_explicit(&w->index, memory_order_relaxed);

	if (!from || (int32_t)(head - index) < 0)
		return;
	if (head == index)
		ur_latency_add(&w->latency, w->now() - from);
	w->left = w->stride;
	atomic_store_explicit(&w->posted_ns, 0, memory_order_relaxed);
}

void ur_watch_completes(struct ur_qp *qp, const struct ur_swqe *wqe)
{
	struct ur_qp_watch *w = qp->watch;

	if (!w || !w->on)
		return;
	w->sent_bytes += wqe->length;
	if (!w->left) {
		sample(w, ur_sq_head(&qp->sq));
		return;
	}
	if (!--w->left)
		atomic_store_explicit(&w->wanted, true, memory_order_relaxed);
}

void ur_watch_received(struct ur_qp *qp, uint32_t bytes)
{
	if (qp->watch && qp->watch->on)
		qp->watch->rcvd_bytes += bytes;
}

/* Below UR_WATCH_SUB one bucket for each value. */
static uint32_t bucket_of(uint64_t ns)
{
	uint32_t log, i;

	if (ns < UR_WATCH_SUB)
		return (uint32_t)ns;
	log = 63u - (uint32_t)__builtin_clzll(ns);
	i = (log - 1) * UR_WATCH_SUB +
	    (uint32_t)(ns >> (log - 2) & (UR_WATCH_SUB - 1));
	return i < UR_WATCH_BUCKETS ? i : UR_WATCH_BUCKETS - 1;
}

static uint64_t bucket_end(uint32_t i)
{
	if (i < UR_WATCH_SUB)
		return i;
	return ((uint64_t)(UR_WATCH_SUB + i % UR_WATCH_SUB + 1)
		<< (i / UR_WATCH_SUB - 1)) -
	       1;
}

void ur_latency_add(struct ur_latency *l, uint64_t ns)
{
	l->samples++;
	l->bucket[bucket_of(ns)]++;
	if (ns > l->max_ns)
		l->max_ns = ns;
}

void ur_latency_merge(struct ur_latency *to, const struct ur_latency *from)
{
	to->samples += from->samples;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
	for (uint32_t i = 0; i < UR_WATCH_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

uint64_t ur_latency_at(const struct ur_latency *l, uint32_t permille)
{
	uint64_t need = (l->samples * permille + 999) / 1000, seen = 0;

	for (uint32_t i = 0; l->samples && i < UR_WATCH_BUCKETS; i++) {
		uint64_t end = bucket_end(i);

		seen += l->bucket[i];
		if (seen >= need)
			return end < l->max_ns ? end : l->max_ns;
	}
	return 0;
}
