/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every call, opcode and flag of the experimental verbs that works between two
 * processes on RC, several times, with the data compared.  Also run with loss.
 *
 *	exp_flags -p PORT [-n ROUNDS] [-M iwarp] [HOST]
 *
 * On iWARP librdmacm connects the queue pairs.  Functions with names that begin with
 * "roce_" have what iWARP lacks (tests/conformance/exp).
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exp_calc.h"
#include "exp_cm.h"
#include "exp_iwarp.h"
#include "vt.h"

#define PART	    16384u     /* several packets */
#define WORDS	    (6 * PART) /* where the words of atomics are */
#define SIZE	    (8 * PART)
#define BASE	    0x40000u /* first address of a key */
#define INLINE_RECV 64u
#define RIGHTS                                                                 \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE |            \
	 IBV_EXP_ACCESS_REMOTE_READ | IBV_EXP_ACCESS_REMOTE_ATOMIC)

/* What each side tells the other in a round */
struct keys {
	uint64_t addr;
	uint32_t region, list, one, two;
};

static struct vt_args args = {
	.gid_index = -1, .n = 24, .timeout = 14, .retry = 7
};
static struct vt_dev dev;
static int fd;
static struct ibv_cq *cq;      /* of all but the next */
static struct ibv_cq *arrived; /* receives of `managed`; it is not polled */
static struct ibv_qp *qp;      /* lists, windows, waits and enablings */
static struct ibv_qp *managed; /* sends and receives when it is enabled */
static struct ibv_mr *mr, *key;
static struct ibv_mw *one, *two;
static struct ibv_exp_mkey_list_container *container;
static struct keys peer;
static struct exp_cm
	cm; /* on iWARP, with the connections of both queue pairs */
static struct rdma_cm_id *id[2];

static void must(int rc, const char *what)
{
	errno = rc;
	if (rc)
		VT_FAIL("%s", what);
}

static uint8_t *at(size_t offset)
{
	return (uint8_t *)mr->addr + offset;
}

/* ---- objects ---- */

static bool iwarp(void)
{
	return dev.ctx->device->transport_type == IBV_TRANSPORT_IWARP;
}

#define ROCE_FIELDS                                                            \
	(IBV_EXP_DEVICE_ATTR_TSO_CAPS | IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS)
#define FIELDS                                                                 \
	(IBV_EXP_DEVICE_ATTR_CALC_CAP |                                        \
	 IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK |                             \
	 IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK |                             \
	 IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |                                   \
	 IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS | IBV_EXP_DEVICE_ATTR_UMR |       \
	 IBV_EXP_DEVICE_ATTR_ODP | IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS |        \
	 IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ)

static void query(void)
{
	const uint32_t fields = iwarp() ? FIELDS : FIELDS | ROCE_FIELDS;
	struct ibv_exp_device_attr a = {
		.comp_mask = fields | IBV_EXP_DEVICE_ATTR_COMP_MASK_2,
	};
	const uint64_t caps =
		IBV_EXP_DEVICE_EXT_ATOMICS | IBV_EXP_DEVICE_NOP |
		IBV_EXP_DEVICE_UMR | IBV_EXP_DEVICE_ODP |
		IBV_EXP_DEVICE_EXT_MASKED_ATOMICS | IBV_EXP_DEVICE_MEM_WINDOW |
		IBV_EXP_DEVICE_MW_TYPE_2B | IBV_EXP_DEVICE_CROSS_CHANNEL |
		IBV_EXP_DEVICE_MR_ALLOCATE;

	must(ibv_exp_query_device(dev.ctx, &a), "query_device");
	VT_TRUE(a.comp_mask == fields);
	VT_TRUE(a.inline_recv_sz >= (int)INLINE_RECV);
	VT_TRUE(a.exp_atomic_cap == IBV_EXP_ATOMIC_HCA);
	VT_TRUE((a.exp_device_cap_flags & caps) == caps);
	VT_TRUE(a.odp_caps.general_odp_caps & IBV_EXP_ODP_SUPPORT);
	VT_TRUE(a.odp_caps.general_odp_caps & IBV_EXP_ODP_SUPPORT_IMPLICIT);
	VT_TRUE((a.odp_caps.per_transport_caps.rc_odp_caps & 0x3f) ==
		(IBV_EXP_ODP_SUPPORT_SEND | IBV_EXP_ODP_SUPPORT_RECV |
		 IBV_EXP_ODP_SUPPORT_WRITE | IBV_EXP_ODP_SUPPORT_READ |
		 IBV_EXP_ODP_SUPPORT_ATOMIC | IBV_EXP_ODP_SUPPORT_SRQ_RECV));
}

