/* SPDX-License-Identifier: BSD-2-Clause */
/* The experimental verbs: the table below the context, layouts, attributes. */
#include "setup.h"

#include <infiniband/verbs_exp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Number of the slot from the end: 1 is `sz`. */
#define FROM_END(slot)                                                         \
	((sizeof(struct verbs_context_exp) -                                   \
	  offsetof(struct verbs_context_exp, slot)) /                          \
	 sizeof(void *))

static void slots_have_their_places(void **state)
{
	assert_int_equal(FROM_END(sz), 1);
	assert_int_equal(FROM_END(lib_exp_create_qp), 2);
	assert_int_equal(FROM_END(lib_exp_query_device), 4);
	assert_int_equal(FROM_END(drv_exp_query_device), 5);
	assert_int_equal(FROM_END(query_dct), 6);
	assert_int_equal(FROM_END(destroy_dct), 7);
	assert_int_equal(FROM_END(create_dct), 8);
	assert_int_equal(FROM_END(lib_exp_query_port), 9);
	assert_int_equal(FROM_END(lib_exp_ibv_create_flow), 11);
	assert_int_equal(FROM_END(lib_exp_ibv_destroy_flow), 13);
	assert_int_equal(FROM_END(lib_exp_modify_cq), 15);
	assert_int_equal(FROM_END(lib_exp_post_task), 17);
	assert_int_equal(FROM_END(lib_exp_modify_qp), 19);
	assert_int_equal(FROM_END(lib_exp_ibv_reg_shared_mr), 21);
	assert_int_equal(FROM_END(drv_exp_set_legacy_xrc), 23);
	assert_int_equal(FROM_END(drv_exp_get_legacy_xrc), 24);
	assert_int_equal(FROM_END(drv_exp_ibv_poll_cq), 25);
	assert_int_equal(FROM_END(exp_create_cq), 26);
	assert_int_equal(FROM_END(drv_exp_query_values), 27);
	assert_int_equal(FROM_END(drv_exp_ibv_create_ah), 28);
	assert_int_equal(FROM_END(lib_exp_reg_mr), 29);
	assert_int_equal(FROM_END(drv_exp_post_send), 31);
	assert_int_equal(FROM_END(lib_exp_bind_mw), 32);
	assert_int_equal(FROM_END(lib_exp_arm_dct), 34);
	assert_int_equal(FROM_END(lib_exp_create_mr), 36);
	assert_int_equal(FROM_END(lib_exp_query_mkey), 38);
	assert_int_equal(FROM_END(lib_exp_dealloc_mkey_list_memory), 40);
	assert_int_equal(FROM_END(lib_exp_alloc_mkey_list_memory), 42);
	assert_int_equal(FROM_END(lib_exp_prefetch_mr), 44);
	assert_int_equal(FROM_END(drv_exp_dereg_mr), 48);
	assert_int_equal(FROM_END(venv), 49);
	assert_int_equal(FROM_END(lib_exp_setenv), 50);
	assert_int_equal(FROM_END(exp_query_intf), 55);
	assert_int_equal(FROM_END(drv_exp_poll_dc_info), 56);
}

