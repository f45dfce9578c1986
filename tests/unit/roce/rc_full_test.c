/* SPDX-License-Identifier: BSD-2-Clause */
/* Between urnics a packet fills the interface's MTU (roce/rc_full.c). */
#include "base/bytes.h"
#include "roce/fixture.h"

#define ACK	      (UR_AETH_ACK | UR_AETH_CREDITS_INVALID)
#define NAK(code)     (uint8_t)(UR_AETH_NAK | (code))
#define INTERFACE_MTU 500u
/* 500 bytes, less IP and UDP, 28, BTH, RETH and immediate data, 32, and ICRC. */
#define FULL	      436u
#define PADDING	      12u

static int full_setup(void **state)
{
	struct fix *f = fix_new_reset(UR_QPT_RC, false);

	f->link.interface_mtu = INTERFACE_MTU;
	fix_connect(f);
	*state = f;
	return 0;
}

static void urnic_send(struct fix *f, struct ur_hdr *h, uint32_t len)
{
	h->bth.urnic = true;
	peer_send(f, h, len);
}

static void urnic_ack(struct fix *f, uint32_t psn)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_ACK, psn);

	h.syndrome = ACK;
	urnic_send(f, &h, 0);
}

/* A probe or answer of the peer. */
static void urnic_size(struct fix *f, enum ur_full_kind kind, uint32_t psn,
		       uint16_t size, uint32_t len)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_ACK, psn);

	h.bth.full = true;
	h.full_kind = (uint8_t)kind;
	h.full_size = size;
	urnic_send(f, &h, len);
}

/* A SEND of one packet; its acknowledgement says that the peer is a urnic. */
static void meet(struct fix *f)
{
	fix_post(f, UR_WR_SEND, 100, 8, 0);
	assert_int_equal(fix_run(f), 1);
	urnic_ack(f, SQ_PSN);
	expect_cqe(f, 100, UR_WC_SUCCESS);
}

static void expect_probe(const struct fix *f, uint32_t i, uint32_t psn)
{
	const struct out *o = &f->out[i];

	expect_out(f, i, UR_RC_ACK, psn);
	assert_true(o->h.bth.full);
	assert_int_equal(o->h.full_kind, UR_FULL_PROBE);
	assert_int_equal(o->h.full_size, FULL);
	assert_int_equal(o->len, FULL + PADDING);
}

/* A SEND of 600 bytes, in packets of the path MTU, with a probe before it. */
static void agree(struct fix *f)
{
	meet(f);
	fix_post(f, UR_WR_SEND, 101, 600, 0);
	assert_int_equal(fix_run(f), 4);
	expect_probe(f, 0, SQ_PSN + 1);
	urnic_size(f, UR_FULL_ANSWER, SQ_PSN + 1, FULL, FULL + PADDING);
}

static void expect_packet(const struct fix *f, uint32_t i, uint8_t opcode,
			  uint32_t psn, uint32_t len, bool full)
{
	expect_out(f, i, opcode, psn);
	assert_int_equal(f->out[i].len, len);
	assert_int_equal(f->out[i].h.bth.full, full);
}

static void a_message_after_the_answer_is_full(void **state)
{
	struct fix *f = *state;

	agree(f);
	expect_packet(f, 1, UR_RC_SEND_FIRST, SQ_PSN + 1, 256, false);
	expect_packet(f, 3, UR_RC_SEND_LAST, SQ_PSN + 3, 88, false);
	fix_post(f, UR_WR_SEND, 1, 1000, 0);
	fix_post(f, UR_WR_SEND, 2, FULL, 0);
	fix_post(f, UR_WR_SEND, 3, 256, 0);
	assert_int_equal(fix_run(f), 5);
	expect_packet(f, 0, UR_RC_SEND_FIRST, SQ_PSN + 4, 333, true);
	expect_packet(f, 1, UR_RC_SEND_MIDDLE, SQ_PSN + 5, 333, true);
	expect_packet(f, 2, UR_RC_SEND_LAST, SQ_PSN + 6, 334, true);
	expect_packet(f, 3, UR_RC_SEND_ONLY, SQ_PSN + 7, FULL, true);
	expect_packet(f, 4, UR_RC_SEND_ONLY, SQ_PSN + 8, 256, false);
	urnic_ack(f, SQ_PSN + 8);
	expect_cqe(f, 101, UR_WC_SUCCESS);
	for (uint32_t i = 1; i <= 3; i++)
		expect_cqe(f, i, UR_WC_SUCCESS);
	assert_false(ur_roce_is_under_way(&f->qp));
}

