/* SPDX-License-Identifier: BSD-2-Clause */
/* RC responder: requests packet by packet.  Clauses are those of IBTA 1.4. */
#include "roce/fixture.h"

#define ACK	  (UR_AETH_ACK | UR_AETH_CREDITS_INVALID)
#define NAK(code) (uint8_t)(UR_AETH_NAK | (code))

static void c9_7_5_1_1_send_is_acknowledged(void **state)
{
	struct fix *f = *state;
	struct ur_cqe c;

	fix_recv(f, 7, 0, 512);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 100);
	c = expect_cqe(f, 7, UR_WC_SUCCESS);
	assert_int_equal(c.opcode, UR_WC_RECV);
	assert_int_equal(c.byte_len, 100);
	assert_int_equal(c.src_qp, PEER_QPN);
	assert_int_equal(c.flags, 0);
	assert_memory_equal(f->local.p, f->data, 100);
	assert_int_equal(f->local.p[100], 0);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, ACK);
	assert_int_equal(f->out[0].h.msn, 1);
}

static void c9_7_5_1_2_duplicate_send_is_acknowledged_again(void **state)
{
	struct fix *f = *state;

	fix_recv(f, 1, 0, 512);
	fix_recv(f, 2, 512, 512);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 100);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	fix_run(f);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 100);
	expect_no_cqe(f);
	assert_int_equal(f->local.p[512], 0);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, ACK);
	assert_int_equal(f->out[0].h.msn, 1);
}

static void c9_7_5_1_2_duplicate_write_is_not_executed(void **state)
{
	struct fix *f = *state;

	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 64, 64);
	assert_memory_equal(f->remote.p, f->data, 64);
	memset(f->remote.p, 0xee, 64);
	fix_run(f);
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 64, 64);
	assert_int_equal(f->remote.p[0], 0xee);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, ACK);
}

static void c9_7_5_2_8_one_sequence_nak_for_a_gap(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 1; i < 6; i++)
		peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN + i, 8, 8);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_PSN_SEQ));
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN + 6, 8, 8);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(f->remote.p[1], 0);
	/* The expected packet ends it: the next gap gets a NAK again. */
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 8, 8);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, ACK);
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN + 2, 8, 8);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 1, NAK(UR_NAK_PSN_SEQ));
	assert_int_equal(f->qp.state, UR_QPS_RTS);
}

static void c9_7_5_2_8_a_duplicate_does_not_hide_a_nak(void **state)
{
	struct fix *f = *state;

	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 8, 8);
	fix_run(f);
	/* In one batch: a gap, and a duplicate. */
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN + 2, 8, 8);
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 8, 8);
	fix_run(f);
	expect_aeth(f, f->nout - 1, RQ_PSN + 1, NAK(UR_NAK_PSN_SEQ));
}

static void c9_7_5_2_8_rnr_nak_carries_the_timer(void **state)
{
	struct fix *f = *state;

	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 10);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN + 1, 10);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, UR_AETH_RNR | 12);
	fix_recv(f, 1, 0, 64);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 10);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, ACK);
}

static void c9_7_5_2_8_a_middle_packet_needs_no_receive(void **state)
{
	struct fix *f = *state;

	fix_recv(f, 1, 0, 1024);
	peer_plain(f, UR_RC_SEND_FIRST, RQ_PSN, MTU);
	peer_plain(f, UR_RC_SEND_MIDDLE, RQ_PSN + 1, MTU);
	expect_no_cqe(f);
	peer_plain(f, UR_RC_SEND_LAST, RQ_PSN + 2, 5);
	assert_int_equal(expect_cqe(f, 1, UR_WC_SUCCESS).byte_len, 2 * MTU + 5);
	assert_memory_equal(f->local.p + MTU, f->data, MTU);
}

static void fatal(struct fix *f, uint8_t code)
{
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, NAK(code));
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	/* Drops everything from now on. */
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 8, 8);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(f->remote.p[1], 0);
}

static void c9_7_4_1_5_bad_rkey_is_an_access_error(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	fix_recv(f, 1, 0, 64);
	h.rkey ^= 0x100;
	h.dma_len = 8;
	peer_send(f, &h, 8);
	fatal(f, UR_NAK_REM_ACCESS);
	expect_event(f, UR_EVENT_QP_ACCESS_ERR);
	expect_cqe(f, 1, UR_WC_WR_FLUSH_ERR);
	expect_no_cqe(f);
	assert_int_equal(counters(f)->resp_remote_access_errors, 1);
}

static void c9_7_4_1_5_range_ends_at_the_region(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	h.va += BUF_LEN - 8;
	h.dma_len = 8;
	peer_send(f, &h, 8);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, ACK);
	h.bth.psn++;
	h.va++;
	peer_send(f, &h, 8);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 1, NAK(UR_NAK_REM_ACCESS));
}

