/* SPDX-License-Identifier: BSD-2-Clause */
/* The experimental verbs: calls without their slot, and what requests of each kind
 * are refused for, by the name of each value. */
#include "setup.h"

#include <infiniband/verbs_exp.h>
#include <stdlib.h>

#include "verbs/objects.h"

static uint8_t mem[4096];

/* ---- calls of a library that lacks them ---- */

struct objects {
	struct fixture *f;
	struct ibv_qp *qp;
	struct ibv_mr *key;
	struct ibv_mw *mw;
	struct ibv_exp_mkey_list_container *list;
};

static int query_device(struct objects *o)
{
	struct ibv_exp_device_attr a = { .comp_mask = 0 };

	return ibv_exp_query_device(o->f->ctx, &a);
}

static int create_qp(struct objects *o)
{
	struct ibv_exp_qp_init_attr a = { .comp_mask = 0 };

	errno = 0;
	return ibv_exp_create_qp(o->f->ctx, &a) ? 0 : errno;
}

static int modify_qp(struct objects *o)
{
	struct ibv_exp_qp_attr a = { .comp_mask = 0 };

	return ibv_exp_modify_qp(o->qp, &a, 0);
}

static int create_cq(struct objects *o)
{
	struct ibv_exp_cq_init_attr a = { .comp_mask = 0 };

	errno = 0;
	return ibv_exp_create_cq(o->f->ctx, 8, NULL, NULL, 0, &a) ? 0 : errno;
}

static int modify_cq(struct objects *o)
{
	struct ibv_exp_cq_attr a = { .comp_mask = 0 };

	return ibv_exp_modify_cq(o->f->cq, &a, 0);
}

static int poll_cq(struct objects *o)
{
	struct ibv_exp_wc wc;

	return -ibv_exp_poll_cq(o->f->cq, 1, &wc, sizeof(wc));
}

static int post_send(struct objects *o)
{
	struct ibv_exp_send_wr wr = { .exp_opcode = IBV_EXP_WR_NOP }, *bad;

	return -ibv_exp_post_send(o->qp, &wr, &bad);
}

static int post_task(struct objects *o)
{
	struct ibv_exp_task t = { .comp_mask = 0 }, *bad;

	return ibv_exp_post_task(o->f->ctx, &t, &bad);
}

static int reg_mr(struct objects *o)
{
	struct ibv_exp_reg_mr_in in = { .pd = o->f->pd };

	errno = 0;
	return ibv_exp_reg_mr(&in) ? 0 : errno;
}

static int bind_mw(struct objects *o)
{
	struct ibv_exp_mw_bind b = { .qp = o->qp, .mw = o->mw };

	return ibv_exp_bind_mw(&b);
}

static int create_mr(struct objects *o)
{
	struct ibv_exp_create_mr_in in = { .pd = o->f->pd };

	errno = 0;
	return ibv_exp_create_mr(&in) ? 0 : errno;
}

static int query_mkey(struct objects *o)
{
	struct ibv_exp_mkey_attr a = { .comp_mask = 0 };

	return ibv_exp_query_mkey(o->key, &a);
}

static int alloc_list(struct objects *o)
{
	struct ibv_exp_mkey_list_container_attr a = { .pd = o->f->pd };

	errno = 0;
	return ibv_exp_alloc_mkey_list_memory(&a) ? 0 : errno;
}

static int dealloc_list(struct objects *o)
{
	return ibv_exp_dealloc_mkey_list_memory(o->list);
}

#define SLOT(name) offsetof(struct verbs_context_exp, name)

static const struct {
	size_t slot;
	int (*call)(struct objects *o);
} calls[] = {
	{ SLOT(lib_exp_query_device), query_device },
	{ SLOT(lib_exp_create_qp), create_qp },
	{ SLOT(lib_exp_modify_qp), modify_qp },
	{ SLOT(exp_create_cq), create_cq },
	{ SLOT(lib_exp_modify_cq), modify_cq },
	{ SLOT(drv_exp_ibv_poll_cq), poll_cq },
	{ SLOT(drv_exp_post_send), post_send },
	{ SLOT(lib_exp_post_task), post_task },
	{ SLOT(lib_exp_reg_mr), reg_mr },
	{ SLOT(lib_exp_bind_mw), bind_mw },
	{ SLOT(lib_exp_create_mr), create_mr },
	{ SLOT(lib_exp_query_mkey), query_mkey },
	{ SLOT(lib_exp_alloc_mkey_list_memory), alloc_list },
	{ SLOT(lib_exp_dealloc_mkey_list_memory), dealloc_list },
};

