/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the experimental verbs refuse: each flag by its name, each bit of each
 * comp_mask, and each call on an object that is not its own.  Nothing is left of a
 * call that was refused (the fixture closes the device, and ASan looks).
 */
#include "setup.h"

#include <infiniband/verbs_exp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/objects.h"

static uint8_t mem[4096];

/* ---- comp_mask ---- */

/* Neither the header's check, nor the library's, which programs with another header
 * reach, takes a bit that the release does not have. */
#define EACH_BIT(from, bit) for (unsigned int bit = (from); bit < 32; bit++)

static void null_and_einval(const void *object)
{
	assert_null(object);
	assert_int_equal(errno, EINVAL);
	errno = 0;
}

/* The header's messages are not to be seen. */
static int silence(void)
{
	int err = dup(2);
	FILE *log = tmpfile();

	assert_non_null(log);
	assert_true(dup2(fileno(log), 2) == 2);
	fclose(log);
	return err;
}

static void listen_again(int err)
{
	assert_true(dup2(err, 2) == 2);
	close(err);
}

static void masks_of_queues(struct fixture *f, struct verbs_context_exp *exp)
{
	struct ibv_exp_qp_init_attr init = { .pd = f->pd };
	struct ibv_exp_cq_init_attr cq_init = { .flags = 0 };
	struct ibv_exp_cq_attr cq = { .cq_cap_flags = 0 };
	struct ibv_exp_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);

	EACH_BIT(13, bit)
	{
		init.comp_mask = 1u << bit;
		null_and_einval(ibv_exp_create_qp(f->ctx, &init));
		null_and_einval(exp->lib_exp_create_qp(f->ctx, &init));
	}
	EACH_BIT(3, bit)
	{
		cq_init.comp_mask = 1u << bit;
		null_and_einval(
			ibv_exp_create_cq(f->ctx, 8, NULL, NULL, 0, &cq_init));
		null_and_einval(
			exp->exp_create_cq(f->ctx, 8, NULL, 0, &cq_init));
	}
	EACH_BIT(2, bit)
	{
		cq.comp_mask = 1u << bit;
		assert_int_equal(ibv_exp_modify_cq(f->cq, &cq, 0), EINVAL);
		assert_int_equal(exp->lib_exp_modify_cq(f->cq, &cq, 0), EINVAL);
		attr.comp_mask = 1u << bit;
		assert_int_equal(ibv_exp_modify_qp(qp, &attr, IBV_EXP_QP_STATE),
				 EINVAL);
		assert_int_equal(exp->lib_exp_modify_qp(qp, &attr, 0), EINVAL);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void masks_of_memory(struct fixture *f, struct verbs_context_exp *exp)
{
	struct ibv_exp_reg_mr_in reg = { .pd = f->pd,
					 .addr = mem,
					 .length = sizeof(mem) };
	struct ibv_exp_create_mr_in in = {
		.pd = f->pd,
		.attr = { .max_klm_list_size = 1,
			  .create_flags = IBV_EXP_MR_INDIRECT_KLMS },
	};
	struct ibv_mr *key = ibv_exp_create_mr(&in);
	struct ibv_exp_mkey_attr attr = { .comp_mask = 0 };
	struct ibv_exp_mkey_list_container_attr list = { .pd = f->pd,
							 .max_klm_list_size =
								 1 };

	assert_non_null(key);
	EACH_BIT(0, bit)
	{
		in.comp_mask = attr.comp_mask = list.comp_mask = 1u << bit;
		null_and_einval(ibv_exp_create_mr(&in));
		null_and_einval(exp->lib_exp_create_mr(&in));
		null_and_einval(ibv_exp_alloc_mkey_list_memory(&list));
		null_and_einval(exp->lib_exp_alloc_mkey_list_memory(&list));
		assert_int_equal(ibv_exp_query_mkey(key, &attr), EINVAL);
		assert_int_equal(exp->lib_exp_query_mkey(key, &attr), EINVAL);
	}
	EACH_BIT(2, bit)
	{
		reg.comp_mask = 1u << bit;
		null_and_einval(ibv_exp_reg_mr(&reg));
		null_and_einval(exp->lib_exp_reg_mr(&reg));
	}
	assert_int_equal(ibv_dereg_mr(key), 0);
}

static void masks_of_requests(struct fixture *f, struct verbs_context_exp *exp)
{
	static const enum ibv_exp_wr_opcode opcodes[] = {
		IBV_EXP_WR_RDMA_WRITE,
		IBV_EXP_WR_RDMA_WRITE_WITH_IMM,
		IBV_EXP_WR_SEND,
		IBV_EXP_WR_SEND_WITH_IMM,
		IBV_EXP_WR_RDMA_READ,
		IBV_EXP_WR_ATOMIC_CMP_AND_SWP,
		IBV_EXP_WR_ATOMIC_FETCH_AND_ADD,
		IBV_EXP_WR_LOCAL_INV,
		IBV_EXP_WR_SEND_WITH_INV,
		IBV_EXP_WR_NOP,
	};
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);
	struct ibv_mw *mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_1);
	struct ibv_exp_mw_bind bind = { .qp = qp, .mw = mw };
	struct ibv_exp_task task = { .task_type = IBV_EXP_TASK_SEND };
	struct ibv_exp_task *bad_task;
	struct ibv_exp_send_wr *bad;

	task.item.qp = qp;
	EACH_BIT(0, bit)
	{
		task.comp_mask = bind.comp_mask = 1u << bit;
		assert_int_equal(ibv_exp_bind_mw(&bind), EINVAL);
		assert_int_equal(exp->lib_exp_bind_mw(&bind), EINVAL);
		assert_int_equal(ibv_exp_post_task(f->ctx, &task, &bad_task),
				 EINVAL);
		assert_int_equal(exp->lib_exp_post_task(f->ctx, &task,
							&bad_task),
				 EINVAL);
		for (size_t i = 0; i < sizeof(opcodes) / sizeof(*opcodes);
		     i++) {
			struct ibv_exp_send_wr wr = { .exp_opcode = opcodes[i],
						      .comp_mask = 1u << bit };

			assert_int_equal(ibv_exp_post_send(qp, &wr, &bad),
					 EINVAL);
		}
	}
	assert_int_equal(core_qp(qp)->sq.tail, 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void each_bit_of_each_mask(void **state)
{
	struct fixture *f = *state;
	struct verbs_context_exp *exp = verbs_get_exp_ctx(f->ctx);
	struct ibv_exp_device_attr dev = {
		.comp_mask = IBV_EXP_DEVICE_ATTR_COMP_MASK_2
	};
	int err = silence();

	errno = 0;
	masks_of_queues(f, exp);
	masks_of_memory(f, exp);
	masks_of_requests(f, exp);
	for (unsigned int bit = 2; bit < 64; bit++) {
		dev.comp_mask_2 = 1ull << bit;
		assert_int_equal(ibv_exp_query_device(f->ctx, &dev), EINVAL);
		assert_int_equal(exp->lib_exp_query_device(f->ctx, &dev),
				 EINVAL);
	}
	listen_again(err);
}

/* ---- the device ---- */

/* Fields that it does not have are neither filled nor reported. */
static void what_the_device_lacks(void **state)
{
	static const uint32_t lacks[] = {
		IBV_EXP_DEVICE_ATTR_RSS_TBL_SZ,
		IBV_EXP_DEVICE_ATTR_MAX_CTX_RES_DOMAIN,
		IBV_EXP_DEVICE_ATTR_RX_HASH,
		IBV_EXP_DEVICE_ATTR_MAX_WQ_TYPE_RQ,
		IBV_EXP_DEVICE_ATTR_MAX_DEVICE_CTX,
		IBV_EXP_DEVICE_ATTR_MP_RQ,
		IBV_EXP_DEVICE_ATTR_VLAN_OFFLOADS,
		IBV_EXP_DEVICE_ATTR_EC_CAPS,
		IBV_EXP_DEVICE_ATTR_RX_PAD_END_ALIGN,
		IBV_EXP_DEVICE_ATTR_EC_GF_BASE,
		IBV_EXP_DEVICE_ATTR_OOO_CAPS,
		IBV_EXP_DEVICE_ATTR_SW_PARSING_CAPS,
		IBV_EXP_DEVICE_ATTR_ODP_MAX_SIZE,
		IBV_EXP_DEVICE_ATTR_TM_CAPS,
		IBV_EXP_DEVICE_ATTR_TUNNEL_OFFLOADS_CAPS,
		IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE,
		IBV_EXP_DEVICE_ATTR_TUNNELED_ATOMIC,
		IBV_EXP_DEVICE_ATTR_COMP_MASK_2,
	};
	static const uint64_t second[] = {
		IBV_EXP_DEVICE_ATTR_UMR_FIXED_SIZE_CAPS,
		IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS,
	};
	const uint64_t caps = IBV_EXP_DEVICE_QPG | IBV_EXP_DEVICE_UD_RSS |
			      IBV_EXP_DEVICE_UD_TSS | IBV_EXP_DEVICE_DC_INFO |
			      IBV_EXP_DEVICE_MW_TYPE_2A |
			      IBV_EXP_DEVICE_SHARED_MR |
			      IBV_EXP_DEVICE_MANAGED_FLOW_STEERING;
	struct fixture *f = *state;
	struct ibv_exp_device_attr a;

	for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		memset(&a, 0, sizeof(a));
		a.comp_mask = lacks[i];
		assert_int_equal(ibv_exp_query_device(f->ctx, &a), 0);
		assert_int_equal(a.comp_mask, 0);
	}
	assert_false(a.ooo_caps.rc_caps &
		     IBV_EXP_OOO_SUPPORT_RW_DATA_PLACEMENT);
	for (size_t i = 0; i < sizeof(second) / sizeof(second[0]); i++) {
		a.comp_mask = IBV_EXP_DEVICE_ATTR_COMP_MASK_2;
		a.comp_mask_2 = second[i];
		assert_int_equal(ibv_exp_query_device(f->ctx, &a), 0);
		assert_int_equal(a.comp_mask_2, 0);
	}
	a.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS;
	assert_int_equal(ibv_exp_query_device(f->ctx, &a), 0);
	assert_int_equal(a.exp_device_cap_flags & caps, 0);
	assert_int_not_equal(a.exp_atomic_cap, IBV_EXP_ATOMIC_NONE);
	assert_int_not_equal(a.exp_atomic_cap, IBV_EXP_ATOMIC_GLOB);
	assert_int_not_equal(a.exp_atomic_cap, IBV_EXP_ATOMIC_HCA_REPLY_BE);
}

