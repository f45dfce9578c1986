/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows on RC and UC: binding and invalidating by send requests, SEND
 * with invalidate, and access by peers. */
#include "roce/fixture.h"

#include <stdlib.h>

#define ACK	  (UR_AETH_ACK | UR_AETH_CREDITS_INVALID)
#define NAK(code) (uint8_t)(UR_AETH_NAK | (code))
#define RW	  (UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_WRITE)

struct mwfix {
	struct fix *f;
	struct rig_buf buf;
	struct ur_mw *one, *two;
};

static struct mwfix *mw_new(enum ur_qp_type type)
{
	struct mwfix *m = test_calloc(1, sizeof(*m));
	struct fix *f = fix_new(type, false);

	m->f = f;
	rig_buf_init(&m->buf, &f->host, BUF_LEN,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_MW_BIND);
	memset(m->buf.p, 0, BUF_LEN);
	assert_int_equal(ur_mw_create(&f->host.mrs, &f->host.pd, UR_MW_TYPE_1,
				      &m->one),
			 0);
	assert_int_equal(ur_mw_create(&f->host.mrs, &f->host.pd, UR_MW_TYPE_2,
				      &m->two),
			 0);
	return m;
}

static int setup(void **state)
{
	*state = mw_new(UR_QPT_RC);
	return 0;
}

static int setup_uc(void **state)
{
	*state = mw_new(UR_QPT_UC);
	return 0;
}

static int teardown(void **state)
{
	struct mwfix *m = *state;

	assert_true(rig_buf_guards_ok(&m->buf));
	ur_mw_destroy(&m->f->host.mrs, m->one);
	ur_mw_destroy(&m->f->host.mrs, m->two);
	rig_buf_fini(&m->buf);
	fix_free(m->f);
	test_free(m);
	return 0;
}

static void post(struct mwfix *m, uint8_t opcode, uint64_t wr_id, uint32_t key,
		 const struct ur_mw_bind *b)
{
	struct rig_wr wr = { .wr_id = wr_id,
			     .imm_be = key,
			     .bind = b,
			     .opcode = opcode,
			     .flags = UR_SEND_SIGNALED };

	assert_int_equal(rig_post_send(&m->f->qp, &wr), 0);
	ur_roce_kick(m->f->lane.roce, &m->f->qp, m->f->now_ns);
}

static void post_bind(struct mwfix *m, const struct ur_mw *mw, uint64_t wr_id,
		      uint32_t access)
{
	struct ur_mw_bind b = { .addr = (uintptr_t)m->buf.p + 256,
				.length = 1024,
				.window = mw->win.key,
				.key = mw->win.key + 1,
				.lkey = m->buf.mr->key,
				.access = access };

	post(m, UR_WR_BIND_MW, wr_id, 0, &b);
}

/* Bind, and expect its completion; returns the key. */
static uint32_t bound(struct mwfix *m, const struct ur_mw *mw, uint32_t access)
{
	post_bind(m, mw, 77, access);
	assert_int_equal(fix_run(m->f), 0);
	assert_int_equal(expect_cqe(m->f, 77, UR_WC_SUCCESS).opcode,
			 UR_WC_BIND_MW);
	return mw->win.key;
}

static void write_by(struct mwfix *m, uint32_t key, uint32_t psn, uint32_t off)
{
	struct ur_hdr h =
		peer_hdr(m->f,
			 m->f->qp.type == UR_QPT_RC ? UR_RC_WRITE_ONLY
						    : UR_UC_WRITE_ONLY,
			 psn);

	h.va = (uintptr_t)m->buf.p + off;
	h.rkey = key;
	h.dma_len = 64;
	peer_send(m->f, &h, 64);
}

static void send_inv(struct mwfix *m, uint32_t key, uint32_t psn)
{
	struct ur_hdr h = peer_hdr(m->f, UR_RC_SEND_ONLY_INV, psn);

	h.inv_rkey = key;
	peer_send(m->f, &h, 32);
}

