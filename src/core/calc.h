/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calculations on the operands of a SEND. An operand is 16 bytes: a value of 64
 * bits in network order, and 8 bytes that the operations here leave 0 in the
 * result.
 */
#ifndef UR_CORE_CALC_H
#define UR_CORE_CALC_H

#include <stdint.h>

#define UR_CALC_BYTES 16u

/* Values of enum ibv_exp_calc_op (verbs/abi_check.c) */
enum ur_calc_op {
	UR_CALC_ADD = 0,
	UR_CALC_BAND = 2,
	UR_CALC_BXOR = 3,
	UR_CALC_BOR = 4,
};

/* Values of enum ibv_exp_calc_data_type */
enum ur_calc_type {
	UR_CALC_INT = 0,
	UR_CALC_UINT = 1,
	UR_CALC_FLOAT = 2,
};

/* The result of n operands, n > 0. Integers wrap; the logical operations on
 * FLOAT take its bits. */
void ur_calc(enum ur_calc_op op, enum ur_calc_type type, const void *operands,
	     uint32_t n, void *result);

#endif
