/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "verbs/convert.h"
#include "verbs/ops.h"

struct urv_domain {
	struct ur_list node; /* `domains` */
	struct ur_xrcd core;
	struct ur_list targets; /* registry */
	uint32_t handles;	/* registry */
	/* Whose it is: constant */
	const struct urv_device *device;
	bool has_file;
	dev_t dev;
	ino_t ino;
};

/* Its memory goes with the last handle.  The lock comes inside the lane's. */
struct urv_target {
	struct ur_qp core;
	struct ur_list node; /* of the domain; registry */
	struct ur_lock lock;
	struct ur_list
		handles; /* urv_qp.sharing; `lock`, changed by registry */
	struct ur_adapter *adapter;
};

/* Guards the domains and all that says so.  Outside every other lock. */
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static struct ur_list domains = { &domains, &domains };

/* They are the parent's; somebody there may have held the lock. */
static void forked_child(void)
{
	pthread_mutex_init(&registry, NULL);
	ur_list_init(&domains);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked_child);
}

struct ur_xrcd *urv_xrcd_core(const struct urv_xrcd *x)
{
	return &x->domain->core;
}

static struct urv_domain *find_file(const struct urv_context *c,
				    const struct stat *st)
{
	ur_list_for_each_safe(pos, tmp, &domains) {
		struct urv_domain *d =
			ur_container_of(pos, struct urv_domain, node);

		if (d->has_file && d->device == c->device &&
		    d->dev == st->st_dev && d->ino == st->st_ino)
			return d;
	}
	return NULL;
}

static struct urv_domain *domain_new(const struct urv_context *c,
				     const struct stat *st)
{
	struct urv_domain *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	ur_list_init(&d->targets);
	d->device = c->device;
	if (st) {
		d->has_file = true;
		d->dev = st->st_dev;
		d->ino = st->st_ino;
	}
	ur_list_add_tail(&domains, &d->node);
	return d;
}

/* What ibv_open_xrcd(3) says, with the kernel's errors; registry is held. */
static int domain_get(const struct urv_context *c,
		      const struct ibv_xrcd_init_attr *attr,
		      struct urv_domain **out)
{
	struct urv_domain *d = NULL;
	struct stat st;

	if (attr->fd >= 0) {
		if (fstat(attr->fd, &st))
			return -errno;
		d = find_file(c, &st);
		if (!d && !(attr->oflags & O_CREAT))
			return -EAGAIN;
		if (d && (attr->oflags & O_EXCL))
			return -EINVAL;
	} else if (attr->fd != -1) {
		return -EBADF;
	}
	if (!d)
		d = domain_new(c, attr->fd >= 0 ? &st : NULL);
	if (!d)
		return -ENOMEM;
	d->handles++;
	*out = d;
	return 0;
}

static void domain_put(struct urv_domain *d)
{
	if (--d->handles)
		return;
	ur_list_del(&d->node);
	free(d);
}

static int check_open(const struct urv_context *c,
		      const struct ibv_xrcd_init_attr *attr)
{
	const uint32_t need = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

	if (urv_is_iwarp(c) || attr->comp_mask & ~need)
		return -EOPNOTSUPP;
	return attr->comp_mask == need ? 0 : -EINVAL;
}

struct ibv_xrcd *urv_open_xrcd(struct ibv_context *context,
			       struct ibv_xrcd_init_attr *attr)
{
	struct urv_context *c = urv_context(context);
	struct urv_xrcd *x = calloc(1, sizeof(*x));
	int rc = check_open(c, attr);

	if (!x)
		return urv_null(-ENOMEM);
	if (rc)
		goto free_xrcd;
	rc = urv_context_get(c, &x->handle);
	if (rc)
		goto free_xrcd;
	pthread_mutex_lock(&registry);
	rc = domain_get(c, attr, &x->domain);
	pthread_mutex_unlock(&registry);
	if (rc)
		goto put_context;
	x->ibv.context = context;
	return &x->ibv;

put_context:
	urv_context_put(c);
free_xrcd:
	free(x);
	return urv_null(rc);
}

