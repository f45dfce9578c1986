/* SPDX-License-Identifier: BSD-2-Clause */
#include "setup.h"

#define RC_OPS                                                                 \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |      \
	 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |                  \
	 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |        \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV)

static const struct ur_swqe *posted(struct ibv_qp_ex *ex, uint32_t i)
{
	struct ur_sq *sq = &core_qp(&ex->qp_base)->sq;

	assert_true(i < sq->tail);
	return ur_sq_slot(sq, i);
}

static void destroy(struct ibv_qp_ex *ex)
{
	assert_int_equal(ibv_destroy_qp(&ex->qp_base), 0);
}

static void builds_every_operation(void **state)
{
	struct ibv_qp_ex *qp = make_qp_ex(*state, IBV_QPT_RC, RC_OPS);
	struct ibv_sge list[2] = { { 1, 10, 1 }, { 2, 20, 2 } };
	char text[] = "inline";
	struct ibv_data_buf bufs[2] = { { text, 2 }, { text + 2, 5 } };

	ibv_wr_start(qp);
	qp->wr_id = 0;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, 0x11, 0x1000);
	ibv_wr_set_sge(qp, 7, 0x2000, 300);
	qp->wr_id = 1;
	qp->wr_flags = 0;
	ibv_wr_rdma_write_imm(qp, 0x12, 0x1001, 0xaa);
	ibv_wr_set_sge_list(qp, 2, list);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, text, sizeof(text));
	ibv_wr_send_imm(qp, 0xbb);
	ibv_wr_set_inline_data_list(qp, 2, bufs);
	ibv_wr_send_inv(qp, 0xcc);
	ibv_wr_rdma_read(qp, 0x13, 0x1002);
	ibv_wr_set_sge(qp, 7, 0x2000, 1);
	ibv_wr_atomic_cmp_swp(qp, 0x14, 0x1008, 5, 6);
	ibv_wr_set_sge(qp, 7, 0x2000, 8);
	ibv_wr_atomic_fetch_add(qp, 0x15, 0x1010, 9);
	ibv_wr_set_sge(qp, 7, 0x2000, 8);
	assert_int_equal(ur_fake.doorbells, 0);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(ur_fake.doorbells, 1);

	assert_int_equal(posted(qp, 0)->opcode, UR_WR_RDMA_WRITE);
	assert_int_equal(posted(qp, 0)->flags, UR_SEND_SIGNALED);
	assert_int_equal(posted(qp, 0)->length, 300);
	assert_int_equal(posted(qp, 0)->data.sge[0].lkey, 7);
	assert_int_equal(posted(qp, 0)->wr.rdma.rkey, 0x11);
	assert_int_equal(posted(qp, 1)->wr_id, 1);
	assert_int_equal(posted(qp, 1)->flags, 0);
	assert_int_equal(posted(qp, 1)->num_sge, 2);
	assert_int_equal(posted(qp, 1)->imm_be, 0xaa);
	assert_int_equal(posted(qp, 2)->flags, UR_SEND_INLINE);
	assert_string_equal((const char *)posted(qp, 2)->data.inline_data,
			    "inline");
	assert_string_equal((const char *)posted(qp, 3)->data.inline_data,
			    "inline");
	assert_int_equal(posted(qp, 4)->imm_be, 0xcc);
	assert_int_equal(posted(qp, 5)->opcode, UR_WR_RDMA_READ);
	assert_int_equal(posted(qp, 6)->wr.atomic.swap, 6);
	assert_int_equal(posted(qp, 7)->wr.atomic.compare_add, 9);
	destroy(qp);
}

static void the_first_error_takes_all_back(void **state)
{
	struct ibv_qp_ex *qp = make_qp_ex(*state, IBV_QPT_RC, RC_OPS);
	struct ibv_sge five[5] = { 0 };

	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 5, five); /* of 4 */
	ibv_wr_send(qp);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	assert_int_equal(core_qp(&qp->qp_base)->sq.tail, 0);
	assert_int_equal(ur_fake.doorbells, 0);
	/* The lock is free and the queue usable. */
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(core_qp(&qp->qp_base)->sq.tail, 1);
	destroy(qp);
}

static void abort_discards_all(void **state)
{
	struct ibv_qp_ex *qp = make_qp_ex(*state, IBV_QPT_RC, RC_OPS);

	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_send(qp);
	ibv_wr_abort(qp);
	assert_int_equal(core_qp(&qp->qp_base)->sq.tail, 0);
	assert_int_equal(core_qp(&qp->qp_base)->sq.staged, 0);
	destroy(qp);
}

static void a_full_queue_says_enomem(void **state)
{
	struct ibv_qp_ex *qp = make_qp_ex(*state, IBV_QPT_RC, RC_OPS);

	ibv_wr_start(qp);
	for (int i = 0; i < 9; i++)
		ibv_wr_send(qp);
	assert_int_equal(ibv_wr_complete(qp), ENOMEM);
	assert_int_equal(core_qp(&qp->qp_base)->sq.tail, 0);
	destroy(qp);
}

static int inline_of(struct ibv_qp_ex *qp, size_t len)
{
	static char data[100];

	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, data, len);
	return ibv_wr_complete(qp);
}

