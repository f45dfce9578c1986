/* SPDX-License-Identifier: BSD-2-Clause */
/* The rate limit of a queue pair. At 8 Mbit/s a byte takes a microsecond; a
 * packet of UC with 256 bytes of payload has 272. */
#include <errno.h>

#include "roce/fixture.h"

#define KBPS   8000u
#define PACKET (12u + MTU + 4u)
#define SAVED  1000u /* default burst of a QP: 1 ms */
#define AHEAD  ((SAVED + PACKET - 1) / PACKET)

static int limit(struct fix *f, uint32_t kbps, uint32_t burst)
{
	struct ur_qp_attr a = { .rate_limit = kbps, .rate_burst = burst };

	return ur_roce_qp_modify(f->lane.roce, &f->qp, &a, UR_QP_RATE_LIMIT,
				 f->now_ns);
}

static void packets_leave_at_the_rate(void **state)
{
	struct fix *f = *state;
	uint32_t n;

	assert_int_equal(limit(f, KBPS, 0), 0);
	fix_post(f, UR_WR_SEND, 1, 32 * MTU, 0);
	n = fix_run(f);
	assert_int_equal(n, AHEAD);
	expect_no_cqe(f);
	n += fix_sleep(f, 10 * PACKET * US);
	assert_true(n >= AHEAD + 9 && n <= AHEAD + 11);
	n += fix_sleep(f, 30 * PACKET * US);
	assert_int_equal(n, 32);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(ur_roce_deadline(f->lane.roce), UR_NEVER);
}

static void a_burst_may_be_asked_for(void **state)
{
	struct fix *f = *state;

	assert_int_equal(limit(f, KBPS, 10 * PACKET), 0);
	fix_post(f, UR_WR_SEND, 1, 32 * MTU, 0);
	assert_int_equal(fix_run(f), 11); /* one more than the tokens allow */
}

static void without_a_limit_all_leaves(void **state)
{
	struct fix *f = *state;

	assert_int_equal(limit(f, KBPS, 0), 0);
	assert_int_equal(limit(f, 0, 0), 0);
	fix_post(f, UR_WR_SEND, 1, 32 * MTU, 0);
	assert_int_equal(fix_run(f), 32);
}

static void a_queue_pair_may_go_while_it_waits(void **state)
{
	struct fix *f = *state;
	struct ur_qp_attr a = { .state = UR_QPS_RESET };

	assert_int_equal(limit(f, KBPS, 0), 0);
	fix_post(f, UR_WR_SEND, 1, 32 * MTU, 0);
	fix_run(f);
	assert_int_equal(ur_roce_qp_modify(f->lane.roce, &f->qp, &a,
					   UR_QP_STATE, f->now_ns),
			 0);
	assert_int_equal(fix_sleep(f, 10 * MS), 0);
}

static void rates_out_of_range_are_refused(void **state)
{
	struct fix *f = *state;

	assert_int_equal(limit(f, UR_RATE_MIN_KBPS, 0), 0);
	assert_int_equal(limit(f, UR_RATE_MAX_KBPS, 0), 0);
	assert_int_equal(limit(f, UR_RATE_MIN_KBPS - 1, 0), -EINVAL);
	assert_int_equal(limit(f, UR_RATE_MAX_KBPS + 1, 0), -EINVAL);
}

/* Acknowledged or not; retransmissions count as well. */
static void rc_keeps_to_it(void **state)
{
	struct fix *f = *state;
	uint32_t n;

	assert_int_equal(limit(f, KBPS, 0), 0);
	fix_post(f, UR_WR_SEND, 1, 32 * MTU, UR_SEND_SIGNALED);
	n = fix_run(f);
	assert_int_equal(n, AHEAD);
	peer_ack(f, SQ_PSN + n - 1, 0x1f);
	n = fix_sleep(f, 10 * PACKET * US);
	assert_true(n >= 9 && n <= 11);
}

static int xrc_setup(void **state)
{
	*state = fix_new(UR_QPT_XRC_SEND, false);
	return 0;
}

static void xrc_keeps_to_it(void **state)
{
	struct fix *f = *state;

	assert_int_equal(limit(f, UR_RATE_MIN_KBPS, 0), 0);
	fix_post(f, UR_WR_SEND, 1, 32 * MTU, UR_SEND_SIGNALED);
	assert_int_equal(fix_run(f), 1);
	peer_plain(f, UR_XRC_ACK, SQ_PSN, 0);
	assert_int_equal(fix_sleep(f, 3 * MS), 1);
}

static void ud_keeps_to_it(void **state)
{
	struct fix *f = *state;

	assert_int_equal(limit(f, UR_RATE_MIN_KBPS, 0), 0);
	for (uint64_t i = 0; i < 4; i++)
		fix_post(f, UR_WR_SEND, i, 1000, UR_SEND_SIGNALED);
	/* Each takes eight milliseconds. */
	assert_int_equal(fix_run(f), 1);
	assert_int_equal(fix_sleep(f, 10 * MS), 1);
	assert_int_equal(fix_sleep(f, 20 * MS), 2);
}

#define UC(fn) cmocka_unit_test_setup_teardown(fn, uc_setup, fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		UC(packets_leave_at_the_rate),
		UC(a_burst_may_be_asked_for),
		UC(without_a_limit_all_leaves),
		UC(a_queue_pair_may_go_while_it_waits),
		UC(rates_out_of_range_are_refused),
		cmocka_unit_test_setup_teardown(rc_keeps_to_it, rc_setup,
						fix_teardown),
		cmocka_unit_test_setup_teardown(xrc_keeps_to_it, xrc_setup,
						fix_teardown),
		cmocka_unit_test_setup_teardown(ud_keeps_to_it, ud_setup,
						fix_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
