/* SPDX-License-Identifier: BSD-2-Clause */
/* Signals in threads of the application that do our work. */
#ifndef UR_BASE_SIGNALS_H
#define UR_BASE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Blocks all but those of faults for the calling thread; old: its mask before. */
void ur_signals_block(sigset_t *old);

/*
 * ppoll(2) was interrupted, which is never restarted: would read(2) have been?
 * The kernel does not tell which handler ran, so true only if all handlers of
 * the process have SA_RESTART.
 */
bool ur_signals_restart(void);

#endif
