/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomics with masks between urnics, as responder and as requester.  Layouts are
 * those of docs/wire/roce.md, typed by hand.
 */
#include "base/bytes.h"
#include "base/guard.h"
#include "core/masked.h"
#include "core/umr.h"
#include "roce/fixture.h"

#define ACK	  (UR_AETH_ACK | UR_AETH_CREDITS_INVALID)
#define NAK(code) (uint8_t)(UR_AETH_NAK | (code))

enum { MASKED_ACK = 0xd2, MASKED_CMP_SWAP = 0xd3, MASKED_FETCH_ADD = 0xd4 };

static int setup(void **state)
{
	struct fix *f = fix_new_reset(UR_QPT_RC, false);

	assert_int_equal(ur_guard_install(), 0);
	f->link.max_dest_rd_atomic = 4;
	fix_connect(f);
	*state = f;
	return 0;
}

/* --- responder --- */

static struct ur_hdr request(const struct fix *f, uint8_t opcode, uint32_t psn,
			     uint32_t off, uint32_t size)
{
	struct ur_hdr h = peer_hdr(f, opcode, psn);

	h.bth.urnic = true;
	h.bth.masked = true;
	h.va = (uintptr_t)f->remote.p + off;
	h.dma_len = size;
	return h;
}

/* Operands in f->data, as in the packet. */
static void operand64(struct fix *f, uint32_t i, uint64_t v)
{
	ur_put_be64(f->data + 8 * i, v);
}

static void answered(struct fix *f, uint32_t psn, const uint64_t *words,
		     uint32_t n)
{
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, MASKED_ACK, psn);
	assert_int_equal(f->out[0].h.syndrome, ACK);
	assert_int_equal(f->out[0].len, 8 * n);
	for (uint32_t i = 0; i < n; i++)
		assert_true(ur_be64_at(f->out[0].payload + 8 * i) == words[i]);
}

static void each_size_is_executed(void **state)
{
	struct fix *f = *state;
	uint64_t *mem = (uint64_t *)(void *)f->remote.p;
	uint32_t *mem4 = (uint32_t *)(void *)(f->remote.p + 100);
	struct ur_hdr h;

	/* swap, compare, swap mask, compare mask; each low word first */
	if (!ur_masked_is_size(16))
		skip();
	mem[4] = 1;
	mem[5] = 2;
	memset(f->data, 0xff, 64);
	operand64(f, 0, 0x30);
	operand64(f, 1, 0x40);
	operand64(f, 2, 1);
	operand64(f, 3, 2);
	h = request(f, MASKED_CMP_SWAP, RQ_PSN, 32, 16);
	peer_send(f, &h, 64);
	assert_true(mem[4] == 0x30 && mem[5] == 0x40);
	answered(f, RQ_PSN, (const uint64_t[]){ 1, 2 }, 2);
	assert_int_equal(f->out[0].h.msn, 1);
	/* add, boundary */
	operand64(f, 0, 0xd1);
	operand64(f, 1, 0x80);
	h = request(f, MASKED_FETCH_ADD, RQ_PSN + 1, 32, 8);
	peer_send(f, &h, 16);
	assert_true(mem[4] == 0x01);
	answered(f, RQ_PSN + 1, (const uint64_t[]){ 0x30 }, 1);
	mem4[0] = 0xfffffffe;
	mem4[1] = 7;
	ur_put_be32(f->data, 3);
	ur_put_be32(f->data + 4, 0);
	h = request(f, MASKED_FETCH_ADD, RQ_PSN + 2, 100, 4);
	peer_send(f, &h, 8);
	assert_int_equal(mem4[0], 1);
	assert_int_equal(mem4[1], 7);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, MASKED_ACK, RQ_PSN + 2);
	assert_int_equal(f->out[0].len, 4);
	assert_int_equal(ur_be32_at(f->out[0].payload), 0xfffffffe);
	assert_int_equal(counters(f)->rx_atomic_requests, 3);
}

