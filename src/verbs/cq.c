/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/cq.h"
#include "fault/state.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/convert.h"
#include "verbs/domain.h"
#include "verbs/ops.h"

static void channel_use(struct ibv_comp_channel *channel, int by)
{
	if (!channel)
		return;
	pthread_mutex_lock(&channel->context->mutex);
	channel->refcnt += by;
	pthread_mutex_unlock(&channel->context->mutex);
}

/* Programs that ask for an entry or two poll late and rely on drivers rounding
 * up to a power of two. Resizing grants exactly what was requested. */
#define CQE_MIN 16u

static uint32_t at_least(uint32_t cqe)
{
	return cqe && cqe < CQE_MIN ? CQE_MIN : cqe;
}

static int cq_init(struct urv_cq *cq, struct urv_context *c, uint32_t cqe,
		   struct ibv_comp_channel *channel)
{
	int rc = ur_cq_init(&cq->core, at_least(cqe),
			    channel ? &urv_channel(channel)->evq : NULL,
			    &c->async, &cq->ibv);

	if (rc)
		return rc;
	cq->adapter = c->adapter;
	cq->generation = c->generation;
	cq->ibv.context = &c->ibv.context;
	cq->ibv.channel = channel;
	cq->ibv.cqe = (int)cq->core.cqe;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	channel_use(channel, 1);
	cq->core.handle = cq->ibv.handle;
	ur_adapter_cq_list(c->adapter, &cq->core);
	urv_object_add(&cq->entry, URV_CQ, &cq->ibv);
	return 0;
}

struct urv_cq *urv_cq_create(struct urv_context *c, uint32_t cqe,
			     struct ibv_comp_channel *channel,
			     uint32_t comp_vector)
{
	struct urv_cq *cq;
	uint32_t handle;
	int rc = urv_check(URV_CONTEXT, &c->ibv.context);

	if (!rc && channel)
		rc = urv_check(URV_CHANNEL, channel);
	if (!rc)
		rc = ur_fault_call(UR_FAULT_create_cq);
	if (rc)
		return urv_null(rc);
	/* Its lanes are those of one adapter (ur_evq.feeders). */
	if (channel && urv_context(channel->context)->adapter != c->adapter)
		return urv_null(-EINVAL);
	if (comp_vector >= (uint32_t)c->ibv.context.num_comp_vectors ||
	    cqe > c->device->spec->max.max_cqe)
		return urv_null(-EINVAL);
	cq = urv_object_new(c, calloc(1, sizeof(*cq)), &c->device->cqs,
			    c->device->spec->max.max_cq, &handle);
	if (!cq)
		return NULL;
	cq->ibv.handle = handle;
	rc = cq_init(cq, c, cqe, channel);
	if (rc) {
		urv_object_drop(c, cq, &c->device->cqs);
		return urv_null(rc);
	}
	return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe,
			     void *cq_context, struct ibv_comp_channel *channel,
			     int comp_vector)
{
	struct urv_cq *cq;

	if (cqe <= 0 || comp_vector < 0)
		return urv_null(-EINVAL);
	cq = urv_cq_create(urv_context(context), (uint32_t)cqe, channel,
			   (uint32_t)comp_vector);
	if (!cq)
		return NULL;
	cq->ibv.cq_context = cq_context;
	return &cq->ibv;
}

int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct urv_cq *cq = urv_cq(ibcq);
	int rc = urv_check(URV_CQ, ibcq);
	const struct urv_device *d;

	if (!rc)
		rc = urv_context_check(ibcq->context);
	if (rc)
		return urv_errno(rc);
	d = urv_context(ibcq->context)->device;
	if (cqe <= 0 || (uint32_t)cqe > d->spec->max.max_cqe)
		return urv_errno(-EINVAL);
	rc = ur_cq_resize(&cq->core, (uint32_t)cqe);
	if (!rc)
		ibcq->cqe = (int)cq->core.cqe;
	return urv_errno(rc);
}

int urv_cq_use_domain_memory(struct urv_cq *cq, struct ibv_pd *domain)
{
	const struct ur_ring_source *rings = urv_domain_enter(domain);

	cq->domain = domain;
	return rings ? ur_cq_set_ring_source(&cq->core, rings) : 0;
}

int urv_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct urv_cq *cq = urv_cq(ibcq);
	int rc = urv_check(URV_CQ, ibcq);

	if (rc)
		return urv_errno(rc);
	rc = urv_context_check(ibcq->context);
	if (cq->generation != urv_generation)
		return urv_errno(-ENODEV);
	if (rc)
		return urv_errno(rc);
	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return urv_errno(-EOPNOTSUPP);
	if (attr->attr_mask & IBV_CQ_ATTR_MODERATE) {
		ur_adapter_cq_moderate(cq->adapter, &cq->core,
				       attr->moderate.cq_count,
				       attr->moderate.cq_period);
		cq->moderated = true;
	}
	return 0;
}

static int cq_end(struct urv_cq *cq)
{
	if (atomic_load(&cq->core.users))
		return -EBUSY;
	if (cq->moderated && cq->generation == urv_generation)
		ur_adapter_cq_moderate(cq->adapter, &cq->core, 0, 0);
	if (cq->generation == urv_generation)
		ur_adapter_cq_unlist(cq->adapter, &cq->core);
	return ur_cq_fini(&cq->core);
}

int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct urv_cq *cq = urv_cq(ibcq);
	int rc = urv_ending(URV_CQ, ibcq);
	struct urv_context *c;

	if (!rc)
		rc = urv_ended(&cq->entry, cq_end(cq));
	if (rc)
		return urv_errno(rc);
	c = urv_context(ibcq->context);
	cq->generation = URV_DESTROYED;
	urv_domain_leave(cq->domain);
	channel_use(ibcq->channel, -1);
	pthread_mutex_destroy(&ibcq->mutex);
	pthread_cond_destroy(&ibcq->cond);
	urv_object_free(c, URV_CQ, cq, &c->device->cqs);
	return 0;
}

/* An empty queue is worth one poll of the adapter, and only one. */
bool urv_cq_has_work(struct urv_cq *cq)
{
	if (!ur_cq_is_empty(&cq->core))
		return true;
	ur_adapter_poll(cq->adapter, &cq->core);
	return !ur_cq_is_empty(&cq->core);
}

int urv_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct urv_cq *cq = urv_cq(ibcq);
	uint32_t held, want = n > 0 ? (uint32_t)n : 0;

	if (cq->generation != urv_generation)
		return -ENODEV;
	if (!urv_cq_has_work(cq))
		return 0;
	held = ur_cq_open(&cq->core);
	if (want > held)
		want = held;
	for (uint32_t i = 0; i < want; i++)
		urv_wc_from_cqe(&wc[i], ur_cq_entry(&cq->core, i));
	ur_cq_close(&cq->core, want);
	return (int)want;
}

int urv_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct urv_cq *cq = urv_cq(ibcq);

	if (cq->generation != urv_generation)
		return urv_errno(-ENODEV);
	ur_cq_arm(&cq->core, solicited_only != 0);
	ur_adapter_arm(cq->adapter, &cq->core);
	return 0;
}
