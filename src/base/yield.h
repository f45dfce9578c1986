/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Giving one's core to whom one waits for, who may be waiting for it: of one
 * thread at a time.
 */
#ifndef UR_BASE_YIELD_H
#define UR_BASE_YIELD_H

#include <stdbool.h>
#include <stdint.h>

/* All zero at first. */
struct ur_yield {
	uint64_t not_until_ns;
	uint64_t pause_ns; /* how long that was assumed the last time */
};

/*
 * Is it wise to, at that time of CLOCK_MONOTONIC?  Not for a while after it
 * took long: then somebody has the core who does not give it back, and a
 * thread that gives away its turns would get ever fewer beside him.
 */
bool ur_yield_may(const struct ur_yield *w, uint64_t now_ns);

/* Do it.  True: somebody has taken it meanwhile. */
bool ur_yield_give(struct ur_yield *w);

/* What follows from its having taken so long. */
bool ur_yield_note(struct ur_yield *w, uint64_t took_ns, uint64_t now_ns);

#endif
