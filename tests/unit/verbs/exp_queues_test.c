/* SPDX-License-Identifier: BSD-2-Clause */
/* The experimental verbs: queue pairs, completion queues, requests, regions. */
#include "setup.h"

#include <infiniband/verbs_exp.h>
#include <stdlib.h>

#include "verbs/objects.h"

static struct ibv_exp_qp_init_attr init_attr(struct fixture *f, uint32_t mask)
{
	return (struct ibv_exp_qp_init_attr){
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 8, 8, 4, 4, 64 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | mask,
		.pd = f->pd,
	};
}

static void queue_pairs_are_created(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_qp_init_attr a =
		init_attr(f, IBV_EXP_QP_INIT_ATTR_INL_RECV |
				     IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG |
				     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
				     IBV_EXP_QP_INIT_ATTR_QPG);
	struct ibv_qp *qp;

	a.max_inl_recv = 64;
	a.max_atomic_arg = 8;
	a.qp_context = f;
	qp = ibv_exp_create_qp(f->ctx, &a);
	assert_non_null(qp);
	assert_int_equal(a.max_inl_recv, 64); /* granted */
	assert_int_equal(a.cap.max_send_wr, 8);
	assert_ptr_equal(qp->qp_context, f);
	assert_ptr_equal(qp->pd, f->pd);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	/* The standard call, by the header. */
	a = init_attr(f, 0);
	qp = ibv_exp_create_qp(f->ctx, &a);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void queue_pairs_are_modified(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_qp_init_attr a = init_attr(f, 0);
	struct ibv_qp *qp = ibv_exp_create_qp(f->ctx, &a);
	struct ibv_exp_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ,
		.port_num = 1,
	};
	const uint64_t mask = IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
			      IBV_EXP_QP_PORT | IBV_EXP_QP_ACCESS_FLAGS;

	assert_non_null(qp);
	assert_int_equal(ibv_exp_modify_qp(qp, &attr, mask | IBV_EXP_QP_DC_KEY),
			 EOPNOTSUPP);
	assert_int_equal(ibv_exp_modify_qp(qp, &attr,
					   mask | IBV_EXP_QP_GROUP_RSS),
			 EOPNOTSUPP);
	assert_int_equal(ibv_exp_modify_qp(qp, &attr,
					   mask | IBV_EXP_QP_FLOW_ENTROPY),
			 EOPNOTSUPP);
	assert_int_equal(
		ibv_exp_modify_qp(qp, &attr,
				  mask | IBV_EXP_QP_OOO_RW_DATA_PLACEMENT),
		EOPNOTSUPP);
	/* No such attribute; the standard bit of a rate has another place. */
	assert_int_equal(ibv_exp_modify_qp(qp, &attr, mask | 1ull << 63),
			 EINVAL);
	assert_int_equal(ibv_exp_modify_qp(qp, &attr, mask | 1u << 25), EINVAL);
	attr.comp_mask = IBV_EXP_QP_ATTR_BURST_INFO;
	assert_int_equal(ibv_exp_modify_qp(qp, &attr, mask), EOPNOTSUPP);
	attr.comp_mask = 0;
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(ibv_exp_modify_qp(qp, &attr, mask), 0);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_int_equal(core_qp(qp)->attr.access, UR_ACCESS_REMOTE_READ);
	to_rts(qp);
	attr.rate_limit = 123456;
	assert_int_equal(ibv_exp_modify_qp(qp, &attr, IBV_EXP_QP_RATE_LIMIT),
			 0);
	assert_int_equal(core_qp(qp)->attr.rate_limit, 123456);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void completion_queues_are_created(void **state)
{
	struct fixture *f = *state;
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_exp_cq_init_attr a = { .comp_mask = 0 };
	struct ibv_cq *cq, *got;
	void *context;

	cq = ibv_exp_create_cq(f->ctx, 8, f, ch, 0, &a);
	assert_non_null(cq);
	assert_ptr_equal(cq->cq_context, f);
	assert_ptr_equal(cq->channel, ch);
	assert_int_equal(ch->refcnt, 1);
	assert_int_equal(ibv_destroy_comp_channel(ch), EBUSY);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	complete(cq, 1, 1);
	assert_int_equal(ibv_get_cq_event(ch, &got, &context), 0);
	assert_ptr_equal(got, cq);
	assert_ptr_equal(context, f);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ch->refcnt, 0);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);

	errno = 0;
	assert_null(ibv_exp_create_cq(f->ctx, 0, NULL, NULL, 0, &a));
	assert_int_equal(errno, EINVAL);
	a.comp_mask = IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN;
	assert_null(ibv_exp_create_cq(f->ctx, 8, NULL, NULL, 0, &a));
	assert_int_equal(errno, EOPNOTSUPP);
	a.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS;
	for (uint32_t flag = 1; flag < 1u << 6; flag <<= 1) {
		a.flags = flag;
		cq = ibv_exp_create_cq(f->ctx, 8, NULL, NULL, 0, &a);
		if (flag == IBV_EXP_CQ_TIMESTAMP ||
		    flag == IBV_EXP_CQ_CREATE_CROSS_CHANNEL) {
			assert_non_null(cq);
			assert_int_equal(ibv_destroy_cq(cq), 0);
			continue;
		}
		assert_null(cq);
		assert_int_equal(errno, flag == 1u << 5 ? EINVAL : EOPNOTSUPP);
	}
}

