/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows, their invalidation, and regions that grow, between two queue
 * pairs of this process on the device on which librdmacm connects.
 *
 * windows HOST WHAT: `type1`, `type2`, `refused`, `faults`, `unaligned` (an
 * atomic operation), `destroyed`, `extended`, or `placed` (FLUSH and ATOMIC WRITE; RoCE alone, on the first device).
 */
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "cm_pair.h"

#define SIZE 65536u
#define RW   (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const char *host;
static uint8_t target[2 * SIZE], source[SIZE];
static struct ibv_mr *target_mr, *source_mr;

static struct ibv_qp_init_attr qp_init(void)
{
	return (struct ibv_qp_init_attr){ .cap = { 64, 64, 1, 1, 0 },
					  .qp_type = IBV_QPT_RC };
}

static void open_pair(void)
{
	vt_pair_open(host, NULL, qp_init());
	target_mr = ibv_reg_mr(server->pd, target, SIZE,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	source_mr =
		ibv_reg_mr(client->pd, source, SIZE, IBV_ACCESS_LOCAL_WRITE);
	VT_TRUE(target_mr && source_mr);
	memset(target, 0, sizeof(target));
	vt_fill(source, SIZE, 1);
}

static void close_pair(void)
{
	rdma_destroy_ep(client);
	if (server)
		rdma_destroy_ep(server);
	rdma_destroy_ep(listener);
	if (target_mr)
		VT_TRUE(ibv_dereg_mr(target_mr) == 0);
	VT_TRUE(ibv_dereg_mr(source_mr) == 0);
}

static int rdma(enum ibv_wr_opcode op, uint32_t key, size_t off, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)source, len, source_mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)target + off, key },
	};
	struct ibv_wc wc;

	VT_TRUE(ibv_post_send(client->qp, &wr, &bad) == 0);
	vt_poll(client->send_cq, &wc);
	return (int)wc.status;
}

static bool reaches(uint32_t key, size_t off, uint32_t len)
{
	memset(target, 0, sizeof(target));
	if (rdma(IBV_WR_RDMA_WRITE, key, off, len) != IBV_WC_SUCCESS)
		return false;
	/* On iWARP a WRITE completes before it is there: a READ follows. */
	if (rdma(IBV_WR_RDMA_READ, key, off, len) != IBV_WC_SUCCESS)
		return false;
	VT_TRUE(vt_check(target + off, len, 1));
	return true;
}

static void server_done(enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	vt_poll_ok(server->send_cq, &wc);
	VT_TRUE(wc.opcode == opcode);
}

static struct ibv_mw_bind_info part(size_t off, size_t len)
{
	return (struct ibv_mw_bind_info){ .mr = target_mr,
					  .addr = (uintptr_t)target + off,
					  .length = len,
					  .mw_access_flags = RW };
}

static uint32_t bind_1(struct ibv_mw *mw, size_t off, size_t len)
{
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = part(off, len) };

	VT_TRUE(ibv_bind_mw(server->qp, mw, &bind) == 0);
	server_done(IBV_WC_BIND_MW);
	return mw->rkey;
}

static uint32_t bind_2(struct ibv_mw *mw, uint32_t key, size_t off, size_t len)
{
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { mw, key, part(off, len) },
	};

	VT_TRUE(ibv_post_send(server->qp, &wr, &bad) == 0);
	server_done(IBV_WC_BIND_MW);
	return key;
}

static void type1(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(server->pd, IBV_MW_TYPE_1);
	uint32_t first, second;

	VT_TRUE(mw);
	first = bind_1(mw, 4096, 40000);
	VT_TRUE(reaches(first, 4096, 40000));
	VT_TRUE(ibv_dereg_mr(target_mr) == EBUSY);
	second = bind_1(mw, 0, 4096);
	VT_TRUE(second == ibv_inc_rkey(first));
	VT_TRUE(reaches(second, 0, 4096));
	VT_TRUE(rdma(IBV_WR_RDMA_READ, first, 4096, 8) ==
		IBV_WC_REM_ACCESS_ERR);
	VT_TRUE(ibv_dealloc_mw(mw) == 0);
}