static void create_cqs(void)
{
	struct ibv_exp_cq_init_attr init = {
		.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
		.flags = IBV_EXP_CQ_TIMESTAMP,
	};
	struct ibv_exp_cq_attr attr = {
		.comp_mask = IBV_EXP_CQ_ATTR_MODERATION |
			     IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
		.moderation = { .cq_count = 4, .cq_period = 100 },
		.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN,
	};

	cq = ibv_exp_create_cq(dev.ctx, 128, NULL, NULL, 0, &init);
	init.flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL;
	arrived = ibv_exp_create_cq(dev.ctx, 4, NULL, NULL, 0, &init);
	VT_TRUE(cq && arrived);
	must(ibv_exp_modify_cq(cq, &attr, IBV_EXP_CQ_MODERATION), "modify_cq");
	must(ibv_exp_modify_cq(arrived, &attr, IBV_EXP_CQ_CAP_FLAGS),
	     "modify_cq");
}

static void create_memory(void)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = dev.pd,
		.length = SIZE,
		.exp_access = RIGHTS | IBV_EXP_ACCESS_MW_BIND |
			      IBV_EXP_ACCESS_ALLOCATE_MR |
			      IBV_EXP_ACCESS_ON_DEMAND | IBV_EXP_ACCESS_RELAXED,
		.comp_mask = IBV_EXP_REG_MR_CREATE_FLAGS,
	};
	struct ibv_exp_create_mr_in list = {
		.pd = dev.pd,
		.attr = { .max_klm_list_size = 8,
			  .create_flags = IBV_EXP_MR_INDIRECT_KLMS,
			  .exp_access_flags = RIGHTS },
	};
	struct ibv_exp_mkey_list_container_attr of = {
		.pd = dev.pd,
		.mkey_list_type = IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR,
		.max_klm_list_size = 8,
	};
	struct ibv_exp_mkey_attr got = { .comp_mask = 0 };

	mr = ibv_exp_reg_mr(&in);
	key = ibv_exp_create_mr(&list);
	container = ibv_exp_alloc_mkey_list_memory(&of);
	one = ibv_alloc_mw(dev.pd, IBV_MW_TYPE_1);
	two = ibv_alloc_mw(dev.pd, IBV_MW_TYPE_2);
	VT_TRUE(mr && key && container && one && two);
	must(ibv_exp_query_mkey(key, &got), "query_mkey");
	VT_TRUE(got.max_klm_list_size == 8);
}

static struct ibv_qp *create_qp(struct ibv_cq *recv_cq, uint32_t flags)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = recv_cq,
		.cap = { 64, 16, 2, 1, 64 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_EXP_QP_INIT_ATTR_INL_RECV |
			     IBV_EXP_QP_INIT_ATTR_QPG |
			     IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.pd = dev.pd,
		.exp_create_flags = flags,
		.max_inl_recv = INLINE_RECV,
		.qpg = { .qpg_type = IBV_EXP_QPG_NONE },
		.max_atomic_arg = 8,
		.max_inl_send_klms = 4,
	};
	struct ibv_qp *new;

	if (flags & IBV_EXP_QP_CREATE_UMR)
		init.comp_mask |= IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS;
	new = ibv_exp_create_qp(dev.ctx, &init);
	VT_TRUE(new &&init.max_inl_recv == INLINE_RECV);
	return new;
}

