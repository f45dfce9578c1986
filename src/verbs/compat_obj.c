/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects of IBVERBS_1.0 and their events. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/compat.h"
#include "verbs/convert.h"
#include "verbs/exports.h"
#include "verbs/objects.h"

#undef ibv_reg_mr

#define OLD(name) URV_EXPORT_OLD(urv_old_##name, ibv_##name, "IBVERBS_1.0")

struct old_pd *urv_old_alloc_pd(struct old_context *c);
int urv_old_dealloc_pd(struct old_pd *pd);
struct old_mr *urv_old_reg_mr(struct old_pd *pd, void *addr, size_t length,
			      int access);
int urv_old_dereg_mr(struct old_mr *mr);
struct old_ah *urv_old_create_ah(struct old_pd *pd, struct ibv_ah_attr *attr);
int urv_old_destroy_ah(struct old_ah *ah);
struct old_cq *urv_old_create_cq(struct old_context *c, int cqe,
				 void *cq_context,
				 struct ibv_comp_channel *channel, int vector);
int urv_old_resize_cq(struct old_cq *cq, int cqe);
int urv_old_destroy_cq(struct old_cq *cq);
int urv_old_get_cq_event(struct ibv_comp_channel *channel, struct old_cq **cq,
			 void **cq_context);
void urv_old_ack_cq_events(struct old_cq *cq, unsigned int n);
struct old_srq *urv_old_create_srq(struct old_pd *pd,
				   struct ibv_srq_init_attr *init);
int urv_old_modify_srq(struct old_srq *srq, struct ibv_srq_attr *attr,
		       int mask);
int urv_old_query_srq(struct old_srq *srq, struct ibv_srq_attr *attr);
int urv_old_destroy_srq(struct old_srq *srq);
struct old_qp *urv_old_create_qp(struct old_pd *pd,
				 struct old_qp_init_attr *init);
int urv_old_query_qp(struct old_qp *qp, struct ibv_qp_attr *attr, int mask,
		     struct old_qp_init_attr *init);
int urv_old_modify_qp(struct old_qp *qp, struct ibv_qp_attr *attr, int mask);
int urv_old_destroy_qp(struct old_qp *qp);
int urv_old_attach_mcast(struct old_qp *qp, union ibv_gid *gid, uint16_t lid);
int urv_old_detach_mcast(struct old_qp *qp, union ibv_gid *gid, uint16_t lid);
int urv_old_get_async_event(struct old_context *c,
			    struct ibv_async_event *event);
void urv_old_ack_async_event(struct ibv_async_event *event);

OLD(alloc_pd);
OLD(dealloc_pd);
OLD(reg_mr);
OLD(dereg_mr);
OLD(create_ah);
OLD(destroy_ah);
OLD(create_cq);
OLD(resize_cq);
OLD(destroy_cq);
OLD(get_cq_event);
OLD(ack_cq_events);
OLD(create_srq);
OLD(modify_srq);
OLD(query_srq);
OLD(destroy_srq);
OLD(create_qp);
OLD(query_qp);
OLD(modify_qp);
OLD(destroy_qp);
OLD(attach_mcast);
OLD(detach_mcast);
OLD(get_async_event);
OLD(ack_async_event);

/* The wrapper is allocated before the object; NULL: neither exists. */
#define KEEP(shell, made)                                                      \
	do {                                                                   \
		(shell)->real = (made);                                        \
		if (!(shell)->real) {                                          \
			free(shell);                                           \
			return NULL;                                           \
		}                                                              \
	} while (0)

/* Destroys an object, or returns the error. */
#define END(object, destroy)                                                   \
	do {                                                                   \
		int rc_ = destroy((object)->real);                             \
		if (rc_)                                                       \
			return rc_;                                            \
		free(object);                                                  \
		return 0;                                                      \
	} while (0)