/* From three pieces of odd lengths that follow each other. */
static void post_pieces(struct fix *f, uint8_t opcode, uint32_t len)
{
	struct ur_sge sge[] = {
		rig_sge(&f->local, 0, 133),
		rig_sge(&f->local, 133, 401),
		rig_sge(&f->local, 534, len - 534),
	};
	struct rig_wr wr = { .sge = sge,
			     .nsge = 3,
			     .remote_addr = 0x10000,
			     .rkey = 0x4242,
			     .opcode = opcode };

	assert_int_equal(rig_post_send(&f->qp, &wr), 0);
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
}

/*
 * Messages that consist of packets of one length leave in one burst: FIRST of a WRITE has
 * as much less payload as its RETH takes, LAST with immediate data 4 bytes less.
 * 404 and 405 bytes cannot be padded to one length.
 */
static void packets_of_messages_are_equal(void **state)
{
	static const struct {
		uint8_t op;
		uint32_t len, part[3];
	} m[] = {
		{ UR_WR_RDMA_WRITE, 1200, { 389, 405, 406 } },
		{ UR_WR_RDMA_WRITE, 1208, { 392, 408, 408 } },
		{ UR_WR_RDMA_WRITE_IMM, 1199, { 390, 406, 403 } },
		{ UR_WR_SEND, 1218, { 406, 406, 406 } },
		{ UR_WR_SEND_IMM, 1213, { 405, 406, 402 } },
		{ UR_WR_SEND, 1213, { FULL, FULL, 341 } },
	};
	static struct ur_burst t;
	uint32_t n = sizeof(m) / sizeof(m[0]), off;
	struct fix *f = *state;
	const uint32_t *part;

	for (uint32_t i = 0; i < 2000; i++)
		f->local.p[i] = (uint8_t)(i % 251);
	agree(f);
	urnic_ack(f, SQ_PSN + 3);
	expect_cqe(f, 101, UR_WC_SUCCESS);
	for (uint32_t i = 0; i < n; i++)
		post_pieces(f, m[i].op, m[i].len);
	assert_true(ur_roce_output(f->lane.roce, &t, f->now_ns));
	assert_int_equal(t.npkts, 3 * (n - 1));
	assert_int_equal(t.bytes, t.npkts * t.pkt_len);
	fix_run(f);
	fix_sleep(f, 250 * MS);
	assert_true(f->nout >= 3 * n);
	for (uint32_t i = 0; i < f->nout; i++) {
		uint32_t at = f->out[i].h.bth.psn - SQ_PSN - 4;

		assert_true(at < 3 * n);
		part = m[at / 3].part;
		assert_int_equal(f->out[i].len, part[at % 3]);
		off = (at % 3 > 0 ? part[0] : 0) + (at % 3 > 1 ? part[1] : 0);
		assert_memory_equal(f->out[i].payload, f->local.p + off,
				    f->out[i].len);
	}
}

static void others_get_no_probe(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_run(f);
	peer_ack(f, SQ_PSN, ACK);
	fix_post(f, UR_WR_SEND, 2, 1000, 0);
	assert_int_equal(fix_run(f), 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(f->out[i].h.op->kind, UR_OP_SEND);
		assert_false(f->out[i].h.bth.full);
	}
	/* Nor an answer. */
	urnic_size(f, UR_FULL_PROBE, RQ_PSN, FULL, FULL + PADDING);
	assert_int_equal(fix_run(f), 0);
}

/* Nor does a urnic, if our interface has no room. */
static void no_probe_without_room(void **state)
{
	struct fix *f = *state;

	f->link.interface_mtu = MTU + 28 + 36;
	assert_int_equal(
		rig_qp_state(&f->lane, &f->qp, UR_QPS_RESET, f->now_ns), 0);
	fix_connect(f);
	meet(f);
	fix_post(f, UR_WR_SEND, 1, 1000, 0);
	assert_int_equal(fix_run(f), 4);
	urnic_size(f, UR_FULL_PROBE, RQ_PSN, FULL, FULL + PADDING);
	assert_int_equal(fix_run(f), 0);
}