static struct ibv_ah_attr path(const struct vt_addr *to)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = to->gid,
			 .sgid_index = (uint8_t)dev.gid_index,
			 .hop_limit = 64 },
	};
}

static void to_rtr(struct ibv_qp *q, const struct vt_addr *to)
{
	struct ibv_exp_qp_attr a = { .qp_state = IBV_QPS_INIT,
				     .port_num = 1,
				     .qp_access_flags = (int)RIGHTS };

	must(ibv_exp_modify_qp(q, &a,
			       IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
				       IBV_EXP_QP_PORT |
				       IBV_EXP_QP_ACCESS_FLAGS),
	     "INIT");
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = to->qpn;
	a.rq_psn = to->psn;
	a.max_dest_rd_atomic = 4;
	a.min_rnr_timer = 12;
	a.ah_attr = path(to);
	must(ibv_exp_modify_qp(q, &a,
			       IBV_EXP_QP_STATE | IBV_EXP_QP_AV |
				       IBV_EXP_QP_PATH_MTU |
				       IBV_EXP_QP_DEST_QPN | IBV_EXP_QP_RQ_PSN |
				       IBV_EXP_QP_MAX_DEST_RD_ATOMIC |
				       IBV_EXP_QP_MIN_RNR_TIMER),
	     "RTR");
}

/* The alternate path is the same: it is only loaded and armed. */
static void to_rts(struct ibv_qp *q, const struct vt_addr *mine,
		   const struct vt_addr *to)
{
	struct ibv_exp_qp_attr a = { .qp_state = IBV_QPS_RTS,
				     .cur_qp_state = IBV_QPS_RTR,
				     .sq_psn = mine->psn,
				     .timeout = 14,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .max_rd_atomic = 4,
				     .alt_ah_attr = path(to),
				     .alt_port_num = 1,
				     .alt_timeout = 14,
				     .path_mig_state = IBV_MIG_REARM,
				     .rate_limit = 10000000 };

	must(ibv_exp_modify_qp(
		     q, &a,
		     IBV_EXP_QP_STATE | IBV_EXP_QP_CUR_STATE |
			     IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT |
			     IBV_EXP_QP_RNR_RETRY | IBV_EXP_QP_SQ_PSN |
			     IBV_EXP_QP_MAX_QP_RD_ATOMIC | IBV_EXP_QP_ALT_PATH |
			     IBV_EXP_QP_PATH_MIG_STATE),
	     "RTS");
	must(ibv_exp_modify_qp(q, &a, IBV_EXP_QP_RATE_LIMIT), "rate");
}

static void roce_connect(void)
{
	struct ibv_qp *both[2] = { qp, managed };
	struct vt_addr mine, theirs;

	for (int i = 0; i < 2; i++) {
		vt_qp_addr(&dev, both[i], &mine);
		vt_swap(fd, &mine, &theirs, sizeof(mine));
		to_rtr(both[i], &theirs);
		to_rts(both[i], &mine, &theirs);
	}
}

/* The first connection has the device. */
static void iwarp_open(void)
{
	id[0] = exp_cm_id(&cm, args.host, fd);
	dev.ctx = id[0]->verbs;
	dev.pd = ibv_alloc_pd(dev.ctx);
	VT_TRUE(dev.pd && iwarp());
}

static void iwarp_connect(void)
{
	struct ibv_exp_qp_attr a = { .qp_access_flags = (int)RIGHTS };

	id[0]->qp = qp;
	exp_cm_connect(id[0], args.host);
	id[1] = exp_cm_id(&cm, args.host, fd);
	id[1]->qp = managed;
	exp_cm_connect(id[1], args.host);
	must(ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_ACCESS_FLAGS), "rights");
	iwarp_attributes(qp);
	iwarp_lacks_fields(dev.ctx);
	iwarp_lacks_types(dev.ctx, dev.pd, cq);
	iwarp_lacks_requests(qp);
}

