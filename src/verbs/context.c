/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "fault/state.h"
#include "verbs/convert.h"
#include "verbs/exp.h"
#include "verbs/objects.h"
#include "verbs/ops.h"
#include "verbs/raw.h"

/* NULL operations answer EOPNOTSUPP, except where verbs.h does not check. */
static void fill_ops(struct verbs_context *v)
{
	v->sz = sizeof(*v) > URV_SIZEOF_VERBS_CONTEXT
			? sizeof(*v)
			: URV_SIZEOF_VERBS_CONTEXT;
	v->query_port = urv_query_port;
	v->query_device_ex = urv_query_device_ex;
	v->query_rt_values = urv_query_rt_values;
	v->create_cq_ex = urv_create_cq_ex;
	v->modify_cq = urv_modify_cq;
	v->modify_qp_rate_limit = urv_modify_qp_rate_limit;
	v->create_srq_ex = urv_create_srq_ex;
	v->create_qp_ex = urv_create_qp_ex;
	v->alloc_td = urv_alloc_td;
	v->dealloc_td = urv_dealloc_td;
	v->alloc_parent_domain = urv_alloc_parent_domain;
	v->alloc_null_mr = urv_alloc_null_mr;
	v->advise_mr = urv_advise_mr;
	v->alloc_dm = urv_alloc_dm;
	v->free_dm = urv_free_dm;
	v->reg_dm_mr = urv_reg_dm_mr;
	v->open_xrcd = urv_open_xrcd;
	v->close_xrcd = urv_close_xrcd;
	v->get_srq_num = urv_get_srq_num;
	v->post_srq_ops = urv_post_srq_ops;
	v->open_qp = urv_open_qp;
	v->ibv_create_flow = urv_create_flow;
	v->ibv_destroy_flow = urv_destroy_flow;
	v->create_counters = urv_create_counters;
	v->destroy_counters = urv_destroy_counters;
	v->attach_counters_point_flow = urv_attach_counters;
	v->read_counters = urv_read_counters;
	v->create_wq = urv_create_wq;
	v->modify_wq = urv_modify_wq;
	v->destroy_wq = urv_destroy_wq;
	v->create_rwq_ind_table = urv_create_rwq_table;
	v->destroy_rwq_ind_table = urv_destroy_rwq_table;
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	v->context.ops = (struct ibv_context_ops){
		.alloc_mw = urv_alloc_mw,
		.bind_mw = urv_bind_mw,
		.dealloc_mw = urv_dealloc_mw,
		.poll_cq = urv_poll_cq,
		.req_notify_cq = urv_req_notify_cq,
		.post_send = urv_post_send,
		.post_recv = urv_post_recv,
		.post_srq_recv = urv_post_srq_recv,
	};
}

/* Completion vectors are all alike; programs like to have one per CPU. */
static int comp_vectors(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > 256 ? 256 : (int)n;
}

/* On success the context owns the file and the descriptor. */
static int context_init(struct urv_context *c, struct urv_device *d,
			struct urv_file *file, int cmd_fd)
{
	struct ibv_context *ibv = &c->ibv.context;
	int rc = ur_adapter_get_at(d->spec->index, &c->adapter);

	if (rc)
		return rc;
	rc = ur_adapter_open(c->adapter);
	if (!rc)
		rc = ur_evq_init(&c->async);
	if (rc)
		goto put_adapter;
	c->device = d;
	c->file = file;
	ibv->cmd_fd = cmd_fd;
	c->dev = ur_adapter_dev(c->adapter);
	c->mrs = ur_adapter_mrs(c->adapter);
	c->refs = 1;
	c->generation = urv_generation;
	c->listener.evq = &c->async;
	ur_lock_init(&c->cross_lock);
	ur_list_init(&c->qps);
	ur_list_init(&c->dcts);
	ibv->device = &d->ibv;
	ibv->async_fd = c->async.fd;
	ibv->num_comp_vectors = comp_vectors();
	pthread_mutex_init(&ibv->mutex, NULL);
	fill_ops(&c->ibv);
	urv_exp_fill(&c->ibv, &c->exp);
	ur_dev_listen(c->dev, &c->listener);
	return 0;

put_adapter:
	ur_adapter_put(c->adapter);
	return rc;
}

