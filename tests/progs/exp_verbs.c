/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The experimental verbs with traffic, between two queue pairs of this process.
 * Includes the headers as programs of Mellanox OFED do.
 *
 * -M NAME runs one check on the first device; without it, all.  As
 * `exp_verbs HOST` it runs those that need no queue pair of their own on the
 * device on which librdmacm connects.
 */
#include <errno.h>
#include <infiniband/arch.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

#include "cm_pair.h"

#define SIZE 65536u

static struct vt_dev dev;
static struct ibv_qp *a, *b;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint64_t caps; /* exp_device_cap_flags */

static uint8_t *at(size_t offset)
{
	return (uint8_t *)mr->addr + offset;
}

/* The next completion, which must be there within ten seconds of work. */
static struct ibv_exp_wc poll_one(void)
{
	uint64_t end = vt_now_ms() + 10000;
	struct ibv_exp_wc wc;
	int got;

	do {
		got = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc));
		VT_TRUE(got >= 0);
	} while (!got && vt_now_ms() < end);
	VT_TRUE(got == 1);
	return wc;
}

static struct ibv_exp_wc expect(uint64_t wr_id, enum ibv_exp_wc_opcode opcode)
{
	struct ibv_exp_wc wc = poll_one();

	if (wc.status != IBV_WC_SUCCESS || wc.wr_id != wr_id ||
	    wc.exp_opcode != opcode)
		VT_FAIL("%lu: completion of %lu, status %d, opcode %d", wr_id,
			wc.wr_id, wc.status, wc.exp_opcode);
	return wc;
}

/* A completion of b, which may have a queue of its own */
static void expect_at_b(uint64_t wr_id, enum ibv_exp_wc_opcode opcode)
{
	struct ibv_cq *old = cq;

	cq = b->send_cq;
	expect(wr_id, opcode);
	cq = old;
}

static struct ibv_exp_send_wr request(struct ibv_sge *sge, uint64_t wr_id,
				      enum ibv_exp_wr_opcode opcode)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = wr_id;
	wr.sg_list = sge;
	wr.num_sge = sge ? 1 : 0;
	wr.exp_opcode = opcode;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = (uintptr_t)at(4096);
	wr.wr.rdma.rkey = mr->rkey;
	return wr;
}

static void post(struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad = NULL;
	int rc = ibv_exp_post_send(a, &wr, &bad);

	if (rc)
		VT_FAIL("opcode %d: %s", wr.exp_opcode, strerror(rc));
}

/* What a WRITE has sent: on iWARP it completes before the data is there. */
static void arrives(size_t length, uint64_t seed)
{
	uint64_t end = vt_now_ms() + 10000;

	while (!vt_check(at(4096), length, seed))
		VT_TRUE(vt_now_ms() < end);
}

static struct ibv_sge piece(size_t offset, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)at(offset), length, mr->lkey };
}

/* ---- checks that need two connected queue pairs, of any device ---- */

static void run_rdma(void)
{
	struct ibv_sge sge = piece(0, 1024);
	struct ibv_exp_send_wr wr;
	struct ibv_exp_wc wc;

	vt_fill(at(0), 1024, 1);
	post(request(&sge, 1, IBV_EXP_WR_RDMA_WRITE));
	wc = expect(1, IBV_EXP_WC_RDMA_WRITE);
	arrives(1024, 1);
	VT_TRUE(wc.exp_wc_flags == IBV_EXP_WC_QP && wc.qp == a);
	vt_fill(at(4096), 1024, 2);
	post(request(&sge, 2, IBV_EXP_WR_RDMA_READ));
	expect(2, IBV_EXP_WC_RDMA_READ);
	VT_TRUE(vt_check(at(0), 1024, 2));

	sge = piece(0, 8);
	memset(at(4096), 0, 8);
	wr = request(&sge, 3, IBV_EXP_WR_ATOMIC_FETCH_AND_ADD);
	wr.wr.atomic.remote_addr = (uintptr_t)at(4096);
	wr.wr.atomic.compare_add = 5;
	wr.wr.atomic.swap = 0;
	wr.wr.atomic.rkey = mr->rkey;
	post(wr);
	expect(3, IBV_EXP_WC_FETCH_ADD);
	wr.wr_id = 4;
	wr.exp_opcode = IBV_EXP_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.swap = 9;
	post(wr);
	expect(4, IBV_EXP_WC_COMP_SWAP);
	VT_TRUE(*(uint64_t *)(void *)at(0) == 5);
	VT_TRUE(*(uint64_t *)(void *)at(4096) == 9);
}

