/* SPDX-License-Identifier: BSD-2-Clause */
/* RC requester: packets sent, and the effect of responses. */
#include "roce/fixture.h"
#include "roce/internal.h"

#define ACK	  (UR_AETH_ACK | UR_AETH_CREDITS_INVALID)
#define NAK(code) (uint8_t)(UR_AETH_NAK | (code))

#define TIMEOUT_NS (4096ul << 14)

static void peer_read_resp(struct fix *f, uint8_t opcode, uint32_t psn,
			   uint32_t len)
{
	struct ur_hdr h = peer_hdr(f, opcode, psn);

	peer_send(f, &h, len);
}

static void peer_atomic_ack(struct fix *f, uint32_t psn, uint64_t orig)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_ATOMIC_ACK, psn);

	h.orig = orig;
	peer_send(f, &h, 0);
}

/* How many packets of f->out have this PSN? */
static uint32_t count_psn(const struct fix *f, uint32_t psn)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->nout; i++)
		n += f->out[i].h.bth.psn == psn;
	return n;
}

static void c9_7_4_message_in_packets(void **state)
{
	struct fix *f = *state;

	memcpy(f->local.p, f->data, 600);
	fix_post(f, UR_WR_SEND, 1, 600, UR_SEND_SOLICITED);
	assert_int_equal(fix_run(f), 3);
	expect_out(f, 0, UR_RC_SEND_FIRST, SQ_PSN);
	expect_out(f, 1, UR_RC_SEND_MIDDLE, SQ_PSN + 1);
	expect_out(f, 2, UR_RC_SEND_LAST, SQ_PSN + 2);
	assert_int_equal(f->out[0].len, MTU);
	assert_int_equal(f->out[2].len, 600 - 2 * MTU);
	assert_memory_equal(f->out[1].payload, f->data + MTU, MTU);
	assert_true(f->out[2].h.bth.solicited);
	assert_true(f->out[2].h.bth.ackreq);
	assert_int_equal(f->out[0].h.bth.pkey, 0xffff);
	expect_no_cqe(f);
	peer_ack(f, SQ_PSN + 2, ACK);
	assert_int_equal(expect_cqe(f, 1, UR_WC_SUCCESS).opcode, UR_WC_SEND);
}

static void c9_7_4_write_header_names_the_whole_message(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_RDMA_WRITE_IMM, 1, 300, 0);
	assert_int_equal(fix_run(f), 2);
	expect_out(f, 0, UR_RC_WRITE_FIRST, SQ_PSN);
	expect_out(f, 1, UR_RC_WRITE_LAST_IMM, SQ_PSN + 1);
	assert_int_equal(f->out[0].h.dma_len, 300);
	assert_int_equal(f->out[0].h.va, 0x10000);
	assert_int_equal(f->out[0].h.rkey, 0x4242);
	assert_int_equal(f->out[1].h.imm_be, 0xaabbccdd);
}

static void c9_7_5_1_1_ack_completes_all_before_it(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 5; i++)
		fix_post(f, UR_WR_SEND, i, 8, 0);
	assert_int_equal(fix_run(f), 5);
	peer_ack(f, SQ_PSN + 3, ACK);
	for (uint32_t i = 0; i < 4; i++)
		expect_cqe(f, i, UR_WC_SUCCESS);
	expect_no_cqe(f);
	peer_ack(f, SQ_PSN + 4, ACK);
	expect_cqe(f, 4, UR_WC_SUCCESS);
	/* Nothing is outstanding: no timer, no packet. */
	assert_int_equal(ur_roce_deadline(f->lane.roce), UR_NEVER);
}

static void c9_7_5_2_ghost_acks_are_dropped(void **state)
{
	struct fix *f = *state;

	peer_ack(f, SQ_PSN, ACK);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_run(f);
	peer_ack(f, SQ_PSN + 1, ACK);
	peer_ack(f, SQ_PSN - 1, ACK);
	peer_ack(f, SQ_PSN + 0x800000, ACK);
	peer_ack(f, SQ_PSN - 1, NAK(UR_NAK_REM_ACCESS));
	expect_no_cqe(f);
	assert_int_equal(counters(f)->drop_ghost_ack, 5);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
	peer_ack(f, SQ_PSN, ACK);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	peer_ack(f, SQ_PSN, ACK);
	expect_no_cqe(f);
}