/* A field that is not wanted is not filled, whatever the device has. */
static void unrequested_fields_stay_unchanged(void **state)
{
	static const uint32_t has[] = {
		IBV_EXP_DEVICE_ATTR_CALC_CAP,
		IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK,
		IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK,
		IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS,
		IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS,
		IBV_EXP_DEVICE_ATTR_UMR,
		IBV_EXP_DEVICE_ATTR_ODP,
		IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS,
		IBV_EXP_DEVICE_ATTR_TSO_CAPS,
		IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS,
		IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ,
	};
	const size_t from = offsetof(struct ibv_exp_device_attr, calc_cap);
	struct fixture *f = *state;
	struct ibv_exp_device_attr none, a;

	memset(&none, 0x5a, sizeof(none));
	for (size_t i = 0; i < sizeof(has) / sizeof(has[0]); i++) {
		memset(&a, 0x5a, sizeof(a));
		a.comp_mask = has[i];
		assert_int_equal(ibv_exp_query_device(f->ctx, &a), 0);
		assert_int_equal(a.comp_mask, has[i]);
		assert_memory_not_equal((uint8_t *)&a + from,
					(uint8_t *)&none + from,
					sizeof(a) - from);
	}
	memset(&a, 0x5a, sizeof(a));
	a.comp_mask = 0;
	assert_int_equal(ibv_exp_query_device(f->ctx, &a), 0);
	assert_int_equal(a.comp_mask, 0);
	assert_memory_equal((uint8_t *)&a + from, (uint8_t *)&none + from,
			    sizeof(a) - from);
}