static void c9_7_4_1_5_region_without_remote_rights(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	h.va = (uintptr_t)f->local.p;
	h.rkey = f->local.mr->key;
	h.dma_len = 8;
	peer_send(f, &h, 8);
	fatal(f, UR_NAK_REM_ACCESS);
	assert_int_equal(f->local.p[1], 0);
}

static void c9_7_4_1_5_zero_length_write_checks_no_key(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	h.rkey = 0;
	h.va = 0;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, ACK);
}

static void c9_7_4_1_5_qp_access_flags(void **state)
{
	struct fix *f = *state;

	fix_free(f);
	f = *state = fix_new_reset(UR_QPT_RC, false);
	f->link.access = UR_ACCESS_REMOTE_READ;
	fix_connect(f);
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 8, 8);
	assert_int_equal(fix_run(f), 1);
	/* Not served by this QP: invalid request (or an access error). */
	assert_true(f->out[0].h.syndrome == NAK(UR_NAK_INV_REQ) ||
		    f->out[0].h.syndrome == NAK(UR_NAK_REM_ACCESS));
	assert_int_equal(f->remote.p[1], 0);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
}

static void c9_7_4_1_3_opcode_sequence(void **state)
{
	static const uint8_t bad[][2] = {
		{ UR_RC_SEND_FIRST, UR_RC_SEND_FIRST },
		{ UR_RC_SEND_FIRST, UR_RC_SEND_ONLY },
		{ UR_RC_SEND_FIRST, UR_RC_WRITE_ONLY },
		{ UR_RC_SEND_FIRST, UR_RC_WRITE_LAST },
		{ UR_RC_SEND_FIRST, UR_RC_READ_REQUEST },
		{ UR_RC_SEND_FIRST, UR_RC_FETCH_ADD },
		{ UR_RC_WRITE_FIRST, UR_RC_SEND_LAST },
		{ UR_RC_WRITE_FIRST, UR_RC_WRITE_ONLY },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fix *f = *state;

		fix_free(f);
		f = *state = fix_new(UR_QPT_RC, false);
		fix_recv(f, 1, 0, 1024);
		peer_write(f, bad[i][0], RQ_PSN, MTU, 2 * MTU);
		peer_write(f, bad[i][1], RQ_PSN + 1, 0, 0);
		fix_run(f);
		expect_aeth(f, f->nout - 1, RQ_PSN + 1, NAK(UR_NAK_INV_REQ));
		assert_int_equal(f->qp.state, UR_QPS_ERR);
	}
}

static void c9_7_4_1_3_middle_without_first(void **state)
{
	struct fix *f = *state;

	peer_plain(f, UR_RC_SEND_MIDDLE, RQ_PSN, MTU);
	fatal(f, UR_NAK_INV_REQ);
	expect_event(f, UR_EVENT_QP_REQ_ERR);
}

/* One row per malformed packet of a message; all are invalid requests. */
static void c9_7_4_1_6_payload_lengths(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t len;
		uint32_t total;
	} bad[] = {
		{ UR_RC_SEND_FIRST, MTU - 4, 0 },
		{ UR_RC_SEND_FIRST, 0, 0 },
		{ UR_RC_SEND_ONLY, MTU + 4, 0 },
		{ UR_RC_WRITE_ONLY, 8, 16 },
		{ UR_RC_WRITE_ONLY, 16, 8 },
		{ UR_RC_WRITE_FIRST, MTU, MTU },
		{ UR_RC_WRITE_FIRST, MTU, 8 },
		{ UR_RC_WRITE_ONLY, 8, 0x80000001 },
		{ UR_RC_WRITE_FIRST, MTU - 8, 4096 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fix *f = *state;

		fix_free(f);
		f = *state = fix_new(UR_QPT_RC, false);
		fix_recv(f, 1, 0, 4096);
		peer_write(f, bad[i].opcode, RQ_PSN, bad[i].len, bad[i].total);
		assert_int_equal(fix_run(f), 1);
		expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_INV_REQ));
		assert_int_equal(f->qp.state, UR_QPS_ERR);
		assert_int_equal(f->remote.p[1], 0);
	}
}

static void c9_7_4_1_6_last_of_write_must_complete_the_length(void **state)
{
	struct fix *f = *state;

	peer_write(f, UR_RC_WRITE_FIRST, RQ_PSN, MTU, 2 * MTU);
	peer_write(f, UR_RC_WRITE_LAST, RQ_PSN + 1, MTU - 1, 0);
	fix_run(f);
	expect_aeth(f, f->nout - 1, RQ_PSN + 1, NAK(UR_NAK_INV_REQ));
}

