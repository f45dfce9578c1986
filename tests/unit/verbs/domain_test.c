/* SPDX-License-Identifier: BSD-2-Clause */
/* Thread domains and parent domains. */
#include <stdlib.h>

#include "setup.h"
#include "verbs/objects.h"

static char buf[64];

/* Calls of the application's allocators. */
static struct {
	const struct ibv_pd *pd;
	void *context;
	uint32_t out; /* blocks not freed yet */
	uint32_t calls;
	uint32_t fail_at; /* from 1; 0: never */
	bool decline;
} asked;

static void *alloc(struct ibv_pd *pd, void *context, size_t size,
		   size_t alignment, uint64_t type)
{
	asked.pd = pd;
	asked.context = context;
	if (++asked.calls == asked.fail_at)
		return NULL;
	if (asked.decline)
		return IBV_ALLOCATOR_USE_DEFAULT;
	assert_int_equal(size % alignment, 0);
	asked.out++;
	return aligned_alloc(alignment, size);
}

static void release(struct ibv_pd *pd, void *context, void *ptr, uint64_t type)
{
	assert_ptr_equal(pd, asked.pd);
	assert_ptr_equal(context, asked.context);
	asked.out--;
	free(ptr);
}

static struct ibv_pd *parent(struct fixture *f, struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = f->pd,
		.td = td,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = alloc,
		.free = release,
		.pd_context = buf,
	};
	struct ibv_pd *pd = ibv_alloc_parent_domain(f->ctx, &attr);

	assert_non_null(pd);
	memset(&asked, 0, sizeof(asked));
	return pd;
}

static struct ibv_qp *qp_of(struct fixture *f, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(pd, &init);
}

static struct ibv_srq *srq_of(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = { .attr = { 8, 1, 0 } };

	return ibv_create_srq(pd, &init);
}

static struct ibv_cq_ex *cq_of(struct fixture *f, struct ibv_pd *pd)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 8,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = pd,
	};

	return ibv_create_cq_ex(f->ctx, &init);
}

static void it_protects_as_its_domain(void **state)
{
	struct fixture *f = *state;
	struct ibv_pd *pd = parent(f, NULL);
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), 0);
	struct ibv_qp *qp = qp_of(f, pd);
	struct ibv_ah *ah;

	assert_ptr_equal(mr->pd, pd);
	assert_ptr_equal(urv_mr(mr)->core->pd, &urv_pd(f->pd)->core);
	assert_ptr_equal(core_qp(qp)->pd, &urv_pd(f->pd)->core);
	assert_ptr_equal(qp->pd, pd);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_pd(f->pd), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(f->pd), EBUSY); /* its parent */
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	ah = make_ah(f);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void queues_come_from_its_allocators(void **state)
{
	struct fixture *f = *state;
	struct ibv_pd *pd = parent(f, NULL);
	struct ibv_qp *qp = qp_of(f, pd);
	struct ibv_srq *srq = srq_of(pd);
	struct ibv_cq_ex *cq = cq_of(f, pd);

	assert_int_equal(asked.out, 4);
	assert_ptr_equal(asked.pd, pd);
	assert_ptr_equal(asked.context, buf);
	assert_int_equal(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 500), 0);
	assert_int_equal(asked.out, 4);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(asked.out, 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void allocators_may_decline(void **state)
{
	struct fixture *f = *state;
	struct ibv_pd *pd = parent(f, NULL);
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;

	asked.decline = true;
	qp = qp_of(f, pd);
	cq = cq_of(f, pd);
	assert_int_equal(asked.calls, 3);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* Whichever allocation fails, nothing leaks. */
static void allocators_may_fail(void **state)
{
	struct fixture *f = *state;
	struct ibv_pd *pd = parent(f, NULL);

	for (uint32_t i = 1; i <= 2; i++) {
		asked.calls = 0;
		asked.fail_at = i;
		assert_null(qp_of(f, pd));
		assert_int_equal(errno, ENOMEM);
	}
	asked.calls = 0;
	asked.fail_at = 1;
	assert_null(srq_of(pd));
	assert_int_equal(errno, ENOMEM);
	asked.calls = 0;
	assert_null(cq_of(f, pd));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(asked.out, 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void a_thread_domain_has_its_lane(void **state)
{
	struct fixture *f = *state;
	struct ibv_td_init_attr attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(f->ctx, &attr);
	struct ibv_pd *one = parent(f, td), *two = parent(f, td);
	struct ibv_qp *a = qp_of(f, one), *b = qp_of(f, two);
	struct ibv_qp *c = qp_of(f, f->pd);

	assert_int_equal(ur_fake.lanes, 1);
	assert_non_null(core_qp(a)->lane);
	assert_ptr_equal(core_qp(a)->lane, core_qp(b)->lane);
	assert_null(core_qp(c)->lane); /* the adapter's choice */
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	asked.pd = one;
	assert_int_equal(ibv_destroy_qp(a), 0);
	asked.pd = two;
	assert_int_equal(ibv_destroy_qp(b), 0);
	assert_int_equal(ibv_destroy_qp(c), 0);
	assert_int_equal(ibv_dealloc_pd(one), 0);
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_dealloc_pd(two), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
	assert_int_equal(ur_fake.lanes, 0);
}

static void without_lanes_it_shares(void **state)
{
	struct fixture *f = *state;
	struct ibv_td_init_attr attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(f->ctx, &attr);
	struct ibv_pd *pd = parent(f, td);
	struct ibv_qp *qp;

	ur_fake.no_lanes = true;
	qp = qp_of(f, pd);
	assert_non_null(qp);
	assert_null(core_qp(qp)->lane);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
}

static void misuse(void **state)
{
	struct fixture *f = *state;
	struct ibv_td_init_attr td_attr = { .comp_mask = 1 };
	struct ibv_context *other = ibv_open_device(f->list[0]);
	struct ibv_pd *pd = ibv_alloc_pd(other);
	struct ibv_parent_domain_init_attr unknown = { .comp_mask = 4 };
	struct ibv_parent_domain_init_attr bad[] = {
		{ .pd = NULL },
		{ .pd = pd },
		{ .pd = f->pd,
		  .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS },
		{ .pd = f->pd,
		  .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
		  .alloc = alloc },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_null(ibv_alloc_parent_domain(f->ctx, &bad[i]));
		assert_int_equal(errno, EINVAL);
	}
	unknown.pd = f->pd;
	assert_null(ibv_alloc_parent_domain(f->ctx, &unknown));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_alloc_td(f->ctx, &td_attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(other), 0);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_protects_as_its_domain),
		TEST(queues_come_from_its_allocators),
		TEST(allocators_may_decline),
		TEST(allocators_may_fail),
		TEST(a_thread_domain_has_its_lane),
		TEST(without_lanes_it_shares),
		TEST(misuse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
