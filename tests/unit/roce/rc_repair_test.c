/* SPDX-License-Identifier: BSD-2-Clause */
/* RC requester between urnics: only what is lost is sent again. */
#include "base/bytes.h"
#include "roce/fixture.h"
#include "roce/internal.h"

#define ACK	  (UR_AETH_ACK | UR_AETH_CREDITS_INVALID)
#define NAK(code) (uint8_t)(UR_AETH_NAK | (code))

/* A packet of the peer, a urnic, with that payload. */
static void urnic_packet(struct fix *f, struct ur_hdr *h, const uint8_t *data,
			 uint32_t len)
{
	h->bth.urnic = true;
	rig_pkt_build(&f->pkt, h, data, len);
	rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
}

static void urnic_aeth(struct fix *f, uint32_t psn, uint8_t syndrome)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_ACK, psn);

	h.syndrome = syndrome;
	urnic_packet(f, &h, f->data, 0);
}

/* The peer waits for psn and has n ranges after it: gap, run, gap, run ... */
static void urnic_ranges(struct fix *f, uint32_t psn, uint32_t n,
			 const uint16_t *v)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_ACK, psn);
	uint8_t data[256] = { 0 };

	h.syndrome = NAK(UR_NAK_PSN_SEQ);
	h.bth.selective = true;
	ur_put_be16(data + 2, (uint16_t)n);
	for (uint32_t i = 0; i < 2 * n; i++)
		ur_put_be16(data + 4 + 2 * i, v[i]);
	urnic_packet(f, &h, data, 4 + 4 * n);
}

/* A response packet of a READ, with the data that belongs there. */
static void urnic_response(struct fix *f, uint8_t opcode, uint32_t i)
{
	struct ur_hdr h = peer_hdr(f, opcode, SQ_PSN + i);

	h.syndrome = ACK;
	urnic_packet(f, &h, f->data + i * MTU, MTU);
}

/* n SENDs of one packet are in flight; the peer is known to be a urnic. */
static void in_flight(struct fix *f, uint32_t n)
{
	fix_post(f, UR_WR_SEND, 100, 8, 0);
	fix_run(f);
	f->now_ns += 20 * US;
	urnic_aeth(f, SQ_PSN, ACK);
	expect_cqe(f, 100, UR_WC_SUCCESS);
	for (uint32_t i = 1; i <= n; i++)
		fix_post(f, UR_WR_SEND, i, 64, 0);
	assert_int_equal(fix_run(f), n);
}

static void expect_again(const struct fix *f, uint32_t i, uint32_t psn)
{
	assert_int_equal(f->out[i].h.bth.psn, psn);
	assert_true(f->out[i].h.bth.selective);
	assert_true(f->out[i].h.bth.ackreq);
}

static void only_the_gaps_are_sent_again(void **state)
{
	static const uint16_t v[] = { 1, 3, 2, 1 }; /* 1, 5 and 6 are missing */
	struct fix *f = *state;

	in_flight(f, 8);
	urnic_ranges(f, SQ_PSN + 1, 2, v);
	assert_int_equal(fix_run(f), 3);
	expect_again(f, 0, SQ_PSN + 1);
	expect_again(f, 1, SQ_PSN + 5);
	expect_again(f, 2, SQ_PSN + 6);
	/* The same report again changes nothing. */
	urnic_ranges(f, SQ_PSN + 1, 2, v);
	assert_int_equal(fix_run(f), 0);
	/* What the peer has is complete only when it was its turn. */
	expect_no_cqe(f);
	urnic_aeth(f, SQ_PSN + 8, ACK);
	for (uint32_t i = 1; i <= 8; i++)
		expect_cqe(f, i, UR_WC_SUCCESS);
	assert_int_equal(counters(f)->retransmitted_pkts, 3);
}

/* What was sent after it arrived, so it is lost again. */
static void a_repeated_packet_is_lost_again(void **state)
{
	static const uint16_t before[] = { 1, 1, 1, 1 };
	static const uint16_t after[] = { 1, 3 };
	static const uint16_t newer[] = { 1, 4 };
	struct fix *f = *state;

	in_flight(f, 4);
	urnic_ranges(f, SQ_PSN + 1, 2, before);
	assert_int_equal(fix_run(f), 2);
	expect_again(f, 0, SQ_PSN + 1);
	expect_again(f, 1, SQ_PSN + 3);
	urnic_ranges(f, SQ_PSN + 1, 1, after);
	assert_int_equal(fix_run(f), 1);
	expect_again(f, 0, SQ_PSN + 1);
	/* A new packet tells the same. */
	fix_post(f, UR_WR_SEND, 5, 64, 0);
	assert_int_equal(fix_run(f), 1);
	urnic_ranges(f, SQ_PSN + 1, 1, newer);
	assert_int_equal(fix_run(f), 1);
	expect_again(f, 0, SQ_PSN + 1);
	urnic_aeth(f, SQ_PSN + 5, ACK);
	assert_int_equal(fix_run(f), 0);
}

