/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A read-only mapping of our own of the pages that the application has in a
 * region. The application's unmapping or remapping does not affect it, so a
 * device may read there later: while `refs` lives, held by the region and by
 * each buffer that points into it. The pages are not pinned in the kernel's
 * sense.
 */
#ifndef UR_CORE_PIN_H
#define UR_CORE_PIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ur_pin {
	_Atomic uint32_t refs;
	uint8_t *map;
	uint64_t length;
	uintptr_t addr; /* application's address of its first byte */
	void (*end)(struct ur_pin *pin);
};

static inline void ur_pin_get(struct ur_pin *pin)
{
	atomic_fetch_add_explicit(&pin->refs, 1, memory_order_relaxed);
}

/* Any thread, under any lock. */
static inline void ur_pin_put(struct ur_pin *pin)
{
	if (atomic_fetch_sub_explicit(&pin->refs, 1, memory_order_acq_rel) == 1)
		pin->end(pin);
}

/* The application's bytes in our mapping; NULL: not all of them are in it. */
static inline uint8_t *ur_pin_at(const struct ur_pin *pin, const void *p,
				 size_t len)
{
	uint64_t off = (uintptr_t)p - pin->addr;

	if ((uintptr_t)p < pin->addr || off > pin->length ||
	    len > pin->length - off)
		return NULL;
	return pin->map + off;
}

/* Is it an address of our mapping? */
static inline bool ur_pin_has(const struct ur_pin *pin, const void *p)
{
	return (uintptr_t)p - (uintptr_t)pin->map < pin->length;
}

#endif
