/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cross-channel requests between queue pairs of this process.
 *
 *	-M chain	hops from queue pair to queue pair, polled (-n)
 *	-M uc		the same with UC
 *	-M events	the same while the program sleeps
 *	-M errors	what fails, and what a failure flushes
 *	-M threads	tasks of two threads on the same queues (-n)
 *
 * With URNIC_LANES the hops go from lane to lane.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

#define HOPS	8u
#define DEPTH	64
#define CROSS	IBV_EXP_QP_CREATE_CROSS_CHANNEL
#define MANAGED (CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND)
#define LAST	IBV_EXP_SEND_WAIT_EN_LAST

static struct vt_dev dev;
static struct vt_args args = {
	.gid_index = -1, .n = 1000, .timeout = 14, .retry = 7, .mode = "chain"
};
static struct ibv_mr *mr;

/* a sends to b; b's receives complete on `arrived`, all else on `rest`. */
struct pair {
	struct ibv_qp *a, *b;
	struct ibv_cq *arrived;
};

static struct ibv_cq *rest;
static enum ibv_qp_type type = IBV_QPT_RC;

static struct ibv_qp *make_qp(struct ibv_cq *rcq, uint32_t flags)
{
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = rest,
		.recv_cq = rcq,
		.cap = { DEPTH, DEPTH, 2, 1, 0 },
		.qp_type = type,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = dev.pd,
		.exp_create_flags = flags,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(dev.ctx, &attr);

	VT_TRUE(qp);
	return qp;
}

static struct ibv_cq *make_cq(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, DEPTH, NULL, channel, 0);

	VT_TRUE(cq);
	return cq;
}

static void connect_uc(struct ibv_qp *qp, const struct vt_addr *to)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = to->mtu,
		.dest_qp_num = to->qpn,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = to->gid,
				      .sgid_index = (uint8_t)dev.gid_index,
				      .hop_limit = 64 } },
	};

	VT_TRUE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) == 0);
	attr.qp_state = IBV_QPS_RTS;
	VT_TRUE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

static void init_uc(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	VT_TRUE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS) == 0);
}

static void connect_pair(const struct pair *p)
{
	struct vt_addr a, b;

	vt_qp_addr(&dev, p->a, &a);
	vt_qp_addr(&dev, p->b, &b);
	if (type == IBV_QPT_UC) {
		init_uc(p->a);
		init_uc(p->b);
		connect_uc(p->a, &b);
		connect_uc(p->b, &a);
		return;
	}
	vt_qp_init(p->a);
	vt_qp_init(p->b);
	vt_qp_connect(&dev, p->a, &a, &b, &args);
	vt_qp_connect(&dev, p->b, &b, &a, &args);
}

static struct pair make_pair(uint32_t a_flags, uint32_t b_flags,
			     struct ibv_comp_channel *channel)
{
	struct pair p = { .arrived = make_cq(channel) };

	p.a = make_qp(rest, a_flags);
	p.b = make_qp(p.arrived, b_flags);
	connect_pair(&p);
	return p;
}

static void end_pair(const struct pair *p)
{
	VT_TRUE(ibv_destroy_qp(p->a) == 0);
	VT_TRUE(ibv_destroy_qp(p->b) == 0);
	VT_TRUE(ibv_destroy_cq(p->arrived) == 0);
}

static struct ibv_exp_send_wr wait_for(struct ibv_cq *cq)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_CQE_WAIT;
	wr.exp_send_flags = LAST;
	wr.task.cqe_wait.cq = cq;
	wr.task.cqe_wait.cq_count = 1;
	return wr;
}

static struct ibv_exp_send_wr enable(enum ibv_exp_wr_opcode opcode,
				     struct ibv_qp *qp, int32_t count)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = opcode;
	wr.exp_send_flags = LAST;
	wr.task.wqe_enable.qp = qp;
	wr.task.wqe_enable.wqe_count = count;
	return wr;
}

static struct ibv_exp_send_wr message(void)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_SEND;
	return wr;
}

static void post(struct ibv_qp *qp, struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad;
	int rc = ibv_exp_post_send(qp, &wr, &bad);

	if (rc)
		VT_FAIL("opcode %#x: %s", wr.exp_opcode, strerror(rc));
}

static void post_recv(struct ibv_qp *qp)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;

	VT_TRUE(ibv_post_recv(qp, &wr, &bad) == 0);
}

static void sleep_on(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct ibv_cq *which;
	void *context;

	VT_TRUE(ibv_get_cq_event(channel, &which, &context) == 0);
	VT_TRUE(which == cq);
	ibv_ack_cq_events(cq, 1);
}

/*
 * Hop i: a wait for the message of hop i - 1 on the queue pair of hop i, which
 * then enables the managed queue pair of hop i.  The message of hop 0 starts
 * it.  Receives stay unpolled but the last hop's.
 */
