/* SPDX-License-Identifier: BSD-2-Clause */
/* Life of a queue pair: states, events, draining, reset (IBTA 10.3.1). */
#include <errno.h>

#include "roce/fixture.h"

#define ACK (UR_AETH_ACK | UR_AETH_CREDITS_INVALID)

static int rc_setup_reset(void **state)
{
	*state = fix_new_reset(UR_QPT_RC, false);
	return 0;
}

static void modify(struct fix *f, enum ur_qp_state to)
{
	assert_int_equal(rig_qp_state(&f->lane, &f->qp, to, f->now_ns), 0);
}

static void c10_3_1_rtr_receives_and_does_not_send(void **state)
{
	struct fix *f = *state;

	assert_int_equal(rig_qp_init(&f->lane, &f->qp, &f->link, f->now_ns), 0);
	fix_recv(f, 1, 0, 64);
	assert_int_equal(rig_qp_rtr(&f->lane, &f->qp, &f->link, f->now_ns), 0);
	fix_post(f, UR_WR_SEND, 2, 8, 0);
	assert_int_equal(fix_run(f), 0);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, ACK);
	/* Requests posted early are sent on RTS. */
	assert_int_equal(rig_qp_rts(&f->lane, &f->qp, &f->link, f->now_ns), 0);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN);
}

static void c11_6_3_communication_established(void **state)
{
	struct fix *f = *state;

	assert_int_equal(rig_qp_init(&f->lane, &f->qp, &f->link, f->now_ns), 0);
	assert_int_equal(rig_qp_rtr(&f->lane, &f->qp, &f->link, f->now_ns), 0);
	expect_no_event(f);
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 0, 0);
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN + 1, 0, 0);
	expect_event(f, UR_EVENT_COMM_EST);
	expect_no_event(f);
}

static void no_communication_established_in_rts(void **state)
{
	struct fix *f = *state;

	fix_connect(f);
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 0, 0);
	expect_no_event(f);
}

static void c10_3_1_error_flushes_all_in_order(void **state)
{
	struct fix *f = *state;

	fix_connect(f);
	for (uint32_t i = 0; i < 4; i++)
		fix_recv(f, 10 + i, 0, 8);
	for (uint32_t i = 0; i < 4; i++)
		fix_post(f, UR_WR_SEND, i, 8, 0);
	fix_run(f);
	peer_ack(f, SQ_PSN, ACK);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	modify(f, UR_QPS_ERR);
	expect_cqe(f, 0, UR_WC_SUCCESS);
	expect_cqe(f, 10, UR_WC_SUCCESS);
	for (uint32_t i = 1; i < 4; i++)
		expect_cqe(f, i, UR_WC_WR_FLUSH_ERR);
	for (uint32_t i = 1; i < 4; i++)
		expect_cqe(f, 10 + i, UR_WC_WR_FLUSH_ERR);
	expect_no_cqe(f);
	assert_int_equal(fix_sleep(f, 1000 * MS), 0);
}

static void c10_3_1_error_flushes_a_message_under_way(void **state)
{
	struct fix *f = *state;

	fix_connect(f);
	fix_recv(f, 1, 0, 1024);
	peer_plain(f, UR_RC_SEND_FIRST, RQ_PSN, MTU);
	modify(f, UR_QPS_ERR);
	expect_cqe(f, 1, UR_WC_WR_FLUSH_ERR);
	expect_no_cqe(f);
}

static void start_drain(struct fix *f, bool notify)
{
	struct ur_qp_attr attr = { .state = UR_QPS_SQD,
				   .en_sqd_async_notify = notify };

	assert_int_equal(ur_roce_qp_modify(f->lane.roce, &f->qp, &attr,
					   UR_QP_STATE |
						   UR_QP_EN_SQD_ASYNC_NOTIFY,
					   f->now_ns),
			 0);
}

static void c10_3_1_sqd_finishes_what_was_begun(void **state)
{
	struct fix *f = *state;

	fix_connect(f);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_run(f);
	start_drain(f, true);
	fix_post(f, UR_WR_SEND, 2, 8, 0);
	assert_int_equal(fix_run(f), 0);
	expect_no_event(f);
	/* Begun messages are retransmitted if necessary. */
	peer_ack(f, SQ_PSN, UR_AETH_NAK | UR_NAK_PSN_SEQ);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN);
	peer_ack(f, SQ_PSN, ACK);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	expect_event(f, UR_EVENT_SQ_DRAINED);
	assert_int_equal(fix_run(f), 0);
	expect_no_cqe(f);
	/* It still receives. */
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 8, 8);
	assert_int_equal(fix_run(f), 1);
	modify(f, UR_QPS_RTS);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN + 1);
	expect_no_event(f);
}

static void c10_3_1_sqd_of_an_idle_queue(void **state)
{
	struct fix *f = *state;

	fix_connect(f);
	start_drain(f, true);
	expect_event(f, UR_EVENT_SQ_DRAINED);
}

static void c10_3_1_sqd_without_notice(void **state)
{
	struct fix *f = *state;

	fix_connect(f);
	start_drain(f, false);
	expect_no_event(f);
}

