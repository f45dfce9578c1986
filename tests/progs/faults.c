/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * -M CAUSE: does what ends with that cause of `urnic explain`, between two queue
 * pairs of this process, and prints "qpn NUMBER" of the one that shows it.  The
 * program succeeds if the completion, or errno, was that of a failure.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vt.h"

#define SIZE  8192u
#define DEPTH 4u
#define QKEY  0x1234u
#define ALL                                                                    \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct vt_args args = { .gid_index = -1 };
static struct vt_dev dev;
static struct ibv_cq *cq;
static struct ibv_mr *mr;     /* of the requester */
static struct ibv_mr *target; /* of the responder */
static uint8_t *memory;	      /* of target */

/* How the two queue pairs are made; a sends to b. */
static struct {
	enum ibv_qp_type type;
	int access;    /* of b */
	uint32_t skew; /* of the first PSN */
	uint8_t reads; /* that b serves */
	uint8_t rnr_retry;
	uint8_t timeout; /* 0: none */
	enum ibv_qp_state b_state;
	struct ibv_qp *a;
	struct ibv_qp *b;
} q = { .type = IBV_QPT_RC,
	.access = ALL,
	.reads = 4,
	.rnr_retry = 1,
	.timeout = 12,
	.b_state = IBV_QPS_RTS };

static struct ibv_qp *make(struct ibv_cq *to)
{
	struct ibv_qp_init_attr init = { .send_cq = to,
					 .recv_cq = to,
					 .cap = { DEPTH, DEPTH, 1, 1, 0 },
					 .sq_sig_all = 1,
					 .qp_type = q.type };
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &init);

	VT_TRUE(qp);
	return qp;
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *a,
		   enum ibv_qp_state state, int mask)
{
	a->qp_state = state;
	VT_TRUE(ibv_modify_qp(qp, a, mask | IBV_QP_STATE) == 0);
}

static void to_init(struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr a = { .port_num = 1,
				 .qkey = QKEY,
				 .qp_access_flags = (unsigned int)access };

	modify(qp, &a, IBV_QPS_INIT,
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (q.type == IBV_QPT_UD ? IBV_QP_QKEY
					     : IBV_QP_ACCESS_FLAGS));
}

static void to_rtr(struct ibv_qp *qp, uint32_t dest, uint32_t psn)
{
	struct ibv_qp_attr a = {
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.rq_psn = psn,
		.min_rnr_timer = 1,
		.max_dest_rd_atomic = q.reads,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = dev.gid,
				      .sgid_index = (uint8_t)dev.gid_index } },
	};
	int mask =
		IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (q.type == IBV_QPT_UD)
		mask = 0;
	if (q.type == IBV_QPT_RC)
		mask |= IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC;
	modify(qp, &a, IBV_QPS_RTR, mask);
}

static void to_rts(struct ibv_qp *qp, uint32_t psn)
{
	struct ibv_qp_attr a = { .sq_psn = psn,
				 .timeout = q.timeout,
				 .retry_cnt = 2,
				 .rnr_retry = q.rnr_retry,
				 .max_rd_atomic = 8 };

	modify(qp, &a, IBV_QPS_RTS,
	       IBV_QP_SQ_PSN | (q.type == IBV_QPT_RC
					? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						  IBV_QP_RNR_RETRY |
						  IBV_QP_MAX_QP_RD_ATOMIC
					: 0));
}

static void join(void)
{
	q.a = make(cq);
	q.b = make(cq);
	to_init(q.a, ALL);
	to_init(q.b, q.access);
	to_rtr(q.a, q.b->qp_num, 100);
	to_rts(q.a, 200);
	if (q.b_state >= IBV_QPS_RTR)
		to_rtr(q.b, q.a->qp_num, 200 + q.skew);
	if (q.b_state >= IBV_QPS_RTS)
		to_rts(q.b, 100);
}

static int post(enum ibv_wr_opcode op, uint64_t at, uint32_t lkey,
		uint32_t length, uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = { at, length, lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = op
	};

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(q.a, &wr, &bad);
}

