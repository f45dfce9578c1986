/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_TOOLS_RUN_H
#define UR_TOOLS_RUN_H

/* The environment of `urnic run`, and a library of ours that is preloaded: 0, or
 * -errno, which was reported. */
int ur_run_environment(const char *preload);

#endif
