/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects and requests of DC; their protocol: roce/dc_test.c. */
#include "setup.h"

#include <infiniband/verbs_exp.h>
#include <stdlib.h>

#include "verbs/objects.h"

#define KEY 0x1122334455667788u

static struct ibv_srq *make_srq(struct fixture *f)
{
	struct ibv_srq_init_attr init = { .attr = { 8, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(f->pd, &init);

	assert_non_null(srq);
	return srq;
}

static struct ibv_exp_dct_init_attr attr_of(struct fixture *f,
					    struct ibv_srq *srq)
{
	return (struct ibv_exp_dct_init_attr){
		.pd = f->pd,
		.cq = f->cq,
		.srq = srq,
		.dc_key = KEY,
		.port = 1,
		.access_flags = IBV_ACCESS_REMOTE_WRITE,
		.min_rnr_timer = 7,
		.tclass = 3,
		.flow_label = 9,
		.mtu = IBV_MTU_1024,
		.gid_index = UR_FAKE_V4_INDEX,
		.inline_size = 64,
	};
}

static void a_target_uses_its_objects(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq *srq = make_srq(f);
	struct ibv_exp_dct_init_attr attr = attr_of(f, srq);
	struct ibv_exp_dct *dct = ibv_exp_create_dct(f->ctx, &attr);

	assert_non_null(dct);
	assert_int_equal(attr.inline_size, 64); /* granted */
	assert_ptr_equal(dct->context, f->ctx);
	assert_int_equal(dct->dct_num, urv_dct(dct)->core.qpn);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_exp_destroy_dct(dct), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void its_attributes_are_queried(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq *srq = make_srq(f);
	struct ibv_exp_dct_init_attr attr = attr_of(f, srq);
	struct ibv_exp_dct_attr got = { .comp_mask = 0 };
	struct ibv_exp_dct *dct;

	attr.hop_limit = 9;
	dct = ibv_exp_create_dct(f->ctx, &attr);
	assert_non_null(dct);
	assert_int_equal(ibv_exp_query_dct(dct, &got), 0);
	assert_true(got.dc_key == KEY && got.pd == f->pd && got.cq == f->cq &&
		    got.srq == srq);
	assert_int_equal(got.port, 1);
	assert_int_equal(got.access_flags, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(got.min_rnr_timer, 7);
	assert_int_equal(got.tclass, 3);
	assert_int_equal(got.flow_label, 9);
	assert_int_equal(got.mtu, IBV_MTU_1024);
	assert_int_equal(got.pkey_index, 0);
	assert_int_equal(got.gid_index, UR_FAKE_V4_INDEX);
	assert_int_equal(got.hop_limit, 9);
	assert_int_equal(got.state, IBV_EXP_DCT_STATE_ACTIVE);
	assert_int_equal(ibv_exp_destroy_dct(dct), 0);
	/* 0 and 1 are the default, as of address vectors. */
	for (attr.hop_limit = 0; attr.hop_limit < 2; attr.hop_limit++) {
		dct = ibv_exp_create_dct(f->ctx, &attr);
		assert_non_null(dct);
		assert_int_equal(ibv_exp_query_dct(dct, &got), 0);
		assert_int_equal(got.hop_limit, 64);
		assert_int_equal(ibv_exp_destroy_dct(dct), 0);
	}
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* max_dct is the number of queue pairs, which targets count as. */
static void targets_are_limited(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq *srq = make_srq(f);
	struct ibv_exp_dct_init_attr attr = attr_of(f, srq);
	struct ibv_exp_device_attr device = {
		.comp_mask = IBV_EXP_DEVICE_ATTR_MAX_DCT
	};
	struct ibv_exp_dct **dct;
	int n = 0;

	assert_int_equal(ibv_exp_query_device(f->ctx, &device), 0);
	assert_true(device.max_dct > 0);
	dct = calloc((size_t)device.max_dct + 1, sizeof(struct ibv_exp_dct *));
	assert_non_null(dct);
	do
		dct[n] = ibv_exp_create_dct(f->ctx, &attr);
	while (dct[n] && ++n <= device.max_dct);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(n, device.max_dct);
	while (n--)
		assert_int_equal(ibv_exp_destroy_dct(dct[n]), 0);
	free(dct);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* They end with their context, and may be destroyed afterwards. */
static void contexts_end_their_targets(void **state)
{
	struct fixture *f = *state;
	struct ibv_context *ctx = ibv_open_device(f->list[0]);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	struct ibv_srq_init_attr init = { .attr = { 8, 1, 0 } };
	struct ibv_exp_dct_init_attr attr;
	struct ibv_exp_dct *dct;
	struct ibv_srq *srq;
	int qps;

	assert_true(ctx && pd && cq);
	srq = ibv_create_srq(pd, &init);
	assert_non_null(srq);
	attr = attr_of(f, srq);
	attr.pd = pd;
	attr.cq = cq;
	dct = ibv_exp_create_dct(ctx, &attr);
	assert_non_null(dct);
	qps = (int)ur_fake.qps;
	assert_int_equal(ibv_close_device(ctx), 0);
	assert_int_equal(ur_fake.qps, qps - 1);
	assert_int_equal(ibv_exp_destroy_dct(dct), 0);
	assert_int_equal(ur_fake.qps, qps - 1);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void violations_are_reported_when_armed(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq *srq = make_srq(f);
	struct ibv_exp_dct_init_attr attr = attr_of(f, srq);
	struct ibv_exp_dct *dct = ibv_exp_create_dct(f->ctx, &attr);
	struct ibv_exp_arm_attr arm = { .comp_mask = 0 };
	struct ibv_async_event e;

	assert_non_null(dct);
	assert_false(urv_dct(dct)->core.armed);
	assert_int_equal(ibv_exp_arm_dct(dct, &arm), 0);
	assert_true(urv_dct(dct)->core.armed);
	for (int i = 0; i < 3; i++) {
		static const struct {
			enum ur_event_type from;
			int to;
		} events[] = {
			{ UR_EVENT_DCT_KEY_VIOLATION,
			  IBV_EXP_EVENT_DCT_KEY_VIOLATION },
			{ UR_EVENT_DCT_ACCESS_ERR,
			  IBV_EXP_EVENT_DCT_ACCESS_ERR },
			{ UR_EVENT_DCT_REQ_ERR, IBV_EXP_EVENT_DCT_REQ_ERR },
		};

		ur_qp_dct_event(&urv_dct(dct)->core, events[i].from);
		assert_int_equal(ibv_get_async_event(f->ctx, &e), 0);
		assert_int_equal((int)e.event_type, events[i].to);
		assert_ptr_equal((void *)e.element.qp, dct);
		/* Else destroying waits for it. */
		ibv_ack_async_event(&e);
	}
	assert_int_equal(ibv_exp_destroy_dct(dct), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void calls_on_what_is_no_target_fail(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_dct none = { .context = f->ctx };
	struct ibv_exp_dct_attr got = { .comp_mask = 0 };
	struct ibv_exp_arm_attr arm = { .comp_mask = 0 };

	assert_int_equal(ibv_exp_query_dct(&none, &got), ENOENT);
	assert_int_equal(ibv_exp_arm_dct(&none, &arm), ENOENT);
	assert_int_equal(ibv_exp_destroy_dct(&none), ENOENT);
}

/* They could not name a target. */
static void initiators_have_no_builders(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.qp_type = IBV_EXP_QPT_DC_INI,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = f->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	errno = 0;
	assert_null(ibv_create_qp_ex(f->ctx, &init));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void iwarp_has_no_dc(void **state)
{
	struct fixture *f = *state;
	struct ibv_context *ctx = ibv_open_device(f->list[1]);
	struct ibv_exp_dct_init_attr attr = attr_of(f, make_srq(f));
	struct ibv_exp_device_attr device = {
		.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS
	};

	assert_int_equal(ibv_exp_query_device(ctx, &device), 0);
	assert_false(device.exp_device_cap_flags & IBV_EXP_DEVICE_DC_TRANSPORT);
	errno = 0;
	assert_null(ibv_exp_create_dct(ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_destroy_srq(attr.srq), 0);
	assert_int_equal(ibv_close_device(ctx), 0);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_target_uses_its_objects),
		TEST(its_attributes_are_queried),
		TEST(targets_are_limited),
		TEST(contexts_end_their_targets),
		TEST(violations_are_reported_when_armed),
		TEST(calls_on_what_is_no_target_fail),
		TEST(initiators_have_no_builders),
		TEST(iwarp_has_no_dc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
