/* SPDX-License-Identifier: BSD-2-Clause */
/* The faults in force: what is due, and how much of a value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fault/state.h"

#define CALLS 200u

static uint64_t jitter(uint64_t most_ns, uint32_t draw)
{
	const struct ur_fault_rule r = { .kind = UR_FAULT_JITTER,
					 .value = most_ns };
	uint64_t delay_ns = 7, bits_per_s = 5;

	ur_fault_pace(&r, draw, &delay_ns, &bits_per_s);
	assert_int_equal(bits_per_s, 5);
	return delay_ns - 7;
}

static void test_a_part_of_less_than_a_millisecond(void **state)
{
	(void)state;
	assert_int_equal(jitter(100000, 500000), 50000);
	assert_int_equal(jitter(100000, 0), 0);
	assert_int_equal(jitter(1500000, 500000), 750000);
	/* An hour, which a product of 64 bits has no room for. */
	assert_int_equal(jitter(3600000000000000u, 999999), 3599996400000000u);
}

/* Which of the calls fail after `urnic fault`, which begins a set of its own. */
static void order(const char *text, char failed[CALLS])
{
	char why[UR_FAULT_WHY_LEN];
	struct ur_fault_spec spec;
	struct ur_fault_set *s;

	assert_true(ur_fault_parse(&spec, text, why));
	s = ur_fault_set_new(&spec);
	assert_non_null(s);
	atomic_store(&ur_fault_set, s);
	for (unsigned int i = 0; i < CALLS; i++)
		failed[i] = ur_fault_call(UR_FAULT_reg_mr) != 0;
	atomic_store(&ur_fault_set, NULL);
	free(s);
}

static void test_a_seed_fails_the_same_calls(void **state)
{
	char a[CALLS], b[CALLS];

	(void)state;
	order("fail=reg_mr@30%,seed=7", a);
	assert_non_null(memchr(a, 1, CALLS));
	order("fail=reg_mr@30%,seed=8", b);
	assert_memory_not_equal(a, b, CALLS);
	order("fail=reg_mr@30%,seed=7", b);
	assert_memory_equal(a, b, CALLS);
}

static unsigned int forks;
static uint64_t life;

static void on_fork(uint64_t life_ns, uint32_t draw)
{
	assert_true(draw < UR_FAULT_MILLION);
	forks++;
	life = life_ns;
}

/* At the calls of one verb, one child at a time; no call fails. */
static void test_forks_are_one_at_a_time(void **state)
{
	char why[UR_FAULT_WHY_LEN];
	struct ur_fault_spec spec;
	struct ur_fault_set *s;

	(void)state;
	ur_fault_fork = on_fork;
	assert_true(ur_fault_parse(
		&spec, "fork=5ms@2/verb=reg_mr,fail=create_cq:1,seed=3", why));
	s = ur_fault_set_new(&spec);
	assert_non_null(s);
	atomic_store(&ur_fault_set, s);
	assert_int_equal(ur_fault_call(UR_FAULT_post_send), 0);
	assert_int_equal(forks, 0);
	assert_int_equal(ur_fault_call(UR_FAULT_reg_mr), 0);
	assert_int_equal(forks, 1);
	assert_int_equal(life, 5000000);
	assert_int_equal(ur_fault_call(UR_FAULT_reg_mr), 0);
	assert_int_equal(ur_fault_call(UR_FAULT_create_cq), -ENOMEM);
	assert_int_equal(forks, 1);
	for (unsigned int i = 0; i < 3; i++) {
		atomic_store(&ur_fault_forking, false);
		assert_int_equal(ur_fault_call(UR_FAULT_reg_mr), 0);
	}
	assert_int_equal(forks, 2);
	assert_int_equal(s->count[0].done, 2);
	assert_false(ur_fault_forking);
	atomic_store(&ur_fault_set, NULL);
	ur_fault_fork = NULL;
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_part_of_less_than_a_millisecond),
		cmocka_unit_test(test_a_seed_fails_the_same_calls),
		cmocka_unit_test(test_forks_are_one_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
