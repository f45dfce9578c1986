/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mckey of the RDMA Aware Networks Programming User Manual: its calls in its
 * order, with its options.  Multicast by rdma_cm, events handled one after the
 * other; the sender's requests are not signaled, and it destroys its queue pair
 * directly after it has posted the last one.
 *
 *	-m GROUP or -M GROUP (not mapped; needs -b), -s, -b ADDRESS,
 *	-c connections, -C messages, -S bytes, -p port space
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

#define GRH ((uint32_t)sizeof(struct ibv_grh))

struct node {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	uint32_t qpn;
	uint32_t qkey;
	bool joined;
	char *mem;
};

static struct {
	bool sender;
	bool unmapped;
	const char *group;
	const char *bind;
	int connections;
	uint32_t messages;
	uint32_t size;
	enum rdma_port_space space;
} opt = { .connections = 1, .messages = 10, .size = 100, .space = RDMA_PS_UDP };

static struct rdma_event_channel *channel;
static struct node *nodes;
static int joins_left;
static struct sockaddr_storage group, source;

static struct sockaddr *source_addr(void)
{
	return opt.bind ? (struct sockaddr *)&source : NULL;
}

static void create_message(struct node *n)
{
	n->mem = calloc(1, opt.size + GRH);
	VT_TRUE(n->mem);
	if (opt.sender)
		vt_fill((uint8_t *)n->mem, opt.size, 0);
	n->mr = ibv_reg_mr(n->pd, n->mem, opt.size + GRH,
			   IBV_ACCESS_LOCAL_WRITE);
	VT_TRUE(n->mr);
}

