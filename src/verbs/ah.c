/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "verbs/convert.h"
#include "verbs/objects.h"

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	int rc = urv_check(URV_PD, pd);
	struct urv_context *c;
	struct urv_ah *ah;

	if (rc)
		return urv_null(rc);
	c = urv_context(pd->context);
	if (urv_is_iwarp(c))
		return urv_null(-EOPNOTSUPP);
	rc = urv_context_check(pd->context);
	if (rc)
		return urv_null(rc);
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return urv_null(-ENOMEM);
	rc = urv_limit_get(&c->device->ahs, c->device->spec->max.max_ah);
	if (rc)
		goto free_ah;
	urv_av_from_ah(&ah->av, attr);
	rc = ur_dev_resolve_av(c->dev, &ah->av);
	if (rc)
		goto put_limit;
	rc = urv_context_get(c, &ah->ibv.handle);
	if (rc)
		goto put_limit;
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	atomic_fetch_add(&urv_pd(pd)->core.users, 1);
	urv_object_add(&ah->entry, URV_AH, &ah->ibv);
	return &ah->ibv;

put_limit:
	urv_limit_put(&c->device->ahs);
free_ah:
	free(ah);
	return urv_null(rc);
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
	urv_retire(URV_AH, urv_ah(ibah));
	urv_limit_put(&c->device->ahs);
	urv_context_put(c);
	return 0;
}
