/* SPDX-License-Identifier: BSD-2-Clause */
#include "setup.h"

#include "core/tm.h"

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

static void extended_creation_checks_its_mask(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = IBV_SRQT_BASIC,
		.pd = f->pd,
	};
	struct ibv_ops_wr op = { .opcode = IBV_WR_TAG_SYNC }, *bad;
	struct ibv_srq *srq;
	uint32_t num;

	srq = ibv_create_srq_ex(f->ctx, &init);
	assert_non_null(srq);
	assert_int_equal(ibv_get_srq_num(srq, &num), EINVAL);
	assert_int_equal(ibv_post_srq_ops(srq, &op, &bad), EINVAL);
	assert_ptr_equal(bad, &op);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
	assert_null(ibv_create_srq_ex(f->ctx, &init));
	assert_int_equal(errno, EINVAL);
}

static struct ibv_srq_init_attr_ex tm_init(struct fixture *f)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = f->pd,
		.cq = f->cq,
		.tm_cap = { .max_num_tags = 2, .max_ops = 4 },
	};
}

static void wrong_arguments_to_create_a_tag_queue(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq_init_attr_ex w[5];

	for (size_t i = 0; i < 5; i++)
		w[i] = tm_init(f);
	w[0].comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ;
	w[1].comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_TM;
	w[2].tm_cap.max_num_tags = 0;
	w[3].tm_cap.max_num_tags = UR_TM_MAX_TAGS + 1;
	w[4].tm_cap.max_ops = UR_TM_MAX_OPS + 1;
	for (size_t i = 0; i < 5; i++) {
		errno = 0;
		assert_null(ibv_create_srq_ex(f->ctx, &w[i]));
		assert_int_equal(errno, EINVAL);
	}
}

static void a_tag_queue_is_for_rc(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD };
	struct fixture *f = *state;
	struct ibv_srq_init_attr_ex init = tm_init(f);
	struct ibv_srq *srq = ibv_create_srq_ex(f->ctx, &init);
	struct ibv_qp_init_attr qia = { .send_cq = f->cq,
					.recv_cq = f->cq,
					.srq = srq };
	struct ibv_qp *qp;

	assert_non_null(srq);
	for (size_t i = 0; i < 2; i++) {
		qia.qp_type = types[i];
		assert_null(ibv_create_qp(f->pd, &qia));
		assert_int_equal(errno, EINVAL);
	}
	qia.qp_type = IBV_QPT_RC;
	qp = ibv_create_qp(f->pd, &qia);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(f->cq), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void operations_on_a_tag_queue(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq_init_attr_ex init = tm_init(f);
	struct ibv_srq *srq = ibv_create_srq_ex(f->ctx, &init);
	struct ibv_ops_wr op[3] = {
		{ .wr_id = 1,
		  .next = &op[1],
		  .opcode = IBV_WR_TAG_ADD,
		  .flags = IBV_OPS_SIGNALED },
		{ .wr_id = 2, .next = &op[2], .opcode = IBV_WR_TAG_ADD },
		{ .wr_id = 3, .opcode = IBV_WR_TAG_ADD },
	};
	struct ibv_ops_wr *bad = NULL;
	struct ibv_wc wc;

	assert_non_null(srq);
	/* the list has two places */
	assert_int_equal(ibv_post_srq_ops(srq, op, &bad), ENOMEM);
	assert_ptr_equal(bad, &op[2]);
	assert_int_equal(ibv_poll_cq(f->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.opcode, IBV_WC_TM_ADD);
	assert_int_equal(ibv_poll_cq(f->cq, 1, &wc), 0);
	op[2].opcode = IBV_WR_TAG_DEL;
	op[2].flags = IBV_OPS_SIGNALED;
	op[2].tm.handle = op[1].tm.handle;
	assert_int_equal(ibv_post_srq_ops(srq, &op[2], &bad), 0);
	assert_int_equal(ibv_poll_cq(f->cq, 1, &wc), 1);
	assert_int_equal(wc.opcode, IBV_WC_TM_DEL);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_post_srq_ops(srq, &op[2], &bad), 0);
	assert_int_equal(ibv_poll_cq(f->cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_TM_ERR);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void wrong_operations_on_a_tag_queue(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq_init_attr_ex init = tm_init(f);
	struct ibv_srq *srq = ibv_create_srq_ex(f->ctx, &init);
	struct ibv_ops_wr wrong[] = {
		{ .opcode = (enum ibv_ops_wr_opcode)3 },
		{ .opcode = IBV_WR_TAG_ADD, .flags = 4 },
		{ .opcode = IBV_WR_TAG_ADD, .tm.add.num_sge = -1 },
		{ .opcode = IBV_WR_TAG_ADD,
		  .tm.add.num_sge = UR_TM_MAX_SGE + 1 },
		{ .opcode = IBV_WR_TAG_DEL, .tm.handle = 2 },
	};
	struct ibv_ops_wr *bad;

	assert_non_null(srq);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		bad = NULL;
		assert_int_equal(ibv_post_srq_ops(srq, &wrong[i], &bad),
				 EINVAL);
		assert_ptr_equal(bad, &wrong[i]);
	}
	assert_int_equal(ibv_destroy_srq(srq), 0);
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
		TEST(extended_creation_checks_its_mask),
		TEST(wrong_arguments_to_create_a_tag_queue),
		TEST(a_tag_queue_is_for_rc),
		TEST(operations_on_a_tag_queue),
		TEST(wrong_operations_on_a_tag_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