static void a_lost_probe_is_repeated_twice(void **state)
{
	struct fix *f = *state;
	uint32_t psn = SQ_PSN + 1;

	meet(f);
	for (uint32_t i = 0; i < 6; i++) {
		fix_post(f, UR_WR_SEND, i, 512, 0);
		assert_int_equal(fix_run(f),
				 i == 0 || i == 2 || i == 4 ? 3 : 2);
		if (i % 2 == 0)
			expect_probe(f, 0, psn);
		else
			f->now_ns += 100 * MS;
		psn += 2;
		urnic_ack(f, psn - 1);
		expect_cqe(f, i, UR_WC_SUCCESS);
	}
	f->now_ns += 1000 * MS;
	fix_post(f, UR_WR_SEND, 9, 512, 0);
	assert_int_equal(fix_run(f), 2);
}

/* An answer counts if it is one for the last probe, and is as long as it says. */
static void wrong_answers_change_nothing(void **state)
{
	static const struct {
		uint8_t kind;
		uint16_t size;
		uint32_t ahead;
		int32_t more;
	} wrong[] = {
		{ UR_FULL_ANSWER, FULL, 1, 0 },
		{ UR_FULL_ANSWER, FULL, UR_PSN_MASK, 0 },
		{ UR_FULL_ANSWER, FULL, 0, -4 },
		{ UR_FULL_ANSWER, FULL, 0, 4 },
		{ UR_FULL_ANSWER, FULL + 4, 0, 0 },
		{ UR_FULL_ANSWER, FULL - 2, 0, 0 },
		{ UR_FULL_ANSWER, MTU, 0, 0 },
		{ UR_FULL_ANSWER, 4, 0, 0 },
		{ UR_FULL_ANSWER, 0, 0, 0 },
		{ UR_FULL_READ, FULL, 0, 0 },
		{ 3, FULL, 0, 0 },
	};
	struct fix *f = *state;

	meet(f);
	urnic_size(f, UR_FULL_ANSWER, 0, FULL, FULL + PADDING);
	fix_post(f, UR_WR_SEND, 1, 600, 0);
	assert_int_equal(fix_run(f), 4);
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		urnic_size(f, (enum ur_full_kind)wrong[i].kind,
			   ur_psn_add(SQ_PSN + 1, wrong[i].ahead),
			   wrong[i].size,
			   (uint32_t)((int32_t)(wrong[i].size + PADDING) +
				      wrong[i].more));
	/* And none acknowledges anything. */
	expect_no_cqe(f);
	fix_post(f, UR_WR_SEND, 2, 600, 0);
	assert_int_equal(fix_run(f), 3);
	assert_false(f->out[0].h.bth.full);
	/* A smaller size than we offered is one. */
	urnic_size(f, UR_FULL_ANSWER, SQ_PSN + 1, 300, 300 + PADDING);
	fix_post(f, UR_WR_SEND, 3, 600, 0);
	assert_int_equal(fix_run(f), 2);
	expect_packet(f, 0, UR_RC_SEND_FIRST, SQ_PSN + 7, 300, true);
	/* It stays, whatever else comes. */
	urnic_size(f, UR_FULL_ANSWER, SQ_PSN + 1, FULL, FULL + PADDING);
	fix_post(f, UR_WR_SEND, 4, 600, 0);
	assert_int_equal(fix_run(f), 2);
	expect_packet(f, 0, UR_RC_SEND_FIRST, SQ_PSN + 9, 300, true);
}

static void a_probe_is_answered(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	h.bth.ackreq = false;
	h.dma_len = 8;
	urnic_send(f, &h, 8);
	fix_sleep(f, 1 * MS);
	/* With what both have room for, and never more than it brought. */
	urnic_size(f, UR_FULL_PROBE, RQ_PSN + 1, 300, 300 + PADDING);
	urnic_size(f, UR_FULL_PROBE, RQ_PSN + 1, 8936, 300 + PADDING);
	urnic_size(f, UR_FULL_PROBE, RQ_PSN + 1, MTU, MTU + PADDING);
	urnic_size(f, UR_FULL_PROBE, RQ_PSN - 40000, 300, 300 + PADDING);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_ACK, RQ_PSN + 1);
	assert_true(f->out[0].h.bth.full);
	assert_int_equal(f->out[0].h.full_kind, UR_FULL_ANSWER);
	assert_int_equal(f->out[0].h.full_size, 300);
	assert_int_equal(f->out[0].len, 300 + PADDING);
	urnic_size(f, UR_FULL_PROBE, RQ_PSN + 1, 1436, 1436 + PADDING);
	assert_int_equal(fix_run(f), 1);
	assert_int_equal(f->out[0].h.full_size, FULL);
	assert_int_equal(f->out[0].len, FULL + PADDING);
}