static void completion_queues_are_modified(void **state)
{
	struct fixture *f = *state;
	struct ur_cq *core = core_cq(f->cq);
	struct ibv_exp_cq_attr a = {
		.comp_mask = IBV_EXP_CQ_ATTR_MODERATION |
			     IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
		.moderation = { .cq_count = 7, .cq_period = 9 },
		.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN,
	};

	assert_int_equal(ibv_exp_modify_cq(f->cq, &a, IBV_EXP_CQ_MODERATION),
			 0);
	assert_int_equal(core->mod_count, 7);
	assert_false(core->ignore_overrun);
	assert_int_equal(ibv_exp_modify_cq(f->cq, &a, IBV_EXP_CQ_CAP_FLAGS), 0);
	assert_true(core->ignore_overrun);
	a.cq_cap_flags = 0;
	assert_int_equal(ibv_exp_modify_cq(f->cq, &a, IBV_EXP_CQ_CAP_FLAGS), 0);
	assert_false(core->ignore_overrun);
	a.cq_cap_flags = 2;
	assert_int_equal(ibv_exp_modify_cq(f->cq, &a, IBV_EXP_CQ_CAP_FLAGS),
			 EINVAL);
	assert_int_equal(ibv_exp_modify_cq(f->cq, &a, 4), EINVAL);
	/* The field is not said to be valid. */
	a.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS;
	assert_int_equal(ibv_exp_modify_cq(f->cq, &a, IBV_EXP_CQ_MODERATION),
			 EINVAL);
}

/* More completions than the queue holds: the oldest go, without an error. */
static void overruns_are_ignored_on_request(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_cq_attr a = {
		.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
		.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN,
	};
	struct ibv_exp_wc wc;

	assert_int_equal(ibv_exp_modify_cq(f->cq, &a, IBV_EXP_CQ_CAP_FLAGS), 0);
	complete(f->cq, 0, (uint32_t)f->cq->cqe + 3);
	assert_int_equal(ibv_exp_poll_cq(f->cq, 1, &wc, sizeof(wc)), 1);
	assert_int_equal(wc.wr_id, 3);
}

static void completions_have_every_member(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_wc wc;

	complete(f->cq, 5, 1);
	assert_int_equal(ibv_exp_poll_cq(f->cq, 1, &wc, sizeof(wc)), 1);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.exp_opcode, IBV_EXP_WC_RECV);
	assert_int_equal(wc.vendor_err, 9);
	assert_int_equal(wc.byte_len, 100);
	assert_int_equal(wc.imm_data, 0xcafe);
	assert_int_equal(wc.qp_num, 0x4001);
	assert_int_equal(wc.src_qp, 0x8002);
	assert_int_equal(wc.pkey_index, 1);
	assert_int_equal(wc.slid, 7);
	assert_int_equal(wc.sl, 2);
	assert_int_equal(wc.dlid_path_bits, 3);
	assert_int_equal(wc.timestamp, 0);
	assert_int_equal(wc.exp_wc_flags, IBV_EXP_WC_GRH | IBV_EXP_WC_WITH_IMM);
	assert_int_equal(ibv_exp_poll_cq(f->cq, 1, &wc, sizeof(wc)), 0);
}

