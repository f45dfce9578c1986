/* SPDX-License-Identifier: BSD-2-Clause */
/* Future events in a binary heap; equal times in order of adding. */
#include <stdlib.h>

#include "sim/sim.h"

static bool before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

void sim_event_add(struct sim_world *w, uint64_t at_ns,
		   enum sim_event_kind kind, void *arg)
{
	struct sim_event ev = { at_ns, w->next_seq++, kind, arg };
	uint32_t i = w->heap_count++;

	if (i == w->heap_cap) {
		w->heap_cap = w->heap_cap ? 2 * w->heap_cap : 256;
		w->heap = realloc(w->heap, w->heap_cap * sizeof(*w->heap));
		RIG_CHECK(w->heap != NULL);
	}
	while (i && before(&ev, &w->heap[(i - 1) / 2])) {
		w->heap[i] = w->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	w->heap[i] = ev;
	if (kind == SIM_EV_PACKET)
		w->flying++;
}

uint64_t sim_event_next(const struct sim_world *w)
{
	return w->heap_count ? w->heap[0].at_ns : UR_NEVER;
}

/* The next event that is due, if any. */
bool sim_event_take(struct sim_world *w, struct sim_event *ev)
{
	struct sim_event last;
	uint32_t i = 0, child;

	if (w->heap_count == 0 || w->heap[0].at_ns > w->now_ns)
		return false;
	*ev = w->heap[0];
	last = w->heap[--w->heap_count];
	while ((child = 2 * i + 1) < w->heap_count) {
		if (child + 1 < w->heap_count &&
		    before(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!before(&w->heap[child], &last))
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = last;
	if (ev->kind == SIM_EV_PACKET)
		w->flying--;
	return true;
}
