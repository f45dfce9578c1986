/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The DC transport between two processes: the server has the targets, the client
 * one initiator.
 *
 * dc -p PORT [-i PORT OF THE DEVICE] [-q TARGETS] [-n ROUNDS] [-M MODE] [-F] [HOST]
 *  -F       with the port's MTU instead of 1024
 *  data     every operation to each target in turn (the default)
 *  turns    messages to each target in turn, without a pause
 *  refused  what is wrong is refused, in one process
 *  keys     requests with wrong keys, counted and reported
 *  destroy  a target is destroyed while the initiator sends to it
 *  killed   an initiator's process is killed; another goes on
 *  rate     WRITEs of 64 bytes to each target in turn, and on as many RC
 */
#include <errno.h>
#include <infiniband/arch.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vt.h"

#define KEY	 0x0123456789abcdefull
#define SLOT	 16384u /* bytes of each target's memory */
#define RECV	 4096u
#define MOST	 4096u /* targets */
#define RECEIVES 4096u
#define DEPTH	 64u

/* What the server tells */
struct hello {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
	uint32_t dctn[MOST];
};

static struct vt_dev dev;
static struct vt_args args = { .gid_index = -1,
			       .ib_port = 1,
			       .n = 20,
			       .qps = 16,
			       .timeout = 14,
			       .retry = 7,
			       .mode = "data" };
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr, *inbox;
static struct ibv_exp_dct *dct[MOST];
static struct ibv_qp *dci;
static struct ibv_ah *ah;
static struct hello hello;
static int fd;

/* Messages have several packets, or those of the port's MTU. */
static enum ibv_mtu mtu(void)
{
	return args.full ? dev.port.active_mtu : IBV_MTU_1024;
}

static struct ibv_exp_dct_init_attr dct_attr(void)
{
	return (struct ibv_exp_dct_init_attr){
		.pd = dev.pd,
		.cq = cq,
		.srq = srq,
		.dc_key = KEY,
		.port = (uint8_t)args.ib_port,
		.access_flags =
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.min_rnr_timer = 12,
		.mtu = mtu(),
		.gid_index = (uint8_t)dev.gid_index,
		.hop_limit = 64,
	};
}

static void post_recv(uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)inbox->addr + wr_id % RECEIVES * RECV,
			       RECV, inbox->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct ibv_recv_wr *bad;

	VT_TRUE(ibv_post_srq_recv(srq, &wr, &bad) == 0);
}

static void make_queues(void)
{
	struct ibv_srq_init_attr init = { .attr = { RECEIVES, 1, 0 } };

	cq = ibv_create_cq(dev.ctx, 2 * RECEIVES, NULL, NULL, 0);
	srq = ibv_create_srq(dev.pd, &init);
	VT_TRUE(cq && srq);
}

static void make_targets(void)
{
	struct ibv_exp_dct_init_attr attr = dct_attr();

	mr = vt_mr(&dev, (size_t)args.qps * SLOT);
	inbox = vt_mr(&dev, (size_t)RECEIVES * RECV);
	for (uint32_t i = 0; i < RECEIVES; i++)
		post_recv(i);
	for (int i = 0; i < args.qps; i++) {
		dct[i] = ibv_exp_create_dct(dev.ctx, &attr);
		VT_TRUE(dct[i]);
		hello.dctn[i] = dct[i]->dct_num;
	}
	hello.gid = dev.gid;
	hello.addr = (uintptr_t)mr->addr;
	hello.rkey = mr->rkey;
}

static struct ibv_qp *new_dci(void)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = DEPTH,
			 .max_send_sge = 1,
			 .max_inline_data = 64 },
		.qp_type = IBV_EXP_QPT_DC_INI,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD,
		.pd = dev.pd,
	};

	return ibv_exp_create_qp(dev.ctx, &init);
}

static struct ibv_ah_attr to_target(void)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = (uint8_t)args.ib_port,
		.grh = { .dgid = hello.gid,
			 .sgid_index = (uint8_t)dev.gid_index },
	};
}

