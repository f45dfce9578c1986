// SPDX-License-Identifier: BSD-2-Clause
/*
 * Ping-pong: connect with librdmacm, exchange messages with libibverbs.
 *
 *     pingpong [-p PORT] [-e]                              the server
 *     pingpong [-p PORT] [-e] [-n COUNT] [-s SIZE] HOST    the client
 *
 * The client sends a message, the server sends it back, COUNT times.  Both
 * sides do the same to set up: address, protection domain, memory region,
 * completion queue, queue pair, first receive, and only then the connection,
 * so that no message can come before there is a buffer for it.
 */
#include <endian.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "options.h"

/* There is never more than one message under way in each direction. */
#define SENDS	   1
#define RECEIVES   1
#define MAX_SIZE   (1ul << 30)
#define MAX_INLINE 64

/* Everything of one connection; what is NULL has not been made yet. */
struct pingpong {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char *out, *in; /* a message each; out is the start of the region */
	uint32_t size;
	bool sleep;
	unsigned int sent, received; /* completions not yet waited for */
};

static int post_receive(struct pingpong *p)
{
	if (rdma_post_recv(p->id, NULL, p->in, p->size, p->mr))
		return complain_errno("rdma_post_recv");
	return 0;
}

static int post_send(struct pingpong *p)
{
	int flags = IBV_SEND_SIGNALED;

	/* The adapter need not fetch what stands in the request itself. */
	if (p->size <= MAX_INLINE)
		flags |= IBV_SEND_INLINE;
	if (rdma_post_send(p->id, NULL, p->out, p->size, p->mr, flags))
		return complain_errno("rdma_post_send");
	return 0;
}

/*
 * Take completions until there is one of a receive, and also of a send if one
 * was posted.  They come in any order: the acknowledgement of a message may
 * well come behind the answer to it.
 */
static enum wait_result wait_for(struct pingpong *p, bool send)
{
	while (!p->received || (send && !p->sent)) {
		struct ibv_wc wc;
		enum wait_result result;

		result = wait_completion(p->id, p->cq, p->sleep, &wc);
		if (result != WAIT_DONE)
			return result;
		if (!(wc.opcode & IBV_WC_RECV)) {
			p->sent++;
			continue;
		}
		p->received++;
		if (wc.byte_len == p->size)
			continue;
		complain("a message of %u bytes instead of %u", wc.byte_len,
			 p->size);
		return WAIT_FAILED;
	}
	p->received--;
	if (send)
		p->sent--;
	return WAIT_DONE;
}

/* The verbs objects of a connection whose address is known. */
static int set_up(struct pingpong *p, uint32_t size, bool sleep)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = SENDS,
			 .max_recv_wr = RECEIVES,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = MAX_INLINE },
	};

	p->size = size;
	p->sleep = sleep;
	p->pd = ibv_alloc_pd(p->id->verbs);
	if (!p->pd)
		return complain_errno("ibv_alloc_pd");
	p->out = calloc(2, size);
	if (!p->out)
		return complain_errno("calloc");
	p->in = p->out + size;
	p->mr = ibv_reg_mr(p->pd, p->out, 2 * (size_t)size,
			   IBV_ACCESS_LOCAL_WRITE);
	if (!p->mr)
		return complain_errno("ibv_reg_mr");
	p->channel = ibv_create_comp_channel(p->id->verbs);
	if (!p->channel)
		return complain_errno("ibv_create_comp_channel");
	p->cq = ibv_create_cq(p->id->verbs, SENDS + RECEIVES, NULL, p->channel,
			      0);
	if (!p->cq)
		return complain_errno("ibv_create_cq");
	attr.send_cq = attr.recv_cq = p->cq;
	if (rdma_create_qp(p->id, p->pd, &attr))
		return complain_errno("rdma_create_qp");
	return post_receive(p);
}

/* In reverse; a queue must outlive the queue pairs that use it. */
static void tear_down(struct pingpong *p)
{
	if (p->id && p->id->qp)
		rdma_destroy_qp(p->id);
	if (p->cq)
		ibv_destroy_cq(p->cq);
	if (p->channel)
		ibv_destroy_comp_channel(p->channel);
	if (p->mr)
		ibv_dereg_mr(p->mr);
	free(p->out);
	if (p->pd)
		ibv_dealloc_pd(p->pd);
	if (p->id)
		rdma_destroy_ep(p->id);
}

