/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UMR over RC as programs of Mellanox OFED have it: one key over separate
 * pieces, one over columns, and SEND, WRITE and READ through them.
 *
 *	exp_umr_rc -p PORT [-n ROUNDS] [-M MODE] [HOST]
 *	data		receives in the receive queue (the default)
 *	srq		receives in a shared receive queue, of two connections
 *	stale		the key of a receive is invalid when the message comes
 *	srq-stale	the same with a shared receive queue
 */
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exp_cm.h"
#include "vt.h"

#define PIECES 4
#define PIECE  50000u
#define ROWS   3000u
#define BLOCKS 2
#define CONNS  2
#define DEPTH  16
#define SIZE   (1u << 20)

static const struct {
	uint32_t bytes, stride, at;
} column[BLOCKS] = { { 24, 100, 40 }, { 48, 120, 400000 } };

static struct vt_args args = { .n = 20, .gid_index = -1, .mode = "data" };
static struct exp_cm cm;
static struct rdma_cm_id *id[CONNS];
static int conns = 1;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;  /* all of mem */
static struct ibv_mr *key; /* made by UMR */
static struct ibv_exp_mkey_list_container *list;
static uint8_t *mem;
static uint32_t key_bytes;
static int fd;
static struct {
	uint64_t addr;
	uint32_t rkey;
} mine, peer;

static void must(int rc, const char *what)
{
	errno = rc;
	if (rc)
		VT_FAIL("%s", what);
}

/* ---- objects ---- */

static void check_device(void)
{
	struct ibv_exp_device_attr attr = {
		.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
			     IBV_EXP_DEVICE_ATTR_UMR,
	};

	must(ibv_exp_query_device(id[0]->verbs, &attr), "query_device");
	VT_TRUE(attr.comp_mask & IBV_EXP_DEVICE_ATTR_UMR);
	VT_TRUE(attr.exp_device_cap_flags & IBV_EXP_DEVICE_UMR);
	VT_TRUE(attr.umr_caps.max_klm_list_size >= PIECES);
	VT_TRUE(attr.umr_caps.max_send_wqe_inline_klms >= BLOCKS);
	VT_TRUE(attr.umr_caps.max_umr_stride_dimension >= 1);
}

static void create_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = DEPTH,
						    .max_sge = 1 } };

	srq = ibv_create_srq(pd, &attr);
	VT_TRUE(srq);
}

static void create_key(void)
{
	struct ibv_exp_create_mr_in in = {
		.pd = pd,
		.attr = { .max_klm_list_size = PIECES,
			  .create_flags = IBV_EXP_MR_INDIRECT_KLMS,
			  .exp_access_flags = IBV_EXP_ACCESS_LOCAL_WRITE |
					      IBV_EXP_ACCESS_REMOTE_WRITE |
					      IBV_EXP_ACCESS_REMOTE_READ },
	};
	struct ibv_exp_mkey_list_container_attr attr = {
		.pd = pd,
		.mkey_list_type = IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR,
		.max_klm_list_size = PIECES,
	};

	key = ibv_exp_create_mr(&in);
	list = ibv_exp_alloc_mkey_list_memory(&attr);
	VT_TRUE(key && list);
}

/* Of the device of the first connection. */
static void create_objects(void)
{
	check_device();
	pd = ibv_alloc_pd(id[0]->verbs);
	cq = ibv_create_cq(id[0]->verbs, 4 * DEPTH, NULL, NULL, 0);
	mem = aligned_alloc(4096, SIZE);
	VT_TRUE(pd && cq && mem);
	mr = ibv_reg_mr(pd, mem, SIZE, IBV_ACCESS_LOCAL_WRITE);
	VT_TRUE(mr);
	if (strstr(args.mode, "srq"))
		create_srq();
	create_key();
}

static void create_qp(struct rdma_cm_id *i)
{
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = srq ? 0 : DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = srq ? 0 : 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS,
		.pd = pd,
		.exp_create_flags = IBV_EXP_QP_CREATE_UMR,
		.max_inl_send_klms = BLOCKS,
	};

	i->qp = ibv_exp_create_qp(i->verbs, &attr);
	VT_TRUE(i->qp);
}

static void connect_all(void)
{
	for (int i = 0; i < conns; i++) {
		id[i] = exp_cm_id(&cm, args.host, fd);
		if (i == 0)
			create_objects();
		create_qp(id[i]);
		exp_cm_connect(id[i], args.host);
	}
}

/* ---- the key ---- */