static struct ibv_mr *make_key(struct fixture *f, uint32_t size)
{
	struct ibv_exp_create_mr_in in = {
		.pd = f->pd,
		.attr = { .max_klm_list_size = size,
			  .create_flags = IBV_EXP_MR_INDIRECT_KLMS },
	};
	struct ibv_mr *key = ibv_exp_create_mr(&in);

	assert_non_null(key);
	return key;
}

static struct ibv_exp_mkey_list_container *make_list(struct fixture *f,
						     uint32_t size)
{
	struct ibv_exp_mkey_list_container_attr a = {
		.pd = f->pd,
		.mkey_list_type = IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR,
		.max_klm_list_size = size,
	};

	return ibv_exp_alloc_mkey_list_memory(&a);
}

static void each_call_without_its_slot(void **state)
{
	struct fixture *f = *state;
	struct objects o = { f, make_qp(f, IBV_QPT_RC), make_key(f, 1),
			     ibv_alloc_mw(f->pd, IBV_MW_TYPE_1),
			     make_list(f, 1) };
	uint8_t *exp = (uint8_t *)verbs_get_exp_ctx(f->ctx);

	assert_non_null(o.list);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *none = NULL, *was;

		memcpy(&was, exp + calls[i].slot, sizeof(was));
		assert_non_null(was);
		memcpy(exp + calls[i].slot, &none, sizeof(none));
		assert_int_equal(calls[i].call(&o), ENOSYS);
		memcpy(exp + calls[i].slot, &was, sizeof(was));
	}
	assert_int_equal(ibv_exp_dealloc_mkey_list_memory(o.list), 0);
	assert_int_equal(ibv_dealloc_mw(o.mw), 0);
	assert_int_equal(ibv_dereg_mr(o.key), 0);
	assert_int_equal(ibv_destroy_qp(o.qp), 0);
}

/* ---- cross-channel ---- */

static struct ibv_qp *make(struct fixture *f, uint32_t flags)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 16, 4, 4, 1, 64 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS,
		.pd = f->pd,
		.exp_create_flags = flags | IBV_EXP_QP_CREATE_UMR,
		.max_inl_send_klms = 2,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(f->ctx, &a);

	assert_non_null(qp);
	to_rts(qp);
	return qp;
}

static int post(struct ibv_qp *qp, struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad = NULL;
	int rc = ibv_exp_post_send(qp, &wr, &bad);

	assert_ptr_equal(bad, rc ? &wr : NULL);
	return rc;
}

static struct ibv_exp_send_wr calculation(struct ibv_sge *sge, int op, int type,
					  int size)
{
	struct ibv_exp_send_wr wr = {
		.exp_opcode = IBV_EXP_WR_SEND,
		.exp_send_flags = IBV_EXP_SEND_WITH_CALC,
		.sg_list = sge,
		.num_sge = 1,
	};

	wr.op.calc.calc_op = (enum ibv_exp_calc_op)op;
	wr.op.calc.data_type = (enum ibv_exp_calc_data_type)type;
	wr.op.calc.data_size = (enum ibv_exp_calc_data_size)size;
	return wr;
}

/* Each operation and type is refused with a value next to it that is none, with an
 * operand of another length, and where there are no such requests. */
static void calculations(void **state)
{
	static const enum ibv_exp_calc_op ops[] = {
		IBV_EXP_CALC_OP_ADD,  IBV_EXP_CALC_OP_MAXLOC,
		IBV_EXP_CALC_OP_BAND, IBV_EXP_CALC_OP_BXOR,
		IBV_EXP_CALC_OP_BOR,
	};
	static const enum ibv_exp_calc_data_type types[] = {
		IBV_EXP_CALC_DATA_TYPE_INT,
		IBV_EXP_CALC_DATA_TYPE_UINT,
		IBV_EXP_CALC_DATA_TYPE_FLOAT,
	};
	const int size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
	struct ibv_qp *qp = make(*state, IBV_EXP_QP_CREATE_CROSS_CHANNEL);
	struct ibv_qp *plain = make(*state, 0);
	struct ibv_sge sge = { (uintptr_t)mem, 16, 1 }, half = sge;

	half.length = 8;
	for (size_t i = 0; i < 15; i++) {
		int op = (int)ops[i % 5], type = (int)types[i / 5];
		int err = op != IBV_EXP_CALC_OP_MAXLOC		? 0
			  : type == IBV_EXP_CALC_DATA_TYPE_UINT ? EOPNOTSUPP
								: EINVAL;

		assert_int_equal(post(qp, calculation(&sge, op, type, size)),
				 err);
		assert_int_equal(post(plain, calculation(&sge, op, type, size)),
				 EINVAL);
		assert_int_equal(post(qp, calculation(&half, op, type, size)),
				 EINVAL);
		assert_int_equal(post(qp,
				      calculation(&sge, op, type, size + 1)),
				 EINVAL);
		assert_int_equal(post(qp, calculation(&sge, op, 3, size)),
				 EINVAL);
		assert_int_equal(post(qp, calculation(&sge, 5, type, size)),
				 EINVAL);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(plain), 0);
}