static void run_send(void)
{
	struct ibv_sge sge = piece(0, 512);
	struct ibv_exp_send_wr wr = request(&sge, 10, IBV_EXP_WR_SEND);
	struct ibv_exp_wc wc[2];

	vt_fill(at(0), 512, 3);
	vt_recv(b, mr, 8192, 512, 11);
	wr.exp_send_flags |= IBV_EXP_SEND_INLINE;
	sge.length = 32;
	post(wr);
	for (int i = 0; i < 2; i++) {
		struct ibv_exp_wc one = poll_one();

		wc[one.wr_id == 11] = one;
	}
	VT_TRUE(wc[0].wr_id == 10 && wc[0].exp_opcode == IBV_EXP_WC_SEND);
	VT_TRUE(wc[1].wr_id == 11 && wc[1].exp_opcode == IBV_EXP_WC_RECV);
	VT_TRUE(wc[1].byte_len == 32 && wc[1].status == IBV_WC_SUCCESS);
	VT_TRUE(wc[1].exp_wc_flags == IBV_EXP_WC_QP && wc[1].qp == b);
	VT_TRUE(wc[1].qp_num == b->qp_num);
	VT_TRUE(memcmp(at(0), at(8192), 32) == 0);
}

/* It completes behind the requests before it, without data. */
static void run_nop(void)
{
	struct ibv_sge sge = piece(0, SIZE / 4);
	struct ibv_exp_send_wr write = request(&sge, 20, IBV_EXP_WR_RDMA_WRITE);
	struct ibv_exp_send_wr nop = request(NULL, 21, IBV_EXP_WR_NOP);
	struct ibv_exp_send_wr *bad;

	VT_TRUE(caps & IBV_EXP_DEVICE_NOP);
	write.wr.rdma.remote_addr = (uintptr_t)at(SIZE / 2);
	write.next = &nop;
	VT_TRUE(ibv_exp_post_send(a, &write, &bad) == 0);
	expect(20, IBV_EXP_WC_RDMA_WRITE);
	expect(21, IBV_EXP_WC_SEND);
	nop.exp_send_flags = IBV_EXP_SEND_INLINE;
	VT_TRUE(ibv_exp_post_send(a, &nop, &bad) == EINVAL && bad == &nop);
}

/* b binds a window, through which a writes. */
static void run_windows(void)
{
	struct ibv_mw *one = ibv_alloc_mw(b->pd, IBV_MW_TYPE_1);
	struct ibv_sge sge = piece(0, 64);
	struct ibv_exp_send_wr wr;
	struct ibv_exp_mw_bind bind = {
		.qp = b,
		.mw = one,
		.wr_id = 30,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
		.bind_info = { mr, (uintptr_t)at(4096), 4096,
			       IBV_EXP_ACCESS_REMOTE_WRITE },
	};

	VT_TRUE(caps & IBV_EXP_DEVICE_MEM_WINDOW);
	VT_TRUE(one);
	VT_TRUE(ibv_exp_bind_mw(&bind) == 0);
	expect_at_b(30, IBV_EXP_WC_BIND_MW);
	vt_fill(at(0), 64, 4);
	wr = request(&sge, 31, IBV_EXP_WR_RDMA_WRITE);
	wr.wr.rdma.rkey = one->rkey;
	post(wr);
	expect(31, IBV_EXP_WC_RDMA_WRITE);
	arrives(64, 4);
	VT_TRUE(ibv_dealloc_mw(one) == 0);
}

