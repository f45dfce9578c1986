/* SPDX-License-Identifier: BSD-2-Clause */
/* RC between urnics: acknowledgements in the packets of requests. */
#include "roce/fixture.h"

#define ACK (UR_AETH_ACK | UR_AETH_CREDITS_INVALID)

/* A SEND of the peer, which is a urnic. */
static struct ur_hdr urnic_send(const struct fix *f, uint32_t psn)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_SEND_ONLY, psn);

	h.bth.urnic = true;
	return h;
}

static void urnic_ack(struct fix *f, uint32_t psn)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_ACK, psn);

	h.bth.urnic = true;
	h.syndrome = ACK;
	peer_send(f, &h, 0);
}

/* It arrives, and we are about to answer with a SEND of our own. */
static void come(struct fix *f, uint32_t psn)
{
	struct ur_hdr h = urnic_send(f, psn);

	fix_recv(f, psn, 0, 512);
	peer_send(f, &h, 64);
	expect_cqe(f, psn, UR_WC_SUCCESS);
}

static void it_is_piggybacked_on_a_send(void **state)
{
	struct fix *f = *state;

	come(f, RQ_PSN);
	fix_post(f, UR_WR_SEND, 1, 64, 0);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN);
	assert_true(f->out[0].h.bth.has_ack);
	assert_int_equal(f->out[0].h.syndrome, ACK);
	assert_int_equal(f->out[0].h.msn, 1);
	assert_int_equal(f->out[0].h.ack_psn, RQ_PSN);
	assert_int_equal(f->out[0].len, 64);
	assert_int_equal(counters(f)->acks_carried, 1);
	/* It is not sent again separately. */
	assert_int_equal(fix_sleep(f, 50 * US), 0);
}

/* A CNP that is due leaves with the acknowledgement (roce/ecn). */
static void no_piggyback_while_a_cnp_is_due(void **state)
{
	struct fix *f = *state;

	f->pkt.tclass = UR_ECN_CE;
	come(f, RQ_PSN);
	f->pkt.tclass = 0;
	fix_post(f, UR_WR_SEND, 1, 64, 0);
	assert_int_equal(fix_run(f), 3);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN);
	assert_false(f->out[0].h.bth.has_ack);
	assert_int_equal(f->out[1].h.bth.opcode, UR_CNP);
	expect_aeth(f, 2, RQ_PSN, ACK);
	come(f, RQ_PSN + 1);
	fix_post(f, UR_WR_SEND, 2, 64, 0);
	assert_int_equal(fix_run(f), 1);
	assert_true(f->out[0].h.bth.has_ack);
}

static void not_to_others(void **state)
{
	struct fix *f = *state;

	fix_recv(f, 1, 0, 512);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 64);
	fix_post(f, UR_WR_SEND, 1, 64, 0);
	assert_int_equal(fix_run(f), 2);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN);
	assert_false(f->out[0].h.bth.urnic);
	assert_false(f->out[0].h.bth.has_ack);
	expect_aeth(f, 1, RQ_PSN, ACK);
	assert_false(f->out[1].h.bth.urnic);
}

/* Until a packet of the peer has arrived, every packet requests an ack; then it
 * is decided. */
static void the_first_packets_request_acks(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 64, 0);
	fix_post(f, UR_WR_RDMA_READ, 2, 64, 0);
	assert_int_equal(fix_run(f), 2);
	assert_true(f->out[0].h.bth.urnic);
	assert_true(f->out[1].h.bth.urnic);
	peer_ack(f, SQ_PSN, ACK);
	fix_post(f, UR_WR_SEND, 3, 64, 0);
	assert_int_equal(fix_run(f), 1);
	assert_false(f->out[0].h.bth.urnic);
}

/*
 * One packet without the bit would make the peer take us for another adapter.
 */
