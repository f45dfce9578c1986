/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries of the host's addresses and interfaces. Works for every user and in
 * any network namespace; keeps no state between calls. */
#ifndef UR_CORE_DEV_HOST_H
#define UR_CORE_DEV_HOST_H

#include "core/dev.h"

/*
 * The addresses of the host in the order of the GID table, at most max.
 * Returns how many, or -errno.
 */
int ur_host_gids(struct ur_gid *out, uint32_t max);

/* Read the current state of interface n->ifindex. 0, or -ENODEV: no such
 * interface any more. */
int ur_host_netdev(struct ur_dev_netdev *n);

/* Mbit/s of the interface: as the kernel reports, else an estimate. */
uint64_t ur_host_speed(const struct ur_dev_netdev *n);

/* An EUI-64 for the node: from the first Ethernet address, or if there is none,
 * a locally administered one that stays until the next boot. */
uint64_t ur_host_guid(void);

/* From that interface's Ethernet address, else the node's. */
uint64_t ur_host_netdev_guid(const char *name);

#endif