static void connect_all(void)
{
	if (iwarp())
		iwarp_connect();
	else
		roce_connect();
	vt_barrier(fd);
}

/* ---- requests ---- */

static void post(struct ibv_qp *q, struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad;
	int rc = ibv_exp_post_send(q, &wr, &bad);

	if (rc)
		VT_FAIL("opcode %#x: %s", wr.exp_opcode, strerror(rc));
}

static struct ibv_exp_wc expect(enum ibv_exp_wc_opcode opcode, uint64_t flags)
{
	const uint64_t all = IBV_EXP_WC_WITH_TIMESTAMP | IBV_EXP_WC_QP | flags;
	uint64_t end = vt_now_ms() + 30000;
	struct ibv_exp_wc wc;
	int got;

	do
		got = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc));
	while (!got && vt_now_ms() < end);
	VT_TRUE(got == 1);
	if (wc.status || wc.exp_opcode != opcode || wc.exp_wc_flags != all ||
	    wc.qp->qp_num != wc.qp_num || !wc.timestamp)
		VT_FAIL("status %d, opcode %#x, not %#x, flags %#lx, not %#lx",
			wc.status, wc.exp_opcode, opcode, wc.exp_wc_flags, all);
	return wc;
}

static struct ibv_exp_send_wr request(enum ibv_exp_wr_opcode opcode,
				      struct ibv_sge *sge)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = opcode;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.sg_list = sge;
	wr.num_sge = sge != NULL;
	wr.wr.rdma.remote_addr = peer.addr;
	wr.wr.rdma.rkey = peer.region;
	return wr;
}

static struct ibv_sge piece(size_t offset, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)at(offset), length, mr->lkey };
}

static struct ibv_exp_send_wr fill(void)
{
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_UMR_FILL, NULL);

	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.exp_access = RIGHTS;
	wr.ext_op.umr.base_addr = BASE;
	return wr;
}

/* Two pieces, by a container: parts 3 and 5 of the memory */
static void fill_list(void)
{
	struct ibv_exp_mem_region r[2] = {
		{ (uintptr_t)at(3 * PART), mr, PART },
		{ (uintptr_t)at(5 * PART), mr, PART },
	};
	struct ibv_exp_send_wr wr = fill();

	wr.ext_op.umr.umr_type = IBV_EXP_UMR_MR_LIST;
	wr.ext_op.umr.memory_objects = container;
	wr.ext_op.umr.num_mrs = 2;
	wr.ext_op.umr.mem_list.mem_reg_list = r;
	post(qp, wr);
	expect(IBV_EXP_WC_UMR, 0);
}

/* Columns of 64 bytes in an inline list: every other 64 bytes from part 2 on */
static void fill_columns(void)
{
	size_t bytes = 64, stride = 128, count = 2 * PART / 64;
	struct ibv_exp_mem_repeat_block b = { (uintptr_t)at(PART), mr, &bytes,
					      &stride };
	struct ibv_exp_send_wr wr = fill();

	wr.exp_send_flags |= IBV_EXP_SEND_INLINE;
	wr.ext_op.umr.umr_type = IBV_EXP_UMR_REPEAT;
	wr.ext_op.umr.num_mrs = 1;
	wr.ext_op.umr.mem_list.rb.mem_repeat_block_list = &b;
	wr.ext_op.umr.mem_list.rb.repeat_count = &count;
	wr.ext_op.umr.mem_list.rb.stride_dim = 1;
	post(qp, wr);
	expect(IBV_EXP_WC_UMR, 0);
}

/* ---- the server's part of a round ---- */

static void bind_one(void)
{
	struct ibv_exp_mw_bind b = {
		.qp = qp,
		.mw = one,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
		.bind_info = { mr, (uintptr_t)at(0), 2 * PART,
			       IBV_EXP_ACCESS_REMOTE_WRITE },
	};

	must(ibv_exp_bind_mw(&b), "bind_mw");
	expect(IBV_EXP_WC_BIND_MW, 0);
}

