/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended atomics on memory of the other side, by either device, on connections
 * of librdmacm: -n random ones of every size, compared with a model bit by bit.
 * With -M key, -M align: one that the server's adapter refuses.
 *
 * With -M whole, others: the client READs and WRITEs operands of 16 bytes which the
 * server's processor changes all the time.  Each is a number and its complement, and
 * both sides find no other value.  -M whole: extended atomics beside, if the device
 * has such; others: the client's queue pair has none.
 */
#include <infiniband/arch.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vt.h"

#define CAS   IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP
#define ADD   IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD
#define WORDS 16u
#define DEPTH 8u
#define PAIRS 512u /* -M whole: operands, the server's whole memory */
#define BYTES (PAIRS * 16)

struct side {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	bool private;
	struct ibv_qp *marker; /* need_whole() */
	uint64_t sizes;	       /* bits with the value of their bytes */
	uint64_t *mem;
};

/* What the server tells the client. */
struct target {
	uint64_t addr;
	uint32_t rkey;
	uint32_t port;
};

struct operands {
	uint64_t value[2], compare[2], mask[2], compare_mask[2];
};

/*
 * Operands of 16 bytes are moved whole once the process has a queue pair for such
 * atomics.  iWARP has none, so it has one of another device.
 */
static void need_whole(struct side *s)
{
	struct ibv_exp_qp_init_attr init = {
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.max_atomic_arg = 16,
	};
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	VT_TRUE(list != NULL);
	for (int i = 0; i < n && !s->marker; i++) {
		struct ibv_context *ctx = ibv_open_device(list[i]);

		VT_TRUE(ctx != NULL);
		init.pd = ibv_alloc_pd(ctx);
		init.send_cq = init.recv_cq =
			ibv_create_cq(ctx, 2, NULL, NULL, 0);
		s->marker = ibv_exp_create_qp(ctx, &init);
	}
	ibv_free_device_list(list);
	if (!s->marker)
		vt_skip("no device has atomics of 16 bytes");
}

/* A file, which another process of the host can map; -F: private memory. */
static uint64_t *memory(bool private)
{
	int fd = private ? -1 : memfd_create("operands", MFD_CLOEXEC);
	int flags = private ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *mem;

	VT_TRUE(private || (fd >= 0 && ftruncate(fd, 2 * BYTES) == 0));
	mem = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
	VT_TRUE(mem != MAP_FAILED);
	return mem; /* the descriptor stays, for urnic to find */
}

