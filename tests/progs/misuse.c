/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wrong arguments, and the errno that each gets: tables for the calls that
 * create, modify and post.  The values are those that rdma-core gives with
 * the kernel's rxe, or with mlx5 where rxe has no such case; programs test
 * for them.  All tables run several times, and the heap must not grow.
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "vt.h"

#define ROUNDS 20

static struct vt_dev dev;
static struct ibv_device_attr lim;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static int failures;

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void expect(const char *call, const char *what, int want, int got)
{
	if (got == want)
		return;
	printf("%s with %s: %s instead of %s\n", call, what, strerror(got),
	       strerror(want));
	failures++;
}

/* errno of a call that returned a pointer; 0: it succeeded. */
static int null_error(const void *p)
{
	return p ? 0 : errno;
}

/* ---- completion queues ---- */

static void misuse_cq(void)
{
	static const struct {
		const char *what;
		int cqe;
		int vector;
		int want;
	} rows[] = {
		{ "no entries", 0, 0, EINVAL },
		{ "a negative size", -1, 0, EINVAL },
		{ "too many entries", INT32_MAX, 0, EINVAL },
		{ "a vector that is not there", 1, 1 << 20, EINVAL },
		{ "a negative vector", 1, -1, EINVAL },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ibv_cq *c = ibv_create_cq(dev.ctx, rows[i].cqe, NULL,
						 NULL, rows[i].vector);

		expect("ibv_create_cq", rows[i].what, rows[i].want,
		       null_error(c));
	}
	expect("ibv_resize_cq", "no entries", EINVAL, ibv_resize_cq(cq, 0));
	expect("ibv_resize_cq", "too many entries", EINVAL,
	       ibv_resize_cq(cq, lim.max_cqe + 1));
}

static void misuse_cq_ex(void)
{
	static const struct {
		const char *what;
		struct ibv_cq_init_attr_ex init;
		int want;
	} rows[] = {
		{ "no entries", { .cqe = 0 }, EINVAL },
		{ "a vector that is not there",
		  { .cqe = 1, .comp_vector = 1 << 20 },
		  EINVAL },
		{ "unknown fields",
		  { .cqe = 1, .wc_flags = 1ull << 50 },
		  EOPNOTSUPP },
		{ "an unknown mask",
		  { .cqe = 1, .comp_mask = 1u << 30 },
		  EOPNOTSUPP },
		{ "unknown flags",
		  { .cqe = 1,
		    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		    .flags = 1u << 30 },
		  EOPNOTSUPP },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ibv_cq_init_attr_ex init = rows[i].init;

		expect("ibv_create_cq_ex", rows[i].what, rows[i].want,
		       null_error(ibv_create_cq_ex(dev.ctx, &init)));
	}
}

/* ---- creating queue pairs ---- */

static struct ibv_qp_init_attr good_qp(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { 2, 2, 1, 1, 32 },
		.qp_type = type,
	};
}

static void no_send_cq(struct ibv_qp_init_attr *a)
{
	a->send_cq = NULL;
}

static void no_recv_cq(struct ibv_qp_init_attr *a)
{
	a->recv_cq = NULL;
}

static void many_sends(struct ibv_qp_init_attr *a)
{
	a->cap.max_send_wr = (uint32_t)lim.max_qp_wr + 1;
}

static void many_receives(struct ibv_qp_init_attr *a)
{
	a->cap.max_recv_wr = (uint32_t)lim.max_qp_wr + 1;
}

static void many_send_sges(struct ibv_qp_init_attr *a)
{
	a->cap.max_send_sge = (uint32_t)lim.max_sge + 1;
}

static void many_recv_sges(struct ibv_qp_init_attr *a)
{
	a->cap.max_recv_sge = (uint32_t)lim.max_sge + 1;
}

static void much_inline(struct ibv_qp_init_attr *a)
{
	a->cap.max_inline_data = 1u << 30;
}

static void no_type(struct ibv_qp_init_attr *a)
{
	a->qp_type = (enum ibv_qp_type)0;
}

static void driver_type(struct ibv_qp_init_attr *a)
{
	a->qp_type = IBV_QPT_DRIVER;
}

