/* SPDX-License-Identifier: BSD-2-Clause */
/* The client's side of the key-value store. */
#ifndef DEMOS_KV_STORE_H
#define DEMOS_KV_STORE_H

#include <rdma/rdma_cma.h>
#include <stddef.h>

#include "kv.h"

/* What the adapter reads and writes: one registered piece of memory. */
struct kv_buffers {
	struct kv_entry entry;
	struct kv_request request;
	struct kv_reply reply;
};

/* A connection to a server; for one thread.  What is NULL is not there. */
struct kv_store {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* of buffers */
	struct kv_buffers buffers;
	bool connected;
	uint64_t addr, slots; /* the server's table */
	uint32_t rkey;
	bool sleep;	    /* rather than poll, for completions */
	unsigned long torn; /* READs that met a write, and were repeated */
};

/* Connect; kv_close() also when that fails.  All return -1 for what was told
 * on standard error. */
int kv_open(struct kv_store *s, const char *host, const char *port);
void kv_close(struct kv_store *s);

/* 1: the entry of the key is in buffers.entry; 0: there is none. */
int kv_get(struct kv_store *s, const char *key);

/* 0: it is there, as that version of its entry. */
int kv_set(struct kv_store *s, const char *key, const void *value,
	   size_t length, uint64_t *version);

#endif
