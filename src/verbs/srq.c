/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "core/tm.h"
#include "fault/state.h"
#include "verbs/convert.h"
#include "verbs/domain.h"
#include "verbs/objects.h"
#include "verbs/ops.h"
#include "verbs/xrc.h"

static int set_ring_source(struct ur_srq *srq,
			   const struct ur_ring_source *rings)
{
	int rc = rings ? ur_rq_set_ring_source(&srq->rq, rings) : 0;

	if (rc)
		ur_srq_fini(srq);
	return rc;
}

static int srq_init(struct urv_srq *srq, struct ibv_pd *pd,
		    const struct ibv_srq_attr *attr)
{
	struct urv_context *c = urv_context(pd->context);
	int rc;

	rc = ur_srq_init(&srq->core, &urv_pd(pd)->core, attr->max_wr,
			 attr->max_sge, 0, &c->async, &srq->ibv);
	if (rc)
		return rc;
	rc = set_ring_source(&srq->core, urv_domain_enter(pd));
	if (rc) {
		urv_domain_leave(pd);
		return rc;
	}
	srq->domain = urv_domain_of(pd);
	srq->ibv.context = pd->context;
	srq->ibv.pd = pd;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
			       struct ibv_srq_init_attr *init)
{
	int rc = urv_check(URV_PD, pd);
	const struct ur_dev_limits *max;
	struct urv_context *c;
	struct urv_srq *srq;
	uint32_t handle;

	if (!rc)
		rc = ur_fault_call(UR_FAULT_create_srq);
	if (rc)
		return urv_null(rc);
	c = urv_context(pd->context);
	max = &c->device->spec->max;
	if (init->attr.max_wr > max->max_srq_wr)
		return urv_null(-EINVAL);
	srq = urv_object_new(c, calloc(1, sizeof(*srq)), &c->device->srqs,
			     max->max_srq, &handle);
	if (!srq)
		return NULL;
	rc = srq_init(srq, pd, &init->attr);
	if (rc) {
		urv_object_drop(c, srq, &c->device->srqs);
		return urv_null(rc);
	}
	srq->ibv.handle = handle;
	srq->ibv.srq_context = init->srq_context;
	init->attr.max_wr = srq->core.rq.max_wr;
	init->attr.max_sge = srq->core.rq.max_sge;
	srq->generation = c->generation;
	urv_object_add(&srq->entry, URV_SRQ, &srq->ibv);
	return &srq->ibv;
}

/* Objects that the type of queue requires besides the protection domain. */
static int check_parts(const struct ibv_srq_init_attr_ex *init)
{
	int rc = 0;

	if (init->comp_mask & IBV_SRQ_INIT_ATTR_CQ && init->cq)
		rc = urv_check(URV_CQ, init->cq);
	if (!rc && init->comp_mask & IBV_SRQ_INIT_ATTR_XRCD && init->xrcd)
		rc = urv_check(URV_XRCD, init->xrcd);
	return rc;
}

static int check_ex(const struct ibv_srq_init_attr_ex *init,
		    enum ibv_srq_type type)
{
	const uint32_t xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	const uint32_t tm = IBV_SRQ_INIT_ATTR_TM | IBV_SRQ_INIT_ATTR_CQ;

	if (init->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_RESERVED - 1))
		return -EOPNOTSUPP;
	if (!(init->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !init->pd)
		return -EINVAL;
	if (urv_check(URV_PD, init->pd))
		return -ENOENT;
	switch (type) {
	case IBV_SRQT_BASIC:
		return 0;
	case IBV_SRQT_XRC:
		return (init->comp_mask & xrc) == xrc && init->xrcd && init->cq
			       ? 0
			       : -EINVAL;
	case IBV_SRQT_TM:
		if (urv_is_iwarp(urv_context(init->pd->context)))
			return -EOPNOTSUPP;
		return (init->comp_mask & tm) == tm && init->cq &&
				       init->tm_cap.max_ops <= UR_TM_MAX_OPS
			       ? 0
			       : -EINVAL;
	}
	return -EINVAL;
}

/* Converts the basic queue that it was created as. */
static int make_xrc(struct urv_srq *srq, struct urv_xrcd *xrcd,
		    struct urv_cq *cq)
{
	struct urv_context *c = urv_context(srq->ibv.context);

