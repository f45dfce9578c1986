/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>

#include "setup.h"
#include "verbs/objects.h"

static void a_context_outlives_the_list(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = ibv_open_device(list[0]);
	struct ibv_device_attr attr;

	ibv_free_device_list(list);
	assert_string_equal(ibv_get_device_name(ctx->device), "urnic0");
	assert_int_equal(ibv_query_device(ctx, &attr), 0);
	assert_int_equal(ibv_close_device(ctx), 0);
	assert_int_equal(ur_fake.adapters, 0);
}

static void lists_share_the_device(void **state)
{
	struct ibv_device **a = ibv_get_device_list(NULL);
	struct ibv_device **b = ibv_get_device_list(NULL);

	assert_ptr_equal(a[0], b[0]);
	assert_ptr_equal(a[1], b[1]);
	assert_null(a[2]);
	ibv_free_device_list(a);
	assert_string_equal(ibv_get_device_name(b[0]), "urnic0");
	ibv_free_device_list(b);
	assert_int_equal(ur_fake.adapters, 0);
}

static void the_newest_context_lies_before_the_old(void **state)
{
	struct fixture *f = *state;
	uint8_t *ctx = (uint8_t *)f->ctx;
	size_t sz;

	memcpy(&sz, ctx - 8, sizeof(sz));
	assert_true(sz >= 696);
	assert_ptr_equal(f->ctx->abi_compat, (void *)UINTPTR_MAX);
	/* The slots of newer releases answer: not supported. */
	for (size_t before = 328; before <= 368; before += 8) {
		void *slot;

		memcpy(&slot, ctx - before, sizeof(slot));
		assert_null(slot);
	}
}

/* libmlx5 and libefa compare this with their own. */
static void no_provider_owns_the_device(void **state)
{
	struct fixture *f = *state;
	void *ops;

	memcpy(&ops, (uint8_t *)f->list[0] + 664, sizeof(ops));
	assert_null(ops);
}

static void descriptors_are_real(void **state)
{
	struct fixture *f = *state;

	assert_true(fcntl(f->ctx->async_fd, F_GETFL) >= 0);
	assert_true(fcntl(f->ctx->cmd_fd, F_GETFL) >= 0);
	assert_true(f->ctx->num_comp_vectors >= 1);
}

static void closing_ends_remaining_objects(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct fixture f = { .ctx = ibv_open_device(list[0]) };
	struct ibv_qp *qp;

	f.pd = ibv_alloc_pd(f.ctx);
	f.cq = ibv_create_cq(f.ctx, 8, NULL, NULL, 0);
	qp = make_qp(&f, IBV_QPT_UD);
	assert_int_equal(ur_fake.qps, 1);
	ibv_close_device(f.ctx);
	assert_int_equal(ur_fake.qps, 0);
	/* Late, but harmless: the memory was kept for this. */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(f.cq), 0);
	assert_int_equal(ibv_dealloc_pd(f.pd), 0);
	ibv_free_device_list(list);
	assert_int_equal(ur_fake.adapters, 0);
}

static void pds_are_limited(void **state)
{
	struct fixture *f = *state;
	_Atomic uint32_t *pds = &urv_device(f->ctx->device)->pds;
	struct ibv_pd *last;

	assert_int_equal(*pds, 1);
	*pds = UR_MAX_PD - 1; /* those in between would only use malloc */
	last = ibv_alloc_pd(f->ctx);
	assert_non_null(last);
	assert_null(ibv_alloc_pd(f->ctx));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(ibv_dealloc_pd(last), 0);
	*pds = 1;
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_context_outlives_the_list),
		cmocka_unit_test(lists_share_the_device),
		cmocka_unit_test(closing_ends_remaining_objects),
		TEST(the_newest_context_lies_before_the_old),
		TEST(no_provider_owns_the_device),
		TEST(descriptors_are_real),
		TEST(pds_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
