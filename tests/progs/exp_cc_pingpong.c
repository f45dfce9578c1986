/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cross-channel ping-pong as programs of Mellanox OFED have it: each side
 * posts tasks for a batch of rounds and waits for the last one.  What it has
 * received it sends back; the program takes part in no round.
 *
 *	exp_cc_pingpong -p PORT [-n ROUNDS] [-M MODE] [HOST]
 *	calc	each message is the sum of the one before and 1 (the default)
 *	plain	each message is the one before
 *	recv	plain, with a managed receive queue
 *	one	plain; several waits of a list count from one base
 *	over	plain; the queues may overflow: the first receives are posted in RESET,
 *		and a whole queue's again while some are left
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vt.h"

#define BATCH 16u
#define SIZE  6000u /* several packets */
#define CROSS IBV_EXP_QP_CREATE_CROSS_CHANNEL
#define OVERFLOW                                                               \
	(IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW |                                \
	 IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW)

/* What a calculation reads and sends: 16 bytes. */
struct operand {
	uint64_t value_be;
	uint64_t id;
};

static struct vt_args args = {
	.gid_index = -1, .n = 1600, .timeout = 14, .retry = 7, .mode = "calc"
};
static struct vt_dev dev;
static int fd;
static bool calc, managed_recv, one_base, over;
static struct ibv_cq *arrived; /* receives; it is not polled */
static struct ibv_cq *done;    /* everything else */
static struct ibv_qp *qp;      /* to the peer; its sends are managed */
static struct ibv_qp *mq;      /* to itself; waits and enables */
static struct ibv_mr *mr;      /* received, then the addend, then the first */

static void must(int rc, const char *what)
{
	errno = rc;
	if (rc)
		VT_FAIL("%s", what);
}

static void check_device(void)
{
	struct ibv_exp_device_attr attr = {
		.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
			     IBV_EXP_DEVICE_ATTR_CALC_CAP,
	};

	must(ibv_exp_query_device(dev.ctx, &attr), "query_device");
	VT_TRUE(attr.exp_device_cap_flags & IBV_EXP_DEVICE_CROSS_CHANNEL);
	VT_TRUE(attr.calc_cap.uint_ops & 1ull << IBV_EXP_CALC_OP_ADD);
	VT_TRUE(attr.calc_cap.data_types & 1ull << IBV_EXP_CALC_DATA_TYPE_UINT);
	VT_TRUE(attr.calc_cap.data_sizes &
		1ull << IBV_EXP_CALC_DATA_SIZE_64_BIT);
}

static void create_cqs(void)
{
	struct ibv_exp_cq_init_attr init = {
		.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
		.flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL,
	};
	struct ibv_exp_cq_attr attr = {
		.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
		.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN,
	};

	arrived = ibv_exp_create_cq(dev.ctx, 4, NULL, NULL, 0, &init);
	done = ibv_create_cq(dev.ctx, 8 * BATCH, NULL, NULL, 0);
	VT_TRUE(arrived && done);
	must(ibv_exp_modify_cq(arrived, &attr, IBV_EXP_CQ_CAP_FLAGS),
	     "modify_cq");
}

static struct ibv_qp *create_qp(struct ibv_cq *recv_cq, uint32_t flags)
{
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = done,
		.recv_cq = recv_cq,
		.cap = { 4 * BATCH, 2 * BATCH, 2, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = dev.pd,
		.exp_create_flags = flags | (over ? OVERFLOW : 0),
	};
	struct ibv_qp *new = ibv_exp_create_qp(dev.ctx, &attr);

	VT_TRUE(new);
	return new;
}

static void connect_all(void)
{
	struct vt_addr mine, theirs, own;

	vt_qp_init(qp);
	vt_qp_init(mq);
	vt_qp_addr(&dev, qp, &mine);
	vt_qp_addr(&dev, mq, &own);
	vt_swap(fd, &mine, &theirs, sizeof(mine));
	vt_qp_connect(&dev, qp, &mine, &theirs, &args);
	vt_qp_connect(&dev, mq, &own, &own, &args);
}

static struct operand *operand(uint32_t number)
{
	return (struct operand *)((uint8_t *)mr->addr + number * SIZE);
}

static struct ibv_sge piece(uint32_t number)
{
	return (struct ibv_sge){ (uintptr_t)operand(number),
				 calc ? sizeof(struct operand) : SIZE,
				 mr->lkey };
}

/* ---- requests of a batch ---- */

static struct ibv_recv_wr recv_wr[BATCH];
static struct ibv_exp_send_wr send_wr[BATCH], sync_wr[3 * BATCH + 1];
static struct ibv_sge recv_sge, send_sge[2], first_sge;

static void make_messages(bool first)
{
	memset(send_wr, 0, sizeof(send_wr));
	recv_sge = piece(0);
	send_sge[0] = piece(0);
	send_sge[1] = piece(1);
	first_sge = piece(2);
	for (uint32_t i = 0; i < BATCH; i++) {
		struct ibv_exp_send_wr *wr = &send_wr[i];

		recv_wr[i] = (struct ibv_recv_wr){
			.next = i + 1 < BATCH ? &recv_wr[i + 1] : NULL,
			.sg_list = &recv_sge,
			.num_sge = 1,
		};
		wr->next = i + 1 < BATCH ? &send_wr[i + 1] : NULL;
		wr->exp_opcode = IBV_EXP_WR_SEND;
		wr->sg_list = send_sge;
		wr->num_sge = calc ? 2 : 1;
		if (!calc && first && args.host && i == 0)
			wr->sg_list = &first_sge;
		if (!calc)
			continue;
		wr->exp_send_flags = IBV_EXP_SEND_WITH_CALC;
		wr->op.calc.calc_op = IBV_EXP_CALC_OP_ADD;
		wr->op.calc.data_type = IBV_EXP_CALC_DATA_TYPE_UINT;
		wr->op.calc.data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
	}
}