/* Type 2 by requests: bound, used, invalidated. */
static void run_windows_2(void)
{
	struct ibv_mw *two = ibv_alloc_mw(b->pd, IBV_MW_TYPE_2);
	struct ibv_exp_send_wr wr = request(NULL, 40, IBV_EXP_WR_BIND_MW);
	struct ibv_exp_send_wr *bad;
	struct ibv_sge sge = piece(0, 64);

	VT_TRUE(caps & IBV_EXP_DEVICE_MW_TYPE_2B);
	VT_TRUE(two);
	wr.bind_mw.mw = two;
	wr.bind_mw.rkey = ibv_inc_rkey(two->rkey);
	wr.bind_mw.bind_info =
		(struct ibv_exp_mw_bind_info){ mr, (uintptr_t)at(4096), 4096,
					       IBV_EXP_ACCESS_REMOTE_WRITE };
	VT_TRUE(ibv_exp_post_send(b, &wr, &bad) == 0);
	expect_at_b(40, IBV_EXP_WC_BIND_MW);
	vt_fill(at(0), 64, 5);
	wr = request(&sge, 41, IBV_EXP_WR_RDMA_WRITE);
	wr.wr.rdma.rkey = two->rkey;
	post(wr);
	expect(41, IBV_EXP_WC_RDMA_WRITE);
	arrives(64, 5);
	wr = request(NULL, 42, IBV_EXP_WR_LOCAL_INV);
	wr.ex.invalidate_rkey = two->rkey;
	VT_TRUE(ibv_exp_post_send(b, &wr, &bad) == 0);
	expect_at_b(42, IBV_EXP_WC_LOCAL_INV);
	VT_TRUE(ibv_dealloc_mw(two) == 0);
}

/* Memory of the library is the source and target of a WRITE. */
static void run_allocated(struct ibv_pd *pd)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = pd,
		.length = 8192,
		.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE |
			      IBV_EXP_ACCESS_REMOTE_WRITE |
			      IBV_EXP_ACCESS_ALLOCATE_MR,
	};
	struct ibv_mr *own = ibv_exp_reg_mr(&in), *old = mr;

	VT_TRUE(caps & IBV_EXP_DEVICE_MR_ALLOCATE);
	VT_TRUE(own && own->addr && own->length == 8192);
	mr = own;
	vt_fill(at(0), 1024, 6);
	post(request(&(struct ibv_sge){ (uintptr_t)at(0), 1024, mr->lkey }, 50,
		     IBV_EXP_WR_RDMA_WRITE));
	expect(50, IBV_EXP_WC_RDMA_WRITE);
	arrives(1024, 6);
	VT_TRUE(ibv_dereg_mr(own) == 0);
	mr = old;
}

static void query(struct ibv_context *ctx)
{
	struct ibv_exp_device_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
			 IBV_EXP_DEVICE_ATTR_UMR |
			 IBV_EXP_DEVICE_ATTR_CALC_CAP |
			 IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS;
	VT_TRUE(ibv_exp_query_device(ctx, &attr) == 0);
	VT_TRUE(attr.comp_mask ==
		(IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
		 IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS | IBV_EXP_DEVICE_ATTR_UMR |
		 IBV_EXP_DEVICE_ATTR_CALC_CAP));
	caps = attr.exp_device_cap_flags;
	VT_TRUE(caps & IBV_EXP_DEVICE_EXT_ATOMICS);
	VT_TRUE(caps & IBV_EXP_DEVICE_UMR);
	VT_TRUE(caps & IBV_EXP_DEVICE_CROSS_CHANNEL);
}

static void run_all(struct ibv_pd *pd)
{
	run_rdma();
	run_send();
	run_nop();
	run_windows();
	run_windows_2();
	run_allocated(pd);
}

/* ---- on the first device, with its queues ---- */

static struct ibv_qp *qp_create(void)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { 64, 64, 1, 1, 64 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_INL_RECV |
			     IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.pd = dev.pd,
		.max_inl_recv = 32,
		.max_atomic_arg = 8,
	};
	struct ibv_exp_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(dev.ctx, &init);

	VT_TRUE(qp);
	VT_TRUE(init.max_inl_recv == 32 && init.cap.max_inline_data >= 64);
	VT_TRUE(ibv_exp_modify_qp(qp, &attr,
				  IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
					  IBV_EXP_QP_PORT |
					  IBV_EXP_QP_ACCESS_FLAGS) == 0);
	return qp;
}

static void open_pair(struct ibv_cq *queue)
{
	struct vt_args args = { .timeout = 14, .retry = 7 };
	struct vt_addr of_a, of_b;

	VT_TRUE(queue);
	cq = queue;
	a = qp_create();
	b = qp_create();
	mr = ibv_exp_reg_mr(&(struct ibv_exp_reg_mr_in){
		.pd = dev.pd,
		.addr = NULL,
		.length = SIZE,
		.exp_access = IBV_EXP_ACCESS_ALLOCATE_MR |
			      IBV_EXP_ACCESS_LOCAL_WRITE |
			      IBV_EXP_ACCESS_REMOTE_WRITE |
			      IBV_EXP_ACCESS_REMOTE_READ |
			      IBV_EXP_ACCESS_REMOTE_ATOMIC |
			      IBV_EXP_ACCESS_MW_BIND });
	VT_TRUE(mr);
	vt_qp_addr(&dev, a, &of_a);
	vt_qp_addr(&dev, b, &of_b);
	vt_qp_connect(&dev, a, &of_a, &of_b, &args);
	vt_qp_connect(&dev, b, &of_b, &of_a, &args);
}

