/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's side of a port: a TAP, an Ethernet interface whose frames come to
 * us instead of to a wire.  It has the port's addresses, so that all that is
 * not RoCE's own goes on as if the kernel had the port.  It is there as long
 * as its descriptor is open.
 */
#ifndef UR_PORTS_TAP_H
#define UR_PORTS_TAP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/port_spec.h"

/*
 * Make the interface, with the port's addresses and gateways, and take it up;
 * *ifindex is its number.  Returns the descriptor or -errno: -EBUSY: another
 * process has it and so the port; -EPERM, -ENOENT: the system refuses.  Each is
 * logged, but for -EBUSY.
 */
int ur_tap_open(const char *name, const struct ur_port_spec *spec,
		const uint8_t mac[6], uint32_t *ifindex);

#endif