static void target_type(struct ibv_qp_init_attr *a)
{
	a->qp_type = IBV_QPT_XRC_RECV;
}

static void misuse_qp(void)
{
	static const struct {
		const char *what;
		void (*spoil)(struct ibv_qp_init_attr *a);
		int want;
	} rows[] = {
		{ "no queue for sends", no_send_cq, EINVAL },
		{ "no queue for receives", no_recv_cq, EINVAL },
		{ "too many sends", many_sends, EINVAL },
		{ "too many receives", many_receives, EINVAL },
		{ "too many pieces in a send", many_send_sges, EINVAL },
		{ "too many pieces in a receive", many_recv_sges, EINVAL },
		{ "too much inline data", much_inline, EINVAL },
		{ "no type", no_type, EOPNOTSUPP },
		{ "a driver's type", driver_type, EOPNOTSUPP },
		{ "a target without a domain", target_type, EINVAL },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ibv_qp_init_attr init = good_qp(IBV_QPT_RC);

		rows[i].spoil(&init);
		expect("ibv_create_qp", rows[i].what, rows[i].want,
		       null_error(ibv_create_qp(dev.pd, &init)));
	}
}

static void misuse_qp_ex(void)
{
	static const struct {
		const char *what;
		enum ibv_qp_type type;
		uint32_t mask; /* beside the protection domain */
		uint32_t flags;
		uint64_t ops;
		int want;
	} rows[] = {
		{ "an unknown mask", IBV_QPT_RC, 1u << 30, 0, 0, EOPNOTSUPP },
		{ "unknown flags", IBV_QPT_RC, IBV_QP_INIT_ATTR_CREATE_FLAGS,
		  1u << 30, 0, EOPNOTSUPP },
		{ "another source on a connection", IBV_QPT_RC,
		  IBV_QP_INIT_ATTR_CREATE_FLAGS, IBV_QP_CREATE_SOURCE_QPN, 0,
		  EOPNOTSUPP },
		{ "unknown operations", IBV_QPT_RC,
		  IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, 1ull << 50, EOPNOTSUPP },
		{ "READ on datagrams", IBV_QPT_UD,
		  IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, IBV_QP_EX_WITH_RDMA_READ,
		  EOPNOTSUPP },
		{ "atomics on UC", IBV_QPT_UC, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		  0, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, EOPNOTSUPP },
	};
	struct ibv_qp_init_attr_ex none = { .qp_type = IBV_QPT_RC,
					    .send_cq = cq,
					    .recv_cq = cq };

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ibv_qp_init_attr_ex init = {
			.send_cq = cq,
			.recv_cq = cq,
			.cap = { 2, 2, 1, 1, 32 },
			.qp_type = rows[i].type,
			.comp_mask = IBV_QP_INIT_ATTR_PD | rows[i].mask,
			.pd = dev.pd,
			.create_flags = rows[i].flags,
			.send_ops_flags = rows[i].ops,
		};

		expect("ibv_create_qp_ex", rows[i].what, rows[i].want,
		       null_error(ibv_create_qp_ex(dev.ctx, &init)));
	}
	expect("ibv_create_qp_ex", "no protection domain", EINVAL,
	       null_error(ibv_create_qp_ex(dev.ctx, &none)));
}

/* ---- modifying them ---- */

#define TO_INIT                                                                \
	(IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define TO_RTR                                                                 \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |        \
	 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define TO_RTS                                                                 \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
	 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)

static struct ibv_qp_attr good_attr(void)
{
	return (struct ibv_qp_attr){
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = dev.gid,
				      .sgid_index = (uint8_t)dev.gid_index } },
	};
}

/* An RC queue pair that has come to a state, connected to itself. */
static struct ibv_qp *qp_in(enum ibv_qp_state state)
{
	static const struct {
		enum ibv_qp_state state;
		int mask;
	} way[] = {
		{ IBV_QPS_INIT, TO_INIT },
		{ IBV_QPS_RTR, TO_RTR },
		{ IBV_QPS_RTS, TO_RTS },
	};
	struct ibv_qp_init_attr init = good_qp(IBV_QPT_RC);
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &init);
	struct ibv_qp_attr a = good_attr();

	VT_TRUE(qp);
	a.dest_qp_num = qp->qp_num;
	for (size_t i = 0; i < COUNT(way) && way[i].state <= state; i++) {
		a.qp_state = way[i].state;
		VT_TRUE(ibv_modify_qp(qp, &a, way[i].mask) == 0);
	}
	if (state == IBV_QPS_ERR) {
		a.qp_state = IBV_QPS_ERR;
		VT_TRUE(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
	}
	return qp;
}

