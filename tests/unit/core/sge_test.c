/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/guard.h"
#include "core/sge.h"

struct fixture {
	struct ur_mr_table t;
	struct ur_pd pd, other;
	uint8_t buf[256];
	struct ur_mr *rw, *ro;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(ur_mr_table_init(&f->t), 0);
	assert_int_equal(ur_mr_create(&f->t, &f->pd, f->buf, sizeof(f->buf),
				      (uintptr_t)f->buf, UR_ACCESS_LOCAL_WRITE,
				      &f->rw),
			 0);
	assert_int_equal(ur_mr_create(&f->t, &f->pd, f->buf, sizeof(f->buf),
				      (uintptr_t)f->buf, 0, &f->ro),
			 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ur_mr_table_fini(&f->t);
	free(f);
	return 0;
}

static struct ur_sge sge(struct fixture *f, uint32_t at, uint32_t len)
{
	return (struct ur_sge){ (uintptr_t)f->buf + at, len, f->rw->key };
}

/* Every offset and length over a list with a gap and an empty element. */
static void test_scatter_at_every_offset(void **state)
{
	struct fixture *f = *state;
	const struct ur_sge s[] = {
		sge(f, 0, 7), { 1, 0, 1 }, sge(f, 100, 1), sge(f, 50, 13)
	};
	uint8_t src[21];

	for (uint8_t i = 0; i < sizeof(src); i++)
		src[i] = i + 1;
	for (uint32_t off = 0; off <= sizeof(src); off++)
		for (uint32_t len = 0; off + len <= sizeof(src); len++) {
			memset(f->buf, 0, sizeof(f->buf));
			assert_int_equal(ur_sge_scatter(&f->t, &f->pd, s, 4,
							off, src + off, len),
					 0);
			for (uint32_t i = 0; i < sizeof(src); i++) {
				uint32_t at = i < 7   ? i
					      : i < 8 ? 100
						      : 50 + i - 8;
				bool in = i >= off && i < off + len;

				assert_int_equal(f->buf[at], in ? src[i] : 0);
			}
		}
}

static void test_beyond_the_list(void **state)
{
	struct fixture *f = *state;
	const struct ur_sge s[] = { sge(f, 0, 7), sge(f, 50, 13) };
	uint8_t src[21] = { 0 };
	struct iovec iov[4];

	assert_int_equal(ur_sge_scatter(&f->t, &f->pd, s, 2, 0, src, 21),
			 -EMSGSIZE);
	assert_int_equal(ur_sge_scatter(&f->t, &f->pd, s, 2, 20, src, 1),
			 -EMSGSIZE);
	assert_int_equal(ur_sge_scatter(&f->t, &f->pd, s, 2, UINT64_MAX, src,
					1),
			 -EMSGSIZE);
	assert_int_equal(ur_sge_scatter(&f->t, &f->pd, s, 0, 0, src, 1),
			 -EMSGSIZE);
	assert_int_equal(ur_sge_scatter(&f->t, &f->pd, s, 2, 500, src, 0), 0);
	assert_int_equal(ur_sge_gather(&f->t, &f->pd, s, 2, 0, 21, iov, 4),
			 -EMSGSIZE);
}

static int scatter_one(struct fixture *f, struct ur_sge s)
{
	return ur_sge_scatter(&f->t, &f->pd, &s, 1, 0, "x", 1);
}

static int gather_one(struct fixture *f, struct ur_sge s)
{
	struct iovec iov;

	return ur_sge_gather(&f->t, &f->pd, &s, 1, 0, 1, &iov, 1);
}

static void test_keys_rights_and_ranges(void **state)
{
	struct fixture *f = *state;
	struct ur_sge s = sge(f, 0, 1);

	assert_int_equal(scatter_one(f, s), 0);
	assert_int_equal(gather_one(f, s), 1);
	s.lkey = f->ro->key;
	assert_int_equal(scatter_one(f, s), -EACCES);
	assert_int_equal(gather_one(f, s), 1);
	s.lkey ^= 0x80;
	assert_int_equal(scatter_one(f, s), -EACCES);
	assert_int_equal(gather_one(f, s), -EACCES);
	s = sge(f, sizeof(f->buf), 1);
	assert_int_equal(scatter_one(f, s), -EACCES);
	assert_int_equal(gather_one(f, s), -EACCES);
	s = sge(f, 0, 1);
	f->rw->pd = &f->other;
	assert_int_equal(scatter_one(f, s), -EACCES);
	assert_int_equal(gather_one(f, s), -EACCES);
}

static void test_gather_names_the_pieces(void **state)
{
	struct fixture *f = *state;
	const struct ur_sge s[] = {
		sge(f, 0, 7), { 1, 0, 1 }, sge(f, 100, 1), sge(f, 50, 13)
	};
	struct iovec iov[3];

	assert_int_equal(ur_sge_gather(&f->t, &f->pd, s, 4, 5, 8, iov, 3), 3);
	assert_ptr_equal(iov[0].iov_base, f->buf + 5);
	assert_int_equal(iov[0].iov_len, 2);
	assert_ptr_equal(iov[1].iov_base, f->buf + 100);
	assert_int_equal(iov[1].iov_len, 1);
	assert_ptr_equal(iov[2].iov_base, f->buf + 50);
	assert_int_equal(iov[2].iov_len, 5);
	assert_int_equal(ur_sge_gather(&f->t, &f->pd, s, 4, 5, 8, iov, 2),
			 -E2BIG);
	assert_int_equal(ur_sge_gather(&f->t, &f->pd, s, 4, 7, 1, iov, 1), 1);
	assert_int_equal(ur_sge_gather(&f->t, &f->pd, s, 4, 0, 0, iov, 0), 0);
}

static void test_memory_that_is_gone(void **state)
{
	struct fixture *f = *state;
	const int prot = PROT_READ | PROT_WRITE;
	struct ur_sge s = { .length = 10 };
	struct ur_mr *mr;
	void *p = mmap(NULL, 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/*
	 * Here and not in setup: cmocka installs its own handlers after that.
	 */
	assert_int_equal(ur_guard_install(), 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(ur_mr_create(&f->t, &f->pd, p, 4096, (uintptr_t)p,
				      UR_ACCESS_LOCAL_WRITE, &mr),
			 0);
	s.addr = (uintptr_t)p;
	s.lkey = mr->key;
	assert_int_equal(scatter_one(f, s), 0);
	munmap(p, 4096);
	assert_int_equal(scatter_one(f, s), -EFAULT);
}

/* IBTA has no null region; ibv_alloc_null_mr(3) defines it. */
static void test_null_region(void **state)
{
	struct fixture *f = *state;
	static uint8_t src[100000], zeros[65536];
	struct iovec iov[2];
	struct ur_mr *mr;

	assert_int_equal(ur_mr_create_null(&f->t, &f->pd, &mr), 0);
	struct ur_sge s = { UINT64_MAX - 5, sizeof(src), mr->key };

	memset(src, 7, sizeof(src));
	assert_int_equal(
		ur_sge_scatter(&f->t, &f->pd, &s, 1, 0, src, sizeof(src)), 0);
	assert_int_equal(
		ur_sge_gather(&f->t, &f->pd, &s, 1, 0, sizeof(src), iov, 2), 2);
	assert_int_equal(iov[0].iov_len + iov[1].iov_len, sizeof(src));
	assert_memory_equal(iov[0].iov_base, zeros, iov[0].iov_len);
	assert_memory_equal(iov[1].iov_base, zeros, iov[1].iov_len);
	assert_int_equal(ur_sge_gather(&f->t, &f->other, &s, 1, 0, 1, iov, 2),
			 -EACCES);
	assert_int_equal(ur_sge_scatter(&f->t, &f->other, &s, 1, 0, src, 1),
			 -EACCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_scatter_at_every_offset),
		T(test_beyond_the_list),
		T(test_keys_rights_and_ranges),
		T(test_gather_names_the_pieces),
		T(test_memory_that_is_gone),
		T(test_null_region),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
