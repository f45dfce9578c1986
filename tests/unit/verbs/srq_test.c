/* SPDX-License-Identifier: BSD-2-Clause */
#include "setup.h"

static struct ibv_srq *make(struct fixture *f, uint32_t max_wr,
			    uint32_t max_sge)
{
	struct ibv_srq_init_attr init = { .srq_context = f,
					  .attr = { .max_wr = max_wr,
						    .max_sge = max_sge } };
	struct ibv_srq *srq = ibv_create_srq(f->pd, &init);

	if (srq)
		assert_true(init.attr.max_wr >= max_wr);
	return srq;
}

static void limits_are_kept(void **state)
{
	struct ibv_srq *srq = make(*state, UR_MAX_SRQ_WR, UR_MAX_SGE);

	assert_non_null(srq);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_null(make(*state, UR_MAX_SRQ_WR + 1, 1));
	assert_int_equal(errno, EINVAL);
	assert_null(make(*state, 1, UR_MAX_SGE + 1));
	assert_int_equal(errno, EINVAL);
}

static void receives_fill_it(void **state)
{
	struct ibv_srq *srq = make(*state, 4, 2);
	struct ibv_sge sge = { 0x1000, 64, 5 };
	struct ibv_recv_wr wr[6] = { 0 }, *bad;

	for (int i = 0; i < 6; i++) {
		wr[i].wr_id = (uint64_t)i;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].next = i < 5 ? &wr[i + 1] : NULL;
	}
	assert_int_equal(ibv_post_srq_recv(srq, wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[4]);
	assert_int_equal(core_srq(srq)->rq.tail, 4);
	assert_int_equal(ur_rq_slot(&core_srq(srq)->rq, 3)->wr_id, 3);
	wr[5].num_sge = 3;
	assert_int_equal(ibv_post_srq_recv(srq, &wr[5], &bad), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void attributes_change(void **state)
{
	struct ibv_srq *srq = make(*state, 4, 2);
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct ibv_srq_attr attr = { .max_wr = 100, .srq_limit = 1 };

	for (int i = 0; i < 4; i++)
		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	assert_int_equal(
		ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	memset(&attr, 0, sizeof(attr));
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_true(attr.max_wr >= 100);
	assert_int_equal(attr.max_sge, 2);
	assert_int_equal(attr.srq_limit, 1);
	attr.max_wr = 3; /* four are posted */
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.srq_limit = 5000;
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	assert_int_equal(ibv_modify_srq(srq, &attr, 4), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void its_queue_pairs_have_no_receives(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq *srq = make(f, 4, 1);
	struct ibv_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.srq = srq,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);
	struct ibv_recv_wr wr = { 0 }, *bad;

	assert_non_null(qp);
	to_rts(qp);
	assert_ptr_equal(qp->srq, srq);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void extended_creation_is_for_basic_ones(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = IBV_SRQT_TM,
		.pd = f->pd,
	};
	struct ibv_srq *srq;
	uint32_t num;

	assert_null(ibv_create_srq_ex(f->ctx, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	init.srq_type = IBV_SRQT_BASIC;
	srq = ibv_create_srq_ex(f->ctx, &init);
	assert_non_null(srq);
	assert_int_equal(ibv_get_srq_num(srq, &num), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
	assert_null(ibv_create_srq_ex(f->ctx, &init));
	assert_int_equal(errno, EINVAL);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(limits_are_kept),
		TEST(receives_fill_it),
		TEST(attributes_change),
		TEST(its_queue_pairs_have_no_receives),
		TEST(extended_creation_is_for_basic_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
