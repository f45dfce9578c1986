/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lanes of a process that share a port: each has a queue of its own, and
 * an inbox for those of its packets that the controller has put into the queue
 * of another.  What one flow brings comes by one queue, and leaves an inbox as
 * it was put in, so it stays in order.
 */
#ifndef UR_PORTS_PORT_GROUP_H
#define UR_PORTS_PORT_GROUP_H

#include "ports/port.h"

struct ur_port_group;

/* What a lane has of it. */
struct ur_port_seat {
	struct ur_port_group *group;
	struct ur_port *port;
	uint32_t slot;
	uint32_t index; /* of its queue and inbox */
};

/* Open the port for the lane of that slot, and those that come.  0 or -errno
 * as ur_port_open(). */
int ur_port_seat_open(const struct ur_port_config *cfg, uint32_t slot,
		      struct ur_port_seat *s);

/* Join a lane of this process that has the port of cfg->ifname.  -ENOENT: none
 * has; -EBUSY: it has no queue left. */
int ur_port_seat_join(const struct ur_port_config *cfg, uint32_t slot,
		      struct ur_port_seat *s);

/* The last one closes the port. */
void ur_port_seat_leave(struct ur_port_seat *s);

/* In a child of fork(). */
void ur_port_seat_abandon(const struct ur_port_seat *s);

/* Put a packet into the inbox of the lane that has the slot, which may be lost
 * there as in a network; false: no lane here has it. */
bool ur_port_seat_hand(const struct ur_port_seat *s, uint32_t slot,
		       const struct ur_rx *rx);

/* What is in ours, at most a burst; *n: how many packets.  True: that was all
 * that had been put in before. */
bool ur_port_seat_recv(const struct ur_port_seat *s,
		       void (*rx)(void *arg, const struct ur_rx *rx), void *arg,
		       uint32_t *n);

/* Packets that found our inbox full. */
uint64_t ur_port_seat_lost(const struct ur_port_seat *s);

/* Readable when there is something in it, once that was asked for by _sleep();
 * _wake() takes back what it has told.  -1: a port of one queue has none. */
int ur_port_seat_fd(const struct ur_port_seat *s);
void ur_port_seat_sleep(const struct ur_port_seat *s);
void ur_port_seat_wake(const struct ur_port_seat *s);

#endif