/* ---- queue pairs ---- */

static struct ibv_exp_qp_init_attr init_of(struct fixture *f,
					   enum ibv_qp_type type, uint32_t mask)
{
	return (struct ibv_exp_qp_init_attr){
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 8, 8, 4, 4, 64 },
		.qp_type = type,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | mask,
		.pd = f->pd,
	};
}

/* What an RC needs from RESET to INIT */
#define FROM_RESET                                                             \
	((uint64_t)(IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |                 \
		    IBV_EXP_QP_PORT | IBV_EXP_QP_ACCESS_FLAGS))

static void refuse_qp(struct fixture *f, struct ibv_exp_qp_init_attr a, int err)
{
	errno = 0;
	assert_null(ibv_exp_create_qp(f->ctx, &a));
	assert_int_equal(errno, err);
}

static void attributes_of_queue_pairs(void **state)
{
	static const uint32_t operands[] = { 17, UINT32_MAX };
	struct fixture *f = *state;
	struct ibv_exp_qp_init_attr a;

	/* Without a domain, and with one of the wrong kind */
	a = init_of(f, IBV_QPT_RC, IBV_EXP_QP_INIT_ATTR_INL_RECV);
	a.comp_mask &= ~(uint32_t)IBV_EXP_QP_INIT_ATTR_PD;
	refuse_qp(f, a, EINVAL);
	refuse_qp(f, init_of(f, IBV_QPT_RC, IBV_EXP_QP_INIT_ATTR_XRCD), EINVAL);
	for (size_t i = 0; i < sizeof(operands) / sizeof(operands[0]); i++) {
		a = init_of(f, IBV_QPT_RC, IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG);
		a.max_atomic_arg = operands[i];
		refuse_qp(f, a, EINVAL);
	}
	/* Lists without their flag, and on queue pairs that have no requests for them
	 */
	refuse_qp(f, init_of(f, IBV_QPT_RC, IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS),
		  EINVAL);
	a = init_of(f, IBV_QPT_UD, IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS);
	a.exp_create_flags = IBV_EXP_QP_CREATE_UMR;
	refuse_qp(f, a, EINVAL);
	a = init_of(f, IBV_QPT_RC, IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER);
	a.max_tso_header = 1;
	refuse_qp(f, a, EINVAL);
}

