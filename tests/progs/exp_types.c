/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The experimental verbs on UD and XRC, within this process: created, modified,
 * posted to and polled by them alone.  -M ud or -M xrc runs one of the two.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "vt.h"

#define QKEY 0x1234u

static struct vt_dev dev;
static struct ibv_cq *cq;
static struct ibv_mr *mr;

static struct ibv_sge piece(size_t offset, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)mr->addr + offset, length,
				 mr->lkey };
}

static struct ibv_exp_wc next(void)
{
	uint64_t end = vt_now_ms() + 10000;
	struct ibv_exp_wc wc;
	int got;

	do {
		got = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc));
		VT_TRUE(got >= 0);
	} while (!got && vt_now_ms() < end);
	VT_TRUE(got == 1 && wc.status == IBV_WC_SUCCESS);
	return wc;
}

/* The completions of a send and of the receive with wr_id 2, in any order. */
static struct ibv_exp_wc received(void)
{
	struct ibv_exp_wc one = next(), two = next();

	VT_TRUE(one.wr_id + two.wr_id == 3);
	return one.wr_id == 2 ? one : two;
}

static struct ibv_qp *create_with(enum ibv_qp_type type, struct ibv_xrcd *xrcd,
				  uint32_t flags)
{
	struct ibv_exp_qp_init_attr init = {
		.qp_type = type,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.exp_create_flags = flags,
	};
	struct ibv_qp *qp;

	if (xrcd) {
		init.comp_mask |= IBV_EXP_QP_INIT_ATTR_XRCD;
		init.xrcd = xrcd;
	} else {
		init.comp_mask |= IBV_EXP_QP_INIT_ATTR_PD;
		init.pd = dev.pd;
		init.send_cq = cq;
		init.recv_cq = type == IBV_QPT_UD ? cq : NULL;
		init.cap.max_send_wr = 16;
		init.cap.max_send_sge = 2;
		init.cap.max_recv_wr = type == IBV_QPT_UD ? 16 : 0;
		init.cap.max_recv_sge = type == IBV_QPT_UD ? 1 : 0;
	}
	qp = ibv_exp_create_qp(dev.ctx, &init);
	VT_TRUE(qp);
	return qp;
}

static struct ibv_qp *create(enum ibv_qp_type type, struct ibv_xrcd *xrcd)
{
	return create_with(type, xrcd, 0);
}

/* ---- UD ---- */

static void ud_ready(struct ibv_qp *qp)
{
	struct ibv_exp_qp_attr attr = { .qp_state = IBV_QPS_INIT,
					.port_num = 1,
					.qkey = QKEY };

	VT_TRUE(ibv_exp_modify_qp(qp, &attr,
				  IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
					  IBV_EXP_QP_PORT | IBV_EXP_QP_QKEY) ==
		0);
	attr.qp_state = IBV_QPS_RTR;
	VT_TRUE(ibv_exp_modify_qp(qp, &attr, IBV_EXP_QP_STATE) == 0);
	attr.qp_state = IBV_QPS_RTS;
	VT_TRUE(ibv_exp_modify_qp(qp, &attr,
				  IBV_EXP_QP_STATE | IBV_EXP_QP_SQ_PSN) == 0);
}

