/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting: ibv_post_send(), its experimental form, the builders, and receives. */
#include <errno.h>
#include <infiniband/verbs_exp.h>

#include "check/internal.h"
#include "verbs/objects.h"

/* All contexts have the same operations, and all queue pairs the same builders. */
static struct ibv_context_ops real;
static int (*real_exp_post_send)(struct ibv_qp *, struct ibv_exp_send_wr *,
				 struct ibv_exp_send_wr **);
static struct {
	void (*start)(struct ibv_qp_ex *);
	int (*complete)(struct ibv_qp_ex *);
	void (*abort)(struct ibv_qp_ex *);
	void (*set_sge_list)(struct ibv_qp_ex *, size_t,
			     const struct ibv_sge *);
	void (*set_inline_data)(struct ibv_qp_ex *, void *, size_t);
	void (*set_inline_data_list)(struct ibv_qp_ex *, size_t,
				     const struct ibv_data_buf *);
} builder;

/* A send request, whichever call posts it. */
struct send {
	uint64_t wr_id;
	uint32_t opcode; /* enum ur_wr_opcode */
	uint32_t flags;	 /* UR_SEND_, of which IBV_SEND_ has the same bits */
	const struct ibv_sge *sge;
	int nsge;
};

/* Requests that are being posted to a queue. */
struct posting {
	struct urk_object *o;
	const struct urk_stack *at;
	uint32_t from;	/* the adapter's counter before */
	uint32_t added; /* to our queue */
};

/* --- the queue --- */

static void check_thread(struct urk_object *o)
{
	pid_t last = o->posted_by;

	o->posted_by = urk_thread();
	if (o->single && last && last != urk_thread())
		urk_find(URK_ONE_THREAD, o, NULL, NULL, NULL,
			 "threads %d and %d post to a queue pair of a thread "
			 "domain",
			 (int)last, (int)urk_thread());
}

/* Were requests posted by other calls?  q is a queue of p->o; p->o is locked. */
static void follow(const struct posting *p, struct urk_queue *q)
{
	check_thread(p->o);
	if (q && q->expected != p->from)
		q->lost = true;
}

/* `tail`: the adapter's counter now. What it has not taken is forgotten. */
static void posted(const struct posting *p, struct urk_queue *q, uint32_t tail)
{
	uint32_t taken = tail - p->from;

	if (!q)
		return;
	if (taken > p->added)
		q->lost = true;
	else
		urk_queue_undo(q, p->added - taken);
	q->expected = tail;
}

static void lock(const struct posting *p)
{
	pthread_mutex_lock(&p->o->lock);
}

static void unlock(const struct posting *p)
{
	pthread_mutex_unlock(&p->o->lock);
}

/* The object's `posting` is locked until close_posting(). False: it is unknown. */
static bool open_posting(struct posting *p, enum urk_kind kind, const void *ptr)
{
	*p = (struct posting){ .o = urk_object_find(kind, ptr) };
	if (!p->o)
		return false;
	p->at = urk_stack_here();
	pthread_mutex_lock(&p->o->posting);
	return true;
}

static void close_posting(const struct posting *p)
{
	pthread_mutex_unlock(&p->o->posting);
}

/* nsge: the list is not looked at if it has none. */
static void check_alive(const struct posting *p, const void *wr,
			const struct ibv_sge *sge, int nsge, uintptr_t here)
{
	if (nsge <= 0)
		sge = NULL;
	if (urk_stack_dead(wr, here) || urk_stack_dead(sge, here))
		urk_find(URK_STACK_LIST, p->o, NULL, NULL, NULL,
			 "the %s at %p is below the stack of the thread",
			 urk_stack_dead(wr, here) ? "request" : "list",
			 urk_stack_dead(wr, here) ? wr : (const void *)sge);
}

/* --- sends --- */

static bool is_executed(const struct ur_qp *core)
{
	enum ur_qp_state s = atomic_load(&core->state);

	return s == UR_QPS_RTS || s == UR_QPS_SQD;
}

