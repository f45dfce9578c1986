/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FLUSH and ATOMIC WRITE (IBTA A19), as responder and as requester. The layouts
 * are typed from packets of the kernel's rxe: opcode 0x1c with FETH and RETH,
 * 0x1d with RETH and eight bytes, responses with opcode 0x10.
 */
#include "roce/fixture.h"

#define ACK	  (UR_AETH_ACK | UR_AETH_CREDITS_INVALID)
#define NAK(code) (uint8_t)(UR_AETH_NAK | (code))
#define FLUSHABLE                                                              \
	(UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |                      \
	 UR_ACCESS_FLUSH_GLOBAL)

struct placed {
	struct fix *f;
	struct rig_buf buf;
};

static struct placed *make(uint32_t qp_access, uint8_t depth)
{
	struct placed *p = test_calloc(1, sizeof(*p));

	p->f = fix_new_reset(UR_QPT_RC, false);
	p->f->link.access = qp_access;
	p->f->link.max_dest_rd_atomic = depth;
	fix_connect(p->f);
	rig_buf_init(&p->buf, &p->f->host, BUF_LEN, FLUSHABLE);
	memset(p->buf.p, 0, BUF_LEN);
	return p;
}

static int setup(void **state)
{
	*state = make(UR_ACCESS_REMOTE_WRITE | UR_ACCESS_FLUSH_GLOBAL, 4);
	return 0;
}

static int teardown(void **state)
{
	struct placed *p = *state;

	assert_true(rig_buf_guards_ok(&p->buf));
	rig_buf_fini(&p->buf);
	fix_free(p->f);
	test_free(p);
	return 0;
}

static struct ur_hdr flush_hdr(const struct placed *p, uint32_t psn)
{
	struct ur_hdr h = peer_hdr(p->f, UR_RC_FLUSH, psn);

	h.va = (uintptr_t)p->buf.p + 100;
	h.rkey = p->buf.mr->key;
	h.dma_len = 1000;
	h.placement = UR_FLUSH_GLOBAL;
	h.level = UR_FLUSH_RANGE;
	return h;
}

static void put(struct placed *p, uint32_t psn, uint32_t off, uint32_t key,
		uint32_t dma_len, uint32_t len)
{
	struct ur_hdr h = peer_hdr(p->f, UR_RC_ATOMIC_WRITE, psn);

	h.va = (uintptr_t)p->buf.p + off;
	h.rkey = key;
	h.dma_len = dma_len;
	peer_send(p->f, &h, len);
}

static void answered(struct placed *p, uint32_t psn, uint32_t msn)
{
	assert_int_equal(fix_run(p->f), 1);
	expect_out(p->f, 0, 0x10, psn);
	assert_int_equal(p->f->out[0].h.syndrome, ACK);
	assert_int_equal(p->f->out[0].h.msn, msn);
	assert_int_equal(p->f->out[0].len, 0);
}

static void refused(struct placed *p, uint32_t psn, uint8_t code)
{
	assert_int_equal(fix_run(p->f), 1);
	expect_aeth(p->f, 0, psn, NAK(code));
	assert_int_equal(p->f->qp.state, UR_QPS_ERR);
}

static void flush_is_answered(void **state)
{
	struct placed *p = *state;
	struct ur_hdr h = flush_hdr(p, RQ_PSN);

	peer_send(p->f, &h, 0);
	answered(p, RQ_PSN, 1);
	assert_int_equal(counters(p->f)->rx_flush_requests, 1);
	/* The whole region: address and length are ignored. */
	h = flush_hdr(p, RQ_PSN + 1);
	h.level = UR_FLUSH_MR;
	h.va = 0;
	h.dma_len = 0;
	peer_send(p->f, &h, 0);
	answered(p, RQ_PSN + 1, 2);
	h = flush_hdr(p, RQ_PSN + 2);
	h.dma_len = 0;
	peer_send(p->f, &h, 0);
	answered(p, RQ_PSN + 2, 3);
}

