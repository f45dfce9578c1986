/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching on an RC queue pair: eager messages, rendezvous, malformed ones.
 */
#include "core/tm.h"
#include "roce/fixture.h"

#define TMH 16u
#define RVH 32u /* with the header before it */

static int setup(void **state)
{
	*state = fix_new_tm();
	return 0;
}

static void put_be(uint8_t *p, uint64_t v, uint32_t n)
{
	while (n--) {
		p[n] = (uint8_t)v;
		v >>= 8;
	}
}

/* The peer's next message begins with that header. */
static void header(struct fix *f, uint8_t op, uint64_t tag)
{
	memset(f->data, 0, TMH);
	f->data[0] = op;
	put_be(f->data + 4, 0xa1b2c3d4, 4);
	put_be(f->data + 8, tag, 8);
}

static void rendezvous(struct fix *f, uint64_t tag, uint32_t len)
{
	header(f, 1, tag);
	put_be(f->data + 16, 0x7f0000001000, 8);
	put_be(f->data + 24, 0x4242, 4);
	put_be(f->data + 28, len, 4);
}

static void add(struct fix *f, uint64_t tag, uint64_t wr_id, uint32_t off,
		uint32_t len)
{
	struct ur_tm_wr wr = { .op = UR_TM_ADD,
			       .recv_wr_id = wr_id,
			       .tag = tag,
			       .mask = 0xffff,
			       .sge = rig_sge(&f->local, off, len) };

	assert_int_equal(ur_tm_post(&f->srq, &wr, f->now_ns), 0);
}

static struct ur_cqe expect_tm(struct fix *f, uint64_t wr_id, uint8_t opcode,
			       uint8_t flags)
{
	struct ur_cqe c = expect_cqe(f, wr_id, UR_WC_SUCCESS);

	assert_int_equal(c.opcode, opcode);
	assert_int_equal(c.flags, flags);
	return c;
}

#define EAGER_FLAGS (UR_WC_TM_MATCH | UR_WC_TM_DATA_VALID)

static void an_eager_message_goes_to_its_tag(void **state)
{
	struct fix *f = *state;
	struct ur_cqe c;

	add(f, 5, 50, 0, 64);
	add(f, 6, 60, 100, 64);
	header(f, 3, 6);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, TMH + 20);
	c = expect_tm(f, 60, UR_WC_TM_RECV, EAGER_FLAGS);
	assert_int_equal(c.byte_len, 20);
	assert_int_equal(c.tm_tag, 6);
	assert_int_equal(c.tm_priv, 0xa1b2c3d4);
	assert_memory_equal(f->local.p + 100, f->data + TMH, 20);
	assert_int_equal(f->local.p[120], 0);
	expect_no_cqe(f);
}

static void an_eager_message_of_many_packets(void **state)
{
	struct fix *f = *state;
	struct ur_cqe c;

	add(f, 5, 50, 0, 1000);
	header(f, 3, 5);
	peer_plain(f, UR_RC_SEND_FIRST, RQ_PSN, MTU);
	peer_plain(f, UR_RC_SEND_MIDDLE, RQ_PSN + 1, MTU);
	peer_plain(f, UR_RC_SEND_LAST_IMM, RQ_PSN + 2, 10);
	c = expect_tm(f, 50, UR_WC_TM_RECV, EAGER_FLAGS | UR_WC_WITH_IMM);
	assert_int_equal(c.byte_len, 2 * MTU + 10 - TMH);
	assert_memory_equal(f->local.p, f->data + TMH, MTU - TMH);
	assert_memory_equal(f->local.p + MTU - TMH, f->data, MTU);
	assert_memory_equal(f->local.p + 2 * MTU - TMH, f->data, 10);
}

static void an_eager_message_without_data(void **state)
{
	struct fix *f = *state;

	add(f, 5, 50, 0, 0);
	header(f, 3, 5);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, TMH);
	assert_int_equal(expect_tm(f, 50, UR_WC_TM_RECV, EAGER_FLAGS).byte_len,
			 0);
}

static void one_longer_than_its_buffer(void **state)
{
	struct fix *f = *state;

	add(f, 5, 50, 0, 19);
	header(f, 3, 5);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, TMH + 20);
	expect_cqe(f, 50, UR_WC_LOC_LEN_ERR);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
}

