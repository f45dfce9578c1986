/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/cross.h"

#include <errno.h>
#include <stdlib.h>

#include "core/sge.h"

/* Counters of requests run freely: has `count` come to `until`? */
static bool is_reached(uint32_t count, uint32_t until)
{
	return (int32_t)(count - until) >= 0;
}

static uint32_t load(const _Atomic uint32_t *p)
{
	return atomic_load_explicit(p, memory_order_relaxed);
}

static bool gates_sends(uint32_t flags)
{
	return flags & (UR_CROSS_MASTER | UR_CROSS_MANAGED_SEND);
}

int ur_cross_create(struct ur_qp *qp, uint32_t flags, ur_cross_wake *wake)
{
	struct ur_cross *c;

	if (qp->sq.max_own || ((flags & UR_CROSS_MANAGED_RECV) &&
			       (qp->srq || !ur_qp_type_receives(qp->type))))
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	atomic_init(&c->refs, 1);
	ur_lock_init(&c->lock);
	ur_list_init(&c->node);
	c->qp = qp;
	c->flags = flags;
	c->wake = wake;
	qp->cross = c;
	atomic_store_explicit(&qp->aside, true, memory_order_relaxed);
	qp->sq.gated = gates_sends(flags);
	qp->rq.gated = flags & UR_CROSS_MANAGED_RECV;
	return 0;
}