static bool is_masked(uint32_t opcode)
{
	return opcode == UR_WR_MASKED_CMP_SWP ||
	       opcode == UR_WR_MASKED_FETCH_ADD;
}

static bool has_list(uint32_t opcode)
{
	return is_masked(opcode) ||
	       (opcode <= UR_WR_TSO && opcode != UR_WR_LOCAL_INV &&
		opcode != UR_WR_BIND_MW);
}

static bool puts_locally(uint32_t opcode)
{
	return is_masked(opcode) || opcode == UR_WR_RDMA_READ ||
	       opcode == UR_WR_CMP_SWP || opcode == UR_WR_FETCH_ADD;
}

/* Programs overwrite the source of a WRITE knowingly: the latest value counts. */
static bool is_compared(uint32_t opcode)
{
	return opcode == UR_WR_SEND || opcode == UR_WR_SEND_IMM ||
	       opcode == UR_WR_SEND_INV ||
	       (urk_options.all && !puts_locally(opcode));
}

static void check_inline(const struct urk_object *o, const struct ur_sq *sq,
			 uint64_t length)
{
	if (length > sq->max_inline)
		urk_find(URK_INLINE_TOO_LONG, o, NULL, NULL, NULL,
			 "%llu bytes, max_inline_data is %u: EINVAL",
			 (unsigned long long)length, sq->max_inline);
}

static void check_sges(const struct urk_object *o, const struct ur_sq *sq,
		       int n)
{
	if (n > 0 && (uint32_t)n > sq->max_sge)
		urk_find(URK_TOO_MANY_SGES, o, NULL, NULL, NULL,
			 "%d elements, max_send_sge is %u: EINVAL", n,
			 sq->max_sge);
}

/* The adapter frees a slot earlier than it has to, and may take more. */
static void check_room(const struct urk_object *o, const struct ur_qp *core)
{
	const struct urk_queue *q = o->sends;

	if (q && is_executed(core) &&
	    urk_queue_none_signaled(q, core->sq.max_wr))
		urk_find(URK_NEVER_SIGNALED, o, NULL, "oldest at",
			 q->ring[q->head & q->mask].posted,
			 "%u requests are outstanding, all that max_send_wr "
			 "permits, and none is signaled: where a slot is free "
			 "only after a completion, this one gets ENOMEM",
			 q->tail - q->head);
}

static void check_sent_receive(const struct urk_object *o,
			       const struct urk_request *r)
{
	const struct urk_request *other =
		o->receives && !o->receives->lost
			? urk_queue_overlap(o->receives, r)
			: NULL;

	if (other)
		urk_find(URK_RECV_SENT, o, NULL, "receive at", other->posted,
			 "0x%llx (%u bytes) overlaps the buffer of a receive",
			 (unsigned long long)r->sge[0].addr, r->sge[0].length);
}

static void add_send(struct posting *p, const struct ur_qp *core,
		     const struct send *s, int nsge)
{
	struct urk_object *o = p->o;
	struct urk_request *r = o->sends ? urk_queue_add(o->sends, s->wr_id,
							 s->sge, nsge, p->at)
					 : NULL;

	p->added++;
	if (!r)
		return;
	urk_send_posted(r, core->sq_sig_all || s->flags & UR_SEND_SIGNALED,
			!puts_locally(s->opcode), is_compared(s->opcode),
			o->received);
	if (urk_options.all && !puts_locally(s->opcode))
		check_sent_receive(o, r);
}

static void check_send(struct posting *p, const struct urv_qp *qp,
		       const struct send *s)
{
	const struct ur_qp *core = &qp->core;
	bool is_inline = s->flags & UR_SEND_INLINE;
	int nsge = is_inline || !has_list(s->opcode) ? 0 : s->nsge;

	if (is_executed(core) && (uint32_t)nsge <= core->sq.max_sge)
		for (int i = 0; i < nsge; i++)
			urk_check_sge(qp->ibv.context, core->pd, &s->sge[i],
				      puts_locally(s->opcode), "send request");
	check_room(p->o, core);
	add_send(p, core, s, nsge);
}

