/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The example of a shared receive queue (srq) of the RDMA Aware Networks
 * Programming User Manual: its calls in its order, with its options.  The ID
 * that has the SRQ listens too; its completions, of all connections, wake by a
 * channel.  The client sends -w messages, then waits for one of the server.
 *
 *	-s, -a ADDRESS, -p port, -c messages, -l bytes, -q queue pairs,
 *	-w requests of each queue
 */
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

static struct {
	bool server;
	const char *address;
	const char *port;
	int count;
	uint32_t length;
	int qps;
	int depth;
} opt = {
	.port = "51216", .count = 100, .length = 100000, .qps = 4, .depth = 64
};

static struct rdma_addrinfo *rai;
static struct rdma_cm_id *srq_id;
static struct rdma_cm_id **conn;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *recv_mr, *send_mr;
static uint8_t *recv_buf, *send_buf;
static int sent, received;

static void post_recv(void)
{
	VT_TRUE(rdma_post_recv(srq_id, NULL, recv_buf, opt.length, recv_mr) ==
		0);
}

static void create_resources(void)
{
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = (uint32_t)opt.depth, .max_sge = 1 }
	};

	VT_TRUE(rdma_create_id(NULL, &srq_id, NULL, RDMA_PS_TCP) == 0);
	if (opt.server)
		VT_TRUE(rdma_bind_addr(srq_id, rai->ai_src_addr) == 0);
	else
		VT_TRUE(rdma_resolve_addr(srq_id, NULL, rai->ai_dst_addr,
					  1000) == 0);
	recv_mr = rdma_reg_msgs(srq_id, recv_buf, opt.length);
	send_mr = rdma_reg_msgs(srq_id, send_buf, opt.length);
	VT_TRUE(recv_mr && send_mr);
	VT_TRUE(rdma_create_srq(srq_id, NULL, &init) == 0);
	VT_TRUE(srq_id->srq);
	for (int i = 0; i < opt.depth; i++)
		post_recv();
	channel = ibv_create_comp_channel(srq_id->verbs);
	VT_TRUE(channel);
	cq = ibv_create_cq(srq_id->verbs, opt.depth, NULL, channel, 0);
	VT_TRUE(cq);
	VT_TRUE(ibv_req_notify_cq(cq, 0) == 0);
}

