/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Advice about on-demand regions. Pages of any region are faulted in on first
 * access; prefetching does it beforehand. With or without
 * IBV_ADVISE_MR_FLAG_FLUSH the pages are present when the call returns.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/convert.h"
#include "verbs/objects.h"
#include "verbs/ops.h"

/* asm-generic/mman-common.h of Linux 5.14; older headers lack them. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

static int check_element(struct urv_context *c, const struct ur_pd *pd,
			 const struct ibv_sge *sge, bool write, uint8_t **addr)
{
	struct ur_mr mr;
	int rc = ur_mr_peek(c->mrs, sge->lkey, &mr);

	if (rc)
		return rc;
	if (!(mr.access & UR_ACCESS_ON_DEMAND))
		return -ENOENT;
	if (mr.kind == UR_MR_REMOTE)
		return -EOPNOTSUPP;
	if (mr.pd != pd || (write && !(mr.access & UR_ACCESS_LOCAL_WRITE)))
		return -EPERM;
	*addr = ur_mr_translate(&mr, pd, sge->addr, sge->length, 0);
	return *addr || sge->addr == 0 ? 0 : -EFAULT;
}

/* Before Linux 5.14 only file pages are read ahead. */
static int prefetch(const uint8_t *addr, size_t length, bool write)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)addr & ~(page - 1);
	uintptr_t to = ((uintptr_t)addr + length + page - 1) & ~(page - 1);
	int how = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;

	if (madvise((void *)from, to - from, how) == 0)
		return 0;
	if (errno == EINVAL &&
	    madvise((void *)from, to - from, MADV_WILLNEED) == 0)
		return 0;
	return errno == ENOMEM || errno == EFAULT ? -EFAULT : -errno;
}

/* Present pages need no further preparation for the device. */
static int advise_one(struct urv_context *c, const struct ur_pd *pd,
		      const struct ibv_sge *sge,
		      enum ibv_advise_mr_advice advice)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uint8_t *addr;
	int rc = check_element(c, pd, sge, write, &addr);

	if (rc || sge->length == 0 ||
	    advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return rc;
	return prefetch(addr, sge->length, write);
}

int urv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice,
		  uint32_t flags, struct ibv_sge *sg, uint32_t num_sge)
{
	int rc = urv_check(URV_PD, pd);
	struct urv_context *c;

	if (rc)
		return urv_errno(rc);
	c = urv_context(pd->context);
	rc = urv_context_check(pd->context);
	if (c->generation != urv_generation)
		return urv_errno(-ENODEV);
	if (rc)
		return urv_errno(rc);
	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return urv_errno(-EOPNOTSUPP);
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || num_sge == 0)
		return urv_errno(-EINVAL);
	for (uint32_t i = 0; i < num_sge && !rc; i++)
		rc = advise_one(c, &urv_pd(pd)->core, &sg[i], advice);
	return urv_errno(rc);
}