static void answers_are_bounded(void **state)
{
	struct fix *f = *state;
	uint32_t n = 0;

	for (uint32_t i = 0; i < 100; i++) {
		urnic_size(f, UR_FULL_PROBE, RQ_PSN, FULL, FULL + PADDING);
		n += fix_run(f);
	}
	assert_int_equal(n, 8);
}

/* An answer to the peer's probe leaves although an acknowledgement that waits
 * on the queue pair could be piggybacked. */
static void an_answer_precedes_a_piggyback(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	meet(f);
	h.bth.ackreq = false;
	h.dma_len = 8;
	urnic_send(f, &h, 8);
	urnic_size(f, UR_FULL_PROBE, RQ_PSN + 1, FULL, FULL + PADDING);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_sleep(f, 100 * US);
	assert_int_equal(f->nout, 3);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN + 1);
	assert_false(f->out[0].h.bth.has_ack);
	assert_int_equal(f->out[1].h.full_kind, UR_FULL_ANSWER);
	expect_aeth(f, 2, RQ_PSN, ACK);
}

/* The peer waits for psn and has `count` PSNs after `gap` missing ones. */
static void urnic_range(struct fix *f, uint32_t psn, uint16_t gap,
			uint16_t count)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_ACK, psn);
	uint8_t data[8] = { 0, 0, 0, 1 };

	h.bth.urnic = true;
	h.bth.selective = true;
	h.syndrome = NAK(UR_NAK_PSN_SEQ);
	ur_put_be16(data + 4, gap);
	ur_put_be16(data + 6, count);
	rig_pkt_build(&f->pkt, &h, data, sizeof(data));
	rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
}

/* Messages of both sizes are in flight; what is lost is sent again as it was. */
static void lost_packets_keep_their_size(void **state)
{
	struct fix *f = *state;

	agree(f);
	fix_post(f, UR_WR_SEND, 102, 1000, 0);
	fix_run(f);
	/* Of the first SEND the last packet is lost, of the second the first. */
	urnic_range(f, SQ_PSN + 3, 2, 2);
	assert_int_equal(fix_run(f), 2);
	expect_packet(f, 0, UR_RC_SEND_LAST, SQ_PSN + 3, 88, false);
	expect_packet(f, 1, UR_RC_SEND_FIRST, SQ_PSN + 4, 333, true);
	assert_true(f->out[1].h.bth.selective);
	/* Everything again. */
	fix_sleep(f, 250 * MS);
	assert_true(f->nout > 6);
	for (uint32_t i = 0; i < f->nout; i++) {
		uint32_t at = f->out[i].h.bth.psn - SQ_PSN;
		static const uint32_t len[] = {
			0, 256, 256, 88, 333, 333, 334
		};

		assert_true(at >= 3 && at <= 6);
		assert_int_equal(f->out[i].len, len[at]);
		assert_int_equal(f->out[i].h.bth.full, at > 3);
	}
	urnic_ack(f, SQ_PSN + 6);
	expect_cqe(f, 101, UR_WC_SUCCESS);
	expect_cqe(f, 102, UR_WC_SUCCESS);
	assert_false(ur_roce_is_under_way(&f->qp));
}

static void urnic_response(struct fix *f, uint8_t opcode, uint32_t psn,
			   uint32_t off, uint32_t len)
{
	struct ur_hdr h = peer_hdr(f, opcode, psn);

	h.bth.urnic = true;
	h.syndrome = ACK;
	rig_pkt_build(&f->pkt, &h, f->data + off, len);
	rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
}

