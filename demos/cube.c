/* SPDX-License-Identifier: BSD-2-Clause */
#include "cube.h"

#include <infiniband/verbs_exp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define DEPTH  256 /* requests of a queue */
#define SELF   0xffu
#define TRIES  200u /* of 50 ms, until the other process listens */
#define TRY_NS 50000u

struct hello {
	uint8_t rank;
	uint8_t dim; /* or SELF */
};

struct ibv_sge cube_piece(const struct cube *c, const void *at)
{
	return (struct ibv_sge){ (uintptr_t)at, CUBE_OPERAND, c->mr->lkey };
}

/* --- queues --- */

/* Only the adapter looks at it: it counts completions and may lose them. */
static struct ibv_cq *make_watched_cq(const struct cube *c)
{
	struct ibv_exp_cq_init_attr init = {
		.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
		.flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL,
	};
	struct ibv_exp_cq_attr attr = {
		.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
		.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN,
	};
	struct ibv_cq *cq =
		ibv_exp_create_cq(c->verbs, 4, NULL, NULL, 0, &init);

	if (cq && ibv_exp_modify_cq(cq, &attr, IBV_EXP_CQ_CAP_FLAGS)) {
		ibv_destroy_cq(cq);
		return NULL;
	}
	return cq;
}

static struct ibv_cq *make_cq(const struct cube *c)
{
	return c->offload ? make_watched_cq(c)
			  : ibv_create_cq(c->verbs, DEPTH, NULL, NULL, 0);
}

static struct ibv_qp *make_qp(const struct cube *c, struct ibv_cq *arrived,
			      uint32_t flags)
{
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = c->done,
		.recv_cq = arrived,
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = CUBE_DIMS + 1,
			 .max_recv_sge = 1,
			 .max_inline_data = CUBE_OPERAND },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = c->pd,
		.exp_create_flags = c->offload ? flags : 0,
	};

	return ibv_exp_create_qp(c->verbs, &attr);
}

/* The connection takes the queue pair as if rdma_create_qp() had made it. */
static int use_qp(struct edge *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	if (rdma_init_qp_attr(e->id, &attr, &mask) ||
	    ibv_modify_qp(e->qp, &attr, mask))
		return complain_errno("queue pair");
	e->id->qp = e->qp;
	return 0;
}

/* --- connections --- */

static int resolve(const struct cube *c, unsigned int rank, int flags,
		   struct rdma_cm_id **id)
{
	struct rdma_addrinfo hints = { .ai_flags = flags,
				       .ai_port_space = RDMA_PS_TCP };
	const char *host = c->hosts[rank % c->host_count];
	struct rdma_addrinfo *found;
	char port[16];
	int rc;

	snprintf(port, sizeof(port), "%u", c->port + rank);
	if (rdma_getaddrinfo(host, port, &hints, &found))
		return complain_errno(host);
	rc = rdma_create_ep(id, found, NULL, NULL);
	rdma_freeaddrinfo(found);
	return rc ? complain_errno(host) : 0;
}

