/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process' end of the rings (ring.h) of a port that urnicd runs: what a
 * thread sleeps on, and whether urnicd is alive. One caller at a time.
 */
#ifndef UR_PORTS_RING_END_H
#define UR_PORTS_RING_END_H

#include "ports/ring.h"

struct ur_ring_end {
	struct ur_rings rings;
	int epfd;
	int again; /* readable: something came while we prepared to sleep */
	bool slept;
	bool dead; /* urnicd has ended, or violated the protocol */
};

/* 0 or -errno; sock is taken in any case. ur_ring_end_close() is due after an
 * error too. */
int ur_ring_end_open(struct ur_ring_end *e, int sock);
void ur_ring_end_close(struct ur_ring_end *e);
/* In a child of fork(): close the descriptors. */
void ur_ring_end_abandon(const struct ur_ring_end *e);

/* Continue with the rings of the next urnicd. 0 or -errno; sock is taken. */
int ur_ring_end_renew(struct ur_ring_end *e, int sock);

/* Has urnicd ended? Due every some polls, and after a sleep (slept). */
void ur_ring_end_check(struct ur_ring_end *e);
void ur_ring_end_die(struct ur_ring_end *e);

/* Sleep on this descriptor; readable: poll. */
int ur_ring_end_wait_fd(struct ur_ring_end *e);
/* Make it readable: a wake-up that was read was for another thread. */
void ur_ring_end_wake(const struct ur_ring_end *e);

#endif