static int ping(struct pingpong *p, uint64_t *took)
{
	uint64_t begun = now_ns();
	enum wait_result result =
		post_send(p) ? WAIT_FAILED : wait_for(p, true);

	*took = now_ns() - begun;
	if (result == WAIT_GONE)
		complain("the server has gone");
	if (result != WAIT_DONE)
		return -1;
	if (memcmp(p->out, p->in, p->size) != 0)
		return complain("what came back is not what was sent");
	return post_receive(p);
}

/* All messages of a connection that is up, and its end. */
static int ping_all(struct pingpong *p, unsigned long count, uint64_t *took)
{
	int err = 0;

	for (unsigned long i = 0; i < count && !err; i++) {
		memset(p->out, (int)(i % 251), p->size);
		err = ping(p, &took[i]);
	}
	rdma_disconnect(p->id);
	if (!err)
		print_latency(took, count);
	return err;
}

static int be_client(struct pingpong *p, const struct options *o)
{
	uint32_t size_be = htobe32((uint32_t)o->size);
	struct rdma_conn_param param = { .private_data = &size_be,
					 .private_data_len = sizeof(size_be),
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
	uint64_t *took;
	int err;

	if (create_endpoint(o->host, o->port, &p->id) ||
	    set_up(p, (uint32_t)o->size, o->sleep))
		return -1;
	took = calloc(o->count, sizeof(*took));
	if (!took)
		return complain_errno("calloc");
	if (rdma_connect(p->id, &param))
		err = complain_errno("rdma_connect");
	else
		err = ping_all(p, o->count, took);
	free(took);
	return err;
}

/* Send back what comes until the client goes, which is no error. */
static int answer(struct pingpong *p)
{
	unsigned long messages = 0;
	enum wait_result result = wait_for(p, false);

	while (result == WAIT_DONE) {
		memcpy(p->out, p->in, p->size);
		if (post_receive(p) || post_send(p))
			return -1;
		messages++;
		result = wait_for(p, true);
	}
	rdma_disconnect(p->id);
	printf("the client has gone after %lu messages\n", messages);
	return result == WAIT_GONE ? 0 : -1;
}

/* The client says how long its messages are, in network byte order. */
static int equip(struct pingpong *p, bool sleep)
{
	const struct rdma_conn_param *asked = &p->id->event->param.conn;
	uint32_t size_be = 0, size;

	if (asked->private_data_len >= sizeof(size_be))
		memcpy(&size_be, asked->private_data, sizeof(size_be));
	size = be32toh(size_be);
	if (size < 1 || size > MAX_SIZE)
		return complain("the client asks for %u bytes", size);
	return set_up(p, size, sleep);
}

/* The first client that comes. */
static int take_client(struct pingpong *p, const struct options *o)
{
	struct rdma_cm_id *listener;
	int err = -1;

	if (create_endpoint(NULL, o->port, &listener))
		return -1;
	if (rdma_listen(listener, 1)) {
		complain_errno("rdma_listen");
		goto destroy_listener;
	}
	printf("waiting at port %s\n", o->port);
	fflush(stdout);
	if (rdma_get_request(listener, &p->id))
		complain_errno("rdma_get_request");
	else if (equip(p, o->sleep))
		rdma_reject(p->id, NULL, 0);
	else if (rdma_accept(p->id, NULL))
		complain_errno("rdma_accept");
	else
		err = 0;
destroy_listener:
	/* A later client is refused instead of left waiting. */
	rdma_destroy_ep(listener);
	return err;
}

static int be_server(struct pingpong *p, const struct options *o)
{
	if (take_client(p, o))
		return -1;
	printf("serving a client\n");
	fflush(stdout);
	return answer(p);
}

int main(int argc, char **argv)
{
	struct options o = parse_options(argc, argv, MAX_SIZE);
	struct pingpong p = { 0 };
	int err;

	err = o.host ? be_client(&p, &o) : be_server(&p, &o);
	tear_down(&p);
	return err ? 1 : 0;
}