static void run_chain(bool sleeps)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(dev.ctx);
	struct pair hop[HOPS], master[HOPS];
	struct ibv_wc wc;

	for (unsigned int i = 0; i < HOPS; i++) {
		bool last = i == HOPS - 1;
		struct ibv_exp_cq_attr attr = {
			.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
			.cq_cap_flags = last ? 0 : IBV_EXP_CQ_IGNORE_OVERRUN,
		};

		hop[i] = make_pair(i ? MANAGED : 0, 0, last ? channel : NULL);
		master[i] = make_pair(CROSS, 0, NULL);
		VT_TRUE(ibv_exp_modify_cq(hop[i].arrived, &attr,
					  IBV_EXP_CQ_CAP_FLAGS) == 0);
	}
	for (long n = 0; n < args.n; n++) {
		for (unsigned int i = 0; i < HOPS; i++)
			post_recv(hop[i].b);
		if (sleeps)
			VT_TRUE(ibv_req_notify_cq(hop[HOPS - 1].arrived, 0) ==
				0);
		for (unsigned int i = 1; i < HOPS; i++) {
			post(hop[i].a, message());
			post(master[i].a, wait_for(hop[i - 1].arrived));
			post(master[i].a,
			     enable(IBV_EXP_WR_SEND_ENABLE, hop[i].a, 1));
		}
		post(hop[0].a, message());
		if (sleeps)
			sleep_on(channel, hop[HOPS - 1].arrived);
		vt_poll_ok(hop[HOPS - 1].arrived, &wc);
		VT_TRUE(ibv_poll_cq(hop[HOPS - 1].arrived, 1, &wc) == 0);
	}
	for (unsigned int i = 0; i < HOPS; i++)
		end_pair(&master[i]);
	for (unsigned int i = 0; i < HOPS; i++)
		end_pair(&hop[i]);
	VT_TRUE(ibv_destroy_comp_channel(channel) == 0);
}

static void run_uc(void)
{
	type = IBV_QPT_UC;
	run_chain(false);
}

static void expect(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	vt_poll(rest, &wc);
	if (wc.wr_id != wr_id || wc.status != status)
		VT_FAIL("completion of %lu, %s, not of %lu, %s", wc.wr_id,
			ibv_wc_status_str(wc.status), wr_id,
			ibv_wc_status_str(status));
}

static void post_as(struct ibv_qp *qp, struct ibv_exp_send_wr wr, uint64_t id)
{
	wr.wr_id = id;
	wr.exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	post(qp, wr);
}

/* A SEND finds no enabled receive: RNR, until it is enabled. */
static void enabled_receives(void)
{
	struct pair p = make_pair(CROSS, IBV_EXP_QP_CREATE_MANAGED_RECV, NULL);
	struct ibv_wc wc;

	post_recv(p.b);
	post_recv(p.b);
	post_as(p.a, message(), 1);
	for (int i = 0; i < 20; i++) {
		usleep(1000);
		VT_TRUE(ibv_poll_cq(rest, 1, &wc) == 0);
		VT_TRUE(ibv_poll_cq(p.arrived, 1, &wc) == 0);
	}
	/* Behind the message, and yet executed before it is complete. */
	post_as(p.a, enable(IBV_EXP_WR_RECV_ENABLE, p.b, 1), 2);
	vt_poll_ok(p.arrived, &wc);
	expect(1, IBV_WC_SUCCESS);
	expect(2, IBV_WC_SUCCESS);
	end_pair(&p);
}

/* Enabling a queue pair that is gone fails, and flushes what follows. */
static void enabling_fails(void)
{
	struct pair p = make_pair(CROSS, 0, NULL), q = make_pair(MANAGED, 0, 0);

	post(q.a, message());
	post_as(p.a, wait_for(p.arrived), 1);
	post_as(p.a, enable(IBV_EXP_WR_SEND_ENABLE, q.a, 1), 2);
	post_as(p.a, message(), 3);
	VT_TRUE(ibv_destroy_cq(p.arrived) == EBUSY);
	end_pair(&q);
	post_recv(p.b);
	/* A flushed receive is a completion too. */
	VT_TRUE(ibv_modify_qp(p.b,
			      &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR },
			      IBV_QP_STATE) == 0);
	expect(1, IBV_WC_SUCCESS);
	expect(2, IBV_WC_LOC_QP_OP_ERR);
	expect(3, IBV_WC_WR_FLUSH_ERR);
	end_pair(&p);
}

static void reset_pair(const struct pair *p)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	VT_TRUE(ibv_modify_qp(p->a, &attr, IBV_QP_STATE) == 0);
	VT_TRUE(ibv_modify_qp(p->b, &attr, IBV_QP_STATE) == 0);
	connect_pair(p);
}

