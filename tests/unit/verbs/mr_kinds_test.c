/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions of other memory than the application's, and advice. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "setup.h"
#include "verbs/dm.h"
#include "verbs/mr.h"

#define RW  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define ODP (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND)

static size_t page;

static void null_region(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr = ibv_alloc_null_mr(f->pd);

	assert_non_null(mr);
	assert_int_not_equal(mr->lkey, 0);
	assert_int_equal(mr->rkey, 0);
	assert_null(mr->addr);
	assert_int_equal(mr->length, SIZE_MAX);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				      NULL, 0, IBV_ACCESS_LOCAL_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_pd(f->pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static struct ibv_dm *dm_new(struct fixture *f, size_t length)
{
	struct ibv_alloc_dm_attr attr = { .length = length };

	return ibv_alloc_dm(f->ctx, &attr);
}

static void device_memory_is_copied_in_words(void **state)
{
	static const struct {
		uint64_t offset;
		size_t length;
		int error;
	} bad[] = {
		{ 3, 4, EINVAL },
		{ 4, 3, EINVAL },
		{ 104, 4, EFAULT },
		{ 0, 104, EFAULT },
		{ UINT64_MAX - 3, 8, EFAULT },
	};
	struct fixture *f = *state;
	struct ibv_dm *dm = dm_new(f, 100);
	char in[128] = "device memory", out[128];

	assert_non_null(dm);
	assert_ptr_equal(dm->context, f->ctx);
	assert_int_equal(ibv_memcpy_to_dm(dm, 40, in, 16), 0);
	assert_int_equal(ibv_memcpy_from_dm(out, dm, 40, 16), 0);
	assert_memory_equal(in, out, 16);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ibv_memcpy_to_dm(dm, bad[i].offset, in,
						  bad[i].length),
				 bad[i].error);
		assert_int_equal(ibv_memcpy_from_dm(out, dm, bad[i].offset,
						    bad[i].length),
				 bad[i].error);
	}
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void device_memory_is_limited(void **state)
{
	struct fixture *f = *state;
	struct ibv_device_attr_ex attr;
	struct ibv_alloc_dm_attr bad[] = {
		{ .length = 0 },
		{ .length = 8, .comp_mask = 1 },
		{ .length = 8, .log_align_req = 13 },
	};
	struct ibv_dm *all, *one;

	assert_int_equal(ibv_query_device_ex(f->ctx, NULL, &attr), 0);
	all = dm_new(f, attr.max_dm_size);
	assert_non_null(all);
	assert_null(dm_new(f, 1));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(ibv_free_dm(all), 0);
	one = dm_new(f, 1);
	assert_non_null(one);
	assert_int_equal(ibv_free_dm(one), 0);
	assert_null(dm_new(f, attr.max_dm_size + 1));
	assert_int_equal(errno, ENOMEM);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_null(ibv_alloc_dm(f->ctx, &bad[i]));
		assert_int_equal(errno, EINVAL);
	}
}