static void a_read_says_the_size_of_its_responses(void **state)
{
	struct fix *f = *state;

	agree(f);
	urnic_ack(f, SQ_PSN + 3);
	expect_cqe(f, 101, UR_WC_SUCCESS);
	fix_post(f, UR_WR_RDMA_READ, 1, 1600, 0);
	assert_int_equal(fix_run(f), 1);
	expect_packet(f, 0, UR_RC_READ_REQUEST, SQ_PSN + 4, 0, true);
	assert_int_equal(f->out[0].h.full_kind, UR_FULL_READ);
	assert_int_equal(f->out[0].h.full_size, FULL);
	assert_int_equal(f->out[0].h.dma_len, 1600);
	/* The second response is lost; it is requested again. */
	urnic_response(f, UR_RC_READ_RESP_FIRST, SQ_PSN + 4, 0, FULL);
	urnic_response(f, UR_RC_READ_RESP_MIDDLE, SQ_PSN + 6, 2 * FULL, FULL);
	urnic_response(f, UR_RC_READ_RESP_LAST, SQ_PSN + 7, 3 * FULL, 292);
	assert_int_equal(fix_run(f), 1);
	expect_packet(f, 0, UR_RC_READ_REQUEST, SQ_PSN + 5, 0, true);
	assert_int_equal(f->out[0].h.full_size, FULL);
	assert_int_equal(f->out[0].h.dma_len, FULL);
	assert_int_equal(f->out[0].h.va, 0x10000 + FULL);
	urnic_response(f, UR_RC_READ_RESP_ONLY, SQ_PSN + 5, FULL, FULL);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_memory_equal(f->local.p, f->data, 1600);
	/* A response of another size. */
	fix_post(f, UR_WR_RDMA_READ, 2, 1600, 0);
	fix_run(f);
	urnic_response(f, UR_RC_READ_RESP_FIRST, SQ_PSN + 8, 0, MTU);
	expect_cqe(f, 2, UR_WC_BAD_RESP_ERR);
}

static void urnic_read(struct fix *f, uint32_t psn, uint32_t off, uint32_t len,
		       uint16_t size, bool selective)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_READ_REQUEST, psn);

	h.va += off;
	h.dma_len = len;
	h.bth.full = true;
	h.full_size = size;
	h.bth.selective = selective;
	urnic_send(f, &h, 0);
}

static void a_read_is_answered_in_its_size(void **state)
{
	struct fix *f = *state;

	memcpy(f->remote.p, f->data, 1600);
	urnic_read(f, RQ_PSN, 0, 1600, 400, false);
	assert_int_equal(fix_run(f), 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(f->out[i].h.bth.psn, RQ_PSN + i);
		assert_int_equal(f->out[i].len, 400);
		assert_memory_equal(f->out[i].payload, f->data + i * 400, 400);
	}
	/* A part of it; then all again; another size is not what was asked. */
	urnic_read(f, RQ_PSN + 2, 800, 400, 400, true);
	assert_int_equal(fix_run(f), 1);
	expect_packet(f, 0, UR_RC_READ_RESP_ONLY, RQ_PSN + 2, 400, false);
	assert_memory_equal(f->out[0].payload, f->data + 800, 400);
	urnic_read(f, RQ_PSN + 2, 800, 400, 300, true);
	urnic_read(f, RQ_PSN, 0, 1600, 300, false);
	assert_int_equal(fix_run(f), 0);
	urnic_read(f, RQ_PSN, 0, 1600, 400, false);
	assert_int_equal(fix_run(f), 4);
	/* The next one is not full: both sizes in one connection. */
	urnic_read(f, RQ_PSN + 4, 0, 512, MTU, false);
	assert_int_equal(fix_run(f), 2);
	assert_int_equal(f->out[1].h.bth.psn, RQ_PSN + 5);
}

static void refused_read_size(void **state)
{
	static const uint16_t wrong[] = { 0, 1, MTU - 4, FULL + 4, 65535 };

	(void)state;
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct fix *f;
		void *own;

		full_setup(&own);
		f = own;
		urnic_read(f, RQ_PSN, 0, 1600, wrong[i], false);
		assert_int_equal(fix_run(f), 1);
		expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_INV_REQ));
		fix_free(f);
	}
}

static void full_packet(struct fix *f, uint8_t opcode, uint32_t psn,
			uint32_t len, uint32_t total)
{
	struct ur_hdr h = peer_hdr(f, opcode, psn);

	h.bth.full = true;
	h.dma_len = total;
	urnic_send(f, &h, len);
}

