/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 over a port that urnicd runs: two rings (shm/ring.h) in shared memory,
 * and a socket by which each side wakes the other and sees it end.
 */
#ifndef UR_PORTS_RING_H
#define UR_PORTS_RING_H

#include "core/port_spec.h"
#include "shm/ring.h"
#include "sockets/link.h"

#define UR_RING_TX_BYTES (1u << 20) /* bursts to the port */
#define UR_RING_RX_BYTES (4u << 20) /* packets to the lane */

/* One side of both rings. */
struct ur_rings {
	void *mem; /* NULL: none */
	int sock;
	struct ur_ring tx;
	struct ur_ring rx;
};

/*
 * urnicd's side; *peer, a socket that holds the memory's file, is for the lane.
 * 0 or -errno.
 */
int ur_rings_make(struct ur_rings *r, int *peer);

/* The lane's side, from such a socket, which is taken in any case. */
int ur_rings_take(struct ur_rings *r, int sock);

void ur_rings_drop(struct ur_rings *r);

/*
 * Wake the other side.  Read what woke us; false: the other side has ended.  A
 * thread that polls while another one waits only asks whether the other side is
 * alive, and leaves the wake-ups: the waiter must wake, since the other side
 * sends no more until asked again.
 */
void ur_rings_wake(const struct ur_rings *r);
bool ur_rings_woken(const struct ur_rings *r);
bool ur_rings_are_alive(const struct ur_rings *r);

/*
 * A packet received, for another lane.  Put: 0; 1: the consumer sleeps and must
 * be signalled; -ENOBUFS: lost, and counted.  Peek: in place, as
 * ur_ring_peek().
 */
int ur_ring_put_rx(struct ur_ring *r, const struct ur_rx *rx);
int ur_ring_peek_rx(struct ur_ring *r, struct ur_rx *rx);

/*
 * The link of the lane that has this socket, and rx_fd as in port_link.h.  0
 * or -errno; sock is taken in any case, rx_fd on success.
 */
int ur_ring_link_create(int sock, const struct ur_port_spec *spec, int rx_fd,
			struct ur_link **out);

/* Is it such a link, and has urnicd ended? */
bool ur_ring_link_is_dead(struct ur_link *link);

/* Continue with the rings of the next urnicd. 0 or -errno; sock is taken. */
int ur_ring_link_renew(struct ur_link *link, int sock);

#endif
