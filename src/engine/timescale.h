/* SPDX-License-Identifier: BSD-2-Clause */
/* Factor by which the engine's timeouts are longer on a slow machine. */
#ifndef UR_ENGINE_TIMESCALE_H
#define UR_ENGINE_TIMESCALE_H

#include <stdint.h>

#define UR_TIMESCALE_MAX 8u

/*
 * Duration of a short system call, relative to the machines on which the
 * engine's timeouts were chosen: 4 to UR_TIMESCALE_MAX, or 1 below 4.  The
 * first call measures it, within microseconds.  Any thread.
 */
uint32_t ur_timescale(void);

/* The factor for a system call of call_ns. */
uint32_t ur_timescale_of(uint64_t call_ns);

#endif