/* Addresses begin at 0. */
static void bind_two(void)
{
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_BIND_MW, NULL);

	wr.bind_mw.mw = two;
	wr.bind_mw.rkey = ibv_inc_rkey(two->rkey);
	wr.bind_mw.bind_info = (struct ibv_exp_mw_bind_info){
		mr, (uintptr_t)at(2 * PART), PART,
		IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_MW_ZERO_BASED
	};
	post(qp, wr);
	expect(IBV_EXP_WC_BIND_MW, 0);
}

static void invalidate(enum ibv_exp_wr_opcode opcode)
{
	struct ibv_exp_send_wr wr = request(opcode, NULL);

	if (opcode == IBV_EXP_WR_LOCAL_INV) {
		wr.ex.invalidate_rkey = two->rkey;
		post(qp, wr);
		expect(IBV_EXP_WC_LOCAL_INV, 0);
		return;
	}
	wr.ext_op.umr.modified_mr = key;
	post(qp, wr);
	expect(IBV_EXP_WC_UMR, 0);
}

/* Messages up to the size of inline receives, and one that is longer: all data is in
 * the buffer when the completion is polled, and nothing behind it is written. */
static const uint32_t short_sizes[] = { 0, 1, INLINE_RECV - 1, INLINE_RECV,
					INLINE_RECV + 1 };
#define SHORT_SIZES (sizeof(short_sizes) / sizeof(short_sizes[0]))

static void receive_short(uint64_t seed)
{
	for (size_t i = 0; i < SHORT_SIZES; i++)
		vt_recv(qp, mr, 4 * PART + 128 * i, 128, 0);
	memset(at(4 * PART), 0xee, 128 * SHORT_SIZES);
	vt_barrier(fd);
	for (size_t i = 0; i < SHORT_SIZES; i++) {
		const uint8_t *in = at(4 * PART + 128 * i);

		VT_TRUE(expect(IBV_EXP_WC_RECV, 0).byte_len == short_sizes[i]);
		VT_TRUE(vt_check(in, short_sizes[i], seed + i));
		for (uint32_t k = short_sizes[i]; k < 128; k++)
			VT_TRUE(in[k] == 0xee);
	}
}

static void send_short(uint64_t seed)
{
	vt_barrier(fd);
	for (size_t i = 0; i < SHORT_SIZES; i++) {
		struct ibv_sge sge = piece(4 * PART + 128 * i, short_sizes[i]);

		vt_fill(at(4 * PART + 128 * i), short_sizes[i], seed + i);
		post(qp, request(IBV_EXP_WR_SEND, &sge));
		expect(IBV_EXP_WC_SEND, 0);
	}
}

static void serve(uint64_t seed)
{
	const uint64_t words[4] = { seed, 7, 0, seed };
	uint64_t *w = (uint64_t *)(void *)at(WORDS);

	bind_one();
	bind_two();
	fill_list();
	vt_fill(at(3 * PART), PART, seed + 1);
	vt_fill(at(5 * PART), PART, seed + 2);
	memcpy(w, words, sizeof(words));
	for (int i = 0; i < 3; i++)
		vt_recv(qp, mr, 4 * PART, PART, 0);
	vt_swap(fd,
		&(struct keys){ (uintptr_t)at(0), mr->rkey, key->rkey,
				one->rkey, two->rkey },
		&peer, sizeof(peer));
	expect(IBV_EXP_WC_RECV_RDMA_WITH_IMM, IBV_EXP_WC_WITH_IMM);
	VT_TRUE(vt_check(at(2 * PART), PART, seed + 4));
	VT_TRUE(vt_check(at(0), 2 * PART, seed + 3));
	if (iwarp())
		expect(IBV_EXP_WC_RECV, 0);
	else
		VT_TRUE(expect(IBV_EXP_WC_RECV, IBV_EXP_WC_WITH_IMM).imm_data ==
			(uint32_t)seed);
	VT_TRUE(expect(IBV_EXP_WC_RECV, IBV_EXP_WC_WITH_INV).imm_data ==
		two->rkey);
	vt_barrier(fd);
	VT_TRUE(w[0] == ~seed && w[1] == 12 && w[2] == 0xff00);
	VT_TRUE(w[3] == ((seed & ~0xffull) | 0x5a));
	bind_two(); /* the client has invalidated it */
	invalidate(IBV_EXP_WR_LOCAL_INV);
	invalidate(IBV_EXP_WR_UMR_INVALIDATE);
}