static void all_requests_have_the_urnic_bit(void **state)
{
	static const uint8_t kinds[] = { UR_WR_SEND,	  UR_WR_RDMA_WRITE,
					 UR_WR_RDMA_READ, UR_WR_FETCH_ADD,
					 UR_WR_FLUSH,	  UR_WR_ATOMIC_WRITE };
	struct fix *f = *state;
	uint32_t n = sizeof(kinds);

	for (uint32_t i = 0; i < n; i++)
		fix_post(f, kinds[i], i, 8, 0);
	assert_int_equal(fix_run(f), n);
	for (uint32_t i = 0; i < n; i++)
		assert_true(f->out[i].h.bth.urnic);
}

static void not_where_the_packet_would_be_too_long(void **state)
{
	struct fix *f = *state;

	come(f, RQ_PSN);
	fix_post(f, UR_WR_SEND, 1, MTU - UR_PIGGYBACK_LEN, 0);
	assert_int_equal(fix_run(f), 1);
	assert_true(f->out[0].h.bth.has_ack);
	come(f, RQ_PSN + 1);
	fix_post(f, UR_WR_SEND, 2, MTU - UR_PIGGYBACK_LEN + 1, 0);
	assert_int_equal(fix_run(f), 2);
	assert_false(f->out[0].h.bth.has_ack);
	expect_aeth(f, 1, RQ_PSN + 1, ACK);
}

/* A longer packet first would keep the others out of the burst. */
static void not_in_front_of_others(void **state)
{
	struct fix *f = *state;

	come(f, RQ_PSN);
	fix_post(f, UR_WR_SEND, 1, 64, 0);
	fix_post(f, UR_WR_SEND, 2, 64, 0);
	assert_int_equal(fix_run(f), 3);
	assert_false(f->out[0].h.bth.has_ack);
	assert_false(f->out[1].h.bth.has_ack);
	expect_aeth(f, 2, RQ_PSN, ACK);
}

static void not_a_nak(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = urnic_send(f, RQ_PSN + 1);

	fix_recv(f, 1, 0, 512);
	peer_send(f, &h, 64);
	fix_post(f, UR_WR_SEND, 1, 64, 0);
	assert_int_equal(fix_run(f), 2);
	assert_false(f->out[0].h.bth.has_ack);
	expect_aeth(f, 1, RQ_PSN, UR_AETH_NAK | UR_NAK_PSN_SEQ);
}

/* Responses leave in the order of the requests (IBTA 9.7.5.1). */
static void not_before_an_answer(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = urnic_send(f, RQ_PSN + 1);

	peer_read(f, RQ_PSN, 64);
	fix_recv(f, 1, 0, 512);
	peer_send(f, &h, 64);
	fix_post(f, UR_WR_SEND, 1, 64, 0);
	assert_int_equal(fix_run(f), 3);
	for (int i = 0; i < 3; i++)
		assert_false(f->out[i].h.bth.has_ack);
}

static void it_completes_what_we_sent(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = urnic_send(f, RQ_PSN);

	fix_post(f, UR_WR_SEND, 1, 64, UR_SEND_SIGNALED);
	fix_run(f);
	fix_recv(f, 2, 0, 512);
	h.bth.has_ack = true;
	h.syndrome = ACK;
	h.ack_psn = SQ_PSN;
	peer_send(f, &h, 64);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	expect_cqe(f, 2, UR_WC_SUCCESS);
	assert_memory_equal(f->local.p, f->data, 64);
}

/* An invalid one is no reason to refuse the request that carries it. */
static void invalid_ones_are_ignored(void **state)
{
	static const struct {
		uint8_t syndrome;
		uint32_t psn;
	} wrong[] = {
		{ ACK, SQ_PSN - 1 },
		{ ACK, SQ_PSN + 1 },
		{ UR_AETH_NAK | UR_NAK_REM_OP, SQ_PSN },
		{ UR_AETH_RNR | 1, SQ_PSN },
	};
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 64, UR_SEND_SIGNALED);
	fix_run(f);
	for (uint32_t i = 0; i < 4; i++) {
		struct ur_hdr h = urnic_send(f, RQ_PSN + i);

		fix_recv(f, 2 + i, 0, 512);
		h.bth.has_ack = true;
		h.syndrome = wrong[i].syndrome;
		h.ack_psn = wrong[i].psn;
		peer_send(f, &h, 64);
		expect_cqe(f, 2 + i, UR_WC_SUCCESS);
		expect_no_cqe(f);
	}
	assert_int_equal(counters(f)->drop_ghost_ack, 2);
}

