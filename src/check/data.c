/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations of a context: polling, and what newer calls create. */
#include <infiniband/verbs_exp.h>
#include <stdlib.h>
#include <string.h>

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
static struct ibv_pd *(*real_alloc_parent_domain)(
	struct ibv_context *, struct ibv_parent_domain_init_attr *);
static struct verbs_context_exp real_exp;
static int (*real_start_poll)(struct ibv_cq_ex *, struct ibv_poll_cq_attr *);
static int (*real_next_poll)(struct ibv_cq_ex *);

/* --- completions --- */

static void received(struct urk_object *of, const struct ibv_wc *wc)
{
	pthread_mutex_lock(&of->lock);
	urk_recv_done(of, wc);
	pthread_mutex_unlock(&of->lock);
}

/* A completion at a target of DC. */
static void target_received(const struct ibv_context *context,
			    const struct ibv_wc *wc)
{
	const struct urk_object *dct =
		urk_object_numbered(URK_DCT, context, wc->qp_num);
	struct urk_object *srq =
		dct && !dct->ended ? urk_object_find(URK_SRQ, dct->srq) : NULL;

	if (srq)
		received(srq, wc);
}

/* o: the CQ's, or NULL. */
static void completed(const struct urk_object *o, const struct ibv_cq *cq,
		      const struct ibv_wc *wc)
{
	struct urk_object *qp = urk_object_numbered(URK_QP, cq->context,
						    wc->qp_num),
			  *srq;

	if (!qp || qp->ended) {
		if (!qp)
			target_received(cq->context, wc);
		return;
	}
	if (wc->status == IBV_WC_RNR_RETRY_EXC_ERR)
		urk_find(URK_RNR, qp, NULL, NULL, NULL,
			 "the request with wr_id 0x%llx completed with \"RNR "
			 "retry counter exceeded\"",
			 (unsigned long long)wc->wr_id);
	srq = wc->opcode & IBV_WC_RECV ? urk_object_find(URK_SRQ, qp->srq)
				       : NULL;
	pthread_mutex_lock(&qp->lock);
	if (wc->opcode & IBV_WC_RECV)
		qp->received++;
	/* Another thread may have polled an earlier one, not yet here. */
	if (!(wc->opcode & IBV_WC_RECV))
		urk_send_done(qp, wc, o && !o->shared);
	else if (!srq)
		urk_recv_done(qp, wc);
	pthread_mutex_unlock(&qp->lock);
	if (srq)
		received(srq, wc);
}

void urk_check_overrun(const struct ibv_cq *cq)
{
	const struct urk_object *o = urk_object_find(URK_CQ, cq);

	if (!o) { /* it is about to end */
		urk_lock();
		o = urk_objects();
		while (o && (o->kind != URK_CQ || o->ptr != cq))
			o = o->older;
		urk_unlock();
	}
	if (o && urv_cq(cq)->core.overrun)
		urk_find(URK_CQ_OVERRUN, o, o->made, NULL, NULL,
			 "the queue has %d entries", cq->cqe);
}

static struct urk_object *polled(struct ibv_cq *cq)
{
	struct urk_object *o;
	pid_t last = 0;

	urk_lock();
	o = urk_object_find(URK_CQ, cq);
	if (o) {
		last = o->polled_by;
		o->shared |= last && last != urk_thread();
		o->polled_by = urk_thread();
	}
	urk_unlock();
	if (o && o->single && last && last != urk_thread())
		urk_find(URK_ONE_THREAD, o, NULL, NULL, NULL,
			 "threads %d and %d poll a queue that was made for one",
			 (int)last, (int)urk_thread());
	if (o && urv_cq(cq)->core.overrun)
		urk_check_overrun(cq);
	return o;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = real.poll_cq(cq, n, wc);
	const struct urk_object *o;

	if (!urk_begin())
		return got;
	o = polled(cq);
	for (int i = 0; i < got; i++)
		completed(o, cq, &wc[i]);
	urk_end();
	return got;
}

