/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owners of the ports of the RDMA port spaces (TCP, UDP, IPOIB, IB) in this
 * namespace, and the listeners: pure, for urnicd and for a process that works
 * without it.  The rules are those of the kernel's rdma_cm:
 *
 *  - A port is bound to an address or to a wildcard of its family.  Two
 *    bindings conflict if their addresses are equal (-EADDRINUSE) or one of
 *    them is a wildcard (-EADDRNOTAVAIL), whatever the family, unless both
 *    are of one family only (AFONLY) and these differ, or both allow REUSE.
 *  - Listening does not know REUSE: any other binding in conflict refuses it.
 *
 * Addresses are GIDs: IPv4 is mapped, ::ffff:0.0.0.0 is its wildcard.
 */
#ifndef UR_CLIENT_BINDS_H
#define UR_CLIENT_BINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define UR_BINDS_BUCKETS  4096u
#define UR_BINDS_OF_OWNER 65536u
#define UR_BINDS_OF_PORT  1024u /* of several addresses, or REUSE */
#define UR_BIND_ROOT_PORT 1024u /* below: CAP_NET_BIND_SERVICE is asked for */

enum ur_bind_flags {
	UR_BIND_REUSE = 1 << 0,
	UR_BIND_AFONLY = 1 << 1,
	UR_BIND_LISTEN = 1 << 2, /* listens already: after a restart */
	UR_BIND_CLAIM = 1 << 3,	 /* was bound before a restart */
	UR_BIND_FLAGS = (1 << 4) - 1,
};

/* Embedded in the owner of bindings; ended by ur_binds_drop(). */
struct ur_bind_owner {
	struct ur_list binds;
	uint32_t count;
	uint32_t listening; /* of them */
};

struct ur_bind {
	struct ur_list by_port;
	struct ur_list by_handle;
	struct ur_list of_owner;
	struct ur_bind_owner *owner;
	uint32_t handle; /* the owner's name for it */
	uint16_t ps;
	uint16_t port;
	uint8_t flags;
	uint8_t addr[16];
};

struct ur_binds {
	struct ur_list by_port[UR_BINDS_BUCKETS];
	struct ur_list by_handle[UR_BINDS_BUCKETS];
	uint16_t first; /* free ports are taken from here … */
	uint16_t last;	/* … to here */
};

/* A request; port 0: any free port. */
struct ur_bind_want {
	uint32_t handle;
	uint16_t ps;
	uint16_t port;
	uint8_t flags;
	uint8_t addr[16];
};

void ur_binds_init(struct ur_binds *b, uint16_t first, uint16_t last);
void ur_binds_fini(struct ur_binds *b);
void ur_bind_owner_init(struct ur_bind_owner *o);

/* The range from which this namespace takes ports; the default if unknown. */
void ur_binds_range(uint16_t *first, uint16_t *last);

/*
 * Bind.  0 and *port; -EADDRINUSE, -EADDRNOTAVAIL: see above, and all ports
 * of the range are taken; -EEXIST: the owner has a binding of that handle;
 * -EPROTONOSUPPORT: no such port space; -ENOSPC: the owner or the port has too
 * many; -ENOMEM.  `chance` is a random number.  The caller has checked that the
 * owner may have a port below UR_BIND_ROOT_PORT.
 */
int ur_binds_add(struct ur_binds *b, struct ur_bind_owner *o,
		 const struct ur_bind_want *want, uint32_t chance,
		 uint16_t *port);

/* 0; -ENOENT: no such handle; -EADDRINUSE, -EADDRNOTAVAIL. */
int ur_binds_listen(struct ur_binds *b, struct ur_bind_owner *o,
		    uint32_t handle);

/* 0 or -ENOENT. */
int ur_binds_del(struct ur_binds *b, struct ur_bind_owner *o, uint32_t handle);

/* All of an owner. */
void ur_binds_drop(struct ur_binds *b, struct ur_bind_owner *o);

/* The listener on that port for packets to that address; NULL: none. */
const struct ur_bind *ur_binds_find(const struct ur_binds *b, uint16_t ps,
				    uint16_t port, const uint8_t dst[16]);

/* A wildcard of either family. */
bool ur_bind_is_any(const uint8_t addr[16]);

/*
 * Has a process CAP_NET_BIND_SERVICE in our user namespace?  pid 0: this
 * process.
 */
bool ur_bind_may_root_port(int pid);

#endif
