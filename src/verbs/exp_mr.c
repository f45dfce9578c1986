/* SPDX-License-Identifier: BSD-2-Clause */
/* Experimental registration: also of memory that the library allocates. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/convert.h"
#include "verbs/exp.h"
#include "verbs/mr.h"

#define RIGHTS                                                                 \
	((uint64_t)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |         \
		    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |        \
		    IBV_ACCESS_MW_BIND))

/* All bits from ALLOCATE_MR up to RESERVED */
#define EXP_FLAGS                                                              \
	(IBV_EXP_ACCESS_RESERVED - (uint64_t)IBV_EXP_ACCESS_ALLOCATE_MR)

int urv_exp_access(uint64_t flags, uint64_t also, uint32_t *out)
{
	uint32_t access = (uint32_t)(flags & RIGHTS);

	if (flags & ~(RIGHTS | EXP_FLAGS))
		return -EINVAL;
	if (flags & ~(RIGHTS | also))
		return -EOPNOTSUPP;
	if (flags & IBV_EXP_ACCESS_ON_DEMAND)
		access |= IBV_ACCESS_ON_DEMAND;
	if (flags & IBV_EXP_ACCESS_MW_ZERO_BASED)
		access |= IBV_ACCESS_ZERO_BASED;
	*out = access;
	return 0;
}

static int check(const struct ibv_exp_reg_mr_in *in)
{
	uint32_t flags = in->comp_mask & IBV_EXP_REG_MR_CREATE_FLAGS
				 ? in->create_flags
				 : 0;

	if (in->comp_mask >= IBV_EXP_REG_MR_RESERVED ||
	    flags & ~(uint32_t)IBV_EXP_REG_MR_CREATE_CONTIG)
		return -EINVAL;
	return flags || in->comp_mask & IBV_EXP_REG_MR_DM ? -EOPNOTSUPP : 0;
}

/* Memory of the region, until it is deregistered */
static struct ibv_mr *allocate(const struct ibv_exp_reg_mr_in *in,
			       uint32_t access)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct iovec map;
	struct urv_mr *mr;

	if (in->addr || !in->length || in->length > SIZE_MAX - page)
		return urv_null(-EINVAL);
	map.iov_len = (in->length + page - 1) / page * page;
	map.iov_base = mmap(NULL, map.iov_len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map.iov_base == MAP_FAILED)
		return urv_null(-ENOMEM);
	mr = urv_mr_create(
		in->pd, &(struct urv_mr_spec){ .addr = map.iov_base,
					       .length = in->length,
					       .iova = (uintptr_t)map.iov_base,
					       .access = access });
	if (!mr) {
		int err = errno;

		munmap(map.iov_base, map.iov_len);
		return urv_null(-err);
	}
	mr->map = map;
	return &mr->ibv;
}

struct ibv_mr *urv_exp_reg_mr(struct ibv_exp_reg_mr_in *in)
{
	uint64_t also = IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_ON_DEMAND;
	uint32_t access;
	int rc = check(in);

	/* A hint, which libfabric gives where ODP is reported */
	if (in->exp_access & IBV_EXP_ACCESS_ON_DEMAND)
		also |= IBV_EXP_ACCESS_RELAXED;
	if (!rc)
		rc = urv_exp_access(in->exp_access, also, &access);
	if (rc)
		return urv_null(rc);
	if (in->exp_access & IBV_EXP_ACCESS_ALLOCATE_MR)
		return allocate(in, access);
	return ibv_reg_mr_iova2(in->pd, in->addr, in->length,
				(uintptr_t)in->addr, access);
}