/* With the list as it was given; wr: the program's request. */
static void check_given(struct posting *p, const struct urv_qp *qp,
			const void *wr, const struct send *s, uintptr_t here)
{
	uint64_t length = 0;

	check_alive(p, wr, s->sge, has_list(s->opcode) ? s->nsge : 0, here);
	if (s->flags & UR_SEND_INLINE) {
		for (int i = 0; i < s->nsge; i++)
			length += s->sge[i].length;
		check_inline(p->o, &qp->core.sq, length);
	} else {
		check_sges(p->o, &qp->core.sq, s->nsge);
	}
	check_send(p, qp, s);
}

static void open_sends(struct posting *p, const struct urv_qp *qp)
{
	lock(p);
	p->from = ur_sq_posted(&qp->core.sq);
	follow(p, p->o->sends);
}

static void close_sends(const struct posting *p, const struct urv_qp *qp,
			int rc)
{
	enum ur_qp_state s = atomic_load(&qp->core.state);

	lock(p);
	posted(p, p->o->sends, ur_sq_posted(&qp->core.sq));
	unlock(p);
	if (rc == EINVAL &&
	    (s == UR_QPS_RESET || s == UR_QPS_INIT || s == UR_QPS_RTR))
		urk_find(URK_POST_STATE, p->o, NULL, NULL, NULL,
			 "a send request in %s: EINVAL", ur_qp_state_name(s));
}

static int post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	const struct urv_qp *qp = urv_qp(ibqp);
	struct posting p;
	int rc;

	if (!urk_begin())
		return real.post_send(ibqp, wr, bad);
	if (open_posting(&p, URK_QP, ibqp)) {
		open_sends(&p, qp);
		/* More are not taken, also of a list without end. */
		for (struct ibv_send_wr *w = wr;
		     w && p.added <= qp->core.sq.max_wr; w = w->next) {
			const struct send s = { w->wr_id, w->opcode,
						w->send_flags, w->sg_list,
						w->num_sge };

			check_given(&p, qp, w, &s, here);
		}
		unlock(&p);
	}
	rc = real.post_send(ibqp, wr, bad);
	if (p.o) {
		close_sends(&p, qp, rc);
		close_posting(&p);
	}
	urk_end();
	return rc;
}

/* Of what the adapter has a number for; the others have no list. */
static uint32_t opcode_of(const struct ibv_exp_send_wr *wr)
{
	if (wr->exp_opcode <= IBV_EXP_WR_SEND_WITH_INV)
		return (uint32_t)wr->exp_opcode;
	if (wr->exp_opcode == IBV_EXP_WR_TSO)
		return UR_WR_TSO;
	if (wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP)
		return UR_WR_MASKED_CMP_SWP;
	if (wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD)
		return UR_WR_MASKED_FETCH_ADD;
	return UR_WR_NOP;
}

static int exp_post_send(struct ibv_qp *ibqp, struct ibv_exp_send_wr *wr,
			 struct ibv_exp_send_wr **bad)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	const struct urv_qp *qp = urv_qp(ibqp);
	struct posting p;
	int rc;

	if (!urk_begin())
		return real_exp_post_send(ibqp, wr, bad);
	if (open_posting(&p, URK_QP, ibqp)) {
		open_sends(&p, qp);
		for (struct ibv_exp_send_wr *w = wr;
		     w && p.added <= qp->core.sq.max_wr; w = w->next) {
			const struct send s = { w->wr_id, opcode_of(w),
						(uint32_t)w->exp_send_flags,
						w->sg_list, w->num_sge };

			check_given(&p, qp, w, &s, here);
		}
		unlock(&p);
	}
	rc = real_exp_post_send(ibqp, wr, bad);
	if (p.o) {
		close_sends(&p, qp, rc);
		close_posting(&p);
	}
	urk_end();
	return rc;
}