struct old_pd *urv_old_alloc_pd(struct old_context *c)
{
	struct old_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return urv_null(-ENOMEM);
	KEEP(pd, ibv_alloc_pd(c->real));
	pd->context = c;
	pd->handle = pd->real->handle;
	return pd;
}

int urv_old_dealloc_pd(struct old_pd *pd)
{
	END(pd, ibv_dealloc_pd);
}

struct old_mr *urv_old_reg_mr(struct old_pd *pd, void *addr, size_t length,
			      int access)
{
	struct old_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return urv_null(-ENOMEM);
	KEEP(mr, ibv_reg_mr(pd->real, addr, length, access));
	mr->context = pd->context;
	mr->pd = pd;
	mr->handle = mr->real->handle;
	mr->lkey = mr->real->lkey;
	mr->rkey = mr->real->rkey;
	return mr;
}

int urv_old_dereg_mr(struct old_mr *mr)
{
	END(mr, ibv_dereg_mr);
}

struct old_ah *urv_old_create_ah(struct old_pd *pd, struct ibv_ah_attr *attr)
{
	struct old_ah *ah = calloc(1, sizeof(*ah));

	if (!ah)
		return urv_null(-ENOMEM);
	KEEP(ah, ibv_create_ah(pd->real, attr));
	ah->context = pd->context;
	ah->pd = pd;
	ah->handle = ah->real->handle;
	return ah;
}

int urv_old_destroy_ah(struct old_ah *ah)
{
	END(ah, ibv_destroy_ah);
}

struct old_cq *urv_old_create_cq(struct old_context *c, int cqe,
				 void *cq_context,
				 struct ibv_comp_channel *channel, int vector)
{
	struct old_cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return urv_null(-ENOMEM);
	KEEP(cq, ibv_create_cq(c->real, cqe, cq, channel, vector));
	cq->context = c;
	cq->cq_context = cq_context;
	cq->handle = cq->real->handle;
	cq->cqe = cq->real->cqe;
	return cq;
}

int urv_old_resize_cq(struct old_cq *cq, int cqe)
{
	int rc = ibv_resize_cq(cq->real, cqe);

	cq->cqe = cq->real->cqe;
	return rc;
}

int urv_old_destroy_cq(struct old_cq *cq)
{
	END(cq, ibv_destroy_cq);
}

int urv_old_get_cq_event(struct ibv_comp_channel *channel, struct old_cq **cq,
			 void **cq_context)
{
	struct ibv_cq *real;
	void *shell;
	int rc = ibv_get_cq_event(channel, &real, &shell);

	if (rc)
		return rc;
	*cq = shell;
	*cq_context = (*cq)->cq_context;
	return 0;
}

void urv_old_ack_cq_events(struct old_cq *cq, unsigned int n)
{
	ibv_ack_cq_events(cq->real, n);
}

struct old_srq *urv_old_create_srq(struct old_pd *pd,
				   struct ibv_srq_init_attr *init)
{
	struct old_srq *srq = calloc(1, sizeof(*srq));
	struct ibv_srq_init_attr attr = *init;

	if (!srq)
		return urv_null(-ENOMEM);
	attr.srq_context = srq;
	KEEP(srq, ibv_create_srq(pd->real, &attr));
	init->attr = attr.attr;
	srq->context = pd->context;
	srq->srq_context = init->srq_context;
	srq->pd = pd;
	srq->handle = srq->real->handle;
	return srq;
}

int urv_old_modify_srq(struct old_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return ibv_modify_srq(srq->real, attr, mask);
}

int urv_old_query_srq(struct old_srq *srq, struct ibv_srq_attr *attr)
{
	return ibv_query_srq(srq->real, attr);
}

int urv_old_destroy_srq(struct old_srq *srq)
{
	END(srq, ibv_destroy_srq);
}