/* The address vector may name a target, only a GID of ours, or only the port. */
static void dci_rts(void)
{
	static unsigned int turn;
	struct ibv_exp_qp_attr attr = { .qp_state = IBV_QPS_INIT,
					.port_num = (uint8_t)args.ib_port,
					.dct_key = KEY };

	VT_TRUE(!ibv_exp_modify_qp(dci, &attr,
				   IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
					   IBV_EXP_QP_PORT |
					   IBV_EXP_QP_DC_KEY));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = mtu();
	attr.ah_attr = to_target();
	attr.ah_attr.is_global = turn % 3 < 2;
	if (turn++ % 3)
		attr.ah_attr.grh = (struct ibv_global_route){ 0 };
	VT_TRUE(!ibv_exp_modify_qp(dci, &attr,
				   IBV_EXP_QP_STATE | IBV_EXP_QP_AV |
					   IBV_EXP_QP_PATH_MTU));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = (uint8_t)args.timeout;
	attr.retry_cnt = (uint8_t)args.retry;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 16;
	VT_TRUE(!ibv_exp_modify_qp(
		dci, &attr,
		IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT |
			IBV_EXP_QP_RNR_RETRY | IBV_EXP_QP_MAX_QP_RD_ATOMIC));
}

static void make_initiator(void)
{
	struct ibv_ah_attr attr = to_target();

	mr = vt_mr(&dev, (size_t)args.qps * SLOT);
	ah = ibv_create_ah(dev.pd, &attr);
	VT_TRUE(ah);
	dci = new_dci();
	VT_TRUE(dci);
	dci_rts();
}

/* ---- requests ---- */

static struct ibv_exp_send_wr request(int to, enum ibv_exp_wr_opcode op)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = (uint64_t)to;
	wr.exp_opcode = op;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.ex.imm_data = htobe32((uint32_t)to);
	wr.wr.rdma.remote_addr = hello.addr + (uint64_t)to * SLOT;
	wr.wr.rdma.rkey = hello.rkey;
	wr.dc.ah = ah;
	wr.dc.dct_number = hello.dctn[to];
	wr.dc.dct_access_key = KEY;
	return wr;
}

static void post(struct ibv_exp_send_wr wr, uint64_t off, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr + off, len, mr->lkey };
	struct ibv_exp_send_wr *bad;
	int rc;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	rc = ibv_exp_post_send(dci, &wr, &bad);
	if (rc)
		VT_FAIL("opcode %d: %s", wr.exp_opcode, strerror(rc));
}

static void done(uint64_t wr_id)
{
	struct ibv_wc wc;

	vt_poll(cq, &wc);
	if (wc.wr_id != wr_id || wc.status != IBV_WC_SUCCESS)
		VT_FAIL("request %ju: %s", (uintmax_t)wc.wr_id,
			ibv_wc_status_str(wc.status));
}

/* A receive of the target with that number, polled as an experimental one. */
static struct ibv_exp_wc received(int by)
{
	uint64_t end = vt_now_ms() + 10000;
	struct ibv_exp_wc wc;
	int n;

	do
		n = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc));
	while (n == 0 && vt_now_ms() < end);
	VT_TRUE(n == 1);
	VT_TRUE(wc.status == IBV_WC_SUCCESS);
	VT_TRUE(wc.exp_wc_flags & IBV_EXP_WC_DCT && wc.dct == dct[by]);
	VT_TRUE(wc.qp_num == hello.dctn[by]);
	post_recv(wc.wr_id);
	return wc;
}

/* ---- data ---- */

static void send_round(int to, uint64_t seed)
{
	uint8_t *p = (uint8_t *)mr->addr + (size_t)to * SLOT;
	uint64_t off = (uint64_t)to * SLOT, old;
	struct ibv_exp_send_wr wr = request(to, IBV_EXP_WR_SEND);

	vt_fill(p, SLOT, seed);
	post(wr, off, 3000);
	done((uint64_t)to);
	post(request(to, IBV_EXP_WR_SEND_WITH_IMM), off, 8);
	post(request(to, IBV_EXP_WR_RDMA_WRITE), off, SLOT);
	/* As long as packets are, with the longest headers */
	post(request(to, IBV_EXP_WR_RDMA_WRITE_WITH_IMM), off, 4096);
	for (int i = 0; i < 3; i++)
		done((uint64_t)to);
	memset(p, 0, SLOT);
	post(request(to, IBV_EXP_WR_RDMA_READ), off, SLOT);
	done((uint64_t)to);
	VT_TRUE(vt_check(p, SLOT, seed));
	memcpy(&old, p, sizeof(old));
	wr = request(to, IBV_EXP_WR_ATOMIC_FETCH_AND_ADD);
	wr.wr.atomic.remote_addr = hello.addr + off;
	wr.wr.atomic.rkey = hello.rkey;
	wr.wr.atomic.compare_add = 5;
	post(wr, off, 8);
	wr.exp_opcode = IBV_EXP_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = old + 5;
	wr.wr.atomic.swap = seed;
	post(wr, off + 8, 8);
	done((uint64_t)to);
	done((uint64_t)to);
	VT_TRUE(!memcmp(p, &old, 8));
	old += 5;
	VT_TRUE(!memcmp(p + 8, &old, 8));
}

