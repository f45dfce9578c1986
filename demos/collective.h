/* SPDX-License-Identifier: BSD-2-Clause */
/* A barrier and an all-reduce by recursive doubling: by the adapter alone, in
 * one list of tasks, or by the program. */
#ifndef DEMOS_COLLECTIVE_H
#define DEMOS_COLLECTIVE_H

#include <infiniband/verbs_exp.h>

#include "cube.h"

enum collective { BARRIER, REDUCE, LAST /* collective_finish() */ };

struct reduction {
	enum ibv_exp_calc_op op;
	enum ibv_exp_calc_data_type type;
};

/* Before the first operation: its receives. 0, or -1 with a message. */
int collective_start(struct cube *c);

/*
 * The operation number i, the same of all processes. REDUCE: of *value, which
 * becomes the result. 0; -1: another process has gone, or an error, with a
 * message.
 */
int collective_run(struct cube *c, enum collective what, unsigned int i,
		   struct reduction by, uint64_t *value);

/* After the last operation, number i: when it returns, nothing of this process
 * is missing to the others, and it may end its connections. 0, or -1. */
int collective_finish(struct cube *c, unsigned int i);

#endif
