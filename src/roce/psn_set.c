/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/psn_set.h"

void ur_psn_set_start(struct ur_psn_set *s, uint32_t low)
{
	*s = (struct ur_psn_set){ .low = low, .high = low };
}

/* The index of psn's word, and in it the bits of up to n PSNs from psn on. */
static uint32_t word_of(uint32_t psn, uint32_t *n, uint64_t *mask)
{
	uint32_t at = psn % UR_PSN_WINDOW, bit = at % 64;

	if (*n > 64 - bit)
		*n = 64 - bit;
	*mask = (*n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << *n) - 1) << bit;
	return at / 64;
}

/* The part of [from, to) that lies in the window. */
static bool clip(const struct ur_psn_set *s, uint32_t *from, uint32_t *to)
{
	*from = ur_psn_max(*from, s->low);
	*to = ur_psn_min(*to, ur_psn_add(s->low, UR_PSN_WINDOW));
	return ur_psn_before(*from, *to);
}

bool ur_psn_set_add(struct ur_psn_set *s, uint32_t from, uint32_t to)
{
	uint32_t first = from, last = to, n;
	uint64_t mask;

	if (!clip(s, &from, &to) || from != first || to != last)
		return false;
	for (; from != to; from = ur_psn_add(from, n)) {
		uint64_t *word;

		n = ur_psn_count(from, to);
		word = &s->bits[word_of(from, &n, &mask)];
		s->n += n - (uint32_t)__builtin_popcountll(*word & mask);
		*word |= mask;
	}
	s->high = ur_psn_max(s->high, to);
	return true;
}

bool ur_psn_set_has(const struct ur_psn_set *s, uint32_t psn)
{
	uint32_t at = psn % UR_PSN_WINDOW;

	return !ur_psn_before(psn, s->low) &&
	       ur_psn_before(psn, ur_psn_add(s->low, UR_PSN_WINDOW)) &&
	       s->bits[at / 64] >> at % 64 & 1;
}

/* The first PSN of [from, to) that is in the set, or is not; to: none. */
static uint32_t find(const struct ur_psn_set *s, uint32_t from, uint32_t to,
		     bool in_it)
{
	while (from != to) {
		uint32_t n = ur_psn_count(from, to);
		uint64_t mask, bits;

		bits = s->bits[word_of(from, &n, &mask)];
		bits = (in_it ? bits : ~bits) & mask;
		if (bits)
			return ur_psn_add(from,
					  (uint32_t)__builtin_ctzll(bits) -
						  from % UR_PSN_WINDOW % 64);
		from = ur_psn_add(from, n);
	}
	return to;
}

bool ur_psn_set_gap(const struct ur_psn_set *s, uint32_t from, uint32_t to,
		    struct ur_psn_range *gap)
{
	uint32_t end = to;

	if (!clip(s, &from, &to)) {
		*gap = (struct ur_psn_range){ from, end };
		return ur_psn_before(from, end);
	}
	gap->from = find(s, from, to, false);
	gap->to = find(s, gap->from, to, true);
	/* Nothing is in the set beyond the window. */
	if (gap->to == to)
		gap->to = end;
	return gap->from != end;
}

uint32_t ur_psn_set_overlap(const struct ur_psn_set *s, uint32_t from,
			    uint32_t to)
{
	uint32_t sum = 0, n;
	uint64_t mask;

	if (!clip(s, &from, &to))
		return 0;
	for (; from != to; from = ur_psn_add(from, n)) {
		const uint64_t *word;

		n = ur_psn_count(from, to);
		word = &s->bits[word_of(from, &n, &mask)];
		sum += (uint32_t)__builtin_popcountll(*word & mask);
	}
	return sum;
}

void ur_psn_set_trim(struct ur_psn_set *s, uint32_t psn)
{
	uint32_t from = s->low, to = psn, n;
	uint64_t mask;

	if (!clip(s, &from, &to))
		return;
	for (; from != to; from = ur_psn_add(from, n)) {
		uint64_t *word;

		n = ur_psn_count(from, to);
		word = &s->bits[word_of(from, &n, &mask)];
		s->n -= (uint32_t)__builtin_popcountll(*word & mask);
		*word &= ~mask;
	}
	s->low = psn;
	s->high = ur_psn_max(s->high, psn);
}
