/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/psn_set.h"

#include <string.h>

/* Index of the first range that ends after psn; s->n: none. */
static uint32_t find(const struct ur_psn_set *s, uint32_t psn)
{
	uint32_t lo = 0, hi = s->n;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (ur_psn_before(psn, s->r[mid].to))
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static void remove_at(struct ur_psn_set *s, uint32_t i, uint32_t n)
{
	memmove(&s->r[i], &s->r[i + n], (s->n - i - n) * sizeof(s->r[0]));
	s->n -= n;
}

bool ur_psn_set_add(struct ur_psn_set *s, uint32_t from, uint32_t to)
{
	uint32_t i = find(s, from);
	bool left = i && s->r[i - 1].to == from;
	bool right = i < s->n && s->r[i].from == to;

	if (left && right) {
		s->r[i - 1].to = s->r[i].to;
		remove_at(s, i, 1);
	} else if (left) {
		s->r[i - 1].to = to;
	} else if (right) {
		s->r[i].from = from;
	} else {
		if (s->n == UR_PSN_RANGES)
			return false;
		memmove(&s->r[i + 1], &s->r[i], (s->n - i) * sizeof(s->r[0]));
		s->r[i] = (struct ur_psn_range){ from, to };
		s->n++;
	}
	return true;
}

bool ur_psn_set_has(const struct ur_psn_set *s, uint32_t psn)
{
	uint32_t i = find(s, psn);

	return i < s->n && !ur_psn_before(psn, s->r[i].from);
}

bool ur_psn_set_gap(const struct ur_psn_set *s, uint32_t from, uint32_t to,
		    struct ur_psn_range *gap)
{
	uint32_t i = find(s, from);

	if (i < s->n && !ur_psn_before(from, s->r[i].from))
		from = s->r[i++].to;
	if (!ur_psn_before(from, to))
		return false;
	gap->from = from;
	gap->to = i < s->n ? ur_psn_min(s->r[i].from, to) : to;
	return true;
}

uint32_t ur_psn_set_overlap(const struct ur_psn_set *s, uint32_t from,
			    uint32_t to)
{
	uint32_t n = 0;

	for (uint32_t i = find(s, from); i < s->n; i++) {
		if (!ur_psn_before(s->r[i].from, to))
			break;
		n += ur_psn_count(ur_psn_max(s->r[i].from, from),
				  ur_psn_min(s->r[i].to, to));
	}
	return n;
}

void ur_psn_set_trim(struct ur_psn_set *s, uint32_t psn)
{
	remove_at(s, 0, find(s, psn));
	if (s->n && ur_psn_before(s->r[0].from, psn))
		s->r[0].from = psn;
}