/* IBTA 9.7.5.1.4: a duplicate gets the saved answer, also after others. */
static void a_duplicate_is_not_executed(void **state)
{
	struct fix *f = *state;
	uint64_t *mem = (uint64_t *)(void *)f->remote.p;
	struct ur_hdr h;

	if (!ur_masked_is_size(16))
		skip();
	mem[0] = 10;
	mem[1] = 20;
	operand64(f, 0, 1);
	operand64(f, 1, 1);
	operand64(f, 2, 0);
	operand64(f, 3, 0);
	for (uint32_t i = 0; i < 4; i++) {
		h = request(f, MASKED_FETCH_ADD, RQ_PSN + i, 0, 16);
		peer_send(f, &h, 32);
	}
	fix_run(f);
	assert_true(mem[0] == 14 && mem[1] == 24);
	for (uint64_t i = 4; i-- > 0;) {
		h = request(f, MASKED_FETCH_ADD, RQ_PSN + (uint32_t)i, 0, 16);
		h.bth.selective = true;
		peer_send(f, &h, 32);
		answered(f, RQ_PSN + (uint32_t)i,
			 (const uint64_t[]){ 10 + i, 20 + i }, 2);
	}
	assert_true(mem[0] == 14 && mem[1] == 24);
	/* Another opcode with that PSN: what was saved for the first. */
	h = request(f, UR_RC_FETCH_ADD, RQ_PSN, 0, 0);
	h.swap_add = 1;
	peer_send(f, &h, 0);
	answered(f, RQ_PSN, (const uint64_t[]){ 10, 20 }, 2);
	assert_true(mem[0] == 14 && mem[1] == 24);
}

/* Our opcodes mean nothing to it, or something else. */
static void only_of_a_peer_that_has_them(void **state)
{
	for (int urnic = 0; urnic < 2; urnic++) {
		for (uint8_t op = MASKED_CMP_SWAP; op <= MASKED_FETCH_ADD;
		     op++) {
			struct fix *f = *state;
			struct ur_hdr h = request(f, op, RQ_PSN, 0, 8);

			memset(f->data, 0xff, 32);
			memset(f->remote.p, 0, 8);
			h.bth.urnic = urnic;
			h.bth.masked = false;
			peer_send(f, &h, op == MASKED_CMP_SWAP ? 32 : 16);
			assert_int_equal(fix_run(f), 1);
			expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_INV_REQ));
			assert_memory_equal(f->remote.p, "\0\0\0\0\0\0\0", 8);
			assert_int_equal(f->qp.state, UR_QPS_ERR);
			fix_teardown(state);
			setup(state);
		}
	}
}

static void what_is_refused(void **state)
{
	static const struct {
		uint8_t opcode;
		uint8_t code;
		uint32_t off, size, len;
	} rows[] = {
		/* misaligned */
		{ MASKED_FETCH_ADD, UR_NAK_INV_REQ, 2, 4, 8 },
		{ MASKED_FETCH_ADD, UR_NAK_INV_REQ, 4, 8, 16 },
		{ MASKED_CMP_SWAP, UR_NAK_INV_REQ, 8, 16, 64 },
		/* sizes */
		{ MASKED_FETCH_ADD, UR_NAK_INV_REQ, 0, 0, 0 },
		{ MASKED_FETCH_ADD, UR_NAK_INV_REQ, 0, 1, 4 },
		{ MASKED_FETCH_ADD, UR_NAK_INV_REQ, 0, 12, 24 },
		{ MASKED_CMP_SWAP, UR_NAK_INV_REQ, 0, 32, 128 },
		{ MASKED_CMP_SWAP, UR_NAK_INV_REQ, 0, 0x80000000, 128 },
		/* packets that are too short or too long for it */
		{ MASKED_CMP_SWAP, UR_NAK_INV_REQ, 0, 8, 16 },
		{ MASKED_FETCH_ADD, UR_NAK_INV_REQ, 0, 8, 32 },
		{ MASKED_FETCH_ADD, UR_NAK_INV_REQ, 0, 8, 0 },
		/* beyond the region */
		{ MASKED_FETCH_ADD, UR_NAK_REM_ACCESS, BUF_LEN, 4, 8 },
		{ MASKED_CMP_SWAP, UR_NAK_REM_ACCESS, BUF_LEN, 16, 64 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fix *f = *state;
		struct ur_hdr h = request(f, rows[i].opcode, RQ_PSN,
					  rows[i].off, rows[i].size);

		if (rows[i].size == 16 && !ur_masked_is_size(16))
			continue;
		peer_send(f, &h, rows[i].len);
		assert_int_equal(fix_run(f), 1);
		expect_aeth(f, 0, RQ_PSN, NAK(rows[i].code));
		assert_int_equal(f->qp.state, UR_QPS_ERR);
		fix_teardown(state);
		setup(state);
	}
}

static void keys_and_rights(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = request(f, MASKED_FETCH_ADD, RQ_PSN, 0, 8);

	h.rkey ^= 0x100;
	peer_send(f, &h, 16);
	fix_run(f);
	expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_REM_ACCESS));
	fix_teardown(state);
	setup(state);
	f = *state;
	h = request(f, MASKED_FETCH_ADD, RQ_PSN, 0, 8);
	h.rkey = f->local.mr->key;
	h.va = (uintptr_t)f->local.p;
	peer_send(f, &h, 16);
	fix_run(f);
	expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_REM_ACCESS));
	fix_teardown(state);
	/* Not for this queue pair; without a place for the answer. */
	for (int i = 0; i < 2; i++) {
		*state = f = fix_new_reset(UR_QPT_RC, false);
		f->link.max_dest_rd_atomic = (uint8_t)i;
		f->link.access =
			i ? UR_ACCESS_REMOTE_READ : UR_ACCESS_REMOTE_ATOMIC;
		fix_connect(f);
		h = request(f, MASKED_FETCH_ADD, RQ_PSN, 0, 8);
		peer_send(f, &h, 16);
		fix_run(f);
		expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_INV_REQ));
		fix_teardown(state);
	}
	setup(state);
}

