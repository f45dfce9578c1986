/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_RUN_CHAOS_H
#define UR_RUN_CHAOS_H

#include <stdint.h>

/*
 * Runs the program with one scenario of faults after the other, each drawn from
 * a seed, for so many seconds or until one breaks it.  The exit status: 0: none
 * did; 1: one did; 2: the program fails without faults.
 */
int ur_run_chaos(char **argv, uint64_t seconds);

/* Puts the scenario of the seed into the environment. */
void ur_run_chaos_seed(uint32_t seed);

#endif
