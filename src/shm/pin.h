/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mappings of our own of memory that was made shareable (share.h): its pages
 * are a file's that is ours and cannot shrink, so whoever reads them there
 * never faults, whatever the application does with its own mapping.
 */
#ifndef UR_SHM_PIN_H
#define UR_SHM_PIN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/pin.h"

#define UR_PINS 64u /* of a process */

/*
 * A mapping of [addr, addr + length), with one reference; NULL: it is not, all
 * of it, one piece of such a file just now, or there is no room.  Not in a
 * child after fork(), which has none of them.
 */
struct ur_pin *ur_pin_make(const void *addr, uint64_t length);

#endif