static void flags_of_queue_pairs(void **state)
{
	static const struct {
		uint32_t flags;
		enum ibv_qp_type type;
		int err;
	} rows[] = {
		{ IBV_EXP_QP_CREATE_CROSS_CHANNEL, IBV_QPT_UD, EOPNOTSUPP },
		{ IBV_EXP_QP_CREATE_MANAGED_SEND, IBV_QPT_UD, EOPNOTSUPP },
		{ IBV_EXP_QP_CREATE_MANAGED_RECV, IBV_QPT_UD, EOPNOTSUPP },
		{ IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW, IBV_QPT_UD,
		  EOPNOTSUPP },
		{ IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW, IBV_QPT_UD,
		  EOPNOTSUPP },
		{ IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY, IBV_QPT_RC, EOPNOTSUPP },
		{ 1u << 0, IBV_QPT_RC, EINVAL },
		{ 1u << 1, IBV_QPT_RC, EINVAL },
		{ 1u << 5, IBV_QPT_RC, EINVAL },
		{ 1u << 17, IBV_QPT_RC, EINVAL },
		{ 1u << 31, IBV_QPT_RC, EINVAL },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_exp_qp_init_attr a = init_of(
			f, rows[i].type, IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS);

		a.exp_create_flags = rows[i].flags;
		refuse_qp(f, a, rows[i].err);
	}
	/* Every other one of that release, and two that it lacks */
	for (uint32_t bit = 1u << 8; bit < 1u << 17; bit <<= 1) {
		struct ibv_exp_qp_init_attr a = init_of(
			f, IBV_QPT_RC, IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS);

		a.exp_create_flags = bit;
		if (bit != IBV_EXP_QP_CREATE_UMR)
			refuse_qp(f, a, bit & 0x13fc0 ? EOPNOTSUPP : EINVAL);
	}
}

