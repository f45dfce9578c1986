/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_exp_post_task(): requests for several queues, posted together. The queues
 * are locked, all requests are staged, and then all are committed or none
 * (docs/decisions/0025).
 */
#include <errno.h>
#include <stdlib.h>

#include "core/cross.h"
#include "core/umr.h"
#include "verbs/cross.h"
#include "verbs/mw.h"
#include "verbs/ops.h"
#include "verbs/send.h"

static int compare(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct urv_task_queue *)a)->lock;
	uintptr_t y = (uintptr_t)((const struct urv_task_queue *)b)->lock;

	return x < y ? -1 : x > y;
}

struct urv_task_queue *urv_tasks_find(const struct urv_tasks *tasks,
				      const struct ur_latch *lock)
{
	struct urv_task_queue key = {
		.lock = (struct ur_latch *)(uintptr_t)lock
	};

	return bsearch(&key, tasks->queues, tasks->n, sizeof(key), compare);
}

static int check_state(const struct ibv_exp_task *task)
{
	bool receive = task->task_type == IBV_EXP_TASK_RECV;
	const struct urv_qp *qp = urv_qp(task->item.qp);
	int rc = receive ? urv_recv_state(qp) : urv_send_state(qp);

	if (rc)
		ur_record_post(&qp->core, receive, rc);
	return rc;
}

/* May the task be posted in the present state of its queue pair? */
static int check(const struct ibv_context *context,
		 const struct ibv_exp_task *task)
{
	struct urv_qp *qp = task->item.qp ? urv_qp(task->item.qp) : NULL;

	if (!qp || task->comp_mask || task->item.qp->context != context)
		return EINVAL;
	switch (task->task_type) {
	case IBV_EXP_TASK_SEND:
	case IBV_EXP_TASK_RECV:
		return check_state(task);
	}
	return EINVAL;
}

static struct urv_task_queue queue_of(const struct ibv_exp_task *task)
{
	struct urv_qp *qp = urv_qp(task->item.qp);
	struct ur_rq *rq = &qp->core.rq;

	if (task->task_type == IBV_EXP_TASK_SEND)
		return (struct urv_task_queue){ .lock = &qp->core.sq.lock,
						.sq = &qp->core.sq };
	return (struct urv_task_queue){ .lock = &rq->lock, .rq = rq };
}

/* Each queue once. */
static void sort(struct urv_tasks *t)
{
	size_t to = 0;

	qsort(t->queues, t->n, sizeof(*t->queues), compare);
	for (size_t i = 0; i < t->n; i++)
		if (!to || t->queues[i].lock != t->queues[to - 1].lock)
			t->queues[to++] = t->queues[i];
	t->n = to;
}

/* The queues of the tasks before `end`. */
static int collect(const struct ibv_exp_task *tasks,
		   const struct ibv_exp_task *end, struct urv_tasks *t)
{
	const struct ibv_exp_task *at;
	size_t n = 1; /* calloc(0) may return NULL */

	for (at = tasks; at != end; at = at->next)
		n++;
	t->queues = calloc(n, sizeof(*t->queues));
	if (!t->queues)
		return ENOMEM;
	for (at = tasks; at != end; at = at->next)
		t->queues[t->n++] = queue_of(at);
	sort(t);
	return 0;
}

/* Lock that queue and all others. False: *first is locked by another thread,
 * and none here. */
static bool lock_from(struct urv_tasks *t, size_t *first)
{
	size_t from = *first;

	ur_latch_lock(t->queues[from].lock);
	for (size_t i = 0; i < t->n; i++) {
		if (i == from || ur_latch_try(t->queues[i].lock))
			continue;
		*first = i;
		while (i-- > 0)
			if (i != from)
				ur_latch_unlock(t->queues[i].lock);
		ur_latch_unlock(t->queues[from].lock);
		return false;
	}
	return true;
}

/* ibv_wr_start() keeps a queue locked while the program runs, which may post to
 * another: wait for one only while no other is locked. */
static void lock(struct urv_tasks *t, struct ur_lock *counts)
{
	size_t first = 0;

	while (t->n && !lock_from(t, &first))
		;
	for (size_t i = 0; i < t->n; i++) {
		struct urv_task_queue *e = &t->queues[i];

		if (e->rq)
			e->staged = ur_rq_posted(e->rq);
	}
	ur_lock(counts);
}

static void unlock(struct urv_tasks *t, struct ur_lock *counts)
{
	ur_unlock(counts);
	for (size_t i = t->n; i-- > 0;)
		ur_latch_unlock(t->queues[i].lock);
}

