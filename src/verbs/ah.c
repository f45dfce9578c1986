/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "fault/state.h"
#include "verbs/convert.h"
#include "verbs/objects.h"

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	int rc = urv_check(URV_PD, pd);
	struct urv_context *c;
	struct urv_ah *ah;
	uint32_t handle;

	if (!rc)
		rc = ur_fault_call(UR_FAULT_create_ah);
	if (rc)
		return urv_null(rc);
	c = urv_context(pd->context);
	if (urv_is_iwarp(c))
		return urv_null(-EOPNOTSUPP);
	ah = urv_object_new(c, calloc(1, sizeof(*ah)), &c->device->ahs,
			    c->device->spec->max.max_ah, &handle);
	if (!ah)
		return NULL;
	urv_av_from_ah(&ah->av, attr);
	rc = ur_dev_resolve_av(c->dev, &ah->av);
	if (rc) {
		urv_object_drop(c, ah, &c->device->ahs);
		return urv_null(rc);
	}
	ah->ibv.handle = handle;
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	atomic_fetch_add(&urv_pd(pd)->core.users, 1);
	urv_object_add(&ah->entry, URV_AH, &ah->ibv);
	return &ah->ibv;
}

/* A request that was posted has its own copy of the address vector. */
int ibv_destroy_ah(struct ibv_ah *ibah)
{
	int rc = urv_ending(URV_AH, ibah);
	struct urv_context *c;

	if (rc)
		return urv_errno(rc);
	(void)urv_ended(&urv_ah(ibah)->entry, 0);
	c = urv_context(ibah->context);
	atomic_fetch_sub(&urv_pd(ibah->pd)->core.users, 1);
	urv_object_free(c, URV_AH, urv_ah(ibah), &c->device->ahs);
	return 0;
}