#define SPOIL(name, statement)                                                 \
	static void name(struct ibv_qp_attr *a)                                \
	{                                                                      \
		statement;                                                     \
	}

SPOIL(nothing, (void)a)
SPOIL(port_0, a->port_num = 0)
SPOIL(port_2, a->port_num = 2)
SPOIL(pkey, a->pkey_index = 1)
SPOIL(mtu_0, a->path_mtu = (enum ibv_mtu)0)
SPOIL(mtu_6, a->path_mtu = (enum ibv_mtu)6)
SPOIL(responder, a->max_dest_rd_atomic = 255)
SPOIL(initiator, a->max_rd_atomic = 255)
SPOIL(rnr_timer, a->min_rnr_timer = 32)
SPOIL(timeout, a->timeout = 32)
SPOIL(retries, a->retry_cnt = 8)
SPOIL(rnr_retries, a->rnr_retry = 8)
SPOIL(sgid, a->ah_attr.grh.sgid_index = 255)
SPOIL(no_dgid, memset(&a->ah_attr.grh.dgid, 0, 16))
SPOIL(av_port, a->ah_attr.port_num = 2)
SPOIL(qpn, a->dest_qp_num = 1u << 24)
SPOIL(cur_state, a->cur_qp_state = IBV_QPS_SQD)
SPOIL(state_7, a->qp_state = (enum ibv_qp_state)7)
SPOIL(fast, a->rate_limit = UINT32_MAX)

