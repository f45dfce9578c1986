/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_CHECK_OPTIONS_H
#define UR_CHECK_OPTIONS_H

#include <stdbool.h>

/* Reads the environment; false: nothing is to be checked. */
bool urk_options_read(void);

#endif