static void check_ud(void)
{
	struct ibv_qp *from = create(IBV_QPT_UD, NULL);
	struct ibv_qp *to = create(IBV_QPT_UD, NULL);
	struct ibv_ah_attr ah_attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = dev.gid,
			 .sgid_index = (uint8_t)dev.gid_index },
	};
	struct ibv_ah *ah = ibv_create_ah(dev.pd, &ah_attr);
	struct ibv_sge sge = piece(0, 256);
	struct ibv_exp_send_wr *bad, wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.exp_opcode = IBV_EXP_WR_SEND_WITH_IMM,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
		.ex.imm_data = 0x12345678,
		.wr.ud = { ah, to->qp_num, QKEY },
	};
	struct ibv_exp_wc wc;

	VT_TRUE(ah);
	ud_ready(from);
	ud_ready(to);
	vt_fill(mr->addr, 256, 7);
	vt_recv(to, mr, 4096, 512, 2);
	VT_TRUE(ibv_exp_post_send(from, &wr, &bad) == 0);
	wc = received();
	VT_TRUE(wc.exp_opcode == IBV_EXP_WC_RECV && wc.byte_len == 256 + 40);
	VT_TRUE(wc.exp_wc_flags ==
		(IBV_EXP_WC_GRH | IBV_EXP_WC_WITH_IMM | IBV_EXP_WC_QP));
	VT_TRUE(wc.qp == to);
	VT_TRUE(wc.imm_data == 0x12345678 && wc.src_qp == from->qp_num);
	VT_TRUE(vt_check((uint8_t *)mr->addr + 4096 + 40, 256, 7));
	wr.exp_opcode = IBV_EXP_WR_NOP; /* of connected types only */
	VT_TRUE(ibv_exp_post_send(from, &wr, &bad) == EINVAL && bad == &wr);
	VT_TRUE(ibv_destroy_ah(ah) == 0);
	VT_TRUE(ibv_destroy_qp(from) == 0);
	VT_TRUE(ibv_destroy_qp(to) == 0);
}

/* ---- XRC ---- */

/* To RTR, towards a queue pair of this process. */
static void xrc_connect(struct ibv_qp *qp, uint32_t dest, bool target)
{
	struct ibv_exp_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = dev.port.active_mtu,
		.dest_qp_num = dest,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = dev.gid,
				      .sgid_index = (uint8_t)dev.gid_index,
				      .hop_limit = 64 } },
	};
	uint64_t mask = IBV_EXP_QP_STATE | IBV_EXP_QP_AV | IBV_EXP_QP_PATH_MTU |
			IBV_EXP_QP_DEST_QPN | IBV_EXP_QP_RQ_PSN;

	VT_TRUE(ibv_exp_modify_qp(qp, &attr,
				  IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
					  IBV_EXP_QP_PORT |
					  IBV_EXP_QP_ACCESS_FLAGS) == 0);
	attr.qp_state = IBV_QPS_RTR;
	if (target)
		mask |= IBV_EXP_QP_MAX_DEST_RD_ATOMIC |
			IBV_EXP_QP_MIN_RNR_TIMER;
	VT_TRUE(ibv_exp_modify_qp(qp, &attr, mask) == 0);
}

