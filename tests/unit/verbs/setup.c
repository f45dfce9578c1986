/* SPDX-License-Identifier: BSD-2-Clause */
#include "setup.h"

#include "verbs/objects.h"

static int open_device(void **state, int number)
{
	static struct fixture f;
	int n;

	memset(&ur_fake, 0, sizeof(ur_fake));
	f.list = ibv_get_device_list(&n);
	assert_non_null(f.list);
	assert_int_equal(n, 2);
	f.ctx = ibv_open_device(f.list[number]);
	assert_non_null(f.ctx);
	f.pd = ibv_alloc_pd(f.ctx);
	assert_non_null(f.pd);
	f.cq = ibv_create_cq(f.ctx, 16, NULL, NULL, 0);
	assert_non_null(f.cq);
	*state = &f;
	return 0;
}

int fixture_open(void **state)
{
	return open_device(state, 0);
}

int fixture_open_iwarp(void **state)
{
	return open_device(state, 1);
}

int fixture_close(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(ibv_destroy_cq(f->cq), 0);
	assert_int_equal(ibv_dealloc_pd(f->pd), 0);
	assert_int_equal(ibv_close_device(f->ctx), 0);
	ibv_free_device_list(f->list);
	assert_int_equal(ur_fake.adapters, 0);
	assert_int_equal(ur_fake.qps, 0);
	return 0;
}

static const struct ibv_qp_cap cap = {
	.max_send_wr = 8,
	.max_recv_wr = 8,
	.max_send_sge = 4,
	.max_recv_sge = 4,
	.max_inline_data = 64,
};

struct ibv_qp *make_qp(struct fixture *f, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = cap,
		.qp_type = type,
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);

	assert_non_null(qp);
	to_rts(qp);
	return qp;
}

struct ibv_qp_ex *make_qp_ex(struct fixture *f, enum ibv_qp_type type,
			     uint64_t send_ops_flags)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = cap,
		.qp_type = type,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = f->pd,
		.send_ops_flags = send_ops_flags,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(f->ctx, &init);

	if (!qp)
		return NULL;
	to_rts(qp);
	return ibv_qp_to_qp_ex(qp);
}

/* The protocol handles the states; only the result matters here. */
void to_rts(struct ibv_qp *qp)
{
	core_qp(qp)->state = UR_QPS_RTS;
}

struct ur_qp *core_qp(struct ibv_qp *qp)
{
	return &urv_qp(qp)->core;
}

struct ur_cq *core_cq(struct ibv_cq *cq)
{
	return &urv_cq(cq)->core;
}

struct ur_srq *core_srq(struct ibv_srq *srq)
{
	return &urv_srq(srq)->core;
}

void complete(struct ibv_cq *cq, uint64_t first_id, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct ur_cqe cqe = {
			.wr_id = first_id + i,
			.ts_ns = UR_FAKE_NOW_NS - 1000,
			.qpn = 0x4001,
			.src_qp = 0x8002,
			.byte_len = 100 + i,
			.imm_be = 0xcafe,
			.opcode = UR_WC_RECV,
			.flags = UR_WC_WITH_IMM | UR_WC_GRH,
			.slid = 7,
			.sl = 2,
			.dlid_path_bits = 3,
			.vendor_err = 9,
			.pkey_index = 1,
		};

		assert_true(ur_cq_push(core_cq(cq), &cqe, true));
	}
}

struct ibv_ah *make_ah(struct fixture *f)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .sgid_index = UR_FAKE_V4_INDEX, .hop_limit = 64 },
	};
	struct ibv_ah *ah;

	memcpy(attr.grh.dgid.raw, ur_fake_v4, 16);
	attr.grh.dgid.raw[15] = 9;
	ah = ibv_create_ah(f->pd, &attr);
	assert_non_null(ah);
	return ah;
}