/* The address is aligned, the memory is not: the region says otherwise. */
static void memory_that_is_not_aligned(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = request(f, MASKED_FETCH_ADD, RQ_PSN, 0, 16);
	struct ur_mr *mr;

	if (!ur_masked_is_size(16))
		skip();
	assert_int_equal(ur_mr_create(&f->host.mrs, &f->host.pd,
				      f->remote.p + 8, 1024, 0x10000,
				      UR_ACCESS_LOCAL_WRITE |
					      UR_ACCESS_REMOTE_ATOMIC,
				      &mr),
			 0);
	h.va = 0x10000;
	h.rkey = mr->key;
	peer_send(f, &h, 32);
	fix_run(f);
	expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_INV_REQ));
	ur_mr_destroy(&f->host.mrs, mr);
}

/* An indirect key over the first 12 bytes of b, and 24 bytes from byte 24 on. */
static struct ur_mr *key_over(struct fix *f, const struct rig_buf *b)
{
	struct ur_umr_list *list = ur_umr_list_new(2);
	struct ur_mr *key;

	assert_int_equal(ur_umr_create(&f->host.mrs, &f->host.pd, 2, &key), 0);
	list->key = key->key;
	list->iova = 0x40000;
	list->access = UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_ATOMIC;
	list->repeats = 1;
	list->block[0] = (struct ur_umr_block){ .va = (uintptr_t)b->p,
						.bytes = 12,
						.lkey = b->mr->key };
	list->block[1] = (struct ur_umr_block){ .va = (uintptr_t)b->p + 24,
						.bytes = 24,
						.lkey = b->mr->key };
	assert_int_equal(ur_umr_list_check(list), 0);
	atomic_store(&key->list, list);
	return key;
}

