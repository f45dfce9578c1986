/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE 64u

void ur_cm_table_fini(struct ur_cm_table *t)
{
	free(t->bucket);
	*t = (struct ur_cm_table){ 0 };
}

static void push(struct ur_cm_table *t, struct ur_cm_link *l)
{
	struct ur_cm_link **head = &t->bucket[l->key & (t->size - 1)];

	l->next = *head;
	l->at = head;
	if (l->next)
		l->next->at = &l->next;
	*head = l;
}

int ur_cm_table_reserve(struct ur_cm_table *t, uint32_t total)
{
	uint32_t size = t->size ? t->size : FIRST_SIZE;
	struct ur_cm_table bigger;

	while (size < total)
		size *= 2;
	if (size == t->size)
		return 0;
	bigger.size = size;
	bigger.bucket = calloc(size, sizeof(struct ur_cm_link *));
	if (!bigger.bucket)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->size; i++) {
		struct ur_cm_link *next;

		for (struct ur_cm_link *l = t->bucket[i]; l; l = next) {
			next = l->next;
			push(&bigger, l);
		}
	}
	free(t->bucket);
	*t = bigger;
	return 0;
}

void ur_cm_table_add(struct ur_cm_table *t, struct ur_cm_link *l, uint64_t key)
{
	ur_cm_table_del(l);
	l->key = key;
	push(t, l);
}

void ur_cm_table_del(struct ur_cm_link *l)
{
	if (!l->at)
		return;
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
	l->at = NULL;
}

static struct ur_cm_link *same_key(struct ur_cm_link *l, uint64_t key)
{
	while (l && l->key != key)
		l = l->next;
	return l;
}

struct ur_cm_link *ur_cm_table_first(const struct ur_cm_table *t, uint64_t key)
{
	return t->size ? same_key(t->bucket[key & (t->size - 1)], key) : NULL;
}

struct ur_cm_link *ur_cm_table_next(const struct ur_cm_link *l)
{
	return same_key(l->next, l->key);
}

uint64_t ur_cm_hash_gid(uint64_t h, const uint8_t gid[16])
{
	uint64_t half[2];

	memcpy(half, gid, sizeof(half));
	return ur_cm_hash_u64(ur_cm_hash_u64(h, half[0]), half[1]);
}
