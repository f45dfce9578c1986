/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits and wrong arguments of the experimental verbs on a real adapter, between
 * queue pairs of this process: each is a success or the error of the manual, and all
 * objects can be destroyed afterwards.
 *
 *	-M atomics	fields that end at every bit, addresses that are not aligned
 *	-M lists	depth, lengths, repetitions, domains, keys that are empty
 *	-M tasks	counts of waits and enablings, a bad task between good ones
 *	-M rights	regions and windows without a right that a request needs
 */
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "vt.h"

#define SIZE  65536u
#define BASE  0x10000u
#define CROSS IBV_EXP_QP_CREATE_CROSS_CHANNEL
#define SENDS IBV_EXP_QP_CREATE_MANAGED_SEND
#define RECVS IBV_EXP_QP_CREATE_MANAGED_RECV
#define ALL                                                                    \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE |            \
	 IBV_EXP_ACCESS_REMOTE_READ | IBV_EXP_ACCESS_REMOTE_ATOMIC)

static struct vt_dev dev;
static struct vt_args args = { .gid_index = -1, .timeout = 14, .retry = 7 };
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_exp_device_attr caps;
static uint32_t max_atomic;

/* ---- queue pairs ---- */

struct pair {
	struct ibv_qp *a, *b;
};

static struct ibv_qp *make_qp(uint32_t flags)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { 64, 8, 2, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG |
			     IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS,
		.pd = dev.pd,
		.exp_create_flags = flags | IBV_EXP_QP_CREATE_UMR,
		.max_atomic_arg = max_atomic,
		.max_inl_send_klms = 2,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(dev.ctx, &init);

	VT_TRUE(qp);
	return qp;
}

static struct pair make_pair(uint32_t a_flags, uint32_t b_flags)
{
	struct pair p = { make_qp(a_flags), make_qp(b_flags) };
	struct vt_addr a, b;

	vt_qp_addr(&dev, p.a, &a);
	vt_qp_addr(&dev, p.b, &b);
	vt_qp_init(p.a);
	vt_qp_init(p.b);
	vt_qp_connect(&dev, p.a, &a, &b, &args);
	vt_qp_connect(&dev, p.b, &b, &a, &args);
	return p;
}

static void end_pair(struct pair p)
{
	VT_TRUE(ibv_destroy_qp(p.a) == 0);
	VT_TRUE(ibv_destroy_qp(p.b) == 0);
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
	return wr;
}

static void post(struct ibv_qp *qp, struct ibv_exp_send_wr wr, int err)
{
	struct ibv_exp_send_wr *bad = NULL;
	int rc = ibv_exp_post_send(qp, &wr, &bad);

	if (rc != err)
		VT_FAIL("opcode %#x: %s, not %s", wr.exp_opcode, strerror(rc),
			strerror(err));
	VT_TRUE(bad == (err ? &wr : NULL));
}

static void expect(enum ibv_wc_status status)
{
	struct ibv_wc wc;

	vt_poll(cq, &wc);
	if (wc.status != status)
		VT_FAIL("%s, not %s", ibv_wc_status_str(wc.status),
			ibv_wc_status_str(status));
}

static void nothing_completes(void)
{
	struct ibv_wc wc;

	VT_TRUE(ibv_poll_cq(cq, 1, &wc) == 0);
}

/* ---- atomics ---- */

static uint32_t bit(const void *p, uint32_t i)
{
	return ((const uint8_t *)p)[i / 8] >> i % 8 & 1;
}

static void add_model(uint8_t *mem, const void *value, const void *boundary,
		      uint32_t len)
{
	uint32_t carry = 0;

	for (uint32_t i = 0; i < 8 * len; i++) {
		uint32_t v = bit(mem, i) + bit(value, i) + carry;

		mem[i / 8] = (uint8_t)((mem[i / 8] & ~(1u << i % 8)) |
				       (v & 1) << i % 8);
		carry = bit(boundary, i) ? 0 : v >> 1;
	}
}

static struct ibv_exp_send_wr masked(enum ibv_exp_wr_opcode opcode,
				     struct ibv_sge *sge, uint64_t addr)
{
	struct ibv_exp_send_wr wr = request(opcode, sge);

	wr.exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	wr.ext_op.masked_atomics.log_arg_sz =
		(uint32_t)__builtin_ctz(sge->length);
	wr.ext_op.masked_atomics.remote_addr = addr;
	wr.ext_op.masked_atomics.rkey = mr->rkey;
	return wr;
}

