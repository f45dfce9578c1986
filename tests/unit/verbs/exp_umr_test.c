/* SPDX-License-Identifier: BSD-2-Clause */
/* UMR: keys, containers, and what is refused when a request is posted. */
#include "setup.h"

#include <infiniband/verbs_exp.h>
#include <stdlib.h>

#include "core/umr.h"
#include "verbs/objects.h"

static uint8_t mem[4096];
static struct ibv_mr *mr;

static struct ibv_qp *umr_qp(struct fixture *f, uint32_t klms)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 8, 8, 4, 4, 64 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS,
		.pd = f->pd,
		.exp_create_flags = IBV_EXP_QP_CREATE_UMR,
		.max_inl_send_klms = klms,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(f->ctx, &a);

	if (qp)
		((struct urv_qp *)qp)->core.state = UR_QPS_RTS;
	return qp;
}

static struct ibv_mr *make_key(struct fixture *f, uint32_t size, uint32_t flags,
			       uint64_t access)
{
	struct ibv_exp_create_mr_in in = {
		.pd = f->pd,
		.attr = { .max_klm_list_size = size,
			  .create_flags = flags,
			  .exp_access_flags = access },
	};

	errno = 0;
	return ibv_exp_create_mr(&in);
}

static struct ibv_exp_mkey_list_container *
make_list(struct fixture *f, uint32_t size, uint32_t type)
{
	struct ibv_exp_mkey_list_container_attr a = {
		.pd = f->pd,
		.mkey_list_type = type,
		.max_klm_list_size = size,
	};

	errno = 0;
	return ibv_exp_alloc_mkey_list_memory(&a);
}

