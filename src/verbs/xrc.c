/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fork.h"
#include "verbs/convert.h"
#include "verbs/ops.h"

/* Guards the domains and all fields marked `registry`. Outside every other
 * lock. */
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static struct ur_list domains = { &domains, &domains };

/* They are the parent's; a thread there may have held the lock. */
static void forked_child(void)
{
	pthread_mutex_init(&registry, NULL);
	ur_list_init(&domains);
	urv_target_child();
}

UR_FORK_CHILD(forked_child)

void urv_xrc_lock(void)
{
	pthread_mutex_lock(&registry);
}

void urv_xrc_unlock(void)
{
	pthread_mutex_unlock(&registry);
}

struct ur_xrcd *urv_xrcd_core(const struct urv_xrcd *x)
{
	return &x->domain->core;
}

void urv_domain_each(void (*fn)(struct urv_domain *d, void *arg), void *arg)
{
	ur_list_each_safe(struct urv_domain, d, &domains, node)
		fn(d, arg);
}

struct urv_domain *urv_domain_shared(const struct ur_xrc_file *file)
{
	ur_list_each(struct urv_domain, d, &domains, node) {
		struct ur_xrc_file own = ur_xrc_file_of(&d->core);

		if (d->core.shared && ur_xrc_file_equal(&own, file))
			return d;
	}
	return NULL;
}

static struct urv_domain *find_file(const struct urv_context *c,
				    const struct stat *st)
{
	ur_list_each_safe(struct urv_domain, d, &domains, node)
		if (d->has_file && d->device == c->device &&
		    d->dev == st->st_dev && d->ino == st->st_ino)
			return d;
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
	d->adapter = c->adapter;
	if (st) {
		d->has_file = true;
		d->dev = st->st_dev;
		d->ino = st->st_ino;
	}
	ur_list_add_tail(&domains, &d->node);
	return d;
}

void urv_domain_settle(struct urv_domain *d)
{
	if (d->handles || d->ending || !ur_list_empty(&d->targets))
		return;
	ur_list_del(&d->node);
	if (d->core.shared)
		ur_xrc_leave(d->adapter, &d->core);
	free(d);
}

/* Asks other processes about a file that is not open here yet. */
static int domain_share(struct urv_domain *d,
			const struct ibv_xrcd_init_attr *attr)
{
	unsigned int flags = (attr->oflags & O_CREAT ? UR_XRCD_CREATE : 0) |
			     (attr->oflags & O_EXCL ? UR_XRCD_EXCLUSIVE : 0);
	int rc = ur_xrc_join(d->adapter, &d->core, attr->fd, flags,
			     &urv_target_hooks);

	/* Local domain: no other process can have it open. */
	if (rc == -EOPNOTSUPP)
		rc = attr->oflags & O_CREAT ? 0 : -EAGAIN;
	return rc;
}

/* Semantics of ibv_open_xrcd(3), with the kernel's errors; registry is held. */
static int domain_get(const struct urv_context *c,
		      const struct ibv_xrcd_init_attr *attr,
		      struct urv_domain **out)
{
	struct urv_domain *d = NULL;
	struct stat st;
	int rc = 0;

	if (attr->fd >= 0) {
		if (fstat(attr->fd, &st))
			return -errno;
		d = find_file(c, &st);
		if (d && (attr->oflags & O_EXCL))
			return -EINVAL;
	} else if (attr->fd != -1) {
		return -EBADF;
	}
	if (!d) {
		d = domain_new(c, attr->fd >= 0 ? &st : NULL);
		if (!d)
			return -ENOMEM;
		if (d->has_file)
			rc = domain_share(d, attr);
	}
	if (rc) {
		urv_domain_settle(d);
		return rc;
	}
	d->handles++;
	*out = d;
	return 0;
}

static void domain_put(struct urv_domain *d)
{
	d->handles--;
	urv_domain_settle(d);
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
	int rc = urv_check(URV_CONTEXT, context);
	struct urv_xrcd *x;
	uint32_t handle;

	if (!rc)
		rc = check_open(c, attr);
	if (rc)
		return urv_null(rc);
	x = urv_object_new(c, calloc(1, sizeof(*x)), NULL, 0, &handle);
	if (!x)
		return NULL;
	pthread_mutex_lock(&registry);
	rc = domain_get(c, attr, &x->domain);
	pthread_mutex_unlock(&registry);
	if (rc) {
		urv_object_drop(c, x, NULL);
		return urv_null(rc);
	}
	x->ibv.context = context;
	urv_object_add(&x->entry, URV_XRCD, &x->ibv);
	return &x->ibv;
}

int urv_close_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct urv_xrcd *x = urv_xrcd(ibxrcd);
	int rc = urv_ending(URV_XRCD, ibxrcd);
	struct urv_context *c;

	if (rc)
		return urv_errno(rc);
	c = urv_context(ibxrcd->context);
	if (c->generation != urv_generation)
		rc = -ENODEV;
	else if (atomic_load(&x->users) != 0)
		rc = -EBUSY;
	rc = urv_ended(&x->entry, rc);
	if (rc)
		return urv_errno(rc);
	pthread_mutex_lock(&registry);
	domain_put(x->domain);
	pthread_mutex_unlock(&registry);
	urv_object_free(c, URV_XRCD, x, NULL);
	return 0;
}