static void client_send_inv(uint32_t key)
{
	struct ibv_sge sge = { (uintptr_t)source, 100, source_mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_INV,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
		.invalidate_rkey = key,
	};

	VT_TRUE(ibv_post_send(client->qp, &wr, &bad) == 0);
}

static void post_recv(void)
{
	struct ibv_sge sge = { (uintptr_t)target, 4096, target_mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	VT_TRUE(ibv_post_recv(server->qp, &wr, &bad) == 0);
}

static void local_inv(uint32_t key)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_LOCAL_INV,
					.send_flags = IBV_SEND_SIGNALED,
					.invalidate_rkey = key };

	VT_TRUE(ibv_post_send(server->qp, &wr, &bad) == 0);
}

static void type2(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(server->pd, IBV_MW_TYPE_2);
	uint32_t key;
	struct ibv_wc wc;

	VT_TRUE(mw);
	key = bind_2(mw, ibv_inc_rkey(mw->rkey), 100, 60000);
	VT_TRUE(reaches(key, 100, 60000));
	post_recv();
	client_send_inv(key);
	vt_poll_ok(client->send_cq, &wc);
	vt_poll_ok(server->recv_cq, &wc);
	VT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
	VT_TRUE(wc.invalidated_rkey == key && wc.byte_len == 100);
	/* Free: bound again, and invalidated by its owner. */
	key = bind_2(mw, ibv_inc_rkey(key), 0, 4096);
	VT_TRUE(reaches(key, 0, 4096));
	local_inv(key);
	server_done(IBV_WC_LOCAL_INV);
	VT_TRUE(ibv_dereg_mr(target_mr) == 0);
	target_mr = NULL;
	VT_TRUE(rdma(IBV_WR_RDMA_READ, key, 0, 8) == IBV_WC_REM_ACCESS_ERR);
	VT_TRUE(ibv_dealloc_mw(mw) == 0);
}

/* What cannot be invalidated is an error of the receive, and of its side. */
static void refused(void)
{
	struct ibv_wc wc;

	post_recv();
	client_send_inv(target_mr->rkey);
	vt_poll(server->recv_cq, &wc);
	VT_TRUE(wc.status != IBV_WC_SUCCESS);
	/* The data is there: the SEND is acknowledged (decision 0018). */
	vt_poll_ok(client->send_cq, &wc);
	close_pair();
	open_pair();
	local_inv(target_mr->rkey);
	vt_poll(server->send_cq, &wc);
	VT_TRUE(wc.status == IBV_WC_MW_BIND_ERR);
}

static void destroyed(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(server->pd, IBV_MW_TYPE_2);

	VT_TRUE(mw);
	bind_2(mw, ibv_inc_rkey(mw->rkey), 0, SIZE);
	VT_TRUE(ibv_dereg_mr(target_mr) == EBUSY);
	rdma_destroy_ep(server);
	server = NULL;
	VT_TRUE(ibv_dereg_mr(target_mr) == 0);
	target_mr = NULL;
	VT_TRUE(ibv_dealloc_mw(mw) == 0);
}

/* What is wrong with a bind shows in its completion, not when it is posted. */
static void bind_fails(struct ibv_mw *mw, struct ibv_mw_bind_info info)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = 77,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { mw, ibv_inc_rkey(mw->rkey), info },
	};
	struct ibv_wc wc;

	VT_TRUE(ibv_post_send(server->qp, &wr, &bad) == 0);
	VT_TRUE(mw->rkey == wr.bind_mw.rkey);
	vt_poll(server->send_cq, &wc);
	VT_TRUE(wc.wr_id == 77 && wc.status == IBV_WC_MW_BIND_ERR);
	VT_TRUE(ibv_dealloc_mw(mw) == 0);
	close_pair();
	open_pair();
}