static void the_last_packet_is_probed_for(void **state)
{
	struct fix *f = *state;

	in_flight(f, 4);
	assert_int_equal(fix_sleep(f, 1 * MS), 1);
	expect_again(f, 0, SQ_PSN + 4);
	assert_int_equal(counters(f)->probes_sent, 1);
	/* Twice as long until the next one. */
	assert_int_equal(fix_sleep(f, 500 * US), 0);
	assert_int_equal(fix_sleep(f, 1 * MS), 1);
	urnic_ranges(f, SQ_PSN + 1, 1, (const uint16_t[]){ 3, 1 });
	assert_int_equal(fix_run(f), 3);
	expect_again(f, 0, SQ_PSN + 1);
	expect_again(f, 2, SQ_PSN + 3);
	urnic_aeth(f, SQ_PSN + 4, ACK);
	for (uint32_t i = 1; i <= 4; i++)
		expect_cqe(f, i, UR_WC_SUCCESS);
}

/* Others get the probe as well, once, without our bits; then all again. */
static void others_are_probed_once(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 100, 8, 0);
	fix_run(f);
	f->now_ns += 20 * US;
	peer_ack(f, SQ_PSN, ACK);
	expect_cqe(f, 100, UR_WC_SUCCESS);
	for (uint32_t i = 1; i <= 4; i++)
		fix_post(f, UR_WR_SEND, i, 64, 0);
	assert_int_equal(fix_run(f), 4);
	assert_int_equal(fix_sleep(f, 1 * MS), 1);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN + 4);
	assert_false(f->out[0].h.bth.selective);
	assert_true(f->out[0].h.bth.ackreq);
	assert_int_equal(fix_sleep(f, 5 * MS), 0);
	assert_int_equal(fix_sleep(f, 5 * MS), 4);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN + 1);
}

/* It had told that it has the packet, and has no receive for it. */
static void a_refused_packet_is_sent_again(void **state)
{
	static const uint16_t v[] = { 1, 3 };
	struct fix *f = *state;

	in_flight(f, 4);
	urnic_ranges(f, SQ_PSN + 1, 1, v);
	assert_int_equal(fix_run(f), 1);
	urnic_aeth(f, SQ_PSN + 2, UR_AETH_RNR | 1);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	expect_no_cqe(f);
	assert_int_equal(fix_sleep(f, 300 * US), 3);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN + 2);
	urnic_aeth(f, SQ_PSN + 4, ACK);
	for (uint32_t i = 2; i <= 4; i++)
		expect_cqe(f, i, UR_WC_SUCCESS);
}

/* As before, but the RNR NAK is lost: it lists what it expects no more. */
static void a_dropped_packet_is_sent_again(void **state)
{
	static const uint16_t all[] = { 1, 3 };
	static const uint16_t last[] = { 1, 2 };
	struct fix *f = *state;

	in_flight(f, 4);
	urnic_ranges(f, SQ_PSN + 1, 1, all);
	assert_int_equal(fix_run(f), 1);
	urnic_ranges(f, SQ_PSN + 2, 1, last);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(fix_run(f), 3);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN + 2);
	urnic_aeth(f, SQ_PSN + 4, ACK);
	for (uint32_t i = 2; i <= 4; i++)
		expect_cqe(f, i, UR_WC_SUCCESS);
}

static void a_lost_response_is_requested_again(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_RDMA_READ, 1, 8 * MTU, 0);
	fix_post(f, UR_WR_SEND, 2, 64, 0);
	assert_int_equal(fix_run(f), 2);
	urnic_response(f, UR_RC_READ_RESP_FIRST, 0);
	urnic_response(f, UR_RC_READ_RESP_MIDDLE, 3);
	assert_int_equal(fix_run(f), 1);
	expect_again(f, 0, SQ_PSN + 1);
	assert_int_equal(f->out[0].h.op->kind, UR_OP_READ_REQUEST);
	assert_int_equal(f->out[0].h.va, 0x10000 + MTU);
	assert_int_equal(f->out[0].h.dma_len, 2 * MTU);
	urnic_response(f, UR_RC_READ_RESP_MIDDLE, 4);
	urnic_response(f, UR_RC_READ_RESP_MIDDLE, 5);
	urnic_response(f, UR_RC_READ_RESP_MIDDLE, 6);
	urnic_response(f, UR_RC_READ_RESP_LAST, 7);
	urnic_aeth(f, SQ_PSN + 8, ACK);
	expect_no_cqe(f);
	assert_int_equal(fix_run(f), 0);
	urnic_response(f, UR_RC_READ_RESP_FIRST, 1);
	expect_no_cqe(f);
	urnic_response(f, UR_RC_READ_RESP_LAST, 2);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	expect_cqe(f, 2, UR_WC_SUCCESS);
	assert_memory_equal(f->local.p, f->data, 8 * MTU);
}

