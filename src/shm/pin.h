/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Our own mappings of memory that was made shareable (share.h). Its pages
 * belong to a memfd of ours that cannot shrink, so reading them by this mapping
 * never faults, whatever the application does with its own.
 */
#ifndef UR_SHM_PIN_H
#define UR_SHM_PIN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/pin.h"

#define UR_PINS 64u /* per process */

/*
 * A mapping of [addr, addr + length), with one reference; NULL: it is not
 * entirely one piece of such a file at present, or there is no room.  Not in a
 * child of fork(), which has none.
 */
struct ur_pin *ur_pin_make(const void *addr, uint64_t length);

#endif
