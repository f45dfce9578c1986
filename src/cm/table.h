/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash table of links that are embedded in ids. The key is a hash already
 * (ur_cm_hash_, with a secret, so that no peer can aim at one bucket);
 * different objects may have the same key, the caller compares.
 */
#ifndef UR_CM_TABLE_H
#define UR_CM_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct ur_cm_link {
	struct ur_cm_link *next;
	/* The pointer to this link; NULL: in no table. */
	struct ur_cm_link **at;
	uint64_t key;
};

struct ur_cm_table {
	struct ur_cm_link **bucket;
	uint32_t size; /* a power of two, or 0 */
};

void ur_cm_table_fini(struct ur_cm_table *t);

/* Reserve room for `total` links, so that adding cannot fail: 0 or -ENOMEM. */
int ur_cm_table_reserve(struct ur_cm_table *t, uint32_t total);

void ur_cm_table_add(struct ur_cm_table *t, struct ur_cm_link *l, uint64_t key);
void ur_cm_table_del(struct ur_cm_link *l); /* idempotent */

/* The first link with that key, and the one after it. */
struct ur_cm_link *ur_cm_table_first(const struct ur_cm_table *t, uint64_t key);
struct ur_cm_link *ur_cm_table_next(const struct ur_cm_link *l);

/* Fold v, or bytes, into a hash. */
static inline uint64_t ur_cm_hash_u64(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
	return h ^ h >> 32;
}

uint64_t ur_cm_hash_gid(uint64_t h, const uint8_t gid[16]);

#endif