static void xrc_start(struct ibv_qp *qp)
{
	struct ibv_exp_qp_attr attr = { .qp_state = IBV_QPS_RTS,
					.timeout = 14,
					.retry_cnt = 7,
					.rnr_retry = 7 };

	VT_TRUE(ibv_exp_modify_qp(qp, &attr,
				  IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT |
					  IBV_EXP_QP_SQ_PSN |
					  IBV_EXP_QP_RETRY_CNT |
					  IBV_EXP_QP_RNR_RETRY |
					  IBV_EXP_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void xrc_receive(struct ibv_srq *srq)
{
	struct ibv_sge sge = piece(4096, 512);
	struct ibv_recv_wr *bad,
		wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 };

	VT_TRUE(ibv_post_srq_recv(srq, &wr, &bad) == 0);
}

static struct ibv_srq *xrc_queue(struct ibv_xrcd *xrcd, uint32_t *number)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 16, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = dev.pd,
		.cq = cq,
		.xrcd = xrcd,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(dev.ctx, &init);

	VT_TRUE(srq);
	VT_TRUE(ibv_get_srq_num(srq, number) == 0);
	xrc_receive(srq);
	return srq;
}

/* The sum of two operands, as a message to the SRQ. */
static void check_calculation(struct ibv_xrcd *xrcd, struct ibv_srq *srq,
			      uint32_t number)
{
	struct ibv_qp *from = create_with(IBV_QPT_XRC_SEND, NULL,
					  IBV_EXP_QP_CREATE_CROSS_CHANNEL);
	struct ibv_qp *to = create(IBV_QPT_XRC_RECV, xrcd);
	uint64_t *in = mr->addr, *out = in + 512;
	struct ibv_sge sge[2] = { piece(0, 16), piece(16, 16) };
	struct ibv_exp_send_wr *bad, wr = {
		.wr_id = 1,
		.sg_list = sge,
		.num_sge = 2,
		.exp_opcode = IBV_EXP_WR_SEND,
		.exp_send_flags =
			IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_WITH_CALC,
		.op.calc = { .calc_op = IBV_EXP_CALC_OP_ADD,
			     .data_type = IBV_EXP_CALC_DATA_TYPE_UINT,
			     .data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT },
		.xrc_remote_srq_num = number,
	};
	struct ibv_exp_wc wc;

	xrc_connect(to, from->qp_num, true);
	xrc_connect(from, to->qp_num, false);
	xrc_start(from);
	xrc_receive(srq);
	in[0] = htobe64(40);
	in[2] = htobe64(2);
	VT_TRUE(ibv_exp_post_send(from, &wr, &bad) == 0);
	wc = received();
	VT_TRUE(wc.exp_opcode == IBV_EXP_WC_RECV && wc.byte_len == 16);
	VT_TRUE(wc.srq == srq && be64toh(out[0]) == 42 && out[1] == 0);
	VT_TRUE(ibv_destroy_qp(from) == 0);
	VT_TRUE(ibv_destroy_qp(to) == 0);
}

static void check_xrc(void)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(dev.ctx, &domain);
	struct ibv_sge sge = piece(0, 256);
	struct ibv_exp_send_wr *bad, wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.exp_opcode = IBV_EXP_WR_SEND,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
	};
	struct ibv_qp *from, *to;
	struct ibv_exp_wc wc;
	struct ibv_srq *srq;

	VT_TRUE(xrcd);
	srq = xrc_queue(xrcd, &wr.xrc_remote_srq_num);
	from = create(IBV_QPT_XRC_SEND, NULL);
	to = create(IBV_QPT_XRC_RECV, xrcd);
	xrc_connect(to, from->qp_num, true);
	xrc_connect(from, to->qp_num, false);
	xrc_start(from);
	vt_fill(mr->addr, 256, 8);
	VT_TRUE(ibv_exp_post_send(from, &wr, &bad) == 0);
	wc = received();
	VT_TRUE(wc.exp_opcode == IBV_EXP_WC_RECV && wc.byte_len == 256);
	VT_TRUE(wc.exp_wc_flags == IBV_EXP_WC_SRQ && wc.srq == srq);
	VT_TRUE(vt_check((uint8_t *)mr->addr + 4096, 256, 8));
	wr.wr_id = 9;
	wr.exp_opcode = IBV_EXP_WR_NOP;
	VT_TRUE(ibv_exp_post_send(from, &wr, &bad) == 0);
	wc = next();
	VT_TRUE(wc.wr_id == 9 && wc.qp == from);
	check_calculation(xrcd, srq, wr.xrc_remote_srq_num);
	VT_TRUE(ibv_destroy_qp(from) == 0);
	VT_TRUE(ibv_destroy_qp(to) == 0);
	VT_TRUE(ibv_destroy_srq(srq) == 0);
	VT_TRUE(ibv_close_xrcd(xrcd) == 0);
}

int main(int argc, char **argv)
{
	struct ibv_exp_cq_init_attr init = { .comp_mask = 0 };
	struct vt_args args = { .gid_index = -1 };

	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	cq = ibv_exp_create_cq(dev.ctx, 64, NULL, NULL, 0, &init);
	mr = vt_mr(&dev, 8192);
	VT_TRUE(cq);
	if (!args.mode || strcmp(args.mode, "ud") == 0)
		check_ud();
	if (!args.mode || strcmp(args.mode, "xrc") == 0)
		check_xrc();
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	vt_dev_close(&dev);
	return 0;
}