/* A size beyond the reported one is not refused but reduced, and a queue pair without
 * receives is granted none. */
static void inline_receives(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		uint32_t asked, granted;
	} rows[] = {
		{ IBV_QPT_RC, 0, 0 },
		{ IBV_QPT_RC, 1, 1 },
		{ IBV_QPT_RC, 1024, 1024 },
		{ IBV_QPT_RC, 1025, 1024 },
		{ IBV_QPT_RC, 1u << 31, 1024 },
		{ IBV_QPT_UD, UINT32_MAX, 1024 },
		{ IBV_QPT_XRC_SEND, 64, 0 },
		{ (enum ibv_qp_type)IBV_EXP_QPT_DC_INI, 64, 0 },
	};
	struct fixture *f = *state;
	struct ibv_exp_device_attr dev = {
		.comp_mask = IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ
	};

	assert_int_equal(ibv_exp_query_device(f->ctx, &dev), 0);
	assert_int_equal(dev.inline_recv_sz, 1024);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_exp_qp_init_attr a =
			init_of(f, rows[i].type, IBV_EXP_QP_INIT_ATTR_INL_RECV);
		struct ibv_qp *qp;

		a.max_inl_recv = rows[i].asked;
		if (!rows[i].granted) /* some types have no receives */
			a.cap.max_recv_wr = a.cap.max_recv_sge = 0;
		qp = ibv_exp_create_qp(f->ctx, &a);
		assert_non_null(qp);
		assert_int_equal(a.max_inl_recv, rows[i].granted);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

/* From RESET an RC needs the state, and takes three more; every other attribute is
 * refused there, and these without the state. */
static void attributes_in_the_wrong_state(void **state)
{
	static const uint64_t masks[] = {
		IBV_EXP_QP_EN_SQD_ASYNC_NOTIFY,
		IBV_EXP_QP_QKEY,
		IBV_EXP_QP_AV,
		IBV_EXP_QP_PATH_MTU,
		IBV_EXP_QP_TIMEOUT,
		IBV_EXP_QP_RETRY_CNT,
		IBV_EXP_QP_RNR_RETRY,
		IBV_EXP_QP_RQ_PSN,
		IBV_EXP_QP_MAX_QP_RD_ATOMIC,
		IBV_EXP_QP_ALT_PATH,
		IBV_EXP_QP_MIN_RNR_TIMER,
		IBV_EXP_QP_SQ_PSN,
		IBV_EXP_QP_MAX_DEST_RD_ATOMIC,
		IBV_EXP_QP_PATH_MIG_STATE,
		IBV_EXP_QP_CAP,
		IBV_EXP_QP_DEST_QPN,
		IBV_EXP_QP_RATE_LIMIT,
	};
	struct fixture *f = *state;
	struct ibv_exp_qp_init_attr a = init_of(f, IBV_QPT_RC, 0);
	struct ibv_qp *qp = ibv_exp_create_qp(f->ctx, &a);
	struct ibv_exp_qp_attr attr = { .qp_state = IBV_QPS_INIT,
					.cur_qp_state = IBV_QPS_RTS,
					.port_num = 1 };

	assert_non_null(qp);
	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++)
		assert_int_equal(ibv_exp_modify_qp(qp, &attr,
						   FROM_RESET | masks[i]),
				 EINVAL);
	/* It is not in that state. */
	assert_int_equal(ibv_exp_modify_qp(qp, &attr,
					   FROM_RESET | IBV_EXP_QP_CUR_STATE),
			 EINVAL);
	for (unsigned int bit = 0; bit < 21; bit++)
		if (FROM_RESET & 1ull << bit)
			assert_int_equal(ibv_exp_modify_qp(qp, &attr,
							   FROM_RESET ^
								   1ull << bit),
					 EINVAL);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* ---- completion queues ---- */

