/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <endian.h>
#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "core/calc.h"

#define MOST 3u

static uint64_t bits(double x)
{
	uint64_t value;

	memcpy(&value, &x, sizeof(value));
	return value;
}

/* The eight bytes after each value do not count, and are 0 in the result. */
static uint64_t calc(enum ur_calc_op op, enum ur_calc_type type, uint32_t n,
		     const uint64_t *values)
{
	uint64_t in[2 * MOST], out[2] = { 0, UINT64_MAX };

	for (uint32_t i = 0; i < n; i++) {
		in[2 * i] = htobe64(values[i]);
		in[2 * i + 1] = UINT64_MAX;
	}
	ur_calc(op, type, in, n, out);
	assert_int_equal(out[1], 0);
	return be64toh(out[0]);
}

static void test_integers(void **state)
{
	const uint64_t v[] = { 0xf0f0, 0xff00, 0x3c3c };
	const uint64_t wrap[] = { UINT64_MAX, 3 };

	for (int t = UR_CALC_INT; t <= UR_CALC_UINT; t++) {
		enum ur_calc_type type = (enum ur_calc_type)t;

		assert_int_equal(calc(UR_CALC_ADD, type, 3, v),
				 0xf0f0 + 0xff00 + 0x3c3c);
		assert_int_equal(calc(UR_CALC_BAND, type, 3, v), 0x3000);
		assert_int_equal(calc(UR_CALC_BXOR, type, 3, v), 0x33cc);
		assert_int_equal(calc(UR_CALC_BOR, type, 3, v), 0xfffc);
		assert_int_equal(calc(UR_CALC_ADD, type, 2, wrap), 2);
		assert_int_equal(calc(UR_CALC_ADD, type, 1, v), v[0]);
	}
}

static void test_floats(void **state)
{
	const uint64_t v[] = { bits(1.5), bits(-4.25), bits(0.25) };
	const uint64_t big[] = { bits(1e308), bits(1e308) };
	const uint64_t both[] = { bits(INFINITY), bits(-INFINITY) };
	uint64_t nan = calc(UR_CALC_ADD, UR_CALC_FLOAT, 2, both);
	double x;

	assert_int_equal(calc(UR_CALC_ADD, UR_CALC_FLOAT, 3, v), bits(-2.5));
	assert_int_equal(calc(UR_CALC_ADD, UR_CALC_FLOAT, 2, big),
			 bits(INFINITY));
	memcpy(&x, &nan, sizeof(x));
	assert_true(isnan(x));
	assert_int_equal(calc(UR_CALC_BXOR, UR_CALC_FLOAT, 2, v), v[0] ^ v[1]);
	assert_int_equal(calc(UR_CALC_BAND, UR_CALC_FLOAT, 2, v), v[0] & v[1]);
	assert_int_equal(calc(UR_CALC_BOR, UR_CALC_FLOAT, 2, v), v[0] | v[1]);
}

/* All exceptions, flush to zero, denormals are zero, round upward; 64-bit Arm
 * need not have exceptions, and then reads their bits as 0. */
#if defined(__x86_64__)
#define HOSTILE_MODE (0x8040u | 0x4000u)

static uint64_t get_mode(void)
{
	return _mm_getcsr();
}

static void set_mode(uint64_t mode)
{
	_mm_setcsr((unsigned int)mode);
}
#else
#define HOSTILE_MODE (1u << 24 | 1u << 22)

static uint64_t get_mode(void)
{
	uint64_t mode;

	__asm__ volatile("mrs %0, fpcr" : "=r"(mode));
	return mode;
}

static void set_mode(uint64_t mode)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(mode));
}
#endif

/* That of the thread changes nothing, and is what it was. */
static void test_environment(void **state)
{
	const uint64_t signals[] = { 0x7ff0000000000001, bits(1) };
	const uint64_t small[] = { 1, 2 }; /* denormals */
	const uint64_t inexact[] = { bits(1), bits(0x1p-60) };
	const uint64_t before = get_mode();
	uint64_t nan;
	double x;

	set_mode(HOSTILE_MODE);
	nan = calc(UR_CALC_ADD, UR_CALC_FLOAT, 2, signals);
	assert_int_equal(calc(UR_CALC_ADD, UR_CALC_FLOAT, 2, small), 3);
	assert_int_equal(calc(UR_CALC_ADD, UR_CALC_FLOAT, 2, inexact), bits(1));
	assert_int_equal(get_mode(), HOSTILE_MODE);
	set_mode(before);
	memcpy(&x, &nan, sizeof(x));
	assert_true(isnan(x));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_floats),
		cmocka_unit_test(test_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
