/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows.  Clauses are those of IBTA 1.4, chapter 10. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/mw.h"
#include "core/qp.h"

#define RW	(UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_WRITE)
#define BINDING (UR_ACCESS_LOCAL_WRITE | UR_ACCESS_MW_BIND)
#define LEN	4096u

struct fixture {
	struct ur_mr_table t;
	struct ur_pd pd, other;
	struct ur_qp qp, qp2, alien; /* alien: of the other domain */
	struct ur_mr *mr;
	struct ur_mw *one, *two;
	uint8_t buf[LEN];
};

static void qp_like(struct ur_qp *qp, struct ur_pd *pd)
{
	qp->pd = pd;
	ur_list_init(&qp->windows);
}

static struct ur_mr *reg(struct fixture *f, uint32_t access)
{
	struct ur_mr *mr;

	assert_int_equal(ur_mr_create(&f->t, &f->pd, f->buf, LEN,
				      (uintptr_t)f->buf, access, &mr),
			 0);
	return mr;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(ur_mr_table_init(&f->t), 0);
	qp_like(&f->qp, &f->pd);
	qp_like(&f->qp2, &f->pd);
	qp_like(&f->alien, &f->other);
	f->mr = reg(f, BINDING);
	assert_int_equal(ur_mw_create(&f->t, &f->pd, UR_MW_TYPE_1, &f->one), 0);
	assert_int_equal(ur_mw_create(&f->t, &f->pd, UR_MW_TYPE_2, &f->two), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	if (f->one)
		ur_mw_destroy(&f->t, f->one);
	if (f->two)
		ur_mw_destroy(&f->t, f->two);
	assert_int_equal(f->mr->windows, 0);
	assert_int_equal(ur_mr_destroy(&f->t, f->mr), 0);
	assert_int_equal(f->pd.users, 0);
	assert_int_equal(f->t.nviews, 0);
	assert_int_equal(f->t.count, 0);
	ur_mr_table_fini(&f->t);
	free(f);
	return 0;
}

/* [off, off + len) of the buffer, with the next key. */
static struct ur_mw_bind want(const struct fixture *f, const struct ur_mw *mw,
			      uint32_t off, uint32_t len, uint32_t access)
{
	return (struct ur_mw_bind){ .addr = (uintptr_t)f->buf + off,
				    .length = len,
				    .window = mw->win.key,
				    .key = mw->win.key + 1,
				    .lkey = f->mr->key,
				    .access = access };
}

static uint32_t make(struct fixture *f, struct ur_mw *mw, struct ur_qp *qp,
		     uint32_t off, uint32_t len, uint32_t access)
{
	struct ur_mw_bind b = want(f, mw, off, len, access);

	assert_int_equal(ur_mw_bind(&f->t, qp, &b), 0);
	return mw->win.key;
}

static int reach(const struct fixture *f, const struct ur_qp *qp, uint32_t key,
		 uint64_t va, uint64_t len, uint32_t access)
{
	uint8_t *at = NULL;
	int ret = ur_mr_reach(&f->t, qp->pd, qp, key, va, len, access, &at);

	assert_true(ret != 0 || (at >= f->buf && at + len <= f->buf + LEN));
	return ret;
}

static void a_window_shows_a_part(void **state)
{
	struct fixture *f = *state;
	uint64_t va = (uintptr_t)f->buf + 100;
	uint32_t key = make(f, f->one, &f->qp, 100, 50, RW);

	assert_int_equal(f->mr->windows, 1);
	assert_int_equal(reach(f, &f->qp, key, va, 50, RW), 0);
	assert_int_equal(reach(f, &f->qp, key, va + 49, 1, RW), 0);
	assert_int_equal(reach(f, &f->qp, key, va - 1, 1, RW), -ERANGE);
	assert_int_equal(reach(f, &f->qp, key, va, 51, RW), -ERANGE);
	assert_int_equal(reach(f, &f->qp, key, va + 1, UINT64_MAX, RW),
			 -ERANGE);
	assert_int_equal(reach(f, &f->qp, key, va, 1, UR_ACCESS_REMOTE_ATOMIC),
			 -EACCES);
	assert_int_equal(reach(f, &f->qp, key ^ 1, va, 1, RW), -ENOENT);
	/* The rights of the region are not those of the window. */
	assert_int_equal(reach(f, &f->qp, f->mr->key, va, 1,
			       UR_ACCESS_REMOTE_READ),
			 -EACCES);
	/* A window is for peers only. */
	assert_null(ur_mr_lookup(&f->t, key));
}

static void c10_72_domains(void **state)
{
	struct fixture *f = *state;
	struct ur_mw_bind b = want(f, f->one, 0, 8, RW);
	uint64_t va = (uintptr_t)f->buf;
	uint32_t key;

	assert_int_equal(ur_mw_bind(&f->t, &f->alien, &b), -EINVAL);
	b = want(f, f->two, 0, 8, RW);
	assert_int_equal(ur_mw_bind(&f->t, &f->alien, &b), -EINVAL);
	/* Type 1 is for all QPs of the domain, type 2 for one. */
	key = make(f, f->one, &f->qp, 0, 8, RW);
	assert_int_equal(reach(f, &f->qp2, key, va, 8, RW), 0);
	assert_int_equal(reach(f, &f->alien, key, va, 8, RW), -EPERM);
	key = make(f, f->two, &f->qp, 0, 8, RW);
	assert_int_equal(reach(f, &f->qp, key, va, 8, RW), 0);
	assert_int_equal(reach(f, &f->qp2, key, va, 8, RW), -EPERM);
	assert_int_equal(reach(f, &f->alien, key, va, 8, RW), -EPERM);
}

static void a_new_key_invalidates_the_old_one(void **state)
{
	struct fixture *f = *state;
	uint32_t before = f->one->win.key, first, second;
	uint64_t va = (uintptr_t)f->buf;

	assert_int_equal(reach(f, &f->qp, before, va, 1, RW), -ENOENT);
	first = make(f, f->one, &f->qp, 0, 8, RW);
	assert_int_equal(first >> 8, before >> 8);
	assert_int_equal(first & 0xff, (before + 1) & 0xff);
	second = make(f, f->one, &f->qp, 16, 8, RW);
	assert_int_equal(second >> 8, before >> 8);
	assert_int_equal(reach(f, &f->qp, first, va, 8, RW), -ENOENT);
	assert_int_equal(reach(f, &f->qp, second, va, 8, RW), -ERANGE);
	assert_int_equal(reach(f, &f->qp, second, va + 16, 8, RW), 0);
	assert_int_equal(f->mr->windows, 1);
}

static void the_key_byte_wraps(void **state)
{
	struct fixture *f = *state;
	uint32_t family = f->one->win.key >> 8;

	for (uint32_t i = 0; i < 300; i++) {
		uint32_t was = f->one->win.key;
		uint32_t key = make(f, f->one, &f->qp, 0, 8, RW);

		assert_int_equal(key >> 8, family);
		assert_int_equal(key & 0xff, (was + 1) & 0xff);
		assert_ptr_equal(ur_mr_find(&f->t, key), &f->one->win);
	}
}

static void type_1_is_unbound_by_length_0(void **state)
{
	struct fixture *f = *state;
	uint32_t key = make(f, f->one, &f->qp, 0, 8, RW);
	struct ur_mw_bind b = want(f, f->one, 0, 0, 0);

	assert_int_equal(ur_mr_destroy(&f->t, f->mr), -EBUSY);
	assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), 0);
	assert_int_equal(f->mr->windows, 0);
	assert_int_equal(reach(f, &f->qp, key, (uintptr_t)f->buf, 1, RW),
			 -ENOENT);
	assert_int_equal(reach(f, &f->qp, f->one->win.key, (uintptr_t)f->buf, 0,
			       0),
			 -ENOENT);
	/* Without a region it is the same. */
	make(f, f->one, &f->qp, 0, 8, RW);
	b = (struct ur_mw_bind){ .window = f->one->win.key };
	assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), 0);
	assert_int_equal(f->mr->windows, 0);
}

