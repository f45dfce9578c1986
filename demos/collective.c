/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recursive doubling: in round k each rank sends to rank ^ (1 << k) what it has
 * of the result so far, and receives the same of that rank.
 *
 * By cross-channel requests, the queues to other ranks are managed: the message
 * of each round is posted, and is not sent before the master queue enables it.
 * The master queue enables round 0, waits for the message of round 0, enables
 * round 1, and so on. Each message is a calculation over the own value and all
 * received so far; the adapter reads these when the message is enabled. The
 * last one goes to the process itself.
 */
#include "collective.h"

#include <endian.h>
#include <string.h>

#include "common.h"

#define TASKS	 (2 * CUBE_DIMS + 2)
#define REQUESTS (3 * CUBE_DIMS + 2)

/* A process that has the result may leave before the others have it. */
#define GONE_NS 3000000000u

/* A list of tasks while it is made. */
struct list {
	const struct cube *c;
	unsigned int slot;
	struct ibv_exp_task task[TASKS];
	struct ibv_exp_send_wr wr[REQUESTS];
	struct ibv_recv_wr recv[CUBE_DIMS + 1];
	struct ibv_sge sge[CUBE_DIMS + 1];  /* own, received */
	struct ibv_sge into[CUBE_DIMS + 1]; /* receives of the next one */
	unsigned int tasks, wrs, recvs;
};

static struct ibv_exp_task *add_task(struct list *l, struct ibv_qp *qp,
				     enum ibv_exp_task_type type)
{
	struct ibv_exp_task *t = &l->task[l->tasks];

	memset(t, 0, sizeof(*t));
	t->task_type = type;
	t->item.qp = qp;
	if (l->tasks++)
		t[-1].next = t;
	return t;
}

/* A request of the newest task. */
static struct ibv_exp_send_wr *
add_request(struct list *l, enum ibv_exp_wr_opcode opcode, uint64_t flags)
{
	struct ibv_exp_task *t = &l->task[l->tasks - 1];
	struct ibv_exp_send_wr *w = &l->wr[l->wrs++];

	memset(w, 0, sizeof(*w));
	w->exp_opcode = opcode;
	w->exp_send_flags = flags;
	if (t->item.send_wr)
		w[-1].next = w;
	else
		t->item.send_wr = w;
	return w;
}

static void add_receive(struct list *l, struct ibv_qp *qp, void *at)
{
	struct ibv_recv_wr *w = &l->recv[l->recvs];

	l->into[l->recvs] = cube_piece(l->c, at);
	*w = (struct ibv_recv_wr){ .sg_list = &l->into[l->recvs++],
				   .num_sge = 1 };
	add_task(l, qp, IBV_EXP_TASK_RECV)->item.recv_wr = w;
}

/* The message of the round after so many have been received. */
static void add_message(struct list *l, enum collective what, unsigned int got,
			struct reduction by)
{
	struct ibv_exp_send_wr *w = add_request(
		l, IBV_EXP_WR_SEND, what == LAST ? IBV_EXP_SEND_SIGNALED : 0);

	if (what != REDUCE)
		return;
	w->exp_send_flags |= IBV_EXP_SEND_WITH_CALC;
	w->sg_list = l->sge;
	w->num_sge = (int)got + 1;
	w->op.calc.calc_op = by.op;
	w->op.calc.data_type = by.type;
	w->op.calc.data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
}

static void add_master(struct list *l, enum collective what,
		       struct reduction by)
{
	const struct cube *c = l->c;

	add_task(l, c->to_self.qp, IBV_EXP_TASK_SEND);
	for (unsigned int k = 0; k < c->dims; k++) {
		struct ibv_exp_send_wr *w = add_request(
			l, IBV_EXP_WR_SEND_ENABLE, IBV_EXP_SEND_WAIT_EN_LAST);

		w->task.wqe_enable.qp = c->edge[k].qp;
		w->task.wqe_enable.wqe_count = 1;
		w = add_request(l, IBV_EXP_WR_CQE_WAIT,
				IBV_EXP_SEND_WAIT_EN_LAST);
		w->task.cqe_wait.cq = c->edge[k].arrived;
		w->task.cqe_wait.cq_count = 1;
	}
	if (what == REDUCE)
		add_message(l, what, c->dims, by);
	else
		l->wr[l->wrs - 1].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
}

static int post_offloaded(struct cube *c, enum collective what, unsigned int i,
			  struct reduction by)
{
	struct list l = { .c = c, .slot = i % 2 };
	unsigned int next = (i + 1) % 2;
	int rc;

