/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A binary heap of pointers, ordered by heap_at_ns. A timer that is re-armed
 * for later keeps its place (heap_at_ns stays, at_ns moves on): the retry timer
 * of a busy QP is pushed back by every acknowledgement, and that must cost one
 * store. When such a timer reaches the top, ur_timers_expire() sees at_ns >
 * heap_at_ns and moves it down.
 */
#include "base/timer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static void place(struct ur_timers *ts, uint32_t i, struct ur_timer *t)
{
	ts->heap[i] = t;
	t->slot = i + 1;
}

static void sift_up(struct ur_timers *ts, uint32_t i, struct ur_timer *t)
{
	while (i > 0) {
		uint32_t parent = (i - 1) / 2;

		if (ts->heap[parent]->heap_at_ns <= t->heap_at_ns)
			break;
		place(ts, i, ts->heap[parent]);
		i = parent;
	}
	place(ts, i, t);
}

static void sift_down(struct ur_timers *ts, uint32_t i, struct ur_timer *t)
{
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= ts->count)
			break;
		if (child + 1 < ts->count &&
		    ts->heap[child + 1]->heap_at_ns <
			    ts->heap[child]->heap_at_ns)
			child++;
		if (t->heap_at_ns <= ts->heap[child]->heap_at_ns)
			break;
		place(ts, i, ts->heap[child]);
		i = child;
	}
	place(ts, i, t);
}

/* Take t out of the heap; the last timer fills its place. */
static void unplace(struct ur_timers *ts, struct ur_timer *t)
{
	uint32_t i = t->slot - 1;
	struct ur_timer *last;

	assert(i < ts->count && ts->heap[i] == t);
	last = ts->heap[--ts->count];
	if (last != t) {
		if (last->heap_at_ns < t->heap_at_ns)
			sift_up(ts, i, last);
		else
			sift_down(ts, i, last);
	}
	ur_timer_init(t);
}

void ur_timers_init(struct ur_timers *ts)
{
	*ts = (struct ur_timers){ 0 };
}

void ur_timers_fini(struct ur_timers *ts)
{
	for (uint32_t i = 0; i < ts->count; i++)
		ur_timer_init(ts->heap[i]);
	free(ts->heap);
	ur_timers_init(ts);
}

int ur_timers_reserve(struct ur_timers *ts, uint32_t total)
{
	uint32_t capacity = ts->capacity ? ts->capacity : 16;
	struct ur_timer **heap;

	if (total <= ts->capacity)
		return 0;
	while (capacity < total && capacity <= UINT32_MAX / 2)
		capacity *= 2;
	if (capacity < total)
		return -ENOMEM;
	heap = reallocarray(ts->heap, capacity, sizeof(struct ur_timer *));
	if (!heap)
		return -ENOMEM;
	ts->heap = heap;
	ts->capacity = capacity;
	return 0;
}

void ur_timer_arm(struct ur_timers *ts, struct ur_timer *t, uint64_t at_ns)
{
	if (at_ns == UR_NEVER) {
		ur_timer_cancel(ts, t);
		return;
	}
	t->at_ns = at_ns;
	if (t->slot && at_ns >= t->heap_at_ns)
		return;
	t->heap_at_ns = at_ns;
	if (t->slot) {
		sift_up(ts, t->slot - 1, t);
		return;
	}
	assert(ts->count < ts->capacity);
	sift_up(ts, ts->count++, t);
}

void ur_timer_cancel(struct ur_timers *ts, struct ur_timer *t)
{
	if (t->slot)
		unplace(ts, t);
}

uint64_t ur_timers_deadline(const struct ur_timers *ts)
{
	return ts->count ? ts->heap[0]->heap_at_ns : UR_NEVER;
}

struct ur_timer *ur_timers_expire(struct ur_timers *ts, uint64_t now_ns)
{
	while (ts->count && ts->heap[0]->heap_at_ns <= now_ns) {
		struct ur_timer *t = ts->heap[0];

		if (t->at_ns <= now_ns) {
			unplace(ts, t);
			return t;
		}
		t->heap_at_ns = t->at_ns;
		sift_down(ts, 0, t);
	}
	return NULL;
}