static void check_round(int by, uint64_t seed)
{
	const uint8_t *slot = (uint8_t *)mr->addr + (size_t)by * SLOT;
	struct ibv_exp_wc wc = received(by);

	VT_TRUE(wc.byte_len == 3000);
	VT_TRUE(vt_check((uint8_t *)inbox->addr + wc.wr_id % RECEIVES * RECV,
			 3000, seed));
	wc = received(by);
	VT_TRUE(wc.exp_wc_flags & IBV_EXP_WC_WITH_IMM);
	VT_TRUE(be32toh(wc.imm_data) == (uint32_t)by);
	wc = received(by);
	VT_TRUE(wc.exp_opcode == IBV_EXP_WC_RECV_RDMA_WITH_IMM);
	vt_barrier(fd);
	VT_TRUE(!memcmp(slot, &seed, 8));
}

static void run_data(void)
{
	for (long n = 0; n < args.n; n++) {
		for (int i = 0; i < args.qps; i++) {
			uint64_t seed = (uint64_t)n * MOST + (uint64_t)i + 1;

			if (args.host) {
				send_round(i, seed);
				vt_barrier(fd);
			} else {
				check_round(i, seed);
			}
		}
	}
	vt_barrier(fd);
}

/* ---- what is refused ---- */

static void refuse_dct(struct ibv_exp_dct_init_attr attr, int err)
{
	errno = 0;
	VT_TRUE(!ibv_exp_create_dct(dev.ctx, &attr));
	VT_TRUE(errno == err);
}

static void refused_targets(void)
{
	struct ibv_exp_dct_init_attr a[9];

	for (size_t i = 0; i < 9; i++)
		a[i] = dct_attr();
	a[0].srq = NULL;
	a[1].cq = NULL;
	a[2].pd = NULL;
	a[3].port = 2;
	a[4].gid_index = 200;
	a[5].mtu = 6;
	a[6].pkey_index = 1;
	a[7].min_rnr_timer = 32;
	a[8].access_flags = IBV_ACCESS_MW_BIND;
	for (size_t i = 0; i < 9; i++)
		refuse_dct(a[i], EINVAL);
	a[0] = dct_attr();
	a[0].comp_mask = 1;
	refuse_dct(a[0], EINVAL);
	a[0] = dct_attr();
	a[0].create_flags = 2;
	refuse_dct(a[0], EINVAL);
	a[0].create_flags = 0;
	a[0].flow_label = 1u << 20;
	refuse_dct(a[0], EINVAL);
	a[0].flow_label = 0;
	a[0].create_flags = IBV_EXP_DCT_OOO_RW_DATA_PLACEMENT;
	refuse_dct(a[0], EOPNOTSUPP);
}

static void refuse_post(struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad = NULL;

	VT_TRUE(ibv_exp_post_send(dci, &wr, &bad) == EINVAL && bad == &wr);
}

static void refused_requests(void)
{
	struct ibv_send_wr standard = { .opcode = IBV_WR_SEND }, *sbad = NULL;
	struct ibv_recv_wr recv = { .wr_id = 1 }, *rbad = NULL;
	struct ibv_exp_send_wr wr = request(0, IBV_EXP_WR_SEND);

	wr.dc.ah = NULL;
	refuse_post(wr);
	wr = request(0, IBV_EXP_WR_SEND);
	wr.dc.dct_number = 1u << 24;
	refuse_post(wr);
	refuse_post(request(0, IBV_EXP_WR_LOCAL_INV));
	refuse_post(request(0, IBV_EXP_WR_SEND_WITH_INV));
	refuse_post(request(0, IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP));
	VT_TRUE(ibv_post_send(dci, &standard, &sbad) == EINVAL);
	VT_TRUE(ibv_post_recv(dci, &recv, &rbad) == EINVAL);
}

