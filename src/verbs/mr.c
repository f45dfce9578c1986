/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "verbs/convert.h"
#include "verbs/objects.h"

/* verbs.h wraps them to choose among the registration calls. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static void publish(struct urv_mr *mr, struct ibv_pd *pd)
{
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = mr->core->addr;
	mr->ibv.length = mr->core->length;
	mr->ibv.lkey = mr->core->key;
	mr->ibv.rkey = mr->core->key;
	mr->core->object = &mr->ibv;
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length,
			  uint64_t iova, uint32_t access)
{
	struct urv_context *c = urv_context(pd->context);
	struct urv_mr *mr = calloc(1, sizeof(*mr));
	int rc;

	if (!mr)
		return urv_null(-ENOMEM);
	rc = urv_context_get(c, &mr->ibv.handle);
	if (rc)
		goto free_mr;
	rc = ur_mr_create(c->mrs, &urv_pd(pd)->core, addr, length, iova,
			  access & ~(uint32_t)UR_ACCESS_OPTIONAL, &mr->core);
	if (rc)
		goto put_context;
	publish(mr, pd);
	return &mr->ibv;

put_context:
	urv_context_put(c);
free_mr:
	free(mr);
	return urv_null(rc);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			  int access)
{
	return reg(pd, addr, length, (uintptr_t)addr, (uint32_t)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
			       uint64_t iova, int access)
{
	return reg(pd, addr, length, iova, (uint32_t)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
				uint64_t iova, unsigned int access)
{
	return reg(pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				 size_t length, uint64_t iova, int fd,
				 int access)
{
	return urv_null(-EOPNOTSUPP);
}

/* Every failure leaves the region as it was, which is what this code says. */
static int rereg_failed(int rc)
{
	errno = -rc;
	return IBV_REREG_MR_ERR_INPUT;
}

int ibv_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *pd, void *addr,
		 size_t length, int access)
{
	struct urv_context *c = urv_context(ibmr->context);
	struct urv_mr *mr = urv_mr(ibmr);
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	int rc;

	if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) ||
	    (moves && (length == 0 || !addr)) ||
	    (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS)) ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && !pd))
		return rereg_failed(-EINVAL);
	if (c->generation != urv_generation)
		return rereg_failed(-ENODEV);
	if (!(flags & IBV_REREG_MR_CHANGE_PD))
		pd = ibmr->pd;
	rc = ur_mr_rereg(c->mrs, &mr->core, (uint32_t)flags, &urv_pd(pd)->core,
			 addr, length,
			 (uint32_t)access & ~(uint32_t)UR_ACCESS_OPTIONAL);
	if (rc)
		return rereg_failed(rc);
	publish(mr, pd);
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	struct urv_context *c = urv_context(ibmr->context);
	struct urv_mr *mr = urv_mr(ibmr);

	if (c->generation != urv_generation)
		return urv_errno(-ENODEV);
	ur_mr_destroy(c->mrs, mr->core);
	free(mr);
	urv_context_put(c);
	return 0;
}