/* As the C compilers of x86-64 and arm64 lay out that release's structures. */
static void structures_have_their_layout(void **state)
{
	assert_int_equal(offsetof(struct ibv_exp_send_wr, exp_opcode), 28);
	assert_int_equal(offsetof(struct ibv_exp_send_wr, ex), 36);
	assert_int_equal(offsetof(struct ibv_exp_send_wr, wr), 40);
	assert_int_equal(offsetof(struct ibv_exp_send_wr, qp_type), 72);
	assert_int_equal(offsetof(struct ibv_exp_send_wr, task), 80);
	assert_int_equal(offsetof(struct ibv_exp_send_wr, op), 112);
	assert_int_equal(offsetof(struct ibv_exp_send_wr, dc), 128);
	assert_int_equal(offsetof(struct ibv_exp_send_wr, bind_mw), 152);
	assert_int_equal(offsetof(struct ibv_exp_send_wr, exp_send_flags), 200);
	assert_int_equal(offsetof(struct ibv_exp_send_wr, comp_mask), 208);
	assert_int_equal(offsetof(struct ibv_exp_send_wr, ext_op), 216);
	assert_int_equal(sizeof(struct ibv_exp_send_wr), 288);
	/* Up to dlid_path_bits as ibv_wc, but for the flags. */
	assert_int_equal(offsetof(struct ibv_exp_wc, reserved),
			 offsetof(struct ibv_wc, wc_flags));
	assert_int_equal(offsetof(struct ibv_exp_wc, sl),
			 offsetof(struct ibv_wc, sl));
	assert_int_equal(offsetof(struct ibv_exp_wc, timestamp), 48);
	assert_int_equal(offsetof(struct ibv_exp_wc, exp_wc_flags), 80);
	assert_int_equal(sizeof(struct ibv_exp_wc), 104);
	assert_int_equal(offsetof(struct ibv_exp_qp_init_attr, comp_mask), 60);
	assert_int_equal(offsetof(struct ibv_exp_qp_init_attr, max_inl_recv),
			 84);
	assert_int_equal(offsetof(struct ibv_exp_qp_init_attr, qpg), 88);
	assert_int_equal(offsetof(struct ibv_exp_qp_init_attr, max_atomic_arg),
			 104);
	assert_int_equal(sizeof(struct ibv_exp_qp_init_attr), 152);
	assert_int_equal(offsetof(struct ibv_exp_qp_attr, dct_key), 136);
	assert_int_equal(offsetof(struct ibv_exp_device_attr, comp_mask), 228);
	assert_int_equal(offsetof(struct ibv_exp_device_attr,
				  exp_device_cap_flags),
			 288);
	assert_int_equal(offsetof(struct ibv_exp_device_attr, max_dct), 376);
	assert_int_equal(offsetof(struct ibv_exp_device_attr, ooo_caps), 504);
	assert_int_equal(offsetof(struct ibv_exp_device_attr, max_dm_size),
			 560);
	assert_int_equal(offsetof(struct ibv_exp_device_attr, comp_mask_2),
			 576);
	assert_int_equal(sizeof(struct ibv_exp_device_attr), 600);
	assert_int_equal(sizeof(struct ibv_exp_cq_attr), 12);
	assert_int_equal(sizeof(struct ibv_exp_dc_info_ent), 64);
}

/* The table of a program that knows fewer slots, or more, than the library. */
static void the_table_ends_below_the_context(void **state)
{
	struct fixture *f = *state;
	uint8_t *ctx = (uint8_t *)f->ctx;
	uint64_t has;
	size_t sz, exp_sz;

	memcpy(&sz, ctx - 8, sizeof(sz));
	memcpy(&has, ctx - 16, sizeof(has));
	assert_int_equal(has, 1ull << 62);
	memcpy(&exp_sz, ctx - (sz - sizeof(struct ibv_context)) - 8,
	       sizeof(exp_sz));
	assert_int_equal(exp_sz, sizeof(struct verbs_context_exp));
	assert_ptr_equal((uint8_t *)verbs_get_exp_ctx(f->ctx) +
				 sizeof(struct verbs_context_exp),
			 ctx - (sz - sizeof(struct ibv_context)));
}

static void slots_beyond_the_size_do_not_count(void **state)
{
	struct fixture *f = *state;
	struct verbs_context_exp *exp = verbs_get_exp_ctx(f->ctx);
	struct ibv_exp_device_attr attr = { .comp_mask = 0 };
	size_t sz = exp->sz;

	exp->sz = 3 * sizeof(void *);
	assert_int_equal(ibv_exp_query_device(f->ctx, &attr), ENOSYS);
	exp->sz = 4 * sizeof(void *);
	assert_int_equal(ibv_exp_query_device(f->ctx, &attr), 0);
	exp->sz = sz;
}

/* Another library: its context has no such bit, or is of the old ABI. */
static void without_a_table_there_is_nothing(void **state)
{
	struct fixture *f = *state;
	struct verbs_context *v = verbs_get_ctx(f->ctx);
	struct ibv_exp_device_attr attr = { .comp_mask = 0 };
	void *abi = f->ctx->abi_compat;
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);
	struct ibv_exp_send_wr wr = { 0 }, *bad;

	v->_ABI_placeholder3 = 0;
	assert_int_equal(ibv_exp_query_device(f->ctx, &attr), ENOSYS);
	assert_int_equal(ibv_exp_post_send(qp, &wr, &bad), -ENOSYS);
	assert_int_equal(ibv_exp_poll_cq(f->cq, 1, NULL, 0), -ENOSYS);
	v->_ABI_placeholder3 = VERBS_CONTEXT_EXP;
	f->ctx->abi_compat = NULL;
	assert_int_equal(ibv_exp_query_device(f->ctx, &attr), ENOSYS);
	f->ctx->abi_compat = abi;
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* A call that does not work has no slot. */
static void the_rest_is_enosys(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_dc_info_ent ent;

	assert_int_equal(ibv_exp_poll_dc_info(f->ctx, &ent, 1, 1), -1);
	assert_int_equal(errno, ENOSYS);
}