static void add(struct pair p, uint32_t len, uint64_t addr,
		const uint64_t *value, const uint64_t *boundary)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr + 4096, len, mr->lkey };
	struct ibv_exp_send_wr wr =
		masked(IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, &sge, addr);

	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
		(struct ibv_exp_fetch_add){
			.add_val = len > 8 ? (uintptr_t)value : value[0],
			.field_boundary =
				len > 8 ? (uintptr_t)boundary : boundary[0],
		};
	post(p.a, wr, 0);
}

/* Two fields: one ends at the bit, and its sum overflows. */
static void boundaries(struct pair p, uint32_t len)
{
	uint64_t ones[2] = { UINT64_MAX, UINT64_MAX };

	for (uint32_t i = 0; i < 8 * len; i++) {
		uint64_t boundary[2] = { 0, 0 }, want[2], old[2];

		boundary[i / 64] = 1ull << i % 64;
		memcpy(want, ones, 16);
		want[0] -= i;
		memcpy(old, want, 16);
		memcpy(mr->addr, want, 16);
		add_model((uint8_t *)want, ones, boundary, len);
		add(p, len, (uintptr_t)mr->addr, ones, boundary);
		expect(IBV_WC_SUCCESS);
		VT_TRUE(memcmp(mr->addr, want, len) == 0);
		VT_TRUE(memcmp((uint8_t *)mr->addr + 4096, old, len) == 0);
	}
}

/* Nothing is compared: it would store zeros. */
static void swap(struct pair p, uint32_t len, uint64_t addr)
{
	static const uint64_t none[2], all[2] = { UINT64_MAX, UINT64_MAX };
	struct ibv_sge sge = { (uintptr_t)mr->addr + 4096, len, mr->lkey };
	struct ibv_exp_send_wr wr =
		masked(IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP, &sge, addr);

	wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap =
		(struct ibv_exp_cmp_swap){ .swap_mask = UINT64_MAX };
	if (len > 8)
		wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap =
			(struct ibv_exp_cmp_swap){
				.compare_mask = (uintptr_t)none,
				.compare_val = (uintptr_t)none,
				.swap_val = (uintptr_t)none,
				.swap_mask = (uintptr_t)all,
			};
	post(p.a, wr, 0);
}

static void misaligned(uint32_t len)
{
	uint64_t one[2] = { 1, 0 }, none[2] = { 0, 0 };
	uint8_t was[32];

	memcpy(was, mr->addr, sizeof(was));
	for (uint32_t off = 1; off < len; off++) {
		struct pair p = make_pair(0, 0);

		add(p, len, (uintptr_t)mr->addr + off, one, none);
		expect(IBV_WC_REM_INV_REQ_ERR);
		end_pair(p);
		p = make_pair(0, 0);
		swap(p, len, (uintptr_t)mr->addr + off);
		expect(IBV_WC_REM_INV_REQ_ERR);
		end_pair(p);
	}
	VT_TRUE(memcmp(was, mr->addr, sizeof(was)) == 0);
}

/* Aligned, it does. */
static void zeroed(struct pair p, uint32_t len)
{
	static const uint64_t none[2];

	memset(mr->addr, 0xff, 32);
	swap(p, len, (uintptr_t)mr->addr + 16);
	expect(IBV_WC_SUCCESS);
	VT_TRUE(memcmp((uint8_t *)mr->addr + 16, none, len) == 0);
	VT_TRUE(((uint8_t *)mr->addr)[15] == 0xff);
	VT_TRUE(len == 16 || ((uint8_t *)mr->addr)[16 + len] == 0xff);
}

/* The last operand of a region, and the one behind it */
static void at_the_end(uint32_t len)
{
	uint64_t one[2] = { 1, 0 }, none[2] = { 0, 0 };
	uint64_t end = (uintptr_t)mr->addr + SIZE;
	struct pair p = make_pair(0, 0);

	add(p, len, end - len, one, none);
	expect(IBV_WC_SUCCESS);
	add(p, len, end, one, none);
	expect(IBV_WC_REM_ACCESS_ERR);
	end_pair(p);
}