/* The responder needs no agreement: each packet's length says where it ends. */
static void full_requests_are_placed(void **state)
{
	struct fix *f = *state;

	full_packet(f, UR_RC_WRITE_FIRST, RQ_PSN, FULL, 1100);
	full_packet(f, UR_RC_WRITE_MIDDLE, RQ_PSN + 1, FULL, 0);
	/* A duplicate. */
	full_packet(f, UR_RC_WRITE_MIDDLE, RQ_PSN + 1, FULL, 0);
	full_packet(f, UR_RC_WRITE_LAST, RQ_PSN + 2, 228, 0);
	assert_memory_equal(f->remote.p, f->data, FULL);
	assert_memory_equal(f->remote.p + FULL, f->data, FULL);
	assert_memory_equal(f->remote.p + 2 * FULL, f->data, 228);
	fix_recv(f, 1, 0, 1000);
	full_packet(f, UR_RC_SEND_FIRST, RQ_PSN + 3, 300, 0);
	full_packet(f, UR_RC_SEND_LAST, RQ_PSN + 4, FULL, 0);
	assert_int_equal(expect_cqe(f, 1, UR_WC_SUCCESS).byte_len, 300 + FULL);
	fix_run(f);
	expect_aeth(f, f->nout - 1, RQ_PSN + 4, ACK);
}

static void refused_packet_size(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t len;
	} wrong[] = {
		{ UR_RC_SEND_FIRST, MTU / 2 - 1 },
		{ UR_RC_SEND_FIRST, 0 },
		{ UR_RC_SEND_FIRST, FULL + 1 },
		{ UR_RC_SEND_ONLY, FULL + 1 },
		{ UR_RC_WRITE_FIRST, FULL + 4 },
		{ UR_RC_WRITE_FIRST, MTU / 2 - 4 },
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct fix *f;
		void *own;

		full_setup(&own);
		f = own;
		fix_recv(f, 1, 0, 1000);
		full_packet(f, wrong[i].opcode, RQ_PSN, wrong[i].len, 2000);
		fix_run(f);
		expect_aeth(f, f->nout - 1, RQ_PSN, NAK(UR_NAK_INV_REQ));
		fix_free(f);
	}
}

/* The link had to fragment: what is in flight keeps its size, no more is begun. */
static void a_smaller_interface_ends_it(void **state)
{
	struct fix *f = *state;

	agree(f);
	fix_post(f, UR_WR_SEND, 102, 1000, 0);
	assert_int_equal(fix_run(f), 3);
	f->lane.fragmented++;
	urnic_range(f, SQ_PSN + 4, 1, 2);
	assert_int_equal(fix_run(f), 1);
	expect_packet(f, 0, UR_RC_SEND_FIRST, SQ_PSN + 4, 333, true);
	fix_post(f, UR_WR_SEND, 103, 1000, 0);
	assert_int_equal(fix_run(f), 4);
	expect_packet(f, 0, UR_RC_SEND_FIRST, SQ_PSN + 7, MTU, false);
	urnic_ack(f, SQ_PSN + 10);
	for (uint64_t i = 101; i <= 103; i++)
		expect_cqe(f, i, UR_WC_SUCCESS);
}

/* The responder's interface became smaller: the next READ request has an end for
 * an answer, too, but only one. */
static void a_smaller_interface_ends_reads(void **state)
{
	struct fix *f = *state;
	uint32_t psn = RQ_PSN;

	urnic_size(f, UR_FULL_PROBE, psn, FULL, FULL + PADDING);
	assert_int_equal(fix_run(f), 1);
	for (uint32_t i = 0; i < 6; i++, psn += 4) {
		bool ends = i == 1 || i == 3;

		f->lane.fragmented += ends;
		urnic_read(f, psn, 0, 1600, FULL, false);
		assert_int_equal(fix_run(f), 4 + ends);
		assert_int_equal(f->out[0].h.bth.full, ends);
		if (!ends)
			continue;
		expect_packet(f, 0, UR_RC_ACK, psn, 0, true);
		assert_int_equal(f->out[0].h.full_kind, UR_FULL_END);
		assert_int_equal(f->out[0].h.full_size, 0);
	}
	/* Others do not expect it. */
	f->lane.fragmented++;
	urnic_read(f, psn, 0, 1600, FULL, false);
	peer_ack(f, SQ_PSN, ACK);
	assert_int_equal(fix_run(f), 4);
	expect_out(f, 0, UR_RC_READ_RESP_FIRST, psn);
}