/* A message without ack request is acknowledged all the same, microseconds
 * later. */
static void an_unrequested_ack_is_delayed(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 3; i++) {
		struct ur_hdr h = urnic_send(f, RQ_PSN + i);

		h.bth.ackreq = false;
		fix_recv(f, i, 0, 512);
		peer_send(f, &h, 64);
		expect_cqe(f, i, UR_WC_SUCCESS);
		assert_int_equal(fix_run(f), 0);
	}
	assert_int_equal(fix_sleep(f, 45 * US), 0);
	assert_int_equal(fix_sleep(f, 10 * US), 1);
	expect_aeth(f, 0, RQ_PSN + 2, ACK);
	assert_int_equal(fix_sleep(f, 100 * US), 0);
}

/* A later ack request, or a READ to be answered, sends it at once. */
static void an_unrequested_ack_joins_the_next_packet(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = urnic_send(f, RQ_PSN);

	h.bth.ackreq = false;
	fix_recv(f, 1, 0, 512);
	peer_send(f, &h, 64);
	assert_int_equal(fix_run(f), 0);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	come(f, RQ_PSN + 1);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 1, ACK);
	h = urnic_send(f, RQ_PSN + 2);
	h.bth.ackreq = false;
	fix_recv(f, 2, 0, 512);
	peer_send(f, &h, 64);
	assert_int_equal(fix_run(f), 0);
	peer_read(f, RQ_PSN + 3, 64);
	assert_true(fix_run(f) > 0);
	expect_out(f, 0, UR_RC_READ_RESP_ONLY, RQ_PSN + 3);
}

/* A signaled request asks for an ack, and the 128th small packet, no other. */
static void a_urnic_gets_few_ack_requests(void **state)
{
	struct fix *f = *state;

	come(f, RQ_PSN);
	assert_int_equal(fix_run(f), 1);
	for (uint32_t i = 0; i < 8; i++)
		fix_post_quiet(f, UR_WR_SEND, i, 64,
			       i == 3 ? UR_SEND_SIGNALED : 0);
	assert_int_equal(fix_run(f), 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(f->out[i].h.bth.ackreq, i == 3);
	for (uint32_t n = 4; n < 132; n += 16) {
		for (uint32_t i = 0; i < 16; i++)
			fix_post_quiet(f, UR_WR_SEND, i, 64, 0);
		assert_int_equal(fix_run(f), 16);
		for (uint32_t i = 0; i < 16; i++)
			assert_int_equal(f->out[i].h.bth.ackreq,
					 n + i + 1 == 128);
		urnic_ack(f, f->out[15].h.bth.psn);
	}
}

/* For large ones an acknowledgement of the 128th would come too late. */
static void large_packets_request_acks_more_often(void **state)
{
	struct fix *f = *state;
	uint32_t asked = 0;

	fix_free(f);
	f = *state = fix_new_reset(UR_QPT_RC, false);
	f->link.path_mtu = 5;
	fix_connect(f);
	come(f, RQ_PSN);
	assert_int_equal(fix_run(f), 1);
	for (uint32_t n = 0; n < 64; n += 16) {
		for (uint32_t i = 0; i < 16; i++)
			fix_post_quiet(f, UR_WR_SEND, i, 4096, 0);
		assert_int_equal(fix_run(f), 16);
		for (uint32_t i = 0; i < 16; i++)
			asked += f->out[i].h.bth.ackreq;
		urnic_ack(f, f->out[15].h.bth.psn);
	}
	assert_int_equal(asked, 4);
}

/* The peer writes, and we write back `after` ns later; returns the number of
 * packets. */
static uint32_t write_and_answer(struct fix *f, uint32_t i, uint64_t after)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN + i);
	uint32_t n;

	h.bth.urnic = true;
	h.dma_len = 8;
	peer_send(f, &h, 8);
	n = fix_sleep(f, after);
	fix_post(f, UR_WR_RDMA_WRITE, i, 8, 0);
	n += fix_run(f);
	urnic_ack(f, SQ_PSN + i);
	expect_cqe(f, i, UR_WC_SUCCESS);
	return n;
}

