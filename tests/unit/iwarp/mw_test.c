/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: bound by b, used and invalidated by a. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/mw.h"
#include "world.h"

#define RW (UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_WRITE)

struct windows {
	struct world *w;
	struct rig_buf buf; /* of b, to bind to */
	struct ur_mw *one, *two;
};

static struct windows m;

static int setup_silent(void **state)
{
	struct rig_host *h;

	m.w = world_setup();
	h = &m.w->p.b.host;
	rig_buf_init(&m.buf, h, LEN, UR_ACCESS_LOCAL_WRITE | UR_ACCESS_MW_BIND);
	memset(m.buf.p, 0, LEN);
	if (ur_mw_create(&h->mrs, &h->pd, UR_MW_TYPE_1, &m.one) ||
	    ur_mw_create(&h->mrs, &h->pd, UR_MW_TYPE_2, &m.two))
		return -1;
	return 0;
}

/* The responder may send after it has received something (RFC 5044, 7.1). */
static int setup(void **state)
{
	if (setup_silent(state))
		return -1;
	world_post(m.w, 99, UR_WR_RDMA_WRITE, 0, 0);
	pair_run(&m.w->p);
	side_cqe(&m.w->p.a, 99, UR_WC_SUCCESS);
	return 0;
}

static int teardown(void **state)
{
	struct ur_mr_table *t = &m.w->p.b.host.mrs;

	ur_mw_destroy(t, m.one);
	ur_mw_destroy(t, m.two);
	rig_buf_fini(&m.buf);
	world_teardown(m.w);
	return 0;
}

static void post(struct side *s, uint8_t opcode, uint64_t wr_id, uint32_t key,
		 const struct ur_mw_bind *b)
{
	struct rig_wr wr = { .wr_id = wr_id,
			     .imm_be = key,
			     .bind = b,
			     .opcode = opcode,
			     .flags = UR_SEND_SIGNALED };

	side_post_send(&m.w->p, s, &wr);
}

static void post_bind(const struct ur_mw *mw, uint64_t wr_id, uint32_t access)
{
	struct ur_mw_bind b = { .addr = (uintptr_t)m.buf.p + 1000,
				.length = 100000,
				.window = mw->win.key,
				.key = mw->win.key + 1,
				.lkey = m.buf.mr->key,
				.access = access };

	post(&m.w->p.b, UR_WR_BIND_MW, wr_id, 0, &b);
}

static uint32_t bound(const struct ur_mw *mw, uint32_t access)
{
	post_bind(mw, 77, access);
	pair_run(&m.w->p);
	assert_int_equal(side_cqe(&m.w->p.b, 77, UR_WC_SUCCESS).opcode,
			 UR_WC_BIND_MW);
	return mw->win.key;
}

static void rdma(uint8_t opcode, uint64_t wr_id, uint32_t key, uint64_t off,
		 uint32_t len)
{
	struct ur_sge sge = rig_sge(&m.w->a, 0, len);
	struct rig_wr wr = { .wr_id = wr_id,
			     .sge = &sge,
			     .nsge = 1,
			     .opcode = opcode,
			     .flags = UR_SEND_SIGNALED,
			     .remote_addr = (uintptr_t)m.buf.p + off,
			     .rkey = key };

	side_post_send(&m.w->p, &m.w->p.a, &wr);
}

static void send_inv(uint32_t key)
{
	struct ur_sge sge = rig_sge(&m.w->a, 0, 10);
	struct rig_wr wr = { .wr_id = 3,
			     .sge = &sge,
			     .nsge = 1,
			     .imm_be = key,
			     .opcode = UR_WR_SEND_INV,
			     .flags = UR_SEND_SIGNALED };

	side_post_send(&m.w->p, &m.w->p.a, &wr);
}

static void a_window_is_written_and_read(void **state)
{
	uint32_t one = bound(m.one, RW), two = bound(m.two, RW);

	rdma(UR_WR_RDMA_WRITE, 1, one, 1000, 50000);
	rdma(UR_WR_RDMA_WRITE, 2, two, 51000, 50000);
	pair_run(&m.w->p);
	side_cqe(&m.w->p.a, 1, UR_WC_SUCCESS);
	side_cqe(&m.w->p.a, 2, UR_WC_SUCCESS);
	assert_memory_equal(m.buf.p + 1000, m.w->a.p, 50000);
	assert_memory_equal(m.buf.p + 51000, m.w->a.p, 50000);
	memset(m.buf.p + 1000, 0x5a, 100000);
	rdma(UR_WR_RDMA_READ, 3, two, 1000, 100000);
	pair_run(&m.w->p);
	side_cqe(&m.w->p.a, 3, UR_WC_SUCCESS);
	assert_memory_equal(m.buf.p + 1000, m.w->a.p, 100000);
}

static void a_nop_completes(void **state)
{
	post(&m.w->p.a, UR_WR_NOP, 4, 0, NULL);
	pair_run(&m.w->p);
	side_cqe(&m.w->p.a, 4, UR_WC_SUCCESS);
}