static void o10_37_2_30_type_2_is_bound_once(void **state)
{
	struct fixture *f = *state;
	uint32_t key = make(f, f->two, &f->qp, 0, 8, RW);
	struct ur_mw_bind b = want(f, f->two, 0, 16, RW);

	assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), -EINVAL);
	assert_int_equal(reach(f, &f->qp, key, (uintptr_t)f->buf, 8, RW), 0);
	assert_int_equal(ur_mw_invalidate(&f->t, &f->qp, key), 0);
	assert_int_equal(reach(f, &f->qp, key, (uintptr_t)f->buf, 1, RW),
			 -ENOENT);
	assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), 0);
	b = want(f, f->two, 0, 0, RW);
	assert_int_equal(ur_mw_invalidate(&f->t, &f->qp, f->two->win.key), 0);
	assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), -EINVAL);
	b = want(f, f->two, 0, 8, RW);
	b.lkey = 0;
	assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), -EINVAL);
}

/* Legal binds, row by row; the region has `mr_access`. */
static void c10_73_to_75_what_a_bind_needs(void **state)
{
	static const struct {
		uint32_t mr_access;
		uint32_t access;
		int64_t off;
		uint64_t len;
		int type1, type2;
	} rows[] = {
		{ BINDING, RW, 0, LEN, 0, 0 },
		{ BINDING, RW | UR_ACCESS_LOCAL_WRITE, 0, LEN, 0, 0 },
		{ BINDING, 0, 0, LEN, 0, 0 },
		{ BINDING, UR_ACCESS_REMOTE_ATOMIC, LEN - 8, 8, 0, 0 },
		{ BINDING, RW | UR_ACCESS_ZERO_BASED, 8, 8, -EINVAL, 0 },
		{ BINDING, RW | UR_ACCESS_MW_BIND, 0, 8, -EINVAL, -EINVAL },
		{ BINDING, RW | UR_ACCESS_ON_DEMAND, 0, 8, -EINVAL, -EINVAL },
		{ BINDING, RW, -1, 8, -EINVAL, -EINVAL },
		{ BINDING, RW, 0, LEN + 1, -EINVAL, -EINVAL },
		{ BINDING, RW, LEN, 1, -EINVAL, -EINVAL },
		{ BINDING, RW, 1, UINT64_MAX, -EINVAL, -EINVAL },
		{ UR_ACCESS_LOCAL_WRITE, RW, 0, 8, -EINVAL, -EINVAL },
		{ UR_ACCESS_MW_BIND, UR_ACCESS_REMOTE_READ, 0, 8, 0, 0 },
		{ UR_ACCESS_MW_BIND, UR_ACCESS_REMOTE_WRITE, 0, 8, -EINVAL,
		  -EINVAL },
		{ UR_ACCESS_MW_BIND, UR_ACCESS_REMOTE_ATOMIC, 0, 8, -EINVAL,
		  -EINVAL },
		{ BINDING | UR_ACCESS_ZERO_BASED, RW, 0, 8, -EINVAL, -EINVAL },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ur_mr *mr = reg(f, rows[i].mr_access);
		struct ur_mw_bind b = { .addr = mr->iova +
						(uint64_t)rows[i].off,
					.length = rows[i].len,
					.window = f->one->win.key,
					.lkey = mr->key,
					.access = rows[i].access };

		assert_int_equal(ur_mw_check(UR_MW_TYPE_1, &b, mr),
				 rows[i].type1);
		assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), rows[i].type1);
		b.window = f->two->win.key;
		assert_int_equal(ur_mw_check(UR_MW_TYPE_2, &b, mr),
				 rows[i].type2);
		assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), rows[i].type2);
		ur_mw_invalidate(&f->t, &f->qp, f->two->win.key);
		b = (struct ur_mw_bind){ .window = f->one->win.key };
		assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), 0);
		assert_int_equal(ur_mr_destroy(&f->t, mr), 0);
	}
}