/* --- builders --- */

/* From here to wr_complete or wr_abort the adapter has its queue locked, and we
 * `posting`; the program may call others meanwhile. */
static void wr_start(struct ibv_qp_ex *ex)
{
	struct posting p;

	if (!urk_begin()) {
		builder.start(ex);
		return;
	}
	(void)open_posting(&p, URK_QP, &ex->qp_base);
	builder.start(ex);
	urk_end();
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct urk_object *o;

	builder.abort(ex);
	if (!urk_begin())
		return;
	o = urk_object_find(URK_QP, &ex->qp_base);
	if (o)
		pthread_mutex_unlock(&o->posting);
	urk_end();
}

/* What the builders have made of the calls is in the adapter's queue. */
static void check_staged(struct posting *p, const struct urv_qp *qp)
{
	const struct ur_sq *sq = &qp->core.sq;

	_Static_assert(sizeof(struct ur_sge) == sizeof(struct ibv_sge) &&
			       offsetof(struct ur_sge, lkey) ==
				       offsetof(struct ibv_sge, lkey),
		       "ur_sge");
	open_sends(p, qp);
	for (uint32_t i = p->from; i != sq->staged; i++) {
		const struct ur_swqe *w = ur_sq_slot(sq, i);
		const struct send s = {
			w->wr_id, w->opcode, w->flags,
			(const struct ibv_sge *)(const void *)w->data.sge,
			w->num_sge
		};

		check_send(p, qp, &s);
	}
	if (qp->wr_error == ENOMEM)
		check_room(p->o, &qp->core);
	unlock(p);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	const struct urv_qp *qp = urv_qp(&ex->qp_base);
	struct posting p = { .o = NULL };
	int rc;

	if (!urk_begin())
		return builder.complete(ex);
	p.o = urk_object_find(URK_QP, &ex->qp_base);
	if (p.o) {
		p.at = urk_stack_here();
		check_staged(&p, qp);
	}
	rc = builder.complete(ex);
	if (p.o) {
		close_sends(&p, qp, rc);
		close_posting(&p);
	}
	urk_end();
	return rc;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n,
			    const struct ibv_sge *list)
{
	const struct urv_qp *qp = urv_qp(&ex->qp_base);
	const struct urk_object *o;

	if (n > qp->core.sq.max_sge && n <= INT32_MAX && urk_begin()) {
		o = urk_object_find(URK_QP, &ex->qp_base);
		check_sges(o, &qp->core.sq, (int)n);
		urk_end();
	}
	builder.set_sge_list(ex, n, list);
}

static void check_inline_data(struct ibv_qp_ex *ex, uint64_t length)
{
	const struct urv_qp *qp = urv_qp(&ex->qp_base);

	if (length <= qp->core.sq.max_inline || !urk_begin())
		return;
	check_inline(urk_object_find(URK_QP, &ex->qp_base), &qp->core.sq,
		     length);
	urk_end();
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	check_inline_data(ex, length);
	builder.set_inline_data(ex, addr, length);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
				    const struct ibv_data_buf *list)
{
	uint64_t length = 0;

	for (size_t i = 0; i < n; i++)
		length += list[i].length;
	check_inline_data(ex, length);
	builder.set_inline_data_list(ex, n, list);
}

void urk_wrap_builders(struct ibv_qp *ibqp)
{
	struct ibv_qp_ex *ex = &urv_qp(ibqp)->ex;

	if (!urv_qp(ibqp)->has_builders || ex->wr_start == wr_start)
		return;
	if (!builder.start) {
		builder.complete = ex->wr_complete;
		builder.abort = ex->wr_abort;
		builder.set_sge_list = ex->wr_set_sge_list;
		builder.set_inline_data = ex->wr_set_inline_data;
		builder.set_inline_data_list = ex->wr_set_inline_data_list;
		builder.start = ex->wr_start;
	}
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
}

/* --- receives --- */

