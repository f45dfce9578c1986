/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A mapping of our own, to read from, of pages that the application has in a
 * region.  What it does with its addresses changes nothing here, so others may
 * be told to read there later: by `refs`, one of the region and one of each
 * buffer that points into it.  Nothing is pinned in the kernel's sense.
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
	uintptr_t addr; /* where the application had the first byte of it */
	void (*end)(struct ur_pin *pin);
};

static inline void ur_pin_get(struct ur_pin *pin)
{
	atomic_fetch_add_explicit(&pin->refs, 1, memory_order_relaxed);
}

/* From any thread, under any lock. */
static inline void ur_pin_put(struct ur_pin *pin)
{
	if (atomic_fetch_sub_explicit(&pin->refs, 1, memory_order_acq_rel) == 1)
		pin->end(pin);
}

/* Where these bytes of the application's are in our mapping; NULL: not all of
 * them are. */
static inline uint8_t *ur_pin_at(const struct ur_pin *pin, const void *p,
				 size_t len)
{
	uint64_t off = (uintptr_t)p - pin->addr;

	if ((uintptr_t)p < pin->addr || off > pin->length ||
	    len > pin->length - off)
		return NULL;
	return pin->map + off;
}

/* Is it one of our mapping's addresses? */
static inline bool ur_pin_has(const struct ur_pin *pin, const void *p)
{
	return (uintptr_t)p - (uintptr_t)pin->map < pin->length;
}

#endif
