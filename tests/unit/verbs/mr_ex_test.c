/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of releases newer than the header: declared here as there. */
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "setup.h"
#include "verbs/mr.h"

#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

struct buf;
struct dmah;

struct attr {
	size_t length;
	int access;
	/* 1 iova, 2 addr, 4 fd, 8 offset, 16 dmah, 32 buf. */
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct dmah *dmah;
	struct buf *buf;
};

struct dmah_attr {
	uint32_t comp_mask; /* 1 CPU, 2 processing hint, 4 type of memory */
	uint32_t cpu_id;
	uint8_t ph;
	uint8_t tph_mem_type;
};

static struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct attr *);
static struct dmah *(*alloc_dmah)(struct ibv_context *, struct dmah_attr *);
static int (*dealloc_dmah)(struct dmah *);
static void *(*alloc_buf)(struct ibv_pd *, size_t, struct buf **);
static void (*free_buf)(struct buf *);
static int (*export_buf)(struct buf *);
static struct ibv_mr *(*reg_buf_mr)(struct ibv_pd *, struct buf *, void *,
				    size_t, int);

static char memory[4096];

static void regions_by_address(void **state)
{
	struct fixture *f = *state;
	struct attr a = { .length = sizeof(memory),
			  .access = RW,
			  .comp_mask = 2,
			  .addr = memory };
	struct ibv_mr *mr = reg_mr_ex(f->pd, &a);

	assert_non_null(mr);
	assert_ptr_equal(mr->addr, memory);
	assert_int_equal(urv_mr(mr)->core->iova, (uintptr_t)memory);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	a.comp_mask = 3;
	a.iova = 0x7000;
	mr = reg_mr_ex(f->pd, &a);
	assert_int_equal(urv_mr(mr)->core->iova, 0x7000);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void regions_by_descriptor(void **state)
{
	struct fixture *f = *state;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct attr a = { .length = page,
			  .access = RW,
			  .comp_mask = 1 | 4 | 8,
			  .iova = 0x70000000,
			  .fd = memfd_create("x", MFD_CLOEXEC),
			  .fd_offset = page };
	struct ibv_mr *mr;

	assert_int_equal(ftruncate(a.fd, (off_t)(2 * page)), 0);
	mr = reg_mr_ex(f->pd, &a);
	assert_non_null(mr);
	assert_int_equal(urv_mr(mr)->core->iova, 0x70000000);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	a.fd_offset = 2 * page;
	assert_null(reg_mr_ex(f->pd, &a));
	assert_int_equal(errno, EINVAL);
	close(a.fd);
}

static void dma_handles(void **state)
{
	struct fixture *f = *state;
	struct dmah_attr bad[] = {
		{ .comp_mask = 8 },
		{ .comp_mask = 1, .cpu_id = 1 << 20 },
		{ .comp_mask = 2, .ph = 4 },
		{ .comp_mask = 4, .tph_mem_type = 2 },
	};
	struct dmah_attr good = { .comp_mask = 7, .ph = 3, .tph_mem_type = 1 };
	struct attr a = { .length = 16, .comp_mask = 2 | 16, .addr = memory };
	struct ibv_mr *mr;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_null(alloc_dmah(f->ctx, &bad[i]));
		assert_int_equal(errno, EINVAL);
	}
	a.dmah = alloc_dmah(f->ctx, &good);
	assert_non_null(a.dmah);
	a.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
	assert_null(reg_mr_ex(f->pd, &a));
	assert_int_equal(errno, EOPNOTSUPP);
	a.access = 0;
	mr = reg_mr_ex(f->pd, &a);
	assert_non_null(mr);
	assert_int_equal(dealloc_dmah(a.dmah), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(dealloc_dmah(a.dmah), 0);
}

static void buffers(void **state)
{
	struct fixture *f = *state;
	struct ibv_pd *other = ibv_alloc_pd(f->ctx);
	struct buf *buf;
	char *p = alloc_buf(f->pd, 8192, &buf);
	struct attr a = { .length = 4096,
			  .access = RW,
			  .comp_mask = 2 | 32,
			  .addr = p + 4096,
			  .buf = buf };
	struct ibv_mr *mr = reg_buf_mr(f->pd, buf, p, 8192, RW);

	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = reg_mr_ex(f->pd, &a);
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, p + 4096);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(reg_mr_ex(other, &a));
	assert_int_equal(errno, EINVAL);
	assert_null(reg_buf_mr(other, buf, p, 8192, RW));
	assert_int_equal(errno, EINVAL);
	assert_null(reg_buf_mr(f->pd, buf, p, 8193, RW));
	assert_null(reg_buf_mr(f->pd, buf, p + 8192, 1, RW));
	assert_null(reg_buf_mr(f->pd, buf, p - 1, 1, RW));
	a.length++;
	assert_null(reg_mr_ex(f->pd, &a));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(export_buf(buf), -1);
	assert_int_equal(errno, ENODATA); /* not "no such call" */
	free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void misuse(void **state)
{
	/* Neither or both of address and descriptor, and unknown bits. */
	static const uint64_t bad[] = { 0,     1,  2 | 4,     2 | 8,  4,
					4 | 1, 32, 2 | 4 | 8, 2 | 64, 1 << 31 };
	struct fixture *f = *state;
	struct attr a = { .length = 16, .addr = memory, .fd = -1 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		a.comp_mask = bad[i];
		assert_null(reg_mr_ex(f->pd, &a));
		assert_int_equal(errno, EINVAL);
	}
}

static void *newer(const char *name, const char *version)
{
	void *fn = dlvsym(RTLD_DEFAULT, name, version);

	assert_non_null(fn);
	return fn;
}

static int look_up(void **state)
{
	*(void **)&reg_mr_ex = newer("ibv_reg_mr_ex", "IBVERBS_1.15");
	*(void **)&alloc_dmah = newer("ibv_alloc_dmah", "IBVERBS_1.15");
	*(void **)&dealloc_dmah = newer("ibv_dealloc_dmah", "IBVERBS_1.15");
	*(void **)&alloc_buf = newer("ibv_alloc_buf", "IBVERBS_1.17");
	*(void **)&free_buf = newer("ibv_free_buf", "IBVERBS_1.17");
	*(void **)&export_buf =
		newer("ibv_export_buf_dmabuf_fd", "IBVERBS_1.18");
	*(void **)&reg_buf_mr = newer("ibv_reg_buf_mr", "IBVERBS_1.17");
	return 0;
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(regions_by_address),
		TEST(regions_by_descriptor),
		TEST(dma_handles),
		TEST(buffers),
		TEST(misuse),
	};

	return cmocka_run_group_tests(tests, look_up, NULL);
}