static void refused_states(void)
{
	struct ibv_exp_qp_attr attr = { .qp_state = IBV_QPS_INIT,
					.port_num = (uint8_t)args.ib_port };
	struct ibv_exp_arm_attr arm = { .comp_mask = 1 };
	struct ibv_exp_dct_attr got = { .comp_mask = 1 };
	struct ibv_qp *q = new_dci();

	VT_TRUE(q);
	/* Without the key */
	VT_TRUE(ibv_exp_modify_qp(q, &attr,
				  IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
					  IBV_EXP_QP_PORT) == EINVAL);
	/* As an RC */
	VT_TRUE(ibv_exp_modify_qp(q, &attr,
				  IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
					  IBV_EXP_QP_PORT |
					  IBV_EXP_QP_ACCESS_FLAGS) == EINVAL);
	VT_TRUE(!ibv_destroy_qp(q));
	VT_TRUE(ibv_exp_arm_dct(dct[0], &arm) == EINVAL);
	VT_TRUE(ibv_exp_query_dct(dct[0], &got) == EINVAL);
	VT_TRUE(ibv_destroy_srq(srq) == EBUSY);
}

static void query(void)
{
	struct ibv_exp_dct_attr got = { .comp_mask = 0 };
	struct ibv_exp_device_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
			 IBV_EXP_DEVICE_DC_RD_REQ | IBV_EXP_DEVICE_DC_RD_RES |
			 IBV_EXP_DEVICE_ATTR_MAX_DCT;
	VT_TRUE(!ibv_exp_query_device(dev.ctx, &attr));
	VT_TRUE(attr.exp_device_cap_flags & IBV_EXP_DEVICE_DC_TRANSPORT);
	VT_TRUE(attr.max_dc_req_rd_atom == 16 && attr.max_dc_res_rd_atom == 16);
	VT_TRUE(attr.max_dct >= 1000);
	VT_TRUE(!ibv_exp_query_dct(dct[0], &got));
	VT_TRUE(got.dc_key == KEY && got.port == 1 && got.srq == srq &&
		got.cq == cq && got.pd == dev.pd && got.hop_limit == 64 &&
		got.mtu == mtu() && got.min_rnr_timer == 12 &&
		got.gid_index == dev.gid_index && !got.key_violations &&
		got.state == IBV_EXP_DCT_STATE_ACTIVE);
}

/* The limit of READs and atomics in flight. */
static void limits(void)
{
	struct ibv_exp_qp_attr attr = { .qp_state = IBV_QPS_RTS,
					.max_rd_atomic = 17 };

	VT_TRUE(ibv_exp_modify_qp(dci, &attr, IBV_EXP_QP_MAX_QP_RD_ATOMIC) ==
		EINVAL);
}

/* ---- keys ---- */

static void wait_event(enum ibv_event_type type, const void *object)
{
	struct ibv_async_event e;

	VT_TRUE(!ibv_get_async_event(dev.ctx, &e));
	VT_TRUE((int)e.event_type == (int)type);
	VT_TRUE((const void *)e.element.qp == object);
	ibv_ack_async_event(&e);
}

/* The answer to a wrong key of a region is sent once, so it may be lost. */
static void refused(struct ibv_exp_send_wr wr)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc;

	post(wr, 0, 64);
	vt_poll(cq, &wc);
	VT_TRUE(wc.status == IBV_WC_REM_ACCESS_ERR ||
		(wr.exp_opcode == IBV_EXP_WR_RDMA_WRITE &&
		 wc.status == IBV_WC_RETRY_EXC_ERR));
	VT_TRUE(!ibv_modify_qp(dci, &reset, IBV_QP_STATE));
	dci_rts();
}

static void wrong_keys(void)
{
	struct ibv_exp_send_wr wr = request(0, IBV_EXP_WR_SEND);

	wr.dc.dct_access_key ^= 1;
	refused(wr);
	refused(wr);
	wr = request(0, IBV_EXP_WR_RDMA_WRITE);
	wr.wr.rdma.rkey ^= 1;
	refused(wr);
}

static void run_keys(void)
{
	struct ibv_exp_arm_attr arm = { .comp_mask = 0 };
	struct ibv_exp_dct_attr got = { .comp_mask = 0 };
	struct pollfd p = { .fd = dev.ctx->async_fd, .events = POLLIN };

	for (long n = 0; n < args.n; n++) {
		if (!args.host)
			VT_TRUE(!ibv_exp_arm_dct(dct[0], &arm));
		vt_barrier(fd);
		if (args.host) {
			wrong_keys();
		} else {
			wait_event(IBV_EXP_EVENT_DCT_KEY_VIOLATION, dct[0]);
			wait_event(IBV_EXP_EVENT_DCT_ACCESS_ERR, dct[0]);
		}
		vt_barrier(fd);
		/* The second wrong access key raised none. */
		VT_TRUE(poll(&p, 1, 0) == 0);
	}
	if (args.host) {
		post(request(0, IBV_EXP_WR_SEND), 0, 64);
		done(0);
	} else {
		received(0);
		VT_TRUE(!ibv_exp_query_dct(dct[0], &got));
		VT_TRUE(got.key_violations >= 2 * (uint32_t)args.n);
	}
	vt_barrier(fd);
}

