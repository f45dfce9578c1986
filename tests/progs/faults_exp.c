/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * -M CASE: a fault of DC, between an initiator of this process and a target of it, or
 * a request that the experimental verbs and the builders do not accept.  Prints
 * "qpn NUMBER" of the queue pair that shows it, and "target NUMBER" if a target of
 * DC does as well.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vt.h"

#define SIZE  8192u
#define DEPTH 4u
#define KEY   0x0123456789abcdefull
#define ALL                                                                    \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* What the initiator has to know. */
struct card {
	uint32_t dctn;
	uint32_t rkey;
	uint64_t addr;
};

static struct vt_args args = { .gid_index = -1 };
static struct vt_dev dev;
static struct ibv_cq *cq;
static struct ibv_cq *target_cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;	/* of the requests */
static struct ibv_mr *area;	/* of the target */
static struct ibv_exp_dct *dct; /* NULL: none that shows the fault */
static struct ibv_qp *qp;
static struct card to;

/* How both are made. */
static struct {
	unsigned int access;
	enum ibv_mtu mtu; /* of the target */
	uint8_t timeout;
} how = { .access = ALL, .mtu = IBV_MTU_1024, .timeout = 12 };

static void open_all(void)
{
	struct ibv_srq_init_attr init = { .attr = { DEPTH, 1, 0 } };

	vt_dev_open(&dev, args.gid_index);
	cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	srq = ibv_create_srq(dev.pd, &init);
	target_cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	VT_TRUE(cq && target_cq && srq);
	mr = vt_mr(&dev, SIZE);
}

static void make_target(void)
{
	struct ibv_exp_dct_init_attr attr = {
		.pd = dev.pd,
		.cq = target_cq,
		.srq = srq,
		.dc_key = KEY,
		.port = 1,
		.access_flags = how.access,
		.min_rnr_timer = 1,
		.mtu = how.mtu,
		.gid_index = (uint8_t)dev.gid_index,
	};

	area = vt_mr(&dev, SIZE);
	dct = ibv_exp_create_dct(dev.ctx, &attr);
	VT_TRUE(dct);
	to = (struct card){ dct->dct_num, area->rkey, (uintptr_t)area->addr };
}

static void make_initiator(void)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 1 },
		.qp_type = IBV_EXP_QPT_DC_INI,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD,
		.pd = dev.pd,
	};
	struct ibv_exp_qp_attr a = { .qp_state = IBV_QPS_INIT,
				     .port_num = 1,
				     .dct_key = KEY };

	qp = ibv_exp_create_qp(dev.ctx, &init);
	VT_TRUE(qp);
	VT_TRUE(!ibv_exp_modify_qp(qp, &a,
				   IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
					   IBV_EXP_QP_PORT |
					   IBV_EXP_QP_DC_KEY));
}

static void to_rts(void)
{
	struct ibv_exp_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = dev.gid,
				      .sgid_index = (uint8_t)dev.gid_index } },
		.timeout = how.timeout,
		.retry_cnt = 2,
		.rnr_retry = 1,
		.max_rd_atomic = 4,
	};

	VT_TRUE(!ibv_exp_modify_qp(qp, &a,
				   IBV_EXP_QP_STATE | IBV_EXP_QP_AV |
					   IBV_EXP_QP_PATH_MTU));
	a.qp_state = IBV_QPS_RTS;
	VT_TRUE(!ibv_exp_modify_qp(
		qp, &a,
		IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT |
			IBV_EXP_QP_RNR_RETRY | IBV_EXP_QP_MAX_QP_RD_ATOMIC));
}

static struct ibv_ah *ah_to(union ibv_gid gid)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = gid,
			 .sgid_index = (uint8_t)dev.gid_index,
			 .hop_limit = 64 },
	};
	struct ibv_ah *ah = ibv_create_ah(dev.pd, &attr);

	VT_TRUE(ah);
	return ah;
}

