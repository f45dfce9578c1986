// SPDX-License-Identifier: BSD-2-Clause
#include "kv.h"

#include <stddef.h>
#include <string.h>

/* Mixes a word into a hash so that every bit of it counts. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 32;
}

static uint64_t mix_bytes(uint64_t hash, const char *bytes, size_t length)
{
	for (; length >= sizeof(uint64_t); length -= sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, bytes, sizeof(word));
		hash = mix(hash, le64toh(word));
		bytes += sizeof(word);
	}
	for (; length; length--)
		hash = mix(hash, (unsigned char)*bytes++);
	return hash;
}

uint64_t kv_sum(const struct kv_entry *entry)
{
	uint32_t length = le32toh(entry->length);
	uint64_t hash;

	if (length > KV_VALUE_SIZE)
		return UINT64_MAX;
	hash = mix(le64toh(entry->version), length);
	hash = mix_bytes(hash, entry->key, sizeof(entry->key));
	hash = mix_bytes(hash, entry->value, length);
	/* The one value that stands for what cannot be. */
	return hash == UINT64_MAX ? 0 : hash;
}

uint64_t kv_slot(const char *key, uint64_t slots, unsigned int probe)
{
	return (mix_bytes(0, key, strlen(key)) + probe) % slots;
}

/* The entry of a key, or the unused one that it may have, or NULL. */
static struct kv_entry *find(struct kv_entry *table, uint64_t slots,
			     const char *key)
{
	for (unsigned int probe = 0; probe < KV_PROBES; probe++) {
		struct kv_entry *entry = &table[kv_slot(key, slots, probe)];

		if (!entry->version || strcmp(entry->key, key) == 0)
			return entry;
	}
	return NULL;
}

enum kv_status kv_put(struct kv_entry *table, uint64_t slots,
		      const struct kv_request *request, uint64_t *version)
{
	struct kv_entry *entry = find(table, slots, request->key);
	uint32_t length = le32toh(request->length);

	if (!entry)
		return KV_FULL;
	/* In whatever order these stores and a READ's loads meet: until the
	 * last one is there, version, value and sum do not fit. */
	*version = le64toh(entry->version) + 1;
	entry->version = htole64(*version);
	entry->length = request->length;
	if (*version == 1)
		memcpy(entry->key, request->key, strlen(request->key));
	memcpy(entry->value, request->value, length);
	entry->sum = htole64(kv_sum(entry));
	return KV_OK;
}
