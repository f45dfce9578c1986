/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port that urnicd runs, as a process with a TCP of its own sees it: rings
 * (ring.h) of IP packets.  What the process may send, and what comes, urnicd
 * decides (dataplane/steer.h).  One caller at a time.
 */
#ifndef UR_PORTS_RING_PORT_H
#define UR_PORTS_RING_PORT_H

#include <stdbool.h>
#include <stdint.h>

/* What a record is: ur_ring_rec.index. */
#define UR_RING_TCP_SEGMENT 0u
#define UR_RING_TCP_PUT	    1u /* scope_id: the name of a lease; no payload */
#define UR_RING_TCP_UNKNOWN 2u /* struct ur_ring_tcp_ends: of no connection */

struct ur_ring_tcp_ends {
	uint8_t local[16];
	uint8_t peer[16];
	uint8_t local_port[2]; /* big endian */
	uint8_t peer_port[2];
};

struct ur_ring_port;

struct ur_ring_port_config {
	uint32_t ifindex; /* of the host's side */
	/* An IP packet that came; false: no connection has it. */
	bool (*tcp)(void *arg, const uint8_t *packet, uint32_t len);
	void *arg;
};

/* 0 or -errno; sock is taken in any case. */
int ur_ring_port_create(int sock, const struct ur_ring_port_config *cfg,
			struct ur_ring_port **out);
void ur_ring_port_destroy(struct ur_ring_port *p);
/* Descriptors of a child of fork(). */
void ur_ring_port_abandon(const struct ur_ring_port *p);

/* Go on with the next urnicd's rings: 0 or -errno; sock is taken. */
int ur_ring_port_renew(struct ur_ring_port *p, int sock, uint32_t ifindex);

/* 0; -EAGAIN: no room now; -ENETDOWN: urnicd has ended.  It leaves with the
 * next flush. */
int ur_ring_port_send_ip(struct ur_ring_port *p, const uint8_t *packet,
			 uint32_t len);
void ur_ring_port_flush(struct ur_ring_port *p);

/* A lease is not needed any more.  False: no room to say so now. */
bool ur_ring_port_put(struct ur_ring_port *p, uint32_t handle);

/* Take a burst of what came; how many. */
uint32_t ur_ring_port_poll(struct ur_ring_port *p);

/* Readable when there is something to poll for, from now on until it is called
 * again: who waits wakes, though somebody else polls meanwhile. */
int ur_ring_port_wait_fd(struct ur_ring_port *p);

bool ur_ring_port_is_dead(const struct ur_ring_port *p);
uint32_t ur_ring_port_ifindex(const struct ur_ring_port *p);
/* Packets for us that found no room. */
uint64_t ur_ring_port_lost(const struct ur_ring_port *p);

#endif