/* Takes a reference to the device; on failure the file stays the caller's. */
static struct ibv_context *open_file(struct urv_device *d,
				     struct urv_file *file, int cmd_fd)
{
	struct urv_context *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return urv_null(-ENOMEM);
	rc = context_init(c, d, file, cmd_fd);
	if (rc) {
		free(c);
		return urv_null(rc);
	}
	urv_device_ref(d);
	atomic_fetch_add(&d->opens, 1);
	urv_object_add(&c->entry, URV_CONTEXT, &c->ibv.context);
	return &c->ibv.context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct urv_device *d = urv_device(device);
	struct ibv_context *context;
	struct urv_file *file;
	int fd, rc = ur_fault_call(UR_FAULT_open_device);

	if (!rc)
		rc = urv_file_create(d->spec->index, d->spec->name, &file, &fd);
	if (rc)
		return urv_null(rc);
	context = open_file(d, file, fd);
	if (!context) {
		rc = -errno;
		urv_file_put(file);
		close(fd);
		return urv_null(rc);
	}
	return context;
}

/* On success the context owns the descriptor. */
struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct ibv_context *context;
	struct urv_file *file;
	struct urv_device *d;
	int rc;

	rc = urv_file_find(cmd_fd, &file);
	if (rc)
		return urv_null(rc);
	d = urv_device_get(urv_file_device(file));
	context = d ? open_file(d, file, cmd_fd) : NULL;
	rc = -errno;
	if (d)
		urv_device_put(d);
	if (context)
		return context;
	urv_file_put(file);
	return urv_null(rc);
}

void urv_context_ref(struct urv_context *c, uint32_t *handle)
{
	atomic_fetch_add(&c->refs, 1);
	*handle = urv_file_handle(c->file);
}

int urv_context_get(struct urv_context *c, uint32_t *handle)
{
	int rc = urv_context_check(&c->ibv.context);

	if (c->generation != urv_generation)
		return -ENODEV;
	if (rc)
		return rc;
	urv_context_ref(c, handle);
	return 0;
}

void *urv_object_new(struct urv_context *c, void *object,
		     _Atomic uint32_t *count, uint32_t max, uint32_t *handle)
{
	int rc;

	if (!object)
		return urv_null(-ENOMEM);
	if (count && atomic_fetch_add(count, 1) >= max)
		rc = -ENOMEM;
	else
		rc = urv_context_get(c, handle);
	if (!rc)
		return object;
	urv_limit_put(count);
	free(object);
	return urv_null(rc);
}

void urv_object_drop(struct urv_context *c, void *object,
		     _Atomic uint32_t *count)
{
	free(object);
	urv_limit_put(count);
	urv_context_put(c);
}

void urv_object_free(struct urv_context *c, enum urv_kind kind, void *object,
		     _Atomic uint32_t *count)
{
	urv_retire(kind, object);
	urv_limit_put(count);
	urv_context_put(c);
}

void urv_context_put(struct urv_context *c)
{
	if (atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	ur_evq_fini(&c->async);
	close(c->ibv.context.cmd_fd);
	urv_file_put(c->file);
	ur_lock_fini(&c->cross_lock);
	pthread_mutex_destroy(&c->ibv.context.mutex);
	ur_adapter_put(c->adapter);
	urv_device_put(c->device);
	urv_retire(URV_CONTEXT, c);
}

/*
 * On hardware, objects that the application has not destroyed end with the
 * descriptor: no queue pair goes on answering. Their memory, and the context's,
 * stays until they are destroyed, since it may still be referenced.
 */
int ibv_close_device(struct ibv_context *context)
{
	struct urv_context *c = urv_context(context);
	int rc = urv_ending(URV_CONTEXT, context);

	if (rc)
		return urv_minus_one(rc);
	(void)urv_ended(&c->entry, 0);
	/* In a child the device's list of listeners is the parent's copy. */
	if (c->generation == urv_generation)
		ur_dev_unlisten(c->dev, &c->listener);
	pthread_mutex_lock(&context->mutex);
	ur_list_each_safe(struct urv_qp, qp, &c->qps, node) {
		qp->gone = urv_qp_end(qp) == 0;
		ur_list_del(&qp->node);
	}
	urv_dcts_end(c);
	pthread_mutex_unlock(&context->mutex);
	atomic_fetch_sub(&c->device->opens, 1);
	urv_context_put(c);
	return 0;
}