static struct ibv_exp_wc converted(struct ibv_cq *cq, struct ur_cqe c)
{
	struct ibv_exp_wc wc;

	assert_true(ur_cq_push(core_cq(cq), &c, false));
	assert_int_equal(ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc)), 1);
	return wc;
}

static void owners_times_and_opcodes(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq_init_attr srq_init = { .attr = { 8, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(f->pd, &srq_init);
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);
	struct ibv_exp_cq_init_attr a = { .comp_mask =
						  IBV_EXP_CQ_INIT_ATTR_FLAGS,
					  .flags = IBV_EXP_CQ_TIMESTAMP };
	struct ibv_cq *cq = ibv_exp_create_cq(f->ctx, 8, NULL, NULL, 0, &a);
	struct ibv_exp_wc wc;

	wc = converted(cq, (struct ur_cqe){ .qp = core_qp(qp),
					    .ts_ns = 4711,
					    .opcode = UR_WC_ATOMIC_WRITE });
	assert_ptr_equal(wc.qp, qp);
	assert_int_equal(wc.timestamp, 4711);
	assert_int_equal(wc.exp_wc_flags,
			 IBV_EXP_WC_QP | IBV_EXP_WC_WITH_TIMESTAMP);
	assert_int_equal(wc.exp_opcode, IBV_EXP_WC_RDMA_WRITE);
	wc = converted(cq, (struct ur_cqe){ .qp = core_srq(srq),
					    .owner = UR_CQE_SRQ,
					    .tm_tag = 99,
					    .tm_priv = 77,
					    .opcode = UR_WC_TM_RECV,
					    .flags = UR_WC_TM_MATCH });
	assert_ptr_equal(wc.srq, srq);
	assert_null(wc.qp);
	assert_int_equal(wc.exp_opcode, IBV_EXP_WC_TM_RECV);
	assert_int_equal(wc.tm_info.tag, 99);
	assert_int_equal(wc.tm_info.priv, 77);
	assert_true(wc.exp_wc_flags & IBV_EXP_WC_SRQ);
	assert_true(wc.exp_wc_flags & IBV_EXP_WC_TM_MATCH);
	wc = converted(cq, (struct ur_cqe){ .qp = core_qp(qp),
					    .owner = UR_CQE_RAW,
					    .opcode = UR_WC_RECV,
					    .flags = UR_WC_IP_CSUM_OK });
	assert_true(wc.exp_wc_flags & IBV_EXP_WC_RX_IP_CSUM_OK);
	assert_false(wc.exp_wc_flags & (IBV_EXP_WC_QP | IBV_EXP_WC_SRQ));
	wc = converted(cq, (struct ur_cqe){ .opcode = UR_WC_TSO });
	assert_int_equal(wc.exp_opcode, IBV_EXP_WC_TSO);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* Receives of every type of queue pair, list operations, and an error */
static void the_flags_of_each_type(void **state)
{
	const struct {
		struct ur_cqe cqe;
		uint64_t flags;
	} rows[] = {
		{ { .opcode = UR_WC_RECV }, IBV_EXP_WC_QP }, /* RC, UC */
		{ { .opcode = UR_WC_RECV,
		    .flags = UR_WC_GRH | UR_WC_WITH_IMM,
		    .sl = 2 }, /* UD */
		  IBV_EXP_WC_QP | IBV_EXP_WC_GRH | IBV_EXP_WC_WITH_IMM },
		{ { .opcode = UR_WC_RECV, .flags = UR_WC_WITH_INV },
		  IBV_EXP_WC_QP | IBV_EXP_WC_WITH_INV },
		{ { .opcode = UR_WC_RECV, .owner = UR_CQE_SRQ }, /* XRC */
		  IBV_EXP_WC_SRQ },
		{ { .opcode = UR_WC_RECV, .owner = UR_CQE_RAW }, 0 },
		{ { .opcode = UR_WC_TM_ADD, .owner = UR_CQE_SRQ },
		  IBV_EXP_WC_SRQ },
		{ { .opcode = UR_WC_TM_DEL, .owner = UR_CQE_SRQ },
		  IBV_EXP_WC_SRQ },
		{ { .opcode = UR_WC_TM_SYNC, .owner = UR_CQE_SRQ },
		  IBV_EXP_WC_SRQ },
		{ { .opcode = UR_WC_TM_RECV,
		    .owner = UR_CQE_SRQ,
		    .flags = UR_WC_TM_MATCH | UR_WC_TM_DATA_VALID },
		  IBV_EXP_WC_SRQ | IBV_EXP_WC_TM_MATCH |
			  IBV_EXP_WC_TM_DATA_VALID },
		{ { .opcode = UR_WC_RECV, .status = UR_WC_WR_FLUSH_ERR },
		  IBV_EXP_WC_QP },
		{ { .opcode = UR_WC_SEND }, IBV_EXP_WC_QP },
	};
	struct fixture *f = *state;
	struct ibv_srq_init_attr srq_init = { .attr = { 8, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(f->pd, &srq_init);
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ur_cqe c = rows[i].cqe;

		c.qp = c.owner == UR_CQE_SRQ ? (void *)core_srq(srq)
					     : (void *)core_qp(qp);
		assert_int_equal(converted(f->cq, c).exp_wc_flags,
				 rows[i].flags);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* Elements of programs with an older, or a newer, header. */
static void elements_have_the_callers_size(void **state)
{
	const uint32_t small = offsetof(struct ibv_exp_wc, timestamp);
	const uint32_t large = sizeof(struct ibv_exp_wc) + 16;
	struct fixture *f = *state;
	uint8_t buf[4 * (sizeof(struct ibv_exp_wc) + 16)];
	struct ibv_exp_wc wc;

	complete(f->cq, 10, 3);
	memset(buf, 0x5a, sizeof(buf));
	assert_int_equal(ibv_exp_poll_cq(f->cq, 3, (void *)buf, small), 3);
	for (uint32_t i = 0; i < 3; i++) {
		memcpy(&wc, buf + i * small, small);
		assert_int_equal(wc.wr_id, 10 + i);
		assert_int_equal(wc.dlid_path_bits, 3);
	}
	assert_int_equal(buf[3 * small], 0x5a);
	complete(f->cq, 20, 2);
	memset(buf, 0x5a, sizeof(buf));
	assert_int_equal(ibv_exp_poll_cq(f->cq, 3, (void *)buf, large), 2);
	for (uint32_t i = 0; i < 2; i++) {
		memcpy(&wc, buf + i * large, sizeof(wc));
		assert_int_equal(wc.wr_id, 20 + i);
		for (size_t n = sizeof(wc); n < large; n++)
			assert_int_equal(buf[i * large + n], 0);
	}
	assert_int_equal(buf[2 * large], 0x5a);
}

static const struct ur_swqe *posted(struct ibv_qp *qp)
{
	struct ur_sq *sq = &core_qp(qp)->sq;

	return ur_sq_slot(sq, sq->tail - 1);
}

static int post(struct ibv_qp *qp, struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad = NULL;
	uint32_t before = core_qp(qp)->sq.tail;
	int rc = ibv_exp_post_send(qp, &wr, &bad);

	assert_ptr_equal(bad, rc ? &wr : NULL);
	assert_int_equal(core_qp(qp)->sq.tail, before + (rc == 0));
	core_qp(qp)->sq.head = core_qp(qp)->sq.tail;
	return rc;
}

static void requests_arrive_as_they_were(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_exp_send_wr wr = {
		.wr_id = 77,
		.sg_list = &sge,
		.num_sge = 1,
		.exp_opcode = IBV_EXP_WR_RDMA_WRITE_WITH_IMM,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_FENCE |
				  IBV_EXP_SEND_SOLICITED,
		.ex.imm_data = 0xabcd,
		.wr.rdma = { .remote_addr = 0x123456789, .rkey = 0x42 },
	};

	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(posted(qp)->wr_id, 77);
	assert_int_equal(posted(qp)->opcode, UR_WR_RDMA_WRITE_IMM);
	assert_int_equal(posted(qp)->flags,
			 UR_SEND_SIGNALED | UR_SEND_FENCE | UR_SEND_SOLICITED);
	assert_int_equal(posted(qp)->imm_be, 0xabcd);
	assert_int_equal(posted(qp)->wr.rdma.remote_addr, 0x123456789);
	assert_int_equal(posted(qp)->wr.rdma.rkey, 0x42);
	assert_memory_equal(posted(qp)->data.sge, &sge, sizeof(sge));

	wr.exp_opcode = IBV_EXP_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.remote_addr = 0x88;
	wr.wr.atomic.compare_add = 1;
	wr.wr.atomic.swap = 2;
	wr.wr.atomic.rkey = 3;
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(posted(qp)->opcode, UR_WR_CMP_SWP);
	assert_int_equal(posted(qp)->wr.atomic.remote_addr, 0x88);
	assert_int_equal(posted(qp)->wr.atomic.compare_add, 1);
	assert_int_equal(posted(qp)->wr.atomic.swap, 2);
	assert_int_equal(posted(qp)->wr.atomic.rkey, 3);

	wr.exp_opcode = IBV_EXP_WR_SEND_WITH_INV;
	wr.ex.invalidate_rkey = 0x55;
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(posted(qp)->opcode, UR_WR_SEND_INV);
	assert_int_equal(posted(qp)->imm_be, 0x55);
	wr.exp_opcode = IBV_EXP_WR_LOCAL_INV;
	wr.num_sge = 0;
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(posted(qp)->opcode, UR_WR_LOCAL_INV);
	assert_int_equal(posted(qp)->imm_be, 0x55);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void inline_and_datagrams(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *rc = make_qp(f, IBV_QPT_RC);
	struct ibv_qp *ud = make_qp(f, IBV_QPT_UD);
	struct ibv_ah *ah = make_ah(f);
	char text[] = "inline";
	struct ibv_sge sge = { (uintptr_t)text, sizeof(text), 0 };
	struct ibv_exp_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.exp_opcode = IBV_EXP_WR_SEND,
		.exp_send_flags = IBV_EXP_SEND_INLINE,
	};

	assert_int_equal(post(rc, wr), 0);
	assert_memory_equal(posted(rc)->data.inline_data, text, sizeof(text));
	assert_int_equal(post(ud, wr), EINVAL); /* without an address */
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0x1234;
	wr.wr.ud.remote_qkey = 0x99;
	assert_int_equal(post(ud, wr), 0);
	assert_int_equal(posted(ud)->wr.ud.dqpn, 0x1234);
	assert_int_equal(posted(ud)->wr.ud.qkey, 0x99);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_destroy_qp(ud), 0);
}

static void segmentation_of_raw_packets(void **state)
{
	static uint8_t hdr[54] = { 9, 8, 7 };
	struct fixture *f = *state;
	struct ibv_exp_qp_init_attr a =
		init_attr(f, IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER);
	struct ibv_sge sge = { 0x1000, 5000, 1 };
	struct ibv_exp_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.exp_opcode = IBV_EXP_WR_TSO,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_IP_CSUM,
		.tso = { hdr, sizeof(hdr), 1400 },
	};
	struct ur_swqe *w;
	struct ibv_qp *qp;

	a.qp_type = IBV_QPT_RAW_PACKET;
	a.max_tso_header = 64;
	qp = ibv_exp_create_qp(f->ctx, &a);
	assert_non_null(qp);
	to_rts(qp);
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(posted(qp)->opcode, UR_WR_TSO);
	assert_int_equal(posted(qp)->flags, UR_SEND_SIGNALED | UR_SEND_IP_CSUM);
	assert_int_equal(posted(qp)->wr.tso.mss, 1400);
	assert_int_equal(posted(qp)->length, 5000);
	w = ur_sq_slot(&core_qp(qp)->sq, 0);
	assert_memory_equal(ur_swqe_tso_hdr(&core_qp(qp)->sq, w), hdr,
			    sizeof(hdr));
	wr.tso.hdr_sz = 65;
	assert_int_equal(post(qp, wr), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void a_nop_has_nothing(void **state)
{
	struct ibv_qp *rc = make_qp(*state, IBV_QPT_RC);
	struct ibv_qp *uc = make_qp(*state, IBV_QPT_UC);
	struct ibv_exp_send_wr wr = {
		.wr_id = 5,
		.num_sge = 3, /* ignored */
		.exp_opcode = IBV_EXP_WR_NOP,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad, std = {
		.opcode = (enum ibv_wr_opcode)UR_WR_NOP,
	};

	assert_int_equal(post(rc, wr), 0);
	assert_int_equal(posted(rc)->opcode, UR_WR_NOP);
	assert_int_equal(posted(rc)->wr_id, 5);
	assert_int_equal(posted(rc)->num_sge, 0);
	assert_int_equal(post(uc, wr), EINVAL);
	wr.exp_send_flags = IBV_EXP_SEND_SOLICITED;
	assert_int_equal(post(rc, wr), EINVAL);
	/* Our number of it is no opcode of the standard call. */
	assert_int_equal(ibv_post_send(rc, &std, &bad), EINVAL);
	wr.exp_send_flags = 0;
	core_qp(rc)->sq.head -= 8;
	assert_int_equal(ibv_exp_post_send(rc, &wr,
					   &(struct ibv_exp_send_wr *){ NULL }),
			 ENOMEM);
	core_qp(rc)->sq.head += 8;
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_destroy_qp(uc), 0);
}

static void what_cannot_be_posted(void **state)
{
	static const struct {
		enum ibv_exp_wr_opcode opcode;
		uint64_t flags;
		uint32_t comp_mask;
		int err;
	} rows[] = {
		{ IBV_EXP_WR_SEND_ENABLE, 0, 0, EINVAL },
		{ IBV_EXP_WR_RECV_ENABLE, 0, 0, EINVAL },
		{ IBV_EXP_WR_CQE_WAIT, 0, 0, EINVAL },
		{ IBV_EXP_WR_UMR_FILL, IBV_EXP_SEND_INLINE, 0, EINVAL },
		{ IBV_EXP_WR_UMR_INVALIDATE, 0, 0, EINVAL },
		/* The queue pair has no room for them. */
		{ IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP,
		  IBV_EXP_SEND_EXT_ATOMIC_INLINE, 0, EINVAL },
		{ IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
		  IBV_EXP_SEND_EXT_ATOMIC_INLINE, 0, EINVAL },
		{ IBV_EXP_WR_TSO, 0, 0, EINVAL }, /* raw packets only */
		{ (enum ibv_exp_wr_opcode)10, 0, 0, EINVAL },
		{ (enum ibv_exp_wr_opcode)16, 0, 0, EINVAL },
		{ (enum ibv_exp_wr_opcode)1000, 0, 0, EINVAL },
		{ IBV_EXP_WR_SEND, IBV_EXP_SEND_WITH_CALC, 0, EINVAL },
		{ IBV_EXP_WR_SEND, IBV_EXP_SEND_WAIT_EN_LAST, 0, EINVAL },
		{ IBV_EXP_WR_SEND, IBV_EXP_SEND_EXT_ATOMIC_INLINE, 0, EINVAL },
		{ IBV_EXP_WR_SEND, IBV_EXP_SEND_IP_CSUM, 0, EINVAL },
		{ IBV_EXP_WR_SEND, 1u << 4, 0, EINVAL },
		{ IBV_EXP_WR_SEND, 1ull << 63, 0, EINVAL },
		{ IBV_EXP_WR_SEND, 0, 1, EINVAL },
	};
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(post(qp,
				      (struct ibv_exp_send_wr){
					      .exp_opcode = rows[i].opcode,
					      .exp_send_flags = rows[i].flags,
					      .comp_mask = rows[i].comp_mask }),
				 rows[i].err);
	core_qp(qp)->state = UR_QPS_INIT;
	assert_int_equal(
		post(qp,
		     (struct ibv_exp_send_wr){ .exp_opcode = IBV_EXP_WR_SEND }),
		EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void a_bad_one_stops_the_list(void **state)
{
	struct ibv_qp *qp = make_qp(*state, IBV_QPT_RC);
	struct ibv_exp_send_wr wr[3], *bad;

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < 3; i++) {
		wr[i].exp_opcode = IBV_EXP_WR_SEND;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].num_sge = 5; /* of 4 */
	ur_fake.doorbells = 0;
	assert_int_equal(ibv_exp_post_send(qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(core_qp(qp)->sq.tail, 1);
	assert_int_equal(ur_fake.doorbells, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define RW (IBV_EXP_ACCESS_REMOTE_READ | IBV_EXP_ACCESS_REMOTE_WRITE)

static void windows_are_bound(void **state)
{
	struct fixture *f = *state;
	static uint8_t mem[4096];
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);
	struct ibv_mr *mr =
		ibv_reg_mr(f->pd, mem, sizeof(mem),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *one = ibv_alloc_mw(f->pd, IBV_MW_TYPE_1);
	struct ibv_mw *two = ibv_alloc_mw(f->pd, IBV_MW_TYPE_2);
	struct ibv_exp_mw_bind b = {
		.qp = qp,
		.mw = one,
		.wr_id = 9,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
		.bind_info = { mr, (uintptr_t)mem, 64, RW },
	};
	struct ibv_exp_send_wr wr = { .exp_opcode = IBV_EXP_WR_BIND_MW };

	assert_int_equal(ibv_exp_bind_mw(&b), 0);
	assert_int_equal(posted(qp)->opcode, UR_WR_BIND_MW);
	assert_int_equal(posted(qp)->wr_id, 9);
	assert_int_equal(posted(qp)->wr.bind.length, 64);
	assert_int_equal(posted(qp)->wr.bind.access,
			 UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_WRITE);
	b.mw = two;
	assert_int_equal(ibv_exp_bind_mw(&b), EINVAL); /* by a request only */
	b.mw = one;
	b.exp_send_flags = IBV_EXP_SEND_WITH_CALC;
	assert_int_equal(ibv_exp_bind_mw(&b), EINVAL);
	b.exp_send_flags = 0;
	b.bind_info.exp_mw_access_flags = IBV_EXP_ACCESS_RELAXED;
	assert_int_equal(ibv_exp_bind_mw(&b), EOPNOTSUPP);
	b.bind_info.exp_mw_access_flags = 1u << 20;
	assert_int_equal(ibv_exp_bind_mw(&b), EINVAL);
	b.comp_mask = 1;
	assert_int_equal(ibv_exp_bind_mw(&b), EINVAL);

	wr.bind_mw.mw = two;
	wr.bind_mw.rkey = ibv_inc_rkey(two->rkey);
	wr.bind_mw.bind_info = (struct ibv_exp_mw_bind_info){
		mr, (uintptr_t)mem, 32, RW | IBV_EXP_ACCESS_MW_ZERO_BASED
	};
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(posted(qp)->wr.bind.access,
			 UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_WRITE |
				 UR_ACCESS_ZERO_BASED);
	assert_int_equal(two->rkey, wr.bind_mw.rkey);
	wr.bind_mw.bind_info.exp_mw_access_flags = IBV_EXP_ACCESS_ON_DEMAND;
	assert_int_equal(post(qp, wr), EOPNOTSUPP);
	assert_int_equal(ibv_dealloc_mw(one), 0);
	assert_int_equal(ibv_dealloc_mw(two), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void refuse_mr(struct ibv_exp_reg_mr_in in, int err)
{
	errno = 0;
	assert_null(ibv_exp_reg_mr(&in));
	assert_int_equal(errno, err);
}

static void regions_are_registered(void **state)
{
	struct fixture *f = *state;
	static uint8_t mem[4096];
	struct ibv_exp_reg_mr_in in = {
		.pd = f->pd,
		.addr = mem,
		.length = sizeof(mem),
		.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE | RW |
			      IBV_EXP_ACCESS_ON_DEMAND,
		.comp_mask = IBV_EXP_REG_MR_CREATE_FLAGS,
	};
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);

	assert_non_null(mr);
	assert_ptr_equal(mr->addr, mem);
	assert_int_equal(mr->length, sizeof(mem));
	assert_ptr_equal(mr->pd, f->pd);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* As libfabric, where ODP is reported */
	in.exp_access |= IBV_EXP_ACCESS_RELAXED;
	mr = ibv_exp_reg_mr(&in);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);

	in.create_flags = IBV_EXP_REG_MR_CREATE_CONTIG;
	refuse_mr(in, EOPNOTSUPP);
	in.create_flags = 2;
	refuse_mr(in, EINVAL);
	in.comp_mask = IBV_EXP_REG_MR_DM;
	refuse_mr(in, EOPNOTSUPP);
	in.comp_mask = 0;
	for (int bit = 6; bit <= 17; bit++) {
		in.exp_access = IBV_EXP_START_FLAG << bit;
		if (in.exp_access != IBV_EXP_ACCESS_ON_DEMAND)
			refuse_mr(in, EOPNOTSUPP);
	}
	in.exp_access = IBV_EXP_START_FLAG << 4;
	refuse_mr(in, EINVAL);
	in.exp_access = IBV_EXP_ACCESS_RESERVED;
	refuse_mr(in, EINVAL);
	in.exp_access = IBV_ACCESS_HUGETLB;
	refuse_mr(in, EINVAL);
	in.exp_access = IBV_EXP_ACCESS_REMOTE_WRITE; /* without LOCAL_WRITE */
	refuse_mr(in, EINVAL);
}

static void memory_is_allocated(void **state)
{
	struct fixture *f = *state;
	struct ibv_exp_reg_mr_in in = {
		.pd = f->pd,
		.length = 10000,
		.exp_access =
			IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_ALLOCATE_MR,
	};
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);

	assert_non_null(mr);
	assert_non_null(mr->addr);
	assert_int_equal((uintptr_t)mr->addr % 4096, 0);
	assert_int_equal(mr->length, 10000);
	memset(mr->addr, 0x5a, 10000);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	in.length = 0;
	refuse_mr(in, EINVAL);
	in.length = SIZE_MAX;
	refuse_mr(in, EINVAL);
	in.length = SIZE_MAX / 2;
	refuse_mr(in, ENOMEM);
	in.length = 10000;
	in.addr = &in;
	refuse_mr(in, EINVAL);
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
		TEST(queue_pairs_are_created),
		TEST(queue_pairs_are_modified),
		TEST(completion_queues_are_created),
		TEST(completion_queues_are_modified),
		TEST(overruns_are_ignored_on_request),
		TEST(completions_have_every_member),
		TEST(the_flags_of_each_type),
		TEST(segmentation_of_raw_packets),
		TEST(owners_times_and_opcodes),
		TEST(elements_have_the_callers_size),
		TEST(requests_arrive_as_they_were),
		TEST(inline_and_datagrams),
		TEST(a_nop_has_nothing),
		TEST(what_cannot_be_posted),
		TEST(a_bad_one_stops_the_list),
		TEST(windows_are_bound),
		TEST(regions_are_registered),
		TEST(memory_is_allocated),
		IWARP(queue_pairs_are_created),
		IWARP(completion_queues_are_created),
		IWARP(completion_queues_are_modified),
		IWARP(overruns_are_ignored_on_request),
		IWARP(completions_have_every_member),
		IWARP(the_flags_of_each_type),
		IWARP(owners_times_and_opcodes),
		IWARP(elements_have_the_callers_size),
		IWARP(requests_arrive_as_they_were),
		IWARP(what_cannot_be_posted),
		IWARP(a_bad_one_stops_the_list),
		IWARP(windows_are_bound),
		IWARP(regions_are_registered),
		IWARP(memory_is_allocated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
