/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions of memory that is not the application's: none at all, that of the
 * device, and dma-bufs, which are mapped for as long as the region lives. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "verbs/convert.h"
#include "verbs/dm.h"
#include "verbs/mr.h"
#include "verbs/ops.h"

/* linux/magic.h: dma-buf, and its accepted substitutes */
#define DMA_BUF_FS   0x444d4142
#define TMPFS_FS     0x01021994
#define HUGETLBFS_FS 0x958458f6

#define RIGHTS                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |                   \
	 IBV_ACCESS_OPTIONAL_RANGE)

void urv_mr_release(struct urv_mr *root)
{
	if (root->map.iov_base)
		munmap(root->map.iov_base, root->map.iov_len);
	if (root->dm)
		urv_dm_unuse(root->dm);
	if (root->dmah)
		atomic_fetch_sub(&root->dmah->mrs, 1);
}

struct ibv_mr *urv_alloc_null_mr(struct ibv_pd *pd)
{
	struct urv_mr *mr =
		urv_mr_create(pd, &(struct urv_mr_spec){ .kind = UR_MR_NULL });

	return mr ? &mr->ibv : NULL;
}

/* ibv_alloc_dm(3): work requests address it by offsets only. */
struct ibv_mr *urv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibdm,
			     uint64_t offset, size_t length,
			     unsigned int access)
{
	int rc = urv_check(URV_DM, ibdm);
	struct urv_mr *mr;
	struct urv_dm *dm;

	if (rc)
		return urv_null(rc);
	dm = urv_dm(ibdm);
	if (!(access & IBV_ACCESS_ZERO_BASED) ||
	    access & ~(unsigned int)(RIGHTS | IBV_ACCESS_ZERO_BASED) ||
	    urv_dm_use(dm, offset, length))
		return urv_null(-EINVAL);
	mr = urv_mr_create(pd, &(struct urv_mr_spec){
				       .addr = dm->map + offset,
				       .length = length,
				       .access = access,
				       .kind = UR_MR_FOREIGN,
			       });
	if (!mr) {
		int err = errno;

		urv_dm_unuse(dm);
		return urv_null(-err);
	}
	mr->dm = dm;
	mr->ibv.addr = NULL;
	return &mr->ibv;
}

/* Other files could be mapped too, but only memory is accepted. *unit:
 * granularity of a mapping. */
static int check_dmabuf(int fd, uint64_t end, uint64_t *unit)
{
	struct statfs fs;
	off_t size;

	if (fstatfs(fd, &fs))
		return -errno;
	if (fs.f_type != DMA_BUF_FS && fs.f_type != TMPFS_FS &&
	    fs.f_type != HUGETLBFS_FS)
		return -EINVAL;
	size = lseek(fd, 0, SEEK_END);
	if (size < 0)
		return -errno;
	*unit = (uint64_t)fs.f_bsize;
	return end <= (uint64_t)size ? 0 : -EINVAL;
}

/* Sets spec->addr; the mapping is *map. */
static int map_dmabuf(int fd, uint64_t offset, struct urv_mr_spec *spec,
		      struct iovec *map)
{
	int prot = spec->access & IBV_ACCESS_LOCAL_WRITE
			   ? PROT_READ | PROT_WRITE
			   : PROT_READ;
	uint64_t unit = 1, skip;
	int rc;

	rc = check_dmabuf(fd, offset + spec->length, &unit);
	if (rc)
		return rc;
	skip = offset % unit;
	map->iov_len = (spec->length + skip + unit - 1) / unit * unit;
	map->iov_base = mmap(NULL, map->iov_len, prot, MAP_SHARED, fd,
			     (off_t)(offset - skip));
	if (map->iov_base == MAP_FAILED)
		return -errno;
	spec->addr = (uint8_t *)map->iov_base + skip;
	return 0;
}

struct ibv_mr *urv_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length,
			      uint64_t iova, int fd, uint32_t access)
{
	struct urv_mr_spec spec = { .length = length,
				    .iova = iova,
				    .access = access,
				    .kind = UR_MR_FOREIGN };
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct urv_mr *mr;
	struct iovec map;
	int rc;

	if (access & ~(uint32_t)RIGHTS || length == 0 || offset > INT64_MAX ||
	    length > INT64_MAX || (offset ^ iova) & (page - 1))
		return urv_null(-EINVAL);
	rc = map_dmabuf(fd, offset, &spec, &map);
	if (rc)
		return urv_null(rc);
	mr = urv_mr_create(pd, &spec);
	if (!mr) {
		rc = -errno;
		munmap(map.iov_base, map.iov_len);
		return urv_null(rc);
	}
	mr->map = map;
	mr->ibv.addr = (void *)(uintptr_t)offset;
	return &mr->ibv;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				 size_t length, uint64_t iova, int fd,
				 int access)
{
	return urv_reg_dmabuf(pd, offset, length, iova, fd, (uint32_t)access);
}