static void c9_7_4_read_request_and_responses(void **state)
{
	struct fix *f = *state;
	struct ur_cqe c;

	fix_post(f, UR_WR_RDMA_READ, 1, 600, 0);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_READ_REQUEST, SQ_PSN);
	assert_int_equal(f->out[0].h.dma_len, 600);
	peer_read_resp(f, UR_RC_READ_RESP_FIRST, SQ_PSN, MTU);
	peer_read_resp(f, UR_RC_READ_RESP_MIDDLE, SQ_PSN + 1, MTU);
	expect_no_cqe(f);
	peer_read_resp(f, UR_RC_READ_RESP_LAST, SQ_PSN + 2, 600 - 2 * MTU);
	c = expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(c.opcode, UR_WC_RDMA_READ);
	assert_int_equal(c.byte_len, 600);
	assert_memory_equal(f->local.p, f->data, MTU);
	assert_memory_equal(f->local.p + MTU, f->data, MTU);
	assert_int_equal(f->local.p[600], 0);
}

/* One request each, as long as there is room for the responses. */
static void read_in_requests_of_512_kib(void **state)
{
	enum { PKTS = (512 << 10) / MTU };
	struct fix *f = *state;

	fix_post(f, UR_WR_RDMA_READ, 1, (1u << 20) + 8, 0);
	assert_int_equal(fix_run(f), 3);
	expect_out(f, 0, UR_RC_READ_REQUEST, SQ_PSN);
	expect_out(f, 1, UR_RC_READ_REQUEST, SQ_PSN + PKTS);
	expect_out(f, 2, UR_RC_READ_REQUEST, SQ_PSN + 2 * PKTS);
	assert_int_equal(f->out[0].h.dma_len, 512u << 10);
	assert_int_equal(f->out[1].h.dma_len, 512u << 10);
	assert_int_equal(f->out[1].h.va, f->out[0].h.va + (512u << 10));
	assert_int_equal(f->out[2].h.dma_len, 8);
}

/* An eighth of the buffer, so that half of it keeps several in flight. */
static void read_in_requests_of_a_small_buffer(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_RDMA_READ, 1, 1u << 20, 0);
	assert_int_equal(fix_run(f), 4);
	assert_int_equal(f->out[0].h.dma_len, 128u << 10);
	assert_int_equal(f->out[3].h.dma_len, 128u << 10);
}

static void c9_7_5_1_1_an_ack_does_not_complete_a_read(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_post(f, UR_WR_RDMA_READ, 2, 8, 0);
	fix_post(f, UR_WR_SEND, 3, 8, 0);
	fix_run(f);
	peer_ack(f, SQ_PSN + 2, ACK);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	expect_no_cqe(f);
	/* An implied NAK: the READ and all later requests are retransmitted. */
	fix_run(f);
	assert_int_equal(f->out[0].h.bth.psn, SQ_PSN + 1);
	assert_int_equal(counters(f)->implied_nak_seq_err, 1);
	peer_read_resp(f, UR_RC_READ_RESP_ONLY, SQ_PSN + 1, 8);
	expect_cqe(f, 2, UR_WC_SUCCESS);
	peer_ack(f, SQ_PSN + 2, ACK);
	expect_cqe(f, 3, UR_WC_SUCCESS);
}

static void c9_7_4_read_response_of_wrong_length(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_RDMA_READ, 1, 600, 0);
	fix_run(f);
	peer_read_resp(f, UR_RC_READ_RESP_FIRST, SQ_PSN, MTU - 8);
	expect_cqe(f, 1, UR_WC_BAD_RESP_ERR);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	assert_int_equal(f->local.p[1], 0);
}