static void run_atomics(void)
{
	struct pair p = make_pair(0, 0);

	for (uint32_t len = 4; len <= max_atomic; len *= 2) {
		boundaries(p, len);
		misaligned(len);
		zeroed(p, len);
		at_the_end(len);
	}
	end_pair(p);
}

/* ---- lists ---- */

static struct ibv_mr *make_key(struct ibv_pd *pd)
{
	struct ibv_exp_create_mr_in in = {
		.pd = pd,
		.attr = { .max_klm_list_size = 2,
			  .create_flags = IBV_EXP_MR_INDIRECT_KLMS,
			  .exp_access_flags = ALL },
	};
	struct ibv_mr *key = ibv_exp_create_mr(&in);

	VT_TRUE(key);
	return key;
}

static struct ibv_exp_send_wr fill(struct ibv_mr *key,
				   struct ibv_exp_mem_region *r)
{
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_UMR_FILL, NULL);

	wr.exp_send_flags |= IBV_EXP_SEND_INLINE;
	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.exp_access = ALL;
	wr.ext_op.umr.base_addr = BASE;
	wr.ext_op.umr.num_mrs = 1;
	wr.ext_op.umr.mem_list.mem_reg_list = r;
	return wr;
}

/* One byte is sent from the key. */
static void send_from(struct pair p, uint64_t addr, uint32_t lkey,
		      enum ibv_wc_status status)
{
	struct ibv_sge sge = { addr, 1, lkey };
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_RDMA_WRITE, &sge);

	wr.wr.rdma.remote_addr = (uintptr_t)mr->addr + SIZE - 1;
	wr.wr.rdma.rkey = mr->rkey;
	post(p.a, wr, 0);
	expect(status);
}

/* Keys over keys: as many as is reported are usable, and no more can be filled. */
static void depth(uint32_t levels)
{
	const uint32_t most = caps.umr_caps.max_umr_recursion_depth;
	struct ibv_exp_mem_region r = { (uintptr_t)mr->addr, mr, 16 };
	struct pair p = make_pair(0, 0);
	struct ibv_mr *key[40];

	for (uint32_t i = 0; i < levels; i++) {
		key[i] = make_key(dev.pd);
		post(p.a, fill(key[i], &r), 0);
		expect(i < most ? IBV_WC_SUCCESS
				: (i == most ? IBV_WC_MW_BIND_ERR
					     : IBV_WC_WR_FLUSH_ERR));
		r = (struct ibv_exp_mem_region){ BASE, key[i], 16 };
	}
	if (levels <= most)
		send_from(p, BASE + 15, key[levels - 1]->lkey, IBV_WC_SUCCESS);
	end_pair(p);
	for (uint32_t i = 0; i < levels; i++)
		VT_TRUE(ibv_dereg_mr(key[i]) == 0);
}

static struct ibv_exp_send_wr
repeat(struct ibv_mr *key, struct ibv_exp_mem_repeat_block *b, size_t *count)
{
	struct ibv_exp_send_wr wr = fill(key, NULL);

	wr.ext_op.umr.umr_type = IBV_EXP_UMR_REPEAT;
	wr.ext_op.umr.mem_list.rb.mem_repeat_block_list = b;
	wr.ext_op.umr.mem_list.rb.repeat_count = count;
	wr.ext_op.umr.mem_list.rb.stride_dim = 1;
	return wr;
}

/* Numbers of which some product or sum does not fit 64 bits, or a length is 0 */
static void repetitions_that_wrap(void)
{
	static const struct {
		uint64_t base, addr; /* 0: of the region */
		size_t bytes, stride, count;
	} rows[] = {
		{ BASE, 0, 0, 64, 4 },
		{ BASE, 0, 16, 64, 0 },
		{ BASE, 0, 16, 64, SIZE_MAX },
		{ BASE, 0, 16, SIZE_MAX, 3 },
		{ BASE, 0, 16, 1ull << 32, (1ull << 32) + 1 },
		{ BASE, 0, 1ull << 32, 0, 1ull << 32 },
		{ BASE, 0, SIZE_MAX, 0, 1 },
		{ BASE, UINT64_MAX, 16, 0, 1 },
		{ UINT64_MAX - 15, 0, 16, 16, 1 },
		{ UINT64_MAX, 0, 1, 1, 2 },
	};
	struct ibv_mr *key = make_key(dev.pd);
	struct pair p = make_pair(0, 0);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t bytes = rows[i].bytes, stride = rows[i].stride;
		size_t count = rows[i].count;
		struct ibv_exp_mem_repeat_block b = {
			rows[i].addr ? rows[i].addr : (uintptr_t)mr->addr, mr,
			&bytes, &stride
		};
		struct ibv_exp_send_wr wr = repeat(key, &b, &count);

		wr.ext_op.umr.base_addr = rows[i].base;
		post(p.a, wr, EINVAL);
	}
	nothing_completes();
	end_pair(p);
	VT_TRUE(ibv_dereg_mr(key) == 0);
}

