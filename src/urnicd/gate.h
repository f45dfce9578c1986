/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What another user's process may read from a slot's socket.  Its holder can do
 * more with it than receive: by connecting and disconnecting it he makes it the
 * first of the port's sockets, which the kernel then gives everybody's packets,
 * also when the slot has long been another's.  So a filter that nobody can
 * remove lets through only packets for the slot, and, where the kernel takes
 * such a filter from us, only until urnicd says that it is over.
 */
#ifndef UR_URNICD_GATE_H
#define UR_URNICD_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct ur_gate {
	bool asked; /* whether the kernel takes programs from us */
	int map;    /* cookie of a socket -> its slot; -1: it does not */
	int prog;
	int member; /* to ask whether a socket is in a group; -1: no */
};

void ur_gate_init(struct ur_gate *g);

/*
 * Let fd receive what is for the slot, and nothing else.  1: until
 * ur_gate_shut(); 0: as long as the socket lives; -errno: it is not narrowed.
 */
int ur_gate_open(struct ur_gate *g, int fd, uint64_t cookie, unsigned int slot);

/* That socket receives nothing any more. */
void ur_gate_shut(struct ur_gate *g, uint64_t cookie);

/* Is fd out of its SO_REUSEPORT group?  False, too, if the kernel does not
 * tell us. */
bool ur_gate_has_left(struct ur_gate *g, int fd);

#endif
