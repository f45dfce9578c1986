/* SPDX-License-Identifier: BSD-2-Clause */
/* Extended atomics: what is reported, posted, refused and completed. */
#include "setup.h"

#include <errno.h>
#include <string.h>

#include <infiniband/verbs_exp.h>

#include "core/masked.h"

#define CAS IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP
#define ADD IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD

static struct ibv_qp *make_sized_qp(struct fixture *f, enum ibv_qp_type type,
				    uint32_t max_atomic_arg)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 8, 8, 4, 4, 0 },
		.qp_type = type,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.pd = f->pd,
		.max_atomic_arg = max_atomic_arg,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(f->ctx, &a);

	assert_non_null(qp);
	core_qp(qp)->state = UR_QPS_RTS;
	return qp;
}

static struct ibv_exp_send_wr request(enum ibv_exp_wr_opcode op, uint32_t log,
				      struct ibv_sge *sge, int n)
{
	struct ibv_exp_send_wr wr = {
		.wr_id = 7,
		.sg_list = sge,
		.num_sge = n,
		.exp_opcode = op,
		.exp_send_flags = IBV_EXP_SEND_EXT_ATOMIC_INLINE |
				  IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_FENCE,
	};

	wr.ext_op.masked_atomics.log_arg_sz = log;
	wr.ext_op.masked_atomics.remote_addr = 0x12340;
	wr.ext_op.masked_atomics.rkey = 0x42;
	return wr;
}

static int post(struct ibv_qp *qp, struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad = NULL;
	uint32_t before = core_qp(qp)->sq.tail;
	int rc = ibv_exp_post_send(qp, &wr, &bad);

	assert_int_equal(core_qp(qp)->sq.tail, before + (rc == 0));
	assert_ptr_equal(bad, rc ? &wr : NULL);
	core_qp(qp)->sq.head = core_qp(qp)->sq.tail;
	return rc;
}

static struct ur_swqe *posted(struct ibv_qp *qp)
{
	return ur_sq_slot(&core_qp(qp)->sq, core_qp(qp)->sq.tail - 1);
}

static const struct ur_masked *operands(struct ibv_qp *qp)
{
	return ur_swqe_masked(&core_qp(qp)->sq, posted(qp));
}

static void what_the_device_says(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_device_attr a = {
		.comp_mask = IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS |
			     IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS |
			     IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS,
	};
	uint32_t max = ur_masked_max();
	uint32_t log = max == 16 ? 4 : 3;

	assert_int_equal(ibv_exp_query_device(f->ctx, &a), 0);
	assert_int_equal(a.ext_atom.log_atomic_arg_sizes, 4 | 8 | max);
	assert_int_equal(a.ext_atom.max_fa_bit_boundary, log);
	assert_int_equal(a.ext_atom.log_max_atomic_inline, log + 2);
	assert_int_equal(a.masked_atomic.masked_log_atomic_arg_sizes,
			 4 | 8 | max);
	assert_int_equal(a.masked_atomic.max_fa_bit_boundary, log);
	assert_int_equal(a.masked_atomic.log_max_atomic_inline, log + 2);
	assert_int_equal(
		a.masked_atomic.masked_log_atomic_arg_sizes_network_endianness,
		0);
	assert_true(a.exp_device_cap_flags & IBV_EXP_DEVICE_EXT_ATOMICS);
	assert_true(a.exp_device_cap_flags & IBV_EXP_DEVICE_EXT_MASKED_ATOMICS);
}