static void flags_of_completion_queues(void **state)
{
	static const uint32_t lacks[] = {
		IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME,
		IBV_EXP_CQ_COMPRESSED_CQE,
		IBV_EXP_CQ_AS_NOTIFY,
	};
	static const uint32_t masks[] = {
		IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN,
		IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT,
	};
	static const uint32_t has[] = {
		IBV_EXP_CQ_CREATE_CROSS_CHANNEL,
		IBV_EXP_CQ_TIMESTAMP,
	};
	struct fixture *f = *state;
	struct ibv_exp_cq_init_attr a = { .comp_mask =
						  IBV_EXP_CQ_INIT_ATTR_FLAGS };

	for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		a.flags = lacks[i];
		errno = 0;
		assert_null(ibv_exp_create_cq(f->ctx, 8, NULL, NULL, 0, &a));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	/* Of no size, and of a vector that is not there */
	for (size_t i = 0; i < sizeof(has) / sizeof(has[0]); i++) {
		a.flags = has[i];
		errno = 0;
		null_and_einval(
			ibv_exp_create_cq(f->ctx, 0, NULL, NULL, 0, &a));
		null_and_einval(
			ibv_exp_create_cq(f->ctx, -1, NULL, NULL, 0, &a));
		null_and_einval(
			ibv_exp_create_cq(f->ctx, 8, NULL, NULL, -1, &a));
	}
	for (unsigned int bit = 5; bit < 32; bit++) {
		a.flags = 1u << bit;
		null_and_einval(
			ibv_exp_create_cq(f->ctx, 8, NULL, NULL, 0, &a));
	}
	a.flags = 0;
	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		a.comp_mask = masks[i];
		assert_null(ibv_exp_create_cq(f->ctx, 8, NULL, NULL, 0, &a));
		assert_int_equal(errno, EOPNOTSUPP);
	}
}

/* A field is set only where comp_mask says that it is valid. */
static void attributes_of_completion_queues(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_cq_attr a = { .comp_mask = IBV_EXP_CQ_ATTR_MODERATION };

	a.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN;
	assert_int_equal(ibv_exp_modify_cq(f->cq, &a, IBV_EXP_CQ_CAP_FLAGS),
			 EINVAL);
	a.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS;
	assert_int_equal(ibv_exp_modify_cq(f->cq, &a, IBV_EXP_CQ_MODERATION),
			 EINVAL);
	for (unsigned int bit = 1; bit < 32; bit++) {
		a.cq_cap_flags = 1u << bit;
		assert_int_equal(ibv_exp_modify_cq(f->cq, &a,
						   IBV_EXP_CQ_CAP_FLAGS),
				 EINVAL);
	}
	a.cq_cap_flags = 0;
	for (unsigned int bit = 2; bit < 31; bit++)
		assert_int_equal(ibv_exp_modify_cq(f->cq, &a, 1 << bit),
				 EINVAL);
	assert_int_equal(ibv_exp_modify_cq(f->cq, &a, INT32_MIN), EINVAL);
	assert_false(core_cq(f->cq)->ignore_overrun);
}

/* ---- requests ---- */

static int post(struct ibv_qp *qp, struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad = NULL;
	int rc = ibv_exp_post_send(qp, &wr, &bad);

	assert_ptr_equal(bad, rc ? &wr : NULL);
	assert_int_equal(ur_sq_posted(&core_qp(qp)->sq), 0);
	return rc;
}

static void refuse_flags(struct ibv_qp *qp, enum ibv_exp_wr_opcode opcode)
{
	for (unsigned int bit = 4; bit < 64; bit++) {
		struct ibv_exp_send_wr wr = { .exp_opcode = opcode,
					      .exp_send_flags = 1ull << bit };

		/* Of the operations of other tests, and checksums */
		if (bit < 32 || bit > 35)
			assert_int_equal(post(qp, wr), EINVAL);
	}
}

/* Each opcode on a queue pair of a type, or with attributes, that does not have it,
 * and each with every flag that does not exist. */