static int receive(struct ibv_qp *qp, uint64_t at, uint32_t lkey,
		   uint32_t length)
{
	struct ibv_sge sge = { at, length, lkey };
	struct ibv_recv_wr *bad,
		wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(qp, &wr, &bad);
}

/* The first completion is a failure. */
static void fails(void)
{
	struct ibv_wc wc;

	vt_poll(cq, &wc);
	VT_TRUE(wc.status != IBV_WC_SUCCESS);
	printf("status %d\n", (int)wc.status);
}

static void rdma(enum ibv_wr_opcode op, uint64_t remote, uint32_t rkey)
{
	uint32_t n = op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 64;

	VT_TRUE(post(op, (uintptr_t)mr->addr, mr->lkey, n, remote, rkey) == 0);
	fails();
}

#define WRITE IBV_WR_RDMA_WRITE
#define READ  IBV_WR_RDMA_READ
#define ADD   IBV_WR_ATOMIC_FETCH_AND_ADD

/* --- keys of peers --- */

static void rkey_zero(void)
{
	join();
	rdma(WRITE, (uintptr_t)memory, 0);
}

static void rkey_unknown(void)
{
	join();
	rdma(WRITE, (uintptr_t)memory, target->rkey ^ 0x5500u);
}

static void rkey_deregistered(void)
{
	uint32_t key = target->rkey;

	join();
	VT_TRUE(ibv_dereg_mr(target) == 0);
	rdma(WRITE, (uintptr_t)memory, key);
}

static void rkey_reregistered(void)
{
	join();
	VT_TRUE(ibv_rereg_mr(target, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			     memory, 64, 0) == 0);
	rdma(WRITE, (uintptr_t)memory + 4096, target->rkey);
}

static void rkey_wrong_pd(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(dev.ctx);
	struct ibv_mr *other = ibv_reg_mr(pd, memory, SIZE, ALL);

	VT_TRUE(other);
	join();
	rdma(WRITE, (uintptr_t)memory, other->rkey);
}

static void with_rights(int access, enum ibv_wr_opcode op)
{
	struct ibv_mr *other = ibv_reg_mr(dev.pd, memory, SIZE, access);

	VT_TRUE(other);
	join();
	rdma(op, (uintptr_t)memory, other->rkey);
}

static void rkey_no_write(void)
{
	with_rights(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, WRITE);
}

static void rkey_no_read(void)
{
	with_rights(IBV_ACCESS_LOCAL_WRITE, READ);
}

static void rkey_no_atomic(void)
{
	with_rights(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, ADD);
}

static void rkey_zero_based(void)
{
	with_rights(ALL | IBV_ACCESS_ZERO_BASED, WRITE);
}

static void rkey_before_start(void)
{
	join();
	rdma(WRITE, (uintptr_t)memory - 8, target->rkey);
}

static void rkey_beyond_end(void)
{
	join();
	rdma(WRITE, (uintptr_t)memory + SIZE - 8, target->rkey);
}

static void rkey_outside(void)
{
	join();
	rdma(READ, (uintptr_t)memory + 10 * SIZE, target->rkey);
}

static void rkey_unmapped(void)
{
	join();
	VT_TRUE(munmap(memory, SIZE) == 0);
	rdma(WRITE, (uintptr_t)memory, target->rkey);
}

/* --- keys of lists --- */

static void send(uint64_t at, uint32_t lkey, uint32_t length)
{
	VT_TRUE(receive(q.b, (uintptr_t)memory, target->lkey, SIZE) == 0);
	VT_TRUE(post(IBV_WR_SEND, at, lkey, length, 0, 0) == 0);
	fails();
}

static void lkey_zero(void)
{
	join();
	send((uintptr_t)mr->addr, 0, 64);
}

static void lkey_unknown(void)
{
	join();
	send((uintptr_t)mr->addr, mr->lkey ^ 0x5500u, 64);
}

static void lkey_deregistered(void)
{
	uint32_t key = mr->lkey;

	join();
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	send((uintptr_t)memory, key, 64);
}

static void lkey_wrong_pd(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(dev.ctx);
	struct ibv_mr *other = ibv_reg_mr(pd, memory, SIZE, ALL);

	join();
	send((uintptr_t)memory, other->lkey, 64);
}

