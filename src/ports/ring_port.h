/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port that urnicd runs, as seen by a process with its own TCP: rings
 * (ring.h) of IP packets.  urnicd decides what the process may send, and what
 * it receives (dataplane/steer.h). One caller at a time.
 */
#ifndef UR_PORTS_RING_PORT_H
#define UR_PORTS_RING_PORT_H

#include <stdbool.h>
#include <stdint.h>

/* What a record is: ur_ring_rec.index. */
#define UR_RING_TCP_SEGMENT 0u
#define UR_RING_TCP_PUT	    1u /* scope_id: handle of a lease; no payload */
#define UR_RING_TCP_UNKNOWN                                                    \
	2u /* struct ur_ring_tcp_ends: no connection has them */

struct ur_ring_tcp_ends {
	uint8_t local[16];
	uint8_t peer[16];
	uint8_t local_port[2]; /* big endian */
	uint8_t peer_port[2];
};

struct ur_ring_port;

struct ur_ring_port_config {
	uint32_t ifindex; /* of the host's side */
	/* An IP packet was received; false: no connection has it. */
	bool (*tcp)(void *arg, const uint8_t *packet, uint32_t len);
	void *arg;
};

/* 0 or -errno; sock is taken in any case. */
int ur_ring_port_create(int sock, const struct ur_ring_port_config *cfg,
			struct ur_ring_port **out);
void ur_ring_port_destroy(struct ur_ring_port *p);
/* In a child of fork(): close the descriptors. */
void ur_ring_port_abandon(const struct ur_ring_port *p);

/* Continue with the rings of the next urnicd: 0 or -errno; sock is taken. */
int ur_ring_port_renew(struct ur_ring_port *p, int sock, uint32_t ifindex);

/*
 * 0; -EAGAIN: no room now; -ENETDOWN: urnicd has ended.  Sent with the next
 * flush.
 */
int ur_ring_port_send_ip(struct ur_ring_port *p, const uint8_t *packet,
			 uint32_t len);
void ur_ring_port_flush(struct ur_ring_port *p);

/* A lease is no longer needed. False: no room now to say so. */
bool ur_ring_port_put(struct ur_ring_port *p, uint32_t handle);

/* Receive a burst; the number of packets. */
uint32_t ur_ring_port_poll(struct ur_ring_port *p);

/*
 * Readable when there is something to poll for, until the next call: a waiter
 * wakes even if another thread polls meanwhile.
 */
int ur_ring_port_wait_fd(struct ur_ring_port *p);

bool ur_ring_port_is_dead(const struct ur_ring_port *p);
uint32_t ur_ring_port_ifindex(const struct ur_ring_port *p);
/* Packets for us that found no room. */
uint64_t ur_ring_port_lost(const struct ur_ring_port *p);

#endif
