/* SPDX-License-Identifier: BSD-2-Clause */
#include "setup.h"

static struct ibv_qp *create(struct fixture *f, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr init = {
		.qp_context = f,
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = cap,
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(f->pd, &init);
}

static void limits_are_kept(void **state)
{
	const struct ibv_qp_cap max = { UR_MAX_WR, UR_MAX_WR, UR_MAX_SGE,
					UR_MAX_SGE, UR_MAX_INLINE };
	struct fixture *f = *state;
	struct ibv_qp_cap cap = max;
	struct ibv_qp *qp = create(f, cap);

	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	cap.max_send_wr++;
	assert_null(create(f, cap));
	assert_int_equal(errno, EINVAL);
	cap = max;
	cap.max_recv_wr++;
	assert_null(create(f, cap));
	cap = max;
	cap.max_send_sge++;
	assert_null(create(f, cap));
	cap = max;
	cap.max_recv_sge++;
	assert_null(create(f, cap));
	cap = max;
	cap.max_inline_data++; /* libfabric determines the limit this way */
	assert_null(create(f, cap));
	assert_int_equal(errno, EINVAL);
}

static void other_types_are_not_supported(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_DRIVER, 0, 7 };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = f->cq,
			.recv_cq = f->cq,
			.cap = { 1, 1, 1, 1, 0 },
			.qp_type = types[i],
		};

		assert_null(ibv_create_qp(f->pd, &init));
		assert_int_equal(errno, EOPNOTSUPP);
	}
}

static void extended_creation_checks_its_mask(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = f->pd,
	};
	struct ibv_qp *qp;

	assert_null(ibv_create_qp_ex(f->ctx, &init)); /* no PD */
	assert_int_equal(errno, EINVAL);
	init.comp_mask |= IBV_QP_INIT_ATTR_PD;
	init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	assert_null(ibv_create_qp_ex(f->ctx, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	init.create_flags = 0;
	qp = ibv_create_qp_ex(f->ctx, &init);
	assert_non_null(qp);
	assert_null(ibv_qp_to_qp_ex(qp)); /* no builders were requested */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	init.comp_mask |= IBV_QP_INIT_ATTR_XRCD; /* of targets only */
	assert_null(ibv_create_qp_ex(f->ctx, &init));
	assert_int_equal(errno, EINVAL);
}

static const struct ibv_qp_attr to_init = {
	.qp_state = IBV_QPS_INIT,
	.pkey_index = 0,
	.port_num = 1,
	.qp_access_flags = IBV_ACCESS_REMOTE_READ,
};

#define INIT_MASK                                                              \
	(IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)

static void modify_follows_the_state_table(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = create(f, (struct ibv_qp_cap){ 1, 1, 1, 1, 0 });
	struct ibv_qp_attr attr = to_init;

	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(ibv_modify_qp(qp, &attr, INIT_MASK & ~IBV_QP_PORT),
			 EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &attr, INIT_MASK | 1 << 21),
			 EOPNOTSUPP);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(ibv_modify_qp(qp, &attr, INIT_MASK), 0);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void query_fills_everything_for_any_mask(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = create(f, (struct ibv_qp_cap){ 5, 6, 3, 2, 32 });
	struct ibv_qp_attr attr = to_init;
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_modify_qp(qp, &attr, INIT_MASK), 0);
	memset(&attr, 0xee, sizeof(attr));
	memset(&init, 0xee, sizeof(init));
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	assert_true(attr.cap.max_send_wr >= 5 && attr.cap.max_recv_wr >= 6);
	assert_true(attr.cap.max_send_sge >= 3 && attr.cap.max_recv_sge >= 2);
	assert_true(attr.cap.max_inline_data >= 32);
	assert_memory_equal(&attr.cap, &init.cap, sizeof(init.cap));
	assert_ptr_equal(init.qp_context, f);
	assert_ptr_equal(init.send_cq, f->cq);
	assert_ptr_equal(init.recv_cq, f->cq);
	assert_null(init.srq);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	assert_int_equal(init.sq_sig_all, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* The handle shows the state that was set or queried, and no other. */
static void query_sets_the_handles_state_if_asked(void **state)
{
	struct ibv_qp *qp =
		create(*state, (struct ibv_qp_cap){ 1, 1, 1, 1, 0 });
	struct ibv_qp_attr attr = to_init;
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_modify_qp(qp, &attr, INIT_MASK), 0);
	core_qp(qp)->state = UR_QPS_ERR; /* as by the peer */
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init), 0);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_int_equal(ibv_query_qp(qp, &attr, ~IBV_QP_STATE, &init), 0);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void groups_are_for_datagrams(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *rc = make_qp(f, IBV_QPT_RC);
	struct ibv_qp *ud = make_qp(f, IBV_QPT_UD);
	union ibv_gid v6 = { .raw = { 0xff, 0x0e, [15] = 1 } };
	union ibv_gid v4 = { .raw = {
				     [10] = 0xff, [11] = 0xff, 239, 1, 1, 1 } };
	union ibv_gid unicast;

	memcpy(unicast.raw, ur_fake_v4, 16);
	assert_int_equal(ibv_attach_mcast(rc, &v6, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(ud, &unicast, 0), EINVAL);
	assert_int_equal(ur_fake.mcasts, 0);
	assert_int_equal(ibv_attach_mcast(ud, &v6, 0), 0);
	assert_int_equal(ibv_attach_mcast(ud, &v4, 0), 0);
	assert_int_equal(ibv_detach_mcast(ud, &v4, 0), 0);
	assert_int_equal(ur_fake.mcasts, 3);
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_destroy_qp(ud), 0);
}

static void ece_answers_as_without_it(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);
	struct ibv_ece ece = { .vendor_id = 1 };

	assert_int_equal(ibv_query_ece(qp, &ece), EOPNOTSUPP);
	assert_int_equal(ibv_set_ece(qp, &ece), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(limits_are_kept),
		TEST(other_types_are_not_supported),
		TEST(extended_creation_checks_its_mask),
		TEST(modify_follows_the_state_table),
		TEST(query_fills_everything_for_any_mask),
		TEST(query_sets_the_handles_state_if_asked),
		TEST(groups_are_for_datagrams),
		TEST(ece_answers_as_without_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
