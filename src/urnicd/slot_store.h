/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slot store: a socket pair whose queue holds every slot socket in flight
 * (SCM_RIGHTS), in batches.  While a process has its read end open the sockets
 * stay open and keep their indices in the port's group, also when urnicd is
 * killed.  The queue is only appended to and peeked at, so there is no time at
 * which no process holds a socket.  A later record of a slot replaces its
 * socket; a store with many such records is replaced by a new one.
 */
#ifndef UR_URNICD_SLOT_STORE_H
#define UR_URNICD_SLOT_STORE_H

#include <stdint.h>

#include "urnicd/slots.h"

struct ur_slot_store {
	int rd;
	int wr;
};

/* Both ends closed: -1. */
void ur_slot_store_init(struct ur_slot_store *k);

int ur_slot_store_create(struct ur_slot_store *k); /* 0 or -errno */
void ur_slot_store_close(struct ur_slot_store *k);

/* Append the sockets of slots first … first+n-1 (n <= UR_SLOT_BATCH); first is
 * not above the number of slots that it has. */
int ur_slot_store_add(struct ur_slot_store *k, unsigned int first,
		      const int *fds, unsigned int n);

/*
 * Duplicates of all sockets by slot number.  Returns how many there are, or
 * -errno; -EPROTO if the queue is not one that ur_slot_store_add() wrote (the
 * descriptors come from a client).  The descriptors are the caller's.
 */
int ur_slot_store_read(const struct ur_slot_store *k, int fds[UR_SLOTS]);

#endif