/* ---- the client's ---- */

static void atomics(uint64_t seed)
{
	/* Answers that were lost come after later ones. */
	struct ibv_sge sge[4];
	const uint64_t *w = (const uint64_t *)(void *)at(WORDS);
	struct ibv_exp_send_wr wr =
		request(IBV_EXP_WR_ATOMIC_CMP_AND_SWP, &sge[0]);

	for (uint32_t i = 0; i < 4; i++)
		sge[i] = piece(WORDS + 8 * i, 8);

	wr.wr.atomic.remote_addr = peer.addr + WORDS;
	wr.wr.atomic.compare_add = seed;
	wr.wr.atomic.swap = ~seed;
	wr.wr.atomic.rkey = peer.region;
	post(qp, wr);
	wr.exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
	wr.sg_list = &sge[1];
	wr.wr.atomic.remote_addr += 8;
	wr.wr.atomic.compare_add = 5;
	post(qp, wr);
	wr = request(IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, &sge[2]);
	wr.exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	wr.ext_op.masked_atomics.remote_addr = peer.addr + WORDS + 16;
	wr.ext_op.masked_atomics.rkey = peer.region;
	/* A field of 16 bits: no carry into the next one */
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
		(struct ibv_exp_fetch_add){ .add_val = 0xff00,
					    .field_boundary = 0x8000 };
	post(qp, wr);
	wr.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP;
	wr.sg_list = &sge[3];
	wr.ext_op.masked_atomics.remote_addr += 8;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap =
		(struct ibv_exp_cmp_swap){ .swap_val = 0x5a,
					   .swap_mask = 0xff };
	post(qp, wr);
	expect(IBV_EXP_WC_COMP_SWAP, 0);
	expect(IBV_EXP_WC_FETCH_ADD, 0);
	expect(IBV_EXP_WC_MASKED_FETCH_ADD, 0);
	expect(IBV_EXP_WC_MASKED_COMP_SWAP, 0);
	VT_TRUE(w[0] == seed && w[1] == 7 && w[2] == 0 && w[3] == seed);
}

/* Columns of the key, as one range */
static void columns(bool put, uint8_t *to)
{
	for (uint32_t i = 0; i < 2 * PART; i += 64) {
		if (put)
			memcpy(at(PART + 2 * i), to + i, 64);
		else
			memcpy(to + i, at(PART + 2 * i), 64);
	}
}

/* From and into the key. */
static void by_lists(uint64_t seed)
{
	struct ibv_sge sge = { BASE, 2 * PART, key->lkey };
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_RDMA_WRITE, &sge);
	static uint8_t data[2 * PART];

	vt_fill(data, sizeof(data), seed + 3);
	columns(true, data);
	wr.wr.rdma.rkey = peer.one;
	post(qp, wr);
	expect(IBV_EXP_WC_RDMA_WRITE, 0);
	wr.exp_opcode = IBV_EXP_WR_RDMA_READ;
	wr.exp_send_flags |= IBV_EXP_SEND_FENCE;
	wr.wr.rdma.remote_addr = BASE;
	wr.wr.rdma.rkey = peer.list;
	post(qp, wr);
	expect(IBV_EXP_WC_RDMA_READ, 0);
	columns(false, data);
	VT_TRUE(vt_check(data, PART, seed + 1));
	VT_TRUE(vt_check(data + PART, PART, seed + 2));
}

static void roce_immediate(struct ibv_exp_send_wr *wr, uint64_t seed)
{
	wr->exp_opcode = IBV_EXP_WR_SEND_WITH_IMM;
	wr->ex.imm_data = (uint32_t)seed;
}

