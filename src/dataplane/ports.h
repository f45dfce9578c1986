/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports that urnicd runs (ports/port.h) for all processes: one thread for each
 * of their queues, which passes each packet to the lane of its slot, through
 * rings, and sends the bursts that lanes write there.
 */
#ifndef UR_DATAPLANE_PORTS_H
#define UR_DATAPLANE_PORTS_H

#include <stdint.h>

#include "client/ipc.h"
#include "dataplane/tcp_proof.h"

/*
 * Ports that urnicd runs as the control plane (urnicd/) sees them: attach makes rings for the lane
 * of a slot on the port whose interface that is, and answers with the lane's
 * socket, or -ENOENT; detach ends them, and does nothing if there are none.
 */
struct ur_server_ports {
	int (*attach)(void *arg, unsigned int slot, uint32_t ifindex);
	void (*detach)(void *arg, unsigned int slot);
	/* A sealed memory file with their counters, or -errno. */
	int (*report)(void *arg);
	void *arg;
	/* The same for processes that have a TCP of their own, by the id of
	 * their session; and the port numbers that they lease.  NULL: not
	 * supported. */
	int (*attach_tcp)(uint32_t session, uint32_t uid, uint32_t percent,
			  uint32_t ifindex);
	void (*detach_tcp)(uint32_t session);
	int (*lease_tcp)(uint32_t session, uint32_t handle,
			 const struct ur_tcp_proof *proof, int fd);
	void (*put_tcp)(uint32_t session, uint32_t handle);
};

/* Are there any in the configuration?  0 or -errno, which is logged. */
int ur_ports_check(void);

/* Run all ports of the configuration until the process ends.  0 or -errno,
 * which is logged. */
int ur_ports_start(const struct ur_server_ports **out);

#endif
