/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices on a port that urnic runs itself (ports/port.h).  The first process
 * that opens such a device runs the port, if urnicd does not: its first lane
 * does, from then on.  Everybody else's packets take the way of the host.
 */
#ifndef UR_ENGINE_PORT_H
#define UR_ENGINE_PORT_H

struct ur_lane;

/* The link of a lane whose device is on a port; fd is that of its slot, which
 * stays the caller's on failure.  0 or -errno. */
int ur_port_lane_link(struct ur_lane *l, int fd);

#endif