/* A program that polls its memory and answers: piggybacking pays off. */
static void a_conversation_of_writes(void **state)
{
	struct fix *f = *state;
	uint32_t i = 0;

	while (i < 4)
		assert_int_equal(write_and_answer(f, i++, 12 * US), 2);
	for (; i < 8; i++) {
		assert_int_equal(write_and_answer(f, i, 12 * US), 1);
		assert_true(f->out[0].h.bth.has_ack);
	}
	/* One late answer does not end it; several do. */
	assert_int_equal(write_and_answer(f, i++, 30 * US), 2);
	assert_int_equal(write_and_answer(f, i++, 12 * US), 1);
	assert_int_equal(write_and_answer(f, i++, 30 * US), 2);
	assert_int_equal(write_and_answer(f, i++, 30 * US), 2);
	assert_int_equal(write_and_answer(f, i++, 12 * US), 2);
}

static void an_answer_late_is_none(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(write_and_answer(f, i, 25 * US), 2);
}

/* The peer sends, our reaction takes `kept` ns to leave, and we send back
 * `after` ns later; returns the number of packets. */
static uint32_t send_and_answer(struct fix *f, uint32_t i, uint64_t kept,
				uint64_t after)
{
	uint64_t came;
	uint32_t n;

	/* The receive that is posted first is no answer. */
	fix_sleep(f, 50 * US);
	came = f->now_ns;
	come(f, RQ_PSN + i);
	n = fix_run(f);
	if (n) {
		fix_sleep(f, kept);
		ur_roce_replies_sent(f->lane.roce, came, f->now_ns);
	}
	n += fix_sleep(f, after);
	fix_post(f, UR_WR_SEND, i, 64, 0);
	n += fix_run(f);
	urnic_ack(f, SQ_PSN + i);
	expect_cqe(f, i, UR_WC_SUCCESS);
	return n;
}

/* With slow system calls answers count as prompt all the same. */
static void prompt_answers_after_slow_sends(void **state)
{
	struct fix *f = *state;
	uint32_t i = 0;

	while (i < 4)
		assert_int_equal(send_and_answer(f, i++, 12 * US, 2 * US), 2);
	for (; i < 8; i++) {
		assert_int_equal(send_and_answer(f, i, 12 * US, 2 * US), 1);
		assert_true(f->out[0].h.bth.has_ack);
	}
}

static void a_pause_behind_slow_sends_is_one(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(send_and_answer(f, i, 12 * US, 7 * US), 2);
}

/* Time spent on others' packets does not count. */
static void only_reactions_to_it_count(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 8; i++) {
		uint64_t came = f->now_ns;

		come(f, RQ_PSN + i);
		assert_int_equal(fix_run(f), 1);
		fix_sleep(f, 12 * US);
		ur_roce_replies_sent(f->lane.roce, came + 1, f->now_ns);
		fix_post(f, UR_WR_SEND, i, 64, 0);
		assert_int_equal(fix_run(f), 1);
		urnic_ack(f, SQ_PSN + i);
		expect_cqe(f, i, UR_WC_SUCCESS);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rc_setup, fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_is_piggybacked_on_a_send),
		TEST(no_piggyback_while_a_cnp_is_due),
		TEST(not_to_others),
		TEST(the_first_packets_request_acks),
		TEST(all_requests_have_the_urnic_bit),
		TEST(not_where_the_packet_would_be_too_long),
		TEST(not_in_front_of_others),
		TEST(not_a_nak),
		TEST(not_before_an_answer),
		TEST(it_completes_what_we_sent),
		TEST(invalid_ones_are_ignored),
		TEST(an_unrequested_ack_is_delayed),
		TEST(an_unrequested_ack_joins_the_next_packet),
		TEST(a_urnic_gets_few_ack_requests),
		TEST(large_packets_request_acks_more_often),
		TEST(a_conversation_of_writes),
		TEST(an_answer_late_is_none),
		TEST(prompt_answers_after_slow_sends),
		TEST(a_pause_behind_slow_sends_is_one),
		TEST(only_reactions_to_it_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
