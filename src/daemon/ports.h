/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports that urnicd runs (link/port.h) for everybody: one thread for each
 * of their queues, which hands each packet to the lane of its slot, through rings, and sends
 * what lanes write there.
 */
#ifndef UR_DAEMON_PORTS_H
#define UR_DAEMON_PORTS_H

#include "daemon/server.h"

/* Are there any in the configuration?  0 or -errno, which is logged. */
int ur_ports_check(void);

/* Begin to run all ports of the configuration, to the end of the process.  0
 * or -errno, which is logged. */
int ur_ports_start(const struct ur_server_ports **out);

#endif