/* All that the queue pair was asked to hold, to which each batch adds its own */
static void post_in_reset(void)
{
	struct ibv_recv_wr *bad;

	make_messages(false);
	must(ibv_post_recv(qp, recv_wr, &bad), "post_recv");
	must(ibv_post_recv(qp, recv_wr, &bad), "post_recv");
}

static uint32_t add(uint32_t at, enum ibv_exp_wr_opcode op, int32_t count,
		    bool last)
{
	struct ibv_exp_send_wr *wr = &sync_wr[at];

	memset(wr, 0, sizeof(*wr));
	wr->exp_opcode = op;
	wr->next = wr + 1;
	if (last)
		wr->exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST;
	if (op == IBV_EXP_WR_CQE_WAIT) {
		wr->task.cqe_wait.cq = arrived;
		wr->task.cqe_wait.cq_count = count;
	} else {
		wr->task.wqe_enable.qp = qp;
		wr->task.wqe_enable.wqe_count = count;
	}
	return at + 1;
}

/* The client sends and waits, the server waits and sends. */
static void make_syncs(void)
{
	uint32_t n = 0;

	for (int32_t i = 1; i <= (int32_t)BATCH; i++) {
		bool last = !one_base || i == (int32_t)BATCH;
		int32_t count = one_base ? i : 1;

		if (managed_recv)
			n = add(n, IBV_EXP_WR_RECV_ENABLE, 1, true);
		if (args.host)
			n = add(n, IBV_EXP_WR_SEND_ENABLE, 1, true);
		n = add(n, IBV_EXP_WR_CQE_WAIT, count, last);
		if (!args.host)
			n = add(n, IBV_EXP_WR_SEND_ENABLE, 1, true);
	}
	sync_wr[n - 1].next = NULL;
	sync_wr[n - 1].wr_id = 5;
	sync_wr[n - 1].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
}

static void run_batch(bool first)
{
	struct ibv_exp_task task[3], *bad = NULL;
	struct ibv_wc wc;

	make_messages(first);
	make_syncs();
	memset(task, 0, sizeof(task));
	task[0].task_type = IBV_EXP_TASK_RECV;
	task[0].item.qp = qp;
	task[0].item.recv_wr = recv_wr;
	task[0].next = &task[1];
	task[1].task_type = IBV_EXP_TASK_SEND;
	task[1].item.qp = qp;
	task[1].item.send_wr = send_wr;
	task[1].next = &task[2];
	task[2].task_type = IBV_EXP_TASK_SEND;
	task[2].item.qp = mq;
	task[2].item.send_wr = sync_wr;
	send_wr[BATCH - 1].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	send_wr[BATCH - 1].wr_id = 6;
	must(ibv_exp_post_task(dev.ctx, task, &bad), "post_task");
	/* The last request of either queue, in either order */
	for (uint64_t seen = 0; seen != 5 + 6; seen += wc.wr_id)
		vt_poll_ok(done, &wc);
}

static void check(void)
{
	uint8_t *got = mr->addr;
	uint64_t sum = (uint64_t)args.n * 2;

	if (!calc) {
		VT_TRUE(vt_check(got, SIZE, 77));
		return;
	}
	/* The server's message is the last one. */
	if (!args.host)
		sum--;
	if (be64toh(operand(0)->value_be) != sum)
		VT_FAIL("%llu, not %llu",
			(unsigned long long)be64toh(operand(0)->value_be),
			(unsigned long long)sum);
}

static void destroy(void)
{
	vt_barrier(fd);
	must(ibv_destroy_qp(mq), "QP");
	must(ibv_destroy_qp(qp), "QP");
	must(ibv_destroy_cq(arrived), "CQ");
	must(ibv_destroy_cq(done), "CQ");
	must(ibv_dereg_mr(mr), "MR");
	vt_dev_close(&dev);
}

int main(int argc, char **argv)
{
	vt_args(&args, argc, argv);
	calc = !strcmp(args.mode, "calc");
	managed_recv = !strcmp(args.mode, "recv");
	one_base = !strcmp(args.mode, "one");
	over = !strcmp(args.mode, "over");
	VT_TRUE(calc || managed_recv || one_base || over ||
		!strcmp(args.mode, "plain"));
	VT_TRUE(args.n % BATCH == 0);
	vt_dev_open(&dev, args.gid_index);
	check_device();
	create_cqs();
	mr = vt_mr(&dev, 3 * SIZE);
	qp = create_qp(arrived,
		       CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND |
			       (managed_recv ? IBV_EXP_QP_CREATE_MANAGED_RECV
					     : 0));
	mq = create_qp(done, CROSS);
	if (over)
		post_in_reset();
	fd = vt_connect(args.host, args.port);
	connect_all();
	operand(1)->value_be = htobe64(1);
	if (args.host && !calc)
		vt_fill((uint8_t *)operand(2), SIZE, 77);
	for (long i = 0; i < args.n; i += BATCH) {
		vt_barrier(fd);
		run_batch(i == 0);
	}
	check();
	destroy();
	printf("%ld rounds\n", args.n);
	return 0;
}