	l.sge[0] = cube_piece(c, c->memory->own.at[l.slot]);
	for (unsigned int k = 0; k < c->dims; k++)
		l.sge[k + 1] = cube_piece(c, c->memory->received[k].at[l.slot]);
	for (unsigned int k = 0; k < c->dims; k++) {
		add_receive(&l, c->edge[k].qp, c->memory->received[k].at[next]);
		add_task(&l, c->edge[k].qp, IBV_EXP_TASK_SEND);
		add_message(&l, what, k, by);
	}
	if (what == REDUCE)
		add_receive(&l, c->from_self.qp, c->memory->result.at[l.slot]);
	add_master(&l, what, by);
	rc = ibv_exp_post_task(c->verbs, l.task, NULL);
	return rc ? complain("tasks: %s", strerror(rc)) : 0;
}

/* --- the same by the program --- */

static int post_receive(struct cube *c, struct ibv_qp *qp, void *at)
{
	struct ibv_sge sge = cube_piece(c, at);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(qp, &wr, &bad) ? complain("receive refused") : 0;
}

/* A completion of cq; -1 also if another process has gone, and was needed. */
static int await(struct cube *c, struct ibv_cq *cq)
{
	uint64_t gone_ns = 0;
	struct ibv_wc wc;
	int got;

	for (unsigned int polls = 1;; polls++) {
		got = ibv_poll_cq(cq, 1, &wc);
		if (got)
			break;
		if (polls % 1024 || !cube_is_broken(c))
			continue;
		if (!gone_ns)
			gone_ns = now_ns();
		if (now_ns() - gone_ns > GONE_NS)
			return complain("rank %u: another process has gone",
					c->rank);
	}
	if (got < 0 || wc.status != IBV_WC_SUCCESS)
		return complain("rank %u: %s", c->rank,
				ibv_wc_status_str(wc.status));
	return 0;
}

static uint64_t combine(struct reduction by, uint64_t a, uint64_t b)
{
	double x, y;

	if (by.op == IBV_EXP_CALC_OP_BAND)
		return a & b;
	if (by.op == IBV_EXP_CALC_OP_BXOR)
		return a ^ b;
	if (by.op == IBV_EXP_CALC_OP_BOR)
		return a | b;
	if (by.type != IBV_EXP_CALC_DATA_TYPE_FLOAT)
		return a + b;
	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	x += y;
	memcpy(&a, &x, sizeof(a));
	return a;
}

static int send_value(struct cube *c, struct ibv_qp *qp, uint64_t value)
{
	uint64_t operand[2] = { htobe64(value) };
	struct ibv_sge sge = { (uintptr_t)operand, sizeof(operand), 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .send_flags =
					  IBV_SEND_SIGNALED | IBV_SEND_INLINE,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct ibv_send_wr *bad;

	c->sent++;
	return ibv_post_send(qp, &wr, &bad) ? complain("send refused") : 0;
}

static int run_by_program(struct cube *c, unsigned int i, struct reduction by,
			  uint64_t *value)
{
	/* The sends of the operation before: complete by now, mostly. */
	for (; c->sent; c->sent--)
		if (await(c, c->done))
			return -1;
	for (unsigned int k = 0; k < c->dims; k++) {
		struct slots *in = &c->memory->received[k];
		const struct edge *e = &c->edge[k];
		uint64_t be;

		if (post_receive(c, e->qp, in->at[(i + 1) % 2]) ||
		    send_value(c, e->qp, *value) || await(c, e->arrived))
			return -1;
		memcpy(&be, in->at[i % 2], sizeof(be));
		*value = combine(by, *value, be64toh(be));
	}
	return 0;
}

/* --- both --- */

int collective_start(struct cube *c)
{
	for (unsigned int k = 0; k < c->dims; k++)
		if (post_receive(c, c->edge[k].qp,
				 c->memory->received[k].at[0]))
			return -1;
	return 0;
}

int collective_run(struct cube *c, enum collective what, unsigned int i,
		   struct reduction by, uint64_t *value)
{
	uint64_t be = htobe64(*value);

	if (!c->offload)
		return run_by_program(c, i, by, value);
	memcpy(c->memory->own.at[i % 2], &be, sizeof(be));
	if (post_offloaded(c, what, i, by) || await(c, c->done))
		return -1;
	if (what != REDUCE)
		return 0;
	memcpy(&be, c->memory->result.at[i % 2], sizeof(be));
	*value = be64toh(be);
	return 0;
}

/* Messages that are complete have been received. */
int collective_finish(struct cube *c, unsigned int i)
{
	const struct reduction none = { IBV_EXP_CALC_OP_BOR,
					IBV_EXP_CALC_DATA_TYPE_UINT };
	uint64_t value = 0;

	if (collective_run(c, LAST, i, none, &value))
		return -1;
	if (c->offload)
		c->sent = c->dims;
	for (; c->sent; c->sent--)
		if (await(c, c->done))
			return -1;
	return 0;
}