static void c9_7_4_1_6_send_longer_than_the_receive(void **state)
{
	struct fix *f = *state;

	fix_recv(f, 1, 0, 99);
	fix_recv(f, 2, 100, 100);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 100);
	fatal(f, UR_NAK_INV_REQ);
	expect_cqe(f, 1, UR_WC_LOC_LEN_ERR);
	expect_cqe(f, 2, UR_WC_WR_FLUSH_ERR);
	expect_no_cqe(f);
	assert_int_equal(counters(f)->resp_local_length_error, 1);
}

static void c9_7_4_1_7_receive_with_bad_lkey(void **state)
{
	struct fix *f = *state;
	struct ur_sge sge = rig_sge(&f->local, 0, 64);

	sge.lkey ^= 0x100;
	assert_int_equal(rig_post_recv(&f->qp.rq, 3, &sge, 1), 0);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	fatal(f, UR_NAK_REM_OP);
	expect_cqe(f, 3, UR_WC_LOC_PROT_ERR);
}

static void c9_7_5_1_1_acks_are_coalesced(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 20; i++)
		peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN + i, 8, 8);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 19, ACK);
	assert_int_equal(f->out[0].h.msn, 20);
}

static void c9_7_5_1_1_no_ack_without_ackreq(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	h.dma_len = 8;
	h.bth.ackreq = false;
	peer_send(f, &h, 8);
	assert_int_equal(fix_sleep(f, MS), 0);
	assert_int_equal(f->remote.p[1], f->data[1]);
}

static void c9_7_2_psn_wraps(void **state)
{
	struct fix *f = *state;

	fix_free(f);
	f = *state = fix_new_reset(UR_QPT_RC, false);
	f->link.rq_psn = UR_PSN_MASK;
	fix_connect(f);
	peer_write(f, UR_RC_WRITE_FIRST, UR_PSN_MASK, MTU, MTU + 4);
	peer_write(f, UR_RC_WRITE_LAST, 0, 4, 0);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, 0, ACK);
	/* And the one before the wrap is a duplicate now. */
	peer_write(f, UR_RC_WRITE_FIRST, UR_PSN_MASK, MTU, MTU + 4);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, 0, ACK);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
}

static void c9_7_7_msn_counts_messages(void **state)
{
	struct fix *f = *state;

	peer_write(f, UR_RC_WRITE_FIRST, RQ_PSN, MTU, MTU + 4);
	fix_run(f);
	if (f->nout)
		assert_int_equal(f->out[0].h.msn, 0);
	peer_write(f, UR_RC_WRITE_LAST, RQ_PSN + 1, 4, 0);
	fix_run(f);
	assert_int_equal(f->out[0].h.msn, 1);
	peer_read(f, RQ_PSN + 2, 8);
	fix_run(f);
	assert_int_equal(f->out[0].h.msn, 2);
}

static void c9_4_1_immediate_data(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_SEND_ONLY_IMM, RQ_PSN);
	struct ur_cqe c;

	fix_recv(f, 1, 0, 64);
	fix_recv(f, 2, 64, 64);
	h.imm_be = 0x11223344;
	peer_send(f, &h, 4);
	c = expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(c.opcode, UR_WC_RECV);
	assert_int_equal(c.flags, UR_WC_WITH_IMM);
	assert_int_equal(c.imm_be, 0x11223344);
	h = peer_hdr(f, UR_RC_WRITE_ONLY_IMM, RQ_PSN + 1);
	h.imm_be = 0x55667788;
	h.dma_len = 12;
	peer_send(f, &h, 12);
	c = expect_cqe(f, 2, UR_WC_SUCCESS);
	assert_int_equal(c.opcode, UR_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(c.byte_len, 12);
	assert_int_equal(c.imm_be, 0x55667788);
	assert_memory_equal(f->remote.p, f->data, 12);
	assert_int_equal(f->local.p[64], 0);
}

static void c9_7_5_2_8_write_imm_without_receive_is_rnr(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY_IMM, RQ_PSN);

	h.dma_len = 12;
	peer_send(f, &h, 12);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, UR_AETH_RNR | 12);
}

static void c9_2_3_solicited_bit_reaches_the_queue(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_SEND_ONLY, RQ_PSN);

	struct ur_evq channel;

	assert_int_equal(ur_evq_init(&channel), 0);
	f->cq.channel = &channel;
	fix_recv(f, 1, 0, 64);
	fix_recv(f, 2, 64, 64);
	ur_cq_arm(&f->cq, true);
	peer_send(f, &h, 4);
	assert_true(ur_list_empty(&channel.queue));
	h.bth.psn++;
	h.bth.solicited = true;
	peer_send(f, &h, 4);
	assert_false(ur_list_empty(&channel.queue));
	ur_evq_drain(&channel, &f->cq.source);
	f->cq.channel = NULL;
	ur_evq_fini(&channel);
}