static void opcodes_in_the_wrong_place(void **state)
{
	static const struct {
		enum ibv_exp_wr_opcode opcode;
		enum ibv_qp_type type;
	} rows[] = {
		{ IBV_EXP_WR_RDMA_WRITE, IBV_QPT_UD },
		{ IBV_EXP_WR_RDMA_WRITE_WITH_IMM, IBV_QPT_UD },
		{ IBV_EXP_WR_SEND, IBV_QPT_UD }, /* without an address */
		{ IBV_EXP_WR_SEND_WITH_IMM, IBV_QPT_UD },
		{ IBV_EXP_WR_RDMA_READ, IBV_QPT_UC },
		{ IBV_EXP_WR_ATOMIC_CMP_AND_SWP, IBV_QPT_UC },
		{ IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, IBV_QPT_UC },
		{ IBV_EXP_WR_LOCAL_INV, IBV_QPT_UD },
		{ IBV_EXP_WR_BIND_MW, IBV_QPT_UD },
		{ IBV_EXP_WR_SEND_WITH_INV, IBV_QPT_UD },
		{ IBV_EXP_WR_TSO, IBV_QPT_RC },
		{ IBV_EXP_WR_SEND_ENABLE, IBV_QPT_RC },
		{ IBV_EXP_WR_RECV_ENABLE, IBV_QPT_RC },
		{ IBV_EXP_WR_CQE_WAIT, IBV_QPT_RC },
		{ IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP, IBV_QPT_UC },
		{ IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, IBV_QPT_UC },
		{ IBV_EXP_WR_NOP, IBV_QPT_UC },
		{ IBV_EXP_WR_UMR_FILL, IBV_QPT_RC },
		{ IBV_EXP_WR_UMR_INVALIDATE, IBV_QPT_RC },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp *qp = make_qp(f, rows[i].type);

		assert_int_equal(post(qp,
				      (struct ibv_exp_send_wr){
					      .exp_opcode = rows[i].opcode }),
				 EINVAL);
		refuse_flags(qp, rows[i].opcode);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

/* Each flag with an operation that does not have it */
static void flags_in_the_wrong_place(void **state)
{
	static const struct {
		uint64_t flag;
		enum ibv_exp_wr_opcode opcode;
	} rows[] = {
		{ IBV_EXP_SEND_SOLICITED, IBV_EXP_WR_NOP },
		{ IBV_EXP_SEND_INLINE, IBV_EXP_WR_RDMA_READ },
		{ IBV_EXP_SEND_INLINE, IBV_EXP_WR_NOP },
		{ IBV_EXP_SEND_IP_CSUM, IBV_EXP_WR_SEND },
		{ IBV_EXP_SEND_WITH_CALC, IBV_EXP_WR_SEND },
		{ IBV_EXP_SEND_WAIT_EN_LAST, IBV_EXP_WR_SEND },
		{ IBV_EXP_SEND_EXT_ATOMIC_INLINE, IBV_EXP_WR_SEND },
		{ IBV_EXP_SEND_EXT_ATOMIC_INLINE,
		  IBV_EXP_WR_ATOMIC_FETCH_AND_ADD },
	};
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);
	struct ibv_sge sge = { (uintptr_t)mem, 8, 1 };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(post(qp,
				      (struct ibv_exp_send_wr){
					      .exp_opcode = rows[i].opcode,
					      .exp_send_flags = rows[i].flag,
					      .sg_list = &sge,
					      .num_sge = 1 }),
				 EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* ---- memory ---- */

static void rights_that_are_refused(void **state)
{
	static const struct {
		uint64_t access;
		int err;
	} rows[] = {
		/* Without the right to write locally */
		{ IBV_EXP_ACCESS_REMOTE_WRITE, EINVAL },
		{ IBV_EXP_ACCESS_REMOTE_ATOMIC, EINVAL },
		{ IBV_EXP_ACCESS_SHARED_MR_USER_READ, EOPNOTSUPP },
		{ IBV_EXP_ACCESS_SHARED_MR_USER_WRITE, EOPNOTSUPP },
		{ IBV_EXP_ACCESS_SHARED_MR_GROUP_READ, EOPNOTSUPP },
		{ IBV_EXP_ACCESS_SHARED_MR_GROUP_WRITE, EOPNOTSUPP },
		{ IBV_EXP_ACCESS_SHARED_MR_OTHER_READ, EOPNOTSUPP },
		{ IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE, EOPNOTSUPP },
		{ IBV_EXP_ACCESS_NO_RDMA, EOPNOTSUPP },
		{ IBV_EXP_ACCESS_MW_ZERO_BASED, EOPNOTSUPP }, /* windows only */
		{ IBV_EXP_ACCESS_RELAXED, EOPNOTSUPP }, /* without ON_DEMAND */
		{ IBV_EXP_ACCESS_PHYSICAL_ADDR, EOPNOTSUPP },
		{ IBV_EXP_ACCESS_TUNNELED_ATOMIC, EOPNOTSUPP },
		/* The memory is the library's. */
		{ IBV_EXP_ACCESS_ALLOCATE_MR, EINVAL },
	};
	struct fixture *f = *state;
	struct ibv_exp_reg_mr_in in = { .pd = f->pd,
					.addr = mem,
					.length = sizeof(mem) };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		in.exp_access = rows[i].access;
		errno = 0;
		assert_null(ibv_exp_reg_mr(&in));
		assert_int_equal(errno, rows[i].err);
	}
	in.exp_access = 0;
	in.comp_mask = IBV_EXP_REG_MR_CREATE_FLAGS;
	in.create_flags = IBV_EXP_REG_MR_CREATE_CONTIG;
	assert_null(ibv_exp_reg_mr(&in));
	assert_int_equal(errno, EOPNOTSUPP);
	in.comp_mask = IBV_EXP_REG_MR_DM;
	assert_null(ibv_exp_reg_mr(&in));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void rights_of_keys(void **state)
{
	static const struct {
		uint64_t access;
		uint32_t flags;
		int err;
	} rows[] = {
		{ IBV_EXP_ACCESS_MW_BIND, IBV_EXP_MR_INDIRECT_KLMS,
		  EOPNOTSUPP },
		{ IBV_EXP_ACCESS_ON_DEMAND, IBV_EXP_MR_INDIRECT_KLMS,
		  EOPNOTSUPP },
		{ IBV_EXP_ACCESS_ALLOCATE_MR, IBV_EXP_MR_INDIRECT_KLMS,
		  EOPNOTSUPP },
		{ 1ull << 63, IBV_EXP_MR_INDIRECT_KLMS, EINVAL },
		{ IBV_EXP_ACCESS_LOCAL_WRITE, 0, EINVAL },
		{ IBV_EXP_ACCESS_LOCAL_WRITE, IBV_EXP_MR_SIGNATURE_EN,
		  EOPNOTSUPP },
		{ IBV_EXP_ACCESS_LOCAL_WRITE, IBV_EXP_MR_FIXED_BUFFER_SIZE,
		  EOPNOTSUPP },
		{ IBV_EXP_ACCESS_LOCAL_WRITE,
		  IBV_EXP_MR_INDIRECT_KLMS | IBV_EXP_MR_SIGNATURE_EN,
		  EOPNOTSUPP },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_exp_create_mr_in in = {
			.pd = f->pd,
			.attr = { .max_klm_list_size = 1,
				  .create_flags = rows[i].flags,
				  .exp_access_flags = rows[i].access },
		};

		errno = 0;
		assert_null(ibv_exp_create_mr(&in));
		assert_int_equal(errno, rows[i].err);
	}
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
		TEST(each_bit_of_each_mask),
		TEST(what_the_device_lacks),
		TEST(unrequested_fields_stay_unchanged),
		TEST(attributes_of_queue_pairs),
		TEST(flags_of_queue_pairs),
		TEST(inline_receives),
		TEST(attributes_in_the_wrong_state),
		TEST(flags_of_completion_queues),
		TEST(attributes_of_completion_queues),
		TEST(opcodes_in_the_wrong_place),
		TEST(flags_in_the_wrong_place),
		TEST(rights_that_are_refused),
		TEST(rights_of_keys),
		IWARP(each_bit_of_each_mask),
		IWARP(what_the_device_lacks),
		IWARP(flags_of_queue_pairs),
		IWARP(inline_receives),
		IWARP(flags_of_completion_queues),
		IWARP(attributes_of_completion_queues),
		IWARP(flags_in_the_wrong_place),
		IWARP(rights_that_are_refused),
		IWARP(rights_of_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
