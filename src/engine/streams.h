/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that serves ports with TCP (link/stream.h) while no lane does. */
#ifndef UR_ENGINE_STREAMS_H
#define UR_ENGINE_STREAMS_H

/* Once a port is open.  0 or -errno. */
int ur_streams_start(void);

#endif
