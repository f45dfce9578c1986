/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cross-channel requests (core/cross.h): posting them, alone and as tasks.
 *
 * As mlx5 counts: a request waits for or enables `count` more than its object's
 * base. The one with IBV_EXP_SEND_WAIT_EN_LAST moves the base by the largest
 * count since the base was last moved. The bases are those of the requests
 * posted, whether they have been executed or not.
 */
#ifndef UR_VERBS_CROSS_H
#define UR_VERBS_CROSS_H

#include "verbs/exp.h"
#include "verbs/objects.h"

/* A queue to which a list of tasks posts. */
struct urv_task_queue {
	struct ur_latch *lock; /* sq's or rq's */
	struct ur_sq *sq;      /* NULL: a receive queue */
	struct ur_rq *rq;
	uint32_t staged; /* rq: one past the newest staged receive */
};

/* A list of tasks being posted: its queues, all locked, in the order of the
 * locks' addresses, and the counts that it has changed. The context's cross_lock is held. */
struct urv_tasks {
	struct urv_task_queue *queues;
	size_t n;
	struct urv_count *changed;
	struct urv_umr_lists umr;
};

/* Is it for urv_cross_stage()? */
bool urv_is_cross(const struct ibv_exp_send_wr *x);

/*
 * Stage one of these requests, under the queue's lock; tasks: as part of them,
 * or NULL. 0 or positive errno.
 */
int urv_cross_stage(struct urv_qp *qp, const struct ibv_exp_send_wr *x,
		    struct urv_tasks *tasks);

/* The tasks are posted, or not: then the counts become what they were. */
void urv_cross_end_counts(struct urv_tasks *tasks, bool restore);

/* The member of tasks with that lock. */
struct urv_task_queue *urv_tasks_find(const struct urv_tasks *tasks,
				      const struct ur_latch *lock);

/* The queue pair was reset: what enables it counts from what was posted. */
void urv_cross_reset(struct urv_qp *qp);

int urv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *task,
		      struct ibv_exp_task **bad_task);

/* exp_send.c: stage any request. */
int urv_exp_stage(struct urv_qp *qp, const struct ibv_exp_send_wr *x,
		  struct urv_umr_lists *lists, struct urv_tasks *tasks);

#endif
