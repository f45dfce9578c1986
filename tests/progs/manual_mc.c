/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The multicast example with event channels (mc) of the RDMA Aware Networks
 * Programming User Manual: its calls in its order, with its options.  Memory is
 * registered by the ID, for its protection domain, and the queue pair is of a
 * domain of the program's own unless the ID was bound.
 *
 *	-m GROUP, -s, -b ADDRESS, -p port (unused, as there), -c messages,
 *	-l bytes
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

#define GRH ((uint32_t)sizeof(struct ibv_grh))

static struct {
	bool sender;
	const char *bind;
	const char *group;
	int count;
	uint32_t length;
} opt = { .count = 4, .length = 64 };

static struct sockaddr_storage group;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct ibv_pd *own_pd;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static uint32_t remote_qpn;
static uint32_t remote_qkey;
static uint8_t *buf;

/* Prints the events that come while messages are exchanged. */
static void *read_events(void *arg)
{
	struct rdma_cm_event *event;

	while (rdma_get_cm_event(channel, &event) == 0) {
		printf("event %s, status %d\n", rdma_event_str(event->event),
		       event->status);
		rdma_ack_cm_event(event);
	}
	return arg;
}

static struct rdma_cm_event *get_event(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	VT_TRUE(rdma_get_cm_event(channel, &event) == 0);
	if (event->event != type)
		VT_FAIL("%s, status %d", rdma_event_str(event->event),
			event->status);
	return event;
}

static void resolve(void)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_UDP };
	struct rdma_addrinfo *bound = NULL, *found;

	if (opt.bind) {
		hints.ai_flags = RAI_PASSIVE;
		VT_TRUE(rdma_getaddrinfo(opt.bind, NULL, &hints, &bound) == 0);
	}
	hints.ai_flags = 0;
	VT_TRUE(rdma_getaddrinfo(opt.group, NULL, &hints, &found) == 0);
	if (bound) {
		VT_TRUE(rdma_bind_addr(id, bound->ai_src_addr) == 0);
		VT_TRUE(id->pd);
		pd = id->pd;
	}
	VT_TRUE(rdma_resolve_addr(id, bound ? bound->ai_src_addr : NULL,
				  found->ai_dst_addr, 2000) == 0);
	rdma_ack_cm_event(get_event(RDMA_CM_EVENT_ADDR_RESOLVED));
	memcpy(&group, found->ai_dst_addr, found->ai_dst_len);
	if (bound)
		rdma_freeaddrinfo(bound);
	rdma_freeaddrinfo(found);
}

static void create_resources(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = (uint32_t)opt.count,
			 .max_recv_wr = (uint32_t)opt.count,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	uint32_t size = opt.length + (opt.sender ? 0 : GRH);

	if (!pd) {
		own_pd = ibv_alloc_pd(id->verbs);
		VT_TRUE(own_pd);
		pd = own_pd;
	}
	cq = ibv_create_cq(id->verbs, opt.count, NULL, NULL, 0);
	VT_TRUE(cq);
	init.send_cq = cq;
	init.recv_cq = cq;
	VT_TRUE(rdma_create_qp(id, pd, &init) == 0);
	/* As rdma-core: the region is to be of the queue pair's domain. */
	VT_TRUE(id->pd == pd);
	buf = calloc(1, size);
	VT_TRUE(buf);
	mr = rdma_reg_msgs(id, buf, size);
	VT_TRUE(mr && mr->pd == pd);
}

static void join(void)
{
	char text[INET6_ADDRSTRLEN];
	struct rdma_cm_event *event;
	struct rdma_ud_param *ud;

	VT_TRUE(rdma_join_multicast(id, (struct sockaddr *)&group, NULL) == 0);
	event = get_event(RDMA_CM_EVENT_MULTICAST_JOIN);
	ud = &event->param.ud;
	VT_TRUE(inet_ntop(AF_INET6, ud->ah_attr.grh.dgid.raw, text,
			  sizeof(text)));
	printf("joined %s, mlid %#x, sl %d\n", text, ud->ah_attr.dlid,
	       ud->ah_attr.sl);
	fflush(stdout);
	remote_qpn = ud->qp_num;
	remote_qkey = ud->qkey;
	if (opt.sender) {
		ah = ibv_create_ah(pd, &ud->ah_attr);
		VT_TRUE(ah);
	}
	rdma_ack_cm_event(event);
}

static void post_send(int number)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buf,
			       .length = opt.length,
			       .lkey = mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(id->qp->qp_num),
		.wr.ud = { .ah = ah,
			   .remote_qpn = remote_qpn,
			   .remote_qkey = remote_qkey },
	};

	vt_fill(buf, opt.length, (uint64_t)number);
	VT_TRUE(ibv_post_send(id->qp, &wr, &bad) == 0);
}

/* All receives have the same buffer: the newest message can be in it before the
 * completion of an older one is taken. */
static void exchange(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < opt.count; i++) {
		if (opt.sender)
			post_send(i);
		vt_poll_ok(cq, &wc);
		printf("%s message %d\n", opt.sender ? "sent" : "received",
		       i + 1);
		if (opt.sender)
			continue;
		VT_TRUE(wc.byte_len == opt.length + GRH);
		VT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
		VT_TRUE(ntohl(wc.imm_data) == wc.src_qp);
	}
	if (!opt.sender)
		VT_TRUE(vt_check(buf + GRH, opt.length,
				 (uint64_t)opt.count - 1));
}

static void destroy_resources(void)
{
	if (ah)
		VT_TRUE(ibv_destroy_ah(ah) == 0);
	rdma_destroy_qp(id);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	VT_TRUE(rdma_dereg_mr(mr) == 0);
	free(buf);
	/* The manual asks for id->pd == NULL, and never does it. */
	if (own_pd)
		VT_TRUE(ibv_dealloc_pd(own_pd) == 0);
	VT_TRUE(rdma_destroy_id(id) == 0);
}

static void take_option(int c)
{
	if (c == 's')
		opt.sender = true;
	else if (c == 'b')
		opt.bind = optarg;
	else if (c == 'm')
		opt.group = optarg;
	else if (c == 'c')
		opt.count = atoi(optarg);
	else if (c == 'l')
		opt.length = (uint32_t)atoi(optarg);
	else if (c != 'p')
		exit(2);
}

int main(int argc, char **argv)
{
	struct ibv_port_attr port;
	pthread_t thread;
	int c;

	while ((c = getopt(argc, argv, "shb:m:p:c:l:")) != -1)
		take_option(c);
	VT_TRUE(opt.group && opt.count > 0);
	channel = rdma_create_event_channel();
	VT_TRUE(channel);
	VT_TRUE(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) == 0);
	resolve();
	VT_TRUE(ibv_query_port(id->verbs, id->port_num, &port) == 0);
	if (opt.length > 1u << (port.active_mtu + 7))
		VT_FAIL("%u bytes are more than the MTU", opt.length);
	create_resources();
	for (int i = 0; !opt.sender && i < opt.count; i++)
		VT_TRUE(rdma_post_recv(id, NULL, buf, opt.length + GRH, mr) ==
			0);
	join();
	VT_TRUE(pthread_create(&thread, NULL, read_events, NULL) == 0);
	exchange();
	VT_TRUE(rdma_leave_multicast(id, (struct sockaddr *)&group) == 0);
	destroy_resources();
	return 0; /* its thread still waits for an event, as there */
}