static const struct {
	const char *what;
	enum ibv_qp_state from;
	enum ibv_qp_state to;
	int mask;
	void (*spoil)(struct ibv_qp_attr *a);
	int want;
} modify_rows[] = {
	{ "RESET to RTS", IBV_QPS_RESET, IBV_QPS_RTS, TO_RTS, nothing, EINVAL },
	{ "INIT to RTS", IBV_QPS_INIT, IBV_QPS_RTS, TO_RTS, nothing, EINVAL },
	{ "ERR to RTS", IBV_QPS_ERR, IBV_QPS_RTS, TO_RTS, nothing, EINVAL },
	{ "RTS to RTR", IBV_QPS_RTS, IBV_QPS_RTR, TO_RTR, nothing, EINVAL },
	{ "no such state", IBV_QPS_RESET, IBV_QPS_INIT, TO_INIT, state_7,
	  EINVAL },
	{ "INIT without a port", IBV_QPS_RESET, IBV_QPS_INIT,
	  TO_INIT & ~IBV_QP_PORT, nothing, EINVAL },
	{ "INIT with a timeout", IBV_QPS_RESET, IBV_QPS_INIT,
	  TO_INIT | IBV_QP_TIMEOUT, nothing, EINVAL },
	{ "INIT with a Q_Key", IBV_QPS_RESET, IBV_QPS_INIT,
	  TO_INIT | IBV_QP_QKEY, nothing, EINVAL },
	{ "port 0", IBV_QPS_RESET, IBV_QPS_INIT, TO_INIT, port_0, EINVAL },
	{ "port 2", IBV_QPS_RESET, IBV_QPS_INIT, TO_INIT, port_2, EINVAL },
	{ "P_Key index 1", IBV_QPS_RESET, IBV_QPS_INIT, TO_INIT, pkey, EINVAL },
	{ "RTR without an address", IBV_QPS_INIT, IBV_QPS_RTR,
	  TO_RTR & ~IBV_QP_AV, nothing, EINVAL },
	{ "MTU code 0", IBV_QPS_INIT, IBV_QPS_RTR, TO_RTR, mtu_0, EINVAL },
	{ "MTU code 6", IBV_QPS_INIT, IBV_QPS_RTR, TO_RTR, mtu_6, EINVAL },
	{ "too many responder resources", IBV_QPS_INIT, IBV_QPS_RTR, TO_RTR,
	  responder, EINVAL },
	{ "RNR timer 32", IBV_QPS_INIT, IBV_QPS_RTR, TO_RTR, rnr_timer,
	  EINVAL },
	{ "a GID that is not there", IBV_QPS_INIT, IBV_QPS_RTR, TO_RTR, sgid,
	  EINVAL },
	{ "no destination", IBV_QPS_INIT, IBV_QPS_RTR, TO_RTR, no_dgid,
	  EINVAL },
	{ "an address of port 2", IBV_QPS_INIT, IBV_QPS_RTR, TO_RTR, av_port,
	  EINVAL },
	{ "a QP number of 25 bits", IBV_QPS_INIT, IBV_QPS_RTR, TO_RTR, qpn,
	  EINVAL },
	{ "RTS without a timeout", IBV_QPS_RTR, IBV_QPS_RTS,
	  TO_RTS & ~IBV_QP_TIMEOUT, nothing, EINVAL },
	{ "timeout 32", IBV_QPS_RTR, IBV_QPS_RTS, TO_RTS, timeout, EINVAL },
	{ "8 retries", IBV_QPS_RTR, IBV_QPS_RTS, TO_RTS, retries, EINVAL },
	{ "8 RNR retries", IBV_QPS_RTR, IBV_QPS_RTS, TO_RTS, rnr_retries,
	  EINVAL },
	{ "too deep an initiator", IBV_QPS_RTR, IBV_QPS_RTS, TO_RTS, initiator,
	  EINVAL },
	{ "another current state", IBV_QPS_RTS, IBV_QPS_RTS,
	  IBV_QP_STATE | IBV_QP_CUR_STATE, cur_state, EINVAL },
	{ "too high a rate", IBV_QPS_RTS, IBV_QPS_RTS,
	  IBV_QP_STATE | IBV_QP_RATE_LIMIT, fast, EINVAL },
	{ "an unknown attribute", IBV_QPS_RTS, IBV_QPS_RTS,
	  IBV_QP_STATE | 1 << 28, nothing, EOPNOTSUPP },
};

static void misuse_modify(void)
{
	for (size_t i = 0; i < COUNT(modify_rows); i++) {
		struct ibv_qp *qp = qp_in(modify_rows[i].from);
		struct ibv_qp_attr a = good_attr(), now;
		struct ibv_qp_init_attr init;

		a.dest_qp_num = qp->qp_num;
		a.qp_state = modify_rows[i].to;
		modify_rows[i].spoil(&a);
		expect("ibv_modify_qp", modify_rows[i].what,
		       modify_rows[i].want,
		       ibv_modify_qp(qp, &a, modify_rows[i].mask));
		/* What is refused changes nothing. */
		VT_TRUE(ibv_query_qp(qp, &now, IBV_QP_STATE, &init) == 0);
		VT_TRUE(now.qp_state == modify_rows[i].from);
		VT_TRUE(ibv_destroy_qp(qp) == 0);
	}
}

/* ---- posting ---- */

#define WR(name, statement)                                                    \
	static void name(struct ibv_send_wr *w)                                \
	{                                                                      \
		statement;                                                     \
	}

WR(as_it_is, (void)w)
WR(negative_sges, w->num_sge = -1)
WR(two_sges, w->num_sge = 2)
WR(no_such_opcode, w->opcode = (enum ibv_wr_opcode)99)
WR(driver_opcode, w->opcode = IBV_WR_DRIVER1)
WR(tso, w->opcode = IBV_WR_TSO)
WR(no_such_flag, w->send_flags = 1u << 30)
WR(long_inline, w->send_flags = IBV_SEND_INLINE)
WR(inline_read, w->opcode = IBV_WR_RDMA_READ; w->send_flags = IBV_SEND_INLINE)
WR(short_atomic, w->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
   w->sg_list->length = 4)