static void targets_in_an_indirect_key(void **state)
{
	static const struct {
		uint32_t off, size;
		bool good;
	} rows[] = {
		{ 0, 8, true },	   { 4, 4, true },   { 8, 4, true },
		{ 12, 4, true },   { 8, 8, false }, /* in two pieces */
		{ 16, 8, false },		    /* 4 modulo 8 in memory */
		{ 16, 16, false }, { 0, 16, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fix *f = *state;
		struct ur_hdr h =
			request(f, MASKED_FETCH_ADD, RQ_PSN, 0, rows[i].size);
		struct ur_mr *key;

		if (!ur_masked_is_size(rows[i].size))
			continue;
		key = key_over(f, &f->remote);
		h.va = 0x40000 + rows[i].off;
		h.rkey = key->key;
		peer_send(f, &h, 2 * rows[i].size);
		assert_int_equal(fix_run(f), 1);
		if (rows[i].good)
			expect_out(f, 0, MASKED_ACK, RQ_PSN);
		else
			expect_aeth(f, 0, RQ_PSN, NAK(UR_NAK_REM_ACCESS));
		ur_mr_destroy(&f->host.mrs, key);
		fix_teardown(state);
		setup(state);
	}
}

/* --- requester --- */

static const struct ur_masked operands = {
	.value = { 0x1111, 0x2222 },
	.compare = { 0x3333, 0x4444 },
	.mask = { 0x5555, 0x6666 },
	.compare_mask = { 0x7777, 0x8888 },
};

static void post(struct fix *f, uint8_t opcode, uint64_t wr_id, uint32_t len)
{
	struct ur_sge sge = rig_sge(&f->local, 0, len);
	struct rig_wr wr = { .wr_id = wr_id,
			     .sge = &sge,
			     .nsge = 1,
			     .remote_addr = 0x20000,
			     .rkey = 0x99,
			     .opcode = opcode,
			     .masked = &operands,
			     .flags = UR_SEND_SIGNALED };

	assert_int_equal(rig_post_send(&f->qp, &wr), 0);
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
}

static void acknowledge(struct fix *f, uint32_t psn, bool urnic, bool masked)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_ACK, psn);

	h.bth.urnic = urnic;
	h.bth.masked = masked;
	h.syndrome = ACK;
	peer_send(f, &h, 0);
}

/* A packet of the peer that says what it executes, and acknowledges a SEND. */
static void meet(struct fix *f, bool urnic, bool masked)
{
	fix_post_quiet(f, UR_WR_SEND, 100, 8, 0);
	fix_run(f);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN);
	acknowledge(f, SQ_PSN, urnic, masked);
	fix_run(f);
}

static void response(struct fix *f, uint32_t psn, uint32_t len)
{
	struct ur_hdr h = peer_hdr(f, MASKED_ACK, psn);

	h.bth.urnic = true;
	h.bth.masked = true;
	h.syndrome = ACK;
	peer_send(f, &h, len);
}

static void what_is_sent(void **state)
{
	struct fix *f = *state;
	const struct ur_hdr *h = &f->out[0].h;
	const uint8_t *p = f->out[0].payload;
	uint64_t old[2];

	meet(f, true, true);
	post(f, UR_WR_MASKED_CMP_SWP, 1, 16);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, MASKED_CMP_SWAP, SQ_PSN + 1);
	assert_true(h->bth.urnic && h->bth.masked && h->bth.ackreq);
	assert_int_equal(h->va, 0x20000);
	assert_int_equal(h->rkey, 0x99);
	assert_int_equal(h->dma_len, 16);
	assert_int_equal(f->out[0].len, 64);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(ur_be64_at(p + 16 * i), (2 * i + 1) * 0x1111);
		assert_int_equal(ur_be64_at(p + 16 * i + 8),
				 (2 * i + 2) * 0x1111);
	}
	ur_put_be64(f->data, 0x123456789abcdef0);
	ur_put_be64(f->data + 8, 0x42);
	response(f, SQ_PSN + 1, 16);
	assert_int_equal(expect_cqe(f, 1, UR_WC_SUCCESS).opcode,
			 UR_WC_MASKED_COMP_SWAP);
	memcpy(old, f->local.p, 16);
	assert_true(old[0] == 0x123456789abcdef0 && old[1] == 0x42);
	post(f, UR_WR_MASKED_FETCH_ADD, 2, 4);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, MASKED_FETCH_ADD, SQ_PSN + 2);
	assert_int_equal(f->out[0].len, 8);
	assert_int_equal(ur_be32_at(p), 0x1111);
	assert_int_equal(ur_be32_at(p + 4), 0x5555);
	memset(f->local.p, 0xee, 8);
	ur_put_be32(f->data, 77);
	response(f, SQ_PSN + 2, 4);
	assert_int_equal(expect_cqe(f, 2, UR_WC_SUCCESS).byte_len, 4);
	assert_int_equal(*(uint32_t *)(void *)f->local.p, 77);
	assert_int_equal(f->local.p[4], 0xee);
}

