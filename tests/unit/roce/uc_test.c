/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable connection (IBTA 9.8.2): whole messages or none, and no answers.
 */
#include "roce/fixture.h"

static void c9_8_2_sends_complete_when_sent(void **state)
{
	struct fix *f = *state;

	memcpy(f->local.p, f->data, 600);
	fix_post(f, UR_WR_SEND_IMM, 1, 600, 0);
	assert_int_equal(fix_run(f), 3);
	expect_out(f, 0, UR_UC_SEND_FIRST, SQ_PSN);
	expect_out(f, 1, UR_UC_SEND_MIDDLE, SQ_PSN + 1);
	expect_out(f, 2, UR_UC_SEND_LAST_IMM, SQ_PSN + 2);
	assert_int_equal(f->out[2].h.imm_be, 0xaabbccdd);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(ur_roce_deadline(f->lane.roce), UR_NEVER);
}

static void c9_8_2_2_message_arrives_whole(void **state)
{
	struct fix *f = *state;

	fix_recv(f, 1, 0, 1024);
	peer_plain(f, UR_UC_SEND_FIRST, RQ_PSN, MTU);
	peer_plain(f, UR_UC_SEND_MIDDLE, RQ_PSN + 1, MTU);
	peer_plain(f, UR_UC_SEND_LAST, RQ_PSN + 2, 9);
	assert_int_equal(expect_cqe(f, 1, UR_WC_SUCCESS).byte_len, 2 * MTU + 9);
	assert_int_equal(fix_sleep(f, MS), 0);
}

static void c9_8_2_2_torn_message_is_dropped(void **state)
{
	struct fix *f = *state;

	fix_recv(f, 1, 0, 1024);
	peer_plain(f, UR_UC_SEND_FIRST, RQ_PSN, MTU);
	peer_plain(f, UR_UC_SEND_LAST, RQ_PSN + 2, 9);
	expect_no_cqe(f);
	assert_true(counters(f)->drop_uc_sequence >= 1);
	/* The receive is reused for the next message, from its start. */
	peer_plain(f, UR_UC_SEND_FIRST, RQ_PSN + 3, MTU);
	peer_plain(f, UR_UC_SEND_LAST, RQ_PSN + 4, 1);
	assert_int_equal(expect_cqe(f, 1, UR_WC_SUCCESS).byte_len, MTU + 1);
}

static void c9_8_2_2_the_rest_of_a_torn_message_is_no_message(void **state)
{
	struct fix *f = *state;

	fix_recv(f, 1, 0, 1024);
	peer_plain(f, UR_UC_SEND_MIDDLE, RQ_PSN, MTU);
	peer_plain(f, UR_UC_SEND_LAST, RQ_PSN + 1, 9);
	expect_no_cqe(f);
	assert_int_equal(f->local.p[1], 0);
}

static void c9_8_2_2_two_messages_are_not_mixed(void **state)
{
	struct fix *f = *state;

	fix_recv(f, 1, 0, 1024);
	peer_plain(f, UR_UC_SEND_FIRST, RQ_PSN, MTU);
	/* LAST and FIRST between are lost; the PSN even matches. */
	peer_write(f, UR_UC_WRITE_LAST, RQ_PSN + 1, 9, 9);
	peer_plain(f, UR_UC_SEND_LAST, RQ_PSN + 2, 9);
	expect_no_cqe(f);
}

static void c9_8_2_2_write(void **state)
{
	struct fix *f = *state;

	peer_write(f, UR_UC_WRITE_FIRST, RQ_PSN, MTU, MTU + 3);
	peer_write(f, UR_UC_WRITE_LAST, RQ_PSN + 1, 3, 0);
	assert_memory_equal(f->remote.p, f->data, MTU);
	assert_memory_equal(f->remote.p + MTU, f->data, 3);
	assert_int_equal(f->remote.p[MTU + 3], 0);
	assert_int_equal(fix_run(f), 0);
}

static void c9_8_2_2_bad_rkey_is_dropped(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_UC_WRITE_ONLY, RQ_PSN);

	h.rkey = f->local.mr->key;
	h.va = (uintptr_t)f->local.p;
	h.dma_len = 8;
	peer_send(f, &h, 8);
	assert_int_equal(f->local.p[1], 0);
	assert_int_equal(fix_run(f), 0);
}

static void c9_8_2_2_no_receive(void **state)
{
	struct fix *f = *state;

	peer_plain(f, UR_UC_SEND_ONLY, RQ_PSN, 8);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(counters(f)->drop_no_recv, 1);
	fix_recv(f, 1, 0, 64);
	peer_plain(f, UR_UC_SEND_ONLY, RQ_PSN + 1, 8);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void c9_8_2_2_receive_taken_in_the_middle_is_not_filled(void **state)
{
	struct fix *f = *state;

	/* FIRST found no receive: the rest must not begin one. */
	peer_plain(f, UR_UC_SEND_FIRST, RQ_PSN, MTU);
	fix_recv(f, 1, 0, 1024);
	peer_plain(f, UR_UC_SEND_MIDDLE, RQ_PSN + 1, MTU);
	peer_plain(f, UR_UC_SEND_LAST, RQ_PSN + 2, 8);
	expect_no_cqe(f);
	peer_plain(f, UR_UC_SEND_ONLY, RQ_PSN + 3, 8);
	assert_int_equal(expect_cqe(f, 1, UR_WC_SUCCESS).byte_len, 8);
}

static void c9_8_2_2_wrong_lengths_are_dropped(void **state)
{
	struct fix *f = *state;

	fix_recv(f, 1, 0, 1024);
	peer_plain(f, UR_UC_SEND_FIRST, RQ_PSN, MTU - 4);
	peer_plain(f, UR_UC_SEND_LAST, RQ_PSN + 1, 4);
	peer_plain(f, UR_UC_SEND_ONLY, RQ_PSN + 2, MTU + 4);
	peer_write(f, UR_UC_WRITE_ONLY, RQ_PSN + 3, 8, 4);
	peer_write(f, UR_UC_WRITE_FIRST, RQ_PSN + 4, MTU, MTU - 1);
	expect_no_cqe(f);
	assert_int_equal(f->remote.p[1], 0);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
}

#define T(name) cmocka_unit_test_setup_teardown(name, uc_setup, fix_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(c9_8_2_sends_complete_when_sent),
		T(c9_8_2_2_message_arrives_whole),
		T(c9_8_2_2_torn_message_is_dropped),
		T(c9_8_2_2_the_rest_of_a_torn_message_is_no_message),
		T(c9_8_2_2_two_messages_are_not_mixed),
		T(c9_8_2_2_write),
		T(c9_8_2_2_bad_rkey_is_dropped),
		T(c9_8_2_2_no_receive),
		T(c9_8_2_2_receive_taken_in_the_middle_is_not_filled),
		T(c9_8_2_2_wrong_lengths_are_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