static void an_unexpected_message_comes_whole(void **state)
{
	struct fix *f = *state;
	struct ur_cqe c;

	add(f, 5, 50, 100, 64);
	header(f, 3, 6);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, TMH + 20);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, UR_AETH_RNR | 12);
	fix_recv(f, 7, 0, 64);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, TMH + 20);
	c = expect_tm(f, 7, UR_WC_TM_RECV, 0);
	assert_int_equal(c.byte_len, TMH + 20);
	assert_int_equal(c.tm_tag, 0);
	assert_memory_equal(f->local.p, f->data, TMH + 20);
	assert_int_equal(f->srq.tm->unexpected, 1);
}

/* Opcode NO_TAG, FIN, an invalid one, and messages too short for a header. */
static void messages_without_a_tag(void **state)
{
	static const uint8_t ops[] = { 0, 2, 4, 255 };
	struct fix *f = *state;

	add(f, 5, 50, 100, 64);
	for (uint32_t i = 0; i < 5; i++)
		fix_recv(f, i, 0, 64);
	for (uint32_t i = 0; i < 4; i++) {
		header(f, ops[i], 5);
		peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN + i, 40);
		expect_tm(f, i, UR_WC_TM_NO_TAG, 0);
	}
	header(f, 3, 5);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN + 4, TMH - 1);
	expect_tm(f, 4, UR_WC_TM_NO_TAG, 0);
	assert_int_equal(f->srq.tm->unexpected, 0);
}

static void writes_with_immediate_take_receives(void **state)
{
	struct fix *f = *state;

	add(f, 5, 50, 100, 64);
	fix_recv(f, 7, 0, 64);
	peer_write(f, UR_RC_WRITE_ONLY_IMM, RQ_PSN, 8, 8);
	expect_tm(f, 7, UR_WC_RECV_RDMA_WITH_IMM, UR_WC_WITH_IMM);
}

/* A rendezvous: the READ, its data, the message that informs the sender. */
static void a_rendezvous_reads(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_READ_RESP_ONLY, SQ_PSN);
	uint8_t fin[RVH];
	struct ur_cqe c;

	add(f, 5, 50, 100, 200);
	rendezvous(f, 5, 200);
	memcpy(fin, f->data, RVH);
	fin[0] = 2;
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 64);
	c = expect_tm(f, 50, UR_WC_TM_RECV, UR_WC_TM_MATCH);
	assert_int_equal(c.tm_tag, 5);
	assert_int_equal(fix_run(f), 2);
	expect_out(f, 0, UR_RC_READ_REQUEST, SQ_PSN);
	assert_int_equal(f->out[0].h.va, 0x7f0000001000);
	assert_int_equal(f->out[0].h.rkey, 0x4242);
	assert_int_equal(f->out[0].h.dma_len, 200);
	expect_out(f, 1, UR_RC_ACK, RQ_PSN);
	memset(f->data, 0x77, 200);
	peer_send(f, &h, 200);
	c = expect_tm(f, 50, UR_WC_TM_RECV, UR_WC_TM_DATA_VALID);
	assert_int_equal(c.byte_len, 200);
	assert_memory_equal(f->local.p + 100, f->data, 200);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN + 1);
	assert_int_equal(f->out[0].len, RVH);
	assert_memory_equal(f->out[0].payload, fin, RVH);
	peer_ack(f, SQ_PSN + 1, UR_AETH_CREDITS_INVALID);
	expect_no_cqe(f); /* the application posted no send */
	assert_int_equal(f->qp.sq.own, 0);
}

/* Internal requests use no slots of the application. */
static void the_send_queue_is_the_applications(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 20; i++) {
		add(f, 5, 50 + i, 100, 8);
		rendezvous(f, 5, 8);
		peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN + i, RVH);
		expect_tm(f, 50 + i, UR_WC_TM_RECV, UR_WC_TM_MATCH);
	}
	assert_int_equal(f->qp.sq.own, 32); /* the others wait */
	for (uint32_t i = 0; i < 64; i++)
		fix_post(f, UR_WR_SEND, 500 + i, 8, 0);
	for (uint32_t i = 0; i < 16; i++) {
		struct ur_hdr h =
			peer_hdr(f, UR_RC_READ_RESP_ONLY, SQ_PSN + 2 * i);

		fix_run(f);
		peer_send(f, &h, 8);
		expect_tm(f, 50 + i, UR_WC_TM_RECV, UR_WC_TM_DATA_VALID);
		fix_run(f);
		peer_ack(f, SQ_PSN + 2 * i + 1, UR_AETH_CREDITS_INVALID);
	}
	fix_run(f);
	peer_ack(f, SQ_PSN + 32 + 63, UR_AETH_CREDITS_INVALID);
	for (uint32_t i = 0; i < 64; i++)
		expect_cqe(f, 500 + i, UR_WC_SUCCESS);
	assert_int_equal(f->qp.sq.own, 8); /* now those that waited */
}

