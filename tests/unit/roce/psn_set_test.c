/* SPDX-License-Identifier: BSD-2-Clause */
/* The set of PSNs against an array of flags. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "roce/psn_set.h"

/* Just before the sequence wraps. */
#define START 0xffff80u
#define SPAN  2048u

static struct ur_psn_set set;
static bool model[SPAN];

static uint32_t psn_of(uint32_t i)
{
	return ur_psn_add(START, i);
}

static void check_gap(uint32_t from, uint32_t to, uint32_t low)
{
	struct ur_psn_range gap;
	uint32_t i = from < low ? low : from, end;
	bool found;

	while (i < to && model[i])
		i++;
	for (end = i; end < to && !model[end]; end++)
		;
	found = ur_psn_set_gap(&set, psn_of(from), psn_of(to), &gap);
	assert_int_equal(found, i < to);
	if (!found)
		return;
	assert_int_equal(gap.from, psn_of(i));
	assert_int_equal(gap.to, psn_of(end));
}

static uint32_t overlap(uint32_t from, uint32_t to)
{
	uint32_t n = 0;

	for (uint32_t i = from; i < to; i++)
		n += model[i];
	return n;
}

static void random_operations(void **state)
{
	uint32_t low = 0;
	struct ur_rng r;

	ur_rng_seed(&r, 3);
	ur_psn_set_start(&set, START);
	for (uint32_t round = 0; round < 20000 && low < SPAN; round++) {
		uint32_t from = low + ur_rng_below(&r, SPAN - low);
		uint32_t to = from + ur_rng_below(&r, SPAN - from + 1);

		if (ur_rng_below(&r, 4) == 0 && to - from < 200) {
			assert_true(ur_psn_set_add(&set, psn_of(from),
						   psn_of(to)) ||
				    from == to);
			memset(model + from, true, to - from);
		} else if (ur_rng_below(&r, 200) == 0) {
			low = low + ur_rng_below(&r, 100);
			low = low < SPAN ? low : SPAN;
			ur_psn_set_trim(&set, psn_of(low));
			memset(model, false, low);
		}
		from = low < from ? from : low;
		to = to < from ? from : to;
		check_gap(from, to, low);
		assert_int_equal(ur_psn_set_overlap(&set, psn_of(from),
						    psn_of(to)),
				 overlap(from, to));
		if (from < SPAN)
			assert_int_equal(ur_psn_set_has(&set, psn_of(from)),
					 model[from]);
		assert_int_equal(set.n, overlap(0, SPAN));
	}
}

static void nothing_outside_the_window(void **state)
{
	struct ur_psn_range gap;

	ur_psn_set_start(&set, 100);
	assert_false(ur_psn_set_add(&set, 99, 101));
	assert_false(ur_psn_set_add(&set, 100 + UR_PSN_WINDOW - 1,
				    100 + UR_PSN_WINDOW + 1));
	assert_true(ur_psn_set_add(&set, 100 + UR_PSN_WINDOW - 1,
				   100 + UR_PSN_WINDOW));
	assert_int_equal(set.high, 100 + UR_PSN_WINDOW);
	assert_false(ur_psn_set_has(&set, 99));
	assert_false(ur_psn_set_has(&set, 99 + UR_PSN_WINDOW + 1));
	assert_false(ur_psn_set_gap(&set, 50, 100, &gap));
	assert_int_equal(ur_psn_set_overlap(&set, 0, 200000), 1);
	/* Full, and what follows is not in it. */
	assert_true(ur_psn_set_add(&set, 100, 100 + UR_PSN_WINDOW));
	assert_false(ur_psn_set_gap(&set, 100, 100 + UR_PSN_WINDOW, &gap));
	assert_true(ur_psn_set_gap(&set, 100, 101 + UR_PSN_WINDOW, &gap));
	assert_int_equal(gap.from, 100 + UR_PSN_WINDOW);
	assert_int_equal(gap.to, 101 + UR_PSN_WINDOW);
	assert_true(ur_psn_set_gap(&set, 105 + UR_PSN_WINDOW,
				   109 + UR_PSN_WINDOW, &gap));
	assert_int_equal(ur_psn_count(gap.from, gap.to), 4);
	/* All of it may be left behind. */
	ur_psn_set_trim(&set, 100 + 3 * UR_PSN_WINDOW);
	assert_int_equal(set.n, 0);
	assert_int_equal(set.high, set.low);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations),
		cmocka_unit_test(nothing_outside_the_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
