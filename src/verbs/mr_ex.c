/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IBVERBS_1.15: regions with many attributes, and DMA handles. Such a handle
 * names the processor's caches for inbound data. Here a processor places the
 * data, and so it goes through caches anyway; the handle is checked, kept and
 * has no further effect. None of this is in every header, hence our own names
 * and layouts.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/convert.h"
#include "verbs/exports.h"
#include "verbs/mr.h"

enum {
	MASK_IOVA = 1 << 0,
	MASK_ADDR = 1 << 1,
	MASK_FD = 1 << 2,
	MASK_FD_OFFSET = 1 << 3,
	MASK_DMAH = 1 << 4,
	MASK_BUF = 1 << 5,
	MASK_ALL = (1 << 6) - 1,
};

struct urv_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct urv_dmah *dmah;
	struct urv_buf *buf; /* valid only if in the mask */
};
_Static_assert(sizeof(struct urv_mr_init_attr) == 72, "ibv_mr_init_attr");

enum {
	DMAH_CPU_ID = 1 << 0,
	DMAH_PH = 1 << 1,
	DMAH_MEM_TYPE = 1 << 2,
	DMAH_ALL = (1 << 3) - 1,
};

struct urv_dmah_init_attr {
	uint32_t comp_mask;
	uint32_t cpu_id;
	uint8_t ph; /* PCIe: two bits */
	uint8_t tph_mem_type;
};
_Static_assert(sizeof(struct urv_dmah_init_attr) == 12, "ibv_dmah_init_attr");

#define PH_MAX	     3u
#define MEM_TYPE_MAX 1u /* volatile, persistent */

struct urv_dmah *urv_alloc_dmah(struct ibv_context *context,
				const struct urv_dmah_init_attr *attr);
int urv_dealloc_dmah(struct urv_dmah *dmah);
struct ibv_mr *urv_reg_mr_ex(struct ibv_pd *pd,
			     const struct urv_mr_init_attr *attr);
URV_EXPORT(urv_alloc_dmah, ibv_alloc_dmah, "IBVERBS_1.15");
URV_EXPORT(urv_dealloc_dmah, ibv_dealloc_dmah, "IBVERBS_1.15");
URV_EXPORT(urv_reg_mr_ex, ibv_reg_mr_ex, "IBVERBS_1.15");

static int check_dmah(const struct urv_dmah_init_attr *a)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	if (a->comp_mask & ~(uint32_t)DMAH_ALL ||
	    ((a->comp_mask & DMAH_CPU_ID) && a->cpu_id >= (uint32_t)cpus) ||
	    ((a->comp_mask & DMAH_PH) && a->ph > PH_MAX) ||
	    ((a->comp_mask & DMAH_MEM_TYPE) && a->tph_mem_type > MEM_TYPE_MAX))
		return -EINVAL;
	return 0;
}

struct urv_dmah *urv_alloc_dmah(struct ibv_context *context,
				const struct urv_dmah_init_attr *attr)
{
	struct urv_context *c = urv_context(context);
	struct urv_dmah *dmah;
	uint32_t handle;
	int rc = urv_check(URV_CONTEXT, context);

	if (!rc)
		rc = check_dmah(attr);
	if (rc)
		return urv_null(rc);
	dmah = urv_object_new(c, calloc(1, sizeof(*dmah)), NULL, 0, &handle);
	if (!dmah)
		return NULL;
	dmah->context = context;
	urv_object_add(&dmah->entry, URV_DMAH, dmah);
	return dmah;
}

int urv_dealloc_dmah(struct urv_dmah *dmah)
{
	int rc = urv_ending(URV_DMAH, dmah);

	if (!rc)
		rc = urv_ended(&dmah->entry,
			       atomic_load(&dmah->mrs) ? -EBUSY : 0);
	if (rc)
		return urv_errno(rc);
	urv_object_free(urv_context(dmah->context), URV_DMAH, dmah, NULL);
	return 0;
}

/* Exactly one of address and descriptor; a buffer is given by address. */
static int check_attr(const struct ibv_pd *pd, const struct urv_mr_init_attr *a)
{
	uint64_t mask = a->comp_mask;

	if (mask & ~(uint64_t)MASK_ALL ||
	    !(mask & MASK_ADDR) == !(mask & MASK_FD) ||
	    ((mask & MASK_FD) && !(mask & MASK_FD_OFFSET)) ||
	    ((mask & MASK_ADDR) && (mask & MASK_FD_OFFSET)))
		return -EINVAL;
	if ((mask & MASK_BUF) &&
	    (!(mask & MASK_ADDR) ||
	     !urv_buf_holds(a->buf, pd, a->addr, a->length)))
		return -EINVAL;
	return 0;
}

struct ibv_mr *urv_reg_mr_ex(struct ibv_pd *pd,
			     const struct urv_mr_init_attr *a)
{
	uint64_t mask = a->comp_mask;
	struct ibv_mr *mr;
	int rc = check_attr(pd, a);

	if (!rc && (mask & MASK_DMAH))
		rc = urv_check(URV_DMAH, a->dmah);
	/* Its hints require pinned pages; mlx5 answers the same. */
	if (!rc && (mask & MASK_DMAH) && (a->access & IBV_ACCESS_ON_DEMAND))
		rc = -EOPNOTSUPP;
	if (rc)
		return urv_null(rc);
	if (mask & MASK_FD)
		mr = urv_reg_dmabuf(pd, a->fd_offset, a->length,
				    mask & MASK_IOVA ? a->iova : a->fd_offset,
				    a->fd, (uint32_t)a->access);
	else
		mr = ibv_reg_mr_iova2(pd, a->addr, a->length,
				      mask & MASK_IOVA ? a->iova
						       : (uintptr_t)a->addr,
				      (unsigned int)a->access);
	if (mr && (mask & MASK_DMAH)) {
		atomic_fetch_add(&a->dmah->mrs, 1);
		urv_mr(mr)->dmah = a->dmah;
	}
	return mr;
}
