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

/* Mbit/s of the entry's interface: as the kernel says, else an estimate. */
uint64_t ur_host_speed(const struct ur_gid *gid);

/*
 * An EUI-64 for the node: of the first Ethernet address, or if there is none,
 * one of the local sort that stays until the next boot.
 */
uint64_t ur_host_guid(void);

#endif