static void drive(uint64_t seed)
{
	struct ibv_sge sge = piece(0, PART);
	struct ibv_exp_send_wr wr =
		request(IBV_EXP_WR_RDMA_WRITE_WITH_IMM, &sge);

	vt_swap(fd, &(struct keys){ 0 }, &peer, sizeof(peer));
	fill_columns();
	by_lists(seed);
	vt_fill(at(0), PART, seed + 4);
	wr.wr.rdma.remote_addr = 0;
	wr.wr.rdma.rkey = peer.two;
	wr.exp_send_flags |= IBV_EXP_SEND_SOLICITED;
	post(qp, wr);
	expect(IBV_EXP_WC_RDMA_WRITE, 0);
	wr = request(IBV_EXP_WR_SEND, &sge);
	if (!iwarp())
		roce_immediate(&wr, seed);
	post(qp, wr);
	expect(IBV_EXP_WC_SEND, 0);
	atomics(seed);
	post(qp, request(IBV_EXP_WR_NOP, NULL));
	expect(IBV_EXP_WC_SEND, 0);
	sge.length = 32;
	wr = request(IBV_EXP_WR_SEND_WITH_INV, &sge);
	wr.exp_send_flags |= IBV_EXP_SEND_INLINE;
	wr.ex.invalidate_rkey = peer.two;
	post(qp, wr);
	expect(IBV_EXP_WC_SEND, 0);
	vt_barrier(fd);
	invalidate(IBV_EXP_WR_UMR_INVALIDATE);
}

/* ---- tasks ---- */

static void operand(uint32_t number, uint64_t value)
{
	uint64_t be[2] = { htobe64(value), 0 };

	memcpy(at(WORDS + 1024 + 16 * number), be, 16);
}

/* A calculation, of this side's operands, for the other one. */
static struct ibv_exp_send_wr calc_wr(uint32_t i, struct ibv_sge sge[2])
{
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_SEND, sge);

	sge[0] = piece(WORDS + 1024, 16);
	sge[1] = piece(WORDS + 1040, 16);
	wr.num_sge = 2;
	wr.exp_send_flags |= IBV_EXP_SEND_WITH_CALC;
	wr.op.calc.calc_op = ops[i % 4];
	wr.op.calc.data_type = types[i % 3];
	wr.op.calc.data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
	return wr;
}

/* A receive and a send of `managed` are enabled, and what arrives is awaited. */
static void control_wrs(struct ibv_exp_send_wr ctl[3])
{
	ctl[0] = request(IBV_EXP_WR_RECV_ENABLE, NULL);
	ctl[1] = request(IBV_EXP_WR_SEND_ENABLE, NULL);
	ctl[2] = request(IBV_EXP_WR_CQE_WAIT, NULL);
	for (int k = 0; k < 3; k++) {
		ctl[k].next = k < 2 ? &ctl[k + 1] : NULL;
		ctl[k].exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST;
		ctl[k].task.wqe_enable.qp = managed;
		ctl[k].task.wqe_enable.wqe_count = 1;
	}
	ctl[2].task.cqe_wait.cq = arrived;
	ctl[2].task.cqe_wait.cq_count = 1;
	ctl[2].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
}