/* READs in flight go on; whatever begins later has the path MTU. */
static void an_end_is_final(void **state)
{
	struct fix *f = *state;

	agree(f);
	urnic_ack(f, SQ_PSN + 3);
	expect_cqe(f, 101, UR_WC_SUCCESS);
	fix_post(f, UR_WR_RDMA_READ, 1, 1600, 0);
	assert_int_equal(fix_run(f), 1);
	/* Not of a READ in flight, with a size, with data. */
	urnic_size(f, UR_FULL_END, SQ_PSN + 3, 0, 0);
	urnic_size(f, UR_FULL_END, SQ_PSN + 8, 0, 0);
	urnic_size(f, UR_FULL_END, SQ_PSN + 4, FULL, 0);
	urnic_size(f, UR_FULL_END, SQ_PSN + 4, 0, 4);
	fix_post(f, UR_WR_RDMA_READ, 2, 1600, 0);
	assert_int_equal(fix_run(f), 1);
	expect_packet(f, 0, UR_RC_READ_REQUEST, SQ_PSN + 8, 0, true);
	urnic_size(f, UR_FULL_END, SQ_PSN + 4, 0, 0);
	urnic_size(f, UR_FULL_ANSWER, SQ_PSN + 1, FULL, FULL + PADDING);
	expect_no_cqe(f);
	for (uint32_t i = 0; i < 4; i++)
		urnic_response(f,
			       i == 0	? UR_RC_READ_RESP_FIRST
			       : i == 3 ? UR_RC_READ_RESP_LAST
					: UR_RC_READ_RESP_MIDDLE,
			       SQ_PSN + 4 + i, i * FULL, i == 3 ? 292 : FULL);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	f->now_ns += 1000 * MS;
	fix_post(f, UR_WR_RDMA_READ, 3, 600, 0);
	fix_post(f, UR_WR_SEND, 4, 600, 0);
	assert_int_equal(fix_run(f), 4);
	expect_packet(f, 0, UR_RC_READ_REQUEST, SQ_PSN + 12, 0, false);
	expect_packet(f, 1, UR_RC_SEND_FIRST, SQ_PSN + 15, MTU, false);
}

static void set_state(struct fix *f, enum ur_qp_state state)
{
	assert_int_equal(rig_qp_state(&f->lane, &f->qp, state, f->now_ns), 0);
}

/* The interface of another path has less room: a new agreement, for less. */
static void another_path_needs_an_agreement(void **state)
{
	struct ur_qp_attr attr = { .state = UR_QPS_SQD };
	struct fix *f = *state;

	agree(f);
	urnic_ack(f, SQ_PSN + 3);
	expect_cqe(f, 101, UR_WC_SUCCESS);
	urnic_size(f, UR_FULL_PROBE, RQ_PSN, FULL, FULL + PADDING);
	assert_int_equal(fix_run(f), 1);
	set_state(f, UR_QPS_SQD);
	rig_av(&attr.av, f->link.src, f->link.dst);
	attr.av.hop_limit = 7;
	assert_int_equal(ur_roce_qp_modify(f->lane.roce, &f->qp, &attr,
					   UR_QP_STATE | UR_QP_AV, f->now_ns),
			 0);
	ur_roce_qp_fill(&f->qp, INTERFACE_MTU - 100);
	set_state(f, UR_QPS_RTS);
	fix_post(f, UR_WR_SEND, 1, 600, 0);
	assert_int_equal(fix_run(f), 4);
	assert_int_equal(f->out[0].h.full_kind, UR_FULL_PROBE);
	assert_int_equal(f->out[0].h.full_size, FULL - 100);
	expect_packet(f, 1, UR_RC_SEND_FIRST, SQ_PSN + 4, MTU, false);
	/* What the peer has begun is accepted, and its READs are ended. */
	fix_recv(f, 2, 0, 1000);
	full_packet(f, UR_RC_SEND_ONLY, RQ_PSN, FULL, 0);
	expect_cqe(f, 2, UR_WC_SUCCESS);
	urnic_read(f, RQ_PSN + 1, 0, FULL, FULL, false);
	fix_run(f);
	assert_int_equal(f->out[0].h.full_kind, UR_FULL_END);
	expect_packet(f, 1, UR_RC_READ_RESP_ONLY, RQ_PSN + 1, FULL, false);
}

