// SPDX-License-Identifier: BSD-2-Clause
/*
 * The clients of the key-value store's server: they come, put and go.
 *
 * A client's memory may go only when the adapter has given back every request
 * that refers to it.  So removal has two steps: stop() makes the queue pair
 * flush them all, and when the last has come back the client is freed.
 */
#include "kv_clients.h"

#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define REPLIES 4 /* a client's, whose completion may still be out */
#define BATCH	16

struct client {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;   /* of request */
	unsigned int posted; /* requests that the adapter has */
	bool stopped;
	struct kv_request request;
};

static int use_device(struct server *s, struct ibv_context *device)
{
	s->device = device;
	s->pd = ibv_alloc_pd(device);
	if (!s->pd)
		return complain_errno("ibv_alloc_pd");
	s->table_mr = ibv_reg_mr(s->pd, s->table, s->slots * sizeof(*s->table),
				 IBV_ACCESS_REMOTE_READ);
	if (!s->table_mr)
		return complain_errno("ibv_reg_mr");
	s->channel = ibv_create_comp_channel(device);
	if (!s->channel)
		return complain_errno("ibv_create_comp_channel");
	s->cq = ibv_create_cq(device, KV_CLIENTS * (REPLIES + 1), NULL,
			      s->channel, 0);
	if (!s->cq)
		return complain_errno("ibv_create_cq");
	if (ibv_req_notify_cq(s->cq, 0))
		return complain("ibv_req_notify_cq has failed");
	return 0;
}

static int post_receive(struct client *c)
{
	if (rdma_post_recv(c->id, c, &c->request, sizeof(c->request), c->mr))
		return complain_errno("rdma_post_recv");
	c->posted++;
	return 0;
}

/* Where a client stands, or where one that is not there (NULL) can. */
static struct client **place_of(struct server *s, const struct client *c)
{
	for (unsigned int i = 0; i < KV_CLIENTS; i++)
		if (s->clients[i] == c)
			return &s->clients[i];
	return NULL;
}

static void free_client(struct server *s, struct client *c)
{
	*place_of(s, c) = NULL;
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	if (c->mr)
		ibv_dereg_mr(c->mr);
	rdma_destroy_id(c->id);
	free(c);
}

/* Have all that is posted come back, at once if nothing is. */
static void stop(struct server *s, struct client *c)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	if (!c->stopped) {
		c->stopped = true;
		/* Fails on what is not connected yet, or no longer. */
		rdma_disconnect(c->id);
		ibv_modify_qp(c->id->qp, &error, IBV_QP_STATE);
	}
	if (!c->posted)
		free_client(s, c);
}

/* A connection with its queue pair and first receive, not accepted yet. */
static int equip(struct server *s, struct client *c)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = { .max_send_wr = REPLIES,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = sizeof(struct kv_reply) },
	};

	c->mr = ibv_reg_mr(s->pd, &c->request, sizeof(c->request),
			   IBV_ACCESS_LOCAL_WRITE);
	if (!c->mr)
		return complain_errno("ibv_reg_mr");
	if (rdma_create_qp(c->id, s->pd, &attr))
		return complain_errno("rdma_create_qp");
	return post_receive(c);
}

/* A client wants to connect; -1 only if that ends the server. */
static int welcome(struct server *s, struct rdma_cm_id *id, uint8_t reads)
{
	struct kv_hello hello = { .magic = htole32(KV_MAGIC),
				  .addr = htole64((uintptr_t)s->table),
				  .slots = htole64(s->slots) };
	struct rdma_conn_param param = { .private_data = &hello,
					 .private_data_len = sizeof(hello),
					 .responder_resources = reads,
					 .rnr_retry_count = 7 };
	struct client **place = place_of(s, NULL), *c;

	if (!s->device && use_device(s, id->verbs))
		return -1;
	c = place && s->device == id->verbs ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		complain("a client is refused: too many, or another device");
		rdma_reject(id, NULL, 0);
		return rdma_destroy_id(id);
	}
	c->id = id;
	id->context = c;
	*place = c;
	hello.rkey = htole32(s->table_mr->rkey);
	if (equip(s, c)) {
		rdma_reject(id, NULL, 0);
		free_client(s, c);
	} else if (rdma_accept(id, &param)) {
		complain_errno("rdma_accept");
		stop(s, c);
	}
	return 0;
}

int clients_take_event(struct server *s)
{
	struct rdma_cm_event *event, seen;

	if (rdma_get_cm_event(s->events, &event))
		return complain_errno("rdma_get_cm_event");
	/* An id cannot be destroyed before its events are acknowledged. */
	seen = *event;
	rdma_ack_cm_event(event);
	if (seen.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return welcome(s, seen.id, seen.param.conn.responder_resources);
	if (seen.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		return complain("the device is gone");
	if (seen.id->context && seen.event != RDMA_CM_EVENT_ESTABLISHED)
		stop(s, seen.id->context);
	return 0;
}

/* Put what a client asks for; it may have sent anything. */
static enum kv_status put(struct server *s, const struct kv_request *r,
			  uint32_t received, uint64_t *version)
{
	const size_t head = offsetof(struct kv_request, value);

	if (received < head || received - head != le32toh(r->length) ||
	    !r->key[0] || !memchr(r->key, 0, sizeof(r->key)))
		return KV_INVALID;
	return kv_put(s->table, s->slots, r, version);
}

static int serve(struct server *s, struct client *c, uint32_t received)
{
	struct kv_reply reply = { 0 };
	uint64_t version = 0;

	reply.status = htole32(put(s, &c->request, received, &version));
	reply.version = htole64(version);
	/* The receive first: the reply lets the client send again. */
	if (post_receive(c))
		return -1;
	if (rdma_post_send(c->id, c, &reply, sizeof(reply), NULL,
			   IBV_SEND_INLINE | IBV_SEND_SIGNALED))
		return complain_errno("rdma_post_send");
	c->posted++;
	return 0;
}

static void complete(struct server *s, const struct ibv_wc *wc)
{
	struct client *c = (struct client *)(uintptr_t)wc->wr_id;

	c->posted--;
	/* When something fails, everything behind it is flushed. */
	if (wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR)
		complain("a client fails: %s", ibv_wc_status_str(wc->status));
	if (wc->status != IBV_WC_SUCCESS || c->stopped ||
	    (wc->opcode == IBV_WC_RECV && serve(s, c, wc->byte_len)))
		stop(s, c);
}

int clients_take_completions(struct server *s)
{
	struct ibv_wc wc[BATCH];
	struct ibv_cq *cq;
	void *context;
	int n;

	if (ibv_get_cq_event(s->channel, &cq, &context))
		return complain_errno("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	/* Armed first and polled then: what comes in between makes an event. */
	if (ibv_req_notify_cq(cq, 0))
		return complain("ibv_req_notify_cq has failed");
	while ((n = ibv_poll_cq(cq, BATCH, wc)) > 0)
		for (int i = 0; i < n; i++)
			complete(s, &wc[i]);
	return n < 0 ? complain("ibv_poll_cq has failed") : 0;
}

void clients_end(struct server *s)
{
	for (unsigned int i = 0; i < KV_CLIENTS; i++) {
		if (!s->clients[i])
			continue;
		rdma_disconnect(s->clients[i]->id);
		free_client(s, s->clients[i]);
	}
	if (s->cq)
		ibv_destroy_cq(s->cq);
	if (s->channel)
		ibv_destroy_comp_channel(s->channel);
	if (s->table_mr)
		ibv_dereg_mr(s->table_mr);
	if (s->pd)
		ibv_dealloc_pd(s->pd);
}
