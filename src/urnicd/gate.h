/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A filter on slot sockets of other users' processes.  The holder of such a
 * socket can connect and disconnect it, which makes it the first socket of the
 * port, so that the kernel gives it the packets of all slots, even after the
 * slot has got another owner.  So the filter, which cannot be removed, lets
 * through only packets for the slot, and, where the kernel takes an eBPF filter
 * from urnicd, only until urnicd shuts it.
 */
#ifndef UR_URNICD_GATE_H
#define UR_URNICD_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct ur_gate {
	bool asked; /* whether the kernel takes our eBPF programs */
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
 * say. */
bool ur_gate_has_left(struct ur_gate *g, int fd);

#endif