/* ---- a target that ends ---- */

static void destroy_first(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < 100; i++)
		vt_poll_ok(cq, &wc);
	VT_TRUE(!ibv_exp_destroy_dct(dct[0]));
	dct[0] = NULL;
	/* Its memory may be used again, and its completions are gone with it. */
	vt_fill(mr->addr, SLOT, 1);
	vt_barrier(fd);
	while (ibv_poll_cq(cq, 1, &wc))
		VT_TRUE(wc.qp_num == hello.dctn[1]);
	VT_TRUE(vt_check(mr->addr, SLOT, 1));
}

static void send_until_it_fails(void)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };

	for (long n = 0; wc.status == IBV_WC_SUCCESS && n < 100000; n++) {
		post(request(0,
			     n % 2 ? IBV_EXP_WR_RDMA_WRITE : IBV_EXP_WR_SEND),
		     0, RECV);
		vt_poll(cq, &wc);
	}
	VT_TRUE(wc.status == IBV_WC_RETRY_EXC_ERR);
	VT_TRUE(!ibv_modify_qp(dci, &reset, IBV_QP_STATE));
	dci_rts();
	vt_barrier(fd);
	post(request(1, IBV_EXP_WR_RDMA_WRITE), 0, 64);
	done(1);
}

static void run_destroy(void)
{
	args.host ? send_until_it_fails() : destroy_first();
	vt_barrier(fd);
}

/* ---- an initiator that is killed ---- */