static void responses_never_asked_for(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_run(f);
	peer_read_resp(f, UR_RC_READ_RESP_ONLY, SQ_PSN, 8);
	peer_atomic_ack(f, SQ_PSN, 1);
	expect_no_cqe(f);
	assert_int_equal(f->local.p[1], 0);
	peer_ack(f, SQ_PSN, ACK);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void c9_4_5_atomics(void **state)
{
	struct fix *f = *state;
	uint64_t v;
	struct ur_cqe c;

	fix_post(f, UR_WR_FETCH_ADD, 1, 8, 0);
	fix_post(f, UR_WR_CMP_SWP, 2, 8, 0);
	assert_int_equal(fix_run(f), 2);
	expect_out(f, 0, UR_RC_FETCH_ADD, SQ_PSN);
	assert_int_equal(f->out[0].h.swap_add, 7);
	expect_out(f, 1, UR_RC_CMP_SWAP, SQ_PSN + 1);
	assert_int_equal(f->out[1].h.compare, 7);
	assert_int_equal(f->out[1].h.swap_add, 9);
	peer_atomic_ack(f, SQ_PSN, 1234567);
	c = expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(c.opcode, UR_WC_FETCH_ADD);
	memcpy(&v, f->local.p, 8);
	assert_int_equal(v, 1234567);
}

static void c9_7_6_no_more_reads_than_agreed(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 6; i++)
		fix_post(f, UR_WR_RDMA_READ, i, 8, 0);
	assert_int_equal(fix_run(f), 4);
	peer_read_resp(f, UR_RC_READ_RESP_ONLY, SQ_PSN, 8);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_READ_REQUEST, SQ_PSN + 4);
}

static void c10_8_3_3_fence_waits_for_reads(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_RDMA_READ, 1, 8, 0);
	fix_post(f, UR_WR_SEND, 2, 8, UR_SEND_FENCE);
	assert_int_equal(fix_run(f), 1);
	peer_read_resp(f, UR_RC_READ_RESP_ONLY, SQ_PSN, 8);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN + 1);
	/* An earlier SEND does not hold it back. */
	fix_post(f, UR_WR_SEND, 3, 8, UR_SEND_FENCE);
	assert_int_equal(fix_run(f), 1);
}

static void c9_7_5_1_2_sequence_nak_goes_back(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 5; i++)
		fix_post(f, UR_WR_SEND, i, 8, 0);
	fix_run(f);
	peer_ack(f, SQ_PSN + 2, NAK(UR_NAK_PSN_SEQ));
	expect_cqe(f, 0, UR_WC_SUCCESS);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	expect_no_cqe(f);
	assert_int_equal(fix_run(f), 3);
	for (uint32_t i = 0; i < 3; i++)
		expect_out(f, i, UR_RC_SEND_ONLY, SQ_PSN + 2 + i);
	assert_int_equal(counters(f)->packet_seq_err, 1);
}

