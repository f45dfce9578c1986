/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices on a port that urnic runs itself (ports/port.h).  The first process
 * that opens such a device runs the port, by its first lane, unless urnicd
 * does.  Packets of other processes go through the host's stack.
 */
#ifndef UR_ENGINE_PORT_H
#define UR_ENGINE_PORT_H

struct ur_lane;

/* The link of a lane whose device is on a port; fd is that of its slot, which
 * stays the caller's on failure.  0 or -errno. */
int ur_port_lane_link(struct ur_lane *l, int fd);

#endif