/* The peer waits for it: nothing behind it was executed. */
static void a_lost_request_is_sent_again_whole(void **state)
{
	static const uint16_t v[] = { 4, 1 };
	struct fix *f = *state;

	in_flight(f, 1);
	fix_post(f, UR_WR_RDMA_READ, 2, 4 * MTU, 0);
	fix_post(f, UR_WR_SEND, 3, 64, 0);
	assert_int_equal(fix_run(f), 2);
	urnic_ranges(f, SQ_PSN + 2, 1, v);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(fix_run(f), 1);
	expect_again(f, 0, SQ_PSN + 2);
	assert_int_equal(f->out[0].h.dma_len, 4 * MTU);
	urnic_ranges(f, SQ_PSN + 2, 1, v);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(fix_sleep(f, 1 * MS), 1);
	expect_again(f, 0, SQ_PSN + 2);
}

/* Lost packets of several requests count for the window by their own sizes. */
static void each_loss_has_its_price(void **state)
{
	static const uint16_t before[] = { 4, 1 };
	static const uint16_t after[] = { 4, 2 };
	struct fix *f = *state;
	const struct ur_path *p = ur_rqp_of(&f->qp)->path;
	uint64_t lost = MTU + 3 * 8 + 4 * UR_PKT_OVERHEAD;

	in_flight(f, 0);
	fix_post(f, UR_WR_SEND, 1, MTU, 0);
	for (uint32_t i = 2; i <= 5; i++)
		fix_post(f, UR_WR_SEND, i, 8, 0);
	assert_int_equal(fix_run(f), 5);
	urnic_ranges(f, SQ_PSN + 1, 1, before);
	assert_int_equal(p->round_lost, lost);
	assert_int_equal(fix_run(f), 4);
	fix_post(f, UR_WR_SEND, 6, 8, 0);
	assert_int_equal(fix_run(f), 1);
	urnic_ranges(f, SQ_PSN + 1, 1, after);
	assert_int_equal(p->round_lost, 2 * lost);
	assert_int_equal(fix_run(f), 4);
}

/* Nothing was sent after the repetition, so no report says that it was lost. */
static void the_expected_request_is_probed_for(void **state)
{
	static const uint16_t v[] = { 4, 1 };
	struct fix *f = *state;

	in_flight(f, 0);
	fix_post(f, UR_WR_RDMA_READ, 1, 4 * MTU, 0);
	fix_post(f, UR_WR_RDMA_READ, 2, 4 * MTU, 0);
	assert_int_equal(fix_run(f), 2);
	urnic_ranges(f, SQ_PSN + 1, 1, v);
	assert_int_equal(fix_run(f), 1);
	expect_again(f, 0, SQ_PSN + 1);
	assert_int_equal(fix_sleep(f, 1 * MS), 1);
	expect_again(f, 0, SQ_PSN + 1);
	assert_int_equal(f->out[0].h.dma_len, 4 * MTU);
	assert_int_equal(counters(f)->probes_sent, 1);
}

/* The application's timeout: the peer may have forgotten what it told. */
static void after_a_timeout_all_is_sent_again(void **state)
{
	static const uint16_t v[] = { 1, 3 };
	struct fix *f = *state;

	in_flight(f, 4);
	urnic_ranges(f, SQ_PSN + 1, 1, v);
	fix_run(f);
	for (uint32_t i = 0; i < 1000 && !counters(f)->local_ack_timeout_err;
	     i++)
		fix_sleep(f, 1 * MS);
	assert_int_equal(counters(f)->local_ack_timeout_err, 1);
	assert_int_equal(f->nout, 4);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN + 1);
	assert_false(f->out[0].h.bth.selective);
}

static void nonsense_does_no_harm(void **state)
{
	static const uint16_t beyond[] = { 1, 40000 };
	static const uint16_t endless[] = { 0xffff, 0xffff, 0xffff, 0xffff };
	static const uint16_t empty[] = { 0, 0, 0, 0, 1, 1 };
	struct ur_hdr h;
	struct fix *f = *state;

	in_flight(f, 4);
	urnic_ranges(f, SQ_PSN + 1, 1, beyond);
	urnic_ranges(f, SQ_PSN + 1, 2, endless);
	assert_int_equal(fix_run(f), 1);
	urnic_ranges(f, SQ_PSN + 1, 3, empty);
	fix_run(f);
	/* More ranges than the packet holds, and none at all. */
	h = peer_hdr(f, UR_RC_ACK, SQ_PSN + 2);
	h.syndrome = NAK(UR_NAK_PSN_SEQ);
	h.bth.selective = true;
	urnic_packet(f, &h, (const uint8_t[]){ 0, 0, 0xff, 0xff, 0, 1, 0, 1 },
		     8);
	urnic_packet(f, &h, f->data, 0);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	fix_run(f);
	urnic_aeth(f, SQ_PSN + 4, ACK);
	for (uint32_t i = 2; i <= 4; i++)
		expect_cqe(f, i, UR_WC_SUCCESS);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rc_setup, fix_teardown)
		T(only_the_gaps_are_sent_again),
		T(a_repeated_packet_is_lost_again),
		T(the_last_packet_is_probed_for),
		T(others_are_probed_once),
		T(a_refused_packet_is_sent_again),
		T(a_dropped_packet_is_sent_again),
		T(a_lost_response_is_requested_again),
		T(a_lost_request_is_sent_again_whole),
		T(each_loss_has_its_price),
		T(the_expected_request_is_probed_for),
		T(after_a_timeout_all_is_sent_again),
		T(nonsense_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
