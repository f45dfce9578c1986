/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A key-value store over RDMA: what its server and clients agree on.
 *
 * The server keeps a hash table in registered memory and tells each client,
 * when it accepts the connection, where that is.  A client gets a value by RDMA
 * READs of the table, of which the server's CPU notices nothing, and puts one
 * by a SEND to the server, which alone writes the table and answers by a SEND.
 *
 * A READ may run while the server writes the same entry, and nothing orders
 * the two: what arrives can be any mixture of old and new bytes.  So an entry
 * carries a checksum over all that is valid in it, and a client whose sum does
 * not match reads again.  The version, in the sum too, says how often the entry
 * was written; a client never sees it go back.
 *
 * All numbers are little-endian, so that hosts of either kind can take part.
 */
#ifndef DEMOS_KV_H
#define DEMOS_KV_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>

#define KV_PORT	      "7475"
#define KV_MAGIC      0x6b760001u /* "kv", and the version of all this */
#define KV_KEY_SIZE   40	  /* with the zero at its end */
#define KV_VALUE_SIZE 960
#define KV_PROBES     8 /* slots, from its first on, where a key may be */

/* An entry of the table; version 0: never used, and so all zero. */
struct kv_entry {
	uint64_t version;
	uint64_t sum; /* kv_sum() */
	uint32_t length;
	uint32_t reserved;
	char key[KV_KEY_SIZE];
	char value[KV_VALUE_SIZE];
};

/* Private data of the server's reply: the table. */
struct kv_hello {
	uint32_t magic;
	uint32_t rkey;
	uint64_t addr;
	uint64_t slots;
};

/* A SEND of a client: put this.  It awaits the reply before it sends more. */
struct kv_request {
	uint32_t length;
	uint32_t reserved;
	char key[KV_KEY_SIZE];
	char value[KV_VALUE_SIZE]; /* only length bytes are sent */
};

enum kv_status { KV_OK, KV_FULL, KV_INVALID };

struct kv_reply {
	uint32_t status; /* enum kv_status */
	uint32_t reserved;
	uint64_t version; /* that the entry has now */
};

/* Sum of an entry; UINT64_MAX if its length cannot be. */
uint64_t kv_sum(const struct kv_entry *entry);

/* The slot where the search for a key begins, and those that follow. */
uint64_t kv_slot(const char *key, uint64_t slots, unsigned int probe);

/*
 * Put a value into a table.  Only one thread may; READs may run meanwhile.
 * KV_FULL: no room where the key may be.  *version is that of the entry.
 */
enum kv_status kv_put(struct kv_entry *table, uint64_t slots,
		      const struct kv_request *request, uint64_t *version);

#endif
