/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the experimental verbs of the iWARP device differ from those of RoCE: what it
 * lacks, and what it takes that RoCE does not.  Most other tests of these verbs run on
 * both devices.
 */
#include "setup.h"

#include <infiniband/verbs_exp.h>

#include "core/cross.h"

static struct ibv_exp_qp_init_attr init_of(struct fixture *f,
					   enum ibv_qp_type type)
{
	return (struct ibv_exp_qp_init_attr){
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 8, 8, 4, 4, 64 },
		.qp_type = type,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = f->pd,
	};
}

static struct ibv_qp *make(struct fixture *f, uint32_t flags, uint32_t arg)
{
	struct ibv_exp_qp_init_attr a = init_of(f, IBV_QPT_RC);
	struct ibv_qp *qp;

	a.exp_create_flags = flags;
	a.comp_mask |= IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG;
	a.max_atomic_arg = arg;
	qp = ibv_exp_create_qp(f->ctx, &a);
	assert_non_null(qp);
	return qp;
}

static void fields_and_capabilities(void **state)
{
	static const uint32_t lacks[] = {
		IBV_EXP_DEVICE_ATTR_TSO_CAPS,
		IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS,
		IBV_EXP_DEVICE_DC_RD_REQ,
		IBV_EXP_DEVICE_DC_RD_RES,
		IBV_EXP_DEVICE_ATTR_MAX_DCT,
	};
	static const uint32_t has[] = {
		IBV_EXP_DEVICE_ATTR_CALC_CAP,
		IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK,
		IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK,
		IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS,
		IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS,
		IBV_EXP_DEVICE_ATTR_UMR,
		IBV_EXP_DEVICE_ATTR_ODP,
		IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS,
		IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ,
	};
	struct fixture *f = *state;
	struct ibv_exp_device_attr a;

	for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		a.comp_mask = lacks[i];
		assert_int_equal(ibv_exp_query_device(f->ctx, &a), 0);
		assert_int_equal(a.comp_mask, 0);
	}
	for (size_t i = 0; i < sizeof(has) / sizeof(has[0]); i++) {
		a.comp_mask = has[i];
		assert_int_equal(ibv_exp_query_device(f->ctx, &a), 0);
		assert_int_equal(a.comp_mask, has[i]);
	}
	a.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
		      IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS;
	assert_int_equal(ibv_exp_query_device(f->ctx, &a), 0);
	assert_false(a.exp_device_cap_flags & IBV_EXP_DEVICE_DC_TRANSPORT);
	assert_true(a.exp_device_cap_flags & IBV_EXP_DEVICE_CROSS_CHANNEL);
	assert_true(a.exp_device_cap_flags & IBV_EXP_DEVICE_UMR);
	assert_int_equal(a.ext_atom.log_atomic_arg_sizes, 8);
}

/* RFC 7306 has operands of 8 bytes only. */
static void sizes_of_atomics(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_qp_init_attr a = init_of(f, IBV_QPT_RC);
	struct ibv_exp_send_wr wr = {
		.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
		.exp_send_flags = IBV_EXP_SEND_EXT_ATOMIC_INLINE,
	};
	struct ibv_sge sge = { 0 };
	struct ibv_exp_send_wr *bad;
	struct ibv_qp *qp;

	a.comp_mask |= IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG;
	a.max_atomic_arg = 16;
	errno = 0;
	assert_null(ibv_exp_create_qp(f->ctx, &a));
	assert_int_equal(errno, EINVAL);
	qp = make(f, 0, 8);
	to_rts(qp);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	for (uint32_t log = 0; log < 6; log++) {
		sge.length = 1u << log;
		wr.ext_op.masked_atomics.log_arg_sz = log;
		assert_int_equal(ibv_exp_post_send(qp, &wr, &bad),
				 log == 3 ? 0 : EINVAL);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void attributes_of_queue_pairs(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make(f, 0, 8);
	struct ibv_exp_qp_attr attr = { .qp_state = IBV_QPS_RTS, .dct_key = 1 };

	to_rts(qp);
	assert_int_equal(ibv_exp_modify_qp(qp, &attr, IBV_EXP_QP_RATE_LIMIT),
			 EOPNOTSUPP);
	assert_int_equal(ibv_exp_modify_qp(qp, &attr, IBV_EXP_QP_DC_KEY),
			 EOPNOTSUPP);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* Receives are posted before the connection, also by tasks. */
static void receives_in_reset(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make(f, IBV_EXP_QP_CREATE_CROSS_CHANNEL, 0);
	struct ibv_recv_wr recv = { .wr_id = 1 };
	struct ibv_exp_task task = { .task_type = IBV_EXP_TASK_RECV }, *bad;
	struct ibv_exp_send_wr wr = { .exp_opcode = IBV_EXP_WR_NOP };

	task.item.qp = qp;
	task.item.recv_wr = &recv;
	assert_int_equal(ibv_exp_post_task(f->ctx, &task, &bad), 0);
	task.task_type = IBV_EXP_TASK_SEND;
	task.item.send_wr = &wr;
	assert_int_equal(ibv_exp_post_task(f->ctx, &task, &bad), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void a_nop(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make(f, 0, 0);
	struct ibv_exp_send_wr *bad, wr = { .exp_opcode = IBV_EXP_WR_NOP };

	to_rts(qp);
	assert_int_equal(ibv_exp_post_send(qp, &wr, &bad), 0);
	wr.exp_send_flags = IBV_EXP_SEND_SOLICITED;
	assert_int_equal(ibv_exp_post_send(qp, &wr, &bad), EINVAL);
	wr.exp_send_flags = 0;
	wr.exp_opcode = IBV_EXP_WR_TSO;
	assert_int_equal(ibv_exp_post_send(qp, &wr, &bad), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void no_target_of_dc(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq_init_attr init = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(f->pd, &init);
	struct ibv_exp_dct_init_attr a = { .pd = f->pd,
					   .cq = f->cq,
					   .srq = srq,
					   .port = 1,
					   .mtu = IBV_MTU_1024 };

	errno = 0;
	assert_null(ibv_exp_create_dct(f->ctx, &a));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open_iwarp, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fields_and_capabilities),
		TEST(sizes_of_atomics),
		TEST(attributes_of_queue_pairs),
		TEST(receives_in_reset),
		TEST(a_nop),
		TEST(no_target_of_dc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
