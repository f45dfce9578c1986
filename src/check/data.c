/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations of a context: posting, polling, and what newer calls create. */
#include <errno.h>
#include <stdlib.h>

#include "check/internal.h"
#include "verbs/objects.h"

/* All contexts have the same operations. */
static struct ibv_context_ops real;
static struct ibv_cq_ex *(*real_create_cq_ex)(struct ibv_context *,
					      struct ibv_cq_init_attr_ex *);
static struct ibv_srq *(*real_create_srq_ex)(struct ibv_context *,
					     struct ibv_srq_init_attr_ex *);
static struct ibv_qp *(*real_create_qp_ex)(struct ibv_context *,
					   struct ibv_qp_init_attr_ex *);
static struct ibv_qp *(*real_open_qp)(struct ibv_context *,
				      struct ibv_qp_open_attr *);
static int (*real_start_poll)(struct ibv_cq_ex *, struct ibv_poll_cq_attr *);
static int (*real_next_poll)(struct ibv_cq_ex *);

/* --- memory of a request --- */

static void no_region(const struct ibv_context *context, uint32_t key,
		      const char *what)
{
	const struct urk_object *o = urk_object_numbered(URK_MR, context, key);

	if (o && o->ended) {
		urk_find(URK_MR_DEREGISTERED, o, NULL, NULL, NULL,
			 "lkey 0x%x of a %s", key, what);
		return;
	}
	o = urk_object_numbered(URK_MR, NULL, key);
	if (o && !o->ended)
		urk_find(URK_MR_UNKNOWN, o, NULL, NULL, NULL,
			 "lkey 0x%x of a %s is of a region of another context "
			 "or device",
			 key, what);
	else
		urk_find(URK_MR_UNKNOWN, NULL, NULL, NULL, NULL,
			 "no region has the lkey 0x%x of a %s", key, what);
}

static void check_sge(const struct ibv_context *context, const struct ur_pd *pd,
		      const struct ibv_sge *s, bool writes, const char *what)
{
	const struct urk_object *o;
	struct ur_mr mr;

	if (!s->length)
		return;
	if (ur_mr_peek(urv_context(context)->mrs, s->lkey, &mr)) {
		no_region(context, s->lkey, what);
		return;
	}
	o = urk_object_numbered(URK_MR, context, s->lkey);
	if (mr.pd != pd)
		urk_find(URK_MR_WRONG_PD, o, NULL, NULL, NULL,
			 "lkey 0x%x of a %s is of PD %u, the queue of PD %u",
			 s->lkey, what, mr.pd->handle, pd ? pd->handle : 0);
	else if (mr.kind != UR_MR_MEMORY && mr.kind != UR_MR_FOREIGN)
		return;
	else if (s->addr < mr.iova || s->length > mr.length ||
		 s->addr - mr.iova > mr.length - s->length)
		urk_find(URK_MR_RANGE, o, NULL, NULL, NULL,
			 "a %s has 0x%llx (%u bytes), its region 0x%llx (%llu "
			 "bytes)",
			 what, (unsigned long long)s->addr, s->length,
			 (unsigned long long)mr.iova,
			 (unsigned long long)mr.length);
	else if (writes && !(mr.access & IBV_ACCESS_LOCAL_WRITE))
		urk_find(URK_MR_NO_LOCAL_WRITE, o, NULL, NULL, NULL,
			 "a %s puts data there, access is 0x%x", what,
			 mr.access);
}

/* --- sends --- */

static bool is_executed(const struct ur_qp *core)
{
	enum ur_qp_state s = atomic_load(&core->state);

	return s == UR_QPS_RTS || s == UR_QPS_SQD;
}

static bool has_list(const struct ibv_send_wr *wr)
{
	return wr->opcode != IBV_WR_LOCAL_INV && wr->opcode != IBV_WR_BIND_MW;
}