static void complete(enum ibv_exp_wc_opcode opcode, enum ibv_wc_status status)
{
	struct ibv_exp_wc wc;
	int n;

	while ((n = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc))) == 0)
		;
	VT_TRUE(n == 1);
	if (wc.status != status)
		VT_FAIL("%s, not %s", ibv_wc_status_str(wc.status),
			ibv_wc_status_str(status));
	if (status == IBV_WC_SUCCESS)
		VT_TRUE(wc.exp_opcode == opcode);
	if (status == IBV_WC_SUCCESS && opcode == IBV_EXP_WC_RECV)
		VT_TRUE(wc.byte_len == key_bytes);
}

static void post(int conn, struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_send_wr *bad;

	wr->exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	must(ibv_exp_post_send(id[conn]->qp, wr, &bad), "post");
}

static struct ibv_exp_send_wr umr_wr(enum ibv_exp_wr_opcode op)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = op;
	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE |
				   IBV_EXP_ACCESS_REMOTE_WRITE |
				   IBV_EXP_ACCESS_REMOTE_READ;
	wr.ext_op.umr.base_addr = (uintptr_t)mem;
	return wr;
}

/* Pieces from the end of the memory to its start. */
static void fill_by_list(int conn)
{
	struct ibv_exp_send_wr wr = umr_wr(IBV_EXP_WR_UMR_FILL);
	struct ibv_exp_mem_region region[PIECES];

	for (uint32_t i = 0; i < PIECES; i++)
		region[i] = (struct ibv_exp_mem_region){
			.base_addr = (uintptr_t)mem + (PIECES - 1 - i) * 200001,
			.mr = mr,
			.length = PIECE,
		};
	wr.ext_op.umr.umr_type = IBV_EXP_UMR_MR_LIST;
	wr.ext_op.umr.memory_objects = list;
	wr.ext_op.umr.num_mrs = PIECES;
	wr.ext_op.umr.mem_list.mem_reg_list = region;
	post(conn, &wr);
	key_bytes = PIECES * PIECE;
}

static void fill_by_columns(int conn)
{
	struct ibv_exp_send_wr wr = umr_wr(IBV_EXP_WR_UMR_FILL);
	struct ibv_exp_mem_repeat_block block[BLOCKS];
	size_t bytes[BLOCKS], stride[BLOCKS], rows = ROWS;

	key_bytes = 0;
	for (int i = 0; i < BLOCKS; i++) {
		bytes[i] = column[i].bytes;
		stride[i] = column[i].stride;
		block[i] = (struct ibv_exp_mem_repeat_block){
			.base_addr = (uintptr_t)mem + column[i].at,
			.mr = mr,
			.byte_count = &bytes[i],
			.stride = &stride[i],
		};
		key_bytes += ROWS * column[i].bytes;
	}
	wr.exp_send_flags = IBV_EXP_SEND_INLINE;
	wr.ext_op.umr.umr_type = IBV_EXP_UMR_REPEAT;
	wr.ext_op.umr.num_mrs = BLOCKS;
	wr.ext_op.umr.mem_list.rb.mem_repeat_block_list = block;
	wr.ext_op.umr.mem_list.rb.repeat_count = &rows;
	wr.ext_op.umr.mem_list.rb.stride_dim = 1;
	post(conn, &wr);
}

static void invalidate(int conn)
{
	struct ibv_exp_send_wr wr = umr_wr(IBV_EXP_WR_UMR_INVALIDATE);

	post(conn, &wr);
	complete(IBV_EXP_WC_UMR, IBV_WC_SUCCESS);
}

static void fill(int conn, bool columns)
{
	if (columns)
		fill_by_columns(conn);
	else
		fill_by_list(conn);
	complete(IBV_EXP_WC_UMR, IBV_WC_SUCCESS);
}

/* ---- data ---- */

/* Copies the bytes of the key, in order, to or from `flat`. */
static void copy(bool columns, uint8_t *flat, bool out)
{
	uint32_t parts = columns ? ROWS * BLOCKS : PIECES;

	for (uint32_t i = 0; i < parts; i++) {
		uint32_t c = i % BLOCKS;
		uint32_t n = columns ? column[c].bytes : PIECE;
		uint8_t *at =
			mem +
			(columns ? column[c].at + i / BLOCKS * column[c].stride
				 : (PIECES - 1 - i) * 200001);

		if (out)
			memcpy(at, flat, n);
		else
			memcpy(flat, at, n);
		flat += n;
	}
}

static uint8_t flat[SIZE];

static void write_data(bool columns, uint64_t seed)
{
	memset(mem, 0x5a, SIZE);
	vt_fill(flat, key_bytes, seed);
	copy(columns, flat, true);
}