static void flush_faults(void **state)
{
	for (int i = 0; i < 7; i++) {
		struct placed *p = *state;
		struct ur_hdr h = flush_hdr(p, RQ_PSN);
		uint8_t code = UR_NAK_REM_ACCESS;

		switch (i) {
		case 0: /* nowhere */
			h.placement = 0;
			code = UR_NAK_INV_REQ;
			break;
		case 1: /* invalid placement type */
			h.placement = 4;
			code = UR_NAK_INV_REQ;
			break;
		case 2: /* invalid selectivity */
			h.level = 2;
			code = UR_NAK_INV_REQ;
			break;
		case 3: /* not supported by this QP */
			h.placement = UR_FLUSH_PERSISTENT;
			code = UR_NAK_INV_REQ;
			break;
		case 4:
			h.dma_len = BUF_LEN;
			break;
		case 5:
			h.rkey ^= 0x100;
			break;
		default: /* the region lacks that right */
			h.rkey = p->f->remote.mr->key;
			h.level = UR_FLUSH_MR;
			break;
		}
		peer_send(p->f, &h, 0);
		refused(p, RQ_PSN, code);
		teardown(state);
		setup(state);
	}
}

static void atomic_write_is_placed_once(void **state)
{
	struct placed *p = *state;

	put(p, RQ_PSN, 16, p->buf.mr->key, 8, 8);
	assert_memory_equal(p->buf.p + 16, p->f->data, 8);
	assert_int_equal(p->buf.p[24], 0);
	answered(p, RQ_PSN, 1);
	assert_int_equal(counters(p->f)->rx_atomic_write_requests, 1);
	/* Later writes stay: a duplicate is only answered. */
	memset(p->buf.p, 0x77, 64);
	put(p, RQ_PSN, 16, p->buf.mr->key, 8, 8);
	assert_int_equal(p->buf.p[16], 0x77);
	answered(p, RQ_PSN, 1);
}

static void atomic_write_faults(void **state)
{
	struct placed *p = *state;

	put(p, RQ_PSN, 12, p->buf.mr->key, 8, 8);
	refused(p, RQ_PSN, UR_NAK_INV_REQ);
	teardown(state);
	setup(state);
	p = *state;
	put(p, RQ_PSN, 16, p->buf.mr->key, 16, 16);
	refused(p, RQ_PSN, UR_NAK_INV_REQ);
	teardown(state);
	setup(state);
	p = *state;
	put(p, RQ_PSN, 16, p->buf.mr->key, 8, 4);
	refused(p, RQ_PSN, UR_NAK_INV_REQ);
	teardown(state);
	setup(state);
	p = *state;
	put(p, RQ_PSN, BUF_LEN, p->buf.mr->key, 8, 8);
	refused(p, RQ_PSN, UR_NAK_REM_ACCESS);
	teardown(state);
	*state = p = make(UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC, 4);
	put(p, RQ_PSN, 16, p->buf.mr->key, 8, 8);
	refused(p, RQ_PSN, UR_NAK_INV_REQ);
}

/* The kernel's rxe does not count them, so the peer may exceed our resources;
 * that costs a retransmission, not the connection. */
static void more_than_agreed(void **state)
{
	struct placed *p = *state;

	for (uint32_t i = 0; i < 6; i++)
		put(p, RQ_PSN + i, 8 * i, p->buf.mr->key, 8, 8);
	assert_int_equal(p->buf.p[8 * 3 + 1], p->f->data[1]);
	assert_int_equal(p->buf.p[8 * 4 + 1], 0);
	assert_int_equal(counters(p->f)->drop_no_resource, 1);
	assert_true(fix_run(p->f) >= 4);
	for (uint32_t i = 0; i < 4; i++)
		expect_out(p->f, i, 0x10, RQ_PSN + i);
	assert_int_equal(p->f->qp.state, UR_QPS_RTS);
	put(p, RQ_PSN + 4, 8 * 4, p->buf.mr->key, 8, 8);
	assert_int_equal(p->buf.p[8 * 4 + 1], p->f->data[1]);
	teardown(state);
	*state = p = make(UR_ACCESS_REMOTE_WRITE, 0);
	put(p, RQ_PSN, 16, p->buf.mr->key, 8, 8);
	refused(p, RQ_PSN, UR_NAK_INV_REQ);
}

static void post(struct placed *p, uint8_t opcode, uint64_t wr_id,
		 uint8_t flags)
{
	struct ur_sge sge = rig_sge(&p->f->local, 0, 8);
	struct rig_wr wr = { .wr_id = wr_id,
			     .sge = &sge,
			     .nsge = 1,
			     .remote_addr = 0x20000,
			     .rkey = 0x99,
			     .placement = UR_FLUSH_GLOBAL | UR_FLUSH_PERSISTENT,
			     .level = UR_FLUSH_MR,
			     .opcode = opcode,
			     .flags = flags | UR_SEND_SIGNALED };

	assert_int_equal(rig_post_send(&p->f->qp, &wr), 0);
	ur_roce_kick(p->f->lane.roce, &p->f->qp, p->f->now_ns);
}

