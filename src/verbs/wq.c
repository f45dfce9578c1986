/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "engine/raw.h"
#include "verbs/convert.h"
#include "verbs/ops.h"
#include "verbs/raw.h"

#define MODIFY_MASK                                                            \
	(IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS)

struct urv_rwq_table {
	struct ibv_rwq_ind_table ibv;
	struct ur_wq_table *core;
	struct urv_object_entry entry;
};

static struct urv_rwq_table *of_table(const struct ibv_rwq_ind_table *t)
{
	return (struct urv_rwq_table *)(uintptr_t)t;
}

static int gone(struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	*bad_wr = wr;
	return ENODEV;
}

static int post_recv(struct ibv_wq *ibwq, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad_wr)
{
	struct urv_wq *wq = urv_wq(ibwq);
	int rc = EINVAL;

	if (wq->generation != urv_generation)
		return gone(wr, bad_wr);
	if (atomic_load_explicit(&wq->core.state, memory_order_relaxed) !=
	    UR_WQS_RESET)
		rc = urv_post_rq(&wq->core.rq, &wr);
	if (rc)
		*bad_wr = wr;
	/* As for queue pairs: we commit, then check the state; the flush works
	 * in the opposite order. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&wq->core.state, memory_order_relaxed) ==
	    UR_WQS_ERR)
		ur_adapter_wq_flush(&wq->core);
	return rc;
}

static int check_init(const struct ibv_wq_init_attr *init)
{
	if (init->wq_type != IBV_WQT_RQ || !init->pd || !init->cq)
		return -EINVAL;
	if (urv_check(URV_PD, init->pd) || urv_check(URV_CQ, init->cq))
		return -ENOENT;
	if (init->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS)
		return -EOPNOTSUPP;
	if ((init->comp_mask & IBV_WQ_INIT_ATTR_FLAGS) &&
	    init->create_flags & ~(uint32_t)IBV_WQ_FLAGS_CVLAN_STRIPPING)
		return -EOPNOTSUPP;
	return 0;
}

static int wq_init(struct urv_wq *wq, struct urv_context *c,
		   const struct ibv_wq_init_attr *init)
{
	const struct ur_wq_init core = {
		.pd = &urv_pd(init->pd)->core,
		.cq = &urv_cq(init->cq)->core,
		.max_wr = init->max_wr,
		.max_sge = init->max_sge,
		.strip_vlan = (init->comp_mask & IBV_WQ_INIT_ATTR_FLAGS) &&
			      init->create_flags & IBV_WQ_FLAGS_CVLAN_STRIPPING,
		.async = &c->async,
		.object = &wq->ibv,
	};
	int rc = ur_adapter_wq_create(c->adapter, &wq->core, &core);

	if (rc)
		return rc;
	wq->ibv.context = &c->ibv.context;
	wq->ibv.pd = init->pd;
	wq->ibv.cq = init->cq;
	wq->ibv.wq_num = wq->core.num;
	wq->ibv.state = IBV_WQS_RESET;
	wq->ibv.wq_type = init->wq_type;
	wq->ibv.post_recv = post_recv;
	return 0;
}

struct ibv_wq *urv_create_wq(struct ibv_context *context,
			     struct ibv_wq_init_attr *init)
{
	struct urv_context *c = urv_context(context);
	int rc = urv_check(URV_CONTEXT, context);
	struct urv_wq *wq;
	uint32_t handle;

	if (!rc)
		rc = check_init(init);
	if (rc)
		return urv_null(rc);
	wq = urv_object_new(c, calloc(1, sizeof(*wq)), &c->device->wqs,
			    UR_MAX_WQ, &handle);
	if (!wq)
		return NULL;
	rc = wq_init(wq, c, init);
	if (rc) {
		urv_object_drop(c, wq, &c->device->wqs);
		return urv_null(rc);
	}
	wq->ibv.handle = handle;
	wq->generation = c->generation;
	urv_object_add(&wq->entry, URV_WQ, &wq->ibv);
	return &wq->ibv;
}

static int check_modify(const struct urv_wq *wq, const struct ibv_wq_attr *attr)
{
	uint32_t mask = attr->attr_mask;

	if (mask & ~(uint32_t)MODIFY_MASK)
		return -EINVAL;
	if ((mask & IBV_WQ_ATTR_CURR_STATE) &&
	    (uint32_t)attr->curr_wq_state !=
		    (uint32_t)atomic_load(&wq->core.state))
		return -EINVAL;
	if ((mask & IBV_WQ_ATTR_FLAGS) &&
	    attr->flags_mask & ~(uint32_t)IBV_WQ_FLAGS_CVLAN_STRIPPING)
		return -EOPNOTSUPP;
	return 0;
}

int urv_modify_wq(struct ibv_wq *ibwq, struct ibv_wq_attr *attr)
{
	struct urv_wq *wq = urv_wq(ibwq);
	int rc = urv_check(URV_WQ, ibwq);
	enum ur_wq_state to;
	bool strip;

	if (!rc)
		rc = urv_context_check(ibwq->context);
	if (!rc)
		rc = check_modify(wq, attr);
	if (rc)
		return urv_errno(rc);
	to = atomic_load(&wq->core.state);
	strip = wq->core.strip_vlan;
	if (attr->attr_mask & IBV_WQ_ATTR_STATE)
		to = (enum ur_wq_state)attr->wq_state;
	if (attr->attr_mask & IBV_WQ_ATTR_FLAGS &&
	    attr->flags_mask & IBV_WQ_FLAGS_CVLAN_STRIPPING)
		strip = attr->flags & IBV_WQ_FLAGS_CVLAN_STRIPPING;
	rc = ur_adapter_wq_modify(&wq->core, to, strip);
	if (!rc && attr->attr_mask & IBV_WQ_ATTR_STATE)
		ibwq->state = (enum ibv_wq_state)to;
	return urv_errno(rc);
}

int urv_destroy_wq(struct ibv_wq *ibwq)
{
	struct urv_wq *wq = urv_wq(ibwq);
	int rc = urv_ending(URV_WQ, ibwq);
	struct urv_context *c;

	if (!rc)
		rc = urv_ended(&wq->entry, ur_adapter_wq_destroy(&wq->core));
	if (rc)
		return urv_errno(rc);
	c = urv_context(ibwq->context);
	wq->generation = URV_DESTROYED;
	pthread_mutex_destroy(&ibwq->mutex);
	pthread_cond_destroy(&ibwq->cond);
	urv_object_free(c, URV_WQ, wq, &c->device->wqs);
	return 0;
}

static struct ur_wq_table *table_core(struct ibv_wq *const *list, uint32_t log)
{
	struct ur_wq *wqs[UR_MAX_RWQ_TABLE];
	struct ur_wq_table *t;

	for (uint32_t i = 0; i < 1u << log; i++) {
		if (!list[i])
			return urv_null(-EINVAL);
		if (urv_check(URV_WQ, list[i]))
			return urv_null(-ENOENT);
		wqs[i] = &urv_wq(list[i])->core;
	}
	t = ur_wq_table_create(wqs, log);
	return t ? t : urv_null(-ENOMEM);
}

struct ibv_rwq_ind_table *
urv_create_rwq_table(struct ibv_context *context,
		     struct ibv_rwq_ind_table_init_attr *init)
{
	struct urv_context *c = urv_context(context);
	struct urv_rwq_table *t;
	uint32_t handle;
	int rc = urv_check(URV_CONTEXT, context);

	if (rc)
		return urv_null(rc);
	if (urv_is_iwarp(c) || init->comp_mask)
		return urv_null(-EOPNOTSUPP);
	if (init->log_ind_tbl_size > URV_RWQ_TABLE_LOG_MAX || !init->ind_tbl)
		return urv_null(-EINVAL);
	t = urv_object_new(c, calloc(1, sizeof(*t)), &c->device->rwq_tables,
			   UR_MAX_RWQ_TABLES, &handle);
	if (!t)
		return NULL;
	t->core = table_core(init->ind_tbl, init->log_ind_tbl_size);
	if (!t->core) {
		rc = -errno;
		urv_object_drop(c, t, &c->device->rwq_tables);
		return urv_null(rc);
	}
	t->ibv.context = context;
	t->ibv.ind_tbl_handle = (int)handle;
	t->ibv.ind_tbl_num = (int)handle;
	urv_object_add(&t->entry, URV_RWQ_TABLE, &t->ibv);
	return &t->ibv;
}

int urv_destroy_rwq_table(struct ibv_rwq_ind_table *table)
{
	struct urv_rwq_table *t = of_table(table);
	int rc = urv_ending(URV_RWQ_TABLE, table);
	struct urv_context *c;

	if (!rc)
		rc = urv_ended(&t->entry, ur_wq_table_destroy(t->core));
	if (rc)
		return urv_errno(rc);
	c = urv_context(table->context);
	urv_object_free(c, URV_RWQ_TABLE, t, &c->device->rwq_tables);
	return 0;
}

struct ur_wq_table *urv_rwq_table_core(const struct ibv_rwq_ind_table *table)
{
	return of_table(table)->core;
}
