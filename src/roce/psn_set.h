/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A set of PSNs within a window, as sorted ranges [from, to).  All PSNs given to
 * these functions lie within 2^23 of each other.
 */
#ifndef UR_ROCE_PSN_SET_H
#define UR_ROCE_PSN_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/bth.h"

/* With more gaps than this in a window, further PSNs are not recorded. */
#define UR_PSN_RANGES 256u

struct ur_psn_range {
	uint32_t from;
	uint32_t to;
};

struct ur_psn_set {
	uint32_t n;
	struct ur_psn_range r[UR_PSN_RANGES];
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

/* Adds [from, to), none of which is in the set.  False: it is full. */
bool ur_psn_set_add(struct ur_psn_set *s, uint32_t from, uint32_t to);
bool ur_psn_set_has(const struct ur_psn_set *s, uint32_t psn);
/* The first range of [from, to) that is not in the set; false: none. */
bool ur_psn_set_gap(const struct ur_psn_set *s, uint32_t from, uint32_t to,
		    struct ur_psn_range *gap);
/* How many PSNs of [from, to) are in the set. */
uint32_t ur_psn_set_overlap(const struct ur_psn_set *s, uint32_t from,
			    uint32_t to);
/* Removes what is before psn. */
void ur_psn_set_trim(struct ur_psn_set *s, uint32_t psn);

#endif