static struct rdma_conn_param param_of(const struct hello *hello)
{
	return (struct rdma_conn_param){ .private_data = hello,
					 .private_data_len =
						 hello ? sizeof(*hello) : 0,
					 .responder_resources = 4,
					 .initiator_depth = 4,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
}

/* Until the other process listens */
static int dial(const struct cube *c, struct edge *e, unsigned int to,
		unsigned int dim)
{
	struct hello hello = { (uint8_t)c->rank, (uint8_t)dim };
	struct rdma_conn_param param = param_of(&hello);

	for (unsigned int i = 0; i < TRIES; i++) {
		if (resolve(c, to, 0, &e->id))
			return -1;
		if (use_qp(e))
			return -1;
		if (rdma_connect(e->id, &param) == 0)
			return 0;
		e->id->qp = NULL;
		rdma_destroy_ep(e->id);
		e->id = NULL;
		ibv_modify_qp(e->qp,
			      &(struct ibv_qp_attr){ .qp_state =
							     IBV_QPS_RESET },
			      IBV_QP_STATE);
		usleep(TRY_NS);
	}
	return complain("rank %u does not answer rank %u", to, c->rank);
}

static struct edge *edge_of(struct cube *c, unsigned int dim)
{
	return dim == SELF     ? &c->from_self
	       : dim < c->dims ? &c->edge[dim]
			       : NULL;
}

/* Requests of other dimensions may come first. */
static int await_request(struct cube *c, const struct edge *e)
{
	while (!e->id) {
		const struct hello *hello;
		struct rdma_cm_id *id;
		struct edge *of;

		if (rdma_get_request(c->listener, &id))
			return complain_errno("connection");
		hello = id->event->param.conn.private_data;
		of = edge_of(c, hello ? hello->dim : SELF - 1);
		if (!of || of->id)
			return complain("a connection of another program");
		of->id = id;
	}
	return 0;
}

static int answer(struct cube *c, struct edge *e)
{
	struct rdma_conn_param param = param_of(NULL);

	if (await_request(c, e) || use_qp(e))
		return -1;
	return rdma_accept(e->id, &param) ? complain_errno("accept") : 0;
}

static void *answer_self(void *arg)
{
	struct cube *c = arg;

	return answer(c, &c->from_self) ? arg : NULL;
}

static int connect_self(struct cube *c)
{
	pthread_t thread;
	void *failed;
	int rc;

	if (pthread_create(&thread, NULL, answer_self, c))
		return complain("no thread");
	rc = dial(c, &c->to_self, c->rank, SELF);
	if (rc)
		pthread_cancel(thread);
	pthread_join(thread, &failed);
	return rc || failed ? -1 : 0;
}

static int connect_all(struct cube *c)
{
	int rc = connect_self(c);

	for (unsigned int k = 0; k < c->dims && !rc; k++) {
		unsigned int peer = c->rank ^ 1u << k;

		rc = c->rank < peer ? answer(c, &c->edge[k])
				    : dial(c, &c->edge[k], peer, k);
	}
	return rc;
}

/* --- all of it --- */

static int make_edges(struct cube *c)
{
	const uint32_t cross = IBV_EXP_QP_CREATE_CROSS_CHANNEL;

	for (unsigned int k = 0; k < c->dims; k++) {
		struct edge *e = &c->edge[k];

		e->arrived = make_cq(c);
		if (e->arrived)
			e->qp = make_qp(c, e->arrived,
					cross | IBV_EXP_QP_CREATE_MANAGED_SEND);
		if (!e->qp)
			return complain_errno("queue pair");
	}
	c->to_self.qp = make_qp(c, c->done, cross);
	c->from_self.qp = make_qp(c, c->done, 0);
	return c->to_self.qp && c->from_self.qp ? 0
						: complain_errno("queue pair");
}

int cube_open(struct cube *c)
{
	if (resolve(c, c->rank, RAI_PASSIVE, &c->listener))
		return -1;
	if (rdma_listen(c->listener, 16))
		return complain_errno("listen");
	c->verbs = c->listener->verbs;
	c->pd = ibv_alloc_pd(c->verbs);
	c->memory = calloc(1, sizeof(*c->memory));
	if (!c->pd || !c->memory)
		return complain_errno("memory");
	c->mr = ibv_reg_mr(c->pd, c->memory, sizeof(*c->memory),
			   IBV_ACCESS_LOCAL_WRITE);
	c->done = ibv_create_cq(c->verbs, DEPTH * (int)(c->dims + 2), NULL,
				NULL, 0);
	if (!c->mr || !c->done)
		return complain_errno("queues");
	return make_edges(c) ? -1 : connect_all(c);
}

bool cube_is_broken(const struct cube *c)
{
	struct pollfd fds[CUBE_DIMS];

	for (unsigned int k = 0; k < c->dims; k++)
		fds[k] = (struct pollfd){ c->edge[k].id->channel->fd, POLLIN,
					  0 };
	return poll(fds, c->dims, 0) > 0;
}

static void close_edge(struct edge *e)
{
	/* Destroying it ends the connection too; rdma_disconnect() would wait
	 * for the other process. */
	if (e->id)
		e->id->qp = NULL;
	if (e->qp)
		ibv_destroy_qp(e->qp);
	if (e->id)
		rdma_destroy_ep(e->id);
}

void cube_close(struct cube *c)
{
	close_edge(&c->to_self);
	close_edge(&c->from_self);
	for (unsigned int k = 0; k < c->dims; k++)
		close_edge(&c->edge[k]);
	for (unsigned int k = 0; k < c->dims; k++)
		if (c->edge[k].arrived)
			ibv_destroy_cq(c->edge[k].arrived);
	if (c->done)
		ibv_destroy_cq(c->done);
	if (c->mr)
		ibv_dereg_mr(c->mr);
	if (c->pd)
		ibv_dealloc_pd(c->pd);
	if (c->listener)
		rdma_destroy_ep(c->listener);
	free(c->memory);
}
