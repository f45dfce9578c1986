/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The SO_REUSEPORT group of UDP port 4791: socket i is slot i.  Closing a
 * socket would move another one to its index, so none is ever closed.
 */
#ifndef UR_DAEMON_GROUP_H
#define UR_DAEMON_GROUP_H

#include <stdint.h>

#include "daemon/keeper.h"
#include "daemon/slots.h"

struct ur_group {
	uint16_t port;
	struct ur_slots slots;
	struct ur_keeper keeper;
};

void ur_group_init(struct ur_group *g, uint16_t port);

/* 0: the port is free; -EADDRINUSE: somebody has it, perhaps our group. */
int ur_group_probe(const struct ur_group *g);

/* Start a new group with its first batch.  0 or -errno. */
int ur_group_create(struct ur_group *g, uint64_t now_ns);

/* One batch more: 0, or -errno and nothing has changed. */
int ur_group_grow(struct ur_group *g, uint64_t now_ns);

/*
 * Take over the sockets of a dead daemon's keeper: all become orphans.  0 and
 * the keeper's descriptors are the group's; -EPROTO: not our sockets.
 */
int ur_group_restore(struct ur_group *g, const struct ur_keeper *keeper,
		     uint64_t now_ns);

/* SO_COOKIE of fd if it is a UDP socket of that port, else 0. */
uint64_t ur_group_cookie(int fd, uint16_t port);

/*
 * Make a slot's socket as new after its owner: empty it and leave its
 * multicast groups.  0, or -EIO: the owner damaged it for good.
 */
int ur_group_clean(int fd);

/* Leave all groups that any socket of this host's namespace is in. */
void ur_mcast_leave_all(int fd);

#endif
