/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The environment variables of urnic, of which urnic(7) says what they mean.
 */
#ifndef UR_CONFIG_ENVIRONMENT_H
#define UR_CONFIG_ENVIRONMENT_H

#include "config/config.h"

/* Longest finding, with its NUL. */
#define UR_ENVIRONMENT_WHY_LEN 256u

/*
 * Looks at one variable, "NAME=value" as in environ(7).  False: it starts with
 * URNIC and is none of ours, or has a value that is not used; `why` is one line
 * that says so.  `c`: the devices there are.
 */
bool ur_environment_check(const struct ur_config *c, const char *variable,
			  char why[UR_ENVIRONMENT_WHY_LEN]);

/* Logs a warning for each such variable of the process. */
void ur_environment_warn(const struct ur_config *c);

#endif