static void regions_of_device_memory(void **state)
{
	static const struct {
		uint64_t offset;
		size_t length;
		unsigned int access;
	} bad[] = {
		{ 0, 104, IBV_ACCESS_ZERO_BASED | RW },
		{ 104, 0, IBV_ACCESS_ZERO_BASED | RW },
		{ 8, UINT64_MAX, IBV_ACCESS_ZERO_BASED | RW },
		{ 0, 100, RW },
		{ 0, 100, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE },
		{ 0, 100, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND },
		{ 0, 100, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_MW_BIND },
	};
	struct fixture *f = *state;
	struct ibv_dm *dm = dm_new(f, 100);
	struct ibv_mr *mr;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_null(ibv_reg_dm_mr(f->pd, dm, bad[i].offset,
					  bad[i].length, bad[i].access));
		assert_int_equal(errno, EINVAL);
	}
	mr = ibv_reg_dm_mr(f->pd, dm, 40, 60,
			   IBV_ACCESS_ZERO_BASED | RW |
				   IBV_ACCESS_RELAXED_ORDERING);
	assert_non_null(mr);
	assert_null(mr->addr);
	assert_int_equal(mr->length, 60);
	assert_int_equal(urv_mr(mr)->core->iova, 0);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				      NULL, 0, IBV_ACCESS_LOCAL_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void device_memory_is_handed_on(void **state)
{
	struct fixture *f = *state;
	struct ibv_dm *dm = dm_new(f, 100);
	char in[16] = "handed on", *p;
	struct ibv_mr *mr;
	int fd = ibv_dm_export_dmabuf_fd(dm);

	assert_true(fd >= 0);
	assert_int_equal(ibv_memcpy_to_dm(dm, 8, in, 16), 0);
	mr = ibv_reg_dmabuf_mr(f->pd, 8, 16, 8, fd, RW);
	assert_non_null(mr);
	close(fd);
	assert_int_equal(ibv_free_dm(dm), 0);
	/* The region holds the memory. */
	p = (char *)urv_mr(mr)->core->addr;
	assert_memory_equal(p, in, 16);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static int some_memory(size_t size)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static void dma_bufs_are_mapped(void **state)
{
	struct fixture *f = *state;
	int fd = some_memory(3 * page);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(f->pd, page + 12, page,
					      7 * page + 12, fd, RW);
	const struct ur_mr *core;

	assert_non_null(mr);
	core = urv_mr(mr)->core;
	assert_ptr_equal(mr->addr, (void *)(page + 12));
	assert_int_equal(core->iova, 7 * page + 12);
	memset(core->addr, 'x', page);
	char got;
	assert_int_equal(pread(fd, &got, 1, (off_t)(2 * page + 11)), 1);
	assert_int_equal(got, 'x');
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, f->pd, NULL,
				      0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* Without write rights it is mapped read-only. */
	mr = ibv_reg_dmabuf_mr(f->pd, 0, page, 0, fd, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	close(fd);
}

static void what_is_no_dma_buf_is_refused(void **state)
{
	struct fixture *f = *state;
	int fd = some_memory(2 * page), file = open("/proc/self/exe", O_RDONLY),
	    pipes[2];
	const struct {
		uint64_t offset, length, iova;
		int fd, access, error;
	} bad[] = {
		{ 0, page, 0, file, 0, EINVAL },
		{ 0, page, 0, -1, 0, EBADF },
		{ page, 2 * page, 0, fd, RW, EINVAL },
		{ 0, 0, 0, fd, RW, EINVAL },
		{ UINT64_MAX, 1, UINT64_MAX, fd, RW, EINVAL },
		{ INT64_MAX, INT64_MAX, INT64_MAX, fd, RW, EINVAL },
		{ 12, page, 13, fd, RW, EINVAL },
		{ 0, page, 0, fd, IBV_ACCESS_REMOTE_WRITE, EINVAL },
		{ 0, page, 0, fd, ODP, EINVAL },
		{ 0, page, 0, fd, IBV_ACCESS_ZERO_BASED, EINVAL },
	};

	assert_int_equal(pipe(pipes), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_null(ibv_reg_dmabuf_mr(f->pd, bad[i].offset,
					      bad[i].length, bad[i].iova,
					      bad[i].fd, bad[i].access));
		assert_int_equal(errno, bad[i].error);
	}
	assert_null(ibv_reg_dmabuf_mr(f->pd, 0, page, 0, pipes[0], 0));
	close(pipes[0]);
	close(pipes[1]);
	close(file);
	close(fd);
}

static void regions_on_demand(void **state)
{
	struct fixture *f = *state;
	struct ibv_device_attr_ex attr;
	struct ibv_mr *mr;

	assert_int_equal(ibv_query_device_ex(f->ctx, NULL, &attr), 0);
	assert_int_equal(attr.odp_caps.general_caps,
			 IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	mr = ibv_reg_mr(f->pd, NULL, SIZE_MAX, ODP);
	assert_non_null(mr);
	assert_int_equal(mr->length, SIZE_MAX);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* Huge pages throughout can be promised of one range only. */
	assert_null(
		ibv_reg_mr(f->pd, NULL, SIZE_MAX, ODP | IBV_ACCESS_HUGETLB));
	assert_int_equal(errno, EINVAL);
	mr = ibv_reg_mr(f->pd, (void *)page, page, ODP | IBV_ACCESS_HUGETLB);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static bool is_present(void *p)
{
	unsigned char there;

	assert_int_equal(mincore(p, page, &there), 0);
	return there & 1;
}

static int advise(struct fixture *f, enum ibv_advise_mr_advice advice,
		  struct ibv_mr *mr, void *addr, size_t len)
{
	struct ibv_sge sge = { (uintptr_t)addr, (uint32_t)len, mr->lkey };

	return ibv_advise_mr(f->pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

static void prefetching_brings_pages(void **state)
{
	static const enum ibv_advise_mr_advice advice[] = {
		IBV_ADVISE_MR_ADVICE_PREFETCH,
		IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
	};
	struct fixture *f = *state;
	struct ibv_mr *mr = ibv_reg_mr(f->pd, NULL, SIZE_MAX, ODP);
	char *p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(advise(f, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, mr,
				p, page),
			 0);
	assert_false(is_present(p));
	for (int i = 0; i < 2; i++) {
		char *at = p + 2 * (size_t)i * page;

		assert_int_equal(advise(f, advice[i], mr, at + page - 1, 1), 0);
		assert_true(is_present(at));
		assert_false(is_present(at + page));
	}
	munmap(p, 4 * page);
	assert_int_equal(advise(f, advice[1], mr, p, page), EFAULT);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void bad_advice(void **state)
{
	const enum ibv_advise_mr_advice write =
		IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	struct fixture *f = *state;
	char *p = aligned_alloc(page, 2 * page);
	struct ibv_mr *odp = ibv_reg_mr(f->pd, p, page, ODP);
	struct ibv_mr *ro = ibv_reg_mr(f->pd, p, page, IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *pinned = ibv_reg_mr(f->pd, p, page, RW);
	struct ibv_pd *other = ibv_alloc_pd(f->ctx);
	struct ibv_sge sge = { (uintptr_t)p, 8, odp->lkey };

	assert_int_equal(advise(f, write, pinned, p, 8), ENOENT);
	assert_int_equal(advise(f, write, ro, p, 8), EPERM);
	assert_int_equal(advise(f, write, odp, p + page, 8), EFAULT);
	assert_int_equal(advise(f, write, odp, p - 1, 8), EFAULT);
	assert_int_equal(ibv_advise_mr(other, write, 0, &sge, 1), EPERM);
	assert_int_equal(ibv_advise_mr(f->pd, write, 2, &sge, 1), EINVAL);
	assert_int_equal(ibv_advise_mr(f->pd, write, 0, &sge, 0), EINVAL);
	assert_int_equal(ibv_advise_mr(f->pd, 17, 0, &sge, 1), EOPNOTSUPP);
	sge.lkey ^= 1;
	assert_int_equal(ibv_advise_mr(f->pd, write, 0, &sge, 1), ENOENT);
	sge.lkey ^= 1;
	assert_int_equal(ibv_advise_mr(f->pd, write, 0, &sge, 1), 0);
	assert_int_equal(ibv_dereg_mr(odp), 0);
	assert_int_equal(ibv_dereg_mr(ro), 0);
	assert_int_equal(ibv_dereg_mr(pinned), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	free(p);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(null_region),
		TEST(device_memory_is_copied_in_words),
		TEST(device_memory_is_limited),
		TEST(regions_of_device_memory),
		TEST(device_memory_is_handed_on),
		TEST(dma_bufs_are_mapped),
		TEST(what_is_no_dma_buf_is_refused),
		TEST(regions_on_demand),
		TEST(prefetching_brings_pages),
		TEST(bad_advice),
	};

	page = (size_t)sysconf(_SC_PAGESIZE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