/* The line that a call has written to stderr. */
static const char *said(FILE *log)
{
	static char line[256];

	line[0] = 0;
	rewind(log);
	if (!fgets(line, sizeof(line), log))
		line[0] = 0;
	return line;
}

/* Bits that the release lacks: refused by the header, with a message, and by the
 * library, for programs with another header. */
static void unknown_bits_are_refused(void **state)
{
	struct fixture *f = *state;
	struct verbs_context_exp *exp = verbs_get_exp_ctx(f->ctx);
	struct ibv_exp_qp_init_attr qp_init = { .comp_mask = 1u << 13 };
	struct ibv_exp_cq_init_attr cq_init = { .comp_mask = 1u << 3 };
	struct ibv_exp_cq_attr cq_attr = { .comp_mask = 1u << 2 };
	struct ibv_exp_qp_attr qp_attr = { .comp_mask = 1u << 2 };
	struct ibv_exp_reg_mr_in mr = { .pd = f->pd, .comp_mask = 1u << 2 };
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);
	FILE *log = tmpfile();
	int err = dup(2);

	assert_non_null(log);
	assert_true(dup2(fileno(log), 2) == 2);
	assert_null(ibv_exp_create_qp(f->ctx, &qp_init));
	assert_int_equal(errno, EINVAL);
	assert_true(dup2(err, 2) == 2);
	assert_true(strlen(said(log)) > 0);
	assert_null(ibv_exp_create_cq(f->ctx, 8, NULL, NULL, 0, &cq_init));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_exp_modify_cq(f->cq, &cq_attr, 0), EINVAL);
	assert_int_equal(ibv_exp_modify_qp(qp, &qp_attr, 0), EINVAL);
	assert_null(ibv_exp_reg_mr(&mr));
	assert_int_equal(errno, EINVAL);

	errno = 0;
	assert_null(exp->lib_exp_create_qp(f->ctx, &qp_init));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(exp->exp_create_cq(f->ctx, 8, NULL, 0, &cq_init));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(exp->lib_exp_modify_cq(f->cq, &cq_attr, 0), EINVAL);
	assert_int_equal(exp->lib_exp_modify_qp(qp, &qp_attr, 0), EINVAL);
	errno = 0;
	assert_null(exp->lib_exp_reg_mr(&mr));
	assert_int_equal(errno, EINVAL);
	close(err);
	fclose(log);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define WANTED                                                                 \
	(IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK |                             \
	 IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK |                             \
	 IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_ODP |         \
	 IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS |                                 \
	 IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS | IBV_EXP_DEVICE_ATTR_UMR |        \
	 IBV_EXP_DEVICE_ATTR_TSO_CAPS | IBV_EXP_DEVICE_ATTR_CALC_CAP |         \
	 IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ |                                  \
	 IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS | IBV_EXP_DEVICE_DC_RD_REQ |   \
	 IBV_EXP_DEVICE_DC_RD_RES | IBV_EXP_DEVICE_ATTR_MAX_DCT)