static void names_that_mean_nothing(void **state)
{
	struct fixture *f = *state;
	struct ur_mw_bind b = want(f, f->one, 0, 8, RW);

	b.window = f->mr->key; /* a region is no window */
	assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), -EINVAL);
	b.window = 0;
	assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), -EINVAL);
	b = want(f, f->one, 0, 8, RW);
	b.lkey ^= 1;
	assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), -EINVAL);
	b.lkey = f->two->win.key; /* a window is no region */
	assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), -EINVAL);
	assert_int_equal(f->mr->windows, 0);
}

static void a_zero_based_window(void **state)
{
	struct fixture *f = *state;
	uint32_t key =
		make(f, f->two, &f->qp, 100, 50, RW | UR_ACCESS_ZERO_BASED);
	uint8_t *at = NULL;

	assert_int_equal(
		ur_mr_reach(&f->t, &f->pd, &f->qp, key, 7, 43, RW, &at), 0);
	assert_ptr_equal(at, f->buf + 107);
	assert_int_equal(reach(f, &f->qp, key, 7, 44, RW), -ERANGE);
	assert_int_equal(reach(f, &f->qp, key, (uintptr_t)f->buf + 100, 1, RW),
			 -ERANGE);
}

static void o10_37_2_26_what_can_be_invalidated(void **state)
{
	struct fixture *f = *state;
	uint32_t one = make(f, f->one, &f->qp, 0, 8, RW);
	uint32_t two = make(f, f->two, &f->qp, 0, 8, RW);
	const uint32_t wrong[] = { one, f->mr->key, two ^ 1, two ^ 0x100, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(ur_mw_invalidate(&f->t, &f->qp, wrong[i]),
				 -EINVAL);
	assert_int_equal(ur_mw_invalidate(&f->t, &f->qp2, two), -EINVAL);
	assert_int_equal(ur_mw_invalidate(&f->t, &f->alien, two), -EINVAL);
	assert_int_equal(ur_mw_may_invalidate(&f->t, &f->qp, one), -EACCES);
	assert_int_equal(ur_mw_may_invalidate(&f->t, &f->qp, f->mr->key),
			 -EACCES);
	assert_int_equal(ur_mw_may_invalidate(&f->t, &f->qp, two ^ 1), -ENOENT);
	assert_int_equal(ur_mw_may_invalidate(&f->t, &f->qp2, two), -EPERM);
	assert_int_equal(ur_mw_may_invalidate(&f->t, &f->qp, two), 0);
	assert_int_equal(ur_mw_invalidate(&f->t, &f->qp, two), 0);
	/* Free: invalidating it again is harmless here, but not allowed to a
	 * peer. */
	assert_int_equal(ur_mw_invalidate(&f->t, &f->qp, two), 0);
	assert_int_equal(ur_mw_may_invalidate(&f->t, &f->qp, two), -ENOENT);
}

static void a_region_with_windows_stays(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *mr = reg(f, BINDING), *was = mr;
	struct ur_mw_bind b = want(f, f->one, 0, 8, RW);

	b.lkey = mr->key;
	assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), 0);
	b.window = f->two->win.key;
	assert_int_equal(ur_mw_bind(&f->t, &f->qp, &b), 0);
	assert_int_equal(ur_mr_destroy(&f->t, mr), -EBUSY);
	assert_int_equal(ur_mr_rereg(&f->t, &mr, UR_REREG_ACCESS, NULL, NULL, 0,
				     BINDING),
			 -EBUSY);
	assert_ptr_equal(mr, was);
	ur_mw_destroy(&f->t, f->one);
	f->one = NULL;
	assert_int_equal(ur_mr_destroy(&f->t, mr), -EBUSY);
	assert_int_equal(ur_mw_invalidate(&f->t, &f->qp, f->two->win.key), 0);
	assert_int_equal(ur_mr_rereg(&f->t, &mr, UR_REREG_ACCESS, NULL, NULL, 0,
				     BINDING),
			 0);
	assert_int_equal(ur_mr_destroy(&f->t, mr), 0);
}

