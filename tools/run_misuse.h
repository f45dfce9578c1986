/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_TOOLS_RUN_MISUSE_H
#define UR_TOOLS_RUN_MISUSE_H

#include <stdbool.h>

/*
 * urnic run --check and what belongs to it: `option` is the letter that
 * getopt_long() has returned. False: arg is wrong, which was told.
 */
#define UR_MISUSE_CHECK	   'k' /* NULL, "certain" or "all" */
#define UR_MISUSE_FILE	   'F'
#define UR_MISUSE_EXIT	   'x'
#define UR_MISUSE_SUPPRESS 'S'
#define UR_MISUSE_JSON	   'j'
bool ur_run_misuse_option(int option, const char *arg);

/* Sets URNIC_CHECK, if one of the options was there; *wanted tells that. */
bool ur_run_misuse_set(bool *wanted);

#endif
