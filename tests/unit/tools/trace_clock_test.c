/* SPDX-License-Identifier: BSD-2-Clause */
/* The tracer's clock beside the kernel's. */
#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RUN_NS	 30000000u /* many times until it is read from the kernel again */
#define APART_NS 20000u

/* Never before what was read before; where the kernel's clock is the counter, also
 * between two of its readings. */
static void agrees(void **state)
{
	struct tr_clock c = { 0 };
	uint64_t end = ur_clock_ns() + RUN_NS, last = 0, before, now, after;

	(void)state;
	do {
		before = ur_clock_ns();
		now = tr_clock_read(&c);
		after = ur_clock_ns();
		assert_true(now >= last);
		assert_true(now + APART_NS >= before);
		assert_true(now <= after + APART_NS);
		last = now;
	} while (after < end);
}

/* A rate that is wrong, as after a suspension, is not used. */
static void forgets_rate(void **state)
{
	struct tr_clock c = { 0 };
	uint64_t end = ur_clock_ns() + RUN_NS, before, now, after;

	(void)state;
	while (ur_clock_ns() < end)
		(void)tr_clock_read(&c);
	c.valid = 0;
	c.rate *= 2;
	end = ur_clock_ns() + RUN_NS;
	do {
		before = ur_clock_ns();
		now = tr_clock_read(&c);
		after = ur_clock_ns();
		assert_true(now + APART_NS >= before);
		assert_true(now <= after + APART_NS);
	} while (after < end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees),
		cmocka_unit_test(forgets_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