/* 32 bits do not hold its length: 5 billion times the same two bytes. */
static void more_than_4_gib(void)
{
	size_t bytes = 2, stride = 0, count = 5000000000;
	struct ibv_exp_mem_repeat_block b = { (uintptr_t)mr->addr, mr, &bytes,
					      &stride };
	uint8_t *mem = mr->addr, *to = mem + SIZE - 1;
	struct ibv_mr *key = make_key(dev.pd);
	struct pair p = make_pair(0, 0);

	mem[0] = 17;
	mem[1] = 18;
	post(p.a, repeat(key, &b, &count), 0);
	expect(IBV_WC_SUCCESS);
	send_from(p, BASE + 1 + (1ull << 32), key->lkey, IBV_WC_SUCCESS);
	VT_TRUE(*to == 18);
	send_from(p, BASE + 9999999998, key->lkey, IBV_WC_SUCCESS);
	VT_TRUE(*to == 17);
	send_from(p, BASE + 10000000000, key->lkey, IBV_WC_LOC_PROT_ERR);
	end_pair(p);
	VT_TRUE(ibv_dereg_mr(key) == 0);
}

/* A list that can be posted but not filled; the key stays empty. */
static void no_fill(struct ibv_exp_mem_region r)
{
	struct ibv_mr *key = make_key(dev.pd);
	struct pair p = make_pair(0, 0);

	post(p.a, fill(key, &r), 0);
	expect(IBV_WC_MW_BIND_ERR);
	end_pair(p);
	p = make_pair(0, 0);
	send_from(p, BASE, key->lkey, IBV_WC_LOC_PROT_ERR);
	end_pair(p);
	VT_TRUE(ibv_dereg_mr(key) == 0);
}

static void what_cannot_be_filled(void)
{
	struct ibv_pd *other = ibv_alloc_pd(dev.ctx);
	const uint64_t from = (uintptr_t)mr->addr;
	struct ibv_mr *foreign, *readable, *empty = make_key(dev.pd);

	VT_TRUE(other);
	foreign = ibv_reg_mr(other, mr->addr, SIZE, IBV_ACCESS_LOCAL_WRITE);
	readable = ibv_reg_mr(dev.pd, mr->addr, SIZE, 0);
	VT_TRUE(foreign && readable);
	no_fill((struct ibv_exp_mem_region){ from, foreign, 16 });
	no_fill((struct ibv_exp_mem_region){ from, readable, 16 });
	no_fill((struct ibv_exp_mem_region){ from - 1, mr, 16 });
	no_fill((struct ibv_exp_mem_region){ from, mr, SIZE + 1 });
	no_fill((struct ibv_exp_mem_region){ from + SIZE, mr, 1 });
	no_fill((struct ibv_exp_mem_region){ BASE, empty, 16 });
	VT_TRUE(ibv_dereg_mr(foreign) == 0);
	VT_TRUE(ibv_dereg_mr(readable) == 0);
	VT_TRUE(ibv_dereg_mr(empty) == 0);
	VT_TRUE(ibv_dealloc_pd(other) == 0);
}

/* A key with a list over one that has been emptied, and one of another domain */
static void keys_that_are_empty(void)
{
	struct ibv_exp_mem_region r = { (uintptr_t)mr->addr, mr, 16 };
	struct ibv_mr *low = make_key(dev.pd), *top = make_key(dev.pd);
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_UMR_INVALIDATE, NULL);
	struct pair p = make_pair(0, 0);

	wr.ext_op.umr.modified_mr = low;
	post(p.a, fill(low, &r), 0);
	expect(IBV_WC_SUCCESS);
	r = (struct ibv_exp_mem_region){ BASE, low, 16 };
	post(p.a, fill(top, &r), 0);
	expect(IBV_WC_SUCCESS);
	send_from(p, BASE, top->lkey, IBV_WC_SUCCESS);
	post(p.a, wr, 0);
	expect(IBV_WC_SUCCESS);
	post(p.a, wr, 0); /* it is empty already */
	expect(IBV_WC_SUCCESS);
	send_from(p, BASE, top->lkey, IBV_WC_LOC_PROT_ERR);
	end_pair(p);
	VT_TRUE(ibv_dereg_mr(top) == 0);
	VT_TRUE(ibv_dereg_mr(low) == 0);
}