static struct ibv_mw *free_window(struct ibv_pd *pd)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);

	VT_TRUE(mw);
	return mw;
}

static void faults(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(server->verbs);
	struct ibv_mw_bind_info info = part(0, 64);
	struct ibv_mr *plain;

	VT_TRUE(pd);
	bind_fails(free_window(pd), info);
	bind_fails(free_window(server->pd), part(SIZE - 8, 64));
	info = part(0, 64);
	info.mw_access_flags = IBV_ACCESS_MW_BIND;
	bind_fails(free_window(server->pd), info);
	plain = ibv_reg_mr(server->pd, target, SIZE, IBV_ACCESS_LOCAL_WRITE);
	VT_TRUE(plain);
	info = part(0, 64);
	info.mr = plain;
	bind_fails(free_window(server->pd), info);
	VT_TRUE(ibv_dereg_mr(plain) == 0);
	VT_TRUE(ibv_dealloc_pd(pd) == 0);
}

/* An atomic whose address is not aligned is the responder's to refuse. */
static void unaligned(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_ATOMIC_CMP_AND_SWP,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		struct ibv_mr *mr = ibv_reg_mr(
			server->pd, target, SIZE,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
		struct ibv_sge sge = { (uintptr_t)source, 8, source_mr->lkey };
		struct ibv_send_wr *bad, wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = ops[i],
			.send_flags = IBV_SEND_SIGNALED,
			.wr.atomic = { (uintptr_t)target + 64, 0, 1, mr->rkey },
		};
		bool iwarp = client->verbs->device->transport_type ==
			     IBV_TRANSPORT_IWARP;
		struct ibv_wc wc;

		VT_TRUE(ibv_post_send(client->qp, &wr, &bad) == 0);
		vt_poll_ok(client->send_cq, &wc);
		wr.wr.atomic.remote_addr += 4;
		VT_TRUE(ibv_post_send(client->qp, &wr, &bad) == 0);
		vt_poll(client->send_cq, &wc);
		VT_TRUE(iwarp ? wc.status != IBV_WC_SUCCESS
			      : wc.status == IBV_WC_REM_INV_REQ_ERR);
		VT_TRUE(target[68] == 0);
		VT_TRUE(ibv_dereg_mr(mr) == 0);
		close_pair();
		open_pair();
	}
}

static void *grow(void *arg)
{
	_Atomic bool *done = arg;

	for (size_t i = 1; i <= SIZE; i += 16)
		VT_TRUE(ibv_rereg_mr(target_mr, IBV_REREG_MR_CHANGE_TRANSLATION,
				     NULL, target, SIZE + i, 0) == 0);
	*done = true;
	return NULL;
}

/* What the region held is never out of reach while it is extended. */
static void extended(void)
{
	_Atomic bool done = false;
	pthread_t thread;

	VT_TRUE(ibv_rereg_mr(target_mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL,
			     0, IBV_ACCESS_LOCAL_WRITE | RW) == 0);
	VT_TRUE(pthread_create(&thread, NULL, grow, &done) == 0);
	while (!done) {
		VT_TRUE(rdma(IBV_WR_RDMA_WRITE, target_mr->rkey, SIZE - 4096,
			     4096) == IBV_WC_SUCCESS);
		VT_TRUE(rdma(IBV_WR_RDMA_READ, target_mr->rkey, 0, 4096) ==
			IBV_WC_SUCCESS);
	}
	VT_TRUE(pthread_join(thread, NULL) == 0);
	vt_fill(source, SIZE, 1); /* the READs brought something else */
	VT_TRUE(reaches(target_mr->rkey, SIZE, 4096));
}

/* ---- FLUSH and ATOMIC WRITE ---- */

static struct ibv_qp *placed_qp(struct vt_dev *d, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { 16, 16, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = d->pd,
		/* With FLUSH, for which the header may have no name. */
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_ATOMIC_WRITE | 1u << 11,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags =
					    IBV_ACCESS_REMOTE_WRITE | 1u << 8 };
	struct ibv_qp *qp = ibv_create_qp_ex(d->ctx, &init);

	VT_TRUE(qp);
	VT_TRUE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS) == 0);
	return qp;
}

