/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of flows: a flow with a count action adds to the totals of the
 * object; reading returns the totals at the indices they were attached to. */
#include <errno.h>
#include <stdlib.h>

#include "raw/flow.h"
#include "verbs/convert.h"
#include "verbs/raw.h"

#define POINTS_MAX 64u

struct urv_counters {
	struct ibv_counters ibv;
	struct ur_flow_count totals;
	_Atomic uint32_t users; /* flows */
	/* context's mutex: the total (+ 1) at each index */
	uint8_t point[POINTS_MAX];
	struct urv_object_entry entry;
};

static struct urv_counters *of(const struct ibv_counters *c)
{
	return (struct urv_counters *)(uintptr_t)c;
}

struct ibv_counters *urv_create_counters(struct ibv_context *context,
					 struct ibv_counters_init_attr *init)
{
	struct urv_counters *c;
	uint32_t handle;
	int rc = urv_check(URV_CONTEXT, context);

	if (!rc && init->comp_mask)
		rc = -EOPNOTSUPP;
	if (rc)
		return urv_null(rc);
	if (urv_is_iwarp(urv_context(context)))
		return urv_null(-EOPNOTSUPP);
	c = urv_object_new(urv_context(context), calloc(1, sizeof(*c)), NULL, 0,
			   &handle);
	if (!c)
		return NULL;
	c->ibv.context = context;
	urv_object_add(&c->entry, URV_COUNTERS, &c->ibv);
	return &c->ibv;
}

int urv_destroy_counters(struct ibv_counters *counters)
{
	struct urv_counters *c = of(counters);
	int rc = urv_ending(URV_COUNTERS, counters);

	if (!rc)
		rc = urv_ended(&c->entry, atomic_load(&c->users) ? -EBUSY : 0);
	if (rc)
		return urv_errno(rc);
	urv_object_free(urv_context(counters->context), URV_COUNTERS, c, NULL);
	return 0;
}

/* As mlx5: before the counting flow is created, never to an existing one. */
int urv_attach_counters(struct ibv_counters *counters,
			struct ibv_counter_attach_attr *attr,
			struct ibv_flow *flow)
{
	struct urv_counters *c = of(counters);
	int rc = urv_check(URV_COUNTERS, counters);

	if (rc)
		return urv_errno(rc);
	if (attr->comp_mask || flow)
		return urv_errno(-EOPNOTSUPP);
	if (attr->index >= POINTS_MAX ||
	    (unsigned int)attr->counter_desc > IBV_COUNTER_BYTES)
		return urv_errno(-EINVAL);
	pthread_mutex_lock(&counters->context->mutex);
	if (atomic_load(&c->users))
		rc = -EBUSY;
	else
		c->point[attr->index] = (uint8_t)(attr->counter_desc + 1);
	pthread_mutex_unlock(&counters->context->mutex);
	return urv_errno(rc);
}

int urv_read_counters(struct ibv_counters *counters, uint64_t *values,
		      uint32_t n, uint32_t flags)
{
	struct urv_counters *c = of(counters);
	int rc = urv_check(URV_COUNTERS, counters);

	if (rc)
		return urv_errno(rc);
	if (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED)
		return urv_errno(-EOPNOTSUPP);
	if (n > POINTS_MAX)
		return urv_errno(-EINVAL);
	pthread_mutex_lock(&counters->context->mutex);
	for (uint32_t i = 0; i < n; i++) {
		if (c->point[i] == IBV_COUNTER_PACKETS + 1)
			values[i] = atomic_load(&c->totals.packets);
		else if (c->point[i] == IBV_COUNTER_BYTES + 1)
			values[i] = atomic_load(&c->totals.bytes);
		else
			values[i] = 0;
	}
	pthread_mutex_unlock(&counters->context->mutex);
	return 0;
}

struct ur_flow_count *urv_counters_get(struct ibv_counters *counters)
{
	atomic_fetch_add(&of(counters)->users, 1);
	return &of(counters)->totals;
}

void urv_counters_put(struct ibv_counters *counters)
{
	atomic_fetch_sub(&of(counters)->users, 1);
}