static void foreign_keys(void)
{
	struct ibv_pd *other = ibv_alloc_pd(dev.ctx);
	struct ibv_exp_mem_region r = { (uintptr_t)mr->addr, mr, 16 };
	struct ibv_exp_send_wr wr;
	struct ibv_mr *key;

	VT_TRUE(other);
	key = make_key(other);
	for (int i = 0; i < 2; i++) {
		struct pair p = make_pair(0, 0);

		wr = fill(key, &r);
		if (i)
			wr.exp_opcode = IBV_EXP_WR_UMR_INVALIDATE;
		if (i)
			wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
		post(p.a, wr, 0);
		expect(IBV_WC_MW_BIND_ERR);
		end_pair(p);
	}
	VT_TRUE(ibv_dereg_mr(key) == 0);
	VT_TRUE(ibv_dealloc_pd(other) == 0);
}

static void run_lists(void)
{
	const uint32_t most = caps.umr_caps.max_umr_recursion_depth;

	depth(1);
	depth(most);
	depth(most + 1);
	depth(33);
	repetitions_that_wrap();
	more_than_4_gib();
	what_cannot_be_filled();
	keys_that_are_empty();
	foreign_keys();
}

/* ---- tasks ---- */

static struct ibv_exp_send_wr wait_for(struct ibv_cq *which, int32_t count)
{
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_CQE_WAIT, NULL);

	wr.exp_send_flags |= IBV_EXP_SEND_WAIT_EN_LAST;
	wr.task.cqe_wait.cq = which;
	wr.task.cqe_wait.cq_count = count;
	return wr;
}

static struct ibv_exp_send_wr enable(enum ibv_exp_wr_opcode opcode,
				     struct ibv_qp *qp, int32_t count)
{
	struct ibv_exp_send_wr wr = request(opcode, NULL);

	wr.exp_send_flags |= IBV_EXP_SEND_WAIT_EN_LAST;
	wr.task.wqe_enable.qp = qp;
	wr.task.wqe_enable.wqe_count = count;
	return wr;
}

