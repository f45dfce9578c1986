/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The experimental verbs on XRC between two processes: the client's initiator sends to
 * the server's shared receive queue.  Also run with loss.
 *
 *	exp_xrc -p PORT [-n MESSAGES] [HOST]
 */
#include <fcntl.h>
#include <infiniband/verbs_exp.h>
#include <stdio.h>
#include <string.h>

#include "vt.h"

#define SIZE  9000u /* several packets */
#define DEPTH 8

struct ends {
	struct vt_addr addr;
	uint32_t srq;
};

static struct vt_args args = { .gid_index = -1, .n = 200 };
static struct vt_dev dev;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_xrcd *xrcd;
static struct ibv_srq *srq;
static int fd;

static struct ibv_qp *create_qp(enum ibv_qp_type type)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = cq,
		.cap = { DEPTH, 0, 1, 0, 0 },
		.qp_type = type,
		.comp_mask = type == IBV_QPT_XRC_RECV
				     ? IBV_EXP_QP_INIT_ATTR_XRCD
				     : IBV_EXP_QP_INIT_ATTR_PD |
					       IBV_EXP_QP_INIT_ATTR_INL_RECV,
		.pd = dev.pd,
		.xrcd = xrcd,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(dev.ctx, &init);

	VT_TRUE(qp);
	return qp;
}

static uint32_t create_srq(void)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = dev.pd,
		.cq = cq,
	};
	uint32_t number = 0;

	xrcd = ibv_open_xrcd(dev.ctx, &domain);
	VT_TRUE(xrcd);
	init.xrcd = xrcd;
	srq = ibv_create_srq_ex(dev.ctx, &init);
	VT_TRUE(srq && ibv_get_srq_num(srq, &number) == 0);
	return number;
}

static void connect_qp(struct ibv_qp *qp, const struct vt_addr *mine,
		       const struct vt_addr *to)
{
	struct ibv_exp_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qpn,
		.rq_psn = to->psn,
		.sq_psn = mine->psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = to->gid,
				      .sgid_index = (uint8_t)dev.gid_index,
				      .hop_limit = 64 } },
	};
	uint64_t mask = IBV_EXP_QP_STATE | IBV_EXP_QP_AV | IBV_EXP_QP_PATH_MTU |
			IBV_EXP_QP_DEST_QPN | IBV_EXP_QP_RQ_PSN;

	VT_TRUE(ibv_exp_modify_qp(qp, &a,
				  IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
					  IBV_EXP_QP_PORT |
					  IBV_EXP_QP_ACCESS_FLAGS) == 0);
	a.qp_state = IBV_QPS_RTR;
	if (!args.host)
		mask |= IBV_EXP_QP_MAX_DEST_RD_ATOMIC |
			IBV_EXP_QP_MIN_RNR_TIMER;
	VT_TRUE(ibv_exp_modify_qp(qp, &a, mask) == 0);
	a.qp_state = IBV_QPS_RTS;
	if (args.host)
		VT_TRUE(ibv_exp_modify_qp(
				qp, &a,
				IBV_EXP_QP_STATE | IBV_EXP_QP_SQ_PSN |
					IBV_EXP_QP_TIMEOUT |
					IBV_EXP_QP_RETRY_CNT |
					IBV_EXP_QP_RNR_RETRY |
					IBV_EXP_QP_MAX_QP_RD_ATOMIC) == 0);
}

static struct ibv_exp_wc next(void)
{
	uint64_t end = vt_now_ms() + 30000;
	struct ibv_exp_wc wc;
	int got;

	do
		got = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc));
	while (!got && vt_now_ms() < end);
	VT_TRUE(got == 1 && wc.status == IBV_WC_SUCCESS);
	return wc;
}

static void receive(uint64_t seed)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, SIZE, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_exp_wc wc;

	VT_TRUE(ibv_post_srq_recv(srq, &wr, &bad) == 0);
	vt_barrier(fd);
	wc = next();
	VT_TRUE(wc.exp_opcode == IBV_EXP_WC_RECV && wc.byte_len == SIZE);
	VT_TRUE(wc.exp_wc_flags == (IBV_EXP_WC_SRQ | IBV_EXP_WC_WITH_IMM));
	VT_TRUE(wc.srq == srq && wc.imm_data == (uint32_t)seed);
	VT_TRUE(vt_check(mr->addr, SIZE, seed));
}

static void send(struct ibv_qp *qp, uint32_t number, uint64_t seed)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, SIZE, mr->lkey };
	struct ibv_exp_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.exp_opcode = IBV_EXP_WR_SEND_WITH_IMM,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
		.ex.imm_data = (uint32_t)seed,
		.xrc_remote_srq_num = number,
	};
	struct ibv_exp_wc wc;

	vt_fill(mr->addr, SIZE, seed);
	vt_barrier(fd);
	VT_TRUE(ibv_exp_post_send(qp, &wr, &bad) == 0);
	wc = next();
	VT_TRUE(wc.exp_opcode == IBV_EXP_WC_SEND && wc.qp == qp);
}

int main(int argc, char **argv)
{
	struct ends mine = { .srq = 0 }, theirs;
	struct ibv_qp *qp;

	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	VT_TRUE(cq);
	mr = vt_mr(&dev, SIZE);
	if (!args.host)
		mine.srq = create_srq();
	qp = create_qp(args.host ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV);
	vt_qp_addr(&dev, qp, &mine.addr);
	fd = vt_connect(args.host, args.port);
	vt_swap(fd, &mine, &theirs, sizeof(mine));
	connect_qp(qp, &mine.addr, &theirs.addr);
	vt_barrier(fd);
	for (long i = 0; i < args.n; i++) {
		if (args.host)
			send(qp, theirs.srq, (uint64_t)i);
		else
			receive((uint64_t)i);
	}
	vt_barrier(fd);
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	VT_TRUE(!srq || ibv_destroy_srq(srq) == 0);
	VT_TRUE(!xrcd || ibv_close_xrcd(xrcd) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	vt_dev_close(&dev);
	printf("%ld messages\n", args.n);
	return 0;
}