static void refused(struct mwfix *m, uint32_t psn)
{
	assert_int_equal(fix_run(m->f), 1);
	expect_aeth(m->f, 0, psn, NAK(UR_NAK_REM_ACCESS));
	assert_int_equal(m->f->qp.state, UR_QPS_ERR);
}

static void a_bound_window_is_written(void **state)
{
	struct mwfix *m = *state;
	uint32_t one = bound(m, m->one, RW), two = bound(m, m->two, RW);

	write_by(m, one, RQ_PSN, 256);
	write_by(m, two, RQ_PSN + 1, 256 + 1024 - 64);
	assert_memory_equal(m->buf.p + 256, m->f->data, 64);
	assert_memory_equal(m->buf.p + 256 + 1024 - 64, m->f->data, 64);
	fix_run(m->f);
	expect_aeth(m->f, m->f->nout - 1, RQ_PSN + 1, ACK);
}

static void beyond_its_end_is_refused(void **state)
{
	struct mwfix *m = *state;

	write_by(m, bound(m, m->two, RW), RQ_PSN, 256 + 1024 - 63);
	refused(m, RQ_PSN);
	assert_int_equal(m->buf.p[256 + 1024 - 63 + 1], 0);
}

static void its_rights_count(void **state)
{
	struct mwfix *m = *state;

	write_by(m, bound(m, m->one, UR_ACCESS_REMOTE_READ), RQ_PSN, 256);
	refused(m, RQ_PSN);
}

static void a_read_through_a_window(void **state)
{
	struct mwfix *m = *state;
	struct ur_hdr h = peer_hdr(m->f, UR_RC_READ_REQUEST, RQ_PSN);

	h.rkey = bound(m, m->two, UR_ACCESS_REMOTE_READ);
	memcpy(m->buf.p + 256, m->f->data, 1024);
	h.va = (uintptr_t)m->buf.p + 256;
	h.dma_len = 1024;
	peer_send(m->f, &h, 0);
	assert_int_equal(fix_run(m->f), 1024 / MTU);
	for (uint32_t i = 0; i < 1024 / MTU; i++)
		assert_memory_equal(m->f->out[i].payload, m->f->data + i * MTU,
				    MTU);
}

static void another_qps_type_2_is_refused(void **state)
{
	struct mwfix *m = *state;
	struct ur_qp other = { .pd = &m->f->host.pd };
	struct ur_mw_bind b = { .addr = (uintptr_t)m->buf.p,
				.length = 1024,
				.window = m->two->win.key,
				.key = 1,
				.lkey = m->buf.mr->key,
				.access = RW };

	ur_list_init(&other.windows);
	assert_int_equal(ur_mw_bind(&m->f->host.mrs, &other, &b), 0);
	write_by(m, m->two->win.key, RQ_PSN, 0);
	refused(m, RQ_PSN);
	ur_mw_release(&m->f->host.mrs, &other);
}

static void a_window_is_no_local_memory(void **state)
{
	struct mwfix *m = *state;
	struct ur_sge sge = { (uintptr_t)m->buf.p + 256, 64,
			      bound(m, m->one, RW) };
	struct rig_wr wr = { .wr_id = 5,
			     .sge = &sge,
			     .nsge = 1,
			     .opcode = UR_WR_SEND,
			     .flags = UR_SEND_SIGNALED };

	assert_int_equal(rig_post_send(&m->f->qp, &wr), 0);
	ur_roce_kick(m->f->lane.roce, &m->f->qp, m->f->now_ns);
	assert_int_equal(fix_run(m->f), 0);
	expect_cqe(m->f, 5, UR_WC_LOC_PROT_ERR);
}

static void send_with_invalidate_frees_it(void **state)
{
	struct mwfix *m = *state;
	uint32_t key = bound(m, m->two, RW);
	struct ur_cqe c;

	fix_recv(m->f, 3, 0, 512);
	send_inv(m, key, RQ_PSN);
	c = expect_cqe(m->f, 3, UR_WC_SUCCESS);
	assert_int_equal(c.flags, UR_WC_WITH_INV);
	assert_int_equal(c.imm_be, key);
	assert_int_equal(c.byte_len, 32);
	fix_run(m->f);
	expect_aeth(m->f, 0, RQ_PSN, ACK);
	assert_int_equal(m->buf.mr->windows, 0);
	/* The repeated packet is acknowledged and does nothing. */
	bound(m, m->two, RW);
	send_inv(m, key, RQ_PSN);
	fix_run(m->f);
	expect_aeth(m->f, 0, RQ_PSN, ACK);
	assert_int_equal(m->buf.mr->windows, 1);
	write_by(m, key, RQ_PSN + 1, 256);
	refused(m, RQ_PSN + 1);
}