static void post_receives(struct ibv_qp *qp, int n)
{
	struct ibv_recv_wr wr = { .num_sge = 0 }, *bad;

	while (n--)
		VT_TRUE(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* More than are posted, less than none, and for queues that nothing manages */
static void enablings(enum ibv_exp_wr_opcode opcode)
{
	static const int32_t wrong[] = { 3,  4,	 1 << 20,  INT32_MAX,
					 -1, -2, INT32_MIN };
	const bool sends = opcode == IBV_EXP_WR_SEND_ENABLE;
	struct pair p = make_pair(CROSS, 0);
	struct pair q = make_pair(sends ? SENDS : 0, sends ? 0 : RECVS);
	struct ibv_qp *of = sends ? q.a : q.b;

	for (int i = 0; i < 2; i++)
		post(q.a, request(IBV_EXP_WR_SEND, NULL), 0);
	post_receives(q.b, 2);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		post(p.a, enable(opcode, of, wrong[i]), EINVAL);
	post(p.a, enable(opcode, sends ? q.b : q.a, 1), EINVAL);
	post(p.a, enable(opcode, p.a, 1), EINVAL);
	post(p.b, enable(opcode, of, 1), EINVAL); /* takes no tasks */
	nothing_completes();
	post(p.a, enable(opcode, of, 2), 0);
	for (int i = 0; i < 5; i++) /* two SENDs, two receives, this one */
		expect(IBV_WC_SUCCESS);
	post(p.a, enable(opcode, of, 1), EINVAL);
	end_pair(q);
	end_pair(p);
}

/* As many completions as a queue can hold, and more than it ever has */
static void waits(void)
{
	struct ibv_exp_cq_attr attr = {
		.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
		.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN,
	};
	struct pair p = make_pair(CROSS, 0), q;
	struct ibv_cq *all = cq, *few;

	few = ibv_create_cq(dev.ctx, 2, NULL, NULL, 0);
	VT_TRUE(few &&
		ibv_exp_modify_cq(few, &attr, IBV_EXP_CQ_CAP_FLAGS) == 0);
	post(p.a, wait_for(few, -1), EINVAL);
	post(p.a, wait_for(few, INT32_MIN), EINVAL);
	post(p.a, wait_for(NULL, 1), EINVAL);
	post(p.a, wait_for(few, 0), 0);
	expect(IBV_WC_SUCCESS);
	post(p.a, wait_for(few, 20), 0);
	/* 20 completions that are not polled */
	cq = few;
	q = make_pair(0, 0);
	cq = all;
	for (int i = 0; i < 20; i++)
		post(q.a, request(IBV_EXP_WR_NOP, NULL), 0);
	expect(IBV_WC_SUCCESS);
	post(p.a, wait_for(few, INT32_MAX), 0);
	post(p.a, wait_for(few, INT32_MAX), 0);
	end_pair(q);
	VT_TRUE(ibv_destroy_cq(few) == EBUSY);
	nothing_completes();
	end_pair(p);
	VT_TRUE(ibv_destroy_cq(few) == 0);
}

/* Of three tasks the one in the middle is bad: none is posted, and the counts are
 * those of before. */
static void bad_task(struct ibv_exp_send_wr *bad_wr, int err)
{
	struct pair p = make_pair(CROSS, 0), q = make_pair(CROSS | SENDS, 0);
	struct ibv_exp_send_wr send = request(IBV_EXP_WR_SEND, NULL);
	struct ibv_exp_send_wr go = enable(IBV_EXP_WR_SEND_ENABLE, q.a, 1);
	struct ibv_exp_task t[3], *bad = NULL;

	memset(t, 0, sizeof(t));
	t[0].item.qp = q.a;
	t[0].item.send_wr = &send;
	t[1].item.qp = p.a;
	t[1].item.send_wr = bad_wr;
	t[2].item.qp = p.a;
	t[2].item.send_wr = &go;
	t[0].next = &t[1];
	t[1].next = &t[2];
	post_receives(q.b, 1);
	for (int i = 0; i < 100; i++) {
		VT_TRUE(ibv_exp_post_task(dev.ctx, t, &bad) == err);
		VT_TRUE(bad == &t[0]);
	}
	nothing_completes();
	post(p.a, enable(IBV_EXP_WR_SEND_ENABLE, q.a, 1), EINVAL);
	t[0].next = &t[2];
	VT_TRUE(ibv_exp_post_task(dev.ctx, t, &bad) == 0);
	for (int i = 0; i < 3; i++)
		expect(IBV_WC_SUCCESS);
	end_pair(q);
	end_pair(p);
}

static void bad_tasks(void)
{
	struct ibv_mr *key = make_key(dev.pd);
	struct ibv_exp_mem_region r = { (uintptr_t)mr->addr, mr, 0 };
	struct ibv_sge sge = { (uintptr_t)mr->addr, 8, mr->lkey };
	struct ibv_exp_send_wr wait = wait_for(cq, -1), list = fill(key, &r);
	struct ibv_exp_send_wr calc = request(IBV_EXP_WR_SEND, &sge);
	struct ibv_exp_send_wr flag = request(IBV_EXP_WR_SEND, NULL);

	calc.exp_send_flags |= IBV_EXP_SEND_WITH_CALC; /* of half an operand */
	flag.exp_send_flags |= 1ull << 60;
	bad_task(&wait, EINVAL);
	bad_task(&list, EINVAL);
	bad_task(&calc, EINVAL);
	bad_task(&flag, EINVAL);
	VT_TRUE(ibv_dereg_mr(key) == 0);
}

static void run_tasks(void)
{
	enablings(IBV_EXP_WR_SEND_ENABLE);
	enablings(IBV_EXP_WR_RECV_ENABLE);
	waits();
	bad_tasks();
}

/* ---- rights ---- */

static struct ibv_mr *region(uint64_t access)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = dev.pd,
		.addr = mr->addr,
		.length = SIZE,
		.exp_access = access,
	};
	struct ibv_mr *new = ibv_exp_reg_mr(&in);

	VT_TRUE(new);
	return new;
}