static void lkey_beyond_end(void)
{
	join();
	send((uintptr_t)mr->addr + mr->length - 8, mr->lkey, 64);
}

static void lkey_outside(void)
{
	join();
	send((uintptr_t)mr->addr + 2 * mr->length, mr->lkey, 64);
}

static void lkey_no_write(void)
{
	struct ibv_mr *other = ibv_reg_mr(dev.pd, mr->addr, mr->length, 0);

	VT_TRUE(other);
	join();
	VT_TRUE(post(READ, (uintptr_t)mr->addr, other->lkey, 64,
		     (uintptr_t)memory, target->rkey) == 0);
	fails();
}

static void recv_lkey(uint64_t at, uint32_t lkey)
{
	VT_TRUE(receive(q.b, at, lkey, SIZE) == 0);
	VT_TRUE(post(IBV_WR_SEND, (uintptr_t)mr->addr, mr->lkey, 64, 0, 0) ==
		0);
	fails();
}

static void recv_lkey_deregistered(void)
{
	uint32_t key = target->lkey;

	join();
	VT_TRUE(ibv_dereg_mr(target) == 0);
	recv_lkey((uintptr_t)memory, key);
}

static void recv_lkey_no_write(void)
{
	struct ibv_mr *other = ibv_reg_mr(dev.pd, memory, SIZE, 0);

	join();
	recv_lkey((uintptr_t)memory, other->lkey);
}

static void recv_lkey_beyond_end(void)
{
	join();
	recv_lkey((uintptr_t)memory + SIZE - 8, target->lkey);
}

/* --- queue pairs --- */

static void qp_no_write(void)
{
	q.access = IBV_ACCESS_REMOTE_READ;
	join();
	rdma(WRITE, (uintptr_t)memory, target->rkey);
}

static void qp_no_read(void)
{
	q.access = IBV_ACCESS_REMOTE_WRITE;
	join();
	rdma(READ, (uintptr_t)memory, target->rkey);
}

static void qp_no_atomic(void)
{
	q.access = IBV_ACCESS_REMOTE_WRITE;
	join();
	rdma(ADD, (uintptr_t)memory, target->rkey);
}

static void recv_too_short(void)
{
	join();
	VT_TRUE(receive(q.b, (uintptr_t)memory, target->lkey, 16) == 0);
	VT_TRUE(post(IBV_WR_SEND, (uintptr_t)mr->addr, mr->lkey, 64, 0, 0) ==
		0);
	fails();
}

static void atomic_unaligned(void)
{
	join();
	rdma(ADD, (uintptr_t)memory + 4, target->rkey);
}

static void no_reads(void)
{
	q.reads = 0;
	join();
	rdma(READ, (uintptr_t)memory, target->rkey);
}

static void rnr(void)
{
	join();
	VT_TRUE(post(IBV_WR_SEND, (uintptr_t)mr->addr, mr->lkey, 64, 0, 0) ==
		0);
	fails();
}

/* b is gone or not ready. */
static void send_to_nobody(void)
{
	VT_TRUE(post(IBV_WR_SEND, (uintptr_t)mr->addr, mr->lkey, 64, 0, 0) ==
		0);
	fails();
}

static void peer_destroyed(void)
{
	join();
	VT_TRUE(ibv_destroy_qp(q.b) == 0);
	send_to_nobody();
}

static void peer_early(void)
{
	q.b_state = IBV_QPS_INIT;
	rnr();
}

static void peer_err(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	join();
	VT_TRUE(ibv_modify_qp(q.b, &a, IBV_QP_STATE) == 0);
	send_to_nobody();
}

static void psn(void)
{
	q.skew = 5000000;
	rnr();
}

static void no_qp(void)
{
	q.a = make(cq);
	to_init(q.a, ALL);
	to_rtr(q.a, q.a->qp_num + 77, 100);
	to_rts(q.a, 200);
	send_to_nobody();
}

static void peer_other(void)
{
	q.a = make(cq);
	q.b = make(cq);
	to_init(q.a, ALL);
	to_init(q.b, ALL);
	to_rtr(q.a, q.b->qp_num, 100);
	to_rts(q.a, 200);
	to_rtr(q.b, q.a->qp_num + 77, 4000000);
	send_to_nobody();
}