static void close_pair(void)
{
	VT_TRUE(ibv_destroy_qp(a) == 0);
	VT_TRUE(ibv_destroy_qp(b) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
}

static struct ibv_cq *cq_create(int cqe, struct ibv_comp_channel *channel,
				uint32_t flags)
{
	struct ibv_exp_cq_init_attr init = {
		.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
		.flags = flags,
	};

	return ibv_exp_create_cq(dev.ctx, cqe, &dev, channel, 0, &init);
}

static void check_traffic(void)
{
	open_pair(cq_create(64, NULL, 0));
	run_all(dev.pd);
	close_pair();
}

/* Completion times lie between two readings of the device's clock. */
static void check_timestamps(void)
{
	struct ibv_values_ex from = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_values_ex to = from;
	struct ibv_sge sge;
	uint64_t last;

	open_pair(cq_create(64, NULL, IBV_EXP_CQ_TIMESTAMP));
	sge = piece(0, 64);
	VT_TRUE(ibv_query_rt_values_ex(dev.ctx, &from) == 0);
	last = (uint64_t)from.raw_clock.tv_nsec;
	for (uint64_t i = 0; i < 8; i++) {
		struct ibv_exp_wc wc;

		post(request(&sge, i, IBV_EXP_WR_RDMA_WRITE));
		wc = expect(i, IBV_EXP_WC_RDMA_WRITE);
		VT_TRUE(wc.exp_wc_flags & IBV_EXP_WC_WITH_TIMESTAMP);
		VT_TRUE(wc.timestamp >= last);
		last = wc.timestamp;
	}
	VT_TRUE(ibv_query_rt_values_ex(dev.ctx, &to) == 0);
	VT_TRUE(last <= (uint64_t)to.raw_clock.tv_nsec);
	close_pair();
}

/* One event for 16 completions, by a channel; the context is given back. */
static void check_moderation(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(dev.ctx);
	struct ibv_exp_cq_attr attr = {
		.comp_mask = IBV_EXP_CQ_ATTR_MODERATION,
		.moderation = { .cq_count = 16, .cq_period = 20000 },
	};
	struct ibv_sge sge;
	struct ibv_cq *got;
	void *context;

	open_pair(cq_create(64, channel, 0));
	sge = piece(0, 64);
	VT_TRUE(ibv_exp_modify_cq(cq, &attr, IBV_EXP_CQ_MODERATION) == 0);
	VT_TRUE(ibv_req_notify_cq(cq, 0) == 0);
	for (uint64_t i = 0; i < 16; i++)
		post(request(&sge, i, IBV_EXP_WR_RDMA_WRITE));
	VT_TRUE(ibv_get_cq_event(channel, &got, &context) == 0);
	VT_TRUE(got == cq && context == &dev);
	ibv_ack_cq_events(cq, 1);
	for (uint64_t i = 0; i < 16; i++)
		expect(i, IBV_EXP_WC_RDMA_WRITE);
	close_pair();
	VT_TRUE(ibv_destroy_comp_channel(channel) == 0);
}

/* One byte at `from`, to another place */
static void post_read(uint64_t wr_id, size_t from, size_t to, uint64_t flags)
{
	struct ibv_sge sge = piece(to, 1);
	struct ibv_exp_send_wr wr = request(&sge, wr_id, IBV_EXP_WR_RDMA_READ);

	wr.wr.rdma.remote_addr = (uintptr_t)at(from);
	wr.exp_send_flags |= flags;
	post(wr);
}

/* How many completions come up to and with that of wr_id 1001 */
static int drain(uint64_t *first)
{
	struct ibv_exp_wc wc = poll_one();
	int n = 1;

	*first = wc.wr_id;
	for (; wc.wr_id != 1001; n++)
		wc = poll_one();
	return n;
}

/*
 * More completions than the queue holds: the oldest are lost, and the queue pair
 * goes on.  No completion is polled before the data of the second READ is there:
 * it begins after the first one, and with that all WRITEs, have completed.  Only
 * its own completion may be added during the polling.
 */
static void check_ignore_overrun(void)
{
	struct ibv_exp_cq_attr attr = {
		.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
		.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN,
	};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr qp_attr;
	uint64_t end = vt_now_ms() + 10000, first;
	struct ibv_sge sge;

	open_pair(cq_create(4, NULL, 0));
	VT_TRUE(ibv_exp_modify_cq(cq, &attr, IBV_EXP_CQ_CAP_FLAGS) == 0);
	sge = piece(0, 64);
	for (int i = 0; i < cq->cqe + 8; i++)
		post(request(&sge, (uint64_t)i, IBV_EXP_WR_RDMA_WRITE));
	*at(8192) = 77;
	post_read(1000, 8192, 12288, 0);
	post_read(1001, 8192, 16384, IBV_EXP_SEND_FENCE);
	while (*(volatile uint8_t *)at(16384) != 77)
		VT_TRUE(vt_now_ms() < end);
	VT_TRUE(drain(&first) <= cq->cqe + 1);
	VT_TRUE(first > 0);
	VT_TRUE(ibv_query_qp(a, &qp_attr, IBV_QP_STATE, &init) == 0);
	VT_TRUE(qp_attr.qp_state == IBV_QPS_RTS);
	close_pair();
}

/* 128 KiB at 8 Mbit/s take 131 ms, less the burst that may go at once. */
static void check_rate(void)
{
	struct ibv_exp_qp_attr attr = { .rate_limit = 8000 };
	struct ibv_sge sge;
	uint64_t from;

	open_pair(cq_create(64, NULL, 0));
	sge = piece(0, SIZE / 2);
	VT_TRUE(ibv_exp_modify_qp(a, &attr, IBV_EXP_QP_RATE_LIMIT) == 0);
	from = vt_now_ms();
	for (uint64_t i = 0; i < 4; i++) {
		struct ibv_exp_send_wr wr =
			request(&sge, i, IBV_EXP_WR_RDMA_WRITE);

		wr.wr.rdma.remote_addr = (uintptr_t)at(SIZE / 2);
		post(wr);
		expect(i, IBV_EXP_WC_RDMA_WRITE);
	}
	VT_TRUE(vt_now_ms() - from >= 40);
	close_pair();
}

static const struct {
	const char *name;
	void (*run)(void);
} checks[] = {
	{ "traffic", check_traffic },
	{ "timestamps", check_timestamps },
	{ "moderation", check_moderation },
	{ "ignore_overrun", check_ignore_overrun },
	{ "rate", check_rate },
};

static int first_device(const char *mode)
{
	int ran = 0;

	vt_dev_open(&dev, -1);
	query(dev.ctx);
	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		if (mode && strcmp(mode, checks[i].name) != 0)
			continue;
		checks[i].run();
		printf("%s works\n", checks[i].name);
		ran++;
	}
	VT_TRUE(ran > 0);
	vt_dev_close(&dev);
	return 0;
}

