/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA_RC_example of the RDMA Aware Networks Programming User Manual: its calls
 * in its order, with its options.  An RC queue pair with room for one request,
 * a CQ of one entry and an MTU of 256; the server sends, the client receives,
 * reads the server's buffer and writes to it.
 *
 * The manual registers 16 bytes and copies texts of 21 into them.  Here the
 * buffer has room for the longest.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

#define SENT	"SEND operation "
#define READ	"RDMA read operation "
#define WRITTEN "RDMA write operation"
#define RIGHTS                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |                     \
	 IBV_ACCESS_REMOTE_WRITE)

/* What a side sends to the other by TCP, in network byte order. */
struct props {
	uint64_t addr;
	uint32_t rkey;
	uint32_t qpn;
	uint16_t lid;
	uint8_t gid[16];
} __attribute__((packed));

static struct {
	const char *host; /* NULL: server */
	int tcp_port;
	const char *device;
	uint8_t port;
	int gid_index;
} config = { .tcp_port = 19875, .port = 1, .gid_index = -1 };

static struct {
	int sock;
	struct ibv_context *ctx;
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct props peer;
	char buf[sizeof(WRITTEN)];
} res;

/* A call that returns an errno. */
static void ok(int rc, const char *what)
{
	errno = rc;
	if (rc)
		VT_FAIL("%s", what);
}

static void open_device(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_device *found = NULL;

	VT_TRUE(list && n > 0);
	for (int i = 0; i < n && !found; i++) {
		if (!config.device)
			config.device = strdup(ibv_get_device_name(list[i]));
		if (!strcmp(ibv_get_device_name(list[i]), config.device))
			found = list[i];
	}
	VT_TRUE(found);
	res.ctx = ibv_open_device(found);
	VT_TRUE(res.ctx);
	ibv_free_device_list(list);
}

static void create_resources(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = 1,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	res.sock = vt_connect(config.host, config.tcp_port);
	open_device();
	ok(ibv_query_port(res.ctx, config.port, &res.port), "ibv_query_port");
	res.pd = ibv_alloc_pd(res.ctx);
	VT_TRUE(res.pd);
	res.cq = ibv_create_cq(res.ctx, 1, NULL, NULL, 0);
	VT_TRUE(res.cq);
	if (!config.host)
		strcpy(res.buf, SENT);
	res.mr = ibv_reg_mr(res.pd, res.buf, sizeof(res.buf), RIGHTS);
	VT_TRUE(res.mr);
	init.send_cq = res.cq;
	init.recv_cq = res.cq;
	res.qp = ibv_create_qp(res.pd, &init);
	VT_TRUE(res.qp);
}

static void to_init(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = config.port,
				    .qp_access_flags = RIGHTS };

	ok(ibv_modify_qp(res.qp, &attr,
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS),
	   "to INIT");
}

static void to_rtr(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = ntohl(res.peer.qpn),
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 0x12,
		.ah_attr = { .dlid = ntohs(res.peer.lid),
			     .port_num = config.port },
	};

	if (config.gid_index >= 0) {
		attr.ah_attr.is_global = 1;
		memcpy(&attr.ah_attr.grh.dgid, res.peer.gid, 16);
		attr.ah_attr.grh.hop_limit = 1;
		attr.ah_attr.grh.sgid_index = (uint8_t)config.gid_index;
	}
	ok(ibv_modify_qp(res.qp, &attr,
			 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				 IBV_QP_MAX_DEST_RD_ATOMIC |
				 IBV_QP_MIN_RNR_TIMER),
	   "to RTR");
}

static void to_rts(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = 0x12,
				    .retry_cnt = 6,
				    .max_rd_atomic = 1 };

	ok(ibv_modify_qp(res.qp, &attr,
			 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				 IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				 IBV_QP_MAX_QP_RD_ATOMIC),
	   "to RTS");
}

static struct ibv_sge whole_buffer(void)
{
	return (struct ibv_sge){ .addr = (uintptr_t)res.buf,
				 .length = sizeof(res.buf),
				 .lkey = res.mr->lkey };
}

static void connect_qp(void)
{
	struct props mine = { .addr = htobe64((uintptr_t)res.buf),
			      .rkey = htonl(res.mr->rkey),
			      .qpn = htonl(res.qp->qp_num),
			      .lid = htons(res.port.lid) };
	struct ibv_sge sge = whole_buffer();
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	union ibv_gid gid;

	if (config.gid_index >= 0) {
		ok(ibv_query_gid(res.ctx, config.port, config.gid_index, &gid),
		   "ibv_query_gid");
		memcpy(mine.gid, &gid, sizeof(gid));
	}
	vt_swap(res.sock, &mine, &res.peer, sizeof(mine));
	to_init();
	if (config.host)
		ok(ibv_post_recv(res.qp, &wr, &bad), "ibv_post_recv");
	to_rtr();
	to_rts();
	vt_barrier(res.sock);
}

static void post_send(enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = whole_buffer();
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	if (opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = be64toh(res.peer.addr);
		wr.wr.rdma.rkey = ntohl(res.peer.rkey);
	}
	ok(ibv_post_send(res.qp, &wr, &bad), "ibv_post_send");
}

static void complete(void)
{
	struct ibv_wc wc;

	vt_poll_ok(res.cq, &wc);
}

static void expect(const char *text)
{
	if (strcmp(res.buf, text) != 0)
		VT_FAIL("\"%s\" in the buffer, not \"%s\"", res.buf, text);
	printf("\"%s\"\n", text);
}

static void run(void)
{
	if (!config.host)
		post_send(IBV_WR_SEND);
	complete();
	if (config.host)
		expect(SENT);
	else
		strcpy(res.buf, READ);
	vt_barrier(res.sock);
	if (config.host) {
		post_send(IBV_WR_RDMA_READ);
		complete();
		expect(READ);
		strcpy(res.buf, WRITTEN);
		post_send(IBV_WR_RDMA_WRITE);
		complete();
	}
	vt_barrier(res.sock);
	if (!config.host)
		expect(WRITTEN);
}

static void destroy_resources(void)
{
	ok(ibv_destroy_qp(res.qp), "ibv_destroy_qp");
	ok(ibv_dereg_mr(res.mr), "ibv_dereg_mr");
	ok(ibv_destroy_cq(res.cq), "ibv_destroy_cq");
	ok(ibv_dealloc_pd(res.pd), "ibv_dealloc_pd");
	ok(ibv_close_device(res.ctx), "ibv_close_device");
	close(res.sock);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "ib-dev", required_argument, NULL, 'd' },
		{ "ib-port", required_argument, NULL, 'i' },
		{ "gid-idx", required_argument, NULL, 'g' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "p:d:i:g:", options, NULL)) != -1) {
		if (c == 'p')
			config.tcp_port = atoi(optarg);
		else if (c == 'd')
			config.device = optarg;
		else if (c == 'i')
			config.port = (uint8_t)atoi(optarg);
		else if (c == 'g')
			config.gid_index = atoi(optarg);
		else
			return 2;
	}
	if (optind < argc)
		config.host = argv[optind];
	create_resources();
	connect_qp();
	run();
	destroy_resources();
	return 0;
}