static void wr_flush(struct ibv_qp_ex *qp, struct ibv_mr *mr, size_t len)
{
	void (*fn)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t,
		   uint8_t);

	memcpy(&fn, (uint8_t *)qp + 352, sizeof(fn));
	fn(qp, mr->rkey, (uintptr_t)mr->addr, len, 1, 0);
}

static void placed_run(struct ibv_qp *qp, struct ibv_mr *mr, struct ibv_cq *cq)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	const uint64_t value = 0x1122334455667788;
	struct ibv_wc wc;

	ibv_wr_start(ex);
	ex->wr_flags = 0;
	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)target);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)target + SIZE, 4096);
	ex->wr_flags = IBV_SEND_SIGNALED;
	wr_flush(ex, mr, 4096);
	ibv_wr_atomic_write(ex, mr->rkey, (uintptr_t)target + 8192, &value);
	VT_TRUE(ibv_wr_complete(ex) == 0);
	vt_poll_ok(cq, &wc);
	VT_TRUE(wc.opcode == 8 && vt_check(target, 4096, 2));
	vt_poll_ok(cq, &wc);
	VT_TRUE(wc.opcode == IBV_WC_ATOMIC_WRITE);
	VT_TRUE(memcmp(target + 8192, &value, sizeof(value)) == 0);
	/* The region is not so long. */
	ibv_wr_start(ex);
	wr_flush(ex, mr, sizeof(target) + 1);
	VT_TRUE(ibv_wr_complete(ex) == 0);
	vt_poll(cq, &wc);
	VT_TRUE(wc.status == IBV_WC_REM_ACCESS_ERR);
}

static void placed(void)
{
	struct vt_args args = { .timeout = 14, .retry = 7 };
	struct vt_addr a, b;
	struct vt_dev d;
	struct ibv_qp *qp[2];
	struct ibv_cq *cq;
	struct ibv_mr *mr;

	vt_dev_open(&d, -1);
	cq = ibv_create_cq(d.ctx, 64, NULL, NULL, 0);
	/* LOCAL_WRITE, REMOTE_WRITE, FLUSH_GLOBAL */
	mr = ibv_reg_mr(d.pd, target, sizeof(target),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				1 << 8);
	VT_TRUE(cq && mr);
	VT_TRUE(!ibv_reg_mr(d.pd, target, SIZE, 1 << 9) && errno == EINVAL);
	vt_fill(target + SIZE, 4096, 2);
	for (int i = 0; i < 2; i++)
		qp[i] = placed_qp(&d, cq);
	vt_qp_addr(&d, qp[0], &a);
	vt_qp_addr(&d, qp[1], &b);
	vt_qp_connect(&d, qp[0], &a, &b, &args);
	vt_qp_connect(&d, qp[1], &b, &a, &args);
	placed_run(qp[0], mr, cq);
	for (int i = 0; i < 2; i++)
		VT_TRUE(ibv_destroy_qp(qp[i]) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	vt_dev_close(&d);
}

static const struct {
	const char *name;
	void (*run)(void);
	bool connected;
} checks[] = {
	{ "type1", type1, true },	  { "type2", type2, true },
	{ "refused", refused, true },	  { "faults", faults, true },
	{ "unaligned", unaligned, true }, { "destroyed", destroyed, true },
	{ "extended", extended, true },	  { "placed", placed, false },
};

int main(int argc, char **argv)
{
	VT_TRUE(argc == 3);
	host = argv[1];
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (strcmp(checks[i].name, argv[2]) != 0)
			continue;
		if (checks[i].connected)
			open_pair();
		checks[i].run();
		if (checks[i].connected)
			close_pair();
		return 0;
	}
	VT_FAIL("no such check: %s", argv[2]);
}