static void the_device_fills_what_it_has(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_device_attr attr = { .comp_mask = UINT32_MAX };
	struct ibv_device_attr std;

	assert_int_equal(ibv_query_device(f->ctx, &std), 0);
	assert_int_equal(ibv_exp_query_device(f->ctx, &attr), 0);
	assert_int_equal(attr.comp_mask, WANTED);
	assert_string_equal(attr.fw_ver, std.fw_ver);
	assert_int_equal(attr.max_qp, std.max_qp);
	assert_int_equal(attr.max_mw, std.max_mw);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_int_equal(attr.exp_atomic_cap, IBV_EXP_ATOMIC_HCA);
	assert_int_equal(attr.timestamp_mask, UINT64_MAX);
	assert_int_equal(attr.hca_core_clock, 1000000);
	assert_int_equal(attr.exp_device_cap_flags & UINT32_MAX,
			 std.device_cap_flags);
	assert_int_equal(
		attr.exp_device_cap_flags >> 32,
		(IBV_EXP_DEVICE_DC_TRANSPORT | IBV_EXP_DEVICE_NOP |
		 IBV_EXP_DEVICE_ODP | IBV_EXP_DEVICE_EXT_ATOMICS |
		 IBV_EXP_DEVICE_EXT_MASKED_ATOMICS | IBV_EXP_DEVICE_MEM_WINDOW |
		 IBV_EXP_DEVICE_MW_TYPE_2B | IBV_EXP_DEVICE_MR_ALLOCATE |
		 IBV_EXP_DEVICE_UMR | IBV_EXP_DEVICE_CROSS_CHANNEL) >>
			32);
	assert_int_equal(attr.odp_caps.general_odp_caps, 3);
	assert_int_equal(attr.odp_caps.per_transport_caps.rc_odp_caps, 0x3f);
	assert_int_equal(attr.packet_pacing_caps.qp_rate_limit_max,
			 UR_RATE_MAX_KBPS);
	assert_true(attr.tso_caps.max_tso > 0);
	assert_int_equal(attr.max_dc_req_rd_atom, 16);
	assert_int_equal(attr.max_dc_res_rd_atom, 16);
	assert_int_equal(attr.max_dct, attr.max_qp);
	assert_int_equal(attr.calc_cap.data_types, 7);
	assert_int_equal(attr.calc_cap.data_sizes, 1);
	assert_int_equal(attr.calc_cap.int_ops, 0x1d);
	assert_int_equal(attr.calc_cap.uint_ops, 0x1d);
	assert_int_equal(attr.calc_cap.fp_ops, 0x1d);
}

/* A program with an older header has no room for what it does not want. */
static void only_wanted_fields_are_written(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_device_attr attr;

	memset(&attr, 0x5a, sizeof(attr));
	attr.comp_mask = IBV_EXP_DEVICE_ATTR_RX_HASH |
			 IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK;
	assert_int_equal(ibv_exp_query_device(f->ctx, &attr), 0);
	assert_int_equal(attr.comp_mask,
			 IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK);
	assert_int_equal(attr.hca_core_clock, 1000000);
	assert_int_equal(attr.timestamp_mask, 0x5a5a5a5a5a5a5a5a);
	for (size_t i =
		     offsetof(struct ibv_exp_device_attr, exp_device_cap_flags);
	     i < sizeof(attr); i++)
		assert_int_equal(((uint8_t *)&attr)[i], 0x5a);
}

/* The program says that comp_mask_2 is valid: it is set to the fields that are
 * filled, of which there are none. */
static void the_second_mask(void **state)
{
	struct fixture *f = *state;
	struct verbs_context_exp *exp = verbs_get_exp_ctx(f->ctx);
	struct ibv_exp_device_attr attr = { .comp_mask = 0 };

	attr.comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED - 1;
	attr.comp_mask_2 = IBV_EXP_DEVICE_ATTR_RESERVED_2 - 1;
	assert_int_equal(ibv_exp_query_device(f->ctx, &attr), 0);
	assert_int_equal(attr.comp_mask, WANTED);
	assert_int_equal(attr.comp_mask_2, 0);
	attr.comp_mask = IBV_EXP_DEVICE_ATTR_COMP_MASK_2;
	attr.comp_mask_2 = IBV_EXP_DEVICE_ATTR_RESERVED_2;
	assert_int_equal(ibv_exp_query_device(f->ctx, &attr), EINVAL);
	assert_int_equal(exp->lib_exp_query_device(f->ctx, &attr), EINVAL);
	attr.comp_mask = 0; /* not valid */
	assert_int_equal(ibv_exp_query_device(f->ctx, &attr), 0);
	assert_int_equal(attr.comp_mask_2, IBV_EXP_DEVICE_ATTR_RESERVED_2);
}

static void refuse_qp(struct fixture *f, uint32_t mask, uint32_t group)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 8, 8, 4, 4, 64 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | mask,
		.pd = f->pd,
		.qpg = { .qpg_type = group },
	};

	errno = 0;
	assert_null(ibv_exp_create_qp(f->ctx, &a));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* Attributes of creation */
