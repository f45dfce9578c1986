/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DC on a device with two ports: the server has a target on each, the client an
 * initiator on each.  Its WRITEs fail while the link of its port is down and
 * go on when it is up again.  Meanwhile those of the other port go on.
 *
 *	dc_ports -p PORT [HOST]
 *
 * Prints "both" when both work, "one" and the number of the failed port when one
 * does not, "both" again, and so for the other port.
 */
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <stdio.h>
#include <string.h>

#include "vt.h"

#define KEY   0xfeedu
#define GID   0 /* each port's first */
#define SIZE  4096u
#define ROUND 500

struct hello {
	union ibv_gid gid[2]; /* of port 1 and 2 */
	uint32_t dctn[2];
	uint64_t addr;
	uint32_t rkey;
};

static struct vt_args args;
static struct vt_dev dev;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static struct hello hello;
static struct ibv_qp *dci[2];
static struct ibv_ah *ah[2];
static int fd;

static void say(const char *what, int port)
{
	printf("%s %d\n", what, port);
	fflush(stdout);
}

/* ---- the server ---- */

static void serve(void)
{
	static struct hello none;
	struct ibv_exp_dct *dct[2];

	for (uint8_t i = 0; i < 2; i++) {
		struct ibv_exp_dct_init_attr attr = {
			.pd = dev.pd,
			.cq = cq,
			.srq = srq,
			.dc_key = KEY,
			.port = (uint8_t)(i + 1),
			.access_flags = IBV_ACCESS_REMOTE_WRITE,
			.min_rnr_timer = 12,
			.mtu = IBV_MTU_1024,
			.gid_index = GID,
		};

		dct[i] = ibv_exp_create_dct(dev.ctx, &attr);
		VT_TRUE(dct[i]);
		hello.dctn[i] = dct[i]->dct_num;
		VT_TRUE(!ibv_query_gid(dev.ctx, (uint8_t)(i + 1), GID,
				       &hello.gid[i]));
	}
	hello.addr = (uintptr_t)mr->addr;
	hello.rkey = mr->rkey;
	fd = vt_connect(NULL, args.port);
	vt_swap(fd, &hello, &none, sizeof(hello));
	vt_barrier(fd);
	for (int i = 0; i < 2; i++)
		VT_TRUE(!ibv_exp_destroy_dct(dct[i]));
}

/* ---- the client ---- */

static struct ibv_ah_attr to_target(int i)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = (uint8_t)(i + 1),
		.grh = { .dgid = hello.gid[i],
			 .sgid_index = GID,
			 .hop_limit = 64 },
	};
}

/* Few retries, so that it fails soon */
static void to_rts(int i)
{
	struct ibv_exp_qp_attr attr = { .qp_state = IBV_QPS_INIT,
					.port_num = (uint8_t)(i + 1),
					.dct_key = KEY };

	VT_TRUE(!ibv_exp_modify_qp(dci[i], &attr,
				   IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
					   IBV_EXP_QP_PORT |
					   IBV_EXP_QP_DC_KEY));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.ah_attr = to_target(1 - i);
	/* An address of the other port */
	VT_TRUE(ibv_exp_modify_qp(dci[i], &attr,
				  IBV_EXP_QP_STATE | IBV_EXP_QP_AV |
					  IBV_EXP_QP_PATH_MTU) == EINVAL);
	attr.ah_attr = to_target(i);
	VT_TRUE(!ibv_exp_modify_qp(dci[i], &attr,
				   IBV_EXP_QP_STATE | IBV_EXP_QP_AV |
					   IBV_EXP_QP_PATH_MTU));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 12;
	attr.retry_cnt = 5;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	VT_TRUE(!ibv_exp_modify_qp(
		dci[i], &attr,
		IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT |
			IBV_EXP_QP_RNR_RETRY | IBV_EXP_QP_MAX_QP_RD_ATOMIC));
}

static enum ibv_wc_status write_by(int i)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, SIZE, mr->lkey };
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_wc wc;

	memset(&wr, 0, sizeof(wr));
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.exp_opcode = IBV_EXP_WR_RDMA_WRITE;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = hello.addr;
	wr.wr.rdma.rkey = hello.rkey;
	wr.dc.ah = ah[i];
	wr.dc.dct_access_key = KEY;
	wr.dc.dct_number = hello.dctn[i];
	VT_TRUE(!ibv_exp_post_send(dci[i], &wr, &bad));
	vt_poll(cq, &wc);
	VT_TRUE(wc.qp_num == dci[i]->qp_num);
	return wc.status;
}

static void write_ok(int i)
{
	for (int n = 0; n < ROUND; n++)
		VT_TRUE(write_by(i) == IBV_WC_SUCCESS);
}

static void again(int i)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	VT_TRUE(!ibv_modify_qp(dci[i], &reset, IBV_QP_STATE));
	to_rts(i);
}

static void until_it_fails(int i)
{
	enum ibv_wc_status s;

	do
		s = write_by(i);
	while (s == IBV_WC_SUCCESS);
	VT_TRUE(s == IBV_WC_RETRY_EXC_ERR);
	again(i);
}

static void until_it_works(int i)
{
	while (write_by(i) != IBV_WC_SUCCESS)
		again(i);
}

static void make_initiators(void)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 },
		.qp_type = IBV_EXP_QPT_DC_INI,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD,
		.pd = dev.pd,
	};

	for (int i = 0; i < 2; i++) {
		struct ibv_ah_attr attr = to_target(i);

		ah[i] = ibv_create_ah(dev.pd, &attr);
		dci[i] = ibv_exp_create_qp(dev.ctx, &init);
		VT_TRUE(ah[i] && dci[i]);
		to_rts(i);
	}
}

static void run_client(void)
{
	static const struct hello none;

	fd = vt_connect(args.host, args.port);
	vt_swap(fd, &none, &hello, sizeof(hello));
	make_initiators();
	for (int i = 0; i < 2; i++) {
		write_ok(0);
		write_ok(1);
		say("both", i + 1);
		until_it_fails(i);
		write_ok(1 - i);
		say("one", i + 1);
		until_it_works(i);
	}
	write_ok(0);
	write_ok(1);
	vt_barrier(fd);
	for (int i = 0; i < 2; i++)
		VT_TRUE(!ibv_destroy_qp(dci[i]) && !ibv_destroy_ah(ah[i]));
}

int main(int argc, char **argv)
{
	struct ibv_srq_init_attr init = { .attr = { 1, 1, 0 } };

	vt_args(&args, argc, argv);
	vt_dev_open(&dev, GID);
	cq = ibv_create_cq(dev.ctx, 16, NULL, NULL, 0);
	srq = ibv_create_srq(dev.pd, &init);
	VT_TRUE(cq && srq);
	mr = vt_mr(&dev, SIZE);
	if (args.host)
		run_client();
	else
		serve();
	VT_TRUE(!ibv_dereg_mr(mr) && !ibv_destroy_srq(srq));
	VT_TRUE(!ibv_destroy_cq(cq));
	vt_dev_close(&dev);
	return 0;
}
