/* SPDX-License-Identifier: BSD-2-Clause */
/* RC responder between urnics: what arrives ahead of a lost packet is kept. */
#include "base/bytes.h"
#include "roce/fixture.h"

#define ACK	  (UR_AETH_ACK | UR_AETH_CREDITS_INVALID)
#define NAK(code) (uint8_t)(UR_AETH_NAK | (code))

static struct ur_hdr urnic_hdr(const struct fix *f, uint8_t opcode,
			       uint32_t psn)
{
	struct ur_hdr h = peer_hdr(f, opcode, psn);

	h.bth.urnic = true;
	return h;
}

static void urnic_send(struct fix *f, uint32_t psn, bool ackreq)
{
	struct ur_hdr h = urnic_hdr(f, UR_RC_SEND_ONLY, psn);

	h.bth.ackreq = ackreq;
	peer_send(f, &h, 64);
}

static void receives(struct fix *f, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		fix_recv(f, i, 64 * i, 64);
}

/* Packet i is an acknowledgement that lists n ranges, the first of these. */
static void expect_ranges(const struct fix *f, uint32_t i, uint32_t psn,
			  uint32_t n, uint32_t gap, uint32_t run)
{
	const struct out *o = &f->out[i];

	expect_aeth(f, i, psn, NAK(UR_NAK_PSN_SEQ));
	assert_true(o->h.bth.selective);
	assert_int_equal(o->len, 4 + 4 * n);
	assert_int_equal(ur_be16_at(o->payload + 2), n);
	assert_int_equal(ur_be16_at(o->payload + 4), gap);
	assert_int_equal(ur_be16_at(o->payload + 6), run);
}

static void it_is_executed_when_the_lost_one_comes(void **state)
{
	struct fix *f = *state;

	receives(f, 4);
	urnic_send(f, RQ_PSN, true);
	fix_run(f);
	urnic_send(f, RQ_PSN + 2, true);
	urnic_send(f, RQ_PSN + 3, true);
	expect_cqe(f, 0, UR_WC_SUCCESS);
	expect_no_cqe(f);
	assert_int_equal(fix_run(f), 1);
	expect_ranges(f, 0, RQ_PSN + 1, 1, 1, 2);
	urnic_send(f, RQ_PSN + 1, true);
	for (uint32_t i = 1; i < 4; i++)
		expect_cqe(f, i, UR_WC_SUCCESS);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 3, ACK);
	assert_int_equal(f->out[0].len, 0);
	assert_int_equal(counters(f)->rcvd_seq_err, 1);
}

static void each_gap_is_told_at_once(void **state)
{
	struct fix *f = *state;

	urnic_send(f, RQ_PSN + 1, false);
	assert_int_equal(fix_run(f), 1);
	expect_ranges(f, 0, RQ_PSN, 1, 1, 1);
	/* What only follows is told with others. */
	urnic_send(f, RQ_PSN + 2, false);
	assert_int_equal(fix_run(f), 0);
	urnic_send(f, RQ_PSN + 5, false);
	assert_int_equal(fix_run(f), 1);
	expect_ranges(f, 0, RQ_PSN, 2, 1, 2);
	assert_int_equal(ur_be16_at(f->out[0].payload + 8), 2);
	assert_int_equal(ur_be16_at(f->out[0].payload + 10), 1);
	/* A duplicate adds nothing; one that fills a gap does. */
	urnic_send(f, RQ_PSN + 2, true);
	urnic_send(f, RQ_PSN + 3, true);
	assert_int_equal(fix_run(f), 1);
	expect_ranges(f, 0, RQ_PSN, 2, 1, 3);
}

static void it_is_executed_once(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = urnic_hdr(f, UR_RC_FETCH_ADD, RQ_PSN + 1);
	uint64_t v = 0;

	memset(f->remote.p, 0, 8);
	h.swap_add = 5;
	peer_send(f, &h, 0);
	peer_send(f, &h, 0);
	memcpy(&v, f->remote.p, 8);
	assert_int_equal(v, 0);
	receives(f, 1);
	urnic_send(f, RQ_PSN, true);
	peer_send(f, &h, 0);
	memcpy(&v, f->remote.p, 8);
	assert_int_equal(v, 5);
	fix_run(f);
	expect_out(f, 0, UR_RC_ATOMIC_ACK, RQ_PSN + 1);
}

/* IBTA 9.7.5.1.2: others get one NAK, and send all again. */
static void nothing_is_kept_for_others(void **state)
{
	struct fix *f = *state;

	receives(f, 3);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN + 1, 64);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN + 2, 64);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_PSN_SEQ));
	assert_int_equal(f->out[0].len, 0);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 64);
	expect_cqe(f, 0, UR_WC_SUCCESS);
	expect_no_cqe(f);
}

