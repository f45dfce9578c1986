/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A set of PSNs within a window that moves, one bit each.  All PSNs given to
 * these functions lie within 2^23 of each other.
 */
#ifndef UR_ROCE_PSN_SET_H
#define UR_ROCE_PSN_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/bth.h"

/* READ responses of 4 MiB, as much as a receive buffer is used for, at the least
 * MTU; and as much again until a gap in them is closed. */
#define UR_PSN_WINDOW 32768u

struct ur_psn_range { /* [from, to) */
	uint32_t from;
	uint32_t to;
};

struct ur_psn_set {
	uint32_t low;  /* the window's first PSN */
	uint32_t high; /* one beyond the highest ever added, or low */
	uint32_t n;    /* PSNs in the set */
	uint64_t bits[UR_PSN_WINDOW / 64];
};

/* The number of PSNs of [from, to). */
static inline uint32_t ur_psn_count(uint32_t from, uint32_t to)
{
	return (to - from) & UR_PSN_MASK;
}

static inline bool ur_psn_before(uint32_t a, uint32_t b)
{
	return ur_psn_diff(a, b) < 0;
}

static inline uint32_t ur_psn_max(uint32_t a, uint32_t b)
{
	return ur_psn_before(a, b) ? b : a;
}

static inline uint32_t ur_psn_min(uint32_t a, uint32_t b)
{
	return ur_psn_before(a, b) ? a : b;
}

/* An empty set from that PSN on. */
void ur_psn_set_start(struct ur_psn_set *s, uint32_t low);
/* Adds [from, to).  False: it is not in the window. */
bool ur_psn_set_add(struct ur_psn_set *s, uint32_t from, uint32_t to);
bool ur_psn_set_has(const struct ur_psn_set *s, uint32_t psn);
/* The first range of [from, to) that is not in the set; false: none. */
bool ur_psn_set_gap(const struct ur_psn_set *s, uint32_t from, uint32_t to,
		    struct ur_psn_range *gap);
/* How many PSNs of [from, to) are in the set. */
uint32_t ur_psn_set_overlap(const struct ur_psn_set *s, uint32_t from,
			    uint32_t to);
/* Moves the window up to psn; what was before it is removed. */
void ur_psn_set_trim(struct ur_psn_set *s, uint32_t psn);

#endif
