/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP on a port that urnicd runs: segments between the port and processes that
 * have a TCP of their own, one pair of rings for each (ports/ring_port.h has the
 * other side), as the port's table says (steer.h).  The port's lock is held
 * around every call.
 */
#ifndef UR_DATAPLANE_PORTS_TCP_H
#define UR_DATAPLANE_PORTS_TCP_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/steer.h"
#include "ports/port.h"

struct ur_ports_tcp;

/* first: the number of the first of the rings' sockets in the epoll set.
 * NULL: no memory. */
struct ur_ports_tcp *ur_ports_tcp_create(struct ur_port *port,
					 const struct ur_port_spec *spec,
					 uint32_t ifindex, int epfd,
					 uint32_t first);

/* ---- The port's thread ---- */

/* False: it is the host's. */
bool ur_ports_tcp_in(struct ur_ports_tcp *t, const uint8_t *packet,
		     uint32_t len, uint64_t now_ns);
/* Send the processes' records; how many segments. */
uint32_t ur_ports_tcp_work(struct ur_ports_tcp *t, uint64_t now_ns);
/* Processes signal from now on.  False: one has written meanwhile. */
bool ur_ports_tcp_sleep(struct ur_ports_tcp *t);
/* That socket of the epoll set is readable. */
void ur_ports_tcp_hear(struct ur_ports_tcp *t, uint32_t what);

/* ---- The server's thread ---- */

/* New rings for a session, which replace the ones it had: its socket or
 * -errno. */
int ur_ports_tcp_attach(struct ur_ports_tcp *t, uint32_t session, uint32_t uid,
			uint32_t percent, uint64_t now_ns);
void ur_ports_tcp_detach(struct ur_ports_tcp *t, uint32_t session,
			 uint64_t now_ns);
/* -ENOENT: it has no rings, or the port has no such address; fd is copied. */
int ur_ports_tcp_lease(struct ur_ports_tcp *t, uint32_t session,
		       uint32_t handle, const struct ur_tcp_proof *p, int fd);
void ur_ports_tcp_put(struct ur_ports_tcp *t, uint32_t session,
		      uint32_t handle);

/* ---- Either ---- */

struct ur_ports_tcp_view {
	struct ur_steer_counters steer;
	uint32_t processes;
	uint64_t lost; /* segments that a process did not take in time */
};

void ur_ports_tcp_view(const struct ur_ports_tcp *t,
		       struct ur_ports_tcp_view *v);

#endif