static void a_kept_request_may_be_refused(void **state)
{
	struct fix *f = *state;

	receives(f, 1);
	urnic_send(f, RQ_PSN + 1, true);
	fix_run(f);
	urnic_send(f, RQ_PSN, true);
	expect_cqe(f, 0, UR_WC_SUCCESS);
	assert_int_equal(fix_run(f), 1);
	assert_int_equal(f->out[0].h.bth.psn, RQ_PSN + 1);
	assert_int_equal(UR_AETH_CLASS(f->out[0].h.syndrome), UR_AETH_RNR);
	assert_false(f->out[0].h.bth.selective);
	/* Until the peer has waited, it sends what it had sent before. */
	urnic_send(f, RQ_PSN + 2, true);
	assert_int_equal(fix_run(f), 0);
	/* Then it must be that the RNR NAK, or the request, was lost. */
	f->now_ns += ur_rnr_timer_ns(f->qp.attr.min_rnr_timer) + 1 * MS;
	urnic_send(f, RQ_PSN + 2, true);
	assert_int_equal(fix_run(f), 1);
	expect_ranges(f, 0, RQ_PSN + 1, 1, 1, 1);
}

static void a_bad_request_fails_in_its_turn(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = urnic_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN + 1);

	h.dma_len = 64;
	h.rkey ^= 0x100;
	peer_send(f, &h, 64);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
	fix_run(f);
	receives(f, 2);
	urnic_send(f, RQ_PSN, true);
	expect_cqe(f, 0, UR_WC_SUCCESS);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	expect_cqe(f, 1, UR_WC_WR_FLUSH_ERR);
	fix_run(f);
	expect_aeth(f, 0, RQ_PSN + 1, NAK(UR_NAK_REM_ACCESS));
	expect_event(f, UR_EVENT_QP_ACCESS_ERR);
}

/* A part of an earlier READ is repeated; the later one goes on. */
static void a_part_of_a_response_is_repeated(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = urnic_hdr(f, UR_RC_READ_REQUEST, RQ_PSN);
	struct ur_hdr part;

	memcpy(f->remote.p, f->data, 2048);
	h.dma_len = 1024;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 4);
	part = urnic_hdr(f, UR_RC_READ_REQUEST, RQ_PSN + 1);
	part.bth.selective = true;
	part.va = h.va + MTU;
	part.dma_len = 2 * MTU;
	h.bth.psn = RQ_PSN + 4;
	h.dma_len = 300;
	peer_send(f, &h, 0);
	peer_send(f, &part, 0);
	peer_send(f, &part, 0);
	assert_int_equal(fix_run(f), 4);
	expect_out(f, 0, UR_RC_READ_RESP_FIRST, RQ_PSN + 1);
	expect_out(f, 1, UR_RC_READ_RESP_LAST, RQ_PSN + 2);
	assert_memory_equal(f->out[0].payload, f->data + MTU, MTU);
	expect_out(f, 2, UR_RC_READ_RESP_FIRST, RQ_PSN + 4);
	/* More than was requested before is no part of it. */
	part.dma_len = 4 * MTU;
	peer_send(f, &part, 0);
	assert_int_equal(fix_run(f), 0);
}

static void memory_is_bounded(void **state)
{
	struct fix *f = *state;
	uint32_t psn = RQ_PSN + 2;

	for (uint32_t i = 0; i < 60000; i++)
		urnic_send(f, psn++, false);
	fix_run(f);
	expect_ranges(f, 0, RQ_PSN, 1, 2, ur_be16_at(f->out[0].payload + 6));
	assert_in_range(ur_be16_at(f->out[0].payload + 6), 5000, 16384);
	/* RESET gives it back, under the sanitizer. */
	urnic_send(f, RQ_PSN + 1, true);
}

/* A peer that sends no request is not made to send all again by each. */
static void one_nak_where_nothing_is_kept(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 5; i++)
		urnic_send(f, RQ_PSN + 20000 + i, true);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_PSN_SEQ));
	assert_false(f->out[0].h.bth.selective);
	urnic_send(f, RQ_PSN + 20000, true);
	assert_int_equal(fix_run(f), 0);
}

/* What was not sent yet was not lost: the peer has only waited for long. */
static void a_response_in_progress_is_not_repeated(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = urnic_hdr(f, UR_RC_READ_REQUEST, RQ_PSN);

	h.dma_len = 1024;
	peer_send(f, &h, 0);
	h.bth.selective = true;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 4);
	expect_out(f, 0, UR_RC_READ_RESP_FIRST, RQ_PSN);
	expect_out(f, 3, UR_RC_READ_RESP_LAST, RQ_PSN + 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rc_setup, fix_teardown)
		T(it_is_executed_when_the_lost_one_comes),
		T(each_gap_is_told_at_once),
		T(it_is_executed_once),
		T(nothing_is_kept_for_others),
		T(a_kept_request_may_be_refused),
		T(a_bad_request_fails_in_its_turn),
		T(a_part_of_a_response_is_repeated),
		T(memory_is_bounded),
		T(one_nak_where_nothing_is_kept),
		T(a_response_in_progress_is_not_repeated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
