/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <time.h>

#include "setup.h"

#define TIMES                                                                  \
	(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                                 \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct ibv_cq_ex *make(struct fixture *f, uint64_t wc_flags)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 8,
		.cq_context = f,
		.wc_flags = wc_flags,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};

	return ibv_create_cq_ex(f->ctx, &init);
}

static void reads_every_member(void **state)
{
	struct ibv_cq_ex *cq = make(*state, IBV_WC_STANDARD_FLAGS | TIMES);
	struct ibv_poll_cq_attr attr = { 0 };
	struct timespec now;
	int64_t age;

	assert_ptr_equal(cq->cq_context, *state);
	complete(ibv_cq_ex_to_cq(cq), 5, 1);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	assert_int_equal(cq->wr_id, 5);
	assert_int_equal(cq->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
	assert_int_equal(ibv_wc_read_vendor_err(cq), 9);
	assert_int_equal(ibv_wc_read_byte_len(cq), 100);
	assert_int_equal(ibv_wc_read_imm_data(cq), 0xcafe);
	assert_int_equal(ibv_wc_read_qp_num(cq), 0x4001);
	assert_int_equal(ibv_wc_read_src_qp(cq), 0x8002);
	assert_int_equal(ibv_wc_read_wc_flags(cq),
			 IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(ibv_wc_read_slid(cq), 7);
	assert_int_equal(ibv_wc_read_sl(cq), 2);
	assert_int_equal(ibv_wc_read_dlid_path_bits(cq), 3);
	assert_int_equal(ibv_wc_read_completion_ts(cq), UR_FAKE_NOW_NS - 1000);
	clock_gettime(CLOCK_REALTIME, &now);
	age = now.tv_sec * 1000000000 + now.tv_nsec -
	      (int64_t)ibv_wc_read_completion_wallclock_ns(cq);
	assert_true(age <= 1000 && age > -1000000000);
	ibv_end_poll(cq);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void what_was_not_looked_at_stays(void **state)
{
	struct ibv_cq_ex *cq = make(*state, 0);
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_wc wc[8];

	assert_int_equal(ibv_start_poll(cq, &attr), ENOENT);
	complete(ibv_cq_ex_to_cq(cq), 0, 4);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	assert_int_equal(ibv_next_poll(cq), 0);
	assert_int_equal(cq->wr_id, 1);
	ibv_end_poll(cq);
	assert_int_equal(ibv_poll_cq(ibv_cq_ex_to_cq(cq), 8, wc), 2);
	assert_int_equal(wc[0].wr_id, 2);
	complete(ibv_cq_ex_to_cq(cq), 9, 1);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	attr.comp_mask = 1;
	assert_int_equal(ibv_start_poll(cq, &attr), EINVAL);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void refuses_what_it_lacks(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq_init_attr_ex init = {
		.cqe = 8,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = 1u << 5,
	};

	assert_null(make(f, 1ull << 40));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_create_cq_ex(f->ctx, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD << 1;
	assert_null(ibv_create_cq_ex(f->ctx, &init));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* Meaningless for messages; requesting them is an error. */
static void vlan_and_flow_tag_are_zero_but_of_packets(void **state)
{
	struct ibv_cq_ex *cq =
		make(*state, IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG);
	struct ibv_poll_cq_attr attr = { 0 };

	assert_non_null(cq);
	complete(ibv_cq_ex_to_cq(cq), 0, 1);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	assert_int_equal(ibv_wc_read_cvlan(cq), 0);
	assert_int_equal(ibv_wc_read_flow_tag(cq), 0);
	ibv_end_poll(cq);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* The newest completions are kept, the others are lost silently. */
static void overrun_may_be_ignored(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq_init_attr_ex init = {
		.cqe = 4,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(f->ctx, &init);
	struct ibv_cq *cq;
	struct pollfd events = { .fd = f->ctx->async_fd, .events = POLLIN };
	struct ibv_wc wc[32];
	int n;

	assert_non_null(ex);
	cq = ibv_cq_ex_to_cq(ex);
	n = cq->cqe;
	complete(cq, 0, (uint32_t)n + 3);
	assert_int_equal(ibv_poll_cq(cq, 32, wc), n);
	assert_int_equal(wc[0].wr_id, 3);
	assert_int_equal(wc[n - 1].wr_id, n + 2);
	assert_int_equal(poll(&events, 1, 0), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reads_every_member),
		TEST(what_was_not_looked_at_stays),
		TEST(refuses_what_it_lacks),
		TEST(vlan_and_flow_tag_are_zero_but_of_packets),
		TEST(overrun_may_be_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