static void c10_3_1_reset_forgets_all(void **state)
{
	struct fix *f = *state;

	fix_connect(f);
	fix_recv(f, 1, 0, 8);
	fix_post(f, UR_WR_SEND, 2, 8, 0);
	fix_post(f, UR_WR_RDMA_READ, 3, 8, 0);
	fix_run(f);
	peer_ack(f, SQ_PSN, ACK);
	modify(f, UR_QPS_RESET);
	expect_no_cqe(f); /* its completions went with it */
	assert_int_equal(fix_sleep(f, 1000 * MS), 0);
	f->link.sq_psn = 77;
	f->link.rq_psn = 99;
	fix_connect(f);
	assert_int_equal(fix_run(f), 0);
	fix_post(f, UR_WR_SEND, 4, 8, 0);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_SEND_ONLY, 77);
	peer_ack(f, 77, ACK);
	expect_cqe(f, 4, UR_WC_SUCCESS);
	peer_plain(f, UR_RC_SEND_ONLY, 99, 8);
	fix_run(f);
	expect_aeth(f, 0, 99, UR_AETH_RNR | 12);
}

static void c11_2_5_2_attributes_of_a_transition(void **state)
{
	struct fix *f = *state;
	struct ur_qp_attr attr = { .state = UR_QPS_INIT };

	/* RESET to RTS, and INIT without a port: refused, nothing changes. */
	assert_int_equal(rig_qp_rts(&f->lane, &f->qp, &f->link, f->now_ns),
			 -EINVAL);
	assert_int_equal(ur_roce_qp_modify(f->lane.roce, &f->qp, &attr,
					   UR_QP_STATE, f->now_ns),
			 -EINVAL);
	assert_int_equal(f->qp.state, UR_QPS_RESET);
	f->link.path_mtu = 6;
	assert_int_equal(rig_qp_init(&f->lane, &f->qp, &f->link, f->now_ns), 0);
	assert_int_equal(rig_qp_rtr(&f->lane, &f->qp, &f->link, f->now_ns),
			 -EINVAL);
	assert_int_equal(f->qp.state, UR_QPS_INIT);
	f->link.path_mtu = 5;
	f->link.max_dest_rd_atomic = UR_MAX_RD_ATOMIC + 1;
	assert_int_equal(rig_qp_rtr(&f->lane, &f->qp, &f->link, f->now_ns),
			 -EINVAL);
}

static void query_tells_the_current_psns(void **state)
{
	struct fix *f = *state;
	struct ur_qp_attr attr;

	fix_connect(f);
	fix_post(f, UR_WR_SEND, 1, 600, 0);
	fix_run(f);
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 0, 0);
	ur_roce_qp_query(f->lane.roce, &f->qp, &attr);
	assert_int_equal(attr.state, UR_QPS_RTS);
	assert_int_equal(attr.sq_psn, SQ_PSN + 3);
	assert_int_equal(attr.rq_psn, RQ_PSN + 1);
	assert_int_equal(attr.dest_qpn, PEER_QPN);
	assert_int_equal(attr.timeout, 14);
}

static void completion_queue_overrun_breaks_the_queue_pair(void **state)
{
	struct fix *f = *state;
	uint32_t n = f->cq.mask + 2, posted = 0;
	struct ur_ev ev;

	fix_connect(f);
	while (posted < n) {
		fix_post(f, UR_WR_SEND, posted, 8, 0);
		fix_run(f);
		peer_ack(f, SQ_PSN + posted, ACK);
		posted++;
		if (f->qp.state == UR_QPS_ERR)
			break;
	}
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	assert_true(posted > f->cq.cqe);
	assert_true(rig_event(&f->host, &ev));
	assert_int_equal(ev.type, UR_EVENT_CQ_ERR);
}

/* The limit and one more; a freed number is reused. */
static void a_lane_holds_as_many_queue_pairs_as_it_says(void **state)
{
	struct fix *f = *state;
	struct ur_qp_init init = { .type = UR_QPT_RC,
				   .pd = &f->host.pd,
				   .send_cq = &f->cq,
				   .recv_cq = &f->cq,
				   .async = &f->host.async };
	struct ur_qp *qps = test_calloc(UR_MAX_QP_PER_LANE, sizeof(*qps));
	struct ur_roce *r = f->lane.roce;
	uint32_t n = UR_MAX_QP_PER_LANE - 1; /* one is the fixture's */

	for (uint32_t i = 0; i <= n; i++) {
		assert_int_equal(ur_qp_init(&qps[i], &init), 0);
		assert_int_equal(ur_roce_qp_attach(r, &qps[i]),
				 i < n ? 0 : -ENOSPC);
	}
	ur_roce_qp_detach(r, &qps[0]);
	assert_int_equal(ur_roce_qp_attach(r, &qps[n]), 0);
	assert_int_equal(qps[n].qpn, qps[0].qpn);
	for (uint32_t i = 1; i <= n; i++)
		ur_roce_qp_detach(r, &qps[i]);
	for (uint32_t i = 0; i <= n; i++)
		ur_qp_fini(&qps[i]);
	test_free(qps);
}

#define T(name)                                                                \
	cmocka_unit_test_setup_teardown(name, rc_setup_reset, fix_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(c10_3_1_rtr_receives_and_does_not_send),
		T(c11_6_3_communication_established),
		T(no_communication_established_in_rts),
		T(c10_3_1_error_flushes_all_in_order),
		T(c10_3_1_error_flushes_a_message_under_way),
		T(c10_3_1_sqd_finishes_what_was_begun),
		T(c10_3_1_sqd_of_an_idle_queue),
		T(c10_3_1_sqd_without_notice),
		T(c10_3_1_reset_forgets_all),
		T(c11_2_5_2_attributes_of_a_transition),
		T(query_tells_the_current_psns),
		T(completion_queue_overrun_breaks_the_queue_pair),
		T(a_lane_holds_as_many_queue_pairs_as_it_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