static void operands_in_the_request(void **state)
{
	struct ibv_qp *qp = make_sized_qp(*state, IBV_QPT_RC, 8);
	struct ibv_sge sge[2] = { { 0x1000, 3, 1 }, { 0x2000, 5, 1 } };
	struct ibv_exp_send_wr wr = request(CAS, 3, sge, 2);
	const struct ur_swqe *w;

	wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap =
		(struct ibv_exp_cmp_swap){ .compare_mask = 1,
					   .compare_val = 2,
					   .swap_val = 3,
					   .swap_mask = 4 };
	assert_int_equal(post(qp, wr), 0);
	w = posted(qp);
	assert_int_equal(w->opcode, UR_WR_MASKED_CMP_SWP);
	assert_int_equal(w->flags, UR_SEND_SIGNALED | UR_SEND_FENCE);
	assert_int_equal(w->wr_id, 7);
	assert_int_equal(w->length, 8);
	assert_int_equal(w->num_sge, 2);
	assert_int_equal(w->wr.atomic.remote_addr, 0x12340);
	assert_int_equal(w->wr.atomic.rkey, 0x42);
	assert_memory_equal(w->data.sge, sge, sizeof(sge));
	assert_memory_equal(operands(qp),
			    (&(struct ur_masked){ .value = { 3 },
						  .compare = { 2 },
						  .mask = { 4 },
						  .compare_mask = { 1 } }),
			    sizeof(struct ur_masked));
	sge[0].length = 4;
	wr = request(ADD, 2, sge, 1);
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
		(struct ibv_exp_fetch_add){ .add_val = 5, .field_boundary = 6 };
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(posted(qp)->opcode, UR_WR_MASKED_FETCH_ADD);
	assert_int_equal(posted(qp)->length, 4);
	assert_int_equal(operands(qp)->value[0], 5);
	assert_int_equal(operands(qp)->mask[0], 6);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* Larger than 8 bytes: addresses, read while posting. */
static void operands_behind_pointers(void **state)
{
	uint64_t word[4][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } };
	struct ibv_sge sge = { 0x1000, 16, 1 };
	struct ibv_exp_send_wr wr = request(CAS, 4, &sge, 1);
	struct ibv_qp *qp;

	if (ur_masked_max() < 16)
		skip();
	qp = make_sized_qp(*state, IBV_QPT_RC, 16);
	wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap =
		(struct ibv_exp_cmp_swap){ .compare_mask = (uintptr_t)word[0],
					   .compare_val = (uintptr_t)word[1],
					   .swap_val = (uintptr_t)word[2],
					   .swap_mask = (uintptr_t)word[3] };
	assert_int_equal(post(qp, wr), 0);
	memset(word, 0, sizeof(word));
	assert_memory_equal(operands(qp),
			    (&(struct ur_masked){ .value = { 5, 6 },
						  .compare = { 3, 4 },
						  .mask = { 7, 8 },
						  .compare_mask = { 1, 2 } }),
			    sizeof(struct ur_masked));
	word[0][1] = 9;
	word[1][0] = 8;
	wr = request(ADD, 4, &sge, 1);
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
		(struct ibv_exp_fetch_add){ .add_val = (uintptr_t)word[0],
					    .field_boundary =
						    (uintptr_t)word[1] };
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(operands(qp)->value[1], 9);
	assert_int_equal(operands(qp)->mask[0], 8);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void what_is_refused(void **state)
{
	struct ibv_qp *qp = make_sized_qp(*state, IBV_QPT_RC, 8);
	struct ibv_qp *none = make_sized_qp(*state, IBV_QPT_RC, 0);
	struct ibv_qp *uc = make_sized_qp(*state, IBV_QPT_UC, 8);
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_exp_send_wr wr = request(ADD, 3, &sge, 1);

	assert_int_equal(post(none, wr), EINVAL);
	assert_int_equal(post(uc, wr), EINVAL);
	assert_int_equal(post(qp, wr), 0);
	wr.comp_mask = 1;
	assert_int_equal(post(qp, wr), EINVAL);
	wr = request(ADD, 3, &sge, 1);
	wr.exp_send_flags &= ~(uint64_t)IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	assert_int_equal(post(qp, wr), EINVAL);
	for (uint32_t bit = 3; bit < 64; bit++) {
		wr = request(ADD, 3, &sge, 1);
		if (wr.exp_send_flags & UINT64_C(1) << bit)
			continue;
		wr.exp_send_flags |= UINT64_C(1) << bit;
		assert_int_equal(post(qp, wr), EINVAL);
	}
	/* 16 is more than the queue pair has room for. */
	for (uint32_t log = 0; log < 80; log++) {
		sge.length = log < 6 ? 1u << log : 8;
		wr = request(CAS, log, &sge, 1);
		assert_int_equal(post(qp, wr),
				 log == 2 || log == 3 ? 0 : EINVAL);
	}
	wr = request(CAS, 3, &sge, 1);
	for (uint32_t len = 0; len < 20; len++) {
		sge.length = len;
		assert_int_equal(post(qp, wr), len == 8 ? 0 : EINVAL);
	}
	sge.length = 8;
	wr.num_sge = -1;
	assert_int_equal(post(qp, wr), EINVAL);
	wr.num_sge = 5;
	assert_int_equal(post(qp, wr), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(none), 0);
	assert_int_equal(ibv_destroy_qp(uc), 0);
}

static void how_they_complete(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make_sized_qp(f, IBV_QPT_RC, 8);
	struct ur_cqe c = { .qp = core_qp(qp), .byte_len = 4 };
	struct ur_cq *cq = core_cq(f->cq);
	struct ibv_exp_wc exp;
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++) {
		c.opcode = i ? UR_WC_MASKED_COMP_SWAP : UR_WC_MASKED_FETCH_ADD;
		assert_true(ur_cq_push(cq, &c, false));
		assert_true(ur_cq_push(cq, &c, false));
		assert_int_equal(ibv_exp_poll_cq(f->cq, 1, &exp, sizeof(exp)),
				 1);
		assert_int_equal(exp.exp_opcode,
				 i ? IBV_EXP_WC_MASKED_COMP_SWAP
				   : IBV_EXP_WC_MASKED_FETCH_ADD);
		assert_int_equal(exp.byte_len, 4);
		assert_int_equal(ibv_poll_cq(f->cq, 1, &wc), 1);
		assert_int_equal(wc.opcode,
				 i ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)
#define IWARP(fn)                                                              \
	{                                                                      \
		"iwarp: " #fn, fn, fixture_open_iwarp, fixture_close, NULL     \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_the_device_says),	TEST(operands_in_the_request),
		TEST(operands_behind_pointers), TEST(what_is_refused),
		TEST(how_they_complete),	IWARP(how_they_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