/* A request on memory of the region `local` and of the region `remote` */
static void access_as(enum ibv_exp_wr_opcode opcode, struct ibv_mr *local,
		      struct ibv_mr *remote, enum ibv_wc_status status)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 8, local->lkey };
	struct ibv_exp_send_wr wr = request(opcode, &sge);
	struct pair p = make_pair(0, 0);

	if (opcode == IBV_EXP_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)mr->addr + 64;
		wr.wr.atomic.rkey = remote->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)mr->addr + 64;
		wr.wr.rdma.rkey = remote->rkey;
	}
	post(p.a, wr, 0);
	expect(status);
	end_pair(p);
}

static void bind_to(struct ibv_mr *to, uint64_t access,
		    enum ibv_wc_status status)
{
	struct ibv_mw *mw = ibv_alloc_mw(dev.pd, IBV_MW_TYPE_2);
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_BIND_MW, NULL);
	struct pair p = make_pair(0, 0);

	VT_TRUE(mw);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info =
		(struct ibv_exp_mw_bind_info){ to, (uintptr_t)mr->addr, 64,
					       access };
	post(p.a, wr, 0);
	expect(status);
	end_pair(p);
	VT_TRUE(ibv_dealloc_mw(mw) == 0);
}

static void run_rights(void)
{
	static const struct {
		enum ibv_exp_wr_opcode opcode;
		uint64_t remote;
	} rows[] = {
		{ IBV_EXP_WR_RDMA_WRITE, IBV_EXP_ACCESS_REMOTE_WRITE },
		{ IBV_EXP_WR_RDMA_READ, IBV_EXP_ACCESS_REMOTE_READ },
		{ IBV_EXP_WR_ATOMIC_FETCH_AND_ADD,
		  IBV_EXP_ACCESS_REMOTE_ATOMIC },
	};
	struct ibv_mr *all = region(ALL | IBV_EXP_ACCESS_MW_BIND), *none;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		none = region(ALL & ~rows[i].remote);
		access_as(rows[i].opcode, all, all, IBV_WC_SUCCESS);
		access_as(rows[i].opcode, all, none, IBV_WC_REM_ACCESS_ERR);
		VT_TRUE(ibv_dereg_mr(none) == 0);
	}
	none = region(0); /* without LOCAL_WRITE */
	access_as(IBV_EXP_WR_RDMA_READ, none, all, IBV_WC_LOC_PROT_ERR);
	access_as(IBV_EXP_WR_RDMA_WRITE, none, all, IBV_WC_SUCCESS);
	bind_to(none, IBV_EXP_ACCESS_REMOTE_READ, IBV_WC_MW_BIND_ERR);
	bind_to(all, IBV_EXP_ACCESS_REMOTE_READ, IBV_WC_SUCCESS);
	VT_TRUE(ibv_dereg_mr(none) == 0);
	none = region(IBV_EXP_ACCESS_MW_BIND);
	bind_to(none, IBV_EXP_ACCESS_REMOTE_READ, IBV_WC_SUCCESS);
	bind_to(none, IBV_EXP_ACCESS_REMOTE_WRITE, IBV_WC_MW_BIND_ERR);
	VT_TRUE(ibv_dereg_mr(none) == 0);
	VT_TRUE(ibv_dereg_mr(all) == 0);
}

static void query(void)
{
	memset(&caps, 0, sizeof(caps));
	caps.comp_mask =
		IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS | IBV_EXP_DEVICE_ATTR_UMR;
	VT_TRUE(ibv_exp_query_device(dev.ctx, &caps) == 0);
	for (uint32_t len = 4; caps.ext_atom.log_atomic_arg_sizes & len;
	     len *= 2)
		max_atomic = len;
}

int main(int argc, char **argv)
{
	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	query();
	cq = ibv_create_cq(dev.ctx, 256, NULL, NULL, 0);
	VT_TRUE(cq);
	mr = vt_mr(&dev, SIZE);
	if (!args.mode)
		VT_FAIL("-M is missing");
	if (!strcmp(args.mode, "atomics"))
		run_atomics();
	else if (!strcmp(args.mode, "lists"))
		run_lists();
	else if (!strcmp(args.mode, "tasks"))
		run_tasks();
	else if (!strcmp(args.mode, "rights"))
		run_rights();
	else
		VT_FAIL("%s", args.mode);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	vt_dev_close(&dev);
	printf("%s work\n", args.mode);
	return 0;
}
