/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC target queue pairs. A target created here is owned by this process: its
 * handles are ours and, by their links, those of other processes (openers); it
 * ends with the last of them. A handle of another process' target refers to it
 * over a link (sharing/xrc.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/convert.h"
#include "verbs/xrc.h"

/* Its memory is freed with the last handle. The lock is inside the lane's. */
struct urv_target {
	/* Another process' target: only its number is used. */
	struct ur_qp core;
	struct ur_list node; /* of the domain, or of `remotes`; registry */
	struct ur_lock lock;
	/* `lock`, changed by registry: */
	struct ur_list handles; /* urv_qp.sharing */
	struct ur_list openers; /* struct opener */
	struct urv_domain *domain;
	struct ur_adapter *adapter;
	uint32_t via;	   /* link to its owner; 0: owned here */
	_Atomic bool lost; /* its owner has ended */
};

/* Another process that has it open, `count` times. */
struct opener {
	struct ur_list node;
	uint32_t via;
	uint32_t count;
};

static struct ur_list remotes = { &remotes, &remotes }; /* registry */

void urv_target_child(void)
{
	ur_list_init(&remotes);
}

/* t->lock, or registry if the target is not published. */
static void event_handles(struct urv_target *t, enum ur_event_type type)
{
	ur_list_each(struct urv_qp, qp, &t->handles, sharing)
		ur_evq_post_async(qp->core.async, type, &qp->core.async_source,
				  &qp->ibv, 0);
}

/* IBTA A14: every process that shares the target gets the event. */
static void event_all(struct ur_qp *core, enum ur_event_type type)
{
	struct urv_target *t = ur_container_of(core, struct urv_target, core);

	ur_lock(&t->lock);
	event_handles(t, type);
	ur_list_each(struct opener, o, &t->openers, node)
		ur_xrc_tell(o->via, core->qpn, type);
	ur_unlock(&t->lock);
}

static struct urv_target *target_new(const struct urv_context *c,
				     struct urv_domain *d)
{
	size_t size = (sizeof(struct urv_target) + 63) & ~(size_t)63;
	struct urv_target *t = aligned_alloc(64, size);

	if (!t)
		return NULL;
	memset(t, 0, sizeof(*t));
	t->adapter = c->adapter;
	t->domain = d;
	ur_lock_init(&t->lock);
	ur_list_init(&t->handles);
	ur_list_init(&t->openers);
	return t;
}

static void target_free(struct urv_target *t)
{
	ur_lock_fini(&t->lock);
	free(t);
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
	struct urv_target *t = target_new(c, x->domain);
	int rc;

	if (!t)
		return -ENOMEM;
	rc = ur_adapter_qp_create(c->adapter, &t->core, &init);
	if (rc) {
		target_free(t);
		return rc;
	}
	t->core.on_event = event_all;
	urv_xrc_lock();
	ur_list_add_tail(&x->domain->targets, &t->node);
	handle_add(t, qp, c, x);
	urv_xrc_unlock();
	return 0;
}

/* One of ours; registry is held. */
static struct urv_target *find(const struct urv_domain *d, uint32_t qpn)
{
	ur_list_each(struct urv_target, t, &d->targets, node)
		if (t->core.qpn == qpn)
			return t;
	return NULL;
}

/* Posts find queues without slots, as on a target of ours. */
static int open_remote(struct urv_qp *qp, struct urv_context *c,
		       struct urv_xrcd *x, uint32_t qpn)
{
	struct ur_qp_init init = { .type = UR_QPT_XRC_RECV,
				   .xrcd = &x->domain->core };
	struct urv_target *t = target_new(c, x->domain);
	int rc = -ENOMEM;

	if (!t)
		return rc;
	rc = ur_qp_init(&t->core, &init);
	if (rc)
		goto free_target;
	t->core.qpn = qpn;
	rc = ur_xrc_open_target(c->adapter, &x->domain->core, qpn, &t->via);
	if (rc)
		goto fini_qp;
	urv_xrc_lock();
	ur_list_add_tail(&remotes, &t->node);
	handle_add(t, qp, c, x);
	urv_xrc_unlock();
	return 0;

fini_qp:
	ur_qp_fini(&t->core);
free_target:
	target_free(t);
	return rc;
}

int urv_target_find(struct urv_qp *qp, struct urv_context *c,
		    struct urv_xrcd *x, uint32_t qpn)
{
	struct urv_target *t;

	urv_xrc_lock();
	t = find(x->domain, qpn);
	if (t)
		handle_add(t, qp, c, x);
	urv_xrc_unlock();
	if (t)
		return 0;
	if (!x->domain->core.shared || ur_adapter_has_qpn(c->adapter, qpn))
		return -EINVAL;
	return open_remote(qp, c, x, qpn);
}

/* Removes it from its list if no handle is left, so that it cannot be opened;
 * registry is held. */
static bool unlink_last(struct urv_target *t)
{
	bool last;

	ur_lock(&t->lock);
	last = ur_list_empty(&t->handles) && ur_list_empty(&t->openers);
	ur_unlock(&t->lock);
	if (last) {
		ur_list_del(&t->node);
		t->domain->ending++;
	}
	return last;
}

/* Without the registry; then the domain may end too. */
static void target_end(struct urv_target *t)
{
	struct urv_domain *d = t->domain;

	if (t->via) {
		ur_xrc_close_target(t->via, t->core.qpn);
		ur_qp_fini(&t->core);
	} else {
		ur_adapter_qp_destroy(&t->core);
	}
	target_free(t);
	urv_xrc_lock();
	d->ending--;
	urv_domain_settle(d);
	urv_xrc_unlock();
}

int urv_target_put(struct urv_qp *qp)
{
	struct urv_target *t = qp->target;
	bool last;

	if (qp->generation != urv_generation)
		return -ENODEV;
	urv_xrc_lock();
	ur_lock(&t->lock);
	ur_list_del(&qp->sharing);
	ur_unlock(&t->lock);
	last = unlink_last(t);
	urv_xrc_unlock();
	if (last)
		target_end(t);
	ur_evq_drain(qp->core.async, &qp->core.async_source);
	atomic_fetch_sub(&qp->xrcd->users, 1);
	return 0;
}

struct ur_qp *urv_target_core(struct urv_target *t)
{
	return &t->core;
}

int urv_target_modify(const struct urv_qp *qp, struct ur_adapter *a,
		      const struct ur_qp_attr *attr, uint32_t mask)
{
	struct urv_target *t = qp->target;

	if (!t->via)
		return ur_adapter_qp_modify(a, &t->core, attr, mask);
	return atomic_load(&t->lost)
		       ? -EIO
		       : ur_xrc_modify(a, t->via, t->core.qpn, attr, mask);
}

int urv_target_query(const struct urv_qp *qp, struct ur_qp_attr *attr)
{
	struct urv_target *t = qp->target;

	if (!t->via) {
		ur_adapter_qp_query(&t->core, attr);
		return 0;
	}
	return atomic_load(&t->lost)
		       ? -EIO
		       : ur_xrc_query(t->adapter, t->via, t->core.qpn, attr);
}

/* --- requests of other processes for our targets --- */

static struct opener *find_opener(const struct urv_target *t, uint32_t via)
{
	ur_list_each(struct opener, o, &t->openers, node)
		if (o->via == via)
			return o;
	return NULL;
}

static int opener_add(struct urv_target *t, uint32_t via)
{
	struct opener *o = find_opener(t, via);

	if (o) {
		o->count++;
		return 0;
	}
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->via = via;
	o->count = 1;
	ur_lock(&t->lock);
	ur_list_add_tail(&t->openers, &o->node);
	ur_unlock(&t->lock);
	return 0;
}

static void opener_remove(struct urv_target *t, struct opener *o)
{
	ur_lock(&t->lock);
	ur_list_del(&o->node);
	ur_unlock(&t->lock);
	free(o);
}

static struct urv_target *find_shared(const struct ur_xrc_file *file,
				      uint32_t qpn)
{
	const struct urv_domain *d = urv_domain_shared(file);

	return d ? find(d, qpn) : NULL;
}

static int on_open(const struct ur_xrc_file *file, uint32_t qpn, uint32_t via)
{
	struct urv_target *t;
	int rc;

	urv_xrc_lock();
	t = find_shared(file, qpn);
	rc = t ? opener_add(t, via) : -EINVAL;
	urv_xrc_unlock();
	return rc;
}

static int on_modify(const struct ur_xrc_file *file, uint32_t qpn,
		     const struct ur_qp_attr *attr, uint32_t mask)
{
	struct urv_target *t;
	int rc = -EINVAL;

	urv_xrc_lock();
	t = find_shared(file, qpn);
	if (t)
		rc = ur_adapter_qp_modify(t->adapter, &t->core, attr, mask);
	urv_xrc_unlock();
	return rc;
}

static int on_query(const struct ur_xrc_file *file, uint32_t qpn,
		    struct ur_qp_attr *attr)
{
	struct urv_target *t;

	urv_xrc_lock();
	t = find_shared(file, qpn);
	if (t)
		ur_adapter_qp_query(&t->core, attr);
	urv_xrc_unlock();
	return t ? 0 : -EINVAL;
}

static void on_close(const struct ur_xrc_file *file, uint32_t qpn, uint32_t via)
{
	struct urv_target *t;
	struct opener *o;
	bool last = false;

	urv_xrc_lock();
	t = find_shared(file, qpn);
	o = t ? find_opener(t, via) : NULL;
	if (o && --o->count == 0) {
		opener_remove(t, o);
		last = unlink_last(t);
	}
	urv_xrc_unlock();
	if (last)
		target_end(t);
}

static void on_event(uint32_t qpn, uint32_t via, enum ur_event_type type)
{
	urv_xrc_lock();
	ur_list_each(struct urv_target, t, &remotes, node)
		if (t->via == via && t->core.qpn == qpn)
			event_handles(t, type);
	urv_xrc_unlock();
}

struct leaving {
	uint32_t via;
	struct ur_list ended; /* urv_target.node */
};

static void leave_domain(struct urv_domain *d, void *arg)
{
	struct leaving *l = arg;

	ur_list_each_safe(struct urv_target, t, &d->targets, node) {
		struct opener *o = find_opener(t, l->via);

		if (!o)
			continue;
		opener_remove(t, o);
		if (unlink_last(t))
			ur_list_add_tail(&l->ended, &t->node);
	}
}

/* A process has ended: its handles are closed, and its targets are lost. */
static void on_gone(uint32_t via)
{
	struct leaving l = { .via = via };

	ur_list_init(&l.ended);
	urv_xrc_lock();
	ur_list_each(struct urv_target, t, &remotes, node) {
		if (t->via != via)
			continue;
		atomic_store(&t->lost, true);
		event_handles(t, UR_EVENT_QP_FATAL);
	}
	urv_domain_each(leave_domain, &l);
	urv_xrc_unlock();
	ur_list_each_safe(struct urv_target, target, &l.ended, node)
		target_end(target);
}

const struct ur_xrc_hooks urv_target_hooks = {
	.open = on_open,
	.modify = on_modify,
	.query = on_query,
	.close = on_close,
	.event = on_event,
	.gone = on_gone,
};
