/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/masked.h"

#include <string.h>

#include "base/bytes.h"

void ur_masked_put(uint8_t *to, uint32_t len, const uint64_t words[2])
{
	if (len == 4) {
		ur_put_be32(to, (uint32_t)words[0]);
		return;
	}
	for (uint32_t i = 0; i < len / 8; i++)
		ur_put_be64(to + (size_t)8 * i, words[i]);
}

void ur_masked_get(const uint8_t *from, uint32_t len, uint64_t words[2])
{
	words[0] = len == 4 ? ur_be32_at(from) : ur_be64_at(from);
	words[1] = len == 16 ? ur_be64_at(from + 8) : 0;
}

void ur_masked_encode(const struct ur_masked *m, bool cas, uint32_t len,
		      uint8_t *to)
{
	ur_masked_put(to, len, m->value);
	if (!cas) {
		ur_masked_put(to + len, len, m->mask);
		return;
	}
	ur_masked_put(to + len, len, m->compare);
	ur_masked_put(to + (size_t)2 * len, len, m->mask);
	ur_masked_put(to + (size_t)3 * len, len, m->compare_mask);
}

void ur_masked_decode(struct ur_masked *m, bool cas, uint32_t len,
		      const uint8_t *from)
{
	memset(m, 0, sizeof(*m));
	ur_masked_get(from, len, m->value);
	if (!cas) {
		ur_masked_get(from + len, len, m->mask);
		return;
	}
	ur_masked_get(from + len, len, m->compare);
	ur_masked_get(from + (size_t)2 * len, len, m->mask);
	ur_masked_get(from + (size_t)3 * len, len, m->compare_mask);
}
