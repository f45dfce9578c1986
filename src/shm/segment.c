/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/segment.h"

static const uint32_t level_slots[UR_SEG_LEVELS] = { 0x400, 0x2000, 0x10000,
						     0x80000 };

/* The words behind the sequence number. */
#define WORDS (sizeof(struct ur_seg_entry) / 8 - 1)

static uint64_t *words_of(struct ur_seg_entry *e)
{
	return (uint64_t *)(void *)e + 1;
}

static const uint64_t *words_of_const(const struct ur_seg_entry *e)
{
	return (const uint64_t *)(const void *)e + 1;
}

/* QP numbers differ in a few bits, keys in all: spread either. */
static uint32_t hash(uint32_t key)
{
	uint64_t h = key * 0x9e3779b97f4a7c15ULL;

	h = (h ^ h >> 32) * 0x9e3779b97f4a7c15ULL;
	return (uint32_t)(h >> 32);
}

/* First slot of the key's group in a level that begins at `base`. */
static uint32_t group_of(uint32_t key, uint32_t base, uint32_t slots)
{
	return base + (hash(key) % (slots / UR_SEG_GROUP)) * UR_SEG_GROUP;
}

static uint32_t key_of(const struct ur_seg_entry *e)
{
	return __atomic_load_n(&e->key, __ATOMIC_RELAXED);
}

/* False if it changed meanwhile, or is about to. */
static bool copy_entry(const struct ur_seg_entry *e, struct ur_seg_entry *out)
{
	uint64_t seq = atomic_load_explicit(&e->seq, memory_order_seq_cst);
	uint64_t *to = words_of(out);
	const uint64_t *from = words_of_const(e);

	if (seq & 1)
		return false;
	for (uint32_t i = 0; i < WORDS; i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
	atomic_store_explicit(&out->seq, seq, memory_order_relaxed);
	return atomic_load_explicit(&e->seq, memory_order_relaxed) == seq;
}

static uint32_t levels_of(const struct ur_seg_table *t)
{
	uint32_t n = atomic_load_explicit(&t->levels, memory_order_acquire);

	return n < UR_SEG_LEVELS ? n : UR_SEG_LEVELS;
}

const struct ur_seg_entry *ur_seg_find(const struct ur_seg_table *t,
				       uint32_t key, struct ur_seg_entry *out)
{
	uint32_t levels = levels_of(t), base = 0;
	struct ur_seg_entry copy;

	if (key == 0)
		return NULL;
	for (uint32_t l = 0; l < levels; base += level_slots[l++]) {
		uint32_t at = group_of(key, base, level_slots[l]);

		for (uint32_t i = at; i < at + UR_SEG_GROUP; i++) {
			const struct ur_seg_entry *e = &t->slot[i];

			if (key_of(e) == key && copy_entry(e, &copy) &&
			    copy.key == key) {
				*out = copy;
				return e;
			}
		}
	}
	return NULL;
}

static struct ur_seg_entry *free_slot(struct ur_seg_table *t, uint32_t key)
{
	uint32_t base = 0;

	for (uint32_t l = 0; l < UR_SEG_LEVELS; base += level_slots[l++]) {
		uint32_t at = group_of(key, base, level_slots[l]);

		for (uint32_t i = at; i < at + UR_SEG_GROUP; i++)
			if (key_of(&t->slot[i]) == 0) {
				if (l >= levels_of(t))
					atomic_store(&t->levels, l + 1);
				return &t->slot[i];
			}
	}
	return NULL;
}

struct ur_seg_entry *ur_seg_put(struct ur_seg_table *t,
				const struct ur_seg_entry *from)
{
	struct ur_seg_entry *e = free_slot(t, from->key);
	const uint64_t *words = words_of_const(from);

	if (!e)
		return NULL;
	atomic_fetch_add(&e->seq, 1);
	for (uint32_t i = 0; i < WORDS; i++)
		__atomic_store_n(&words_of(e)[i], words[i], __ATOMIC_RELAXED);
	/* Unique: the slot's former number may be known for another key. */
	atomic_store(&e->seq, ++t->serial * 4);
	return e;
}

void ur_seg_drop(struct ur_seg_entry *e)
{
	atomic_fetch_add(&e->seq, 1);
	__atomic_store_n(&e->key, 0, __ATOMIC_RELAXED);
	atomic_fetch_add(&e->seq, 1);
}

uint32_t ur_seg_used(const struct ur_seg_table *t)
{
	uint32_t sum = 0;

	for (uint32_t l = 0; l < levels_of(t); l++)
		sum += level_slots[l];
	return sum;
}
