/* SPDX-License-Identifier: BSD-2-Clause */
/* RC responder: READ and atomic requests, and their duplicates. */
#include "roce/fixture.h"

#define ACK	  (UR_AETH_ACK | UR_AETH_CREDITS_INVALID)
#define NAK(code) (uint8_t)(UR_AETH_NAK | (code))

static uint64_t counter(const struct fix *f)
{
	uint64_t v;

	memcpy(&v, f->remote.p, 8);
	return v;
}

static void c9_7_5_1_3_read_is_answered_in_packets(void **state)
{
	struct fix *f = *state;

	memcpy(f->remote.p, f->data, 600);
	peer_read(f, RQ_PSN, 600);
	assert_int_equal(fix_run(f), 3);
	expect_out(f, 0, UR_RC_READ_RESP_FIRST, RQ_PSN);
	expect_out(f, 1, UR_RC_READ_RESP_MIDDLE, RQ_PSN + 1);
	expect_out(f, 2, UR_RC_READ_RESP_LAST, RQ_PSN + 2);
	assert_int_equal(f->out[0].h.syndrome, ACK);
	assert_int_equal(f->out[2].len, 600 - 2 * MTU);
	assert_memory_equal(f->out[1].payload, f->data + MTU, MTU);
	/* It took three PSNs. */
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN + 3, 8, 8);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 3, ACK);
}

static void c9_7_5_1_3_zero_length_read(void **state)
{
	struct fix *f = *state;

	peer_read(f, RQ_PSN, 0);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_READ_RESP_ONLY, RQ_PSN);
	assert_int_equal(f->out[0].len, 0);
}

static void c9_7_5_1_3_duplicate_read_is_executed_again(void **state)
{
	struct fix *f = *state;

	peer_read(f, RQ_PSN, 600);
	fix_run(f);
	memset(f->remote.p, 0x77, 600);
	peer_read(f, RQ_PSN, 600);
	assert_int_equal(fix_run(f), 3);
	expect_out(f, 0, UR_RC_READ_RESP_FIRST, RQ_PSN);
	assert_int_equal(f->out[2].payload[0], 0x77);
}

static void c9_7_5_1_3_duplicate_read_of_the_rest(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_READ_REQUEST, RQ_PSN + 1);

	memcpy(f->remote.p, f->data, 600);
	peer_read(f, RQ_PSN, 600);
	fix_run(f);
	h.va += MTU;
	h.dma_len = 600 - MTU;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 2);
	expect_out(f, 0, UR_RC_READ_RESP_FIRST, RQ_PSN + 1);
	expect_out(f, 1, UR_RC_READ_RESP_LAST, RQ_PSN + 2);
	assert_memory_equal(f->out[0].payload, f->data + MTU, MTU);
}

static void c9_7_5_1_3_duplicate_read_must_name_the_same_memory(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_READ_REQUEST, RQ_PSN);

	peer_read(f, RQ_PSN, 600);
	fix_run(f);
	h.va += 4096;
	h.dma_len = 600;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 0);
}

static void c9_7_5_1_4_duplicate_atomic_replays_the_result(void **state)
{
	struct fix *f = *state;

	peer_atomic(f, UR_RC_FETCH_ADD, RQ_PSN, 5, 0);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_ATOMIC_ACK, RQ_PSN);
	assert_int_equal(f->out[0].h.orig, 0);
	assert_int_equal(counter(f), 5);
	peer_atomic(f, UR_RC_FETCH_ADD, RQ_PSN + 1, 5, 0);
	assert_int_equal(fix_run(f), 1);
	assert_int_equal(f->out[0].h.orig, 5);
	peer_atomic(f, UR_RC_FETCH_ADD, RQ_PSN, 5, 0);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_ATOMIC_ACK, RQ_PSN);
	assert_int_equal(f->out[0].h.orig, 0);
	assert_int_equal(counter(f), 10);
}

static void c9_7_5_1_4_forgotten_atomic_is_never_executed_again(void **state)
{
	struct fix *f = *state;

	/* Depth 4: the fifth replaces the first. */
	for (uint32_t i = 0; i < 5; i++) {
		peer_atomic(f, UR_RC_FETCH_ADD, RQ_PSN + i, 1, 0);
		fix_run(f);
	}
	peer_atomic(f, UR_RC_FETCH_ADD, RQ_PSN, 1, 0);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(counter(f), 5);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
}

static void c9_4_5_compare_and_swap(void **state)
{
	struct fix *f = *state;

	peer_atomic(f, UR_RC_CMP_SWAP, RQ_PSN, 11, 1);
	fix_run(f);
	assert_int_equal(f->out[0].h.orig, 0);
	assert_int_equal(counter(f), 0);
	peer_atomic(f, UR_RC_CMP_SWAP, RQ_PSN + 1, 11, 0);
	fix_run(f);
	assert_int_equal(f->out[0].h.orig, 0);
	assert_int_equal(counter(f), 11);
}