static bool puts_locally(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_RDMA_READ ||
	       wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Programs overwrite the source of a WRITE knowingly: the latest value counts. */
static bool is_compared(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_SEND ||
	       wr->opcode == IBV_WR_SEND_WITH_IMM ||
	       wr->opcode == IBV_WR_SEND_WITH_INV ||
	       (urk_options.all && !puts_locally(wr));
}

static void check_inline(const struct urk_object *o, const struct ur_sq *sq,
			 const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (length > sq->max_inline)
		urk_find(URK_INLINE_TOO_LONG, o, NULL, NULL, NULL,
			 "%llu bytes, max_inline_data is %u: EINVAL",
			 (unsigned long long)length, sq->max_inline);
}

/* The adapter frees a slot earlier than it has to, and may take more. */
static void check_room(const struct urk_object *o, const struct ur_qp *core)
{
	const struct urk_queue *q = o->sends;

	if (is_executed(core) && urk_queue_none_signaled(q, core->sq.max_wr))
		urk_find(URK_NEVER_SIGNALED, o, NULL, "oldest at",
			 q->ring[q->head & q->mask].posted,
			 "%u requests are outstanding, all that max_send_wr "
			 "permits, and none is signaled: where a slot is free "
			 "only after a completion, this one gets ENOMEM",
			 q->tail - q->head);
}

static void check_send(struct urk_object *o, const struct urv_qp *qp,
		       const struct ibv_send_wr *wr)
{
	const struct ur_qp *core = &qp->core;
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;
	struct urk_request *r = NULL;

	if (is_inline)
		check_inline(o, &core->sq, wr);
	else if (wr->num_sge > 0 && (uint32_t)wr->num_sge > core->sq.max_sge)
		urk_find(URK_TOO_MANY_SGES, o, NULL, NULL, NULL,
			 "%d elements, max_send_sge is %u: EINVAL", wr->num_sge,
			 core->sq.max_sge);
	else if (is_executed(core) && has_list(wr))
		for (int i = 0; i < wr->num_sge; i++)
			check_sge(qp->ibv.context, core->pd, &wr->sg_list[i],
				  puts_locally(wr), "send request");
	if (o->sends)
		check_room(o, core);
	if (o->sends)
		r = urk_queue_add(o->sends, wr->wr_id, wr->sg_list,
				  is_inline || !has_list(wr) ? 0 : wr->num_sge);
	if (r)
		urk_send_posted(
			r,
			core->sq_sig_all || wr->send_flags & IBV_SEND_SIGNALED,
			!puts_locally(wr), is_compared(wr), o->received);
}

static void check_send_result(const struct urk_object *o,
			      const struct urv_qp *qp, int rc)
{
	enum ur_qp_state s = atomic_load(&qp->core.state);

	if (rc == EINVAL &&
	    (s == UR_QPS_RESET || s == UR_QPS_INIT || s == UR_QPS_RTR))
		urk_find(URK_POST_STATE, o, NULL, NULL, NULL,
			 "a send request in %s: EINVAL", ur_qp_state_name(s));
}

/* Were requests posted by other calls? */
static void follow(struct urk_queue *q, uint32_t tail)
{
	if (q && q->expected != tail)
		q->lost = true;
}

/* The lock is held: other threads' posts come before or after all of it. */
static int post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	const struct urv_qp *qp = urv_qp(ibqp);
	struct urk_object *o;
	uint32_t refused = 0;
	int rc;

	if (!urk_enter())
		return real.post_send(ibqp, wr, bad);
	o = urk_object_find(URK_QP, ibqp);
	if (o) {
		follow(o->sends, atomic_load(&qp->core.sq.tail));
		for (struct ibv_send_wr *w = wr; w; w = w->next)
			check_send(o, qp, w);
	}
	rc = real.post_send(ibqp, wr, bad);
	for (struct ibv_send_wr *w = rc ? *bad : NULL; w; w = w->next)
		refused++;
	if (o && o->sends) {
		urk_queue_undo(o->sends, refused);
		o->sends->expected = atomic_load(&qp->core.sq.tail);
	}
	if (o && rc)
		check_send_result(o, qp, rc);
	urk_leave();
	return rc;
}

/* --- receives --- */

static void check_recv(struct urk_object *o, const struct ibv_context *context,
		       const struct ur_pd *pd, const struct ur_rq *rq,
		       const struct ibv_recv_wr *wr)
{
	const struct urk_request *other;
	struct urk_request *r = NULL;

	if (wr->num_sge > 0 && (uint32_t)wr->num_sge > rq->max_sge)
		urk_find(URK_TOO_MANY_SGES, o, NULL, NULL, NULL,
			 "%d elements, max_recv_sge is %u: EINVAL", wr->num_sge,
			 rq->max_sge);
	for (int i = 0; i < wr->num_sge; i++)
		check_sge(context, pd, &wr->sg_list[i], true, "receive");
	if (o->receives)
		r = urk_queue_add(o->receives, wr->wr_id, wr->sg_list,
				  wr->num_sge);
	other = r && urk_options.all ? urk_queue_overlap(o->receives, r) : NULL;
	if (other)
		urk_find(URK_RECV_OVERLAP, o, NULL, "other at", other->posted,
			 "0x%llx (%u bytes) is posted already",
			 (unsigned long long)r->sge[0].addr, r->sge[0].length);
}