static void queue_pairs_of_other_adapters(void **state)
{
	static const uint32_t masks[] = {
		IBV_EXP_QP_INIT_ATTR_RES_DOMAIN,
		IBV_EXP_QP_INIT_ATTR_RX_HASH,
		IBV_EXP_QP_INIT_ATTR_PORT,
		IBV_EXP_QP_INIT_ATTR_PEER_DIRECT,
		IBV_EXP_QP_INIT_ATTR_ASSOCIATED_QPN,
	};
	static const uint32_t groups[] = {
		IBV_EXP_QPG_PARENT,
		IBV_EXP_QPG_CHILD_RX,
		IBV_EXP_QPG_CHILD_TX,
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++)
		refuse_qp(f, masks[i], IBV_EXP_QPG_NONE);
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		refuse_qp(f, IBV_EXP_QP_INIT_ATTR_QPG, groups[i]);
	for (unsigned int bit = 3; bit < 32; bit++)
		refuse_qp(f, IBV_EXP_QP_INIT_ATTR_QPG,
			  IBV_EXP_QPG_NONE | 1u << bit);
}

/* Attributes that are modified */
static void attributes_of_other_adapters(void **state)
{
	static const uint64_t masks[] = {
		IBV_EXP_QP_GROUP_RSS,
		IBV_EXP_QP_FLOW_ENTROPY,
		IBV_EXP_QP_OOO_RW_DATA_PLACEMENT,
	};
	static const uint32_t comp_masks[] = {
		IBV_EXP_QP_ATTR_FLOW_ENTROPY,
		IBV_EXP_QP_ATTR_BURST_INFO,
	};
	const uint64_t from_reset = IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
				    IBV_EXP_QP_PORT | IBV_EXP_QP_ACCESS_FLAGS;
	struct fixture *f = *state;
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);
	struct ibv_exp_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	assert_int_equal(ibv_exp_modify_qp(qp, &attr, IBV_EXP_QP_STATE), 0);
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++)
		assert_int_equal(ibv_exp_modify_qp(qp, &attr,
						   from_reset | masks[i]),
				 EOPNOTSUPP);
	for (size_t i = 0; i < sizeof(comp_masks) / sizeof(comp_masks[0]);
	     i++) {
		attr.comp_mask = comp_masks[i];
		assert_int_equal(ibv_exp_modify_qp(qp, &attr, from_reset),
				 EOPNOTSUPP);
	}
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void iwarp_has_less(void **state)
{
	struct fixture *f = *state;
	struct ibv_context *ctx = ibv_open_device(f->list[1]);
	struct ibv_exp_device_attr attr = { .comp_mask = UINT32_MAX };

	assert_int_equal(ibv_exp_query_device(ctx, &attr), 0);
	assert_int_equal(attr.comp_mask,
			 WANTED & ~(IBV_EXP_DEVICE_ATTR_TSO_CAPS |
				    IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS |
				    IBV_EXP_DEVICE_DC_RD_REQ |
				    IBV_EXP_DEVICE_DC_RD_RES |
				    IBV_EXP_DEVICE_ATTR_MAX_DCT));
	assert_int_equal(
		attr.exp_device_cap_flags & IBV_EXP_DEVICE_DC_TRANSPORT, 0);
	assert_int_equal(attr.odp_caps.per_transport_caps.ud_odp_caps, 0);
	assert_int_equal(ibv_close_device(ctx), 0);
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
		cmocka_unit_test(slots_have_their_places),
		cmocka_unit_test(structures_have_their_layout),
		TEST(the_table_ends_below_the_context),
		TEST(slots_beyond_the_size_do_not_count),
		TEST(without_a_table_there_is_nothing),
		TEST(the_rest_is_enosys),
		TEST(unknown_bits_are_refused),
		TEST(the_device_fills_what_it_has),
		TEST(only_wanted_fields_are_written),
		TEST(the_second_mask),
		TEST(queue_pairs_of_other_adapters),
		TEST(attributes_of_other_adapters),
		TEST(iwarp_has_less),
		IWARP(the_rest_is_enosys),
		IWARP(queue_pairs_of_other_adapters),
		IWARP(attributes_of_other_adapters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