	ur_srq_set_cq(&srq->core, &cq->core, urv_xrcd_core(xrcd));
	srq->xrcd = xrcd;
	atomic_fetch_add(&xrcd->users, 1);
	return ur_adapter_srq_publish(c->adapter, &srq->core);
}

static int make_tm(struct urv_srq *srq, struct urv_cq *cq, uint32_t max_tags)
{
	struct urv_context *c = urv_context(srq->ibv.context);
	int rc = ur_tm_init(&srq->core, max_tags);

	if (rc)
		return rc;
	ur_srq_set_cq(&srq->core, &cq->core, NULL);
	return ur_adapter_srq_publish(c->adapter, &srq->core);
}

struct ibv_srq *urv_create_srq_ex(struct ibv_context *context,
				  struct ibv_srq_init_attr_ex *init)
{
	enum ibv_srq_type type = init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE
					 ? init->srq_type
					 : IBV_SRQT_BASIC;
	struct ibv_srq_init_attr basic = {
		.srq_context = init->srq_context,
		.attr = init->attr,
	};
	struct ibv_srq *srq;
	int rc = check_ex(init, type);

	if (!rc && type != IBV_SRQT_BASIC)
		rc = check_parts(init);
	if (rc)
		return urv_null(rc);
	srq = ibv_create_srq(init->pd, &basic);
	if (!srq)
		return NULL;
	if (type == IBV_SRQT_XRC)
		rc = make_xrc(urv_srq(srq), urv_xrcd(init->xrcd),
			      urv_cq(init->cq));
	else if (type == IBV_SRQT_TM)
		rc = make_tm(urv_srq(srq), urv_cq(init->cq),
			     init->tm_cap.max_num_tags);
	if (rc) {
		ibv_destroy_srq(srq);
		return urv_null(rc);
	}
	init->attr = basic.attr;
	return srq;
}

int urv_get_srq_num(struct ibv_srq *ibsrq, uint32_t *number)
{
	struct urv_srq *srq = urv_srq(ibsrq);
	int rc = urv_check(URV_SRQ, ibsrq);

	if (rc)
		return urv_errno(rc);
	if (!srq->core.number)
		return urv_errno(-EINVAL);
	*number = srq->core.number;
	return 0;
}

int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct urv_srq *srq = urv_srq(ibsrq);
	int rc = urv_check(URV_SRQ, ibsrq);
	const struct urv_device *d;

	if (!rc)
		rc = urv_context_check(ibsrq->context);
	if (rc)
		return urv_errno(rc);
	d = urv_context(ibsrq->context)->device;
	if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) ||
	    ((mask & IBV_SRQ_MAX_WR) && attr->max_wr > d->spec->max.max_srq_wr))
		return urv_errno(-EINVAL);
	if (mask & IBV_SRQ_MAX_WR)
		rc = ur_srq_resize(&srq->core, attr->max_wr);
	if (!rc && (mask & IBV_SRQ_LIMIT))
		rc = ur_srq_set_limit(&srq->core, attr->srq_limit);
	return urv_errno(rc);
}

int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct ur_srq *srq = &urv_srq(ibsrq)->core;
	int rc = urv_check(URV_SRQ, ibsrq);

	if (!rc)
		rc = urv_context_check(ibsrq->context);
	if (rc)
		return urv_errno(rc);
	ur_latch_lock(&srq->rq.lock);
	attr->max_wr = srq->rq.max_wr;
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = srq->limit;
	ur_latch_unlock(&srq->rq.lock);
	return 0;
}

static int end(struct urv_srq *srq)
{
	const struct urv_context *c = urv_context(srq->ibv.context);
	int rc = 0;

	if (srq->core.number)
		rc = ur_adapter_srq_remove(c->adapter, &srq->core);
	return rc ? rc : ur_srq_fini(&srq->core);
}

int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct urv_srq *srq = urv_srq(ibsrq);
	int rc = urv_ending(URV_SRQ, ibsrq);
	struct urv_context *c;

	if (!rc)
		rc = urv_ended(&srq->entry, end(srq));
	if (rc)
		return urv_errno(rc);
	c = urv_context(ibsrq->context);
	srq->generation = URV_DESTROYED;
	if (srq->xrcd)
		atomic_fetch_sub(&srq->xrcd->users, 1);
	urv_domain_leave(srq->domain);
	pthread_mutex_destroy(&ibsrq->mutex);
	pthread_cond_destroy(&ibsrq->cond);
	urv_object_free(c, URV_SRQ, srq, &c->device->srqs);
	return 0;
}
