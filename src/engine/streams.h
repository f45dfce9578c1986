/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that serves ports with TCP (ports/stream.h) while no lane does. */
#ifndef UR_ENGINE_STREAMS_H
#define UR_ENGINE_STREAMS_H

struct json_object;

/* Once a port is open; again does nothing, unless it has failed.  0 or -errno,
 * logged. */
int ur_streams_start(void);

/* Adds "lwip" and "lwip_ports", if this process runs such ports. */
void ur_streams_report(struct json_object *root);

#endif
