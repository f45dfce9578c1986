/* SPDX-License-Identifier: BSD-2-Clause */
/* Which packets are made of records: opcodes, PSNs, lengths, ICRC, comments. */
#include "pcap_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "core/qp.h"
#include "wire/bth.h"
#include "wire/icrc.h"

#define MAX 64u
#define OUT UR_CAP_OUT
#define ONE (UR_CAP_FIRST | UR_CAP_LAST)

struct seen {
	uint8_t opcode;
	uint32_t psn;
	uint32_t len; /* of the payload */
	uint32_t dqpn;
	bool sent;
	bool ackreq;
	char comment[64];
};

static struct seen seen[MAX];
static unsigned int n;
static struct ur_frame_out out;
static struct ur_shm_frames *shm;
static uint8_t data[20000];

static const struct ur_capture_rec base = {
	.kind = UR_CAP_SHM,
	.qp_type = UR_QPT_RC,
	.mtu = 5, /* 4096 */
	.sport = 50000,
	.qpn = 0x111,
	.dqpn = 0x222,
	.psn = 0xfffffe,
	.src = { [10] = 0xff, 0xff, 10, 0, 0, 1 },
	.dst = { [10] = 0xff, 0xff, 10, 0, 0, 2 },
};

/* Ethernet, IPv4 and UDP are 42 bytes. */
static void on_frame(void *arg, const struct ur_frame *f)
{
	struct ur_icrc_flow flow = { .sport = ur_be16_at(f->data + 34),
				     .dport = UR_ROCE_PORT };
	struct ur_icrc_cache cache = { 0 };
	const uint8_t *pkt = f->data + 42, *payload;
	size_t len = f->len - 42, payload_len;
	struct seen *s = &seen[n++];
	struct ur_hdr h;
	bool exact;

	assert_true(n < MAX);
	assert_int_equal(ur_be16_at(f->data + 16), f->len - 14);
	assert_int_equal(ur_be16_at(f->data + 36), 4791);
	memcpy(flow.src, f->rec->src, 16);
	memcpy(flow.dst, f->rec->dst, 16);
	assert_true(ur_icrc_check(&flow, ur_icrc_prefix(&flow, len), &cache,
				  pkt, len, ur_be16_at(f->data + 18), &exact));
	assert_true(exact);
	assert_int_equal(ur_hdr_decode(&h, pkt, len, &payload, &payload_len),
			 0);
	s->opcode = h.bth.opcode;
	s->psn = h.bth.psn;
	s->len = (uint32_t)payload_len;
	s->dqpn = h.bth.dqpn;
	s->sent = f->sent;
	s->ackreq = h.bth.ackreq;
	if (f->comment)
		strncpy(s->comment, f->comment, sizeof(s->comment) - 1);
}

static int setup(void **state)
{
	n = 0;
	memset(seen, 0, sizeof(seen));
	out.fn = on_frame;
	shm = ur_shm_frames_create();
	return shm ? 0 : -1;
}

static int teardown(void **state)
{
	ur_shm_frames_destroy(shm);
	return 0;
}

static void put(struct ur_capture_rec r)
{
	ur_shm_frames_put(shm, &out, &r, data);
}

static void request(uint8_t op, uint8_t flags, uint32_t number, uint32_t len,
		    uint32_t total)
{
	struct ur_capture_rec r = base;

	r.op = op;
	r.flags = flags;
	r.number = number;
	r.len = len;
	r.total = total;
	put(r);
}

static void ack(uint8_t flags, uint32_t count)
{
	struct ur_capture_rec r = base;

	r.op = UR_CAP_OP_NONE;
	r.flags = flags | UR_CAP_ACK;
	r.ack = count;
	put(r);
}

static void expect(unsigned int i, uint8_t opcode, uint32_t psn, uint32_t len,
		   bool sent)
{
	assert_true(i < n);
	assert_int_equal(seen[i].opcode, opcode);
	assert_int_equal(seen[i].psn, psn);
	assert_int_equal(seen[i].len, len);
	assert_int_equal(seen[i].sent, sent);
	assert_int_equal(seen[i].dqpn, sent ? 0x222 : 0x111);
}

/* In two pieces, over the end of the PSNs; one ACK for both messages. */
static void a_message_is_cut_at_the_mtu(void **state)
{
	request(UR_OP_SEND, OUT | UR_CAP_FIRST, 0, 8192, 9000);
	request(UR_OP_SEND, OUT | UR_CAP_LAST, 0, 808, 9000);
	request(UR_OP_WRITE, OUT | ONE, 1, 1, 1);
	ack(0, 2);
	ack(0, 2);
	assert_int_equal(n, 5);
	expect(0, UR_RC_SEND_FIRST, 0xfffffe, 4096, true);
	expect(1, UR_RC_SEND_MIDDLE, 0xffffff, 4096, true);
	expect(2, UR_RC_SEND_LAST, 0, 808, true);
	expect(3, UR_RC_WRITE_ONLY, 1, 1, true);
	expect(4, UR_RC_ACK, 1, 0, false);
	assert_string_equal(seen[0].comment, "shared memory");
	assert_false(seen[1].ackreq);
	assert_true(seen[2].ackreq);
}