static struct ibv_qp *make_qp(struct old_qp *qp, struct old_pd *pd,
			      struct old_qp_init_attr *init)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = qp,
		.send_cq = init->send_cq ? init->send_cq->real : NULL,
		.recv_cq = init->recv_cq ? init->recv_cq->real : NULL,
		.srq = init->srq ? init->srq->real : NULL,
		.cap = init->cap,
		.qp_type = init->qp_type,
		.sq_sig_all = init->sq_sig_all,
	};
	struct ibv_qp *real = ibv_create_qp(pd->real, &attr);

	if (real)
		init->cap = attr.cap;
	return real;
}

struct old_qp *urv_old_create_qp(struct old_pd *pd,
				 struct old_qp_init_attr *init)
{
	struct old_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return urv_null(-ENOMEM);
	KEEP(qp, make_qp(qp, pd, init));
	qp->context = pd->context;
	qp->qp_context = init->qp_context;
	qp->pd = pd;
	qp->send_cq = init->send_cq;
	qp->recv_cq = init->recv_cq;
	qp->srq = init->srq;
	qp->handle = qp->real->handle;
	qp->qp_num = qp->real->qp_num;
	qp->state = qp->real->state;
	qp->qp_type = init->qp_type;
	return qp;
}

int urv_old_query_qp(struct old_qp *qp, struct ibv_qp_attr *attr, int mask,
		     struct old_qp_init_attr *init)
{
	struct ibv_qp_init_attr now;
	int rc = ibv_query_qp(qp->real, attr, mask, &now);

	if (rc)
		return rc;
	if (mask & IBV_QP_STATE)
		qp->state = qp->real->state;
	*init = (struct old_qp_init_attr){
		.qp_context = qp->qp_context,
		.send_cq = qp->send_cq,
		.recv_cq = qp->recv_cq,
		.srq = qp->srq,
		.cap = now.cap,
		.qp_type = qp->qp_type,
		.sq_sig_all = now.sq_sig_all,
	};
	return 0;
}

int urv_old_modify_qp(struct old_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int rc = ibv_modify_qp(qp->real, attr, mask);

	if (!rc && mask & IBV_QP_STATE)
		qp->state = qp->real->state;
	return rc;
}

int urv_old_destroy_qp(struct old_qp *qp)
{
	END(qp, ibv_destroy_qp);
}

int urv_old_attach_mcast(struct old_qp *qp, union ibv_gid *gid, uint16_t lid)
{
	return ibv_attach_mcast(qp->real, gid, lid);
}

int urv_old_detach_mcast(struct old_qp *qp, union ibv_gid *gid, uint16_t lid)
{
	return ibv_detach_mcast(qp->real, gid, lid);
}

/* Each member of the union is a pointer to an object of either version. */
int urv_old_get_async_event(struct old_context *c,
			    struct ibv_async_event *event)
{
	int rc = ibv_get_async_event(c->real, event);

	if (rc)
		return rc;
	switch (urv_event_about(event->event_type)) {
	case URV_ABOUT_CQ:
		event->element.cq = event->element.cq->cq_context;
		break;
	case URV_ABOUT_QP:
		event->element.qp = event->element.qp->qp_context;
		break;
	case URV_ABOUT_SRQ:
		event->element.srq = event->element.srq->srq_context;
		break;
	case URV_ABOUT_WQ: /* this version has none */
	case URV_ABOUT_DCT:
	case URV_ABOUT_DEVICE:
		break;
	}
	return 0;
}

void urv_old_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_async_event real = *event;

	switch (urv_event_about(event->event_type)) {
	case URV_ABOUT_CQ:
		real.element.cq =
			((struct old_cq *)(void *)event->element.cq)->real;
		break;
	case URV_ABOUT_QP:
		real.element.qp =
			((struct old_qp *)(void *)event->element.qp)->real;
		break;
	case URV_ABOUT_SRQ:
		real.element.srq =
			((struct old_srq *)(void *)event->element.srq)->real;
		break;
	case URV_ABOUT_WQ: /* this version has none */
	case URV_ABOUT_DCT:
	case URV_ABOUT_DEVICE:
		break;
	}
	ibv_ack_async_event(&real);
}