static int post(enum ibv_exp_wr_opcode op, struct ibv_ah *ah, uint64_t key)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 64, mr->lkey };
	struct ibv_exp_send_wr *bad, wr;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = 7;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.exp_opcode = op;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = to.addr;
	wr.wr.rdma.rkey = to.rkey;
	wr.dc.ah = ah;
	wr.dc.dct_number = to.dctn;
	wr.dc.dct_access_key = key;
	return ibv_exp_post_send(qp, &wr, &bad);
}

static void ends(enum ibv_exp_wr_opcode op, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	VT_TRUE(!post(op, ah_to(dev.gid), KEY));
	vt_poll(cq, &wc);
	if (wc.status != status)
		VT_FAIL("%s", ibv_wc_status_str(wc.status));
}

static void join(void)
{
	open_all();
	make_target();
	make_initiator();
	to_rts();
}

#define WRITE	 IBV_EXP_WR_RDMA_WRITE
#define SEND	 IBV_EXP_WR_SEND
#define TIMEDOUT IBV_WC_RETRY_EXC_ERR

static void receive(uint32_t lkey, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)area->addr, length, lkey };
	struct ibv_recv_wr *bad,
		wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1 };

	VT_TRUE(!ibv_post_srq_recv(srq, &wr, &bad));
}

/* --- what a target refuses --- */

static void access_key(void)
{
	struct ibv_wc wc;

	join();
	VT_TRUE(!post(WRITE, ah_to(dev.gid), KEY ^ 1));
	vt_poll(cq, &wc);
	VT_TRUE(wc.status == IBV_WC_REM_ACCESS_ERR);
}

static void mtu(void)
{
	how.mtu = IBV_MTU_512;
	join();
	ends(WRITE, IBV_WC_REM_INV_REQ_ERR);
}

static void deregistered(void)
{
	join();
	ends(WRITE, IBV_WC_SUCCESS);
	VT_TRUE(!ibv_dereg_mr(area));
	ends(WRITE, IBV_WC_REM_ACCESS_ERR);
}

/* A later fault of another initiator is not the one of the first. */
static void two_initiators(void)
{
	struct ibv_qp *first;

	join();
	to.addr += SIZE - 8;
	ends(WRITE, IBV_WC_REM_ACCESS_ERR);
	first = qp;
	to.addr -= SIZE - 8;
	make_initiator();
	to_rts();
	VT_TRUE(!ibv_dereg_mr(area));
	ends(WRITE, IBV_WC_REM_ACCESS_ERR);
	qp = first;
	dct = NULL;
}

static void no_right(void)
{
	how.access = IBV_ACCESS_REMOTE_READ;
	join();
	ends(WRITE, IBV_WC_REM_INV_REQ_ERR);
}

static void too_short(void)
{
	join();
	receive(area->lkey, 16);
	ends(SEND, IBV_WC_REM_INV_REQ_ERR);
}

static void receive_key(void)
{
	uint32_t key;

	join();
	key = area->lkey;
	VT_TRUE(!ibv_dereg_mr(area));
	receive(key, SIZE);
	ends(SEND, IBV_WC_REM_OP_ERR);
}

static void empty_srq(void)
{
	join();
	ends(SEND, IBV_WC_RNR_RETRY_EXC_ERR);
	dct = NULL;
}

/* --- no answer --- */

static void destroyed(void)
{
	join();
	VT_TRUE(!ibv_exp_destroy_dct(dct));
	dct = NULL;
	ends(WRITE, TIMEDOUT);
}

/* The number is that of an RC queue pair. */
static void no_target(void)
{
	join();
	to.dctn = vt_qp_create(&dev, cq, cq, DEPTH)->qp_num;
	dct = NULL;
	ends(WRITE, TIMEDOUT);
}

/* Of TEST-NET-3 (RFC 5737): no host has it. */
static void unanswered(void)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, 0xff, 203, 0, 113, 77 } };
	struct ibv_wc wc;

	join();
	dct = NULL;
	ends(WRITE, IBV_WC_SUCCESS);
	VT_TRUE(!post(WRITE, ah_to(gid), KEY));
	vt_poll(cq, &wc);
	VT_TRUE(wc.status == TIMEDOUT);
}

