/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/domain.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/convert.h"
#include "verbs/ops.h"

struct urv_td {
	struct ibv_td ibv;
	_Atomic uint32_t users; /* parent domains */
	pthread_mutex_t lock;
	struct ur_lane *lane; /* NULL until a queue pair needs it; lock */
	struct urv_object_entry entry;
};

struct urv_parent {
	struct urv_pd pd; /* is_parent */
	struct urv_td *td;
	_Atomic uint32_t objects; /* with queues */
	/* If `alloc` is set: */
	struct ur_ring_source rings;
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size,
		       size_t alignment, uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr,
		     uint64_t resource_type);
	void *pd_context;
};

static struct urv_parent *parent_of(const struct ibv_pd *pd)
{
	struct urv_pd *handle = urv_pd_handle(pd);

	return handle && handle->is_parent ? (struct urv_parent *)handle : NULL;
}

struct ibv_td *urv_alloc_td(struct ibv_context *context,
			    struct ibv_td_init_attr *attr)
{
	struct urv_context *c = urv_context(context);
	struct urv_td *td;
	uint32_t handle;
	int rc = urv_check(URV_CONTEXT, context);

	if (!rc && attr->comp_mask)
		rc = -EINVAL;
	if (rc)
		return urv_null(rc);
	td = urv_object_new(c, calloc(1, sizeof(*td)), NULL, 0, &handle);
	if (!td)
		return NULL;
	pthread_mutex_init(&td->lock, NULL);
	td->ibv.context = context;
	urv_object_add(&td->entry, URV_TD, &td->ibv);
	return &td->ibv;
}

int urv_dealloc_td(struct ibv_td *ibtd)
{
	struct urv_td *td = (struct urv_td *)ibtd;
	int rc = urv_ending(URV_TD, ibtd);
	struct urv_context *c;

	if (!rc)
		rc = urv_ended(&td->entry,
			       atomic_load(&td->users) ? -EBUSY : 0);
	if (rc)
		return urv_errno(rc);
	c = urv_context(ibtd->context);
	if (td->lane && c->generation == urv_generation)
		ur_adapter_lane_give(c->adapter, td->lane);
	pthread_mutex_destroy(&td->lock);
	urv_object_free(c, URV_TD, td, NULL);
	return 0;
}

/* Memory of the application, in whole pages, for allocators that carve up huge
 * ones. The resource type is not a driver-specific one, since we have none. */
static void *ring_alloc(void *arg, size_t bytes, enum ur_ring_what what)
{
	struct urv_parent *p = arg;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *ring;

	bytes = (bytes + page - 1) / page * page;
	ring = p->alloc(&p->pd.ibv, p->pd_context, bytes, page, what);
	return ring == IBV_ALLOCATOR_USE_DEFAULT ? UR_RING_USE_DEFAULT : ring;
}

static void ring_free(void *arg, void *ring, enum ur_ring_what what)
{
	struct urv_parent *p = arg;

	p->free(&p->pd.ibv, p->pd_context, ring, what);
}

static int check_parent(const struct ibv_context *context,
			const struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (!attr->pd)
		return -EINVAL;
	if (urv_check(URV_PD, attr->pd) ||
	    (attr->td && urv_check(URV_TD, attr->td)))
		return -ENOENT;
	if (attr->pd->context != context ||
	    (attr->td && attr->td->context != context))
		return -EINVAL;
	/* So a program can detect missing features; as mana. */
	if (attr->comp_mask & ~known)
		return -EOPNOTSUPP;
	if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) &&
	    (!attr->alloc || !attr->free))
		return -EINVAL;
	return 0;
}

static void fill_parent(struct urv_parent *p,
			const struct ibv_parent_domain_init_attr *attr)
{
	p->pd.is_parent = true;
	p->pd.root = urv_pd(attr->pd);
	p->td = (struct urv_td *)attr->td;
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		p->alloc = attr->alloc;
		p->free = attr->free;
		p->rings = (struct ur_ring_source){ ring_alloc, ring_free, p };
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		p->pd_context = attr->pd_context;
}

struct ibv_pd *urv_alloc_parent_domain(struct ibv_context *context,
				       struct ibv_parent_domain_init_attr *attr)
{
	struct urv_context *c = urv_context(context);
	int rc = check_parent(context, attr);
	struct urv_parent *p;
	uint32_t handle;

	if (rc)
		return urv_null(rc);
	p = urv_object_new(c, calloc(1, sizeof(*p)), NULL, 0, &handle);
	if (!p)
		return NULL;
	p->pd.ibv.context = context;
	fill_parent(p, attr);
	/* Visible to others as the protection domain. */
	p->pd.ibv.handle = p->pd.root->ibv.handle;
	atomic_fetch_add(&p->pd.root->core.users, 1);
	if (p->td)
		atomic_fetch_add(&p->td->users, 1);
	urv_object_add(&p->pd.entry, URV_PD, &p->pd.ibv);
	return &p->pd.ibv;
}

int urv_parent_end(const struct urv_pd *pd)
{
	return atomic_load(&parent_of(&pd->ibv)->objects) ? -EBUSY : 0;
}

void urv_parent_free(struct urv_pd *pd)
{
	struct urv_context *c = urv_context(pd->ibv.context);
	struct urv_parent *p = parent_of(&pd->ibv);

	atomic_fetch_sub(&pd->root->core.users, 1);
	if (p->td)
		atomic_fetch_sub(&p->td->users, 1);
	urv_object_free(c, URV_PD, p, NULL);
}

const struct ur_ring_source *urv_domain_enter(const struct ibv_pd *pd)
{
	struct urv_parent *p = parent_of(pd);

	if (!p)
		return NULL;
	atomic_fetch_add(&p->objects, 1);
	return p->alloc ? &p->rings : NULL;
}

void urv_domain_leave(const struct ibv_pd *pd)
{
	struct urv_parent *p = parent_of(pd);

	if (p)
		atomic_fetch_sub(&p->objects, 1);
}

const struct ibv_pd *urv_domain_of(const struct ibv_pd *pd)
{
	return parent_of(pd) ? pd : NULL;
}

/* If no lane is left it shares one, which only costs time. */
struct ur_lane *urv_domain_lane(const struct ibv_pd *pd)
{
	struct urv_parent *p = parent_of(pd);
	struct ur_lane *lane;

	if (!p || !p->td)
		return NULL;
	pthread_mutex_lock(&p->td->lock);
	if (!p->td->lane &&
	    ur_adapter_lane_take(urv_context(pd->context)->adapter, &lane) == 0)
		p->td->lane = lane;
	lane = p->td->lane;
	pthread_mutex_unlock(&p->td->lock);
	return lane;
}