static void moved(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	join();
	VT_TRUE(receive(q.a, (uintptr_t)memory, target->lkey, SIZE) == 0);
	VT_TRUE(ibv_modify_qp(q.a, &a, IBV_QP_STATE) == 0);
	fails();
}

static void stall(void)
{
	struct ibv_wc wc;
	uint64_t end = vt_now_ms() + 200;

	q.rnr_retry = 7;
	join();
	VT_TRUE(post(IBV_WR_SEND, (uintptr_t)mr->addr, mr->lkey, 64, 0, 0) ==
		0);
	while (vt_now_ms() < end)
		VT_TRUE(ibv_poll_cq(cq, 1, &wc) == 0);
}

static void overrun(void)
{
	struct ibv_cq *small = ibv_create_cq(dev.ctx, 1, NULL, NULL, 0);
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	q.a = make(small);
	q.b = make(cq);
	to_init(q.a, ALL);
	to_init(q.b, ALL);
	to_rtr(q.a, q.b->qp_num, 100);
	to_rtr(q.b, q.a->qp_num, 200);
	to_rts(q.a, 200);
	for (uint64_t end = vt_now_ms() + 10000; vt_now_ms() < end;) {
		(void)post(WRITE, (uintptr_t)mr->addr, mr->lkey, 64,
			   (uintptr_t)memory, target->rkey);
		VT_TRUE(ibv_query_qp(q.a, &a, IBV_QP_STATE, &init) == 0);
		if (a.qp_state == IBV_QPS_ERR)
			return;
	}
	VT_FAIL("no overrun");
}

/* --- datagrams --- */

static void datagram(uint32_t qkey, uint32_t room)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = dev.gid,
			 .sgid_index = (uint8_t)dev.gid_index },
	};
	struct ibv_sge sge = { (uintptr_t)mr->addr, 64, mr->lkey };
	struct ibv_send_wr *bad,
		wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_wc wc;
	uint64_t end;

	q.type = IBV_QPT_UD;
	join();
	if (room)
		VT_TRUE(receive(q.b, (uintptr_t)memory, target->lkey, room) ==
			0);
	wr.wr.ud.ah = ibv_create_ah(dev.pd, &attr);
	wr.wr.ud.remote_qpn = q.b->qp_num;
	wr.wr.ud.remote_qkey = qkey;
	VT_TRUE(ibv_post_send(q.a, &wr, &bad) == 0);
	vt_poll_ok(cq, &wc);
	for (end = vt_now_ms() + 200; vt_now_ms() < end;)
		VT_TRUE(ibv_poll_cq(cq, 1, &wc) == 0);
	q.a = q.b;
}

static void ud_qkey(void)
{
	datagram(QKEY + 1, SIZE);
}

static void ud_no_receive(void)
{
	datagram(QKEY, 0);
}

static void ud_too_short(void)
{
	datagram(QKEY, 64);
}

/* --- calls --- */

/* More queue pairs than a recorder has rings: the last one has none. */
static void crowd(void)
{
	for (int i = 0; i <= 2048; i++)
		q.a = make(cq);
}

static void sq_full(void)
{
	int err = 0;

	q.rnr_retry = 7;
	join();
	while (!err)
		err = post(IBV_WR_SEND, (uintptr_t)mr->addr, mr->lkey, 64, 0,
			   0);
	VT_TRUE(err == ENOMEM);
	q.rnr_retry = 0;
	/* The explanation of a stall or of a timeout would come first. */
	q.timeout = 0;
	q.a = make(cq);
	to_init(q.a, ALL);
	to_rtr(q.a, q.b->qp_num + 99, 100);
	to_rts(q.a, 200);
	for (err = 0; !err;)
		err = post(IBV_WR_SEND, (uintptr_t)mr->addr, mr->lkey, 64, 0,
			   0);
	VT_TRUE(err == ENOMEM);
}

static void rq_full(void)
{
	int err = 0;

	join();
	while (!err)
		err = receive(q.a, (uintptr_t)memory, target->lkey, 64);
	VT_TRUE(err == ENOMEM);
}

