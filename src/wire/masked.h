/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operands of atomics with masks, in packets between urnics (docs/wire/roce.md).
 */
#ifndef UR_WIRE_MASKED_H
#define UR_WIRE_MASKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest operand: as long as the processor's compare and swap, so that all
 * processes that have the memory mapped see it change at once. */
#define UR_MASKED_MAX 16u

/*
 * Words in native byte order, that of the lower address first.  A shorter operand
 * is in the lower bits of the first word.
 */
struct ur_masked {
	uint64_t value[2];   /* to be swapped in or added */
	uint64_t compare[2]; /* of a compare and swap only */
	uint64_t mask[2]; /* bits to swap; of an add: the ends of its fields */
	uint64_t compare_mask[2]; /* of a compare and swap only */
};

#define UR_MASKED_LEN_MAX (4u * UR_MASKED_MAX)

/* Bytes of the operands of an atomic of `len` bytes. */
static inline uint32_t ur_masked_wire_len(bool cas, uint32_t len)
{
	return (cas ? 4u : 2u) * len;
}

/* The encoding of `len` bytes (4, 8 or 16): 4, or 8 and again 8, in network byte
 * order. */
void ur_masked_put(uint8_t *to, uint32_t len, const uint64_t words[2]);
void ur_masked_get(const uint8_t *from, uint32_t len, uint64_t words[2]);

/* All operands: ur_masked_wire_len() bytes. */
void ur_masked_encode(const struct ur_masked *m, bool cas, uint32_t len,
		      uint8_t *to);
void ur_masked_decode(struct ur_masked *m, bool cas, uint32_t len,
		      const uint8_t *from);

#endif