static void resources(struct side *s, bool extended)
{
	struct ibv_exp_device_attr dev = {
		.comp_mask = IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS |
			     IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS,
	};
	struct ibv_exp_qp_init_attr init = {
		.cap = { 2 * DEPTH, 2, 2, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	VT_TRUE(ibv_exp_query_device(s->id->verbs, &dev) == 0);
	VT_TRUE(dev.exp_device_cap_flags & IBV_EXP_DEVICE_EXT_ATOMICS);
	s->sizes = dev.ext_atom.log_atomic_arg_sizes;
	VT_TRUE(s->sizes & 8);
	s->pd = ibv_alloc_pd(s->id->verbs);
	s->cq = ibv_create_cq(s->id->verbs, 64, NULL, NULL, 0);
	VT_TRUE(s->pd && s->cq);
	init.pd = s->pd;
	init.send_cq = init.recv_cq = s->cq;
	for (uint32_t len = 4; len <= 64; len *= 2)
		if ((s->sizes & len) && extended)
			init.max_atomic_arg = len;
	s->qp = ibv_exp_create_qp(s->id->verbs, &init);
	VT_TRUE(s->qp);
	s->id->qp = s->qp;
	VT_TRUE(rdma_init_qp_attr(s->id, &attr, &mask) == 0);
	attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
	VT_TRUE(ibv_modify_qp(s->qp, &attr, mask) == 0);
	s->mem = memory(s->private);
	s->mr = ibv_reg_mr(s->pd, s->mem, 2 * BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_ATOMIC);
	VT_TRUE(s->mr);
}

/* --- the server of -M whole --- */

__extension__ typedef unsigned __int128 pair16;

struct changer {
	pthread_t thread;
	_Atomic bool end;
	uint64_t *mem;
};

static bool is_whole(const uint64_t p[2])
{
	return p[0] == ~p[1];
}

/* The former value.  clang has no builtin without an option for all of the file. */
/* NOLINTNEXTLINE(readability-non-const-parameter): written by assembly */
static pair16 swap16(pair16 *at, pair16 seen, pair16 to)
{
#if defined(__x86_64__)
	uint64_t low = (uint64_t)seen, high = (uint64_t)(seen >> 64);

	__asm__ volatile("lock cmpxchg16b %2"
			 : "+a"(low), "+d"(high), "+m"(*at)
			 : "b"((uint64_t)to), "c"((uint64_t)(to >> 64))
			 : "memory", "cc");
	return (pair16)high << 64 | low;
#else
	return __sync_val_compare_and_swap(at, seen, to);
#endif
}

/* The first operand every second time: the client's short messages have it. */
static void *change(void *arg)
{
	struct changer *c = arg;
	uint64_t last[PAIRS][2], n = 0;

	memcpy(last, c->mem, sizeof(last));
	while (!c->end) {
		uint32_t i = ++n & 1 ? 0 : (n >> 1) % PAIRS;
		const uint64_t next[2] = { n, ~n };
		pair16 seen, to, was;

		memcpy(&seen, last[i], 16);
		memcpy(&to, next, 16);
		was = swap16((pair16 *)(void *)(c->mem + 2 * i), seen, to);
		memcpy(last[i], was == seen ? next : (uint64_t *)(void *)&was,
		       16);
		if (!is_whole(last[i]))
			VT_FAIL("operand %u is %lx, %lx", i, last[i][0],
				last[i][1]);
	}
	return NULL;
}

static struct changer *changer_start(struct side *s)
{
	struct changer *c = calloc(1, sizeof(*c));

	VT_TRUE(c);
	for (uint32_t i = 0; i < PAIRS; i++)
		s->mem[2 * i + 1] = ~s->mem[2 * i];
	c->mem = s->mem;
	VT_TRUE(pthread_create(&c->thread, NULL, change, c) == 0);
	return c;
}

static void changer_stop(struct changer *c)
{
	c->end = true;
	pthread_join(c->thread, NULL);
	free(c);
}

static struct rdma_conn_param param(void)
{
	return (struct rdma_conn_param){ .responder_resources = DEPTH,
					 .initiator_depth = DEPTH,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
}

static void serve(struct side *s, int fd, bool whole)
{
	struct changer *run = NULL;
	struct rdma_conn_param p = param();
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct target mine = { 0 }, none;
	struct rdma_cm_id *listener;

	VT_TRUE(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP) == 0);
	VT_TRUE(rdma_bind_addr(listener, (struct sockaddr *)&any) == 0);
	VT_TRUE(rdma_listen(listener, 1) == 0);
	mine.port = ntohs(rdma_get_src_port(listener));
	vt_swap(fd, &mine, &none, sizeof(mine));
	VT_TRUE(rdma_get_request(listener, &s->id) == 0);
	resources(s, true);
	if (whole) {
		need_whole(s);
		run = changer_start(s);
	}
	VT_TRUE(rdma_accept(s->id, &p) == 0);
	mine.addr = (uintptr_t)s->mem;
	mine.rkey = s->mr->rkey;
	vt_swap(fd, &mine, &none, sizeof(mine));
	vt_barrier(fd);
	if (whole)
		changer_stop(run);
	rdma_destroy_id(listener);
}

static struct target reach(struct side *s, const char *host, int fd,
			   bool extended)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *res;
	struct rdma_conn_param p = param();
	struct target none = { 0 }, theirs;
	char port[16];

	vt_swap(fd, &none, &theirs, sizeof(none));
	snprintf(port, sizeof(port), "%u", theirs.port);
	VT_TRUE(rdma_getaddrinfo(host, port, &hints, &res) == 0);
	VT_TRUE(rdma_create_ep(&s->id, res, NULL, NULL) == 0);
	rdma_freeaddrinfo(res);
	resources(s, extended);
	VT_TRUE(rdma_connect(s->id, &p) == 0);
	vt_swap(fd, &none, &theirs, sizeof(none));
	return theirs;
}

/* Up to 8 bytes in the request, else behind pointers. */
static uint64_t field(const uint64_t *words, uint32_t len)
{
	return len > 8 ? (uintptr_t)words : words[0];
}

static void post(struct side *s, const struct target *t, uint64_t id, bool cas,
		 uint32_t len, uint32_t off, const struct operands *o)
{
	/* In two pieces */
	struct ibv_sge sge[2] = {
		{ (uintptr_t)s->mem + 16 * id, 3, s->mr->lkey },
		{ (uintptr_t)s->mem + 16 * id + 3, len - 3, s->mr->lkey },
	};
	struct ibv_exp_send_wr wr = { .wr_id = id,
				      .sg_list = sge,
				      .num_sge = 2,
				      .exp_opcode = cas ? CAS : ADD,
				      .exp_send_flags =
					      IBV_EXP_SEND_SIGNALED |
					      IBV_EXP_SEND_EXT_ATOMIC_INLINE },
			       *bad;

	wr.ext_op.masked_atomics.log_arg_sz = (uint32_t)__builtin_ctz(len);
	wr.ext_op.masked_atomics.remote_addr = t->addr + off;
	wr.ext_op.masked_atomics.rkey = t->rkey;
	if (cas)
		wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap =
			(struct ibv_exp_cmp_swap){
				.compare_mask = field(o->compare_mask, len),
				.compare_val = field(o->compare, len),
				.swap_val = field(o->value, len),
				.swap_mask = field(o->mask, len)
			};
	else
		wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
			(struct ibv_exp_fetch_add){
				.add_val = field(o->value, len),
				.field_boundary = field(o->mask, len)
			};
	VT_TRUE(ibv_exp_post_send(s->qp, &wr, &bad) == 0);
}

static uint32_t bit(const uint8_t *p, uint32_t i)
{
	return p[i / 8] >> i % 8 & 1;
}

static void model(uint8_t *mem, bool cas, uint32_t len,
		  const struct operands *o)
{
	const uint8_t *value = (const uint8_t *)o->value;
	const uint8_t *mask = (const uint8_t *)o->mask;
	uint32_t carry = 0;
	uint8_t to[16];

	memcpy(to, mem, len);
	for (uint32_t i = 0; cas && i < 8 * len; i++)
		if (bit((const uint8_t *)o->compare_mask, i) &&
		    bit(mem, i) != bit((const uint8_t *)o->compare, i))
			return;
	for (uint32_t i = 0; i < 8 * len; i++) {
		uint32_t v = bit(value, i);

		if (!cas) {
			v += bit(mem, i) + carry;
			carry = bit(mask, i) ? 0 : v >> 1;
		} else if (!bit(mask, i)) {
			continue;
		}
		to[i / 8] = (uint8_t)((to[i / 8] & ~(1u << i % 8)) |
				      (v & 1) << i % 8);
	}
	memcpy(mem, to, len);
}

static uint64_t any(void)
{
	return (uint64_t)random() << 42 ^ (uint64_t)random() << 21 ^
	       (uint64_t)random();
}

static uint32_t any_size(const struct side *s)
{
	uint32_t len;

	do
		len = 4u << random() % 5;
	while (!(s->sizes & len));
	return len;
}

static struct ibv_exp_wc poll_one(struct side *s)
{
	uint64_t end = vt_now_ms() + 30000;
	struct ibv_exp_wc wc;
	int got;

	do
		got = ibv_exp_poll_cq(s->cq, 1, &wc, sizeof(wc));
	while (!got && vt_now_ms() < end);
	VT_TRUE(got == 1);
	return wc;
}

/* A batch, as many as may be outstanding; the old values of all are compared. */
static void batch(struct side *s, const struct target *t, uint8_t *mem)
{
	uint8_t want[DEPTH][16] = { 0 };
	uint32_t len[DEPTH];
	bool cas[DEPTH];

	for (uint32_t i = 0; i < DEPTH; i++) {
		uint32_t off;
		struct operands o;

		cas[i] = random() & 1;
		len[i] = any_size(s);
		off = (uint32_t)random() % (8 * WORDS) & ~(len[i] - 1);
		for (uint32_t k = 0; k < 2; k++) {
			o.value[k] = any();
			o.mask[k] = any();
			o.mask[k] &= any();
			o.compare[k] = any();
			o.compare_mask[k] = any();
		}
		if (random() & 1)
			memcpy(o.compare, mem + off, len[i]);
		memcpy(want[i], mem + off, len[i]);
		model(mem + off, cas[i], len[i], &o);
		post(s, t, i, cas[i], len[i], off, &o);
		memset(&o, 0x5a, sizeof(o)); /* it was read while posting */
	}
	for (uint32_t i = 0; i < DEPTH; i++) {
		struct ibv_exp_wc wc = poll_one(s);

		if (wc.status || wc.wr_id != i || wc.byte_len != len[i] ||
		    wc.exp_opcode != (cas[i] ? IBV_EXP_WC_MASKED_COMP_SWAP
					     : IBV_EXP_WC_MASKED_FETCH_ADD))
			VT_FAIL("%u: status %d of %lu, opcode %d", i, wc.status,
				wc.wr_id, wc.exp_opcode);
		if (memcmp(s->mem + 2 * i, want[i], len[i]) != 0)
			VT_FAIL("%u: wrong old value of %u bytes", i, len[i]);
	}
}

/* --- the client of -M whole --- */

/* Pairs beyond BYTES are what is written, those before it what was read. */
static void post_plain(struct side *s, const struct target *t, bool read,
		       uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)s->mem + (read ? 0 : BYTES), len,
			       s->mr->lkey };
	struct ibv_exp_send_wr wr = { .sg_list = &sge,
				      .num_sge = 1,
				      .exp_opcode =
					      read ? IBV_EXP_WR_RDMA_READ
						   : IBV_EXP_WR_RDMA_WRITE,
				      .exp_send_flags = IBV_EXP_SEND_SIGNALED },
			       *bad;

	wr.wr.rdma.remote_addr = t->addr;
	wr.wr.rdma.rkey = t->rkey;
	VT_TRUE(ibv_exp_post_send(s->qp, &wr, &bad) == 0);
}

