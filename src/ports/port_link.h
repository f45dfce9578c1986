/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 over a port that this process runs itself.  The lane that has the
 * port serves it: the host's traffic too.  Other lanes of the process may have
 * queues of it.
 */
#ifndef UR_PORTS_PORT_LINK_H
#define UR_PORTS_PORT_LINK_H

#include "ports/port.h"
#include "sockets/link.h"

/*
 * Open the port (cfg->deliver and cfg->arg are set here) for the lane of that
 * slot.  What the port does not carry, that is packets between the host's own
 * addresses, multicast, and what is for other processes, goes through rx_fd
 * and the sockets of sockets/udp.h.  0 or -errno as ur_port_open() and
 * ur_udp_link_create(); on failure rx_fd stays the caller's.
 */
int ur_port_link_create(const struct ur_port_config *cfg, uint32_t slot,
			int rx_fd, struct ur_link **out);

/*
 * The same for another lane, if one of this process has the port.  -ENOENT:
 * none has; -EBUSY: it has no queue left.
 */
int ur_port_link_join(const struct ur_port_config *cfg, uint32_t slot,
		      int rx_fd, struct ur_link **out);

#endif