static void serve(int fd)
{
	struct ibv_wc wc;

	open_all();
	make_target();
	VT_TRUE(write(fd, &to, sizeof(to)) == (ssize_t)sizeof(to));
	for (;;)
		VT_TRUE(ibv_poll_cq(target_cq, 1, &wc) == 0);
}

/* The target's process is stopped: it is there, and right. */
static void stopped(void)
{
	int fd[2], status;
	pid_t pid;

	VT_TRUE(!pipe(fd));
	pid = fork();
	VT_TRUE(pid >= 0);
	if (!pid)
		serve(fd[1]);
	open_all();
	make_initiator();
	to_rts();
	VT_TRUE(read(fd[0], &to, sizeof(to)) == (ssize_t)sizeof(to));
	VT_TRUE(!kill(pid, SIGSTOP));
	VT_TRUE(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	ends(WRITE, TIMEDOUT);
	VT_TRUE(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
}

/* --- requests that are not accepted --- */

static void exp_full(void)
{
	int err = 0;

	/* The explanation of a timeout would come first. */
	how.timeout = 0;
	join();
	dct = NULL;
	to.dctn += 99;
	for (struct ibv_ah *ah = ah_to(dev.gid); !err;)
		err = post(WRITE, ah, KEY);
	VT_TRUE(err == ENOMEM);
}

static void exp_state(void)
{
	open_all();
	make_initiator();
	VT_TRUE(post(WRITE, ah_to(dev.gid), KEY) == EINVAL);
}

static void exp_invalid(void)
{
	join();
	dct = NULL;
	VT_TRUE(post(WRITE, NULL, KEY) == EINVAL);
}

static void post_task(enum ibv_exp_task_type type, int err)
{
	struct ibv_exp_send_wr send;
	struct ibv_recv_wr receives[DEPTH + 1];
	struct ibv_exp_task task, *bad;

	memset(&task, 0, sizeof(task));
	memset(&send, 0, sizeof(send));
	memset(receives, 0, sizeof(receives));
	for (uint32_t i = 0; i < DEPTH; i++)
		receives[i].next = &receives[i + 1];
	task.item.qp = qp;
	task.task_type = type;
	if (type == IBV_EXP_TASK_SEND)
		task.item.send_wr = &send;
	else
		task.item.recv_wr = receives;
	VT_TRUE(ibv_exp_post_task(dev.ctx, &task, &bad) == err);
}

static void rc_in_init(void)
{
	open_all();
	qp = vt_qp_create(&dev, cq, cq, DEPTH);
	vt_qp_init(qp);
}

static void task_full(void)
{
	rc_in_init();
	post_task(IBV_EXP_TASK_RECV, ENOMEM);
}

static void task_state(void)
{
	rc_in_init();
	post_task(IBV_EXP_TASK_SEND, EINVAL);
}

static void builder_state(void)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.cap = { DEPTH, DEPTH, 1, 1, 0 },
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp_ex *ex;

	open_all();
	init.pd = dev.pd;
	init.send_cq = cq;
	init.recv_cq = cq;
	qp = ibv_create_qp_ex(dev.ctx, &init);
	VT_TRUE(qp);
	vt_qp_init(qp);
	ex = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	ex->wr_id = 7;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)mr->addr, 64);
	VT_TRUE(ibv_wr_complete(ex) == EINVAL);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "access-key", access_key },	  { "mtu", mtu },
	{ "deregistered", deregistered }, { "two-initiators", two_initiators },
	{ "no-right", no_right },	  { "too-short", too_short },
	{ "receive-key", receive_key },	  { "empty-srq", empty_srq },
	{ "destroyed", destroyed },	  { "no-target", no_target },
	{ "unanswered", unanswered },	  { "stopped", stopped },
	{ "exp-full", exp_full },	  { "exp-state", exp_state },
	{ "exp-invalid", exp_invalid },	  { "task-full", task_full },
	{ "task-state", task_state },	  { "builder-state", builder_state },
};

int main(int argc, char **argv)
{
	vt_args(&args, argc, argv);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(args.mode, cases[i].name) != 0)
			continue;
		cases[i].run();
		printf("qpn %u\n", qp->qp_num);
		if (dct)
			printf("target %u\n", dct->dct_num);
		return 0;
	}
	return 1;
}