static void what_a_peer_may_not_invalidate(void **state)
{
	for (uint32_t i = 0; i < 5; i++) {
		struct mwfix *m = *state;
		uint32_t keys[] = { m->buf.mr->key, bound(m, m->one, RW),
				    m->two->win.key, bound(m, m->two, RW) ^ 1,
				    0 };

		fix_recv(m->f, 3, 0, 512);
		send_inv(m, keys[i], RQ_PSN);
		/* Class J: acknowledged, and an error of the receive. */
		expect_cqe(m->f, 3, UR_WC_REM_INV_REQ_ERR);
		fix_run(m->f);
		expect_aeth(m->f, 0, RQ_PSN, ACK);
		assert_int_equal(m->f->qp.state, UR_QPS_ERR);
		expect_no_event(m->f);
		teardown(state);
		setup(state);
	}
}

static void reads_under_way_hold_an_invalidation(void **state)
{
	struct mwfix *m = *state;
	struct ur_hdr h = peer_hdr(m->f, UR_RC_READ_REQUEST, RQ_PSN);

	fix_recv(m->f, 3, 0, 512);
	h.rkey = bound(m, m->two, RW);
	h.va = (uintptr_t)m->buf.p + 256;
	h.dma_len = 1024;
	peer_send(m->f, &h, 0);
	send_inv(m, h.rkey, RQ_PSN + 1024 / MTU);
	expect_no_cqe(m->f);
	assert_int_equal(counters(m->f)->drop_window_in_use, 1);
	assert_int_equal(fix_run(m->f), 1024 / MTU);
	expect_out(m->f, 1024 / MTU - 1, UR_RC_READ_RESP_LAST,
		   RQ_PSN + 1024 / MTU - 1);
	/* It is retransmitted, and now succeeds. */
	send_inv(m, h.rkey, RQ_PSN + 1024 / MTU);
	expect_cqe(m->f, 3, UR_WC_SUCCESS);
}

/* The network may duplicate a READ request and deliver it late. */
static void a_late_duplicate_read_is_no_fault(void **state)
{
	struct mwfix *m = *state;
	struct ur_hdr h = peer_hdr(m->f, UR_RC_READ_REQUEST, RQ_PSN);

	fix_recv(m->f, 3, 0, 512);
	h.rkey = bound(m, m->two, RW);
	h.va = (uintptr_t)m->buf.p + 256;
	h.dma_len = 10;
	peer_send(m->f, &h, 0);
	fix_run(m->f);
	send_inv(m, h.rkey, RQ_PSN + 1);
	expect_cqe(m->f, 3, UR_WC_SUCCESS);
	fix_run(m->f);
	peer_send(m->f, &h, 0);
	assert_int_equal(fix_run(m->f), 1);
	expect_aeth(m->f, 0, RQ_PSN, NAK(UR_NAK_REM_ACCESS));
	assert_int_equal(m->f->qp.state, UR_QPS_RTS);
	expect_no_event(m->f);
}

static void local_invalidation(void **state)
{
	struct mwfix *m = *state;
	uint32_t key = bound(m, m->two, RW);

	post(m, UR_WR_LOCAL_INV, 9, key, NULL);
	assert_int_equal(fix_run(m->f), 0);
	assert_int_equal(expect_cqe(m->f, 9, UR_WC_SUCCESS).opcode,
			 UR_WC_LOCAL_INV);
	write_by(m, key, RQ_PSN, 256);
	refused(m, RQ_PSN);
}

