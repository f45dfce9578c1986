/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_RUN_FAULT_H
#define UR_RUN_FAULT_H

#include <stdbool.h>

/*
 * Puts the faults into the environment, with a seed where there is none, which
 * it says.  False: they are wrong, which it says as well.
 */
bool ur_run_fault(const char *arg);

#endif