static void receives_posted(struct urk_object *o, const struct ur_rq *rq,
			    const struct ibv_recv_wr *refused)
{
	uint32_t n = 0;

	for (; refused; refused = refused->next)
		n++;
	if (!o || !o->receives)
		return;
	urk_queue_undo(o->receives, n);
	o->receives->expected = atomic_load(&rq->tail);
}

static int post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	const struct ur_qp *core = &urv_qp(ibqp)->core;
	enum ur_qp_state s;
	struct urk_object *o;
	int rc;

	if (!urk_enter())
		return real.post_recv(ibqp, wr, bad);
	o = urk_object_find(URK_QP, ibqp);
	s = atomic_load(&core->state);
	if (o && s != UR_QPS_ERR && s != UR_QPS_RESET) {
		follow(o->receives, atomic_load(&core->rq.tail));
		for (struct ibv_recv_wr *w = wr; w; w = w->next)
			check_recv(o, ibqp->context, core->pd, &core->rq, w);
	} else if (o && o->receives) {
		o->receives->lost = true;
	}
	rc = real.post_recv(ibqp, wr, bad);
	receives_posted(o, &core->rq, rc ? *bad : NULL);
	if (o && rc == EINVAL && s == UR_QPS_RESET)
		urk_find(URK_POST_STATE, o, NULL, NULL, NULL,
			 "a receive in RESET: EINVAL");
	urk_leave();
	return rc;
}

static int post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	const struct ur_srq *core = &urv_srq(ibsrq)->core;
	struct urk_object *o;
	int rc;

	if (!urk_enter())
		return real.post_srq_recv(ibsrq, wr, bad);
	o = urk_object_find(URK_SRQ, ibsrq);
	if (o) {
		follow(o->receives, atomic_load(&core->rq.tail));
		for (struct ibv_recv_wr *w = wr; w; w = w->next)
			check_recv(o, ibsrq->context, core->pd, &core->rq, w);
	}
	rc = real.post_srq_recv(ibsrq, wr, bad);
	receives_posted(o, &core->rq, rc ? *bad : NULL);
	urk_leave();
	return rc;
}

/* --- completions --- */

/* o: the CQ's, or NULL. */
static void completed(const struct urk_object *o, const struct ibv_cq *cq,
		      const struct ibv_wc *wc)
{
	struct urk_object *qp = urk_object_numbered(URK_QP, cq->context,
						    wc->qp_num),
			  *srq;

	if (!qp || qp->ended)
		return;
	if (wc->status == IBV_WC_RNR_RETRY_EXC_ERR)
		urk_find(URK_RNR, qp, NULL, NULL, NULL,
			 "the request with wr_id 0x%llx completed with \"RNR "
			 "retry counter exceeded\"",
			 (unsigned long long)wc->wr_id);
	if (!(wc->opcode & IBV_WC_RECV)) {
		/* Another thread may have polled an earlier one, not yet here. */
		urk_send_done(qp, wc, o && !o->shared);
		return;
	}
	qp->received++;
	srq = urk_object_find(URK_SRQ, ((const struct ibv_qp *)qp->ptr)->srq);
	urk_recv_done(srq ? srq : qp, wc);
}

void urk_check_overrun(const struct ibv_cq *cq)
{
	const struct urk_object *o = urk_object_find(URK_CQ, cq);

	if (!o)
		o = urk_objects(); /* it is about to end */
	while (o && (o->kind != URK_CQ || o->ptr != cq))
		o = o->older;
	if (o && urv_cq(cq)->core.overrun)
		urk_find(URK_CQ_OVERRUN, o, o->made, NULL, NULL,
			 "the queue has %d entries", cq->cqe);
}

static struct urk_object *polled(struct ibv_cq *cq)
{
	struct urk_object *o = urk_object_find(URK_CQ, cq);

	if (o) {
		o->shared |= o->polled_by && o->polled_by != urk_thread();
		o->polled_by = urk_thread();
	}
	if (o && urv_cq(cq)->core.overrun)
		urk_check_overrun(cq);
	return o;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = real.poll_cq(cq, n, wc);
	const struct urk_object *o;

	if (!urk_enter())
		return got;
	o = polled(cq);
	for (int i = 0; i < got; i++)
		completed(o, cq, &wc[i]);
	urk_leave();
	return got;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	struct urk_object *o;