/* It completes behind earlier requests, and no packet is sent. */
static void a_nop_waits_for_its_turn(void **state)
{
	struct mwfix *m = *state;

	fix_post(m->f, UR_WR_SEND, 1, 10, 0);
	post(m, UR_WR_NOP, 2, 0, NULL);
	assert_int_equal(fix_run(m->f), 1);
	expect_no_cqe(m->f);
	peer_ack(m->f, SQ_PSN, ACK);
	expect_cqe(m->f, 1, UR_WC_SUCCESS);
	assert_int_equal(fix_run(m->f), 0);
	assert_int_equal(expect_cqe(m->f, 2, UR_WC_SUCCESS).opcode, UR_WC_SEND);
}

/* A fence behind a READ adds nothing: it waits for the data. */
static void a_nop_behind_a_read(void **state)
{
	struct mwfix *m = *state;
	struct rig_wr nop = { .wr_id = 2,
			      .opcode = UR_WR_NOP,
			      .flags = UR_SEND_SIGNALED | UR_SEND_FENCE };

	fix_post(m->f, UR_WR_RDMA_READ, 1, 10, 0);
	assert_int_equal(rig_post_send(&m->f->qp, &nop), 0);
	assert_int_equal(fix_run(m->f), 1);
	expect_no_cqe(m->f);
	peer_plain(m->f, UR_RC_READ_RESP_ONLY, SQ_PSN, 10);
	fix_run(m->f);
	expect_cqe(m->f, 1, UR_WC_SUCCESS);
	expect_cqe(m->f, 2, UR_WC_SUCCESS);
}

static void an_unsignaled_nop(void **state)
{
	struct mwfix *m = *state;
	struct rig_wr nop = { .wr_id = 1, .opcode = UR_WR_NOP };

	assert_int_equal(rig_post_send(&m->f->qp, &nop), 0);
	post(m, UR_WR_NOP, 2, 0, NULL);
	assert_int_equal(fix_run(m->f), 0);
	expect_cqe(m->f, 2, UR_WC_SUCCESS); /* and none of the first */
	expect_no_cqe(m->f);
}

/* IBTA 10.3.1: in SQD no request begins, in ERR all are flushed. */
static void a_nop_in_sqd_and_in_error(void **state)
{
	struct mwfix *m = *state;

	rig_qp_state(&m->f->lane, &m->f->qp, UR_QPS_SQD, m->f->now_ns);
	post(m, UR_WR_NOP, 1, 0, NULL);
	assert_int_equal(fix_run(m->f), 0);
	expect_no_cqe(m->f);
	rig_qp_state(&m->f->lane, &m->f->qp, UR_QPS_RTS, m->f->now_ns);
	fix_run(m->f);
	expect_cqe(m->f, 1, UR_WC_SUCCESS);
	rig_qp_state(&m->f->lane, &m->f->qp, UR_QPS_ERR, m->f->now_ns);
	post(m, UR_WR_NOP, 2, 0, NULL);
	expect_cqe(m->f, 2, UR_WC_WR_FLUSH_ERR);
}

