// SPDX-License-Identifier: BSD-2-Clause
#include "kv_store.h"

#include <rdma/rdma_verbs.h>
#include <string.h>

#include "common.h"

/* READs of one entry; each that fails met another write of it. */
#define TRIES 10000

/* Take so many completions; *received is the length of the last message. */
static int wait_for(struct kv_store *s, unsigned int completions,
		    uint32_t *received)
{
	while (completions--) {
		struct ibv_wc wc;
		enum wait_result result;

		result = wait_completion(s->id, s->cq, s->sleep, &wc);
		if (result == WAIT_GONE)
			return complain("the server has gone");
		if (result != WAIT_DONE)
			return -1;
		if (wc.opcode == IBV_WC_RECV)
			*received = wc.byte_len;
	}
	return 0;
}

/* A consistent copy of an entry, into buffers.entry. */
static int read_entry(struct kv_store *s, uint64_t slot)
{
	struct kv_entry *entry = &s->buffers.entry;
	uint64_t addr = s->addr + slot * sizeof(*entry);
	uint32_t received;

	for (unsigned int i = 0; i < TRIES; i++) {
		if (rdma_post_read(s->id, NULL, entry, sizeof(*entry), s->mr,
				   IBV_SEND_SIGNALED, addr, s->rkey))
			return complain_errno("rdma_post_read");
		if (wait_for(s, 1, &received))
			return -1;
		if (!entry->version || kv_sum(entry) == le64toh(entry->sum))
			return 0;
		s->torn++;
	}
	return complain("an entry is never the same for long enough");
}

int kv_get(struct kv_store *s, const char *key)
{
	const struct kv_entry *entry = &s->buffers.entry;

	for (unsigned int probe = 0; probe < KV_PROBES; probe++) {
		if (read_entry(s, kv_slot(key, s->slots, probe)))
			return -1;
		if (!entry->version)
			return 0;
		if (strncmp(entry->key, key, sizeof(entry->key)) == 0)
			return 1;
	}
	return 0;
}

/* One request and its reply. */
static int ask(struct kv_store *s, size_t length)
{
	struct kv_buffers *b = &s->buffers;
	uint32_t received = 0;

	/* The receive first, so that it is there whenever the reply comes. */
	if (rdma_post_recv(s->id, NULL, &b->reply, sizeof(b->reply), s->mr))
		return complain_errno("rdma_post_recv");
	if (rdma_post_send(s->id, NULL, &b->request, length, s->mr,
			   IBV_SEND_SIGNALED))
		return complain_errno("rdma_post_send");
	if (wait_for(s, 2, &received))
		return -1;
	if (received != sizeof(b->reply))
		return complain("a reply of %u bytes", received);
	return 0;
}

int kv_set(struct kv_store *s, const char *key, const void *value,
	   size_t length, uint64_t *version)
{
	struct kv_request *request = &s->buffers.request;
	const struct kv_reply *reply = &s->buffers.reply;

	if (!key[0] || strlen(key) >= sizeof(request->key))
		return complain("a key has 1 to %zu bytes",
				sizeof(request->key) - 1);
	if (length > sizeof(request->value))
		return complain("a value has at most %zu bytes",
				sizeof(request->value));
	memset(request, 0, sizeof(*request));
	memcpy(request->key, key, strlen(key));
	memcpy(request->value, value, length);
	request->length = htole32((uint32_t)length);
	if (ask(s, offsetof(struct kv_request, value) + length))
		return -1;
	if (le32toh(reply->status) == KV_FULL)
		return complain("the server has no room for this key");
	if (le32toh(reply->status) != KV_OK)
		return complain("the server does not understand");
	*version = le64toh(reply->version);
	return 0;
}

/* The verbs objects of a connection whose device is known. */
static int set_up(struct kv_store *s)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	int access = IBV_ACCESS_LOCAL_WRITE;

	/* With iWARP the answer to a READ comes as a remote WRITE. */
	if (s->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		access |= IBV_ACCESS_REMOTE_WRITE;
	s->pd = ibv_alloc_pd(s->id->verbs);
	if (!s->pd)
		return complain_errno("ibv_alloc_pd");
	s->mr = ibv_reg_mr(s->pd, &s->buffers, sizeof(s->buffers), access);
	if (!s->mr)
		return complain_errno("ibv_reg_mr");
	s->channel = ibv_create_comp_channel(s->id->verbs);
	if (!s->channel)
		return complain_errno("ibv_create_comp_channel");
	s->cq = ibv_create_cq(s->id->verbs, 2, NULL, s->channel, 0);
	if (!s->cq)
		return complain_errno("ibv_create_cq");
	attr.send_cq = attr.recv_cq = s->cq;
	if (rdma_create_qp(s->id, s->pd, &attr))
		return complain_errno("rdma_create_qp");
	return 0;
}

/* What the server said of its table when it accepted. */
static int read_hello(struct kv_store *s)
{
	const struct rdma_conn_param *told = &s->id->event->param.conn;
	struct kv_hello hello = { 0 };

	if (told->private_data_len >= sizeof(hello))
		memcpy(&hello, told->private_data, sizeof(hello));
	if (le32toh(hello.magic) != KV_MAGIC || !hello.slots)
		return complain("this is no key-value store, or another one");
	s->addr = le64toh(hello.addr);
	s->slots = le64toh(hello.slots);
	s->rkey = le32toh(hello.rkey);
	return 0;
}

int kv_open(struct kv_store *s, const char *host, const char *port)
{
	struct rdma_conn_param param = { .initiator_depth = 1, /* READ */
					 .retry_count = 7,
					 .rnr_retry_count = 7 };

	if (create_endpoint(host, port, &s->id) || set_up(s))
		return -1;
	if (rdma_connect(s->id, &param))
		return complain_errno("rdma_connect");
	s->connected = true;
	return read_hello(s);
}

void kv_close(struct kv_store *s)
{
	/* It waits for an event, which only a connection has. */
	if (s->connected)
		rdma_disconnect(s->id);
	if (s->id && s->id->qp)
		rdma_destroy_qp(s->id);
	if (s->cq)
		ibv_destroy_cq(s->cq);
	if (s->channel)
		ibv_destroy_comp_channel(s->channel);
	if (s->mr)
		ibv_dereg_mr(s->mr);
	if (s->pd)
		ibv_dealloc_pd(s->pd);
	if (s->id)
		rdma_destroy_ep(s->id);
}