static void destroying_a_qp_frees_its_windows(void **state)
{
	struct fixture *f = *state;
	uint32_t one = make(f, f->one, &f->qp, 0, 8, RW);
	uint32_t two = make(f, f->two, &f->qp, 0, 8, RW);

	ur_mw_release(&f->t, &f->qp2);
	assert_int_equal(f->mr->windows, 2);
	ur_mw_release(&f->t, &f->qp);
	assert_int_equal(f->mr->windows, 1);
	/* A QP that gets the same memory reaches nothing. */
	assert_int_equal(reach(f, &f->qp, two, (uintptr_t)f->buf, 8, RW),
			 -ENOENT);
	assert_int_equal(reach(f, &f->qp2, one, (uintptr_t)f->buf, 8, RW), 0);
	make(f, f->two, &f->qp2, 0, 8, RW);
}

static void unknown_types(void **state)
{
	struct fixture *f = *state;
	struct ur_mw *mw;

	assert_int_equal(ur_mw_create(&f->t, &f->pd, (enum ur_mw_type)0, &mw),
			 -EINVAL);
	assert_int_equal(ur_mw_create(&f->t, &f->pd, (enum ur_mw_type)3, &mw),
			 -EINVAL);
}

static void the_table_filled_and_one_more(void **state)
{
	struct fixture *f = *state;
	struct ur_mw **mw = calloc(UR_MAX_MW, sizeof(*mw)), *more;

	for (uint32_t i = 2; i < UR_MAX_MW; i++)
		assert_int_equal(
			ur_mw_create(&f->t, &f->pd, UR_MW_TYPE_1, &mw[i]), 0);
	assert_int_equal(ur_mw_create(&f->t, &f->pd, UR_MW_TYPE_1, &more),
			 -ENOMEM);
	ur_mw_destroy(&f->t, mw[9]);
	assert_int_equal(ur_mw_create(&f->t, &f->pd, UR_MW_TYPE_2, &mw[9]), 0);
	for (uint32_t i = 2; i < UR_MAX_MW; i++)
		ur_mw_destroy(&f->t, mw[i]);
	free(mw);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_window_shows_a_part),
		TEST(c10_72_domains),
		TEST(a_new_key_invalidates_the_old_one),
		TEST(the_key_byte_wraps),
		TEST(type_1_is_unbound_by_length_0),
		TEST(o10_37_2_30_type_2_is_bound_once),
		TEST(c10_73_to_75_what_a_bind_needs),
		TEST(names_that_mean_nothing),
		TEST(a_zero_based_window),
		TEST(o10_37_2_26_what_can_be_invalidated),
		TEST(a_region_with_windows_stays),
		TEST(destroying_a_qp_frees_its_windows),
		TEST(unknown_types),
		TEST(the_table_filled_and_one_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
