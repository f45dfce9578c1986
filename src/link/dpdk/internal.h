/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the plugin share. */
#ifndef UR_LINK_DPDK_INTERNAL_H
#define UR_LINK_DPDK_INTERNAL_H

#include "core/port_spec.h"

/*
 * Begin DPDK's Environment Abstraction Layer, once for the process, unless the
 * program has; later calls ask for the same or for nothing.  0; -EINVAL: it refuses the
 * arguments; else its reason.
 */
int ur_eal_begin(const struct ur_eal_args *args);

/*
 * The driver's packet socket that is bound to this interface: it is the
 * driver's, and readable while it has frames; -1: none.  What it has to say
 * of an interface that went down is told until it is cleared.
 */
int ur_packet_socket(unsigned int ifindex);
void ur_packet_clear(int fd);

#endif