static void c10_2_9_srq_feeds_the_queue_pair(void **state)
{
	struct fix *f = *state;

	fix_free(f);
	f = *state = fix_new(UR_QPT_RC, true);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	fix_run(f);
	expect_aeth(f, 0, RQ_PSN, UR_AETH_RNR | 12);
	fix_recv(f, 5, 0, 64);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	expect_cqe(f, 5, UR_WC_SUCCESS);
}

/* Local keys of a shared receive are checked against the queue's domain. */
static void c10_2_9_keys_are_those_of_the_queue(void **state)
{
	struct fix *f = *state;
	struct ur_pd other = { .handle = 9 }, *mine;

	fix_free(f);
	f = *state = fix_new(UR_QPT_RC, true);
	mine = f->srq.pd;
	f->srq.pd = &other;
	fix_recv(f, 5, 0, 64);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	expect_cqe(f, 5, UR_WC_LOC_PROT_ERR);
	f->srq.pd = mine;
}

static void c11_6_3_last_wqe_reached(void **state)
{
	struct fix *f = *state;

	fix_free(f);
	f = *state = fix_new(UR_QPT_RC, true);
	fix_recv(f, 5, 0, 64);
	assert_int_equal(rig_qp_state(&f->lane, &f->qp, UR_QPS_ERR, f->now_ns),
			 0);
	expect_event(f, UR_EVENT_QP_LAST_WQE_REACHED);
	/* Receives of an SRQ are not flushed. */
	expect_no_cqe(f);
}

static void memory_that_is_gone_is_an_access_error(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h;
	uint32_t key = f->remote.mr->key;

	ur_mr_destroy(&f->host.mrs, f->remote.mr);
	h = rig_hdr(UR_RC_WRITE_ONLY, f->qp.qpn, RQ_PSN);
	h.va = (uintptr_t)f->remote.p;
	h.rkey = key;
	h.dma_len = 8;
	peer_send(f, &h, 8);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_REM_ACCESS));
	assert_int_equal(ur_mr_create(&f->host.mrs, &f->host.pd, f->remote.p, 8,
				      (uintptr_t)f->remote.p, 0, &f->remote.mr),
			 0);
}

static void region_gone_in_the_middle_of_a_write(void **state)
{
	struct fix *f = *state;

	peer_write(f, UR_RC_WRITE_FIRST, RQ_PSN, MTU, 2 * MTU);
	ur_mr_destroy(&f->host.mrs, f->remote.mr);
	assert_int_equal(ur_mr_create(&f->host.mrs, &f->host.pd, f->remote.p, 8,
				      (uintptr_t)f->remote.p, 0, &f->remote.mr),
			 0);
	peer_write(f, UR_RC_WRITE_LAST, RQ_PSN + 1, MTU, 0);
	fix_run(f);
	expect_aeth(f, f->nout - 1, RQ_PSN + 1, NAK(UR_NAK_REM_ACCESS));
	assert_int_equal(f->remote.p[MTU + 1], 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rc_setup, fix_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(c9_7_5_1_1_send_is_acknowledged),
		T(c9_7_5_1_2_duplicate_send_is_acknowledged_again),
		T(c9_7_5_1_2_duplicate_write_is_not_executed),
		T(c9_7_5_2_8_one_sequence_nak_for_a_gap),
		T(c9_7_5_2_8_a_duplicate_does_not_hide_a_nak),
		T(c9_7_5_2_8_rnr_nak_carries_the_timer),
		T(c9_7_5_2_8_a_middle_packet_needs_no_receive),
		T(c9_7_4_1_5_bad_rkey_is_an_access_error),
		T(c9_7_4_1_5_range_ends_at_the_region),
		T(c9_7_4_1_5_region_without_remote_rights),
		T(c9_7_4_1_5_zero_length_write_checks_no_key),
		T(c9_7_4_1_5_qp_access_flags),
		T(c9_7_4_1_3_opcode_sequence),
		T(c9_7_4_1_3_middle_without_first),
		T(c9_7_4_1_6_payload_lengths),
		T(c9_7_4_1_6_last_of_write_must_complete_the_length),
		T(c9_7_4_1_6_send_longer_than_the_receive),
		T(c9_7_4_1_7_receive_with_bad_lkey),
		T(c9_7_5_1_1_acks_are_coalesced),
		T(c9_7_5_1_1_no_ack_without_ackreq),
		T(c9_7_2_psn_wraps),
		T(c9_7_7_msn_counts_messages),
		T(c9_4_1_immediate_data),
		T(c9_7_5_2_8_write_imm_without_receive_is_rnr),
		T(c9_2_3_solicited_bit_reaches_the_queue),
		T(c10_2_9_srq_feeds_the_queue_pair),
		T(c10_2_9_keys_are_those_of_the_queue),
		T(c11_6_3_last_wqe_reached),
		T(memory_that_is_gone_is_an_access_error),
		T(region_gone_in_the_middle_of_a_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