static void the_old_value_in_an_indirect_key(void **state)
{
	struct fix *f = *state;
	struct ur_mr *key = key_over(f, &f->local);
	struct ur_sge sge = { 0x40000 + 8, 8, key->key };
	struct rig_wr wr = { .wr_id = 1,
			     .sge = &sge,
			     .nsge = 1,
			     .remote_addr = 0x20000,
			     .rkey = 0x99,
			     .opcode = UR_WR_MASKED_FETCH_ADD,
			     .masked = &operands,
			     .flags = UR_SEND_SIGNALED };
	static const uint32_t low = 0x9abcdef0, high = 0x12345678;

	meet(f, true, true);
	memset(f->local.p, 0xee, 40);
	assert_int_equal(rig_post_send(&f->qp, &wr), 0);
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
	fix_run(f);
	expect_out(f, 0, MASKED_FETCH_ADD, SQ_PSN + 1);
	ur_put_be64(f->data, 0x123456789abcdef0);
	response(f, SQ_PSN + 1, 8);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_memory_equal(f->local.p + 8, &low, 4);
	assert_memory_equal(f->local.p + 24, &high, 4);
	assert_int_equal(f->local.p[12], 0xee);
	assert_int_equal(f->local.p[28], 0xee);
	ur_mr_destroy(&f->host.mrs, key);
}

static void wrong_answers(void **state)
{
	for (int i = 0; i < 4; i++) {
		struct fix *f = *state;
		uint8_t opcode = i < 2 ? MASKED_ACK : UR_RC_ATOMIC_ACK;

		meet(f, true, true);
		if (i == 3) /* a masked answer to a standard one */
			fix_post(f, UR_WR_FETCH_ADD, 1, 8, 0);
		else
			post(f, UR_WR_MASKED_FETCH_ADD, 1, 8);
		fix_run(f);
		if (i == 3)
			opcode = MASKED_ACK;
		peer_plain(f, opcode, SQ_PSN + 1,
			   opcode != MASKED_ACK ? 0
			   : i == 0		? 4
						: 16);
		expect_cqe(f, 1, UR_WC_BAD_RESP_ERR);
		fix_teardown(state);
		setup(state);
	}
}

/* It is not sent, and fails when all before it are complete. */
static void a_peer_without_them(void **state)
{
	for (int urnic = 0; urnic < 2; urnic++) {
		struct fix *f = *state;

		meet(f, urnic, false);
		fix_post(f, UR_WR_SEND, 1, 8, 0);
		post(f, UR_WR_MASKED_CMP_SWP, 2, 8);
		fix_post(f, UR_WR_SEND, 3, 8, 0);
		assert_int_equal(fix_run(f), 1);
		expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN + 1);
		expect_no_cqe(f);
		acknowledge(f, SQ_PSN + 1, urnic, false);
		expect_cqe(f, 1, UR_WC_SUCCESS);
		assert_int_equal(fix_run(f), 0);
		expect_cqe(f, 2, UR_WC_LOC_QP_OP_ERR);
		expect_cqe(f, 3, UR_WC_WR_FLUSH_ERR);
		fix_teardown(state);
		setup(state);
	}
}

/* A duplicate of nothing: an empty WRITE with the PSN before the first. */
static void expect_question(struct fix *f)
{
	expect_out(f, 0, UR_RC_WRITE_ONLY, SQ_PSN - 1);
	assert_int_equal(f->out[0].len, 0);
	assert_int_equal(f->out[0].h.dma_len, 0);
	assert_true(f->out[0].h.bth.ackreq && f->out[0].h.bth.masked);
}

static void an_unknown_peer_is_asked(void **state)
{
	struct fix *f = *state;

	post(f, UR_WR_MASKED_FETCH_ADD, 1, 8);
	for (uint64_t i = 0; i < 6; i++)
		fix_post(f, UR_WR_SEND, 2 + i, 8, 0);
	assert_int_equal(fix_run(f), 1); /* nothing behind it */
	expect_question(f);
	assert_int_equal(fix_run(f), 0);
	acknowledge(f, SQ_PSN - 1, true, true);
	assert_int_equal(counters(f)->drop_ghost_ack, 1);
	assert_int_equal(fix_run(f), 7);
	expect_out(f, 0, MASKED_FETCH_ADD, SQ_PSN);
	expect_out(f, 1, UR_RC_SEND_ONLY, SQ_PSN + 1);
	response(f, SQ_PSN, 8);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	acknowledge(f, SQ_PSN + 6, true, true);
	for (uint64_t i = 0; i < 6; i++)
		expect_cqe(f, 2 + i, UR_WC_SUCCESS);
}