/* The error of a READ or WRITE with a wrong STag, on both sides. */
static void what_is_refused(void **state)
{
	for (int i = 0; i < 5; i++) {
		uint32_t key =
			bound(i < 3 ? m.one : m.two, UR_ACCESS_REMOTE_READ);
		uint8_t op = UR_WR_RDMA_READ;
		uint64_t off = 1000;

		if (i == 0)
			off = 1000 + 100000 - 99;
		else if (i == 1)
			op = UR_WR_RDMA_WRITE;
		else
			key ^= i == 2 ? 1 : 0;
		if (i == 3) {
			post(&m.w->p.b, UR_WR_LOCAL_INV, 8, key, NULL);
			pair_run(&m.w->p);
			assert_int_equal(
				side_cqe(&m.w->p.b, 8, UR_WC_SUCCESS).opcode,
				UR_WC_LOCAL_INV);
		} else if (i == 4) { /* as another stream's */
			m.two->qp = &m.w->p.a.qp;
		}
		rdma(op, 1, key, off, 100);
		pair_run(&m.w->p);
		if (op == UR_WR_RDMA_READ)
			side_cqe(&m.w->p.a, 1, UR_WC_REM_ACCESS_ERR);
		else
			side_cqe(&m.w->p.a, 1, UR_WC_SUCCESS);
		side_event(&m.w->p.b, UR_EVENT_QP_ACCESS_ERR);
		assert_int_equal(world_state_of(&m.w->p.b), UR_QPS_ERR);
		assert_int_equal(m.buf.p[1000], 0);
		teardown(state);
		setup(state);
	}
}

static void send_with_invalidate_frees_it(void **state)
{
	uint32_t key = bound(m.two, RW);
	struct ur_cqe c;

	world_post_recv(m.w, 11, 100);
	rdma(UR_WR_RDMA_WRITE, 1, key, 1000, 100);
	send_inv(key);
	pair_run(&m.w->p);
	side_cqe(&m.w->p.a, 1, UR_WC_SUCCESS);
	side_cqe(&m.w->p.a, 3, UR_WC_SUCCESS);
	c = side_cqe(&m.w->p.b, 11, UR_WC_SUCCESS);
	assert_int_equal(c.flags, UR_WC_WITH_INV);
	assert_int_equal(c.imm_be, key);
	assert_int_equal(m.buf.p[1001], m.w->a.p[1]);
	assert_int_equal(m.buf.mr->windows, 0);
	rdma(UR_WR_RDMA_READ, 2, key, 1000, 100);
	pair_run(&m.w->p);
	side_cqe(&m.w->p.a, 2, UR_WC_REM_ACCESS_ERR);
}

static void what_a_peer_may_not_invalidate(void **state)
{
	for (int i = 0; i < 4; i++) {
		const uint32_t keys[] = { m.buf.mr->key, bound(m.one, RW),
					  m.two->win.key, 0x12345678 };
		const struct ur_iwarp_counters *n =
			ur_iwarp_counters(m.w->p.b.w);

		world_post_recv(m.w, 11, 100);
		send_inv(keys[i]);
		pair_run(&m.w->p);
		side_cqe(&m.w->p.b, 11, UR_WC_WR_FLUSH_ERR);
		side_event(&m.w->p.b, UR_EVENT_QP_ACCESS_ERR);
		/* Cannot be invalidated, or does not exist. */
		assert_int_equal(n->rdmap_operation_errors, i < 2);
		assert_int_equal(n->rdmap_protection_errors, i >= 2);
		teardown(state);
		setup(state);
	}
}

static void in_their_turn(void **state)
{
	struct rig_host *h = &m.w->p.a.host;
	struct ur_mw *mw;

	assert_int_equal(ur_mw_create(&h->mrs, &h->pd, UR_MW_TYPE_1, &mw), 0);
	struct ur_mw_bind b = { .window = mw->win.key };

	world_post(m.w, 1, UR_WR_RDMA_READ, 0, 100);
	post(&m.w->p.a, UR_WR_BIND_MW, 2, 0, &b);
	world_post(m.w, 3, UR_WR_SEND, 0, 10);
	world_a_sent(m.w, UR_RDMAP_READ_REQUEST);
	world_a_sent_nothing(m.w);
	side_no_cqe(&m.w->p.a);
	world_answer(m.w, 100);
	world_a_sent(m.w, UR_RDMAP_SEND);
	side_cqe(&m.w->p.a, 1, UR_WC_SUCCESS);
	side_cqe(&m.w->p.a, 2, UR_WC_SUCCESS);
	side_cqe(&m.w->p.a, 3, UR_WC_SUCCESS);
	ur_mw_destroy(&h->mrs, mw);
}

static void binding_is_not_speaking(void **state)
{
	bound(m.one, RW);
	world_a_sent_nothing(m.w);
	assert_int_equal(m.w->p.b.out.len, 0);
}

static void what_fails_ends_the_stream(void **state)
{
	const struct ur_mw_bind b = { .window = m.two->win.key };

	post(&m.w->p.b, UR_WR_BIND_MW, 1, 0, &b);
	pair_run(&m.w->p);
	side_cqe(&m.w->p.b, 1, UR_WC_MW_BIND_ERR);
	assert_int_equal(world_state_of(&m.w->p.b), UR_QPS_ERR);
	assert_int_equal(world_state_of(&m.w->p.a), UR_QPS_ERR);
}

/* The orderly end comes after the last request, even one that sends nothing. */
static void closing_behind_a_bind(void **state)
{
	struct ur_qp_attr attr = { .state = UR_QPS_SQD };
	struct side *b = &m.w->p.b;

	post_bind(m.one, 5, RW);
	assert_int_equal(ur_iwarp_qp_modify(b->w, &b->qp, &attr, UR_QP_STATE,
					    m.w->p.now_ns),
			 0);
	pair_run(&m.w->p);
	side_cqe(b, 5, UR_WC_SUCCESS);
	assert_null(ur_iwarp_link(&b->qp));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_window_is_written_and_read),
		TEST(a_nop_completes),
		TEST(what_is_refused),
		TEST(send_with_invalidate_frees_it),
		TEST(what_a_peer_may_not_invalidate),
		TEST(in_their_turn),
		cmocka_unit_test_setup_teardown(binding_is_not_speaking,
						setup_silent, teardown),
		TEST(what_fails_ends_the_stream),
		TEST(closing_behind_a_bind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
