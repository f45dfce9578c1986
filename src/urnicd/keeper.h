/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The keeper: a socket pair whose queue holds every slot socket in flight
 * (SCM_RIGHTS), in batches.  While anybody has its read end open the sockets
 * stay alive and keep their indices in the port's group, also when urnicd is
 * killed.  The queue is only ever appended to and peeked at, so there is no
 * instant at which a socket exists nowhere.  A record for slots that have one
 * already replaces their sockets; a keeper with many such records is given up
 * for a new one.
 */
#ifndef UR_URNICD_KEEPER_H
#define UR_URNICD_KEEPER_H

#include <stdint.h>

#include "urnicd/slots.h"

struct ur_keeper {
	int rd;
	int wr;
};

/* Both ends closed: -1. */
void ur_keeper_init(struct ur_keeper *k);

int ur_keeper_create(struct ur_keeper *k); /* 0 or -errno */
void ur_keeper_close(struct ur_keeper *k);

/* Append the sockets of slots first … first+n-1 (n <= UR_SLOT_BATCH); first is
 * not above the number of slots that it has. */
int ur_keeper_add(struct ur_keeper *k, unsigned int first, const int *fds,
		  unsigned int n);

/*
 * Duplicates of all sockets by slot number.  Returns how many there are, or
 * -errno; -EPROTO if the queue is not one that ur_keeper_add() wrote (the
 * descriptors come from a client).  The descriptors are the caller's.
 */
int ur_keeper_read(const struct ur_keeper *k, int fds[UR_SLOTS]);

#endif