static void create_node(struct node *n)
{
	uint32_t depth = opt.messages ? opt.messages : 1;
	struct ibv_qp_init_attr init = { .cap = { .max_send_wr = depth,
						  .max_recv_wr = depth,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_context = n,
					 .qp_type = IBV_QPT_UD };

	n->pd = ibv_alloc_pd(n->id->verbs);
	VT_TRUE(n->pd);
	n->cq = ibv_create_cq(n->id->verbs, (int)depth * 2, n, NULL, 0);
	VT_TRUE(n->cq);
	init.send_cq = n->cq;
	init.recv_cq = n->cq;
	VT_TRUE(rdma_create_qp(n->id, n->pd, &init) == 0);
	if (opt.messages)
		create_message(n);
}

static void post_recvs(struct node *n)
{
	struct ibv_sge sge = { .addr = (uintptr_t)n->mem,
			       .length = opt.size + GRH,
			       .lkey = n->mr->lkey };
	struct ibv_recv_wr *bad,
		wr = { .wr_id = (uintptr_t)n, .sg_list = &sge, .num_sge = 1 };

	for (uint32_t i = 0; i < opt.messages; i++)
		VT_TRUE(ibv_post_recv(n->id->qp, &wr, &bad) == 0);
}

static void post_sends(struct node *n)
{
	struct ibv_sge sge = { .addr = (uintptr_t)n->mem,
			       .length = opt.size,
			       .lkey = n->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = (uintptr_t)n,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htonl(n->id->qp->qp_num),
		.wr.ud = { .ah = n->ah,
			   .remote_qpn = n->qpn,
			   .remote_qkey = n->qkey },
	};

	for (uint32_t i = 0; i < opt.messages; i++)
		VT_TRUE(ibv_post_send(n->id->qp, &wr, &bad) == 0);
}

static void on_address(struct node *n)
{
	struct ibv_port_attr port;

	VT_TRUE(ibv_query_port(n->id->verbs, n->id->port_num, &port) == 0);
	if (opt.messages && opt.size > 1u << (port.active_mtu + 7))
		VT_FAIL("%u bytes are more than the MTU", opt.size);
	create_node(n);
	if (!opt.sender && opt.messages)
		post_recvs(n);
	VT_TRUE(rdma_join_multicast(n->id, (struct sockaddr *)&group, n) == 0);
}

static void on_join(struct node *n, struct rdma_ud_param *param)
{
	char text[INET6_ADDRSTRLEN];

	VT_TRUE(inet_ntop(AF_INET6, param->ah_attr.grh.dgid.raw, text,
			  sizeof(text)));
	printf("joined %s\n", text);
	n->qpn = param->qp_num;
	n->qkey = param->qkey;
	n->ah = ibv_create_ah(n->pd, &param->ah_attr);
	VT_TRUE(n->ah);
	n->joined = true;
	joins_left--;
}

static void take_events(void)
{
	struct rdma_cm_event *event;

	while (joins_left > 0) {
		VT_TRUE(rdma_get_cm_event(channel, &event) == 0);
		if (event->event == RDMA_CM_EVENT_ADDR_RESOLVED)
			on_address(event->id->context);
		else if (event->event == RDMA_CM_EVENT_MULTICAST_JOIN)
			on_join(event->id->context, &event->param.ud);
		else
			VT_FAIL("%s, status %d", rdma_event_str(event->event),
				event->status);
		rdma_ack_cm_event(event);
	}
	printf("all joined\n");
	fflush(stdout);
}

static void resolve(const char *name, struct sockaddr_storage *addr)
{
	struct addrinfo *found;

	VT_TRUE(getaddrinfo(name, NULL, NULL, &found) == 0);
	memcpy(addr, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
}

static void check(const struct node *n, const struct ibv_wc *wc)
{
	VT_TRUE(wc->status == IBV_WC_SUCCESS && wc->wr_id == (uintptr_t)n);
	VT_TRUE(wc->byte_len == opt.size + GRH);
	VT_TRUE(wc->wc_flags & IBV_WC_WITH_IMM && wc->wc_flags & IBV_WC_GRH);
	VT_TRUE(ntohl(wc->imm_data) == wc->src_qp);
	VT_TRUE(vt_check((uint8_t *)n->mem + GRH, opt.size, 0));
}

static void poll_cqs(void)
{
	struct ibv_wc wc[8];
	int n = 0;

	for (int i = 0; i < opt.connections; i++) {
		for (uint32_t done = 0; done < opt.messages;
		     done += (uint32_t)n) {
			n = ibv_poll_cq(nodes[i].cq, 8, wc);
			VT_TRUE(n >= 0);
			for (int k = 0; k < n; k++)
				check(&nodes[i], &wc[k]);
		}
	}
}

static void join(struct node *n)
{
	if (opt.bind)
		VT_TRUE(rdma_bind_addr(n->id, source_addr()) == 0);
	if (opt.unmapped)
		on_address(n);
	else
		VT_TRUE(rdma_resolve_addr(n->id, source_addr(),
					  (struct sockaddr *)&group,
					  2000) == 0);
}

static void run(void)
{
	if (opt.bind)
		resolve(opt.bind, &source);
	resolve(opt.group, &group);
	for (int i = 0; i < opt.connections; i++)
		join(&nodes[i]);
	take_events();
	sleep(3); /* the manual's, for the subnet manager */
	if (!opt.sender)
		poll_cqs();
	for (int i = 0; opt.sender && opt.messages && i < opt.connections; i++)
		post_sends(&nodes[i]);
	for (int i = 0; i < opt.connections; i++)
		VT_TRUE(rdma_leave_multicast(nodes[i].id,
					     (struct sockaddr *)&group) == 0);
	printf("%u messages\n", opt.messages * (uint32_t)opt.connections);
}

static void destroy_node(struct node *n)
{
	VT_TRUE(ibv_destroy_ah(n->ah) == 0);
	rdma_destroy_qp(n->id);
	VT_TRUE(ibv_destroy_cq(n->cq) == 0);
	if (n->mr)
		VT_TRUE(ibv_dereg_mr(n->mr) == 0);
	free(n->mem);
	VT_TRUE(ibv_dealloc_pd(n->pd) == 0);
	VT_TRUE(rdma_destroy_id(n->id) == 0);
}

static void take_option(int c)
{
	if (c == 'm' || c == 'M') {
		opt.group = optarg;
		opt.unmapped = c == 'M';
	} else if (c == 's') {
		opt.sender = true;
	} else if (c == 'b') {
		opt.bind = optarg;
	} else if (c == 'c') {
		opt.connections = atoi(optarg);
	} else if (c == 'C') {
		opt.messages = (uint32_t)atoi(optarg);
	} else if (c == 'S') {
		opt.size = (uint32_t)atoi(optarg);
	} else if (c == 'p') {
		opt.space = (enum rdma_port_space)strtol(optarg, NULL, 0);
	} else {
		exit(2);
	}
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "m:M:sb:c:C:S:p:")) != -1)
		take_option(c);
	VT_TRUE(opt.group && opt.connections > 0);
	if (!opt.size)
		opt.messages = 0;
	joins_left = opt.connections;
	channel = rdma_create_event_channel();
	VT_TRUE(channel);
	nodes = calloc((size_t)opt.connections, sizeof(*nodes));
	VT_TRUE(nodes);
	for (int i = 0; i < opt.connections; i++)
		VT_TRUE(rdma_create_id(channel, &nodes[i].id, &nodes[i],
				       opt.space) == 0);
	run();
	for (int i = 0; i < opt.connections; i++)
		destroy_node(&nodes[i]);
	free(nodes);
	rdma_destroy_event_channel(channel);
	return 0;
}