static void post_swap(struct side *s, const struct target *t, uint64_t n)
{
	const struct operands o = { .value = { n, ~n }, .mask = { -1, -1 } };

	post(s, t, 0, true, 16, 0, &o);
}

static void expect_whole(struct side *s, const char *by, uint32_t len)
{
	struct ibv_exp_wc wc = poll_one(s);

	if (wc.status)
		VT_FAIL("%s: status %d", by, wc.status);
	for (uint32_t i = 0; i < len / 16; i++)
		if (!is_whole(s->mem + 2 * i))
			VT_FAIL("%s of %u: operand %u is %lx, %lx", by, len, i,
				s->mem[2 * i], s->mem[2 * i + 1]);
}

static void whole_round(struct side *s, const struct target *t, uint64_t n,
			bool swaps)
{
	static const uint32_t lens[] = { 16, 16, 16, 64, BYTES };
	uint64_t *out = s->mem + BYTES / 8;

	for (uint32_t i = 0; i < PAIRS; i++) {
		out[2 * i] = n * PAIRS + i;
		out[2 * i + 1] = ~out[2 * i];
	}
	for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		post_plain(s, t, true, lens[i]);
		expect_whole(s, "READ", lens[i]);
		post_plain(s, t, false, lens[i]);
		expect_whole(s, "WRITE", 0);
		if (!swaps)
			continue;
		post_swap(s, t, n);
		expect_whole(s, "swap", 16);
	}
}