static struct ibv_qp_init_attr qp_attr(void)
{
	return (struct ibv_qp_init_attr){
		.recv_cq = cq,
		.srq = srq_id->srq,
		.cap = { .max_send_wr = (uint32_t)opt.depth,
			 .max_recv_wr = (uint32_t)opt.depth,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
}

static void accept_all(void)
{
	VT_TRUE(rdma_listen(srq_id, 4) == 0);
	printf("listening\n");
	fflush(stdout);
	for (int i = 0; i < opt.qps; i++) {
		struct ibv_qp_init_attr attr = qp_attr();

		VT_TRUE(rdma_get_request(srq_id, &conn[i]) == 0);
		VT_TRUE(rdma_create_qp(conn[i], NULL, &attr) == 0);
		conn[i]->srq = srq_id->srq;
		VT_TRUE(rdma_accept(conn[i], NULL) == 0);
	}
}

static void connect_all(void)
{
	for (int i = 0; i < opt.qps; i++) {
		struct ibv_qp_init_attr attr = qp_attr();

		attr.qp_type = 0; /* rdma_create_ep() takes it of rai */
		VT_TRUE(rdma_create_ep(&conn[i], rai, NULL, &attr) == 0);
		VT_TRUE(rdma_connect(conn[i], NULL) == 0);
	}
}

static void await_completion(void)
{
	struct ibv_cq *of;
	void *context;

	VT_TRUE(ibv_get_cq_event(channel, &of, &context) == 0 && of == cq);
	ibv_ack_cq_events(of, 1);
	VT_TRUE(ibv_req_notify_cq(cq, 0) == 0);
}

/* How many messages that was; each receive is posted again. */
static int take_messages(void)
{
	struct ibv_wc wc;
	int n, taken = 0;

	while ((n = ibv_poll_cq(cq, 1, &wc)) != 0) {
		VT_TRUE(n > 0 && wc.status == IBV_WC_SUCCESS);
		VT_TRUE(wc.opcode == IBV_WC_RECV && wc.byte_len == opt.length);
		VT_TRUE(vt_check(recv_buf, opt.length, opt.server ? 1 : 2));
		post_recv();
		taken++;
	}
	return taken;
}

static void send_by(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	VT_TRUE(rdma_post_send(id, NULL, send_buf, opt.length, send_mr,
			       IBV_SEND_SIGNALED) == 0);
	VT_TRUE(rdma_get_send_comp(id, &wc) == 1);
	VT_TRUE(wc.status == IBV_WC_SUCCESS && wc.qp_num == id->qp->qp_num);
	sent++;
}

static void run_server(void)
{
	create_resources();
	accept_all();
	while (received < opt.count) {
		for (int n, i = 0; i < opt.depth && received < opt.count;) {
			await_completion();
			n = take_messages();
			i += n;
			received += n;
		}
		send_by(conn[0]);
	}
}

static void run_client(void)
{
	create_resources();
	connect_all();
	for (int batch = 1; sent < opt.count; batch++) {
		for (int i = 0; i < opt.depth && sent < opt.count; i++)
			send_by(conn[i % opt.qps]);
		/* An event can be of a message that has been taken: the manual
		 * goes on then. */
		while (received < batch) {
			await_completion();
			received += take_messages();
		}
	}
}

static void destroy_resources(void)
{
	bool is_ib = srq_id->verbs->device->transport_type == IBV_TRANSPORT_IB;

	for (int i = 0; i < opt.qps; i++) {
		/* On iWARP librdmacm does not modify it, there and here. */
		VT_TRUE((conn[i]->qp->state == IBV_QPS_RTS) == is_ib);
		if (is_ib)
			VT_TRUE(rdma_disconnect(conn[i]) == 0);
		rdma_destroy_qp(conn[i]);
		VT_TRUE(rdma_destroy_id(conn[i]) == 0);
	}
	free(conn);
	VT_TRUE(rdma_dereg_mr(recv_mr) == 0);
	VT_TRUE(rdma_dereg_mr(send_mr) == 0);
	free(recv_buf);
	free(send_buf);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	VT_TRUE(ibv_destroy_comp_channel(channel) == 0);
	rdma_destroy_srq(srq_id);
	VT_TRUE(rdma_destroy_id(srq_id) == 0);
	rdma_freeaddrinfo(rai);
}

static void take_option(int c)
{
	if (c == 's')
		opt.server = true;
	else if (c == 'a')
		opt.address = optarg;
	else if (c == 'p')
		opt.port = optarg;
	else if (c == 'c')
		opt.count = atoi(optarg);
	else if (c == 'l')
		opt.length = (uint32_t)atoi(optarg);
	else if (c == 'q')
		opt.qps = atoi(optarg);
	else if (c == 'w')
		opt.depth = atoi(optarg);
	else
		exit(2);
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP };
	int c;

	while ((c = getopt(argc, argv, "sa:p:c:l:q:w:")) != -1)
		take_option(c);
	VT_TRUE(opt.address && opt.qps > 0);
	if (opt.server)
		hints.ai_flags = RAI_PASSIVE;
	VT_TRUE(rdma_getaddrinfo(opt.address, opt.port, &hints, &rai) == 0);
	conn = calloc((size_t)opt.qps, sizeof(struct rdma_cm_id *));
	send_buf = malloc(opt.length);
	recv_buf = calloc(1, opt.length);
	VT_TRUE(conn && send_buf && recv_buf);
	vt_fill(send_buf, opt.length, opt.server ? 2 : 1);
	if (opt.server)
		run_server();
	else
		run_client();
	printf("sent %d, received %d\n", sent, received);
	destroy_resources();
	return 0;
}
