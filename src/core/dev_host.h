/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the host tells about its addresses and interfaces.  Works for every
 * user and in a network namespace of its own; nothing is kept between calls.
 */
#ifndef UR_CORE_DEV_HOST_H
#define UR_CORE_DEV_HOST_H

#include "core/dev.h"

/*
 * The addresses of the host in the order of the GID table, at most max.
 * Returns how many, or -errno.
 */
int ur_host_gids(struct ur_gid *out, uint32_t max);

/* Fill in what the interface n->ifindex is now.  0, or -ENODEV: there is none
 * of that number any more. */
int ur_host_netdev(struct ur_dev_netdev *n);

/* Mbit/s of the interface: as the kernel says, else an estimate. */
uint64_t ur_host_speed(const struct ur_dev_netdev *n);

/*
 * An EUI-64 for the node: of the first Ethernet address, or if there is none,
 * one of the local sort that stays until the next boot.
 */
uint64_t ur_host_guid(void);

/* Of that interface's Ethernet address, else the node's. */
uint64_t ur_host_netdev_guid(const char *name);

#endif