static void c9_4_5_unaligned_atomic_is_refused(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_FETCH_ADD, RQ_PSN);

	h.va += 4;
	h.swap_add = 1;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_INV_REQ));
	assert_int_equal(counter(f), 0);
}

static void c9_7_4_1_5_atomic_needs_its_right(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_FETCH_ADD, RQ_PSN);

	h.rkey = f->local.mr->key;
	h.va = (uintptr_t)f->local.p;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_REM_ACCESS));
}

static void c9_7_4_1_5_read_of_a_private_region(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_READ_REQUEST, RQ_PSN);

	h.rkey = f->local.mr->key;
	h.va = (uintptr_t)f->local.p;
	h.dma_len = 8;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_REM_ACCESS));
	expect_event(f, UR_EVENT_QP_ACCESS_ERR);
}

static void c9_7_4_1_4_more_reads_than_agreed(void **state)
{
	struct fix *f = *state;

	/* Depth 4; none is answered before the lane runs. */
	for (uint32_t i = 0; i < 4; i++)
		peer_read(f, RQ_PSN + i, 8);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
	peer_read(f, RQ_PSN + 4, 8);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	fix_run(f);
	expect_aeth(f, f->nout - 1, RQ_PSN + 4, NAK(UR_NAK_INV_REQ));
}

static void late_duplicate_does_not_take_a_place(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 4; i++)
		peer_atomic(f, UR_RC_FETCH_ADD, RQ_PSN + i, 1, 0);
	assert_int_equal(fix_run(f), 4);
	/* In one batch: the oldest once more, and a new request. */
	peer_atomic(f, UR_RC_FETCH_ADD, RQ_PSN, 1, 0);
	peer_atomic(f, UR_RC_FETCH_ADD, RQ_PSN + 4, 1, 0);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
	fix_run(f);
	expect_out(f, f->nout - 1, UR_RC_ATOMIC_ACK, RQ_PSN + 4);
	assert_int_equal(counter(f), 5);
}

static void c9_7_5_1_1_read_answers_come_before_later_acks(void **state)
{
	struct fix *f = *state;

	peer_read(f, RQ_PSN, 2 * MTU);
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN + 2, 8, 8);
	assert_int_equal(fix_run(f), 3);
	expect_out(f, 0, UR_RC_READ_RESP_FIRST, RQ_PSN);
	expect_out(f, 1, UR_RC_READ_RESP_LAST, RQ_PSN + 1);
	expect_aeth(f, 2, RQ_PSN + 2, ACK);
}

static void region_gone_while_it_is_read(void **state)
{
	struct fix *f = *state;

	peer_read(f, RQ_PSN, 8);
	ur_mr_destroy(&f->host.mrs, f->remote.mr);
	fix_run(f);
	expect_aeth(f, f->nout - 1, RQ_PSN, NAK(UR_NAK_REM_ACCESS));
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	assert_int_equal(ur_mr_create(&f->host.mrs, &f->host.pd, f->remote.p, 8,
				      (uintptr_t)f->remote.p, 0, &f->remote.mr),
			 0);
}

/* A long READ comes as several requests, all of which are unanswered when the
 * fault is found: the NAK must be for the first. */
static void c9_7_5_2_first_fault_of_several_reads(void **state)
{
	struct fix *f = *state;
	uint32_t n;

	peer_read(f, RQ_PSN, 2 * MTU);
	peer_read(f, RQ_PSN + 2, 2 * MTU);
	peer_atomic(f, UR_RC_FETCH_ADD, RQ_PSN + 4, 1, 0);
	ur_mr_destroy(&f->host.mrs, f->remote.mr);
	n = fix_run(f);
	assert_int_equal(ur_mr_create(&f->host.mrs, &f->host.pd, f->remote.p, 8,
				      (uintptr_t)f->remote.p, 0, &f->remote.mr),
			 0);
	assert_int_equal(n, 1);
	expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_REM_ACCESS));
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	assert_int_equal(counters(f)->resp_remote_access_errors, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rc_setup, fix_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(c9_7_5_1_3_read_is_answered_in_packets),
		T(c9_7_5_1_3_zero_length_read),
		T(c9_7_5_1_3_duplicate_read_is_executed_again),
		T(c9_7_5_1_3_duplicate_read_of_the_rest),
		T(c9_7_5_1_3_duplicate_read_must_name_the_same_memory),
		T(c9_7_5_1_4_duplicate_atomic_replays_the_result),
		T(c9_7_5_1_4_forgotten_atomic_is_never_executed_again),
		T(c9_4_5_compare_and_swap),
		T(c9_4_5_unaligned_atomic_is_refused),
		T(c9_7_4_1_5_atomic_needs_its_right),
		T(c9_7_4_1_5_read_of_a_private_region),
		T(c9_7_4_1_4_more_reads_than_agreed),
		T(late_duplicate_does_not_take_a_place),
		T(c9_7_5_1_1_read_answers_come_before_later_acks),
		T(region_gone_while_it_is_read),
		T(c9_7_5_2_first_fault_of_several_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