int urv_close_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct urv_context *c = urv_context(ibxrcd->context);
	struct urv_xrcd *x = urv_xrcd(ibxrcd);

	if (c->generation != urv_generation)
		return urv_errno(-ENODEV);
	if (atomic_load(&x->users) != 0)
		return urv_errno(-EBUSY);
	pthread_mutex_lock(&registry);
	domain_put(x->domain);
	pthread_mutex_unlock(&registry);
	free(x);
	urv_context_put(c);
	return 0;
}

/* IBTA A14: everybody who shares the target hears of it. */
static void tell_all(struct ur_qp *core, enum ur_event_type type)
{
	struct urv_target *t = ur_container_of(core, struct urv_target, core);

	ur_lock(&t->lock);
	ur_list_for_each_safe(pos, tmp, &t->handles) {
		struct urv_qp *qp =
			ur_container_of(pos, struct urv_qp, sharing);

		ur_evq_post_async(qp->core.async, type, &qp->core.async_source,
				  &qp->ibv, 0);
	}
	ur_unlock(&t->lock);
}

static void handle_add(struct urv_target *t, struct urv_qp *qp,
		       struct urv_context *c, struct urv_xrcd *x)
{
	qp->core.async = &c->async;
	qp->target = t;
	qp->xrcd = x;
	atomic_fetch_add(&x->users, 1);
	ur_lock(&t->lock);
	ur_list_add_tail(&t->handles, &qp->sharing);
	ur_unlock(&t->lock);
}

int urv_target_create(struct urv_qp *qp, struct urv_context *c,
		      struct urv_xrcd *x)
{
	struct ur_qp_init init = { .type = UR_QPT_XRC_RECV,
				   .xrcd = &x->domain->core };
	size_t size = (sizeof(struct urv_target) + 63) & ~(size_t)63;
	struct urv_target *t = aligned_alloc(64, size);
	int rc;

	if (!t)
		return -ENOMEM;
	memset(t, 0, sizeof(*t));
	rc = ur_adapter_qp_create(c->adapter, &t->core, &init);
	if (rc) {
		free(t);
		return rc;
	}
	t->core.on_event = tell_all;
	t->adapter = c->adapter;
	ur_lock_init(&t->lock);
	ur_list_init(&t->handles);
	pthread_mutex_lock(&registry);
	ur_list_add_tail(&x->domain->targets, &t->node);
	handle_add(t, qp, c, x);
	pthread_mutex_unlock(&registry);
	return 0;
}

int urv_target_find(struct urv_qp *qp, struct urv_context *c,
		    struct urv_xrcd *x, uint32_t qpn)
{
	int rc = ur_adapter_has_qpn(c->adapter, qpn) ? -EINVAL : -EOPNOTSUPP;

	pthread_mutex_lock(&registry);
	ur_list_for_each_safe(pos, tmp, &x->domain->targets) {
		struct urv_target *t =
			ur_container_of(pos, struct urv_target, node);

		if (t->core.qpn != qpn)
			continue;
		handle_add(t, qp, c, x);
		rc = 0;
		break;
	}
	pthread_mutex_unlock(&registry);
	return rc;
}

/* Nobody opens it any more once it has left the domain's list. */
static bool handle_remove(struct urv_target *t, struct urv_qp *qp)
{
	bool last;

	pthread_mutex_lock(&registry);
	ur_lock(&t->lock);
	ur_list_del(&qp->sharing);
	last = ur_list_empty(&t->handles);
	ur_unlock(&t->lock);
	if (last)
		ur_list_del(&t->node);
	pthread_mutex_unlock(&registry);
	return last;
}

int urv_target_put(struct urv_qp *qp)
{
	struct urv_target *t = qp->target;

	if (qp->generation != urv_generation)
		return -ENODEV;
	if (handle_remove(t, qp)) {
		ur_adapter_qp_destroy(&t->core);
		ur_lock_fini(&t->lock);
		free(t);
	}
	ur_evq_drain(qp->core.async, &qp->core.async_source);
	atomic_fetch_sub(&qp->xrcd->users, 1);
	return 0;
}

struct ur_qp *urv_target_core(struct urv_target *t)
{
	return &t->core;
}