/* Pieces that are no packets, as of a list of elements. */
static void odd_pieces_become_packets(void **state)
{
	request(UR_OP_SEND, UR_CAP_FIRST, 0, 1000, 6000);
	request(UR_OP_SEND, 0, 0, 4000, 6000);
	request(UR_OP_SEND, UR_CAP_LAST, 0, 1000, 6000);
	assert_int_equal(n, 2);
	expect(0, UR_RC_SEND_FIRST, 0xfffffe, 4096, false);
	expect(1, UR_RC_SEND_LAST, 0xffffff, 1904, false);
}

/* An ACK does not pass a READ that is not answered; its answer acknowledges. */
static void answers_acknowledge(void **state)
{
	request(UR_OP_READ_REQUEST, OUT | ONE, 0, 0, 5000);
	request(UR_OP_SEND, OUT | ONE, 1, 8, 8);
	ack(0, 2);
	assert_int_equal(n, 2);
	request(UR_OP_READ_RESPONSE, 0, 0, 5000, 0);
	assert_int_equal(n, 5);
	expect(0, UR_RC_READ_REQUEST, 0xfffffe, 0, true);
	expect(1, UR_RC_SEND_ONLY, 0, 8, true);
	expect(2, UR_RC_READ_RESP_FIRST, 0xfffffe, 4096, false);
	expect(3, UR_RC_READ_RESP_LAST, 0xffffff, 904, false);
	expect(4, UR_RC_ACK, 0, 0, false);
}

static void atomics(void **state)
{
	request(UR_OP_CMP_SWAP, OUT | ONE, 0, 16, 8);
	request(UR_OP_ATOMIC_ACK, 0, 0, 8, 0);
	ack(0, 1);
	assert_int_equal(n, 2);
	expect(0, UR_RC_CMP_SWAP, 0xfffffe, 0, true);
	expect(1, UR_RC_ATOMIC_ACK, 0xfffffe, 0, false);
}

static void direct_access(void **state)
{
	struct ur_capture_rec done = base;

	request(UR_OP_WRITE, OUT | UR_CAP_DIRECT | ONE, 0, 64, 64);
	done.op = UR_CAP_OP_NONE;
	done.flags = UR_CAP_DIRECT | ONE;
	put(done);
	expect(0, UR_RC_WRITE_ONLY, 0xfffffe, 64, true);
	expect(1, UR_RC_ACK, 0xfffffe, 0, false);
	assert_string_equal(seen[0].comment, "direct access to shared memory");
}

/* A capture that begins within a message, or before an answer. */
static void what_began_before_is_left_out(void **state)
{
	request(UR_OP_SEND, OUT | UR_CAP_LAST, 0, 100, 9000);
	request(UR_OP_READ_RESPONSE, 0, 0, 100, 0);
	ack(0, 7);
	assert_int_equal(n, 0);
}

/* A hostile process may write such records. */
static void a_smaller_mtu_ends_the_message(void **state)
{
	struct ur_capture_rec r = base;

	request(UR_OP_SEND, OUT | UR_CAP_FIRST, 0, 3000, 9000);
	r.op = UR_OP_SEND;
	r.flags = OUT | UR_CAP_LAST;
	r.mtu = 1;
	r.len = 6000;
	put(r);
	assert_int_equal(n, 0);
	request(UR_OP_SEND, OUT | ONE, 1, 8, 8);
	assert_int_equal(n, 1);
}

static void read_by_wire(struct ur_roce_frames *roce, uint32_t psn, uint64_t va,
			 uint32_t len)
{
	struct ur_icrc_flow flow = { .sport = 50000, .dport = UR_ROCE_PORT };
	struct ur_hdr h = { .bth = { .opcode = UR_RC_READ_REQUEST,
				     .pkey = 0xffff,
				     .dqpn = 0x222,
				     .psn = psn },
			    .va = va,
			    .rkey = 7,
			    .dma_len = len };
	uint8_t pkt[UR_HDR_MAX + UR_ICRC_LEN];
	struct ur_capture_rec r = base;

	r.kind = UR_CAP_ROCE;
	r.flags = OUT;
	r.len = (uint32_t)ur_hdr_encode(&h, pkt) + UR_ICRC_LEN;
	r.npkts = 1;
	r.pkt_len = r.len;
	memcpy(flow.src, r.src, 16);
	memcpy(flow.dst, r.dst, 16);
	ur_icrc_write(&flow, pkt, r.len);
	ur_roce_frames_put(roce, &out, &r, pkt);
}

/* Also from the middle, where the PSN is a new one. */
static void a_read_is_sent_again(void **state)
{
	struct ur_roce_frames *roce = ur_roce_frames_create();

	assert_non_null(roce);
	read_by_wire(roce, 0xfffffe, 0x1000, 10000);
	read_by_wire(roce, 0xfffffe, 0x1000, 10000);
	read_by_wire(roce, 0, 0x1000 + 8192, 10000 - 8192);
	read_by_wire(roce, 1, 0x1000 + 8192, 10000 - 8192); /* a new one */
	ur_roce_frames_destroy(roce);
	assert_int_equal(n, 4);
	assert_string_equal(seen[0].comment, "");
	assert_string_equal(seen[1].comment, "retransmission");
	assert_string_equal(seen[2].comment, "retransmission");
	assert_string_equal(seen[3].comment, "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_message_is_cut_at_the_mtu),
		TEST(odd_pieces_become_packets),
		TEST(answers_acknowledge),
		TEST(atomics),
		TEST(direct_access),
		TEST(what_began_before_is_left_out),
		TEST(a_smaller_mtu_ends_the_message),
		TEST(a_read_is_sent_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