static void send_state(void)
{
	q.a = make(cq);
	to_init(q.a, ALL);
	VT_TRUE(post(IBV_WR_SEND, (uintptr_t)mr->addr, mr->lkey, 64, 0, 0) ==
		EINVAL);
}

static void recv_state(void)
{
	q.a = make(cq);
	VT_TRUE(receive(q.a, (uintptr_t)memory, target->lkey, 64) == EINVAL);
}

static void invalid(void)
{
	join();
	VT_TRUE(post((enum ibv_wr_opcode)99, (uintptr_t)mr->addr, mr->lkey, 64,
		     0, 0) == EINVAL);
}

static void attributes(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };

	q.a = make(cq);
	to_init(q.a, ALL);
	VT_TRUE(ibv_modify_qp(q.a, &a, IBV_QP_STATE) == EINVAL);
}

static const struct {
	const char *cause;
	void (*run)(void);
} cases[] = {
	{ "rkey-zero", rkey_zero },
	{ "rkey-unknown", rkey_unknown },
	{ "rkey-deregistered", rkey_deregistered },
	{ "rkey-reregistered", rkey_reregistered },
	{ "rkey-wrong-pd", rkey_wrong_pd },
	{ "rkey-no-remote-write", rkey_no_write },
	{ "rkey-no-remote-read", rkey_no_read },
	{ "rkey-no-remote-atomic", rkey_no_atomic },
	{ "rkey-zero-based", rkey_zero_based },
	{ "rkey-before-start", rkey_before_start },
	{ "rkey-beyond-end", rkey_beyond_end },
	{ "rkey-outside", rkey_outside },
	{ "rkey-unmapped", rkey_unmapped },
	{ "send-lkey-zero", lkey_zero },
	{ "send-lkey-unknown", lkey_unknown },
	{ "send-lkey-deregistered", lkey_deregistered },
	{ "send-lkey-wrong-pd", lkey_wrong_pd },
	{ "send-lkey-beyond-end", lkey_beyond_end },
	{ "send-lkey-outside", lkey_outside },
	{ "send-lkey-no-local-write", lkey_no_write },
	{ "recv-lkey-deregistered", recv_lkey_deregistered },
	{ "recv-lkey-no-local-write", recv_lkey_no_write },
	{ "recv-lkey-beyond-end", recv_lkey_beyond_end },
	{ "qp-no-remote-write", qp_no_write },
	{ "qp-no-remote-read", qp_no_read },
	{ "qp-no-remote-atomic", qp_no_atomic },
	{ "recv-too-short", recv_too_short },
	{ "atomic-unaligned", atomic_unaligned },
	{ "no-reads-agreed", no_reads },
	{ "rnr-exceeded", rnr },
	{ "retry-peer-destroyed", peer_destroyed },
	{ "retry-peer-early", peer_early },
	{ "retry-peer-err", peer_err },
	{ "retry-psn", psn },
	{ "retry-no-qp", no_qp },
	{ "retry-peer-other", peer_other },
	{ "moved-to-err", moved },
	{ "stall-rnr", stall },
	{ "cq-overrun", overrun },
	{ "ud-qkey", ud_qkey },
	{ "no-receive", ud_no_receive },
	{ "ud-too-short", ud_too_short },
	{ "send-queue-full", sq_full },
	{ "recv-queue-full", rq_full },
	{ "send-state", send_state },
	{ "recv-state", recv_state },
	{ "post-invalid", invalid },
	{ "modify-attributes", attributes },
	{ "unrecorded", crowd },
};

int main(int argc, char **argv)
{
	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	mr = vt_mr(&dev, SIZE);
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	VT_TRUE(cq && memory != MAP_FAILED);
	target = ibv_reg_mr(dev.pd, memory, SIZE, ALL);
	VT_TRUE(target);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!args.mode) {
			printf("%s\n", cases[i].cause);
		} else if (!strcmp(args.mode, cases[i].cause)) {
			cases[i].run();
			printf("qpn %u\n", q.a->qp_num);
			return 0;
		}
	}
	return args.mode ? 1 : 0;
}