static void keys_and_containers(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_mkey_attr got = { .comp_mask = 0 };
	struct ibv_mr *key = make_key(f, 5, IBV_EXP_MR_INDIRECT_KLMS,
				      IBV_EXP_ACCESS_LOCAL_WRITE);
	struct ibv_exp_mkey_list_container *list = make_list(f, 7, 0);

	assert_non_null(key);
	assert_int_equal(key->lkey, key->rkey);
	assert_int_equal(key->length, 0);
	assert_int_equal(ibv_exp_query_mkey(key, &got), 0);
	assert_int_equal(got.max_klm_list_size, 5);
	assert_int_equal(ibv_exp_query_mkey(mr, &got), EINVAL);
	assert_non_null(list);
	assert_int_equal(list->max_klm_list_size, 7);
	/* Both are of the domain. */
	assert_int_equal(ibv_dealloc_pd(f->pd), EBUSY);
	assert_int_equal(ibv_exp_dealloc_mkey_list_memory(list), 0);
	assert_int_equal(ibv_dereg_mr(key), 0);

	assert_null(make_key(f, 5, 0, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(make_key(f, 5, IBV_EXP_MR_SIGNATURE_EN, 0));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(make_key(f, 5, 8, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(make_key(f, 5, IBV_EXP_MR_INDIRECT_KLMS,
			     IBV_EXP_ACCESS_MW_BIND));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(make_key(f, 0, IBV_EXP_MR_INDIRECT_KLMS, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(
		make_key(f, UR_UMR_BLOCKS + 1, IBV_EXP_MR_INDIRECT_KLMS, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(make_list(f, 0, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(make_list(f, UR_UMR_BLOCKS + 1, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(make_list(f, 1, 1));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(umr_qp(f, UR_UMR_INLINE + 1));
	assert_int_equal(errno, EINVAL);
}

static int post(struct ibv_qp *qp, struct ibv_exp_send_wr wr)
{
	struct ur_sq *sq = &((struct urv_qp *)qp)->core.sq;
	struct ibv_exp_send_wr *bad = NULL;
	int rc = ibv_exp_post_send(qp, &wr, &bad);

	assert_ptr_equal(bad, rc ? &wr : NULL);
	sq->head = sq->tail;
	return rc;
}

/* One change to a valid request, and its error. */
#define REFUSE(err, change)                                                    \
	do {                                                                   \
		struct ibv_exp_send_wr w = good;                               \
		change;                                                        \
		assert_int_equal(post(qp, w), err);                            \
	} while (0)

static void refuse_flags(struct ibv_qp *qp, struct ibv_exp_send_wr good)
{
	REFUSE(EINVAL, w.exp_send_flags |= IBV_EXP_SEND_INLINE);
	REFUSE(0, (w.exp_send_flags |= IBV_EXP_SEND_INLINE,
		   w.ext_op.umr.num_mrs = 2));
	REFUSE(EINVAL, w.exp_send_flags |= IBV_EXP_SEND_WITH_CALC);
	REFUSE(EINVAL, w.ext_op.umr.memory_objects = NULL);
}

static void refuse_lists(struct ibv_qp *qp, struct ibv_exp_send_wr good)
{
	struct ibv_exp_mem_region *r = good.ext_op.umr.mem_list.mem_reg_list;

	REFUSE(EINVAL, w.ext_op.umr.num_mrs = 0);
	REFUSE(EINVAL, w.ext_op.umr.num_mrs = 4); /* of the key's 3 */
	REFUSE(EINVAL, w.ext_op.umr.num_mrs = 5);
	REFUSE(EINVAL, w.ext_op.umr.modified_mr = NULL);
	REFUSE(EINVAL, w.ext_op.umr.modified_mr = mr);
	REFUSE(EINVAL, w.ext_op.umr.mem_list.mem_reg_list = NULL);
	REFUSE(EINVAL, w.ext_op.umr.umr_type = 3);
	REFUSE(EOPNOTSUPP,
	       w.ext_op.umr.umr_type = IBV_EXP_UMR_MR_LIST_FIXED_SIZE);
	REFUSE(EOPNOTSUPP, w.ext_op.umr.exp_access = IBV_EXP_ACCESS_MW_BIND);
	r[1].mr = NULL;
	REFUSE(EINVAL, w.comp_mask = 0);
	r[1].mr = mr;
	r[1].length = 0;
	REFUSE(EINVAL, w.comp_mask = 0);
}

static void refuse_repeats(struct ibv_qp *qp, struct ibv_exp_send_wr good)
{
	struct ibv_exp_mem_repeat_block *b =
		good.ext_op.umr.mem_list.rb.mem_repeat_block_list;
	size_t *count = good.ext_op.umr.mem_list.rb.repeat_count;

	REFUSE(ENOMEM, w.ext_op.umr.mem_list.rb.stride_dim = 2);
	REFUSE(ENOMEM, w.ext_op.umr.mem_list.rb.stride_dim = 0);
	REFUSE(EINVAL, w.ext_op.umr.mem_list.rb.repeat_count = NULL);
	*count = 0;
	REFUSE(EINVAL, w.comp_mask = 0);
	*count = SIZE_MAX;
	REFUSE(EINVAL, w.comp_mask = 0);
	*count = 4;
	b->stride = NULL;
	REFUSE(EINVAL, w.comp_mask = 0);
}

static void what_is_refused(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = umr_qp(f, 2);
	struct ibv_mr *key = make_key(f, 3, IBV_EXP_MR_INDIRECT_KLMS, 0);
	struct ibv_exp_mkey_list_container *list = make_list(f, 4, 0);
	struct ibv_exp_mem_region r[4];
	size_t bytes = 8, stride = 16, count = 4;
	struct ibv_exp_mem_repeat_block b = { (uintptr_t)mem, mr, &bytes,
					      &stride };
	struct ibv_exp_send_wr good = {
		.exp_opcode = IBV_EXP_WR_UMR_FILL,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
	};

	for (size_t i = 0; i < 4; i++)
		r[i] = (struct ibv_exp_mem_region){ (uintptr_t)mem, mr, 8 };
	good.ext_op.umr.modified_mr = key;
	good.ext_op.umr.memory_objects = list;
	good.ext_op.umr.num_mrs = 3;
	good.ext_op.umr.mem_list.mem_reg_list = r;
	assert_int_equal(post(qp, good), 0);
	refuse_flags(qp, good);
	refuse_lists(qp, good);

	good.ext_op.umr.umr_type = IBV_EXP_UMR_REPEAT;
	good.ext_op.umr.num_mrs = 1;
	good.ext_op.umr.mem_list.rb.mem_repeat_block_list = &b;
	good.ext_op.umr.mem_list.rb.repeat_count = &count;
	good.ext_op.umr.mem_list.rb.stride_dim = 1;
	assert_int_equal(post(qp, good), 0);
	refuse_repeats(qp, good);

	/* Needs the key only. */
	memset(&good.ext_op, 0, sizeof(good.ext_op));
	good.exp_opcode = IBV_EXP_WR_UMR_INVALIDATE;
	good.ext_op.umr.modified_mr = key;
	assert_int_equal(post(qp, good), 0);
	REFUSE(EINVAL, w.ext_op.umr.modified_mr = mr);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_exp_dealloc_mkey_list_memory(list), 0);
	assert_int_equal(ibv_dereg_mr(key), 0);
}

/* One more than the queue holds: the list is not lost (ASan looks). */
static void the_queue_is_full(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = umr_qp(f, 2);
	struct ibv_mr *key = make_key(f, 3, IBV_EXP_MR_INDIRECT_KLMS, 0);
	struct ibv_exp_mem_region r = { (uintptr_t)mem, mr, 8 };
	struct ibv_exp_send_wr *bad, wr = {
		.exp_opcode = IBV_EXP_WR_UMR_FILL,
		.exp_send_flags = IBV_EXP_SEND_INLINE,
	};

	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.num_mrs = 1;
	wr.ext_op.umr.mem_list.mem_reg_list = &r;
	for (int i = 0; i < 8; i++)
		assert_int_equal(ibv_exp_post_send(qp, &wr, &bad), 0);
	assert_int_equal(ibv_exp_post_send(qp, &wr, &bad), ENOMEM);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(key), 0);
}

static struct ibv_exp_send_wr fill_of(struct ibv_mr *key,
				      struct ibv_exp_mem_region *r)
{
	struct ibv_exp_send_wr wr = {
		.exp_opcode = IBV_EXP_WR_UMR_FILL,
		.exp_send_flags = IBV_EXP_SEND_INLINE,
	};

	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.num_mrs = 1;
	wr.ext_op.umr.mem_list.mem_reg_list = r;
	return wr;
}

/* What precedes the bad one is posted, what follows is not (ASan looks). */
static void the_chain_ends_at_a_bad_one(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = umr_qp(f, 2);
	struct ur_sq *sq = &((struct urv_qp *)qp)->core.sq;
	struct ibv_mr *key = make_key(f, 3, IBV_EXP_MR_INDIRECT_KLMS, 0);
	struct ibv_exp_mem_region r[2] = { { (uintptr_t)mem, mr, 8 },
					   { (uintptr_t)mem, mr, 16 } };
	struct ibv_exp_send_wr wr[4], *bad;

	for (int i = 0; i < 4; i++)
		wr[i] = fill_of(key, &r[i & 1]);
	wr[2] = fill_of(mr, &r[0]);
	for (int i = 0; i < 3; i++)
		wr[i].next = &wr[i + 1];
	assert_int_equal(ibv_exp_post_send(qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[2]);
	assert_int_equal(ur_sq_posted(sq) - ur_sq_head(sq), 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct ur_umr_list *list =
			((struct urv_qp *)qp)->core.umr[i];

		assert_int_equal(list->length, 8 * (i + 1));
		assert_int_equal(list->key, key->lkey);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(key), 0);
}

static void tasks_may_fill(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp[2] = { umr_qp(f, 2), umr_qp(f, 2) };
	struct ibv_mr *key = make_key(f, 3, IBV_EXP_MR_INDIRECT_KLMS, 0);
	struct ibv_exp_mem_region r[2] = { { (uintptr_t)mem, mr, 8 },
					   { (uintptr_t)mem, mr, 16 } };
	struct ibv_exp_send_wr wr[2];
	struct ibv_exp_task task[2] = { { .next = NULL } }, *bad;

	for (int i = 0; i < 2; i++) {
		wr[i] = fill_of(key, &r[i]);
		task[i].task_type = IBV_EXP_TASK_SEND;
		task[i].item.qp = qp[i];
		task[i].item.send_wr = &wr[i];
	}
	task[0].next = &task[1];
	assert_int_equal(ibv_exp_post_task(f->ctx, task, &bad), 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct urv_qp *q = (struct urv_qp *)qp[i];

		assert_int_equal(ur_sq_posted(&q->core.sq), 1);
		assert_int_equal(q->core.umr[0]->length, 8 * (i + 1));
	}
	wr[1].ext_op.umr.modified_mr = mr;
	assert_int_equal(ibv_exp_post_task(f->ctx, task, &bad), EINVAL);
	assert_ptr_equal(bad, task);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(
			ur_sq_posted(&((struct urv_qp *)qp[i])->core.sq), 1);
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	}
	assert_int_equal(ibv_dereg_mr(key), 0);
}

/* The numbers of these requests within the library are no opcodes. */
static void standard_posting_refuses_them(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = umr_qp(f, 2);

	for (int op = UR_WR_NOP; op < 40; op++) {
		struct ibv_send_wr *bad = NULL, wr = {
			.opcode = (enum ibv_wr_opcode)op,
		};

		assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
		assert_ptr_equal(bad, &wr);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static int with_region_of(void **state, int (*open)(void **))
{
	int rc = open(state);
	struct fixture *f = *state;

	mr = ibv_reg_mr(f->pd, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	return rc;
}

static int with_region(void **state)
{
	return with_region_of(state, fixture_open);
}

static int with_iwarp_region(void **state)
{
	return with_region_of(state, fixture_open_iwarp);
}

static int without_region(void **state)
{
	assert_int_equal(ibv_dereg_mr(mr), 0);
	return fixture_close(state);
}

int main(void)
{
#define T(f)                                                                   \
	cmocka_unit_test_setup_teardown(f, with_region, without_region),       \
	{                                                                      \
		"iwarp: " #f, f, with_iwarp_region, without_region, NULL       \
	}
	const struct CMUnitTest tests[] = {
		T(keys_and_containers), T(what_is_refused),
		T(the_queue_is_full),	T(the_chain_ends_at_a_bad_one),
		T(tasks_may_fill),	T(standard_posting_refuses_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
