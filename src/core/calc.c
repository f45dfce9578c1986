/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/calc.h"

#include <endian.h>
#include <fenv.h>
#include <string.h>

#include "base/bytes.h"

static uint64_t value_at(const uint8_t *operand)
{
	uint64_t be;

	memcpy(&be, operand, sizeof(be));
	return be64toh(be);
}

static uint64_t add_floats(uint64_t a, uint64_t b)
{
	/* Volatile: added where the program stands, in that environment. */
	volatile double sum;
	double x, y;

	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	sum = x;
	sum += y;
	x = sum;
	memcpy(&a, &x, sizeof(a));
	return a;
}

/* Two's complement: the sum of signed and unsigned values is the same. */
static uint64_t apply(enum ur_calc_op op, enum ur_calc_type type, uint64_t a,
		      uint64_t b)
{
	switch (op) {
	case UR_CALC_ADD:
		return type == UR_CALC_FLOAT ? add_floats(a, b) : a + b;
	case UR_CALC_BAND:
		return a & b;
	case UR_CALC_BXOR:
		return a ^ b;
	case UR_CALC_BOR:
		return a | b;
	}
	return a;
}

static uint64_t fold(enum ur_calc_op op, enum ur_calc_type type,
		     const uint8_t *at, uint32_t n)
{
	uint64_t value = value_at(at);

	for (uint32_t i = 1; i < n; i++)
		value = apply(op, type, value,
			      value_at(at + (size_t)i * UR_CALC_BYTES));
	return value;
}

/* Any thread of the program may be here: neither its exceptions nor its modes
 * apply to the operands, nor does it see their flags. */
static uint64_t fold_floats(enum ur_calc_op op, const uint8_t *at, uint32_t n)
{
	uint64_t value;
	fenv_t saved;

	fegetenv(&saved);
	fesetenv(FE_DFL_ENV); /* to nearest, no traps, denormals kept */
	value = fold(op, UR_CALC_FLOAT, at, n);
	fesetenv(&saved);
	return value;
}

void ur_calc(enum ur_calc_op op, enum ur_calc_type type, const void *operands,
	     uint32_t n, void *result)
{
	uint64_t value = type == UR_CALC_FLOAT && op == UR_CALC_ADD
				 ? fold_floats(op, operands, n)
				 : fold(op, type, operands, n);

	memset(result, 0, UR_CALC_BYTES);
	ur_put_be64(result, value);
}
