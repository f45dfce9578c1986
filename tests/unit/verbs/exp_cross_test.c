/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting cross-channel requests and tasks. */
#include "setup.h"

#include <infiniband/verbs_exp.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/cross.h"
#include "verbs/objects.h"

#define CROSS	IBV_EXP_QP_CREATE_CROSS_CHANNEL
#define MANAGED (CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND)
#define RECEIVE IBV_EXP_QP_CREATE_MANAGED_RECV
#define LAST	IBV_EXP_SEND_WAIT_EN_LAST

static struct ibv_qp *make_of(struct fixture *f, enum ibv_qp_type type,
			      uint32_t flags)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 8, 4, 4, 1, 64 },
		.qp_type = type,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = f->pd,
		.exp_create_flags = flags,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(f->ctx, &a);

	if (qp)
		to_rts(qp);
	return qp;
}

static struct ibv_qp *make(struct fixture *f, uint32_t flags)
{
	struct ibv_qp *qp = make_of(f, IBV_QPT_RC, flags);

	assert_non_null(qp);
	return qp;
}

static int post(struct ibv_qp *qp, struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad = NULL;
	int rc = ibv_exp_post_send(qp, &wr, &bad);

	assert_ptr_equal(bad, rc ? &wr : NULL);
	return rc;
}

static struct ibv_exp_send_wr wait_for(struct ibv_cq *cq, int32_t count,
				       uint64_t flags)
{
	struct ibv_exp_send_wr wr = { .exp_opcode = IBV_EXP_WR_CQE_WAIT,
				      .exp_send_flags = flags };

	wr.task.cqe_wait.cq = cq;
	wr.task.cqe_wait.cq_count = count;
	return wr;
}

static struct ibv_exp_send_wr enable(enum ibv_exp_wr_opcode opcode,
				     struct ibv_qp *qp, int32_t count,
				     uint64_t flags)
{
	struct ibv_exp_send_wr wr = { .exp_opcode = opcode,
				      .exp_send_flags = flags };

	wr.task.wqe_enable.qp = qp;
	wr.task.wqe_enable.wqe_count = count;
	return wr;
}

static struct ibv_exp_send_wr message(struct ibv_sge *sge)
{
	return (struct ibv_exp_send_wr){ .exp_opcode = IBV_EXP_WR_SEND,
					 .sg_list = sge,
					 .num_sge = sge != NULL };
}

/* The newest posted request */
static struct ur_swqe *newest(struct ibv_qp *qp)
{
	struct ur_sq *sq = &core_qp(qp)->sq;

	return ur_sq_slot(sq, ur_sq_posted(sq) - 1);
}

static uint32_t posted(struct ibv_qp *qp)
{
	return ur_sq_posted(&core_qp(qp)->sq);
}