static void misuse_send(void)
{
	static const struct {
		const char *what;
		enum ibv_qp_state state;
		void (*spoil)(struct ibv_send_wr *w);
		int want;
	} rows[] = {
		{ "a QP in RESET", IBV_QPS_RESET, as_it_is, EINVAL },
		{ "a QP in INIT", IBV_QPS_INIT, as_it_is, EINVAL },
		{ "a QP in RTR", IBV_QPS_RTR, as_it_is, EINVAL },
		{ "-1 pieces", IBV_QPS_RTS, negative_sges, EINVAL },
		{ "too many pieces", IBV_QPS_RTS, two_sges, EINVAL },
		{ "no such opcode", IBV_QPS_RTS, no_such_opcode, EINVAL },
		{ "a driver's opcode", IBV_QPS_RTS, driver_opcode, EINVAL },
		{ "TSO on a connection", IBV_QPS_RTS, tso, EINVAL },
		{ "no such flag", IBV_QPS_RTS, no_such_flag, EINVAL },
		{ "too much inline data", IBV_QPS_RTS, long_inline, EINVAL },
		{ "an inline READ", IBV_QPS_RTS, inline_read, EINVAL },
		{ "a short atomic", IBV_QPS_RTS, short_atomic, EINVAL },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ibv_sge sge[2] = {
			{ (uintptr_t)mr->addr, 64, mr->lkey },
			{ (uintptr_t)mr->addr, 64, mr->lkey },
		};
		struct ibv_send_wr wr = { .sg_list = sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_SEND };
		struct ibv_send_wr *bad = NULL;
		struct ibv_qp *qp = qp_in(rows[i].state);

		rows[i].spoil(&wr);
		expect("ibv_post_send", rows[i].what, rows[i].want,
		       ibv_post_send(qp, &wr, &bad));
		VT_TRUE(bad == &wr);
		VT_TRUE(ibv_destroy_qp(qp) == 0);
	}
}

/* The good ones before the bad one are posted. */
static void misuse_lists(void)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 8, mr->lkey };
	struct ibv_recv_wr r[4] = { { .sg_list = &sge, .num_sge = 1 } };
	struct ibv_send_wr s[4], *bad_s = NULL;
	struct ibv_recv_wr *bad_r = NULL;
	struct ibv_qp *qp = qp_in(IBV_QPS_RESET);

	expect("ibv_post_recv", "a QP in RESET", EINVAL,
	       ibv_post_recv(qp, r, &bad_r));
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	qp = qp_in(IBV_QPS_INIT);
	for (int i = 0; i < 4; i++) {
		r[i] = (struct ibv_recv_wr){ .sg_list = &sge, .num_sge = 1 };
		r[i].next = i < 3 ? &r[i + 1] : NULL;
	}
	r[1].num_sge = 2;
	expect("ibv_post_recv", "too many pieces", EINVAL,
	       ibv_post_recv(qp, r, &bad_r));
	VT_TRUE(bad_r == &r[1]);
	r[1].num_sge = -1;
	expect("ibv_post_recv", "-1 pieces", EINVAL,
	       ibv_post_recv(qp, &r[1], &bad_r));
	r[1].num_sge = 1;
	expect("ibv_post_recv", "a full queue", ENOMEM,
	       ibv_post_recv(qp, r, &bad_r));
	VT_TRUE(bad_r == &r[1]); /* one was there */
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	/* In error nothing completes before it is flushed, so it fills up. */
	qp = qp_in(IBV_QPS_RTS);
	for (int i = 0; i < 4; i++) {
		s[i] = (struct ibv_send_wr){ .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_READ };
		s[i].wr.rdma.remote_addr = (uintptr_t)mr->addr;
		s[i].wr.rdma.rkey = mr->rkey;
		s[i].next = i < 3 ? &s[i + 1] : NULL;
	}
	expect("ibv_post_send", "a full queue", ENOMEM,
	       ibv_post_send(qp, s, &bad_s));
	VT_TRUE(bad_s == &s[2]);
	VT_TRUE(ibv_destroy_qp(qp) == 0);
}