static void fatal_nak(void **state, uint8_t code, uint8_t status)
{
	struct fix *f = *state;

	fix_recv(f, 100, 0, 8);
	for (uint32_t i = 0; i < 3; i++)
		fix_post(f, UR_WR_SEND, i, 8, 0);
	fix_run(f);
	peer_ack(f, SQ_PSN + 1, NAK(code));
	expect_cqe(f, 0, UR_WC_SUCCESS);
	expect_cqe(f, 1, status);
	expect_cqe(f, 2, UR_WC_WR_FLUSH_ERR);
	expect_cqe(f, 100, UR_WC_WR_FLUSH_ERR);
	expect_no_cqe(f);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	/* Later posts are flushed at once. */
	fix_post(f, UR_WR_SEND, 7, 8, 0);
	expect_cqe(f, 7, UR_WC_WR_FLUSH_ERR);
	fix_recv(f, 8, 0, 8);
	expect_cqe(f, 8, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(fix_sleep(f, 1000 * MS), 0);
}

static void c9_9_2_4_2_nak_invalid_request(void **state)
{
	fatal_nak(state, UR_NAK_INV_REQ, UR_WC_REM_INV_REQ_ERR);
}

static void c9_9_2_4_2_nak_remote_access(void **state)
{
	fatal_nak(state, UR_NAK_REM_ACCESS, UR_WC_REM_ACCESS_ERR);
}

static void c9_9_2_4_2_nak_remote_operation(void **state)
{
	fatal_nak(state, UR_NAK_REM_OP, UR_WC_REM_OP_ERR);
}

static void c9_7_5_2_8_rnr_waits_for_the_timer(void **state)
{
	struct fix *f = *state;
	uint64_t wait = ur_rnr_timer_ns(18);

	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_run(f);
	peer_ack(f, SQ_PSN, UR_AETH_RNR | 18);
	assert_int_equal(fix_sleep(f, wait - US), 0);
	assert_int_equal(fix_sleep(f, 10 * US), 1);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN);
	peer_ack(f, SQ_PSN, ACK);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void c9_7_5_2_8_rnr_retries_run_out(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_post(f, UR_WR_SEND, 2, 8, 0);
	fix_run(f);
	for (uint32_t i = 0; i < 2; i++) {
		peer_ack(f, SQ_PSN, UR_AETH_RNR | 12);
		expect_no_cqe(f);
		fix_sleep(f, MS);
		assert_int_equal(count_psn(f, SQ_PSN), 1);
	}
	peer_ack(f, SQ_PSN, UR_AETH_RNR | 12);
	expect_cqe(f, 1, UR_WC_RNR_RETRY_EXC_ERR);
	expect_cqe(f, 2, UR_WC_WR_FLUSH_ERR);
}

static void c9_7_5_2_8_one_wait_spends_one_rnr_retry(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_run(f);
	for (uint32_t i = 0; i < 5; i++)
		peer_ack(f, SQ_PSN, UR_AETH_RNR | 12);
	expect_no_cqe(f);
	fix_sleep(f, MS);
	assert_int_equal(count_psn(f, SQ_PSN), 1);
	peer_ack(f, SQ_PSN, ACK);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void c9_7_5_2_8_rnr_retry_7_is_for_ever(void **state)
{
	struct fix *f = *state;

	fix_free(f);
	f = *state = fix_new_reset(UR_QPT_RC, false);
	f->link.rnr_retry = 7;
	fix_connect(f);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_run(f);
	for (uint32_t i = 0; i < 100; i++) {
		peer_ack(f, SQ_PSN, UR_AETH_RNR | 1);
		assert_true(fix_sleep(f, 100 * US) >= 1);
	}
	expect_no_cqe(f);
	peer_ack(f, SQ_PSN, ACK);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void c9_7_6_1_3_retries_end_within_the_bound(void **state)
{
	struct fix *f = *state;
	uint64_t start = f->now_ns;

	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_post(f, UR_WR_SEND, 2, 8, 0);
	fix_run(f);
	/* Four attempts, each of one to four timeouts. */
	fix_sleep(f, 4 * TIMEOUT_NS * 9 / 10);
	expect_no_cqe(f);
	assert_true(count_psn(f, SQ_PSN) >= 3);
	fix_sleep(f, 16 * TIMEOUT_NS - (f->now_ns - start));
	expect_cqe(f, 1, UR_WC_RETRY_EXC_ERR);
	expect_cqe(f, 2, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(counters(f)->retry_exceeded_err, 1);
	assert_int_equal(ur_roce_deadline(f->lane.roce), UR_NEVER);
}

/* But not beyond the bound. */
static void c9_7_6_1_3_load_makes_timeouts_longer(void **state)
{
	struct fix *f = *state;
	uint64_t start = f->now_ns;

	ur_roce_set_load(f->lane.roce, 100);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_run(f);
	fix_sleep(f, 15 * TIMEOUT_NS);
	expect_no_cqe(f);
	assert_true(count_psn(f, SQ_PSN) >= 3);
	fix_sleep(f, 16 * TIMEOUT_NS - (f->now_ns - start));
	expect_cqe(f, 1, UR_WC_RETRY_EXC_ERR);
}

/* So are the shortest, which last 16 ms without load: longer than IBTA says, but no
 * longer than they have to, as a packet lost twice is repeated by them. */
static void c9_7_6_1_3_load_makes_short_timeouts_longer(void **state)
{
	struct fix *f = *state;
	const struct ur_rqp *q = ur_rqp_of(&f->qp);
	uint64_t easy[13], t;

	for (uint8_t code = 1; code <= 12; code++) {
		f->qp.attr.timeout = code;
		easy[code] = ur_rc_ack_timeout_ns(q);
		assert_true(code == 12 || easy[code] == 16 * MS);
	}
	ur_roce_set_load(f->lane.roce, 100);
	for (uint8_t code = 1; code <= 12; code++) {
		f->qp.attr.timeout = code;
		t = ur_rc_ack_timeout_ns(q);
		assert_true(t > easy[code]);
	}
}

static void c9_7_6_1_3_progress_renews_the_retries(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 5; i++)
		fix_post(f, UR_WR_SEND, i, 8, 0);
	fix_run(f);
	for (uint32_t i = 0; i < 5; i++) {
		fix_sleep(f, 3 * TIMEOUT_NS);
		expect_no_cqe(f);
		peer_ack(f, SQ_PSN + i, ACK);
		expect_cqe(f, i, UR_WC_SUCCESS);
	}
}

static void c9_7_6_1_3_timeout_zero_never_fails(void **state)
{
	struct fix *f = *state;

	fix_free(f);
	f = *state = fix_new_reset(UR_QPT_RC, false);
	f->link.timeout = 0;
	fix_connect(f);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_sleep(f, 100 * 1000 * MS);
	expect_no_cqe(f);
	peer_ack(f, SQ_PSN, ACK);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

/* A slow peer is not asked for everything again at each pause. */
static void slow_responses_are_no_loss(void **state)
{
	struct fix *f = *state;
	uint32_t again = 0;

	fix_free(f);
	f = *state = fix_new_reset(UR_QPT_RC, false);
	f->link.timeout = 20;
	fix_connect(f);
	for (uint32_t i = 0; i < 10; i++)
		fix_post(f, UR_WR_SEND, i, 8, 0);
	fix_run(f);
	for (uint32_t i = 0; i < 10; i++) {
		fix_sleep(f, 12 * MS);
		again += count_psn(f, SQ_PSN + 9);
		peer_ack(f, SQ_PSN + i, ACK);
		expect_cqe(f, i, UR_WC_SUCCESS);
	}
	assert_in_range(again, 1, 2);
}

static void c9_7_2_psn_wraps(void **state)
{
	struct fix *f = *state;

	fix_free(f);
	f = *state = fix_new_reset(UR_QPT_RC, false);
	f->link.sq_psn = UR_PSN_MASK - 1;
	fix_connect(f);
	fix_post(f, UR_WR_SEND, 1, 1000, 0);
	assert_int_equal(fix_run(f), 4);
	expect_out(f, 1, UR_RC_SEND_MIDDLE, UR_PSN_MASK);
	expect_out(f, 2, UR_RC_SEND_MIDDLE, 0);
	peer_ack(f, UR_PSN_MASK, NAK(UR_NAK_PSN_SEQ));
	assert_int_equal(fix_run(f), 3);
	expect_out(f, 0, UR_RC_SEND_MIDDLE, UR_PSN_MASK);
	peer_ack(f, 1, ACK);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

/* A second QP to the same lane, with a message of one packet to send. */
static void another_qp_sends_some(struct fix *f, struct ur_qp *qp, uint32_t len)
{
	struct ur_qp_init init = { .type = UR_QPT_RC,
				   .send_cq = &f->cq,
				   .recv_cq = &f->cq,
				   .cap = { .max_send_wr = 4,
					    .max_recv_wr = 4,
					    .max_send_sge = 1,
					    .max_recv_sge = 1 } };
	struct ur_sge sge = rig_sge(&f->local, 0, len);
	struct rig_wr wr = { .sge = &sge, .nsge = 1, .opcode = UR_WR_SEND };

	rig_qp_create(&f->lane, qp, &init);
	rig_qp_connect(&f->lane, qp, &f->link, f->now_ns);
	assert_int_equal(rig_post_send(qp, &wr), 0);
	ur_roce_kick(f->lane.roce, qp, f->now_ns);
}

static void another_qp_sends(struct fix *f, struct ur_qp *qp)
{
	another_qp_sends_some(f, qp, 100);
}

/* The window is shared: QPs that leave packets in it without an ack request
 * would all wait for each other. */
static void an_ack_is_requested_before_another_qp_sends(void **state)
{
	struct fix *f = *state;
	struct ur_qp other;

	fix_post(f, UR_WR_SEND, 1, 3 * MTU, 0);
	fix_post(f, UR_WR_SEND, 2, 32 * MTU, 0);
	fix_post(f, UR_WR_SEND, 3, 32 * MTU, 0);
	fix_post(f, UR_WR_SEND, 4, 32 * MTU, 0);
	another_qp_sends(f, &other);
	assert_int_equal(fix_run(f), 3 + 3 * 32 + 1);
	expect_out(f, UR_BURST_PKTS - 1, UR_RC_SEND_MIDDLE,
		   SQ_PSN + UR_BURST_PKTS - 1);
	assert_true(f->out[UR_BURST_PKTS - 1].h.bth.ackreq);
	rig_qp_destroy(&f->lane, &other);
}

/*
 * The window may be filled by other QPs without ack requests: when all packets
 * of the QP that filled it are acknowledged, no further acknowledgement is
 * certain.
 */
static void the_window_opens_for_the_last_answer(void **state)
{
	struct fix *f = *state;
	struct ur_qp other[125];

	for (uint32_t i = 0; i < 125; i++) {
		another_qp_sends_some(f, &other[i], 4 * MTU);
		assert_int_equal(fix_run(f), 4);
	}
	for (uint32_t i = 0; i < 12; i++)
		fix_post(f, UR_WR_SEND, i, MTU, 0);
	assert_int_equal(fix_run(f), 12);
	fix_post(f, UR_WR_SEND, 12, MTU, 0);
	assert_int_equal(fix_run(f), 0);
	peer_ack(f, SQ_PSN + 10, ACK);
	assert_int_equal(fix_run(f), 0);
	peer_ack(f, SQ_PSN + 11, ACK);
	assert_int_equal(fix_run(f), 1);
	for (uint32_t i = 0; i < 125; i++)
		rig_qp_destroy(&f->lane, &other[i]);
}

/* QPs that wait for a full window resume in order, each as far as there is
 * room, and none starves. */
static void window_waiters_resume_in_order(void **state)
{
	struct fix *f = *state;
	struct ur_qp other[6];

	/* The initial window, and one message more. */
	for (uint32_t i = 0; i < 17; i++)
		fix_post(f, UR_WR_SEND, i, 32 * MTU, 0);
	assert_int_equal(fix_run(f), 512);
	for (uint32_t i = 0; i < 6; i++)
		another_qp_sends(f, &other[i]);
	assert_int_equal(fix_run(f), 0);
	/* Each acknowledged packet makes room for two in slow start. */
	peer_ack(f, SQ_PSN + 15, ACK);
	assert_int_equal(fix_run(f), 32);
	expect_out(f, 31, UR_RC_SEND_LAST, SQ_PSN + 17 * 32 - 1);
	/* But a full window stays closed until there is room for a burst. */
	peer_ack(f, SQ_PSN + 30, ACK);
	assert_int_equal(fix_run(f), 0);
	peer_ack(f, SQ_PSN + 31, ACK);
	assert_int_equal(fix_run(f), 6);
	expect_out(f, 5, UR_RC_SEND_ONLY, SQ_PSN);
	for (uint32_t i = 0; i < 6; i++)
		rig_qp_destroy(&f->lane, &other[i]);
}

/* New QPs queue behind those that wait already. */
static void window_waiters_precede_new_senders(void **state)
{
	struct fix *f = *state;
	struct ur_qp waits, comes;

	for (uint32_t i = 0; i < 16; i++)
		fix_post(f, UR_WR_SEND, i, 32 * MTU, 0);
	fix_post(f, UR_WR_SEND, 16, 16 * MTU, 0);
	assert_int_equal(fix_run(f), 512);
	another_qp_sends(f, &waits);
	assert_int_equal(fix_run(f), 0);
	peer_ack(f, SQ_PSN + 15, ACK);
	/* Posted before anything could leave. */
	another_qp_sends_some(f, &comes, 50);
	assert_int_equal(fix_run(f), 18);
	expect_out(f, 15, UR_RC_SEND_LAST, SQ_PSN + 528 - 1);
	assert_int_equal(f->out[16].len, 100);
	assert_int_equal(f->out[17].len, 50);
	rig_qp_destroy(&f->lane, &waits);
	rig_qp_destroy(&f->lane, &comes);
}

static void a_single_sender_requests_acks_periodically(void **state)
{
	struct fix *f = *state;
	uint32_t asked = 0;

	fix_post(f, UR_WR_SEND, 1, 3 * MTU, 0);
	fix_post(f, UR_WR_SEND, 2, 32 * MTU, 0);
	fix_post(f, UR_WR_SEND, 3, 32 * MTU, 0);
	assert_int_equal(fix_run(f), 3 + 2 * 32);
	for (uint32_t i = 0; i < 3 + 2 * 32; i++)
		asked += f->out[i].h.bth.ackreq;
	assert_int_equal(asked, 1 + 2 * 2);
	assert_false(f->out[UR_BURST_PKTS - 1].h.bth.ackreq);
}

static void unsignaled_requests_complete_silently(void **state)
{
	struct fix *f = *state;
	struct ur_sge sge = rig_sge(&f->local, 0, 8);
	struct rig_wr wr = { .sge = &sge, .nsge = 1, .opcode = UR_WR_SEND };

	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(rig_post_send(&f->qp, &wr), 0);
	assert_int_not_equal(rig_post_send(&f->qp, &wr), 0);
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
	assert_int_equal(fix_run(f), 64);
	peer_ack(f, SQ_PSN + 63, ACK);
	expect_no_cqe(f);
	assert_int_equal(rig_post_send(&f->qp, &wr), 0);
}

static void local_protection_error_waits_its_turn(void **state)
{
	struct fix *f = *state;
	struct ur_sge sge = rig_sge(&f->local, 0, 8);
	struct rig_wr wr = {
		.wr_id = 2, .sge = &sge, .nsge = 1, .opcode = UR_WR_SEND
	};

	fix_post(f, UR_WR_SEND, 1, 8, 0);
	sge.lkey ^= 0x100;
	assert_int_equal(rig_post_send(&f->qp, &wr), 0);
	fix_post(f, UR_WR_SEND, 3, 8, 0);
	assert_int_equal(fix_run(f), 1);
	expect_no_cqe(f);
	peer_ack(f, SQ_PSN, ACK);
	fix_run(f);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	expect_cqe(f, 2, UR_WC_LOC_PROT_ERR);
	expect_cqe(f, 3, UR_WC_WR_FLUSH_ERR);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rc_setup, fix_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(c9_7_4_message_in_packets),
		T(c9_7_4_write_header_names_the_whole_message),
		T(c9_7_5_1_1_ack_completes_all_before_it),
		T(c9_7_5_2_ghost_acks_are_dropped),
		T(c9_7_4_read_request_and_responses),
		cmocka_unit_test_setup_teardown(read_in_requests_of_512_kib,
						rc_setup_roomy, fix_teardown),
		T(read_in_requests_of_a_small_buffer),
		T(c9_7_5_1_1_an_ack_does_not_complete_a_read),
		T(c9_7_4_read_response_of_wrong_length),
		T(responses_never_asked_for),
		T(c9_4_5_atomics),
		T(c9_7_6_no_more_reads_than_agreed),
		T(c10_8_3_3_fence_waits_for_reads),
		T(c9_7_5_1_2_sequence_nak_goes_back),
		T(c9_9_2_4_2_nak_invalid_request),
		T(c9_9_2_4_2_nak_remote_access),
		T(c9_9_2_4_2_nak_remote_operation),
		T(c9_7_5_2_8_rnr_waits_for_the_timer),
		T(c9_7_5_2_8_rnr_retries_run_out),
		T(c9_7_5_2_8_one_wait_spends_one_rnr_retry),
		T(c9_7_5_2_8_rnr_retry_7_is_for_ever),
		T(c9_7_6_1_3_retries_end_within_the_bound),
		T(c9_7_6_1_3_load_makes_timeouts_longer),
		T(c9_7_6_1_3_load_makes_short_timeouts_longer),
		T(c9_7_6_1_3_progress_renews_the_retries),
		T(c9_7_6_1_3_timeout_zero_never_fails),
		T(slow_responses_are_no_loss),
		T(c9_7_2_psn_wraps),
		T(an_ack_is_requested_before_another_qp_sends),
		T(the_window_opens_for_the_last_answer),
		T(window_waiters_resume_in_order),
		T(window_waiters_precede_new_senders),
		T(a_single_sender_requests_acks_periodically),
		T(unsignaled_requests_complete_silently),
		T(local_protection_error_waits_its_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