static void a_rendezvous_that_does_not_fit(void **state)
{
	struct fix *f = *state;
	struct ur_cqe c;

	add(f, 5, 50, 100, 199);
	rendezvous(f, 5, 200);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, RVH);
	c = expect_cqe(f, 50, UR_WC_TM_RNDV_INCOMPLETE);
	assert_int_equal(c.tm_tag, 5);
	assert_int_equal(f->qp.sq.own, 0);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
}

static void a_rendezvous_of_many_packets_is_unexpected(void **state)
{
	struct fix *f = *state;

	add(f, 5, 50, 100, 200);
	fix_recv(f, 7, 0, 600);
	rendezvous(f, 5, 200);
	peer_plain(f, UR_RC_SEND_FIRST, RQ_PSN, MTU);
	peer_plain(f, UR_RC_SEND_LAST, RQ_PSN + 1, 8);
	assert_int_equal(expect_tm(f, 7, UR_WC_TM_RECV, 0).byte_len, MTU + 8);
}

static void a_half_header_is_no_tag(void **state)
{
	struct fix *f = *state;

	add(f, 5, 50, 100, 200);
	fix_recv(f, 7, 0, 600);
	rendezvous(f, 5, 200);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, RVH - 1);
	expect_tm(f, 7, UR_WC_TM_NO_TAG, 0);
}

static void a_read_that_is_refused(void **state)
{
	struct fix *f = *state;

	add(f, 5, 50, 100, 200);
	add(f, 5, 51, 100, 200);
	rendezvous(f, 5, 200);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, RVH);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN + 1, RVH);
	expect_tm(f, 50, UR_WC_TM_RECV, UR_WC_TM_MATCH);
	expect_tm(f, 51, UR_WC_TM_RECV, UR_WC_TM_MATCH);
	fix_run(f);
	peer_ack(f, SQ_PSN, UR_AETH_NAK | UR_NAK_REM_ACCESS);
	expect_cqe(f, 50, UR_WC_REM_ACCESS_ERR);
	expect_cqe(f, 51, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	assert_int_equal(f->qp.sq.own, 0);
}

/* RESET releases all, and matched tags can be added again. */
static void a_reset_in_the_middle(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 20; i++) {
		add(f, 5, 50, 100, 200);
		rendezvous(f, 5, 200);
		peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN + i, RVH);
		expect_tm(f, 50, UR_WC_TM_RECV, UR_WC_TM_MATCH);
	}
	assert_int_equal(
		rig_qp_state(&f->lane, &f->qp, UR_QPS_RESET, f->now_ns), 0);
	expect_no_cqe(f);
	assert_int_equal(f->qp.sq.own, 0);
	fix_connect(f);
	fix_post(f, UR_WR_SEND, 9, 8, 0);
	assert_int_equal(fix_run(f), 1);
	peer_ack(f, SQ_PSN, UR_AETH_CREDITS_INVALID);
	expect_cqe(f, 9, UR_WC_SUCCESS);
	for (uint32_t i = 0; i < FIX_TAGS; i++)
		add(f, i, 50, 100, 200);
}

/* A poster holds the queue: the READ waits for it, and is not lost. */
static void a_rendezvous_waits_for_a_poster(void **state)
{
	struct fix *f = *state;

	add(f, 5, 50, 100, 200);
	rendezvous(f, 5, 200);
	ur_latch_lock(&f->qp.sq.lock);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, RVH);
	assert_int_equal(fix_run(f), 1); /* the acknowledgement */
	ur_latch_unlock(&f->qp.sq.lock);
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_READ_REQUEST, SQ_PSN);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_eager_message_goes_to_its_tag),
		TEST(an_eager_message_of_many_packets),
		TEST(an_eager_message_without_data),
		TEST(one_longer_than_its_buffer),
		TEST(an_unexpected_message_comes_whole),
		TEST(messages_without_a_tag),
		TEST(writes_with_immediate_take_receives),
		TEST(a_rendezvous_reads),
		TEST(the_send_queue_is_the_applications),
		TEST(a_rendezvous_that_does_not_fit),
		TEST(a_rendezvous_of_many_packets_is_unexpected),
		TEST(a_half_header_is_no_tag),
		TEST(a_read_that_is_refused),
		TEST(a_reset_in_the_middle),
		TEST(a_rendezvous_waits_for_a_poster),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