/* Before this process uses the device */
static void kill_one(void)
{
	pid_t pid = fork();
	int status;

	VT_TRUE(pid >= 0);
	if (!pid) {
		vt_dev_open_port(&dev, args.gid_index, args.ib_port);
		make_queues();
		make_initiator();
		for (int i = 0; i < 8; i++)
			post(request(0, IBV_EXP_WR_SEND), 0, RECV);
		raise(SIGKILL);
	}
	VT_TRUE(waitpid(pid, &status, 0) == pid);
	VT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Requests of the one that was killed complete as far as they came. */
static void run_killed(void)
{
	uint32_t imm = 0;

	if (args.host) {
		post(request(0, IBV_EXP_WR_RDMA_WRITE_WITH_IMM), 0, 64);
		done(0);
	}
	while (!args.host && !imm) {
		struct ibv_wc wc;

		vt_poll(cq, &wc);
		VT_TRUE(wc.status == IBV_WC_SUCCESS ||
			wc.status == IBV_WC_WR_FLUSH_ERR);
		imm = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	}
	vt_barrier(fd);
}

/* ---- rate ---- */

static struct ibv_qp *rc[MOST];

static void write_rc(long n)
{
	int to = (int)(n % args.qps);

	vt_rdma(rc[to], IBV_WR_RDMA_WRITE, mr, 0, 64,
		hello.addr + (uint64_t)to * SLOT, hello.rkey);
}

static void write_dc(long n)
{
	post(request((int)(n % args.qps), IBV_EXP_WR_RDMA_WRITE), 0, 64);
}

/* Each target has one of them, so that there are as many connections as queue pairs
 * of RC, and each goes on to another target with each message. */
static struct ibv_qp *initiators[DEPTH];

static void write_dc_by_many(long n)
{
	dci = initiators[n % args.qps % DEPTH];
	write_dc(n);
}

/* WRITEs per second with that many in flight */
static double rate(void (*write_one)(long n), long depth)
{
	uint64_t start = vt_now_ms();
	long total = args.n * args.qps, posted = 0;
	struct ibv_wc wc;

	for (long done = 0; done < total; done++) {
		while (posted < total && posted - done < depth)
			write_one(posted++);
		vt_poll_ok(cq, &wc);
	}
	return (double)total * 1000 / (double)(vt_now_ms() - start + 1);
}

/* ---- turns ---- */

static void send_in_turn(long n)
{
	int to = (int)(n % args.qps);

	post(request(to, IBV_EXP_WR_SEND_WITH_IMM), (uint64_t)to * SLOT, 64);
}

/* The target of each message is another one; they arrive in their order. */
static void run_turns(void)
{
	if (args.host)
		(void)rate(send_in_turn, (long)DEPTH);
	for (long n = 0; !args.host && n < args.n * args.qps; n++) {
		struct ibv_exp_wc wc = received((int)(n % args.qps));

		VT_TRUE(be32toh(wc.imm_data) == (uint32_t)(n % args.qps));
	}
	vt_barrier(fd);
}

/* RC before and after DC, since the machine may become slower meanwhile. */
static void compare(const char *what, void (*write_some)(long n), long rc_depth)
{
	double before = rate(write_rc, rc_depth), with, without;

	with = rate(write_some, (long)DEPTH);
	without = (before + rate(write_rc, rc_depth)) / 2;
	printf("%s: RC %.0f/s, DC %.0f/s, %.2f\n", what, without, with,
	       with / without);
}

static void measure(void)
{
	struct ibv_qp *first = dci;

	compare("one message in flight, one initiator", write_dc, 1);
	for (uint32_t i = 0; i < DEPTH; i++) {
		dci = initiators[i] = new_dci();
		VT_TRUE(dci);
		dci_rts();
	}
	compare("64 messages in flight, 64 initiators", write_dc_by_many,
		(long)DEPTH);
	for (uint32_t i = 0; i < DEPTH; i++)
		VT_TRUE(!ibv_destroy_qp(initiators[i]));
	dci = first;
}

static void run_rate(void)
{
	for (int i = 0; i < args.qps; i++) {
		struct vt_addr mine, theirs;

		rc[i] = vt_qp_create(&dev, cq, cq, DEPTH);
		vt_qp_init(rc[i]);
		vt_qp_addr(&dev, rc[i], &mine);
		vt_swap(fd, &mine, &theirs, sizeof(mine));
		vt_qp_connect(&dev, rc[i], &mine, &theirs, &args);
	}
	vt_barrier(fd);
	if (args.host) {
		measure();
	} else {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		struct ibv_wc wc;

		while (poll(&p, 1, 0) == 0)
			for (int i = 0; i < 1000; i++)
				(void)ibv_poll_cq(cq, 1, &wc);
	}
	vt_barrier(fd);
	for (int i = 0; i < args.qps; i++)
		VT_TRUE(!ibv_destroy_qp(rc[i]));
}

static void close_all(void)
{
	if (dci)
		VT_TRUE(!ibv_destroy_qp(dci));
	if (ah)
		VT_TRUE(!ibv_destroy_ah(ah));
	for (int i = 0; i < args.qps; i++)
		if (dct[i])
			VT_TRUE(!ibv_exp_destroy_dct(dct[i]));
	if (inbox)
		VT_TRUE(!ibv_dereg_mr(inbox));
	VT_TRUE(!ibv_dereg_mr(mr));
	VT_TRUE(!ibv_destroy_srq(srq));
	VT_TRUE(!ibv_destroy_cq(cq));
	vt_dev_close(&dev);
}

static int run_refused(void)
{
	vt_dev_open_port(&dev, args.gid_index, args.ib_port);
	make_queues();
	make_targets();
	ibv_dereg_mr(mr);
	make_initiator();
	refused_targets();
	refused_requests();
	refused_states();
	query();
	limits();
	close_all();
	return 0;
}

static void connect_server(void)
{
	static struct hello none;

	vt_dev_open_port(&dev, args.gid_index, args.ib_port);
	make_queues();
	make_targets();
	fd = vt_connect(NULL, args.port);
	vt_swap(fd, &hello, &none, sizeof(hello));
}

static void connect_client(void)
{
	static const struct hello none;

	fd = vt_connect(args.host, args.port);
	vt_swap(fd, &none, &hello, sizeof(hello));
	if (!strcmp(args.mode, "killed"))
		kill_one();
	vt_dev_open_port(&dev, args.gid_index, args.ib_port);
	make_queues();
	make_initiator();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "data", run_data },	    { "keys", run_keys },
		{ "destroy", run_destroy }, { "killed", run_killed },
		{ "rate", run_rate },	    { "turns", run_turns },
	};
	vt_args(&args, argc, argv);
	VT_TRUE(args.qps > 0 && args.qps <= (int)MOST);
	if (!strcmp(args.mode, "refused"))
		return run_refused();
	if (args.host)
		connect_client();
	else
		connect_server();
	vt_barrier(fd);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(args.mode, modes[i].name))
			modes[i].run();
	close_all();
	return 0;
}