/* A packet without the bit of a urnic does not change messages in flight. */
static void what_is_full_says_so(void **state)
{
	static const uint32_t len[] = { 333, 333, 334, 0 };
	struct fix *f = *state;

	agree(f);
	urnic_ack(f, SQ_PSN + 3);
	expect_cqe(f, 101, UR_WC_SUCCESS);
	fix_post(f, UR_WR_SEND, 1, 1000, 0);
	fix_post(f, UR_WR_RDMA_READ, 2, 600, 0);
	assert_int_equal(fix_run(f), 4);
	urnic_size(f, UR_FULL_PROBE, RQ_PSN, FULL, FULL + PADDING);
	peer_ack(f, SQ_PSN + 3, ACK);
	/* Nor is the probe answered any more. */
	assert_int_equal(fix_run(f), 0);
	fix_sleep(f, 250 * MS);
	assert_true(f->nout >= 4);
	for (uint32_t i = 0; i < f->nout; i++) {
		uint32_t at = f->out[i].h.bth.psn - SQ_PSN - 4;

		assert_true(at <= 3);
		assert_true(f->out[i].h.bth.full);
		assert_int_equal(f->out[i].len, len[at]);
	}
	assert_int_equal(f->out[3].h.full_size, FULL);
	fix_post(f, UR_WR_SEND, 3, 600, 0);
	fix_run(f);
	assert_false(f->out[f->nout - 1].h.bth.full);
}

/* The interface may refuse them. */
static void probes_and_answers_are_sent_alone(void **state)
{
	static struct ur_burst t;
	struct fix *f = *state;

	meet(f);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_post(f, UR_WR_SEND, 2, 600, 0);
	urnic_size(f, UR_FULL_PROBE, RQ_PSN, FULL, FULL + PADDING);
	for (uint32_t i = 0; i < 2; i++) {
		do {
			assert_true(
				ur_roce_output(f->lane.roce, &t, f->now_ns));
		} while (t.bytes < FULL || t.npkts > 1);
		assert_int_equal(t.pkt_len, FULL + 36);
	}
}

/* Connections over the same path do not probe it at once. */
static void one_unanswered_probe_on_a_path(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 3; i++) {
		meet(f);
		fix_post_quiet(f, UR_WR_SEND, 1, 600, 0);
		assert_int_equal(fix_run(f), i == 1 ? 3 : 4);
		if (i == 1)
			f->now_ns += 100 * MS;
		set_state(f, UR_QPS_RESET);
		fix_connect(f);
	}
}

/* The next connection of the queue pair has to agree again. */
static void reset_forgets(void **state)
{
	struct fix *f = *state;

	agree(f);
	assert_int_equal(
		rig_qp_state(&f->lane, &f->qp, UR_QPS_RESET, f->now_ns), 0);
	while (!ur_cq_is_empty(&f->cq)) {
		struct ur_cqe c;

		ur_cq_poll(&f->cq, &c, 1);
	}
	fix_connect(f);
	meet(f);
	fix_post(f, UR_WR_SEND, 1, 600, 0);
	assert_int_equal(fix_run(f), 4);
	expect_probe(f, 0, SQ_PSN + 1);
	assert_false(f->out[1].h.bth.full);
}

#define T(t) cmocka_unit_test_setup_teardown(t, full_setup, fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_message_after_the_answer_is_full),
		T(packets_of_messages_are_equal),
		T(others_get_no_probe),
		T(no_probe_without_room),
		T(a_lost_probe_is_repeated_twice),
		T(wrong_answers_change_nothing),
		T(a_probe_is_answered),
		T(answers_are_bounded),
		T(an_answer_precedes_a_piggyback),
		T(lost_packets_keep_their_size),
		T(a_read_says_the_size_of_its_responses),
		T(a_read_is_answered_in_its_size),
		cmocka_unit_test(refused_read_size),
		T(full_requests_are_placed),
		cmocka_unit_test(refused_packet_size),
		T(a_smaller_interface_ends_it),
		T(a_smaller_interface_ends_reads),
		T(an_end_is_final),
		T(another_path_needs_an_agreement),
		T(what_is_full_says_so),
		T(probes_and_answers_are_sent_alone),
		T(one_unanswered_probe_on_a_path),
		T(reset_forgets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