static void flags_of_queue_pairs(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		uint32_t flags;
		int err;
	} rows[] = {
		{ IBV_QPT_RC, CROSS, 0 },
		{ IBV_QPT_RC, MANAGED | RECEIVE, 0 },
		{ IBV_QPT_RC, IBV_EXP_QP_CREATE_MANAGED_SEND, 0 },
		{ IBV_QPT_UC, MANAGED | RECEIVE, 0 },
		{ IBV_QPT_XRC_SEND, MANAGED, 0 },
		{ IBV_QPT_XRC_SEND, RECEIVE, EINVAL },
		{ IBV_QPT_UD, CROSS, EOPNOTSUPP },
		{ IBV_QPT_RC, CROSS | IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp *qp;

		errno = 0;
		qp = make_of(*state, rows[i].type, rows[i].flags);
		assert_int_equal(qp != NULL, !rows[i].err);
		assert_int_equal(errno, rows[i].err);
		if (qp)
			assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

static uint32_t posted_receives(struct ibv_qp *qp)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	uint32_t n = 0;
	int rc;

	while (!(rc = ibv_post_recv(qp, &wr, &bad)))
		n++;
	assert_int_equal(rc, ENOMEM);
	return n;
}

/* Programs whose queues may overflow post a whole queue again before it is empty, and
 * the first receives in RESET. */
static void queues_that_may_overflow(void **state)
{
	static const struct {
		uint32_t asked, at_least;
	} rows[] = { { 100, 200 },
		     { UR_MAX_WR / 2, UR_MAX_WR },
		     { UR_MAX_WR / 2 + 1, UR_MAX_WR },
		     { UR_MAX_WR, UR_MAX_WR } };
	struct fixture *f = *state;
	struct ibv_exp_qp_init_attr a = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = f->pd,
		.exp_create_flags = CROSS |
				    IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW |
				    IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW,
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp *qp;

		a.cap = (struct ibv_qp_cap){ rows[i].asked, rows[i].asked, 1, 1,
					     0 };
		qp = ibv_exp_create_qp(f->ctx, &a);
		assert_non_null(qp);
		assert_true(a.cap.max_send_wr >= rows[i].at_least);
		assert_true(a.cap.max_recv_wr >= rows[i].at_least);
		assert_true(posted_receives(qp) >= rows[i].at_least);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
	a.cap.max_recv_wr = UR_MAX_WR + 1;
	assert_null(ibv_exp_create_qp(f->ctx, &a));
	assert_int_equal(errno, EINVAL);
}

static void completion_queues(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_cq_init_attr init = {
		.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
		.flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL,
	};
	struct ibv_cq *cq = ibv_exp_create_cq(f->ctx, 4, NULL, NULL, 0, &init);
	struct ibv_qp *qp = make(f, CROSS);

	assert_non_null(cq);
	assert_int_equal(post(qp, wait_for(cq, 1, 0)), 0);
	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* Several count from one base; the last one moves it by the largest count. */
static void waits_count_as_mlx5_does(void **state)
{
	static const struct {
		int32_t count;
		uint64_t flags;
		uint32_t until;
	} rows[] = { { 3, 0, 3 },    { 1, 0, 1 },    { 2, LAST, 2 },
		     { 1, 0, 4 },    { 0, LAST, 3 }, { 5, LAST, 9 },
		     { 1, LAST, 10 } };
	struct fixture *f = *state;
	struct ibv_qp *qp = make(f, CROSS);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(
			post(qp, wait_for(f->cq, rows[i].count, rows[i].flags)),
			0);
		assert_int_equal(newest(qp)->opcode, UR_CROSS_WAIT);
		assert_ptr_equal(newest(qp)->wr.wait.cq, core_cq(f->cq));
		assert_int_equal(newest(qp)->wr.wait.until, rows[i].until);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void counts_wrap(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make(f, CROSS), *of = make(f, MANAGED);
	struct ur_sq *sq = &core_qp(of)->sq;

	urv_cq(f->cq)->waits.base = UINT32_MAX;
	assert_int_equal(post(qp, wait_for(f->cq, 3, LAST)), 0);
	assert_int_equal(newest(qp)->wr.wait.until, UINT32_MAX + 3ull);
	sq->posted = UINT32_MAX;
	sq->staged = UINT32_MAX;
	sq->head = UINT32_MAX;
	core_qp(of)->cross->next = UINT32_MAX;
	urv_qp(of)->sends.base = UINT32_MAX;
	assert_int_equal(post(of, message(NULL)), 0);
	assert_int_equal(post(of, message(NULL)), 0);
	assert_int_equal(post(qp, enable(IBV_EXP_WR_SEND_ENABLE, of, 3, LAST)),
			 EINVAL);
	assert_int_equal(post(qp, enable(IBV_EXP_WR_SEND_ENABLE, of, 2, LAST)),
			 0);
	assert_int_equal(newest(qp)->wr.enable.until, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(of), 0);
}

static void post_receives(struct ibv_qp *qp, int n)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;

	while (n--)
		assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

static void check_enabling(struct fixture *f, enum ibv_exp_wr_opcode opcode)
{
	bool sends = opcode == IBV_EXP_WR_SEND_ENABLE;
	struct ibv_qp *qp = make(f, CROSS);
	struct ibv_qp *of = make(f, sends ? MANAGED : CROSS | RECEIVE);

	assert_int_equal(post(qp, enable(opcode, of, 1, 0)), EINVAL);
	for (int i = 0; i < 3 && sends; i++)
		assert_int_equal(post(of, message(NULL)), 0);
	if (!sends)
		post_receives(of, 3);
	assert_int_equal(post(qp, enable(opcode, of, 1, 0)), 0);
	assert_int_equal(newest(qp)->wr.enable.until, 1);
	assert_int_equal(post(qp, enable(opcode, of, 2, LAST)), 0);
	assert_int_equal(newest(qp)->wr.enable.until, 2);
	assert_int_equal(post(qp, enable(opcode, of, 2, LAST)), EINVAL);
	assert_int_equal(post(qp, enable(opcode, of, 0, LAST)), 0); /* all */
	assert_int_equal(newest(qp)->wr.enable.until, 3);
	assert_ptr_equal(newest(qp)->wr.enable.of, core_qp(of)->cross);
	assert_int_equal(post(qp, enable(opcode, of, 1, LAST)), EINVAL);
	assert_int_equal(ibv_destroy_qp(of), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void enabling_counts_too(void **state)
{
	check_enabling(*state, IBV_EXP_WR_SEND_ENABLE);
	check_enabling(*state, IBV_EXP_WR_RECV_ENABLE);
}

static void reset_counts_anew(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make(f, CROSS), *of = make(f, MANAGED | RECEIVE);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	for (int i = 0; i < 3; i++)
		assert_int_equal(post(of, message(NULL)), 0);
	post_receives(of, 2);
	assert_int_equal(ibv_modify_qp(of, &attr, IBV_QP_STATE), 0);
	to_rts(of);
	assert_int_equal(post(of, message(NULL)), 0);
	post_receives(of, 1);
	assert_int_equal(post(qp, enable(IBV_EXP_WR_SEND_ENABLE, of, 1, 0)), 0);
	assert_int_equal(newest(qp)->wr.enable.until, 4);
	assert_int_equal(post(qp, enable(IBV_EXP_WR_RECV_ENABLE, of, 1, 0)), 0);
	assert_int_equal(newest(qp)->wr.enable.until, 3);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(of), 0);
}

static void what_cannot_be_posted(void **state)
{
	struct fixture *f = *state;
	struct ibv_context *other = ibv_open_device(f->list[0]);
	struct ibv_cq *foreign = ibv_create_cq(other, 1, NULL, NULL, 0);
	struct ibv_qp *qp = make(f, CROSS), *plain = make(f, 0);
	struct ibv_qp *managed = make(f, MANAGED);
	struct ibv_qp *no_master = make(f, IBV_EXP_QP_CREATE_MANAGED_SEND);
	struct ibv_exp_send_wr masked = wait_for(f->cq, 1, 0);

	masked.comp_mask = 1;
	assert_int_equal(post(qp, masked), EINVAL);
	assert_int_equal(post(plain, wait_for(f->cq, 1, 0)), EINVAL);
	assert_int_equal(post(no_master, wait_for(f->cq, 1, 0)), EINVAL);
	assert_int_equal(post(qp, wait_for(NULL, 1, 0)), EINVAL);
	assert_int_equal(post(qp, wait_for(foreign, 1, 0)), EINVAL);
	assert_int_equal(post(qp, wait_for(f->cq, -1, 0)), EINVAL);
	assert_int_equal(post(qp, wait_for(f->cq, 1, IBV_EXP_SEND_INLINE)),
			 EINVAL);
	assert_int_equal(post(qp, enable(IBV_EXP_WR_SEND_ENABLE, NULL, 0, 0)),
			 EINVAL);
	assert_int_equal(post(qp, enable(IBV_EXP_WR_SEND_ENABLE, plain, 0, 0)),
			 EINVAL);
	assert_int_equal(post(qp, enable(IBV_EXP_WR_SEND_ENABLE, qp, 0, 0)),
			 EINVAL);
	assert_int_equal(post(qp,
			      enable(IBV_EXP_WR_RECV_ENABLE, managed, 0, 0)),
			 EINVAL);
	assert_int_equal(post(qp,
			      enable(IBV_EXP_WR_SEND_ENABLE, managed, -1, 0)),
			 EINVAL);
	assert_int_equal(posted(qp), 0);
	assert_int_equal(core_cq(f->cq)->users, 4 * 2); /* no request's */
	for (int i = 0; i < 8; i++)
		assert_int_equal(post(qp, wait_for(f->cq, 1, 0)), 0);
	assert_int_equal(post(qp, wait_for(f->cq, 1, 0)), ENOMEM);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(plain), 0);
	assert_int_equal(ibv_destroy_qp(managed), 0);
	assert_int_equal(ibv_destroy_qp(no_master), 0);
	assert_int_equal(ibv_destroy_cq(foreign), 0);
	assert_int_equal(ibv_close_device(other), 0);
}

static void calculations(void **state)
{
	static const struct {
		enum ibv_exp_wr_opcode opcode;
		uint64_t flags;
		int op, type, size;
		int num_sge;
		uint32_t length;
		int err;
	} rows[] = {
		{ IBV_EXP_WR_SEND, 0, 0, 0, 0, 4, 16, 0 },
		{ IBV_EXP_WR_SEND, IBV_EXP_SEND_SIGNALED, 2, 1, 0, 1, 16, 0 },
		{ IBV_EXP_WR_SEND, IBV_EXP_SEND_FENCE, 3, 2, 0, 2, 16, 0 },
		{ IBV_EXP_WR_SEND, IBV_EXP_SEND_SOLICITED, 4, 0, 0, 2, 16, 0 },
		{ IBV_EXP_WR_SEND, 0, 1, 1, 0, 2, 16, EOPNOTSUPP },
		{ IBV_EXP_WR_SEND, 0, 1, 0, 0, 2, 16, EINVAL },
		{ IBV_EXP_WR_SEND, 0, 5, 0, 0, 2, 16, EINVAL },
		{ IBV_EXP_WR_SEND, 0, -1, 0, 0, 2, 16, EINVAL },
		{ IBV_EXP_WR_SEND, 0, 0, 3, 0, 2, 16, EINVAL },
		{ IBV_EXP_WR_SEND, 0, 0, -1, 0, 2, 16, EINVAL },
		{ IBV_EXP_WR_SEND, 0, 0, 0, 1, 2, 16, EINVAL },
		{ IBV_EXP_WR_SEND, 0, 0, 0, 0, 0, 16, EINVAL },
		{ IBV_EXP_WR_SEND, 0, 0, 0, 0, 5, 16, EINVAL },
		{ IBV_EXP_WR_SEND, 0, 0, 0, 0, 2, 8, EINVAL },
		{ IBV_EXP_WR_SEND, IBV_EXP_SEND_INLINE, 0, 0, 0, 1, 16,
		  EINVAL },
		{ IBV_EXP_WR_SEND_WITH_IMM, 0, 0, 0, 0, 2, 16, EINVAL },
		{ IBV_EXP_WR_RDMA_WRITE, 0, 0, 0, 0, 2, 16, 0 },
		{ IBV_EXP_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0, 0, 2, 16, 0 },
		{ IBV_EXP_WR_RDMA_READ, 0, 0, 0, 0, 2, 16, EINVAL },
		{ IBV_EXP_WR_CQE_WAIT, 0, 0, 0, 0, 2, 16, EINVAL },
	};
	struct ibv_qp *qp = make(*state, CROSS);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_sge sge[5];
		struct ibv_exp_send_wr wr = message(sge);

		for (int k = 0; k < 5; k++)
			sge[k] = (struct ibv_sge){ 4096, rows[i].length, 7 };
		wr.exp_opcode = rows[i].opcode;
		wr.exp_send_flags = rows[i].flags | IBV_EXP_SEND_WITH_CALC;
		wr.num_sge = rows[i].num_sge;
		wr.wr.rdma.remote_addr = 8192;
		wr.wr.rdma.rkey = 9;
		wr.ex.imm_data = 10;
		wr.op.calc.calc_op = (enum ibv_exp_calc_op)rows[i].op;
		wr.op.calc.data_type =
			(enum ibv_exp_calc_data_type)rows[i].type;
		wr.op.calc.data_size =
			(enum ibv_exp_calc_data_size)rows[i].size;
		assert_int_equal(post(qp, wr), rows[i].err);
		if (rows[i].err)
			continue;
		assert_int_equal(newest(qp)->opcode, UR_CROSS_CALC);
		assert_int_equal(newest(qp)->flags, rows[i].flags);
		assert_int_equal(newest(qp)->wr.calc.op, rows[i].op);
		assert_int_equal(newest(qp)->wr.calc.type, rows[i].type);
		assert_int_equal(newest(qp)->wr.calc.into, rows[i].opcode);
		assert_int_equal(newest(qp)->wr.calc.remote_addr, 8192);
		assert_int_equal(newest(qp)->wr.calc.rkey, 9);
		assert_int_equal(newest(qp)->imm_be, 10);
		assert_int_equal(newest(qp)->num_sge, rows[i].num_sge);
	}
	assert_int_equal(posted(qp), 6);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* ---- tasks ---- */

static struct ibv_exp_task send_task(struct ibv_qp *qp,
				     struct ibv_exp_send_wr *wr,
				     struct ibv_exp_task *next)
{
	struct ibv_exp_task t = { .task_type = IBV_EXP_TASK_SEND,
				  .next = next };

	t.item.qp = qp;
	t.item.send_wr = wr;
	return t;
}

static struct ibv_exp_task recv_task(struct ibv_qp *qp, struct ibv_recv_wr *wr,
				     struct ibv_exp_task *next)
{
	struct ibv_exp_task t = { .task_type = IBV_EXP_TASK_RECV,
				  .next = next };

	t.item.qp = qp;
	t.item.recv_wr = wr;
	return t;
}

/* Requests of earlier tasks can be enabled by later ones. */
static void tasks_are_posted_in_order(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *a = make(f, CROSS), *b = make(f, MANAGED | RECEIVE);
	struct ibv_exp_send_wr two[2] = { message(NULL), message(NULL) };
	struct ibv_exp_send_wr ctl[3];
	struct ibv_recv_wr recv[2] = { { .wr_id = 1 }, { .wr_id = 2 } };
	struct ibv_exp_task t[3], *bad = NULL;

	two[0].next = &two[1];
	recv[0].next = &recv[1];
	ctl[0] = wait_for(f->cq, 1, LAST);
	ctl[1] = enable(IBV_EXP_WR_SEND_ENABLE, b, 2, LAST);
	ctl[2] = enable(IBV_EXP_WR_RECV_ENABLE, b, 0, LAST);
	ctl[0].next = &ctl[1];
	ctl[1].next = &ctl[2];
	t[0] = recv_task(b, recv, &t[1]);
	t[1] = send_task(b, two, &t[2]);
	t[2] = send_task(a, ctl, NULL);
	ur_fake.doorbells = 0;
	assert_int_equal(ibv_exp_post_task(f->ctx, t, &bad), 0);
	assert_null(bad);
	assert_int_equal(ur_fake.doorbells, 2);
	assert_int_equal(posted(a), 3);
	assert_int_equal(posted(b), 2);
	assert_int_equal(core_qp(b)->rq.posted, 2);
	assert_int_equal(ur_rq_slot(&core_qp(b)->rq, 1)->wr_id, 2);
	assert_int_equal(newest(a)->wr.enable.until, 2);
	assert_int_equal(ur_sq_slot(&core_qp(a)->sq, 1)->wr.enable.until, 2);
	assert_int_equal(urv_qp(b)->sends.base, 2);
	assert_int_equal(urv_qp(b)->receives.base, 2);
	assert_int_equal(urv_cq(f->cq)->waits.base, 1);
	assert_false(urv_cq(f->cq)->waits.saved);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
}

/* A list of good tasks, and a last one that fails. */
static void refuse(struct fixture *f, struct ibv_exp_task last, int err)
{
	struct ibv_qp *a = make(f, CROSS), *b = make(f, MANAGED | RECEIVE);
	uint32_t users = core_cq(f->cq)->users;
	struct ibv_exp_send_wr ctl[2], s = message(NULL);
	struct ibv_recv_wr recv = { .wr_id = 1 };
	struct ibv_exp_task t[4], *bad = NULL;

	urv_cq(f->cq)->waits = (struct urv_count){ .base = 7, .pending = 2 };
	ctl[0] = wait_for(f->cq, 3, LAST);
	ctl[1] = enable(IBV_EXP_WR_SEND_ENABLE, b, 0, LAST);
	ctl[0].next = &ctl[1];
	t[0] = recv_task(b, &recv, &t[1]);
	t[1] = send_task(b, &s, &t[2]);
	t[2] = send_task(a, ctl, &t[3]);
	t[3] = last;
	ur_fake.doorbells = 0;
	assert_int_equal(ibv_exp_post_task(f->ctx, t, &bad), err);
	assert_ptr_equal(bad, t); /* none before it is posted */
	assert_int_equal(ibv_exp_post_task(f->ctx, t, NULL), err);
	assert_int_equal(ur_fake.doorbells, 0);
	assert_int_equal(posted(a), 0);
	assert_int_equal(posted(b), 0);
	assert_int_equal(core_qp(b)->rq.posted, 0);
	assert_int_equal(core_qp(b)->cross->refs, 1);
	assert_int_equal(core_cq(f->cq)->users, users);
	assert_int_equal(urv_cq(f->cq)->waits.base, 7);
	assert_int_equal(urv_cq(f->cq)->waits.pending, 2);
	assert_int_equal(urv_qp(b)->sends.base, 0);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
}

static void a_bad_task_posts_nothing(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make(f, CROSS), *plain = make(f, 0);
	struct ibv_qp *early = make(f, CROSS);
	struct ibv_exp_send_wr good = message(NULL), bad = wait_for(NULL, 1, 0);
	struct ibv_recv_wr recv[5] = { { .wr_id = 1 } };
	struct ibv_exp_task t;

	core_qp(early)->state = UR_QPS_INIT;
	good.next = &bad;
	for (int i = 0; i < 4; i++)
		recv[i].next = &recv[i + 1];
	refuse(f, send_task(qp, &bad, NULL), EINVAL);
	refuse(f, send_task(qp, &good, NULL), EINVAL);
	refuse(f, send_task(plain, &bad, NULL), EINVAL);
	refuse(f, send_task(early, NULL, NULL), EINVAL);
	refuse(f, send_task(NULL, NULL, NULL), EINVAL);
	refuse(f, recv_task(qp, recv, NULL), ENOMEM); /* room for four */
	recv[1].num_sge = 2;
	refuse(f, recv_task(qp, recv, NULL), EINVAL);
	t = send_task(qp, NULL, NULL);
	t.comp_mask = 1;
	refuse(f, t, EINVAL);
	t.comp_mask = 0;
	t.task_type = (enum ibv_exp_task_type)2;
	refuse(f, t, EINVAL);
	assert_int_equal(posted(qp), 0);
	assert_int_equal(core_qp(qp)->rq.tail, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(plain), 0);
	assert_int_equal(ibv_destroy_qp(early), 0);
}

static void the_first_error_is_reported(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make(f, CROSS);
	struct ibv_recv_wr recv[5] = { { .wr_id = 1 } };
	struct ibv_exp_task t[2], *bad = NULL;

	for (int i = 0; i < 4; i++)
		recv[i].next = &recv[i + 1];
	t[0] = recv_task(qp, recv, &t[1]); /* room for four */
	t[1] = send_task(qp, NULL, NULL);
	t[1].comp_mask = 1;
	assert_int_equal(ibv_exp_post_task(f->ctx, t, &bad), ENOMEM);
	assert_ptr_equal(bad, t);
	recv[3].next = NULL;
	assert_int_equal(ibv_exp_post_task(f->ctx, t, NULL), EINVAL);
	assert_int_equal(core_qp(qp)->rq.tail, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static struct ibv_exp_task both[2];

static void *post_both(void *ctx)
{
	assert_int_equal(ibv_exp_post_task(ctx, both, NULL), 0);
	return NULL;
}

/* While one queue is locked, as by ibv_wr_start(), another can be posted to. */
static void check_builder(struct fixture *f, unsigned int held)
{
	struct ibv_qp *qp[2] = { make(f, CROSS), make(f, CROSS) };
	struct ibv_exp_send_wr wr[2] = { message(NULL), message(NULL) };
	pthread_t thread;

	for (int i = 0; i < 2; i++)
		both[i] = send_task(qp[i], &wr[i], i ? NULL : &both[1]);
	ur_latch_lock(&core_qp(qp[held])->sq.lock);
	assert_int_equal(pthread_create(&thread, NULL, post_both, f->ctx), 0);
	usleep(20000); /* it waits, most probably */
	assert_int_equal(post(qp[!held], message(NULL)), 0);
	ur_latch_unlock(&core_qp(qp[held])->sq.lock);
	pthread_join(thread, NULL);
	assert_int_equal(posted(qp[held]), 1);
	assert_int_equal(posted(qp[!held]), 2);
	assert_int_equal(ibv_destroy_qp(qp[0]), 0);
	assert_int_equal(ibv_destroy_qp(qp[1]), 0);
}

static void tasks_wait_without_a_lock(void **state)
{
	alarm(30); /* where they hold one, it does not end */
	check_builder(*state, 0);
	check_builder(*state, 1);
	alarm(0);
}

/* The key that a bind gives its window is not given. */
static void binds_are_undone(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make(f, CROSS);
	struct ibv_mw *mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_2);
	uint32_t key = mw->rkey;
	struct ibv_exp_send_wr wr[3];
	struct ibv_exp_task t, *bad = NULL;

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < 2; i++) {
		wr[i].exp_opcode = IBV_EXP_WR_BIND_MW;
		wr[i].bind_mw.mw = mw;
		wr[i].bind_mw.rkey = key + 1 + (uint32_t)i;
		wr[i].next = &wr[i + 1];
	}
	wr[2] = wait_for(NULL, 0, 0);
	t = send_task(qp, wr, NULL);
	assert_int_equal(ibv_exp_post_task(f->ctx, &t, &bad), EINVAL);
	assert_ptr_equal(bad, &t);
	assert_int_equal(mw->rkey, key);
	wr[1].next = NULL;
	assert_int_equal(ibv_exp_post_task(f->ctx, &t, &bad), 0);
	assert_int_equal(mw->rkey & 0xff, (key + 2) & 0xff);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)
#define IWARP(fn)                                                              \
	{                                                                      \
		"iwarp: " #fn, fn, fixture_open_iwarp, fixture_close, NULL     \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(flags_of_queue_pairs),
		TEST(queues_that_may_overflow),
		TEST(completion_queues),
		TEST(waits_count_as_mlx5_does),
		TEST(counts_wrap),
		TEST(enabling_counts_too),
		TEST(reset_counts_anew),
		TEST(what_cannot_be_posted),
		TEST(calculations),
		TEST(tasks_are_posted_in_order),
		TEST(a_bad_task_posts_nothing),
		TEST(the_first_error_is_reported),
		TEST(tasks_wait_without_a_lock),
		TEST(binds_are_undone),
		IWARP(flags_of_queue_pairs),
		IWARP(queues_that_may_overflow),
		IWARP(completion_queues),
		IWARP(waits_count_as_mlx5_does),
		IWARP(counts_wrap),
		IWARP(enabling_counts_too),
		IWARP(reset_counts_anew),
		IWARP(what_cannot_be_posted),
		IWARP(calculations),
		IWARP(tasks_are_posted_in_order),
		IWARP(a_bad_task_posts_nothing),
		IWARP(the_first_error_is_reported),
		IWARP(tasks_wait_without_a_lock),
		IWARP(binds_are_undone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