static void add_recv(struct posting *p, const struct ibv_recv_wr *wr)
{
	struct urk_object *o = p->o;
	const struct urk_request *other;
	struct urk_request *r = NULL;

	p->added++;
	if (o->receives)
		r = urk_queue_add(o->receives, wr->wr_id, wr->sg_list,
				  wr->num_sge, p->at);
	other = r && urk_options.all ? urk_queue_overlap(o->receives, r) : NULL;
	if (other)
		urk_find(URK_RECV_OVERLAP, o, NULL, "other at", other->posted,
			 "0x%llx (%u bytes) is posted already",
			 (unsigned long long)r->sge[0].addr, r->sge[0].length);
}

static void check_recvs(struct posting *p, const struct ibv_context *context,
			const struct ur_pd *pd, const struct ur_rq *rq,
			const struct ibv_recv_wr *wr, uintptr_t here)
{
	for (; wr && p->added <= rq->max_wr; wr = wr->next) {
		check_alive(p, wr, wr->sg_list, wr->num_sge, here);
		if (wr->num_sge > 0 && (uint32_t)wr->num_sge > rq->max_sge)
			urk_find(URK_TOO_MANY_SGES, p->o, NULL, NULL, NULL,
				 "%d elements, max_recv_sge is %u: EINVAL",
				 wr->num_sge, rq->max_sge);
		for (int i = 0; i < wr->num_sge; i++)
			urk_check_sge(context, pd, &wr->sg_list[i], true,
				      "receive");
		add_recv(p, wr);
	}
}

static void open_recvs(struct posting *p, const struct ur_rq *rq)
{
	lock(p);
	p->from = ur_rq_posted(rq);
	follow(p, p->o->receives);
}

static void close_recvs(const struct posting *p, const struct ur_rq *rq)
{
	lock(p);
	posted(p, p->o->receives, ur_rq_posted(rq));
	unlock(p);
}

static int post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	const struct ur_qp *core = &urv_qp(ibqp)->core;
	enum ur_qp_state s;
	struct posting p;
	int rc;

	if (!urk_begin())
		return real.post_recv(ibqp, wr, bad);
	s = atomic_load(&core->state);
	if (open_posting(&p, URK_QP, ibqp)) {
		open_recvs(&p, &core->rq);
		if (s != UR_QPS_ERR && s != UR_QPS_RESET)
			check_recvs(&p, ibqp->context, core->pd, &core->rq, wr,
				    here);
		else if (p.o->receives)
			p.o->receives->lost = true;
		unlock(&p);
	}
	rc = real.post_recv(ibqp, wr, bad);
	if (p.o) {
		close_recvs(&p, &core->rq);
		close_posting(&p);
	}
	if (p.o && rc == EINVAL && s == UR_QPS_RESET)
		urk_find(URK_POST_STATE, p.o, NULL, NULL, NULL,
			 "a receive in RESET: EINVAL");
	urk_end();
	return rc;
}

static int post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	const struct ur_srq *core = &urv_srq(ibsrq)->core;
	struct posting p;
	int rc;

	if (!urk_begin())
		return real.post_srq_recv(ibsrq, wr, bad);
	if (open_posting(&p, URK_SRQ, ibsrq)) {
		open_recvs(&p, &core->rq);
		check_recvs(&p, ibsrq->context, core->pd, &core->rq, wr, here);
		unlock(&p);
	}
	rc = real.post_srq_recv(ibsrq, wr, bad);
	if (p.o) {
		close_recvs(&p, &core->rq);
		close_posting(&p);
	}
	urk_end();
	return rc;
}

void urk_wrap_posts(struct ibv_context *context)
{
	struct verbs_context_exp *exp = &urv_context(context)->exp;
	struct ibv_context_ops *ops = &context->ops;

	if (!real.post_send) {
		real = *ops;
		real_exp_post_send = exp->drv_exp_post_send;
	}
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	ops->post_srq_recv = post_srq_recv;
	exp->drv_exp_post_send = exp_post_send;
}