struct ur_cross *ur_cross_hold(struct ur_cross *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

static void put(struct ur_cross *c)
{
	if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return;
	ur_lock_fini(&c->lock);
	free(c);
}

void ur_cross_hold_cq(struct ur_cq *cq)
{
	atomic_fetch_add(&cq->users, 1);
}

void ur_cross_drop(struct ur_swqe *w)
{
	switch (w->opcode) {
	case UR_CROSS_WAIT:
		atomic_fetch_sub(&w->wr.wait.cq->users, 1);
		break;
	case UR_CROSS_SEND_ENABLE:
	case UR_CROSS_RECV_ENABLE:
		put(w->wr.enable.of);
		break;
	default:
		break;
	}
}

/* --- what the lane does with requests --- */

static void become_nop(struct ur_swqe *w, enum ur_wc_status status)
{
	w->opcode = UR_WR_NOP;
	w->flags &= (uint8_t)~UR_SEND_INLINE;
	w->num_sge = 0;
	w->length = 0;
	w->wr.nop.status = (uint8_t)status;
}

static void leave_cq(struct ur_cross *c)
{
	struct ur_cq *cq = c->waits_for;

	if (!cq)
		return;
	ur_latch_lock(&cq->lock);
	ur_list_del(&c->node);
	cq->waited_for = !ur_list_empty(&cq->waiting);
	ur_latch_unlock(&cq->lock);
	c->waits_for = NULL;
}

/* Also after the CQ has reported it, which took it off the list. */
static bool wait_is_over(struct ur_cross *c, const struct ur_swqe *w)
{
	struct ur_cq *cq = w->wr.wait.cq;
	bool over;

	ur_latch_lock(&cq->lock);
	over = cq->pushed >= w->wr.wait.until;
	if (!over && !c->waits_for) {
		c->until = w->wr.wait.until;
		c->waits_for = cq;
		ur_list_add_tail(&cq->waiting, &c->node);
		cq->waited_for = true;
	}
	ur_latch_unlock(&cq->lock);
	return over;
}

static bool pass_wait(struct ur_cross *c, struct ur_swqe *w)
{
	if (!wait_is_over(c, w))
		return false;
	leave_cq(c);
	ur_cross_drop(w);
	become_nop(w, UR_WC_SUCCESS);
	return true;
}

static void enable_receives(struct ur_rq *rq, uint32_t until)
{
	ur_latch_lock(&rq->lock);
	if (!is_reached(rq->enabled, until))
		rq->enabled = until;
	ur_rq_reveal(rq);
	ur_latch_unlock(&rq->lock);
}

static void pass_enable(struct ur_qp *by, struct ur_swqe *w)
{
	struct ur_cross *c = w->wr.enable.of;
	uint32_t until = w->wr.enable.until;
	bool there;

	ur_lock(&c->lock);
	there = c->qp != NULL;
	if (there && w->opcode == UR_CROSS_RECV_ENABLE) {
		enable_receives(&c->qp->rq, until);
	} else if (there && !is_reached(load(&c->enabled), until)) {
		atomic_store_explicit(&c->enabled, until, memory_order_relaxed);
		c->wake(c->qp, by->lane);
	}
	ur_unlock(&c->lock);
	put(c);
	become_nop(w, there ? UR_WC_SUCCESS : UR_WC_LOC_QP_OP_ERR);
}

static void pass_calc(const struct ur_qp *qp, struct ur_swqe *w)
{
	uint8_t operands[UR_MAX_SGE * UR_CALC_BYTES];

	if (ur_sge_collect(qp->mrs, qp->pd, w->data.sge, w->num_sge, 0,
			   operands, w->length)) {
		become_nop(w, UR_WC_LOC_PROT_ERR);
		return;
	}
	/* The slot has room: posting required an element. */
	ur_calc((enum ur_calc_op)w->wr.calc.op,
		(enum ur_calc_type)w->wr.calc.type, operands, w->num_sge,
		w->data.inline_data);
	w->opcode = w->wr.calc.into;
	w->flags |= UR_SEND_INLINE;
	w->num_sge = 0;
	w->length = UR_CALC_BYTES;
}

/*
 * May w not begin before all earlier requests are complete?  Operands are read when a
 * calculation is passed, and earlier requests may change the lists of their keys.
 */
static bool is_fenced(const struct ur_qp *qp, const struct ur_swqe *w)
{
	uint32_t at = ur_sq_head(&qp->sq), next = qp->cross->next;

	if (w->flags & UR_SEND_FENCE)
		return at != next;
	if (w->opcode != UR_CROSS_CALC || !qp->umr)
		return false;
	while (at != next && !ur_swqe_is_umr(ur_sq_slot(&qp->sq, at)))
		at++;
	return at != next;
}

/* False: it cannot be passed yet. */
static bool pass(struct ur_qp *qp, struct ur_swqe *w)
{
	struct ur_cross *c = qp->cross;

	if ((c->flags & UR_CROSS_MANAGED_SEND) &&
	    is_reached(c->next, load(&c->enabled)))
		return false;
	if (w->opcode < UR_CROSS_WAIT)
		return true;
	c->fenced = is_fenced(qp, w);
	if (c->fenced)
		return false;
	switch ((enum ur_cross_opcode)w->opcode) {
	case UR_CROSS_WAIT:
		return pass_wait(c, w);
	case UR_CROSS_SEND_ENABLE:
	case UR_CROSS_RECV_ENABLE:
		pass_enable(qp, w);
		return true;
	case UR_CROSS_CALC:
		pass_calc(qp, w);
		return true;
	}
	return true;
}

static void show(struct ur_qp *qp)
{
	atomic_store_explicit(&qp->sq.tail, qp->cross->next,
			      memory_order_release);
}

/* The protocol flushes all requests, which needs no more than their number and
 * the opcode of their completion. */
static void pass_unexecuted(struct ur_qp *qp)
{
	struct ur_cross *c = qp->cross;
	uint32_t end = ur_sq_posted(&qp->sq);

	leave_cq(c);
	c->fenced = false;
	for (; c->next != end; c->next++) {
		struct ur_swqe *w = ur_sq_slot(&qp->sq, c->next);

		if (w->opcode < UR_CROSS_WAIT)
			continue;
		ur_cross_drop(w);
		become_nop(w, UR_WC_SUCCESS);
	}
	show(qp);
}

static void open_receives(struct ur_rq *rq)
{
	if (!rq->gated)
		return;
	ur_latch_lock(&rq->lock);
	rq->open = true;
	ur_rq_reveal(rq);
	ur_latch_unlock(&rq->lock);
}

void ur_cross_clear(struct ur_qp *qp)
{
	struct ur_cross *c = qp->cross;
	struct ur_rq *rq = &qp->rq;

	if (c->ended)
		return;
	if (qp->sq.gated) {
		pass_unexecuted(qp);
		ur_lock(&c->lock);
		atomic_store_explicit(&c->enabled, c->next,
				      memory_order_relaxed);
		ur_unlock(&c->lock);
	}
	if (!rq->gated)
		return;
	ur_latch_lock(&rq->lock);
	rq->open = false;
	rq->enabled = ur_rq_posted(rq);
	ur_rq_reveal(rq);
	ur_latch_unlock(&rq->lock);
}

void ur_cross_error(struct ur_qp *qp)
{
	if (qp->cross->ended)
		return;
	if (qp->sq.gated)
		pass_unexecuted(qp);
	open_receives(&qp->rq);
}

void ur_cross_run(struct ur_qp *qp)
{
	enum ur_qp_state state =
		atomic_load_explicit(&qp->state, memory_order_relaxed);
	struct ur_cross *c = qp->cross;
	uint32_t end;

	if (c->ended)
		return;
	if (state == UR_QPS_ERR) {
		ur_cross_error(qp);
		return;
	}
	/* SQD: no message begins (IBTA 10.3.1). */
	if (state != UR_QPS_RTS || !qp->sq.gated)
		return;
	end = ur_sq_posted(&qp->sq);
	while (c->next != end && pass(qp, ur_sq_slot(&qp->sq, c->next)))
		c->next++;
	show(qp);
}

/* --- what makes requests executable --- */

void ur_cross_completes(struct ur_qp *qp)
{
	struct ur_cross *c = qp->cross;

	if (!c->fenced || ur_sq_head(&qp->sq) + 1 != c->next)
		return;
	c->fenced = false;
	c->wake(qp, qp->lane);
}

bool ur_cross_complete(struct ur_qp *qp, const struct ur_swqe *w,
		       enum ur_wc_status status, uint64_t now_ns)
{
	ur_cross_completes(qp);
	return ur_qp_finish(qp, w, status, now_ns);
}

void ur_cross_reached(struct ur_cq *cq, const struct ur_cqe *cqe)
{
	const struct ur_qp *by = cqe->owner == UR_CQE_QP ? cqe->qp : NULL;

	ur_list_each_safe(struct ur_cross, c, &cq->waiting, node) {
		if (cq->pushed < c->until)
			continue;
		ur_list_del(&c->node);
		c->wake(c->qp, by ? by->lane : NULL);
	}
	cq->waited_for = !ur_list_empty(&cq->waiting);
}

/* --- the end --- */

void ur_cross_end(struct ur_qp *qp)
{
	struct ur_cross *c = qp->cross;

	ur_cross_run(qp);
	c->ended = true;
	c->fenced = false;
	leave_cq(c);
	ur_lock(&c->lock);
	c->qp = NULL;
	ur_unlock(&c->lock);
}

void ur_cross_destroy(struct ur_qp *qp)
{
	struct ur_cross *c = qp->cross;
	uint32_t end = qp->sq.gated ? ur_sq_posted(&qp->sq) : c->next;

	for (; c->next != end; c->next++)
		ur_cross_drop(ur_sq_slot(&qp->sq, c->next));
	qp->cross = NULL;
	put(c);
}