/* A queue pair with a wait that goes to ERR, and is used again. */
static void waits_are_flushed(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct pair p = make_pair(CROSS, 0, NULL);
	struct ibv_wc wc;

	post_as(p.a, wait_for(p.arrived), 1);
	post_as(p.a, message(), 2);
	VT_TRUE(ibv_modify_qp(p.a, &attr, IBV_QP_STATE) == 0);
	post_as(p.a, wait_for(p.arrived), 3);
	for (uint64_t i = 1; i <= 3; i++)
		expect(i, IBV_WC_WR_FLUSH_ERR);
	reset_pair(&p);
	/* The waits that were flushed have moved the base of the queue. */
	for (int i = 0; i < 2; i++) {
		post_recv(p.b);
		post_as(p.a, message(), 4);
		vt_poll_ok(p.arrived, &wc);
		expect(4, IBV_WC_SUCCESS);
	}
	post_as(p.a, wait_for(p.arrived), 5);
	post_as(p.a, message(), 6);
	VT_TRUE(ibv_poll_cq(rest, 1, &wc) == 0);
	reset_pair(&p);
	VT_TRUE(ibv_poll_cq(rest, 1, &wc) == 0);
	end_pair(&p);
}

/* An operand without a key fails when its turn comes. */
static void bad_operands(void)
{
	struct pair p = make_pair(CROSS, 0, NULL);
	struct ibv_sge sge[2] = {
		{ (uintptr_t)mr->addr, 16, mr->lkey },
		{ (uintptr_t)mr->addr, 16, mr->lkey ^ 1 },
	};
	struct ibv_exp_send_wr wr = message();
	struct ibv_wc wc;

	wr.sg_list = sge;
	wr.exp_send_flags = IBV_EXP_SEND_WITH_CALC;
	wr.num_sge = 1;
	post_recv(p.b); /* has no element: too short */
	post_recv(p.b);
	post_as(p.a, message(), 1);
	wr.num_sge = 2;
	post_as(p.a, wr, 2);
	expect(1, IBV_WC_SUCCESS);
	expect(2, IBV_WC_LOC_PROT_ERR);
	vt_poll_ok(p.arrived, &wc);
	end_pair(&p);
}

static void run_errors(void)
{
	enabled_receives();
	enabling_fails();
	waits_are_flushed();
	bad_operands();
}

/* ---- threads ---- */

static struct pair shared[2];

/* Its tasks name the same two queue pairs in one order or the other. */
static void *post_tasks(void *arg)
{
	unsigned int first = arg != NULL;
	struct ibv_exp_send_wr wr[2] = { message(), message() };
	struct ibv_exp_task t[2], *bad;

	for (int i = 0; i < 2; i++) {
		memset(&t[i], 0, sizeof(t[i]));
		t[i].task_type = IBV_EXP_TASK_SEND;
		t[i].item.qp = shared[(first + (unsigned int)i) % 2].a;
		t[i].item.send_wr = &wr[i];
		wr[i].exp_send_flags = IBV_EXP_SEND_SIGNALED;
	}
	t[0].next = &t[1];
	for (long n = 0; n < args.n; n++) {
		int rc;

		while ((rc = ibv_exp_post_task(dev.ctx, t, &bad)) == ENOMEM)
			sched_yield();
		VT_TRUE(rc == 0);
	}
	return NULL;
}

static void run_threads(void)
{
	long sent = 0, got = 0;
	pthread_t thread[2];
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++) {
		shared[i] = make_pair(CROSS, 0, NULL);
		for (int k = 0; k < DEPTH / 2; k++)
			post_recv(shared[i].b);
	}
	for (int i = 0; i < 2; i++)
		VT_TRUE(pthread_create(&thread[i], NULL, post_tasks,
				       i ? &thread : NULL) == 0);
	while (sent < 4 * args.n || got < 4 * args.n) {
		if (ibv_poll_cq(rest, 1, &wc) == 1) {
			VT_TRUE(wc.status == IBV_WC_SUCCESS);
			sent++;
		}
		for (int i = 0; i < 2; i++) {
			if (ibv_poll_cq(shared[i].arrived, 1, &wc) != 1)
				continue;
			VT_TRUE(wc.status == IBV_WC_SUCCESS);
			post_recv(shared[i].b);
			got++;
		}
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		end_pair(&shared[i]);
	}
}

int main(int argc, char **argv)
{
	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	mr = vt_mr(&dev, 4096);
	rest = ibv_create_cq(dev.ctx, 1024, NULL, NULL, 0);
	VT_TRUE(rest);
	if (!strcmp(args.mode, "chain"))
		run_chain(false);
	else if (!strcmp(args.mode, "uc"))
		run_uc();
	else if (!strcmp(args.mode, "events"))
		run_chain(true);
	else if (!strcmp(args.mode, "errors"))
		run_errors();
	else if (!strcmp(args.mode, "threads"))
		run_threads();
	else
		VT_FAIL("%s", args.mode);
	VT_TRUE(ibv_destroy_cq(rest) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	vt_dev_close(&dev);
	puts("cross-channel requests work");
	return 0;
}
