/* SPDX-License-Identifier: BSD-2-Clause */
/* Signals in threads of the application that do our work. */
#ifndef UR_BASE_SIGNALS_H
#define UR_BASE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Blocks all for the calling thread but faults, which are synchronous; old: its mask
 * before. */
void ur_signals_block(sigset_t *old);

/*
 * ppoll(2) was interrupted, which is never restarted: would read(2) have been?
 * The kernel does not tell which handler ran, so true only if the process has
 * handlers and all have SA_RESTART, those of faults aside.  A handler that removes
 * itself counts as one without.
 */
bool ur_signals_restart(void);

#endif
