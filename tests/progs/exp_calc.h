/* SPDX-License-Identifier: BSD-2-Clause */
/* Each operation and type of calculations, and the result. */
#ifndef URNIC_TESTS_EXP_CALC_H
#define URNIC_TESTS_EXP_CALC_H

#include <infiniband/verbs_exp.h>
#include <stdint.h>

static const enum ibv_exp_calc_op ops[] = {
	IBV_EXP_CALC_OP_ADD,
	IBV_EXP_CALC_OP_BAND,
	IBV_EXP_CALC_OP_BXOR,
	IBV_EXP_CALC_OP_BOR,
};
static const enum ibv_exp_calc_data_type types[] = {
	IBV_EXP_CALC_DATA_TYPE_INT,
	IBV_EXP_CALC_DATA_TYPE_UINT,
	IBV_EXP_CALC_DATA_TYPE_FLOAT,
};

/* Of a sum the operand that is 0 adds nothing, in each type. */
static inline uint64_t calculated(enum ibv_exp_calc_op op, uint64_t a,
				  uint64_t b)
{
	switch ((int)op) {
	case IBV_EXP_CALC_OP_BAND:
		return a & b;
	case IBV_EXP_CALC_OP_BXOR:
		return a ^ b;
	case IBV_EXP_CALC_OP_BOR:
		return a | b;
	default:
		return a;
	}
}

#endif