/* Both sides send, and have received when their wait is over. */
static void run_tasks(uint32_t i)
{
	const uint64_t a = 0x123456789a + i;
	const uint64_t b = ops[i % 4] == IBV_EXP_CALC_OP_ADD ? 0 : 0xf0f0f0f0f0;
	struct ibv_sge into = piece(WORDS + 2048, 16), sge[2];
	struct ibv_recv_wr recv = { .sg_list = &into, .num_sge = 1 };
	struct ibv_exp_send_wr send = calc_wr(i, sge), ctl[3];
	struct ibv_exp_task t[3], *bad = NULL;
	uint64_t got;

	operand(0, a);
	operand(1, b);
	control_wrs(ctl);
	memset(t, 0, sizeof(t));
	t[0].task_type = IBV_EXP_TASK_RECV;
	t[0].item.qp = managed;
	t[0].item.recv_wr = &recv;
	t[0].next = &t[1];
	t[1].task_type = IBV_EXP_TASK_SEND;
	t[1].item.qp = managed;
	t[1].item.send_wr = &send;
	t[1].next = &t[2];
	t[2].task_type = IBV_EXP_TASK_SEND;
	t[2].item.qp = qp;
	t[2].item.send_wr = ctl;
	must(ibv_exp_post_task(dev.ctx, t, &bad), "post_task");
	expect(IBV_EXP_WC_SEND, 0);
	expect(IBV_EXP_WC_SEND, 0);
	memcpy(&got, at(WORDS + 2048), 8);
	if (be64toh(got) != calculated(ops[i % 4], a, b))
		VT_FAIL("%#lx by operation %u", be64toh(got), ops[i % 4]);
}

/* All that was posted has been executed: to SQD, with the event, and on RoCE back. */
static void drain(void)
{
	struct ibv_exp_qp_attr a = { .qp_state = IBV_QPS_SQD,
				     .en_sqd_async_notify = 1 };
	struct ibv_async_event e;

	must(ibv_exp_modify_qp(
		     qp, &a, IBV_EXP_QP_STATE | IBV_EXP_QP_EN_SQD_ASYNC_NOTIFY),
	     "SQD");
	do {
		must(ibv_get_async_event(dev.ctx, &e), "async event");
		ibv_ack_async_event(&e);
	} while (e.event_type == IBV_EVENT_COMM_EST);
	VT_TRUE(e.event_type == IBV_EVENT_SQ_DRAINED && e.element.qp == qp);
	a.qp_state = IBV_QPS_RTS;
	if (!iwarp())
		must(ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_STATE), "RTS");
}

static void close_all(void)
{
	vt_barrier(fd);
	must(ibv_destroy_qp(managed), "QP");
	must(ibv_destroy_qp(qp), "QP");
	must(ibv_dealloc_mw(one), "MW");
	must(ibv_dealloc_mw(two), "MW");
	must(ibv_exp_dealloc_mkey_list_memory(container), "list");
	must(ibv_dereg_mr(key), "key");
	must(ibv_dereg_mr(mr), "MR");
	must(ibv_destroy_cq(arrived), "CQ");
	must(ibv_destroy_cq(cq), "CQ");
	if (!iwarp()) {
		vt_dev_close(&dev);
		return;
	}
	must(ibv_dealloc_pd(dev.pd), "PD");
	for (int i = 0; i < 2; i++) {
		id[i]->qp = NULL;
		VT_TRUE(rdma_destroy_id(id[i]) == 0);
	}
	exp_cm_end(&cm);
}

int main(int argc, char **argv)
{
	vt_args(&args, argc, argv);
	fd = vt_connect(args.host, args.port);
	if (args.mode)
		iwarp_open();
	else
		vt_dev_open(&dev, args.gid_index);
	query();
	create_cqs();
	create_memory();
	qp = create_qp(cq,
		       IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_UMR);
	managed = create_qp(arrived, IBV_EXP_QP_CREATE_CROSS_CHANNEL |
					     IBV_EXP_QP_CREATE_MANAGED_SEND |
					     IBV_EXP_QP_CREATE_MANAGED_RECV);
	connect_all();
	for (uint32_t i = 0; i < (uint32_t)args.n; i++) {
		uint64_t seed = 0x1234560000ull + 16 * i;

		if (args.host) {
			drive(seed);
			send_short(seed);
		} else {
			serve(seed);
			receive_short(seed);
		}
		run_tasks(i);
		if (!iwarp())
			drain();
	}
	/* That closes the connection, in which the other side may still wait. */
	if (iwarp()) {
		vt_barrier(fd);
		if (args.host)
			drain();
	}
	close_all();
	printf("%ld rounds\n", args.n);
	return 0;
}
