/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last will of a process: whom to tell that it has died.  Each keeps a
 * ready-made DREQ for every open connection (a REJ for one that it has only
 * accepted) in a memory file that urnicd has
 * as well; when the process is gone, urnicd sends them.  So a peer hears of a
 * kill as it would from a kernel that closes the process' files, at no cost
 * while the process lives.
 *
 * The file is sealed (no shrinking, no growing) and of one size; the process
 * alone writes, and holds a lock on it (F_SETLK) for as long as it lives as this
 * program.  An entry counts once `valid` is 1: it is written last and
 * cleared first.
 */
#ifndef UR_CLIENT_WILL_H
#define UR_CLIENT_WILL_H

#include <stdint.h>

#define UR_WILL_MAGIC	0x75725731u /* "urW1" */
#define UR_WILL_ENTRIES 65536u
#define UR_WILL_MAD	256u

struct ur_will_head {
	uint32_t magic;
	_Atomic uint32_t high; /* entries that were ever used */
	uint8_t rest[56];
};

struct ur_will_entry {
	_Atomic uint32_t valid;
	uint32_t scope_id;
	uint8_t src[16];
	uint8_t dst[16];
	uint8_t tclass;
	uint8_t rest[23];
	uint8_t mad[UR_WILL_MAD];
};

struct ur_will {
	struct ur_will_head head;
	struct ur_will_entry entry[UR_WILL_ENTRIES];
};

/* Two versions of this software may meet. */
_Static_assert(sizeof(struct ur_will_head) == 64, "layout");
_Static_assert(sizeof(struct ur_will_entry) == 320, "layout");

#endif
