/* SPDX-License-Identifier: BSD-2-Clause */
/* sched_yield() towards the thread that is waited for, suspended while that
 * costs too much. State of one thread. */
#ifndef UR_BASE_YIELD_H
#define UR_BASE_YIELD_H

#include <stdbool.h>
#include <stdint.h>

/* Starts as all zero. */
struct ur_yield {
	uint64_t not_until_ns;
	uint64_t pause_ns; /* length of the last suspension */
};

/*
 * Is yielding advisable at now_ns (CLOCK_MONOTONIC)? No, for a time after a
 * yield took long: then a CPU-bound thread shares the core, and would get an
 * ever larger part of it.
 */
bool ur_yield_allowed(const struct ur_yield *w, uint64_t now_ns);

/* Yield. True: another thread ran meanwhile. */
bool ur_yield_cpu(struct ur_yield *w);

/* Account for a yield that took took_ns; returns as ur_yield_cpu(). */
bool ur_yield_account(struct ur_yield *w, uint64_t took_ns, uint64_t now_ns);

#endif
