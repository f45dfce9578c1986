/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_TOOLS_RUN_CHECK_H
#define UR_TOOLS_RUN_CHECK_H

/*
 * Look at the program that is to be run and warn, one line each, of what keeps
 * urnic's libraries from it.  What it starts itself is not looked at, but for
 * scripts (their interpreter) and programs like timeout(1) (their argument).
 * 0, or the exit status if it cannot be executed, which was told then.
 */
int ur_run_check(char **argv);

#endif