	if (urk_enter()) {
		o = urk_object_find(URK_CQ, cq);
		if (o)
			o->armed_by = urk_thread();
		urk_leave();
	}
	return real.req_notify_cq(cq, solicited);
}

static int taken(struct ibv_cq_ex *ex, int rc)
{
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);
	const struct ur_cqe *e = &urv_cq(cq)->current;
	const struct urk_object *o;
	struct ibv_wc wc;

	if (!urk_enter())
		return rc;
	o = polled(cq);
	if (!rc) {
		wc = (struct ibv_wc){ .wr_id = e->wr_id,
				      .status = (enum ibv_wc_status)e->status,
				      .opcode = (enum ibv_wc_opcode)e->opcode,
				      .byte_len = e->byte_len,
				      .qp_num = e->qpn };
		completed(o, cq, &wc);
	}
	urk_leave();
	return rc;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	return taken(ex, real_start_poll(ex, attr));
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return taken(ex, real_next_poll(ex));
}

/* --- made --- */

void urk_cq_made(struct ibv_cq *cq)
{
	if (!urk_enter())
		return;
	urk_object_add(URK_CQ, cq, cq->context, 0);
	urk_leave();
}

void urk_srq_made(struct ibv_srq *srq)
{
	struct urk_object *o;

	if (!urk_enter())
		return;
	o = urk_object_add(URK_SRQ, srq, srq->context, 0);
	if (o)
		o->receives = urk_queue_new(urv_srq(srq)->core.rq.max_wr);
	if (o && o->receives)
		o->receives->expected =
			atomic_load(&urv_srq(srq)->core.rq.tail);
	urk_leave();
}

static void cq_load(const struct ibv_cq *cq, uint32_t requests)
{
	struct urk_object *o = cq ? urk_object_find(URK_CQ, cq) : NULL;

	if (!o)
		return;
	o->may_complete += requests;
	if (o->may_complete > (uint64_t)cq->cqe)
		urk_find(URK_CQ_SMALL, o, NULL, NULL, NULL,
			 "%d entries, %llu requests may be outstanding",
			 cq->cqe, (unsigned long long)o->may_complete);
}

void urk_qp_made(struct ibv_qp *ibqp)
{
	const struct urv_qp *qp = urv_qp(ibqp);
	struct urk_object *o;

	if (!urk_enter())
		return;
	o = urk_object_add(URK_QP, ibqp, ibqp->context, ibqp->qp_num);
	if (o && !qp->target) {
		o->sends = urk_queue_new(qp->core.sq.max_wr);
		o->receives = urk_queue_new(qp->core.rq.max_wr);
		cq_load(ibqp->send_cq, qp->core.sq.max_wr);
		cq_load(ibqp->recv_cq, qp->core.rq.max_wr);
	}
	if (o && o->sends)
		o->sends->expected = atomic_load(&qp->core.sq.tail);
	if (o && o->receives)
		o->receives->expected = atomic_load(&qp->core.rq.tail);
	urk_leave();
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context,
				      struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *ex = real_create_cq_ex(context, attr);

	if (!ex || !urk_on)
		return ex;
	real_start_poll = ex->start_poll;
	real_next_poll = ex->next_poll;
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	urk_cq_made(ibv_cq_ex_to_cq(ex));
	return ex;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context,
				     struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq *srq = real_create_srq_ex(context, attr);

	if (srq)
		urk_srq_made(srq);
	return srq;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context,
				   struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = real_create_qp_ex(context, attr);

	if (qp)
		urk_qp_made(qp);
	return qp;
}

static struct ibv_qp *open_qp(struct ibv_context *context,
			      struct ibv_qp_open_attr *attr)
{
	struct ibv_qp *qp = real_open_qp(context, attr);

	if (qp)
		urk_qp_made(qp);
	return qp;
}

void urk_wrap_ops(struct ibv_context *context)
{
	struct verbs_context *v = &urv_context(context)->ibv;
	struct ibv_context_ops *ops = &context->ops;

	if (ops->post_send == post_send)
		return;
	real = *ops;
	real_create_cq_ex = v->create_cq_ex;
	real_create_srq_ex = v->create_srq_ex;
	real_create_qp_ex = v->create_qp_ex;
	real_open_qp = v->open_qp;
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	ops->post_srq_recv = post_srq_recv;
	v->create_cq_ex = create_cq_ex;
	v->create_srq_ex = create_srq_ex;
	v->create_qp_ex = create_qp_ex;
	v->open_qp = open_qp;
}