static void misuse_is_an_error(void **state)
{
	struct ibv_qp_ex *qp = make_qp_ex(*state, IBV_QPT_RC, RC_OPS);

	assert_int_equal(inline_of(qp, 64), 0);
	assert_int_equal(inline_of(qp, 65), EINVAL);
	ibv_wr_start(qp);
	ibv_wr_set_sge(qp, 0, 0, 1); /* of no request */
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	ibv_wr_start(qp);
	ibv_wr_atomic_fetch_add(qp, 1, 0x1000, 1);
	ibv_wr_set_sge(qp, 0, 0, 4);
	ibv_wr_send(qp); /* the atomic's error is found here */
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	ibv_wr_start(qp);
	ibv_wr_rdma_read(qp, 1, 0x1000);
	ibv_wr_set_inline_data(qp, qp, 4);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	core_qp(&qp->qp_base)->state = UR_QPS_INIT;
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	destroy(qp);
}

static void datagrams_need_an_address(void **state)
{
	struct ibv_qp_ex *qp =
		make_qp_ex(*state, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	struct ibv_ah *ah = make_ah(*state);

	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, ah, 77, 88);
	ibv_wr_set_sge(qp, 1, 0x1000, 5);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(posted(qp, 0)->wr.ud.dqpn, 77);
	assert_int_equal(posted(qp, 0)->wr.ud.qkey, 88);
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	destroy(qp);
}

static void the_type_limits_the_operations(void **state)
{
	assert_null(make_qp_ex(*state, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(make_qp_ex(*state, IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ));
	assert_null(make_qp_ex(*state, IBV_QPT_RC, IBV_QP_EX_WITH_TSO));
	assert_null(make_qp_ex(*state, IBV_QPT_UD, IBV_QP_EX_WITH_LOCAL_INV));
	assert_null(make_qp_ex(*state, IBV_QPT_UC, 1ull << 11)); /* flush */
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ur_fake.qps, 0);
}

/* The newest header names this offset; ours may be older. */
static void flush(struct ibv_qp_ex *ex, uint64_t addr, size_t len, uint8_t type,
		  uint8_t level)
{
	void (*fn)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t,
		   uint8_t);

	memcpy(&fn, (uint8_t *)ex + 312 + sizeof(pthread_mutex_t), sizeof(fn));
	fn(ex, 0x77, addr, len, type, level);
}

static void atomic_write_and_flush(void **state)
{
	struct ibv_qp_ex *qp = make_qp_ex(
		*state, IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_WRITE | 1u << 11);
	uint64_t value = 0x1122334455667788;
	const struct ur_swqe *w;

	assert_non_null(qp);
	ibv_wr_start(qp);
	ibv_wr_atomic_write(qp, 0x42, 0x2008, &value);
	flush(qp, 0x3001, 100, UR_FLUSH_GLOBAL, UR_FLUSH_RANGE);
	assert_int_equal(ibv_wr_complete(qp), 0);
	w = posted(qp, 0);
	assert_int_equal(w->opcode, UR_WR_ATOMIC_WRITE);
	assert_int_equal(w->length, 8);
	assert_int_equal(w->num_sge, 0);
	assert_int_equal(w->wr.rdma.remote_addr, 0x2008);
	assert_int_equal(w->wr.rdma.rkey, 0x42);
	assert_int_equal(w->wr.atomic_write.value, value);
	w = posted(qp, 1);
	assert_int_equal(w->opcode, UR_WR_FLUSH);
	assert_int_equal(w->length, 100);
	assert_int_equal(w->wr.rdma.remote_addr, 0x3001);
	assert_int_equal(w->wr.rdma.rkey, 0x77);
	assert_int_equal(w->wr.flush.placement, UR_FLUSH_GLOBAL);
	assert_int_equal(w->wr.flush.level, UR_FLUSH_RANGE);
	destroy(qp);
}

static void what_is_no_atomic_write_or_flush(void **state)
{
	static const struct {
		size_t len;
		uint8_t type, level;
	} rows[] = {
		{ 8, 0, 0 }, { 8, 4, 0 }, { 8, 1, 2 }, { 1ul << 32, 1, 0 }
	};
	struct ibv_qp_ex *qp = make_qp_ex(
		*state, IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_WRITE | 1u << 11);
	uint64_t value = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ibv_wr_start(qp);
		flush(qp, 0, rows[i].len, rows[i].type, rows[i].level);
		assert_int_equal(ibv_wr_complete(qp), EINVAL);
	}
	ibv_wr_start(qp);
	ibv_wr_atomic_write(qp, 0x42, 0x2008, &value);
	ibv_wr_set_sge(qp, 1, 0x1000, 8);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	destroy(qp);
	assert_null(
		make_qp_ex(*state, IBV_QPT_UC, IBV_QP_EX_WITH_ATOMIC_WRITE));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(make_qp_ex(*state, IBV_QPT_UD, 1u << 11));
	assert_int_equal(errno, EOPNOTSUPP);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(atomic_write_and_flush),
		TEST(what_is_no_atomic_write_or_flush),
		TEST(builds_every_operation),
		TEST(the_first_error_takes_all_back),
		TEST(abort_discards_all),
		TEST(a_full_queue_says_enomem),
		TEST(misuse_is_an_error),
		TEST(datagrams_need_an_address),
		TEST(the_type_limits_the_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
