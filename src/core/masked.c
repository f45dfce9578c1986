/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/masked.h"

#include <errno.h>

#include "base/guard.h"

uint32_t ur_masked_max(void)
{
	return ur_guard_has_swap16() ? UR_MASKED_MAX : 8;
}

/*
 * Each field is added by itself.  Without its highest bit no field overflows into
 * the next; that bit is the sum modulo 2 of both operands' and the carry into it.
 * A field may reach from the first word into the second.
 */
static void add(const struct ur_masked *m, uint32_t len, const uint64_t old[2],
		uint64_t to[2])
{
	uint64_t carry = 0;

	for (uint32_t i = 0; i < 2; i++) {
		uint64_t ends = m->mask[i], sum;

		if (len == 4)
			ends |= UINT64_C(1) << 31;
		sum = (old[i] & ~ends) + carry;
		carry = sum < carry;
		sum += m->value[i] & ~ends;
		carry |= sum < (m->value[i] & ~ends);
		to[i] = sum ^ ((old[i] ^ m->value[i]) & ends);
	}
}

static void compare_swap(const struct ur_masked *m, const uint64_t old[2],
			 uint64_t to[2])
{
	bool equal = true;

	for (uint32_t i = 0; i < 2; i++)
		equal &= !((old[i] ^ m->compare[i]) & m->compare_mask[i]);
	for (uint32_t i = 0; i < 2; i++)
		to[i] = equal ? (old[i] & ~m->mask[i]) |
					(m->value[i] & m->mask[i])
			      : old[i];
}

/* Bits beyond the operand have no effect. */
static void clear_beyond(uint64_t words[2], uint32_t len)
{
	if (len == 4)
		words[0] = (uint32_t)words[0];
	if (len < 16)
		words[1] = 0;
}

static struct ur_masked within(const struct ur_masked *m, uint32_t len)
{
	struct ur_masked in = *m;

	clear_beyond(in.value, len);
	clear_beyond(in.compare, len);
	clear_beyond(in.mask, len);
	clear_beyond(in.compare_mask, len);
	return in;
}

/* Repeated until no other access has changed the memory in between. */
int ur_masked_run(void *at, const struct ur_masked *m, bool cas, uint32_t len,
		  uint64_t old[2])
{
	const struct ur_masked in = within(m, len);
	uint64_t seen[2] = { 0 }, was[2], to[2] = { 0 };
	int err;

	if ((uintptr_t)at & (len - 1))
		return -EINVAL;
	/* Stores what is there: nothing, or zero instead of zero. */
	err = ur_guard_cmp_swap(at, len, seen, to);
	while (!err) {
		memcpy(was, seen, sizeof(was));
		if (cas)
			compare_swap(&in, was, to);
		else
			add(&in, len, was, to);
		clear_beyond(to, len);
		err = ur_guard_cmp_swap(at, len, seen, to);
		if (!err && !memcmp(seen, was, sizeof(was)))
			break;
	}
	if (!err)
		memcpy(old, was, sizeof(was));
	return err;
}
