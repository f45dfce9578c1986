/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory keys over lists of regions, between two processes, on the device on
 * which librdmacm connects. The client's key is local, the server's remote.
 *
 * umr -p PORT [-n ROUNDS] [-M MODE] [HOST]
 *  data      every operation through every layout (the default)
 *  invalid   a WRITE to a key that was invalidated
 *  dead      the same with a region in it that was deregistered
 *  dead-own  a SEND from such a key
 *  split     an atomic operation on bytes of two pieces
 *  send      SENDs from a plain region into a key of 4096 blocks
 *  ext       extended atomics, with the old value in two pieces
 *  ext-split one on bytes of two pieces
 *  large     WRITEs of 512 KiB between keys of 64 pieces, other ones each time
 *  write     bandwidth of WRITE through a key of 64 pieces, against a region
 */
#include <errno.h>
#include <infiniband/arch.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

#define HALF	 (1u << 20)
#define DEPTH	 64u
#define INLINE	 4u
#define BLOCKS	 4096u /* the most that a list may have */
#define KEY_BASE 0x10000u

#define ALL                                                                    \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE |            \
	 IBV_EXP_ACCESS_REMOTE_READ | IBV_EXP_ACCESS_REMOTE_ATOMIC)

/* One piece of memory; a layout is a sequence of them. */
struct part {
	uint32_t at;
	uint32_t bytes;
};

struct layout {
	struct part part[BLOCKS];
	uint32_t n;
	uint32_t bytes;
	uint32_t word; /* offset in the key of eight aligned bytes */
};

static struct rdma_cm_id *listener, *id;
static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct ibv_pd *pd;
static uint8_t *mem;
static struct ibv_mr *half[2]; /* two regions over the two halves of mem */
static struct ibv_mr *key, *low[2];
static struct ibv_exp_mkey_list_container *container;
static struct layout layout;
static uint8_t data[2 * HALF];
static int fd;
static bool is_client;

/* What each side sends to the other */
struct peer {
	uint64_t addr;
	uint32_t key;
	uint32_t half;
};

static struct peer peer;

/* ---- the connection ---- */