static void response(struct placed *p, uint32_t psn)
{
	peer_plain(p->f, UR_RC_READ_RESP_ONLY, psn, 0);
}

static void what_is_sent(void **state)
{
	struct placed *p = *state;
	const struct ur_hdr *h;

	memcpy(p->f->local.p, "eightchr", 8);
	post(p, UR_WR_FLUSH, 1, 0);
	post(p, UR_WR_ATOMIC_WRITE, 2, 0);
	post(p, UR_WR_ATOMIC_WRITE, 3, UR_SEND_INLINE);
	assert_int_equal(fix_run(p->f), 3);
	/* A packet without the bit, and the peer counts as another adapter. */
	for (uint32_t i = 0; i < 3; i++)
		assert_true(p->f->out[i].h.bth.urnic);
	expect_out(p->f, 0, 0x1c, SQ_PSN);
	h = &p->f->out[0].h;
	assert_int_equal(h->placement, 3);
	assert_int_equal(h->level, UR_FLUSH_MR);
	assert_int_equal(h->va, 0x20000);
	assert_int_equal(h->rkey, 0x99);
	assert_int_equal(h->dma_len, 8);
	assert_int_equal(p->f->out[0].len, 0);
	for (uint32_t i = 1; i < 3; i++) {
		expect_out(p->f, i, 0x1d, SQ_PSN + i);
		assert_int_equal(p->f->out[i].h.dma_len, 8);
		assert_int_equal(p->f->out[i].len, 8);
		assert_memory_equal(p->f->out[i].payload, "eightchr", 8);
	}
	/*
	 * An acknowledgement is not the response, and shows that it was lost.
	 */
	peer_ack(p->f, SQ_PSN, ACK);
	expect_no_cqe(p->f);
	assert_int_equal(fix_run(p->f), 3);
	expect_out(p->f, 0, 0x1c, SQ_PSN);
	for (uint32_t i = 0; i < 3; i++)
		response(p, SQ_PSN + i);
	assert_int_equal(expect_cqe(p->f, 1, UR_WC_SUCCESS).opcode,
			 UR_WC_FLUSH);
	assert_int_equal(expect_cqe(p->f, 2, UR_WC_SUCCESS).opcode,
			 UR_WC_ATOMIC_WRITE);
	expect_cqe(p->f, 3, UR_WC_SUCCESS);
}

static void outstanding_ones_are_counted(void **state)
{
	struct placed *p = *state;

	for (uint64_t i = 0; i < 6; i++)
		post(p, i & 1 ? UR_WR_FLUSH : UR_WR_ATOMIC_WRITE, i, 0);
	fix_post(p->f, UR_WR_SEND, 6, 10, UR_SEND_FENCE);
	assert_int_equal(fix_run(p->f), 4); /* max_rd_atomic */
	response(p, SQ_PSN);
	response(p, SQ_PSN + 1);
	assert_int_equal(fix_run(p->f), 2);
	for (uint32_t i = 2; i < 5; i++)
		response(p, SQ_PSN + i);
	assert_int_equal(fix_run(p->f), 0); /* the fence */
	response(p, SQ_PSN + 5);
	assert_int_equal(fix_run(p->f), 1);
	expect_out(p->f, 0, UR_RC_SEND_ONLY, SQ_PSN + 6);
}

static void answers_that_are_wrong(void **state)
{
	struct placed *p = *state;

	post(p, UR_WR_FLUSH, 1, 0);
	fix_run(p->f);
	peer_plain(p->f, UR_RC_READ_RESP_ONLY, SQ_PSN, 8);
	expect_cqe(p->f, 1, UR_WC_BAD_RESP_ERR);
	teardown(state);
	setup(state);
	p = *state;
	post(p, UR_WR_ATOMIC_WRITE, 1, 0);
	fix_run(p->f);
	peer_ack(p->f, SQ_PSN, NAK(UR_NAK_REM_ACCESS));
	expect_cqe(p->f, 1, UR_WC_REM_ACCESS_ERR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(flush_is_answered),
		TEST(flush_faults),
		TEST(atomic_write_is_placed_once),
		TEST(atomic_write_faults),
		TEST(more_than_agreed),
		TEST(what_is_sent),
		TEST(outstanding_ones_are_counted),
		TEST(answers_that_are_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