/* The elements may have fewer fields, or more. */
static int exp_poll_cq(struct ibv_cq *cq, int n, struct ibv_exp_wc *wc,
		       uint32_t size)
{
	int got = real_exp.drv_exp_ibv_poll_cq(cq, n, wc, size);
	const struct urk_object *o;
	struct ibv_exp_wc x;

	if (!urk_begin())
		return got;
	o = polled(cq);
	for (int i = 0; i < got; i++) {
		struct ibv_wc one;

		memset(&x, 0, sizeof(x));
		memcpy(&x, (const uint8_t *)wc + (size_t)i * size,
		       size < sizeof(x) ? size : sizeof(x));
		one = (struct ibv_wc){ .wr_id = x.wr_id,
				       .status = x.status,
				       .opcode =
					       (enum ibv_wc_opcode)x.exp_opcode,
				       .byte_len = x.byte_len,
				       .qp_num = x.qp_num };
		completed(o, cq, &one);
	}
	urk_end();
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

	if (!urk_begin())
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
	urk_end();
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

static void made_cq(struct ibv_cq *cq, bool single)
{
	struct urk_object *o;

	if (!urk_enter())
		return;
	o = urk_object_add(URK_CQ, cq, cq->context, 0);
	if (o)
		o->single = single;
	urk_leave();
}

void urk_cq_made(struct ibv_cq *cq)
{
	made_cq(cq, false);
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
		o->receives->expected = ur_rq_posted(&urv_srq(srq)->core.rq);
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
	const struct urk_object *pd;
	struct urk_object *o;

	if (!urk_enter())
		return;
	urk_wrap_builders(ibqp);
	o = urk_object_add(URK_QP, ibqp, ibqp->context, ibqp->qp_num);
	pd = urk_object_find(URK_PD, ibqp->pd);
	if (o) {
		o->single = pd && pd->single;
		o->srq = ibqp->srq;
	}
	if (o && !qp->target) {
		o->sends = urk_queue_new(qp->core.sq.max_wr);
		o->receives = urk_queue_new(qp->core.rq.max_wr);
		cq_load(ibqp->send_cq, qp->core.sq.max_wr);
		cq_load(ibqp->recv_cq, qp->core.rq.max_wr);
	}
	if (o && o->sends)
		o->sends->expected = ur_sq_posted(&qp->core.sq);
	if (o && o->receives)
		o->receives->expected = ur_rq_posted(&qp->core.rq);
	urk_leave();
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context,
				      struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *ex = real_create_cq_ex(context, attr);

	if (!ex || !urk_on)
		return ex;
	urk_lock();
	if (!real_start_poll) {
		real_next_poll = ex->next_poll;
		real_start_poll = ex->start_poll;
	}
	urk_unlock();
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	made_cq(ibv_cq_ex_to_cq(ex),
		attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
			attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
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

static struct ibv_pd *
alloc_parent_domain(struct ibv_context *context,
		    struct ibv_parent_domain_init_attr *attr)
{
	struct ibv_pd *pd = real_alloc_parent_domain(context, attr);
	struct urk_object *o;

	if (!pd || !urk_enter())
		return pd;
	o = urk_object_add(URK_PD, pd, context, 0);
	if (o)
		o->single = attr->td != NULL;
	urk_leave();
	return pd;
}

/* --- the experimental verbs --- */

static struct ibv_qp *exp_create_qp(struct ibv_context *context,
				    struct ibv_exp_qp_init_attr *attr)
{
	struct ibv_qp *qp = real_exp.lib_exp_create_qp(context, attr);

	if (qp)
		urk_qp_made(qp);
	return qp;
}

static struct ibv_cq *exp_create_cq(struct ibv_context *context, int cqe,
				    struct ibv_comp_channel *channel,
				    int comp_vector,
				    struct ibv_exp_cq_init_attr *attr)
{
	struct ibv_cq *cq = real_exp.exp_create_cq(context, cqe, channel,
						   comp_vector, attr);

	if (cq)
		urk_cq_made(cq);
	return cq;
}

static struct ibv_mr *exp_reg_mr(struct ibv_exp_reg_mr_in *in)
{
	struct ibv_mr *mr = real_exp.lib_exp_reg_mr(in);
	struct ur_mr found;

	if (!mr || ur_mr_peek(urv_context(mr->context)->mrs, mr->lkey, &found))
		return mr;
	return urk_registered(mr, found.access);
}

static struct ibv_exp_dct *exp_create_dct(struct ibv_context *context,
					  struct ibv_exp_dct_init_attr *attr)
{
	struct ibv_exp_dct *dct = real_exp.create_dct(context, attr);
	struct urk_object *o;

	if (dct && urk_enter()) {
		o = urk_object_add(URK_DCT, dct, context, dct->dct_num);
		if (o)
			o->srq = dct->srq;
		urk_leave();
	}
	return dct;
}

static int exp_destroy_dct(struct ibv_exp_dct *dct)
{
	struct urk_object *o = urk_ending(URK_DCT, dct);

	return urk_ended(URK_DCT, dct, o, real_exp.destroy_dct(dct));
}

static void wrap_exp(struct verbs_context_exp *exp)
{
	if (!real_exp.sz)
		real_exp = *exp;
	exp->lib_exp_create_qp = exp_create_qp;
	exp->exp_create_cq = exp_create_cq;
	exp->drv_exp_ibv_poll_cq = exp_poll_cq;
	exp->lib_exp_reg_mr = exp_reg_mr;
	exp->create_dct = exp_create_dct;
	exp->destroy_dct = exp_destroy_dct;
}

void urk_wrap_ops(struct ibv_context *context)
{
	struct verbs_context *v = &urv_context(context)->ibv;
	struct ibv_context_ops *ops = &context->ops;

	if (ops->poll_cq == poll_cq)
		return;
	if (!real.poll_cq) {
		real = *ops;
		real_create_cq_ex = v->create_cq_ex;
		real_create_srq_ex = v->create_srq_ex;
		real_create_qp_ex = v->create_qp_ex;
		real_open_qp = v->open_qp;
		real_alloc_parent_domain = v->alloc_parent_domain;
	}
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
	v->create_cq_ex = create_cq_ex;
	v->create_srq_ex = create_srq_ex;
	v->create_qp_ex = create_qp_ex;
	v->open_qp = open_qp;
	v->alloc_parent_domain = alloc_parent_domain;
	urk_wrap_posts(context);
	wrap_exp(&urv_context(context)->exp);
}