/* On a queue pair with both: only the flags of waits and enablings */
static void flags_of_tasks(void **state)
{
	static const enum ibv_exp_wr_opcode opcodes[] = {
		IBV_EXP_WR_SEND_ENABLE,
		IBV_EXP_WR_RECV_ENABLE,
		IBV_EXP_WR_CQE_WAIT,
	};
	const uint64_t has = IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED |
			     IBV_EXP_SEND_WAIT_EN_LAST;
	struct ibv_qp *qp = make(*state, IBV_EXP_QP_CREATE_CROSS_CHANNEL);

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		for (unsigned int bit = 0; bit < 64; bit++) {
			struct ibv_exp_send_wr wr = {
				.exp_opcode = opcodes[i],
				.exp_send_flags = 1ull << bit,
			};

			if (!(has & 1ull << bit))
				assert_int_equal(post(qp, wr), EINVAL);
		}
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void types_of_tasks(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *early = make(f, 0), *qp = make(f, 0);
	struct ibv_exp_task t[2], *bad;
	static const int types[] = { IBV_EXP_TASK_SEND, IBV_EXP_TASK_RECV };

	memset(t, 0, sizeof(t));
	core_qp(early)->state = UR_QPS_RESET;
	for (size_t i = 0; i < 2; i++) {
		t[0].task_type = (enum ibv_exp_task_type)types[i];
		t[0].item.qp = early; /* it takes neither yet */
		assert_int_equal(ibv_exp_post_task(f->ctx, t, &bad), EINVAL);
		t[0].item.qp = qp;
		t[0].next = &t[1];
		t[1].item.qp = qp;
		t[1].task_type = (enum ibv_exp_task_type)(2 + i);
		assert_int_equal(ibv_exp_post_task(f->ctx, t, &bad), EINVAL);
		assert_ptr_equal(bad, &t[0]);
		t[0].next = NULL;
		assert_int_equal(ibv_exp_post_task(f->ctx, t, &bad), 0);
	}
	core_qp(early)->state = UR_QPS_RTS;
	assert_int_equal(ibv_destroy_qp(early), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* ---- lists ---- */

static struct ibv_exp_send_wr fill(struct ibv_mr *key, uint32_t type)
{
	struct ibv_exp_send_wr wr = {
		.exp_opcode = IBV_EXP_WR_UMR_FILL,
		.exp_send_flags = IBV_EXP_SEND_INLINE,
	};

	wr.ext_op.umr.umr_type = type;
	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.num_mrs = 1;
	return wr;
}

static void types_of_lists(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make(f, 0);
	struct ibv_mr *key = make_key(f, 1);
	struct ibv_exp_send_wr wr = fill(key, IBV_EXP_UMR_REPEAT);

	errno = 0;
	assert_null(make_list(f, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(make_list(f, UINT32_MAX));
	assert_int_equal(post(qp, fill(key, IBV_EXP_UMR_MR_LIST)), EINVAL);
	assert_int_equal(post(qp, wr), ENOMEM); /* no dimension */
	wr.ext_op.umr.mem_list.rb.stride_dim = 1;
	assert_int_equal(post(qp, wr), EINVAL);
	assert_int_equal(post(qp, fill(key, IBV_EXP_UMR_MR_LIST_FIXED_SIZE)),
			 EOPNOTSUPP);
	for (unsigned int bit = 2; bit < 32; bit++)
		assert_int_equal(post(qp, fill(key, 1u << bit)), EINVAL);
	/* FILL and INVALIDATE have few flags. */
	for (unsigned int bit = 4; bit < 64; bit++) {
		wr = fill(key, IBV_EXP_UMR_MR_LIST);
		wr.exp_send_flags |= 1ull << bit;
		assert_int_equal(post(qp, wr), EINVAL);
		wr.exp_opcode = IBV_EXP_WR_UMR_INVALIDATE;
		assert_int_equal(post(qp, wr), EINVAL);
	}
	assert_int_equal(ur_sq_posted(&core_qp(qp)->sq), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(key), 0);
}

/* ---- completions and attributes ---- */

/* Packets on Ethernet have neither a service level nor a LID. */
static void flags_that_no_completion_has(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_wc wc;

	complete(f->cq, 0, 1);
	assert_int_equal(ibv_exp_poll_cq(f->cq, 1, &wc, sizeof(wc)), 1);
	assert_int_equal(wc.exp_wc_flags &
				 (IBV_EXP_WC_WITH_SL | IBV_EXP_WC_WITH_SLID),
			 0);
}

/* List operations of tag matching, and flags of checked checksums */
static void opcodes_of_tag_matching_and_checksum_flags(void **state)
{
	static const struct {
		struct ur_cqe cqe;
		int opcode;
		uint64_t flags;
	} rows[] = {
		{ { .opcode = UR_WC_TM_ADD }, IBV_EXP_WC_TM_ADD, 0 },
		{ { .opcode = UR_WC_TM_DEL }, IBV_EXP_WC_TM_DEL, 0 },
		{ { .opcode = UR_WC_TM_SYNC, .flags = UR_WC_TM_SYNC_REQ },
		  IBV_EXP_WC_TM_SYNC,
		  IBV_EXP_WC_TM_SYNC_REQ },
		{ { .opcode = UR_WC_TM_RECV,
		    .flags = UR_WC_TM_MATCH | UR_WC_TM_DATA_VALID },
		  IBV_EXP_WC_TM_RECV,
		  IBV_EXP_WC_TM_MATCH | IBV_EXP_WC_TM_DATA_VALID },
		{ { .opcode = UR_WC_TM_NO_TAG }, IBV_EXP_WC_TM_NO_TAG, 0 },
		{ { .opcode = UR_WC_TSO }, IBV_EXP_WC_TSO, 0 },
		{ { .opcode = UR_WC_RECV, .flags = UR_WC_IP_CSUM_OK },
		  IBV_EXP_WC_RECV,
		  IBV_EXP_WC_RX_IP_CSUM_OK | IBV_EXP_WC_RX_TCP_UDP_CSUM_OK },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_exp_wc wc;

		assert_true(ur_cq_push(core_cq(f->cq), &rows[i].cqe, false));
		assert_int_equal(ibv_exp_poll_cq(f->cq, 1, &wc, sizeof(wc)), 1);
		assert_int_equal(wc.exp_opcode, rows[i].opcode);
		assert_int_equal(wc.exp_wc_flags, rows[i].flags);
	}
}

static void the_q_key_of_datagrams(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 8, 8, 1, 1, 0 },
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD,
		.pd = f->pd,
	};
	struct ibv_exp_qp_attr a = { .qp_state = IBV_QPS_INIT,
				     .port_num = 1,
				     .qkey = 0x1234 };
	struct ibv_qp *qp = ibv_exp_create_qp(f->ctx, &init);

	assert_non_null(qp);
	assert_int_equal(
		ibv_exp_modify_qp(qp, &a,
				  IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
					  IBV_EXP_QP_PORT | IBV_EXP_QP_QKEY),
		0);
	assert_int_equal(core_qp(qp)->attr.qkey, 0x1234);
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
		TEST(each_call_without_its_slot),
		TEST(calculations),
		TEST(flags_of_tasks),
		TEST(types_of_tasks),
		TEST(types_of_lists),
		TEST(flags_that_no_completion_has),
		TEST(opcodes_of_tag_matching_and_checksum_flags),
		TEST(the_q_key_of_datagrams),
		IWARP(each_call_without_its_slot),
		IWARP(calculations),
		IWARP(flags_of_tasks),
		IWARP(types_of_lists),
		IWARP(flags_that_no_completion_has),
		IWARP(opcodes_of_tag_matching_and_checksum_flags),
		IWARP(the_q_key_of_datagrams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