/* It is there, and the bytes between are as they were. */
static void check_data(bool columns, uint64_t seed)
{
	static uint8_t all[SIZE];

	copy(columns, flat, false);
	VT_TRUE(vt_check(flat, key_bytes, seed));
	memcpy(all, mem, SIZE);
	write_data(columns, seed);
	VT_TRUE(memcmp(all, mem, SIZE) == 0);
}

static struct ibv_sge through_key(void)
{
	return (struct ibv_sge){ (uintptr_t)mem, key_bytes, key->lkey };
}

static void post_recv(int conn)
{
	struct ibv_sge sge = through_key();
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	must(srq ? ibv_post_srq_recv(srq, &wr, &bad)
		 : ibv_post_recv(id[conn]->qp, &wr, &bad),
	     "receive");
}

static void request(int conn, enum ibv_exp_wr_opcode op)
{
	struct ibv_sge sge = through_key();
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = op;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.wr.rdma.remote_addr = peer.addr;
	wr.wr.rdma.rkey = peer.rkey;
	post(conn, &wr);
}

static void client_round(int conn, bool columns, uint64_t seed)
{
	write_data(columns, seed);
	vt_barrier(fd); /* the receive is posted */
	request(conn, IBV_EXP_WR_SEND);
	complete(IBV_EXP_WC_SEND, IBV_WC_SUCCESS);
	vt_barrier(fd); /* the message is checked */
	write_data(columns, seed + 1);
	request(conn, IBV_EXP_WR_RDMA_WRITE);
	complete(IBV_EXP_WC_RDMA_WRITE, IBV_WC_SUCCESS);
	memset(mem, 0x5a, SIZE);
	request(conn, IBV_EXP_WR_RDMA_READ);
	complete(IBV_EXP_WC_RDMA_READ, IBV_WC_SUCCESS);
	check_data(columns, seed + 1);
	vt_barrier(fd);
}

static void server_round(int conn, bool columns, uint64_t seed)
{
	memset(mem, 0x5a, SIZE);
	post_recv(conn);
	vt_barrier(fd);
	complete(IBV_EXP_WC_RECV, IBV_WC_SUCCESS);
	check_data(columns, seed);
	memset(mem, 0x5a, SIZE);
	vt_barrier(fd);
	vt_barrier(fd);
	check_data(columns, seed + 1);
}

static void run_data(void)
{
	for (long n = 0; n < args.n; n++) {
		int conn = (int)(n / 2 % conns);
		bool columns = n % 2;

		fill(conn, columns);
		vt_barrier(fd);
		if (args.host)
			client_round(conn, columns, (uint64_t)n << 32);
		else
			server_round(conn, columns, (uint64_t)n << 32);
		invalidate(conn);
	}
}

/* The receiver's error ends the connection. */
static void run_stale(void)
{
	bool iwarp =
		id[0]->verbs->device->transport_type == IBV_TRANSPORT_IWARP;

	fill(0, false);
	if (!args.host) {
		post_recv(0);
		invalidate(0);
	}
	vt_barrier(fd);
	if (args.host)
		request(0, IBV_EXP_WR_SEND);
	if (!args.host)
		complete(IBV_EXP_WC_RECV, IBV_WC_LOC_PROT_ERR);
	else if (!iwarp) /* there a SEND completes before it arrives */
		complete(IBV_EXP_WC_SEND, IBV_WC_REM_OP_ERR);
	vt_barrier(fd);
}

static void destroy(void)
{
	vt_barrier(fd);
	for (int i = 0; i < conns; i++) {
		must(ibv_destroy_qp(id[i]->qp), "QP");
		id[i]->qp = NULL;
	}
	must(ibv_exp_dealloc_mkey_list_memory(list), "list");
	must(ibv_dereg_mr(key), "key");
	must(ibv_dereg_mr(mr), "MR");
	if (srq)
		must(ibv_destroy_srq(srq), "SRQ");
	must(ibv_destroy_cq(cq), "CQ");
	must(ibv_dealloc_pd(pd), "PD");
	for (int i = 0; i < conns; i++)
		VT_TRUE(rdma_destroy_id(id[i]) == 0);
	exp_cm_end(&cm);
	free(mem);
}

int main(int argc, char **argv)
{
	vt_args(&args, argc, argv);
	if (strstr(args.mode, "srq"))
		conns = CONNS;
	fd = vt_connect(args.host, args.port);
	connect_all();
	mine.addr = (uintptr_t)mem;
	mine.rkey = key->rkey;
	vt_swap(fd, &mine, &peer, sizeof(mine));
	if (strstr(args.mode, "stale"))
		run_stale();
	else
		run_data();
	destroy();
	printf("%s: %ld rounds\n", args.mode, args.n);
	return 0;
}
