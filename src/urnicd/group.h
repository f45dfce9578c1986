/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The SO_REUSEPORT group of UDP port 4791: socket i is slot i.  When a socket
 * leaves the group the kernel moves the last one into its place.  So one leaves
 * only after a new one was added, which gets its place, or from the end.
 */
#ifndef UR_URNICD_GROUP_H
#define UR_URNICD_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "urnicd/gate.h"
#include "urnicd/slot_store.h"
#include "urnicd/slots.h"

struct ur_group {
	uint16_t port;
	struct ur_slots slots;
	struct ur_slot_store store;
	struct ur_gate gate;
	unsigned int replaced; /* records of the store that replace others */
	uint32_t stores;       /* how many there have been */
};

void ur_group_init(struct ur_group *g, uint16_t port);

/* 0: the port is free; -EADDRINUSE: it is taken, perhaps by our group. */
int ur_group_probe(const struct ur_group *g);

/* Start a new group with its first batch.  0 or -errno. */
int ur_group_create(struct ur_group *g, uint64_t now_ns);

/* One batch more: 0, or -errno and nothing has changed. */
int ur_group_grow(struct ur_group *g, uint64_t now_ns);

/*
 * Give the slot a new socket, in the place of the old one, which leaves the
 * group and is closed here; no duplicate of it is sent any packet from now on,
 * unless its holder gets it back among the port's sockets (gate.h).  0, or -errno
 * and nothing has changed; -EAGAIN: the slot now has the old socket of another one, repeat
 * it; -EIO: an owner damaged the slot, it cannot be used for now.
 */
int ur_group_replace(struct ur_group *g, unsigned int slot);

/* Has an owner taken the slot's socket out of the group, as far as it shows? */
bool ur_group_has_left(struct ur_group *g, unsigned int slot);

/* The slot has no owner any more: swaps that waited for that are done. */
void ur_group_settle(struct ur_group *g, unsigned int slot, uint64_t now_ns);

/*
 * Close the last sockets, as far as their slots have been free for
 * UR_SLOT_SHRINK_NS; keep_count are left.  How many were closed.
 */
unsigned int ur_group_shrink(struct ur_group *g, unsigned int keep_count,
			     uint64_t now_ns);

/*
 * Take over the sockets of the store of a dead urnicd: all become orphans.  0 and
 * the store's descriptors are the group's; -EPROTO: not our sockets; -ESTALE:
 * some of them have been replaced since.
 */
int ur_group_restore(struct ur_group *g, const struct ur_slot_store *store,
		     uint64_t now_ns);

/* SO_COOKIE of fd if it is a UDP socket of that port, else 0. */
uint64_t ur_group_cookie(int fd, uint16_t port);

/* A holder of the socket cannot replace its filter, or its group's program. */
void ur_group_lock_filter(int fd);

/*
 * Make a slot's socket as new after its owner: empty it and leave its
 * multicast groups.  0, or -EIO: the owner damaged it for good.
 */
int ur_group_clean(int fd);

/* Leave all groups that any socket of this host's namespace is in. */
void ur_mcast_leave_all(int fd);

#endif
