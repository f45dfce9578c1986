/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_post_send(), ibv_post_recv() */
#include "setup.h"

static const struct ur_swqe *posted(struct ibv_qp *qp, uint32_t i)
{
	struct ur_sq *sq = &core_qp(qp)->sq;

	assert_true(i < sq->tail);
	return ur_sq_slot(sq, i);
}

static int post(struct ibv_qp *qp, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad = NULL;
	int rc = ibv_post_send(qp, &wr, &bad);

	assert_ptr_equal(bad, rc ? &wr : NULL);
	return rc;
}

static void a_request_arrives_as_it_was(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);
	struct ibv_sge sge[2] = { { 0x1000, 100, 1 }, { 0x2000, 200, 2 } };
	struct ibv_send_wr wr = {
		.wr_id = 77,
		.sg_list = sge,
		.num_sge = 2,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
		.imm_data = 0xabcd,
		.wr.rdma = { .remote_addr = 0x123456789, .rkey = 0x42 },
	};
	const struct ur_swqe *w;

	assert_int_equal(post(qp, wr), 0);
	w = posted(qp, 0);
	assert_int_equal(w->wr_id, 77);
	assert_int_equal(w->opcode, UR_WR_RDMA_WRITE_IMM);
	assert_int_equal(w->flags, UR_SEND_SIGNALED | UR_SEND_FENCE);
	assert_int_equal(w->num_sge, 2);
	assert_int_equal(w->length, 300);
	assert_int_equal(w->imm_be, 0xabcd);
	assert_int_equal(w->wr.rdma.remote_addr, 0x123456789);
	assert_int_equal(w->wr.rdma.rkey, 0x42);
	assert_memory_equal(w->data.sge, sge, sizeof(sge));
	assert_int_equal(ur_fake.doorbells, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void a_list_rings_once(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_UC);
	struct ibv_send_wr wr[3] = { 0 }, *bad;

	for (int i = 0; i < 3; i++) {
		wr[i].wr_id = (uint64_t)i;
		wr[i].opcode = IBV_WR_SEND;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	assert_int_equal(ibv_post_send(qp, wr, &bad), 0);
	assert_int_equal(posted(qp, 2)->wr_id, 2);
	assert_int_equal(ur_fake.doorbells, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void a_bad_one_stops_the_list(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);
	struct ibv_send_wr wr[3] = { 0 }, *bad;

	for (int i = 0; i < 3; i++) {
		wr[i].opcode = IBV_WR_SEND;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].num_sge = 5; /* of 4 */
	assert_int_equal(ibv_post_send(qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(core_qp(qp)->sq.tail, 1);
	assert_int_equal(core_qp(qp)->sq.staged, 1);
	assert_int_equal(ur_fake.doorbells, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void a_full_queue_says_enomem(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	for (int i = 0; i < 8; i++)
		assert_int_equal(post(qp, wr), 0);
	assert_int_equal(post(qp, wr), ENOMEM);
	core_qp(qp)->sq.head = 1; /* one is complete */
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void inline_data_is_copied_at_once(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);
	char a[40] = "first", b[25] = "second";
	struct ibv_sge sge[2] = { { (uintptr_t)a, 40, 0 },
				  { (uintptr_t)b, 24, 0 } };
	struct ibv_send_wr wr = {
		.sg_list = sge,
		.num_sge = 2,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
	};
	const struct ur_swqe *w;

	assert_int_equal(post(qp, wr), 0);
	memset(a, 0, sizeof(a));
	w = posted(qp, 0);
	assert_int_equal(w->length, 64);
	assert_int_equal(w->num_sge, 0);
	assert_string_equal((const char *)w->data.inline_data, "first");
	assert_string_equal((const char *)w->data.inline_data + 40, "second");
	sge[1].length = 25; /* 65 of 64 */
	assert_int_equal(post(qp, wr), EINVAL);
	wr.opcode = IBV_WR_RDMA_READ;
	sge[1].length = 1;
	assert_int_equal(post(qp, wr), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* IBTA 10.7.2.2: operations of each transport */
static void opcodes_are_those_of_the_type(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		uint32_t legal;
	} types[] = {
		/*
		 * Not TSO; BIND_MW and FLUSH only with their required fields.
		 */
		{ IBV_QPT_RC, 0x82ff },
		{ IBV_QPT_UC, 0x008f },
		{ IBV_QPT_UD, 0x000c },
	};
	struct ibv_ah *ah = make_ah(*state);
	struct ibv_sge sge = { 0, 8, 0 };

	for (size_t t = 0; t < 3; t++) {
		for (uint32_t op = 0; op < 18; op++) {
			struct ibv_qp *qp = make_qp(*state, types[t].type);
			struct ibv_send_wr wr = { .opcode = op,
						  .sg_list = &sge,
						  .num_sge = 1 };

			if (types[t].type == IBV_QPT_UD)
				wr.wr.ud.ah = ah;
			assert_int_equal(post(qp, wr),
					 types[t].legal >> op & 1 ? 0 : EINVAL);
			assert_int_equal(ibv_destroy_qp(qp), 0);
		}
	}
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void a_datagram_keeps_its_address(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_UD);
	struct ibv_ah *ah = make_ah(*state);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.wr.ud = { .ah = ah, .remote_qpn = 5, .remote_qkey = 6 },
	};

	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0); /* before it was sent */
	assert_int_equal(posted(qp, 0)->wr.ud.dqpn, 5);
	assert_int_equal(posted(qp, 0)->wr.ud.qkey, 6);
	assert_int_equal(posted(qp, 0)->wr.ud.av.dgid[15], 9);
	assert_memory_equal(posted(qp, 0)->wr.ud.av.sgid, ur_fake_v4, 16);
	wr.wr.ud.ah = NULL;
	assert_int_equal(post(qp, wr), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void atomics_are_eight_bytes(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);
	struct ibv_sge sge[2] = { { 0x1000, 8, 1 }, { 0x2000, 4, 1 } };
	struct ibv_send_wr wr = {
		.sg_list = sge,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = { .remote_addr = 64,
			       .compare_add = 1,
			       .swap = 2,
			       .rkey = 3 },
	};

	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(posted(qp, 0)->wr.atomic.compare_add, 1);
	assert_int_equal(posted(qp, 0)->wr.atomic.swap, 2);
	assert_int_equal(posted(qp, 0)->wr.atomic.rkey, 3);
	wr.wr.atomic.remote_addr = 68; /* checked by the responder */
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(posted(qp, 1)->wr.atomic.remote_addr, 68);
	wr.num_sge = 2;
	assert_int_equal(post(qp, wr), EINVAL);
	wr.num_sge = 0;
	assert_int_equal(post(qp, wr), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void messages_end_at_two_gibibytes(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);
	struct ibv_sge sge[2] = { { 0, 0x7fffffff, 1 }, { 0, 1, 1 } };
	struct ibv_send_wr wr = { .sg_list = sge,
				  .num_sge = 2,
				  .opcode = IBV_WR_SEND };

	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(posted(qp, 0)->length, 0x80000000u);
	sge[1].length = 2;
	assert_int_equal(post(qp, wr), EINVAL);
	sge[1].length = UINT32_MAX; /* must not wrap */
	assert_int_equal(post(qp, wr), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void sends_begin_in_rts(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	for (int s = UR_QPS_RESET; s < UR_QPS_RTS; s++) {
		core_qp(qp)->state = (enum ur_qp_state)s;
		assert_int_equal(post(qp, wr), EINVAL);
	}
	assert_int_equal(ur_fake.doorbells, 0);
	for (int s = UR_QPS_RTS; s <= UR_QPS_ERR; s++) {
		core_qp(qp)->state = (enum ur_qp_state)s;
		assert_int_equal(post(qp, wr), 0);
	}
	assert_int_equal(ur_fake.doorbells, 4); /* to be flushed, too */
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void receives_queue_up(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);
	struct ibv_sge sge[5] = { { 0x1000, 10, 1 }, { 0x2000, 20, 2 } };
	struct ibv_recv_wr wr = { .wr_id = 3, .sg_list = sge, .num_sge = 2 };
	struct ibv_recv_wr *bad;
	const struct ur_rwqe *w = ur_rq_slot(&core_qp(qp)->rq, 0);

	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	assert_int_equal(w->wr_id, 3);
	assert_int_equal(w->num_sge, 2);
	assert_int_equal(w->length, 30);
	assert_memory_equal(w->sge, sge, 32);
	assert_int_equal(ur_fake.doorbells, 0);
	wr.num_sge = 5;
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	wr.num_sge = 0;
	for (int i = 1; i < 8; i++)
		assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), ENOMEM);
	core_qp(qp)->state = UR_QPS_RESET;
	core_qp(qp)->rq.head = 1;
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), EINVAL);
	core_qp(qp)->state = UR_QPS_ERR; /* must be flushed */
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	assert_int_equal(ur_fake.doorbells, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void atomic_writes(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_WRITE,
		.wr.rdma = { .remote_addr = 0x2008, .rkey = 0x42 },
	};

	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(posted(qp, 0)->opcode, UR_WR_ATOMIC_WRITE);
	assert_int_equal(posted(qp, 0)->wr.rdma.rkey, 0x42);
	wr.wr.rdma.remote_addr = 0x2004; /* checked by the responder */
	assert_int_equal(post(qp, wr), 0);
	sge.length = 4;
	assert_int_equal(post(qp, wr), EINVAL);
	sge.length = 16;
	assert_int_equal(post(qp, wr), EINVAL);
	wr.opcode = 14; /* FLUSH has builders only */
	assert_int_equal(post(qp, wr), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	qp = make_qp(*state, IBV_QPT_UC);
	sge.length = 8;
	wr.opcode = IBV_WR_ATOMIC_WRITE;
	assert_int_equal(post(qp, wr), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(atomic_writes),
		TEST(a_request_arrives_as_it_was),
		TEST(a_list_rings_once),
		TEST(a_bad_one_stops_the_list),
		TEST(a_full_queue_says_enomem),
		TEST(inline_data_is_copied_at_once),
		TEST(opcodes_are_those_of_the_type),
		TEST(a_datagram_keeps_its_address),
		TEST(atomics_are_eight_bytes),
		TEST(messages_end_at_two_gibibytes),
		TEST(sends_begin_in_rts),
		TEST(receives_queue_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