static void misuse_datagram(void)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 8, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND };
	struct ibv_send_wr *bad;
	struct ibv_qp_init_attr init = good_qp(IBV_QPT_UD);
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &init);
	struct ibv_qp_attr a = good_attr();

	VT_TRUE(qp);
	a.qp_state = IBV_QPS_INIT;
	expect("ibv_modify_qp", "rights on datagrams", EINVAL,
	       ibv_modify_qp(qp, &a, TO_INIT));
	VT_TRUE(ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_QKEY) == 0);
	a.qp_state = IBV_QPS_RTR;
	expect("ibv_modify_qp", "an address on datagrams", EINVAL,
	       ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV));
	VT_TRUE(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
	a.qp_state = IBV_QPS_RTS;
	VT_TRUE(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	expect("ibv_post_send", "no address", EINVAL,
	       ibv_post_send(qp, &wr, &bad));
	wr.wr.ud.ah = ah;
	wr.opcode = IBV_WR_RDMA_WRITE;
	expect("ibv_post_send", "WRITE on datagrams", EINVAL,
	       ibv_post_send(qp, &wr, &bad));
	VT_TRUE(ibv_destroy_qp(qp) == 0);
}

/* ---- addresses, shared queues, groups, tables ---- */

static void misuse_ah(void)
{
	static const struct {
		const char *what;
		void (*spoil)(struct ibv_qp_attr *a);
	} rows[] = {
		{ "a GID that is not there", sgid },
		{ "no destination", no_dgid },
		{ "port 2", av_port },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ibv_qp_attr a = good_attr();

		rows[i].spoil(&a);
		expect("ibv_create_ah", rows[i].what, EINVAL,
		       null_error(ibv_create_ah(dev.pd, &a.ah_attr)));
	}
}

static void misuse_srq(void)
{
	struct ibv_srq_init_attr no_wr = { .attr = { 0, 1, 0 } };
	struct ibv_srq_init_attr many = {
		.attr = { (uint32_t)lim.max_srq_wr + 1, 1, 0 }
	};
	struct ibv_srq_init_attr wide = {
		.attr = { 1, (uint32_t)lim.max_srq_sge + 1, 0 }
	};
	struct ibv_srq_attr a = { .srq_limit = 1u << 20 };
	struct ibv_recv_wr wr = { .num_sge = 99 }, *bad = NULL;

	expect("ibv_create_srq", "no receives", EINVAL,
	       null_error(ibv_create_srq(dev.pd, &no_wr)));
	expect("ibv_create_srq", "too many receives", EINVAL,
	       null_error(ibv_create_srq(dev.pd, &many)));
	expect("ibv_create_srq", "too many pieces", EINVAL,
	       null_error(ibv_create_srq(dev.pd, &wide)));
	expect("ibv_modify_srq", "too high a limit", EINVAL,
	       ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT));
	a.max_wr = (uint32_t)lim.max_srq_wr + 1;
	expect("ibv_modify_srq", "too large a size", EINVAL,
	       ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR));
	expect("ibv_post_srq_recv", "too many pieces", EINVAL,
	       ibv_post_srq_recv(srq, &wr, &bad));
	VT_TRUE(bad == &wr);
}

/* A call that returns -1 or a value of errno. */
static int minus_one(int rc)
{
	return rc == -1 ? errno : rc;
}

static void misuse_tables(void)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	expect("ibv_query_port", "port 0", EINVAL,
	       ibv_query_port(dev.ctx, 0, &port));
	expect("ibv_query_port", "port 2", EINVAL,
	       ibv_query_port(dev.ctx, 2, &port));
	expect("ibv_query_gid", "index -1", EINVAL,
	       minus_one(ibv_query_gid(dev.ctx, 1, -1, &gid)));
	expect("ibv_query_gid", "an index beyond", EINVAL,
	       minus_one(
		       ibv_query_gid(dev.ctx, 1, dev.port.gid_tbl_len, &gid)));
	expect("ibv_query_pkey", "an index beyond", EINVAL,
	       minus_one(ibv_query_pkey(dev.ctx, 1, dev.port.pkey_tbl_len,
					&pkey)));
}

