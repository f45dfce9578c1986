/* SPDX-License-Identifier: BSD-2-Clause */
#include "setup.h"

#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static char buf[8192];

static void describes_the_region(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr = ibv_reg_mr(f->pd, buf, sizeof(buf), RW);

	assert_non_null(mr);
	assert_ptr_equal(mr->context, f->ctx);
	assert_ptr_equal(mr->pd, f->pd);
	assert_ptr_equal(mr->addr, buf);
	assert_int_equal(mr->length, sizeof(buf));
	assert_int_not_equal(mr->rkey, 0);
	assert_int_equal(ibv_dealloc_pd(f->pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* perftest requests relaxed ordering; hints are never refused. */
static void ignores_optional_access(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr;
	int access = RW | IBV_ACCESS_RELAXED_ORDERING | 1 << 29;

	mr = ibv_reg_mr(f->pd, buf, sizeof(buf), access);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void refuses_nonsense(void **state)
{
	struct fixture *f = *state;

	assert_null(
		ibv_reg_mr(f->pd, buf, sizeof(buf), IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(f->pd, buf, sizeof(buf), 1 << 19));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(f->pd, NULL, sizeof(buf), RW));
	assert_int_equal(errno, EFAULT);
}

static void keeps_the_iova_apart(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr =
		ibv_reg_mr_iova(f->pd, buf, sizeof(buf), 0x1000, RW);

	assert_non_null(mr);
	assert_ptr_equal(mr->addr, buf);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void reregisters(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr = ibv_reg_mr(f->pd, buf, 4096, RW);
	struct ibv_pd *other = ibv_alloc_pd(f->ctx);

	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				      buf + 4096, 4096, 0),
			 0);
	assert_ptr_equal(mr->addr, buf + 4096);
	assert_int_equal(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	assert_ptr_equal(mr->pd, other);
	assert_int_equal(ibv_dealloc_pd(other), EBUSY);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				      NULL, 0, IBV_ACCESS_LOCAL_WRITE),
			 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void a_failed_reregistration_changes_nothing(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr = ibv_reg_mr(f->pd, buf, 4096, RW);

	assert_int_equal(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, 8, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				      buf, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				      buf, 1, RW),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				      NULL, 0, IBV_ACCESS_REMOTE_ATOMIC),
			 IBV_REREG_MR_ERR_INPUT);
	assert_ptr_equal(mr->addr, buf);
	assert_int_equal(mr->length, 4096);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(describes_the_region),
		TEST(ignores_optional_access),
		TEST(refuses_nonsense),
		TEST(keeps_the_iova_apart),
		TEST(reregisters),
		TEST(a_failed_reregistration_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
