/* SPDX-License-Identifier: BSD-2-Clause */
/* How long a moment is on this machine. */
#ifndef UR_ENGINE_PACE_H
#define UR_ENGINE_PACE_H

#include <stdint.h>

#define UR_PACE_MAX 8u

/*
 * How many times as long as on the machines on which the engine's moments were
 * chosen a small system call takes here: from 4 to UR_PACE_MAX, else 1.
 * Measured at the first call, within microseconds; any thread.
 */
uint32_t ur_pace(void);

/* What it is if such a call takes call_ns nanoseconds. */
uint32_t ur_pace_of(uint64_t call_ns);

#endif