static void misuse_groups(void)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 9 } };
	struct ibv_qp *qp = qp_in(IBV_QPS_INIT);

	expect("ibv_attach_mcast", "a connection", EINVAL,
	       ibv_attach_mcast(qp, &group, 0));
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	struct ibv_qp_init_attr init = good_qp(IBV_QPT_UD);

	qp = ibv_create_qp(dev.pd, &init);
	VT_TRUE(qp);
	expect("ibv_attach_mcast", "a GID of one host", EINVAL,
	       ibv_attach_mcast(qp, &dev.gid, 0));
	expect("ibv_detach_mcast", "a group not joined", EINVAL,
	       ibv_detach_mcast(qp, &group, 0));
	VT_TRUE(ibv_destroy_qp(qp) == 0);
}

/* What others still use. */
static void misuse_busy(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(dev.ctx);
	struct ibv_cq *c = ibv_create_cq(dev.ctx, 1, NULL, ch, 0);
	struct ibv_pd *pd = ibv_alloc_pd(dev.ctx);
	struct ibv_srq_init_attr srq_init = { .attr = { 1, 1, 0 } };
	struct ibv_srq *s = ibv_create_srq(pd, &srq_init);
	struct ibv_qp_init_attr init = { .send_cq = c,
					 .recv_cq = c,
					 .srq = s,
					 .cap = { 1, 1, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_recv_wr wr = { .num_sge = 0 }, *bad;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	VT_TRUE(ch && c && pd && s && qp);
	expect("ibv_destroy_cq", "a QP on it", EBUSY, ibv_destroy_cq(c));
	expect("ibv_destroy_srq", "a QP on it", EBUSY, ibv_destroy_srq(s));
	expect("ibv_dealloc_pd", "a QP in it", EBUSY, ibv_dealloc_pd(pd));
	expect("ibv_post_recv", "an SRQ", EINVAL, ibv_post_recv(qp, &wr, &bad));
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	expect("ibv_dealloc_pd", "an SRQ in it", EBUSY, ibv_dealloc_pd(pd));
	VT_TRUE(ibv_destroy_srq(s) == 0);
	VT_TRUE(ibv_dealloc_pd(pd) == 0);
	expect("ibv_destroy_comp_channel", "a queue on it", EBUSY,
	       ibv_destroy_comp_channel(ch));
	VT_TRUE(ibv_destroy_cq(c) == 0);
	VT_TRUE(ibv_destroy_comp_channel(ch) == 0);
}

static void all(void)
{
	misuse_cq();
	misuse_cq_ex();
	misuse_qp();
	misuse_qp_ex();
	misuse_modify();
	misuse_send();
	misuse_lists();
	misuse_datagram();
	misuse_ah();
	misuse_srq();
	misuse_tables();
	misuse_groups();
	misuse_busy();
}

static void open_all(int gid_index)
{
	struct ibv_srq_init_attr srq_init = { .attr = { 4, 1, 0 } };
	struct ibv_qp_attr a;

	vt_dev_open(&dev, gid_index);
	VT_TRUE(ibv_query_device(dev.ctx, &lim) == 0);
	a = good_attr();
	cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	srq = ibv_create_srq(dev.pd, &srq_init);
	mr = vt_mr(&dev, 4096);
	ah = ibv_create_ah(dev.pd, &a.ah_attr);
	VT_TRUE(cq && srq && ah);
}

static void close_all(void)
{
	VT_TRUE(ibv_destroy_ah(ah) == 0);
	VT_TRUE(ibv_destroy_srq(srq) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	vt_dev_close(&dev);
}

/* The least that malloc gives is 32 bytes. */
static bool heap_grows(void)
{
	size_t before = mallinfo2().uordblks;

	for (int i = 0; i < ROUNDS; i++)
		all();
	return mallinfo2().uordblks >= before + (size_t)32 * ROUNDS;
}

int main(int argc, char **argv)
{
	struct vt_args args = { .gid_index = -1 };

	vt_args(&args, argc, argv);
	open_all(args.gid_index);
	/* Tables of the adapter grow to their size in the first rounds, and the
	 * memory of 64 objects of each kind is kept (urv_retire()). */
	for (int i = 0; heap_grows() && !failures; i++)
		if (i == 9)
			VT_FAIL("the heap grows with every round");
	close_all();
	VT_TRUE(failures == 0);
	printf("every misuse was answered as it should be\n");
	return 0;
}
