/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of address handles and regions. */
#include "setup.h"

#include "urnic.h"

#define ALL                                                                    \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND)

static char buf[8192];

static void an_address_handle(void **state)
{
	struct fixture *f = *state;
	struct ibv_ah_attr in = {
		.is_global = 1,
		.port_num = 1,
		.sl = 3,
		.static_rate = 2,
		.grh = { .sgid_index = UR_FAKE_V6_INDEX,
			 .hop_limit = 64,
			 .traffic_class = 0x20,
			 .flow_label = 0x12345 },
	};
	struct ibv_ah_attr out;
	struct ibv_ah *ah;

	memcpy(in.grh.dgid.raw, ur_fake_v6, 16);
	in.grh.dgid.raw[15] = 9;
	ah = ibv_create_ah(f->pd, &in);
	assert_non_null(ah);
	assert_int_equal(urnic_query_ah(ah, &out), 0);
	assert_memory_equal(&out.grh, &in.grh, sizeof(in.grh));
	assert_int_equal(out.is_global, 1);
	assert_int_equal(out.port_num, 1);
	assert_int_equal(out.sl, 3);
	assert_int_equal(out.static_rate, 2);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void a_region(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr = ibv_reg_mr_iova(f->pd, buf, 4096, 0x10000,
					    ALL | IBV_ACCESS_RELAXED_ORDERING);
	struct urnic_mr_attr a;

	assert_non_null(mr);
	assert_int_equal(urnic_query_mr(mr, &a), 0);
	assert_ptr_equal(a.pd, f->pd);
	assert_ptr_equal(a.addr, buf);
	assert_int_equal(a.length, 4096);
	assert_int_equal(a.iova, 0x10000);
	assert_int_equal(a.access, ALL);
	assert_int_equal(a.lkey, mr->lkey);
	assert_int_equal(a.rkey, mr->rkey);
	assert_int_equal(a.windows, 0);
	/* The current state. */
	assert_int_equal(ibv_rereg_mr(mr,
				      IBV_REREG_MR_CHANGE_TRANSLATION |
					      IBV_REREG_MR_CHANGE_ACCESS,
				      NULL, buf, 8192, IBV_ACCESS_LOCAL_WRITE),
			 0);
	assert_int_equal(urnic_query_mr(mr, &a), 0);
	assert_int_equal(a.length, 8192);
	assert_int_equal(a.iova, (uintptr_t)buf);
	assert_int_equal(a.access, IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void a_region_with_windows(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr = ibv_reg_mr(f->pd, buf, 4096, ALL);
	struct ibv_mw *mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_2);
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);
	struct ur_mw_bind b = { .addr = (uintptr_t)buf,
				.length = 8,
				.window = mw->rkey,
				.lkey = mr->lkey };
	struct urnic_mr_attr a;

	assert_int_equal(ur_mw_bind(core_qp(qp)->mrs, core_qp(qp), &b), 0);
	assert_int_equal(urnic_query_mr(mr, &a), 0);
	assert_int_equal(a.windows, 1);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void an_address_only_where_there_is_one(void **state)
{
	struct fixture *f = *state;
	struct ibv_alloc_dm_attr of_64 = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(f->ctx, &of_64);
	struct ibv_mr *mr =
		ibv_reg_dm_mr(f->pd, dm, 16, 32,
			      IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	struct urnic_mr_attr a;

	assert_non_null(mr);
	assert_int_equal(urnic_query_mr(mr, &a), 0);
	assert_null(a.addr);
	assert_int_equal(a.length, 32);
	assert_int_equal(a.iova, 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
	mr = ibv_alloc_null_mr(f->pd);
	assert_non_null(mr);
	assert_int_equal(urnic_query_mr(mr, &a), 0);
	assert_null(a.addr);
	assert_int_equal(a.length, SIZE_MAX);
	assert_int_equal(a.rkey, 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* Programs that were built with an older or a newer header. */
static void structures_grow_at_their_end(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr = ibv_reg_mr(f->pd, buf, 4096, ALL);
	const size_t older = offsetof(struct urnic_mr_attr, windows);
	struct newer {
		struct urnic_mr_attr known;
		uint64_t unknown[2];
	} a;
	int (*query)(struct ibv_mr *, struct urnic_mr_attr *, size_t);
	void *found = dlsym(RTLD_DEFAULT, "urnic_query_mr");

	assert_non_null(found);
	memcpy(&query, &found, sizeof(query));
	memset(&a, 0xff, sizeof(a));
	assert_int_equal(query(mr, &a.known, sizeof(a)), 0);
	assert_int_equal(a.known.length, 4096);
	assert_int_equal(a.known.windows, 0);
	assert_true(!a.unknown[0] && !a.unknown[1]);
	memset(&a, 0xff, sizeof(a));
	assert_int_equal(query(mr, &a.known, older), 0);
	assert_int_equal(a.known.rkey, mr->rkey);
	assert_int_equal(a.known.windows, UINT32_MAX);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* Version 1.0 on 64 bits; what is added comes after it. */
	_Static_assert(offsetof(struct urnic_mr_attr, pd) == 0 &&
			       offsetof(struct urnic_mr_attr, addr) == 8 &&
			       offsetof(struct urnic_mr_attr, length) == 16 &&
			       offsetof(struct urnic_mr_attr, iova) == 24 &&
			       offsetof(struct urnic_mr_attr, access) == 32 &&
			       offsetof(struct urnic_mr_attr, lkey) == 36 &&
			       offsetof(struct urnic_mr_attr, rkey) == 40 &&
			       offsetof(struct urnic_mr_attr, windows) == 44,
		       "a field has moved");
}

static void handles_that_are_none(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr foreign = { .context = f->ctx };
	struct ibv_ah other = { .context = f->ctx };
	struct urnic_mr_attr a = { .length = 7 };
	struct ibv_ah_attr v = { .sl = 7 };

	assert_int_equal(urnic_query_mr(NULL, &a), ENOENT);
	assert_int_equal(urnic_query_mr(&foreign, &a), ENOENT);
	assert_int_equal(urnic_query_ah(NULL, &v), ENOENT);
	assert_int_equal(urnic_query_ah(&other, &v), ENOENT);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(a.length, 7);
	assert_int_equal(v.sl, 7);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_address_handle),
		TEST(a_region),
		TEST(a_region_with_windows),
		TEST(an_address_only_where_there_is_one),
		TEST(structures_grow_at_their_end),
		TEST(handles_that_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