/* A request that the server refuses: the status, and the end of the connection. */
static void refused(struct side *s, struct target t, const char *mode)
{
	bool key = !strcmp(mode, "key");
	static const struct operands o;
	int status;

	t.rkey ^= key ? 0x100 : 0;
	post(s, &t, 0, false, 8, key ? 0 : 4, &o);
	status = poll_one(s).status;
	/* RFC 7306 has a TERMINATE code for either. */
	VT_TRUE(status ==
		(key ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR));
}

static void close_side(struct side *s)
{
	rdma_disconnect(s->id);
	VT_TRUE(ibv_destroy_qp(s->qp) == 0);
	s->id->qp = NULL;
	VT_TRUE(ibv_dereg_mr(s->mr) == 0);
	VT_TRUE(ibv_destroy_cq(s->cq) == 0);
	VT_TRUE(ibv_dealloc_pd(s->pd) == 0);
	rdma_destroy_id(s->id);
	munmap(s->mem, (size_t)2 * BYTES);
}

int main(int argc, char **argv)
{
	struct vt_args args = { .port = 18604, .gid_index = -1, .n = 200 };
	struct side s = { 0 };
	uint64_t mem[WORDS] = { 0 }, theirs[WORDS];
	bool whole, others;
	struct target t;
	int fd;

	vt_args(&args, argc, argv);
	srandom(23);
	s.private = args.full;
	others = args.mode && !strcmp(args.mode, "others");
	whole = others || (args.mode && !strcmp(args.mode, "whole"));
	fd = vt_connect(args.host, args.port);
	if (!args.host) {
		serve(&s, fd, whole);
	} else {
		t = reach(&s, args.host, fd, !others);
		for (long i = 0; i < args.n && !args.mode; i++)
			batch(&s, &t, (uint8_t *)mem);
		for (long i = 0; i < args.n && whole; i++)
			whole_round(&s, &t, (uint64_t)i,
				    !others && (s.sizes & 16));
		if (args.mode && !whole)
			refused(&s, t, args.mode);
		vt_barrier(fd);
	}
	/* The memory itself, as its owner sees it. */
	vt_swap(fd, args.host ? mem : s.mem, theirs, sizeof(mem));
	if (args.host && !whole)
		VT_TRUE(memcmp(mem, theirs, sizeof(mem)) == 0);
	close_side(&s);
	close(fd);
	printf("extended atomics work\n");
	return 0;
}