static void what_fails_stops_the_qp(void **state)
{
	struct mwfix *m = *state;
	struct ur_mw_bind b = { .window = m->two->win.key };

	post(m, UR_WR_BIND_MW, 1, 0, &b);
	fix_post(m->f, UR_WR_SEND, 2, 10, 0);
	fix_run(m->f);
	expect_cqe(m->f, 1, UR_WC_MW_BIND_ERR);
	expect_cqe(m->f, 2, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(m->f->qp.state, UR_QPS_ERR);
	teardown(state);
	setup(state);
	m = *state;
	post(m, UR_WR_LOCAL_INV, 1, m->buf.mr->key, NULL);
	fix_run(m->f);
	expect_cqe(m->f, 1, UR_WC_MW_BIND_ERR);
	assert_int_equal(m->f->qp.state, UR_QPS_ERR);
}

/* IBTA 10.6.5.1: an invalidation waits for all earlier requests. */
static void in_their_turn(void **state)
{
	struct mwfix *m = *state;
	uint32_t key = bound(m, m->two, RW);

	fix_post(m->f, UR_WR_SEND, 1, 10, 0);
	post(m, UR_WR_LOCAL_INV, 2, key, NULL);
	post_bind(m, m->one, 3, RW);
	fix_post(m->f, UR_WR_SEND, 4, 10, 0);
	assert_int_equal(fix_run(m->f), 1);
	expect_out(m->f, 0, UR_RC_SEND_ONLY, SQ_PSN);
	/* Until then the window exists. */
	write_by(m, key, RQ_PSN, 256);
	assert_int_equal(m->buf.p[257], m->f->data[1]);
	expect_no_cqe(m->f);
	/* A retransmission skips them. */
	fix_run(m->f);
	peer_ack(m->f, SQ_PSN, NAK(UR_NAK_PSN_SEQ));
	assert_int_equal(fix_run(m->f), 1);
	expect_out(m->f, 0, UR_RC_SEND_ONLY, SQ_PSN);
	peer_ack(m->f, SQ_PSN, ACK);
	assert_int_equal(fix_run(m->f), 1);
	expect_out(m->f, 0, UR_RC_SEND_ONLY, SQ_PSN + 1);
	expect_cqe(m->f, 1, UR_WC_SUCCESS);
	expect_cqe(m->f, 2, UR_WC_SUCCESS);
	expect_cqe(m->f, 3, UR_WC_SUCCESS);
	expect_no_cqe(m->f);
	peer_ack(m->f, SQ_PSN + 1, ACK);
	expect_cqe(m->f, 4, UR_WC_SUCCESS);
}

static void flushed_requests_do_nothing(void **state)
{
	struct mwfix *m = *state;
	uint32_t key = bound(m, m->two, RW);

	rig_qp_state(&m->f->lane, &m->f->qp, UR_QPS_ERR, m->f->now_ns);
	post(m, UR_WR_LOCAL_INV, 1, key, NULL);
	expect_cqe(m->f, 1, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(m->buf.mr->windows, 1);
}

static void windows_of_a_destroyed_qp(void **state)
{
	struct mwfix *m = *state;

	bound(m, m->two, RW);
	bound(m, m->one, RW);
	assert_int_equal(m->buf.mr->windows, 2);
	ur_roce_qp_detach(m->f->lane.roce, &m->f->qp);
	assert_int_equal(m->buf.mr->windows, 1);
	assert_int_equal(ur_roce_qp_attach(m->f->lane.roce, &m->f->qp), 0);
}

static void uc_binds_too(void **state)
{
	struct mwfix *m = *state;
	uint32_t key = bound(m, m->two, RW);

	write_by(m, key, RQ_PSN, 256);
	assert_memory_equal(m->buf.p + 256, m->f->data, 64);
	post(m, UR_WR_LOCAL_INV, 9, key, NULL);
	fix_run(m->f);
	expect_cqe(m->f, 9, UR_WC_SUCCESS);
	write_by(m, key, RQ_PSN + 1, 512);
	assert_int_equal(m->buf.p[513], 0);
}

#define TEST(name)    cmocka_unit_test_setup_teardown(name, setup, teardown)
#define UC_TEST(name) cmocka_unit_test_setup_teardown(name, setup_uc, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_bound_window_is_written),
		TEST(beyond_its_end_is_refused),
		TEST(its_rights_count),
		TEST(a_read_through_a_window),
		TEST(another_qps_type_2_is_refused),
		TEST(a_window_is_no_local_memory),
		TEST(send_with_invalidate_frees_it),
		TEST(what_a_peer_may_not_invalidate),
		TEST(reads_under_way_hold_an_invalidation),
		TEST(a_late_duplicate_read_is_no_fault),
		TEST(local_invalidation),
		TEST(a_nop_waits_for_its_turn),
		TEST(a_nop_behind_a_read),
		TEST(an_unsignaled_nop),
		TEST(a_nop_in_sqd_and_in_error),
		TEST(what_fails_stops_the_qp),
		TEST(in_their_turn),
		TEST(flushed_requests_do_nothing),
		TEST(windows_of_a_destroyed_qp),
		UC_TEST(uc_binds_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