static struct rdma_conn_param conn_param(void)
{
	return (struct rdma_conn_param){ .responder_resources = 8,
					 .initiator_depth = 8,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
}

static void make_qp(void)
{
	struct ibv_exp_qp_init_attr init = {
		.cap = { DEPTH, DEPTH, 2, 2, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS |
			     IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.max_atomic_arg = 8,
		.exp_create_flags = IBV_EXP_QP_CREATE_UMR,
		.max_inl_send_klms = INLINE,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	pd = ibv_alloc_pd(id->verbs);
	cq = ibv_create_cq(id->verbs, 4 * DEPTH, NULL, NULL, 0);
	VT_TRUE(pd && cq);
	init.pd = pd;
	init.send_cq = init.recv_cq = cq;
	qp = ibv_exp_create_qp(id->verbs, &init);
	VT_TRUE(qp);
	id->qp = qp;
	VT_TRUE(rdma_init_qp_attr(id, &attr, &mask) == 0);
	VT_TRUE(ibv_modify_qp(qp, &attr, mask) == 0);
}

static struct rdma_cm_event *expect_event(struct rdma_event_channel *channel,
					  enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	VT_TRUE(rdma_get_cm_event(channel, &e) == 0);
	if (e->event != type)
		VT_FAIL("%s, status %d", rdma_event_str(e->event), e->status);
	return e;
}

static void serve(struct rdma_event_channel *channel)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_conn_param param = conn_param();
	struct rdma_cm_event *e;
	int port, none;

	VT_TRUE(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
	VT_TRUE(rdma_bind_addr(listener, (struct sockaddr *)&any) == 0);
	VT_TRUE(rdma_listen(listener, 1) == 0);
	port = ntohs(rdma_get_src_port(listener));
	vt_swap(fd, &port, &none, sizeof(port));
	e = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = e->id;
	rdma_ack_cm_event(e);
	make_qp();
	VT_TRUE(rdma_accept(id, &param) == 0);
}

static void dial(struct rdma_event_channel *channel, const char *host)
{
	struct rdma_conn_param param = conn_param();
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *ai;
	int port, none = 0;
	char text[8];

	vt_swap(fd, &none, &port, sizeof(port));
	snprintf(text, sizeof(text), "%d", port);
	VT_TRUE(rdma_getaddrinfo(host, text, &hints, &ai) == 0);
	VT_TRUE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	VT_TRUE(rdma_resolve_addr(id, NULL, ai->ai_dst_addr, 5000) == 0);
	rdma_freeaddrinfo(ai);
	rdma_ack_cm_event(expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
	VT_TRUE(rdma_resolve_route(id, 5000) == 0);
	rdma_ack_cm_event(expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
	make_qp();
	VT_TRUE(rdma_connect(id, &param) == 0);
}

static struct ibv_mr *new_key(void)
{
	struct ibv_exp_create_mr_in in = {
		.pd = pd,
		.attr = { .max_klm_list_size = BLOCKS,
			  .create_flags = IBV_EXP_MR_INDIRECT_KLMS,
			  .exp_access_flags = ALL },
	};
	struct ibv_exp_mkey_attr got = { .comp_mask = 0 };
	struct ibv_mr *mr = ibv_exp_create_mr(&in);

	VT_TRUE(mr && ibv_exp_query_mkey(mr, &got) == 0);
	VT_TRUE(got.max_klm_list_size == BLOCKS);
	return mr;
}

static void open_all(const struct vt_args *a)
{
	struct ibv_exp_mkey_list_container_attr list = {
		.mkey_list_type = IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR,
		.max_klm_list_size = BLOCKS,
	};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct peer mine;

	VT_TRUE(channel);
	fd = vt_connect(a->host, a->port);
	if (is_client)
		dial(channel, a->host);
	else
		serve(channel);
	rdma_ack_cm_event(expect_event(channel, RDMA_CM_EVENT_ESTABLISHED));
	mem = aligned_alloc(4096, 2 * HALF);
	VT_TRUE(mem);
	memset(mem, 0, 2 * HALF);
	for (int i = 0; i < 2; i++) {
		half[i] = ibv_reg_mr(pd, mem + i * HALF, HALF,
				     IBV_ACCESS_LOCAL_WRITE |
					     IBV_ACCESS_REMOTE_WRITE);
		VT_TRUE(half[i]);
		low[i] = new_key();
	}
	key = new_key();
	list.pd = pd;
	container = ibv_exp_alloc_mkey_list_memory(&list);
	VT_TRUE(container);
	mine = (struct peer){ (uintptr_t)mem, key->rkey, half[0]->rkey };
	vt_swap(fd, &mine, &peer, sizeof(mine));
}

static void close_all(void)
{
	vt_barrier(fd);
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	id->qp = NULL;
	VT_TRUE(ibv_dereg_mr(key) == 0);
	for (int i = 0; i < 2; i++) {
		VT_TRUE(ibv_dereg_mr(low[i]) == 0);
		if (half[i])
			VT_TRUE(ibv_dereg_mr(half[i]) == 0);
	}
	VT_TRUE(ibv_exp_dealloc_mkey_list_memory(container) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	VT_TRUE(ibv_dealloc_pd(pd) == 0);
	VT_TRUE(rdma_destroy_id(id) == 0);
}

/* ---- keys ---- */

static struct ibv_exp_send_wr umr(enum ibv_exp_wr_opcode op, struct ibv_mr *mr)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = 1;
	wr.exp_opcode = op;
	wr.ext_op.umr.modified_mr = mr;
	wr.ext_op.umr.exp_access = ALL;
	wr.ext_op.umr.base_addr = KEY_BASE;
	wr.ext_op.umr.memory_objects = container;
	return wr;
}

/* Unsignaled: what uses the key follows at once on the same queue. */
static void post(struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad;
	int rc = ibv_exp_post_send(qp, &wr, &bad);

	if (rc)
		VT_FAIL("opcode %d: %s", wr.exp_opcode, strerror(rc));
}

static void add(uint32_t at, uint32_t bytes)
{
	layout.part[layout.n++] = (struct part){ at, bytes };
	layout.bytes += bytes;
}

/* Pieces of both regions, in no order; the first has eight aligned bytes. */
static void list_layout(struct ibv_mr *mr)
{
	struct ibv_exp_mem_region r[64];
	struct ibv_exp_send_wr wr = umr(IBV_EXP_WR_UMR_FILL, mr);

	for (uint32_t i = 0; i < 64; i++) {
		uint32_t at = (i & 1) * HALF + (63 - i) * 8192;

		if (mr == key)
			add(at, 64 + i * 97);
		r[i] = (struct ibv_exp_mem_region){ (uintptr_t)mem + at,
						    half[i & 1], 64 + i * 97 };
	}
	wr.ext_op.umr.umr_type = IBV_EXP_UMR_MR_LIST;
	wr.ext_op.umr.num_mrs = 64;
	wr.ext_op.umr.mem_list.mem_reg_list = r;
	post(wr);
	layout.word = 8;
}

/* Columns of both regions, interleaved, in an inline list. */
static void repeat_layout(struct ibv_mr *mr)
{
	size_t bytes[2] = { 24, 40 }, stride[2] = { 64, 200 }, count = 700;
	struct ibv_exp_mem_repeat_block b[2] = {
		{ (uintptr_t)mem + 4096, half[0], &bytes[0], &stride[0] },
		{ (uintptr_t)mem + HALF, half[1], &bytes[1], &stride[1] },
	};
	struct ibv_exp_send_wr wr = umr(IBV_EXP_WR_UMR_FILL, mr);

	if (mr == key)
		for (uint32_t i = 0; i < count; i++) {
			add(4096 + i * 64, 24);
			add(HALF + i * 200, 40);
		}
	wr.exp_send_flags = IBV_EXP_SEND_INLINE;
	wr.ext_op.umr.umr_type = IBV_EXP_UMR_REPEAT;
	wr.ext_op.umr.num_mrs = 2;
	wr.ext_op.umr.mem_list.rb.mem_repeat_block_list = b;
	wr.ext_op.umr.mem_list.rb.repeat_count = &count;
	wr.ext_op.umr.mem_list.rb.stride_dim = 1;
	post(wr);
	layout.word = 24;
}

/* A key over another key, and over a key over that. */
static void nested_layout(struct ibv_mr *mr)
{
	struct ibv_exp_mem_region r[2] = {
		{ KEY_BASE + 64 * 10, low[0], 64 * 100 },
		{ (uintptr_t)mem + HALF + 200000, half[1], 5000 },
	};
	struct ibv_exp_mem_region top[1] = { { KEY_BASE, low[1],
					       6400 + 5000 } };
	struct ibv_exp_send_wr wr = umr(IBV_EXP_WR_UMR_FILL, low[1]);

	repeat_layout(low[0]);
	for (uint32_t i = 10; i < 110; i++) {
		add(4096 + i * 64, 24);
		add(HALF + i * 200, 40);
	}
	add(HALF + 200000, 5000);
	wr.exp_send_flags = IBV_EXP_SEND_INLINE;
	wr.ext_op.umr.num_mrs = 2;
	wr.ext_op.umr.mem_list.mem_reg_list = r;
	post(wr);
	wr.ext_op.umr.modified_mr = mr;
	wr.ext_op.umr.num_mrs = 1;
	wr.ext_op.umr.mem_list.mem_reg_list = top;
	post(wr);
	layout.word = 0;
}

/* Large pieces, of which a message has many packets. */
static void wide_layout(struct ibv_mr *mr)
{
	struct ibv_exp_mem_region r[3];
	struct ibv_exp_send_wr wr = umr(IBV_EXP_WR_UMR_FILL, mr);

	for (uint32_t i = 0; i < 3; i++) {
		uint32_t at = (i & 1) * HALF + i * 300000;

		add(at, 250008);
		r[i] = (struct ibv_exp_mem_region){ (uintptr_t)mem + at,
						    half[i & 1], 250008 };
	}
	wr.ext_op.umr.num_mrs = 3;
	wr.ext_op.umr.mem_list.mem_reg_list = r;
	post(wr);
	layout.word = 250008;
}

/* As many as a list may have. */
static void full_layout(struct ibv_mr *mr)
{
	static struct ibv_exp_mem_region r[BLOCKS];
	struct ibv_exp_send_wr wr = umr(IBV_EXP_WR_UMR_FILL, mr);

	for (uint32_t i = 0; i < BLOCKS; i++) {
		uint32_t at = (i & 1) * HALF + (BLOCKS - 1 - i) / 2 * 512;

		add(at, 40 + i % 8);
		r[i] = (struct ibv_exp_mem_region){ (uintptr_t)mem + at,
						    half[i & 1], 40 + i % 8 };
	}
	wr.ext_op.umr.num_mrs = BLOCKS;
	wr.ext_op.umr.mem_list.mem_reg_list = r;
	post(wr);
	layout.word = 8;
}

static void (*const layouts[])(struct ibv_mr *mr) = {
	list_layout, repeat_layout, nested_layout, wide_layout, full_layout,
};

static void scatter(uint64_t seed)
{
	uint32_t done = 0;

	vt_fill(data, layout.bytes, seed);
	memset(mem, 0xee, 2 * HALF);
	for (uint32_t i = 0; i < layout.n; i++) {
		memcpy(mem + layout.part[i].at, data + done,
		       layout.part[i].bytes);
		done += layout.part[i].bytes;
	}
}

/* The bytes are there, and only there. */
static void check(uint64_t seed)
{
	static uint8_t old[2 * HALF];
	uint32_t done = 0;

	for (uint32_t i = 0; i < layout.n; i++) {
		memcpy(data + done, mem + layout.part[i].at,
		       layout.part[i].bytes);
		done += layout.part[i].bytes;
	}
	VT_TRUE(vt_check(data, layout.bytes, seed));
	memcpy(old, mem, sizeof(old));
	scatter(seed);
	VT_TRUE(memcmp(old, mem, sizeof(old)) == 0);
}

static void clear(void)
{
	memset(mem, 0xee, 2 * HALF);
}

/* ---- operations ---- */

static struct ibv_sge whole(void)
{
	return (struct ibv_sge){ KEY_BASE, layout.bytes, key->lkey };
}

static void done(enum ibv_wc_status status)
{
	struct ibv_wc wc;

	vt_poll(cq, &wc);
	if (wc.status != status)
		VT_FAIL("%s", ibv_wc_status_str(wc.status));
}

static void rdma(enum ibv_wr_opcode op, struct ibv_sge sge, uint64_t remote)
{
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { remote, peer.key },
	};

	VT_TRUE(ibv_post_send(qp, &wr, &bad) == 0);
}

static void recv_whole(void)
{
	struct ibv_sge sge = whole();
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	VT_TRUE(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* FETCH ADD of 5 to the word of the server's key, into the client's. */
static void add_five(void)
{
	struct ibv_sge sge = { KEY_BASE + layout.word, 8, key->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { .remote_addr = KEY_BASE + layout.word,
			       .compare_add = 5,
			       .rkey = peer.key },
	};

	VT_TRUE(ibv_post_send(qp, &wr, &bad) == 0);
	done(IBV_WC_SUCCESS);
}

static uint64_t *word(void)
{
	uint32_t off = layout.word;

	for (uint32_t i = 0;; i++) {
		if (off < layout.part[i].bytes)
			return (void *)(mem + layout.part[i].at + off);
		off -= layout.part[i].bytes;
	}
}

static void client_round(uint64_t seed)
{
	vt_barrier(fd);
	scatter(seed);
	rdma(IBV_WR_SEND, whole(), 0);
	done(IBV_WC_SUCCESS);
	vt_barrier(fd);
	scatter(seed + 1);
	vt_barrier(fd);
	/* On iWARP a WRITE completes before its data is there. */
	rdma(IBV_WR_RDMA_WRITE, whole(), KEY_BASE);
	done(IBV_WC_SUCCESS);
	clear();
	rdma(IBV_WR_RDMA_READ, whole(), KEY_BASE);
	done(IBV_WC_SUCCESS);
	check(seed + 1);
	vt_barrier(fd);
	vt_barrier(fd);
	add_five();
	VT_TRUE(*word() == 1000);
	vt_barrier(fd);
}

static void server_round(uint64_t seed)
{
	struct ibv_wc wc;

	clear();
	recv_whole();
	vt_barrier(fd);
	vt_poll_ok(cq, &wc);
	VT_TRUE(wc.byte_len == layout.bytes);
	check(seed);
	vt_barrier(fd);
	clear();
	vt_barrier(fd);
	vt_barrier(fd);
	check(seed + 1);
	*word() = 1000;
	vt_barrier(fd);
	vt_barrier(fd);
	VT_TRUE(*word() == 1005);
}

/* A request of the other side is not ordered behind ours. */
static void key_is_ready(void)
{
	struct ibv_exp_send_wr nop;

	memset(&nop, 0, sizeof(nop));
	nop.exp_opcode = IBV_EXP_WR_NOP;
	nop.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	post(nop);
	done(IBV_WC_SUCCESS);
}

static void run_data(long rounds)
{
	struct ibv_exp_send_wr wr = umr(IBV_EXP_WR_UMR_INVALIDATE, key);
	struct ibv_exp_wc wc;

	for (long i = 0; i < rounds; i++) {
		layout.n = 0;
		layout.bytes = 0;
		layouts[(size_t)i % 5](key);
		if (!is_client)
			key_is_ready();
		vt_barrier(fd);
		if (is_client)
			client_round((uint64_t)i * 3);
		else
			server_round((uint64_t)i * 3);
	}
	wr.wr_id = 77;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	post(wr);
	while (!ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc)))
		;
	VT_TRUE(wc.wr_id == 77 && wc.status == IBV_WC_SUCCESS &&
		wc.exp_opcode == IBV_EXP_WC_UMR);
}

/* The receiver may fetch the data itself, in as many pieces as its list has. */
static void run_send(long n)
{
	struct ibv_wc wc;

	full_layout(key);
	if (!is_client)
		key_is_ready();
	for (long i = 0; i < n; i++) {
		struct ibv_sge plain = { (uintptr_t)mem, layout.bytes,
					 half[0]->lkey };

		if (!is_client) {
			clear();
			recv_whole();
		}
		vt_barrier(fd);
		if (is_client) {
			vt_fill(mem, layout.bytes, (uint64_t)i);
			rdma(IBV_WR_SEND, plain, 0);
			done(IBV_WC_SUCCESS);
		} else {
			vt_poll_ok(cq, &wc);
			VT_TRUE(wc.byte_len == layout.bytes);
			check((uint64_t)i);
		}
	}
}

/* ---- errors: the last request of a connection ---- */

static void fill_and_wait(void)
{
	list_layout(key);
	key_is_ready();
}

static void lose_region(void)
{
	VT_TRUE(ibv_dereg_mr(half[1]) == 0);
	half[1] = NULL;
}

/* Adds 5; the old value comes to the last four bytes of the first piece and the
 * first ones of the next. */
static void extended(uint32_t len, uint32_t at, enum ibv_wc_status status)
{
	struct ibv_sge sge = { KEY_BASE + 60, len, key->lkey };
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
	wr.exp_send_flags =
		IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	wr.ext_op.masked_atomics.log_arg_sz = len == 8 ? 3 : 2;
	wr.ext_op.masked_atomics.remote_addr = KEY_BASE + at;
	wr.ext_op.masked_atomics.rkey = peer.key;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = 5;
	post(wr);
	done(status);
}

static void old_is(uint32_t first, uint32_t second)
{
	VT_TRUE(memcmp(mem + layout.part[0].at + 60, &first, 4) == 0);
	VT_TRUE(memcmp(mem + layout.part[1].at, &second, 4) == 0);
}

static void run_extended(void)
{
	static const uint32_t was[] = { 1000, 2000 }, is[] = { 1010, 2000 };

	fill_and_wait();
	memcpy(mem + layout.part[0].at + 8, was, 8);
	vt_barrier(fd);
	if (is_client) {
		extended(8, 8, IBV_WC_SUCCESS);
		old_is(1000, 2000);
		extended(8, 8, IBV_WC_SUCCESS);
		old_is(1005, 2000);
	}
	/* On iWARP they have 8 bytes. */
	if (is_client && id->verbs->device->transport_type == IBV_TRANSPORT_IB)
		extended(4, 20, IBV_WC_SUCCESS);
	vt_barrier(fd);
	if (!is_client)
		VT_TRUE(memcmp(mem + layout.part[0].at + 8, is, 8) == 0);
}

static void run_error(const char *mode)
{
	bool own = !strcmp(mode, "dead-own");
	struct ibv_exp_send_wr wr = umr(IBV_EXP_WR_UMR_INVALIDATE, key);

	fill_and_wait();
	if (!is_client && !strcmp(mode, "invalid")) {
		wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
		post(wr);
		done(IBV_WC_SUCCESS);
	}
	if (is_client ? own : !strcmp(mode, "dead"))
		lose_region();
	vt_barrier(fd);
	if (is_client && !strcmp(mode, "split")) {
		struct ibv_sge sge = { KEY_BASE, 8, key->lkey };
		struct ibv_send_wr *bad, at = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.atomic = { .remote_addr = KEY_BASE + 64 + 160,
				       .compare_add = 5,
				       .rkey = peer.key },
		};

		VT_TRUE(ibv_post_send(qp, &at, &bad) == 0);
		done(IBV_WC_REM_ACCESS_ERR);
	} else if (is_client && !strcmp(mode, "ext-split")) {
		extended(8, 64 + 160, IBV_WC_REM_ACCESS_ERR);
	} else if (is_client && own) {
		rdma(IBV_WR_SEND, whole(), 0);
		done(IBV_WC_LOC_PROT_ERR);
	} else if (is_client) {
		rdma(IBV_WR_RDMA_READ, whole(), KEY_BASE);
		done(IBV_WC_REM_ACCESS_ERR);
	}
}

/* ---- bandwidth ---- */

static double writes(struct ibv_sge sge, uint64_t remote, uint32_t rkey, long n)
{
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { remote, rkey },
	};
	uint64_t from = vt_now_ms();
	struct ibv_wc wc;

	for (long i = 0; i < n + 16; i++) {
		if (i >= 16)
			vt_poll_ok(cq, &wc);
		if (i < n)
			VT_TRUE(ibv_post_send(qp, &wr, &bad) == 0);
	}
	return (double)sge.length * (double)n /
	       (double)(vt_now_ms() - from + 1) / 1000;
}

/* 64 pieces of 8 KiB, every other one of the region from `first` on, 0 or 1 */
static uint8_t *piece(uint32_t i, uint32_t first)
{
	return mem + (size_t)8192 * (2 * i + first);
}

static void fill_pieces(uint32_t first)
{
	struct ibv_exp_mem_region r[64];
	struct ibv_exp_send_wr wr = umr(IBV_EXP_WR_UMR_FILL, key);

	for (uint32_t i = 0; i < 64; i++)
		r[i] = (struct ibv_exp_mem_region){ (uintptr_t)piece(i, first),
						    half[0], 8192 };
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.ext_op.umr.num_mrs = 64;
	wr.ext_op.umr.mem_list.mem_reg_list = r;
	post(wr);
	done(IBV_WC_SUCCESS);
}

/* The ring carries the first ones, until the client's memory is mapped. */
static void run_large(long n)
{
	struct ibv_sge list = { KEY_BASE, HALF / 2, key->lkey };

	for (uint64_t i = 0; i < (uint64_t)n * 64; i += 64) {
		uint32_t first = (uint32_t)(i / (is_client ? 128 : 64)) % 2;

		fill_pieces(first);
		memset(mem, 0, HALF);
		for (uint32_t j = 0; is_client && j < 64; j++)
			vt_fill(piece(j, first), 8192, i + j);
		vt_barrier(fd);
		if (is_client) {
			rdma(IBV_WR_RDMA_WRITE, list, KEY_BASE);
			done(IBV_WC_SUCCESS);
		}
		vt_barrier(fd);
		for (uint32_t j = 0; !is_client && j < 64; j++)
			VT_TRUE(vt_check(piece(j, first), 8192, i + j));
	}
}

static void run_write(long n)
{
	struct ibv_sge region = { (uintptr_t)mem, HALF / 2, half[0]->lkey };
	struct ibv_sge list = { KEY_BASE, HALF / 2, key->lkey };

	fill_pieces(0);
	vt_barrier(fd);
	for (int i = 0; is_client && i < 3; i++) {
		printf("region to region %.0f MB/s\n",
		       writes(region, peer.addr, peer.half, n));
		printf("list to region %.0f MB/s\n",
		       writes(list, peer.addr, peer.half, n));
		printf("region to list %.0f MB/s\n",
		       writes(region, KEY_BASE, peer.key, n));
		printf("list to list %.0f MB/s\n",
		       writes(list, KEY_BASE, peer.key, n));
	}
}

int main(int argc, char **argv)
{
	struct vt_args a = { .n = 12, .gid_index = -1, .mode = "data" };

	vt_args(&a, argc, argv);
	is_client = a.host != NULL;
	open_all(&a);
	if (!strcmp(a.mode, "data"))
		run_data(a.n);
	else if (!strcmp(a.mode, "send"))
		run_send(5 * a.n);
	else if (!strcmp(a.mode, "large"))
		run_large(8 * a.n);
	else if (!strcmp(a.mode, "write"))
		run_write(a.n);
	else if (!strcmp(a.mode, "ext"))
		run_extended();
	else
		run_error(a.mode);
	close_all();
	printf("%s works\n", a.mode);
	return 0;
}