static int stage_receive(struct urv_task_queue *e, const struct ibv_recv_wr *wr)
{
	uint32_t head =
		atomic_load_explicit(&e->rq->head, memory_order_acquire);
	int rc;

	if (e->staged - head >= e->rq->max_wr)
		return ENOMEM;
	rc = urv_rwqe_fill(e->rq, ur_rq_slot(e->rq, e->staged), wr);
	if (!rc)
		e->staged++;
	return rc;
}

static int stage_sends(const struct ibv_exp_task *task, struct urv_tasks *t)
{
	int rc = 0;

	for (struct ibv_exp_send_wr *wr = task->item.send_wr; wr && !rc;
	     wr = wr->next)
		rc = urv_exp_stage(urv_qp(task->item.qp), wr, &t->umr, t);
	return rc;
}

static int stage_receives(const struct ibv_exp_task *task,
			  const struct urv_tasks *t)
{
	struct urv_task_queue *e =
		urv_tasks_find(t, &urv_qp(task->item.qp)->core.rq.lock);
	int rc = 0;

	for (struct ibv_recv_wr *wr = task->item.recv_wr; wr && !rc;
	     wr = wr->next)
		rc = stage_receive(e, wr);
	return rc;
}

static int stage_one(const struct ibv_exp_task *task, struct urv_tasks *t)
{
	bool receive = task->task_type == IBV_EXP_TASK_RECV;
	int rc = receive ? stage_receives(task, t) : stage_sends(task, t);

	if (rc)
		ur_record_post(&urv_qp(task->item.qp)->core, receive, rc);
	return rc;
}

static void prepare(const struct ibv_exp_task *tasks,
		    const struct ibv_exp_task *end, struct urv_tasks *t)
{
	for (; tasks != end; tasks = tasks->next)
		if (tasks->task_type == IBV_EXP_TASK_SEND)
			urv_umr_prepare(&t->umr, urv_qp(tasks->item.qp),
					tasks->item.send_wr);
}

static int stage(const struct ibv_exp_task *tasks,
		 const struct ibv_exp_task *end, struct urv_tasks *t)
{
	int rc = 0;

	for (; tasks != end && !rc; tasks = tasks->next)
		rc = stage_one(tasks, t);
	return rc;
}

/* Newest first: a window may have been bound several times. */
static void undo(struct ur_sq *sq)
{
	uint32_t from = ur_sq_posted(sq);

	while (sq->staged != from) {
		struct ur_swqe *w = ur_sq_slot(sq, --sq->staged);

		if (w->opcode == UR_WR_BIND_MW)
			urv_bind_undo(&w->wr.bind);
		else
			ur_cross_drop(w);
	}
}

static void finish(struct urv_tasks *t, bool commit)
{
	for (size_t i = 0; i < t->n; i++) {
		struct urv_task_queue *e = &t->queues[i];

		if (e->sq && commit)
			ur_sq_commit(e->sq);
		else if (e->sq)
			undo(e->sq);
		else if (commit)
			ur_rq_commit_to(e->rq, e->staged);
	}
	urv_cross_end_counts(t, !commit);
}

static void kick(const struct ibv_exp_task *tasks)
{
	for (; tasks; tasks = tasks->next) {
		struct urv_qp *qp = urv_qp(tasks->item.qp);

		if (tasks->task_type == IBV_EXP_TASK_SEND)
			urv_send_kick(qp);
		else
			urv_recv_posted(qp);
		if (qp->core.umr)
			ur_umr_reap(qp->core.mrs);
	}
}

/* The adapter's own requests waited while the queues were locked
 * (ur_sq_begin_own()). */
static void kick_own(const struct ibv_exp_task *tasks,
		     const struct ibv_exp_task *end)
{
	for (; tasks != end; tasks = tasks->next)
		if (tasks->task_type == IBV_EXP_TASK_SEND &&
		    urv_qp(tasks->item.qp)->core.sq.max_own)
			urv_send_kick(urv_qp(tasks->item.qp));
}

int urv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *task,
		      struct ibv_exp_task **bad_task)
{
	struct ur_lock *counts = &urv_context(context)->cross_lock;
	struct urv_tasks t = { 0 };
	struct ibv_exp_task *end = task;
	int refused = 0, rc;

	while (end && !(refused = check(context, end)))
		end = end->next;
	rc = collect(task, end, &t);
	if (!rc) {
		prepare(task, end, &t);
		lock(&t, counts);
		/* What an earlier task fails with comes first. */
		rc = stage(task, end, &t);
		if (!rc)
			rc = refused;
		finish(&t, !rc);
		unlock(&t, counts);
		urv_umr_end(&t.umr);
	}
	free(t.queues);
	if (!rc) {
		kick(task);
		return 0;
	}
	kick_own(task, end);
	if (bad_task)
		*bad_task = task;
	return rc;
}
