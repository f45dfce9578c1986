/* SPDX-License-Identifier: BSD-2-Clause */
/* What the server of the key-value store has to do with its clients. */
#ifndef DEMOS_KV_CLIENTS_H
#define DEMOS_KV_CLIENTS_H

#include <rdma/rdma_cma.h>

#include "kv.h"

#define KV_CLIENTS 256 /* at most, at the same time */

struct client;

struct server {
	struct rdma_event_channel *events; /* of all connections */
	struct kv_entry *table;
	uint64_t slots;
	struct client *clients[KV_CLIENTS];
	/* Of the device by which the first client came: a listener on every
	 * address does not know it earlier.  NULL before. */
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_mr *table_mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; /* of all clients */
};

/* One event of a connection, for which it may block; -1: the server ends. */
int clients_take_event(struct server *s);

/* The completions that channel has an event for; -1: the server ends. */
int clients_take_completions(struct server *s);

/* Disconnect all and free everything but the event channel and the table. */
void clients_end(struct server *s);

#endif