static void the_answer_may_be_no(void **state)
{
	struct fix *f = *state;

	post(f, UR_WR_MASKED_FETCH_ADD, 1, 8);
	fix_post(f, UR_WR_SEND, 2, 8, 0);
	fix_run(f);
	expect_question(f);
	acknowledge(f, SQ_PSN - 1, false, false);
	assert_int_equal(fix_run(f), 0);
	expect_cqe(f, 1, UR_WC_LOC_QP_OP_ERR);
	expect_cqe(f, 2, UR_WC_WR_FLUSH_ERR);
}

/* After requests that are still in flight: their acknowledgement answers. */
static void earlier_requests_ask(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 8, 0);
	post(f, UR_WR_MASKED_FETCH_ADD, 2, 8);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN);
	acknowledge(f, SQ_PSN, true, true);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, MASKED_FETCH_ADD, SQ_PSN + 1);
}

/* Lost questions are repeated; without a peer the request fails as any other. */
static void nothing_answers(void **state)
{
	struct fix *f = *state;
	uint32_t n;

	post(f, UR_WR_MASKED_FETCH_ADD, 1, 8);
	fix_run(f);
	n = fix_sleep(f, 100 * MS);
	assert_true(n > 2 && n < 50);
	for (uint32_t i = 0; i < n; i++)
		expect_out(f, i, UR_RC_WRITE_ONLY, SQ_PSN - 1);
	expect_no_cqe(f);
	n = fix_sleep(f, 100000 * MS);
	assert_true(n < 300);
	expect_cqe(f, 1, UR_WC_RETRY_EXC_ERR);
}

/* The atomic itself has not been sent before, so it has all its retries. */
static void the_question_uses_up_no_retries(void **state)
{
	for (uint32_t retries = 0; retries <= 3; retries += 3) {
		struct fix *f = *state;
		uint32_t n;

		f->qp.attr.retry_cnt = (uint8_t)retries;
		post(f, UR_WR_MASKED_FETCH_ADD, 1, 8);
		fix_run(f);
		expect_question(f);
		/* Nearly the timeouts of all retries, of 201 ms each. */
		n = fix_sleep(f, (200 * retries + 195) * MS);
		expect_out(f, n - 1, UR_RC_WRITE_ONLY, SQ_PSN - 1);
		expect_no_cqe(f);
		acknowledge(f, SQ_PSN - 1, true, true);
		fix_run(f);
		expect_out(f, 0, MASKED_FETCH_ADD, SQ_PSN);
		/* It is lost, also the next times. */
		n = fix_sleep(f, (200 * retries + 195) * MS);
		assert_true(n > 2);
		for (uint32_t i = 0; i < n; i++)
			expect_out(f, i, MASKED_FETCH_ADD, SQ_PSN);
		expect_no_cqe(f);
		response(f, SQ_PSN, 8);
		expect_cqe(f, 1, UR_WC_SUCCESS);
		fix_teardown(state);
		setup(state);
	}
}

/* As responder we acknowledge the question, and execute nothing. */
static void the_question_is_a_duplicate(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN - 1);

	h.bth.urnic = h.bth.masked = true;
	h.rkey = 0;
	h.va = 0;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN - 1, ACK);
	assert_true(f->out[0].h.bth.urnic && f->out[0].h.bth.masked);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
	assert_int_equal(counters(f)->duplicate_request, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_size_is_executed),
		TEST(a_duplicate_is_not_executed),
		TEST(only_of_a_peer_that_has_them),
		TEST(what_is_refused),
		TEST(keys_and_rights),
		TEST(memory_that_is_not_aligned),
		TEST(targets_in_an_indirect_key),
		TEST(what_is_sent),
		TEST(the_old_value_in_an_indirect_key),
		TEST(wrong_answers),
		TEST(a_peer_without_them),
		TEST(an_unknown_peer_is_asked),
		TEST(the_answer_may_be_no),
		TEST(earlier_requests_ask),
		TEST(nothing_answers),
		TEST(the_question_uses_up_no_retries),
		TEST(the_question_is_a_duplicate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