/* ---- on a device of librdmacm ---- */

/* Each side completes on queues of its own: poll the one in question. */
static int by_cm(const char *host)
{
	struct ibv_exp_reg_mr_in in = {
		.length = SIZE,
		.exp_access = IBV_EXP_ACCESS_ALLOCATE_MR |
			      IBV_EXP_ACCESS_LOCAL_WRITE |
			      IBV_EXP_ACCESS_REMOTE_WRITE |
			      IBV_EXP_ACCESS_REMOTE_READ |
			      IBV_EXP_ACCESS_REMOTE_ATOMIC |
			      IBV_EXP_ACCESS_MW_BIND,
	};
	struct ibv_qp_init_attr init = { .cap = { 64, 64, 1, 1, 64 },
					 .qp_type = IBV_QPT_RC };

	vt_pair_open(host, NULL, init);
	query(client->verbs);
	a = client->qp;
	b = server->qp;
	cq = client->send_cq;
	in.pd = client->pd;
	mr = ibv_exp_reg_mr(&in);
	VT_TRUE(mr && client->pd == server->pd);
	run_rdma();
	run_nop();
	run_windows();
	run_windows_2();
	run_allocated(client->pd);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	rdma_destroy_ep(client);
	rdma_destroy_ep(server);
	rdma_destroy_ep(listener);
	printf("requests work\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct vt_args args = { .gid_index = -1 };

	VT_TRUE(ntohll(htonll(1)) == 1); /* of arch.h */
	vt_args(&args, argc, argv);
	return args.host ? by_cm(args.host) : first_device(args.mode);
}
