/* SPDX-License-Identifier: BSD-2-Clause */
/* Indirect memory keys: lists and repeats of blocks of other regions. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/mw.h"
#include "core/qp.h"
#include "core/sge.h"
#include "core/umr.h"

#define LEN  4096u
#define BASE 0x10000u /* of the keys */
#define RW                                                                     \
	(UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE | UR_ACCESS_REMOTE_READ)
#define ALL (RW | UR_ACCESS_REMOTE_ATOMIC)

struct fixture {
	struct ur_mr_table t;
	struct ur_pd pd, other;
	struct ur_qp qp;
	struct ur_mr *mr;
	_Alignas(64) uint8_t buf[LEN];
};

static int setup(void **state)
{
	struct fixture *f = aligned_alloc(64, sizeof(*f));

	memset(f, 0, sizeof(*f));
	assert_int_equal(ur_mr_table_init(&f->t), 0);
	assert_int_equal(ur_mr_create(&f->t, &f->pd, f->buf, LEN,
				      (uintptr_t)f->buf, ALL, &f->mr),
			 0);
	f->qp.pd = &f->pd;
	f->qp.mrs = &f->t;
	assert_int_equal(ur_sq_init(&f->qp.sq, 4, 1, 0, 0), 0);
	assert_int_equal(ur_umr_enable(&f->qp), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ur_umr_disable(&f->qp);
	ur_sq_fini(&f->qp.sq);
	ur_mr_table_fini(&f->t);
	free(f);
	return 0;
}

static struct ur_mr *new_key(struct fixture *f)
{
	struct ur_mr *mr;

	assert_int_equal(ur_umr_create(&f->t, &f->pd, UR_UMR_BLOCKS, &mr), 0);
	return mr;
}

/* A list of n blocks, to be completed by the caller. */
static struct ur_umr_list *list_for(const struct ur_mr *key, uint32_t n,
				    uint64_t repeats)
{
	struct ur_umr_list *list = ur_umr_list_new(n);

	assert_non_null(list);
	list->key = key->key;
	list->iova = BASE;
	list->access = ALL;
	list->repeats = repeats;
	return list;
}

static void block(struct ur_umr_list *list, uint32_t i, const struct ur_mr *mr,
		  uint64_t va, uint64_t bytes, uint64_t stride)
{
	list->block[i] = (struct ur_umr_block){
		.va = va, .bytes = bytes, .stride = stride, .lkey = mr->key
	};
}

static struct ur_swqe *stage(struct fixture *f, uint8_t opcode, uint32_t key)
{
	struct ur_swqe *w = ur_sq_stage(&f->qp.sq);

	assert_non_null(w);
	w->opcode = opcode;
	w->imm_be = key;
	ur_sq_commit(&f->qp.sq);
	return w;
}

/* Posted, executed and completed. */
static int fill(struct fixture *f, struct ur_umr_list *list)
{
	struct ur_swqe *w = stage(f, UR_WR_UMR_FILL, 0);
	int ret;

	assert_int_equal(ur_umr_list_check(list), 0);
	free(ur_umr_post(&f->qp, w, list));
	ret = ur_mw_request(&f->qp, w);
	ur_sq_pop(&f->qp.sq);
	return ret;
}

static int invalidate(struct fixture *f, const struct ur_mr *key)
{
	struct ur_swqe *w = stage(f, UR_WR_UMR_INVALIDATE, key->key);
	int ret = ur_mw_request(&f->qp, w);

	ur_sq_pop(&f->qp.sq);
	return ret;
}

/* A key over [at, at + bytes) of a region or key. */
static struct ur_mr *key_over(struct fixture *f, const struct ur_mr *mr,
			      uint64_t at, uint64_t bytes)
{
	struct ur_mr *key = new_key(f);
	struct ur_umr_list *list = list_for(key, 1, 1);

	block(list, 0, mr, at, bytes, 0);
	assert_int_equal(fill(f, list), 0);
	return key;
}

static int reach(const struct fixture *f, const struct ur_mr *key, uint64_t va,
		 uint64_t len, uint32_t access, uint8_t **at)
{
	return ur_mr_reach(&f->t, &f->pd, &f->qp, key->key, va, len, access,
			   at);
}

/*
 * Both directions of both kinds of access agree with `place`, the position in
 * the buffer of each byte of the key, at every offset and length.
 */
static void agrees(struct fixture *f, const struct ur_mr *key,
		   const uint16_t *place, uint32_t n)
{
	struct ur_mr_ref m = { &f->t, &f->pd, &f->qp, key->key, 0 };
	uint8_t data[512], got[512];

	for (uint32_t off = 0; off < n; off++)
		for (uint32_t len = 1; off + len <= n; len++) {
			struct ur_sge s = { BASE + off, len, key->key };

			for (uint32_t i = 0; i < len; i++)
				data[i] = (uint8_t)(off + len + i * 7);
			memset(f->buf, 0, LEN);
			m.va = BASE + off;
			if (len & 1)
				assert_int_equal(ur_mr_put(&m, data, len), 0);
			else
				assert_int_equal(ur_sge_scatter(&f->t, &f->pd,
								&s, 1, 0, data,
								len),
						 0);
			for (uint32_t i = 0; i < len; i++)
				assert_int_equal(f->buf[place[off + i]],
						 data[i]);
			assert_int_equal(ur_mr_get(&m, got, len), 0);
			assert_memory_equal(got, data, len);
			memset(got, 0, len);
			assert_int_equal(ur_sge_collect(&f->t, &f->pd, &s, 1, 0,
							got, len),
					 0);
			assert_memory_equal(got, data, len);
		}
}

static void a_list_is_one_range(void **state)
{
	struct fixture *f = *state;
	static const struct {
		uint16_t at, bytes;
	} rows[] = { { 100, 7 }, { 0, 1 }, { 2000, 30 }, { 107, 9 } };
	struct ur_mr *key = new_key(f);
	struct ur_umr_list *list = list_for(key, ARRAY_SIZE(rows), 1);
	uint64_t base = (uintptr_t)f->buf;
	uint16_t place[64];
	uint32_t n = 0;

	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		block(list, i, f->mr, base + rows[i].at, rows[i].bytes, 0);
		for (uint16_t j = 0; j < rows[i].bytes; j++)
			place[n++] = (uint16_t)(rows[i].at + j);
	}
	assert_int_equal(fill(f, list), 0);
	assert_int_equal(list->length, n);
	agrees(f, key, place, n);
}

static void repeated_blocks_interleave(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *key = new_key(f);
	struct ur_umr_list *list = list_for(key, 2, 5);
	uint64_t base = (uintptr_t)f->buf;
	uint16_t place[128];
	uint32_t n = 0;

	block(list, 0, f->mr, base + 8, 3, 16);
	block(list, 1, f->mr, base + 1000, 8, 100);
	for (uint16_t r = 0; r < 5; r++) {
		for (uint16_t j = 0; j < 3; j++)
			place[n++] = (uint16_t)(8 + r * 16 + j);
		for (uint16_t j = 0; j < 8; j++)
			place[n++] = (uint16_t)(1000 + r * 100 + j);
	}
	assert_int_equal(fill(f, list), 0);
	assert_int_equal(list->length, n);
	agrees(f, key, place, n);
}

static void what_a_list_must_be(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *key = new_key(f);
	static const struct {
		uint32_t n;
		uint64_t repeats, va, bytes, stride, iova;
		int ret;
	} rows[] = {
		{ 1, 1, 0, 1, 0, 0, 0 },
		{ 0, 1, 0, 1, 0, 0, -EINVAL },		/* no block */
		{ 1, 0, 0, 1, 0, 0, -EINVAL },		/* no repetition */
		{ 1, 1, 0, 0, 0, 0, -EINVAL },		/* no byte */
		{ 1, 1, UINT64_MAX, 1, 0, 0, -EINVAL }, /* address wraps */
		{ 1, 1, UINT64_MAX, 0, 0, 0, -EINVAL },
		{ 1, 1, 0, 1, 0, UINT64_MAX, -EINVAL }, /* that of the key */
		{ 1, 3, 0, 1, 1ull << 63, 0, -EINVAL }, /* stride wraps */
		{ 1, 2, 0, 1, 1ull << 63, 0, 0 },
		{ 1, 2, 0, 1ull << 63, 0, 0, -EINVAL }, /* total */
		{ 1, UINT64_MAX, 0, 2, 0, 0, -EINVAL },
		{ 1, UINT64_MAX, 0, 1, 0, 0, 0 },
		{ 2, 1, 0, 1ull << 63, 0, 0, -EINVAL }, /* sum of the blocks */
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ur_umr_list *list =
			list_for(key, rows[i].n, rows[i].repeats);

		list->iova = rows[i].iova;
		for (uint32_t j = 0; j < rows[i].n; j++)
			block(list, j, f->mr, rows[i].va, rows[i].bytes,
			      rows[i].stride);
		assert_int_equal(ur_umr_list_check(list), rows[i].ret);
		free(list);
	}
	assert_int_equal(ur_umr_create(&f->t, &f->pd, 0, &key), -EINVAL);
	assert_int_equal(ur_umr_create(&f->t, &f->pd, UR_UMR_BLOCKS + 1, &key),
			 -EINVAL);
}

/* Refused when it is executed; the key keeps its list. */
static void what_cannot_be_filled(void **state)
{
	struct fixture *f = *state;
	uint64_t base = (uintptr_t)f->buf;
	struct ur_mr *key = key_over(f, f->mr, base, 8);
	struct ur_mr *ro, *alien, *empty = new_key(f), *small;
	struct ur_umr_list *list;
	uint8_t *at;

	assert_int_equal(ur_mr_create(&f->t, &f->pd, f->buf, LEN, base, 0, &ro),
			 0);
	assert_int_equal(ur_mr_create(&f->t, &f->other, f->buf, LEN, base, ALL,
				      &alien),
			 0);
	list = list_for(key, 1, 1);
	block(list, 0, ro, base, 8, 0);
	assert_int_equal(fill(f, list), -EINVAL); /* not writable */
	list = list_for(key, 1, 1);
	list->access = UR_ACCESS_REMOTE_READ;
	block(list, 0, ro, base, 8, 0);
	assert_int_equal(fill(f, list), 0);
	list = list_for(key, 1, 1);
	block(list, 0, alien, base, 8, 0);
	assert_int_equal(fill(f, list), -EINVAL);
	list = list_for(key, 1, 1);
	block(list, 0, empty, BASE, 8, 0);
	assert_int_equal(fill(f, list), -EINVAL);
	list = list_for(key, 1, 1);
	block(list, 0, f->mr, base + LEN - 8, 9, 0);
	assert_int_equal(fill(f, list), -EINVAL);
	list = list_for(key, 1, 1);
	block(list, 0, f->mr, base - 1, 9, 0);
	assert_int_equal(fill(f, list), -EINVAL);
	list = list_for(key, 1, 4); /* only the last repetition is outside */
	block(list, 0, f->mr, base + LEN - 30, 8, 8);
	assert_int_equal(fill(f, list), -EINVAL);
	list = list_for(f->mr, 1, 1); /* not such a key */
	block(list, 0, f->mr, base, 8, 0);
	assert_int_equal(fill(f, list), -EINVAL);
	assert_int_equal(ur_umr_create(&f->t, &f->pd, 1, &small), 0);
	list = list_for(small, 2, 1); /* too long for it */
	block(list, 0, f->mr, base, 8, 0);
	block(list, 1, f->mr, base, 8, 0);
	assert_int_equal(fill(f, list), -EINVAL);
	assert_int_equal(invalidate(f, f->mr), -EINVAL);
	f->qp.pd = &f->other;
	assert_int_equal(invalidate(f, key), -EINVAL);
	f->qp.pd = &f->pd;
	assert_int_equal(reach(f, key, BASE, 8, UR_ACCESS_REMOTE_READ, &at), 0);
	assert_ptr_equal(at, f->buf);
}

static void rights_are_those_of_the_key(void **state)
{
	struct fixture *f = *state;
	uint64_t base = (uintptr_t)f->buf;
	struct ur_mr *key = new_key(f);
	struct ur_umr_list *list = list_for(key, 1, 1);
	struct ur_sge s = { BASE, 8, key->key };
	uint8_t *at, byte[8] = { 0 };

	list->access = UR_ACCESS_REMOTE_READ;
	block(list, 0, f->mr, base, 64, 0);
	assert_int_equal(fill(f, list), 0);
	assert_int_equal(reach(f, key, BASE, 8, UR_ACCESS_REMOTE_READ, &at), 0);
	assert_int_equal(reach(f, key, BASE, 8, UR_ACCESS_REMOTE_WRITE, &at),
			 -EACCES);
	assert_int_equal(reach(f, key, BASE, 8, UR_ACCESS_REMOTE_ATOMIC, &at),
			 -EACCES);
	assert_int_equal(reach(f, key, BASE, 65, UR_ACCESS_REMOTE_READ, &at),
			 -ERANGE);
	assert_int_equal(reach(f, key, BASE - 1, 1, UR_ACCESS_REMOTE_READ, &at),
			 -ERANGE);
	assert_int_equal(reach(f, key, BASE, UINT64_MAX, UR_ACCESS_REMOTE_READ,
			       &at),
			 -ERANGE);
	assert_int_equal(ur_mr_reach(&f->t, &f->other, &f->qp, key->key, BASE,
				     8, UR_ACCESS_REMOTE_READ, &at),
			 -EPERM);
	/* Rights alone, as FLUSH of a region asks. */
	assert_int_equal(reach(f, key, 0, 0, UR_ACCESS_REMOTE_READ, NULL), 0);
	assert_int_equal(reach(f, key, 0, 0, UR_ACCESS_REMOTE_WRITE, NULL),
			 -EACCES);
	/* Local read always, local write only if given. */
	assert_int_equal(ur_sge_collect(&f->t, &f->pd, &s, 1, 0, byte, 8), 0);
	assert_int_equal(ur_sge_scatter(&f->t, &f->pd, &s, 1, 0, byte, 8),
			 -EACCES);
	assert_int_equal(ur_sge_collect(&f->t, &f->other, &s, 1, 0, byte, 8),
			 -EACCES);
}

static void an_invalid_key_is_of_no_use(void **state)
{
	struct fixture *f = *state;
	uint64_t base = (uintptr_t)f->buf;
	struct ur_mr *key = key_over(f, f->mr, base, 64);
	struct ur_mr *upper = key_over(f, key, BASE, 64);
	uint8_t *at, byte[8];
	struct ur_sge s = { BASE, 8, key->key };

	assert_int_equal(reach(f, upper, BASE, 8, UR_ACCESS_REMOTE_READ, &at),
			 0);
	assert_int_equal(invalidate(f, key), 0);
	assert_int_equal(invalidate(f, key), 0);
	assert_int_equal(reach(f, key, BASE, 8, UR_ACCESS_REMOTE_READ, &at),
			 -ENOENT);
	assert_int_equal(reach(f, key, BASE, 0, UR_ACCESS_REMOTE_READ, NULL),
			 -ENOENT);
	assert_int_equal(reach(f, upper, BASE, 8, UR_ACCESS_REMOTE_READ, &at),
			 -EACCES);
	assert_int_equal(ur_sge_collect(&f->t, &f->pd, &s, 1, 0, byte, 8),
			 -EACCES);
	assert_int_equal(ur_mr_destroy(&f->t, key), 0);
	assert_int_equal(reach(f, upper, BASE, 8, UR_ACCESS_REMOTE_READ, &at),
			 -EACCES);
}

static void a_region_may_go(void **state)
{
	struct fixture *f = *state;
	uint64_t base = (uintptr_t)f->buf;
	struct ur_mr *key = new_key(f), *gone;
	struct ur_umr_list *list = list_for(key, 2, 1);
	uint8_t data[16] = { 1 };
	struct ur_sge s = { BASE, 16, key->key };
	struct ur_mr_ref m = { &f->t, &f->pd, &f->qp, key->key, BASE };

	assert_int_equal(
		ur_mr_create(&f->t, &f->pd, f->buf, LEN, base, ALL, &gone), 0);
	block(list, 0, f->mr, base, 8, 0);
	block(list, 1, gone, base + 8, 8, 0);
	assert_int_equal(fill(f, list), 0);
	assert_int_equal(ur_mr_destroy(&f->t, gone), 0);
	assert_int_equal(ur_sge_scatter(&f->t, &f->pd, &s, 1, 0, data, 16),
			 -EACCES);
	assert_int_equal(ur_mr_put(&m, data, 16), -EACCES);
	assert_int_equal(ur_mr_get(&m, data, 16), -EACCES);
	assert_int_equal(ur_mr_put(&m, data, 8), 0);
	/* It is checked at each access, not only when the key is filled. */
	assert_int_equal(ur_mr_rereg(&f->t, &f->mr, UR_REREG_ACCESS, &f->pd,
				     NULL, 0, 0),
			 0);
	assert_int_equal(ur_mr_put(&m, data, 8), -EACCES);
	assert_int_equal(ur_mr_get(&m, data, 8), 0);
	assert_int_equal(ur_mr_rereg(&f->t, &f->mr, UR_REREG_PD, &f->other,
				     NULL, 0, 0),
			 0);
	assert_int_equal(ur_mr_get(&m, data, 8), -EACCES);
}

static void keys_nest_to_the_depth(void **state)
{
	struct fixture *f = *state;
	const struct ur_mr *under = f->mr;
	uint64_t at = (uintptr_t)f->buf + 100;
	struct ur_umr_list *list;
	struct ur_mr *key = NULL;
	uint8_t *p;

	for (uint32_t i = 0; i < UR_UMR_DEPTH; i++) {
		key = key_over(f, under, at, 64 - i);
		under = key;
		at = BASE + 1;
	}
	assert_int_equal(reach(f, key, BASE, 8, UR_ACCESS_REMOTE_READ, &p), 0);
	assert_ptr_equal(p, f->buf + 100 + UR_UMR_DEPTH - 1);
	list = list_for(new_key(f), 1, 1);
	block(list, 0, key, BASE, 8, 0);
	assert_int_equal(fill(f, list), -EINVAL);
}

static void a_nested_list_agrees(void **state)
{
	struct fixture *f = *state;
	uint64_t base = (uintptr_t)f->buf;
	struct ur_mr *low = new_key(f), *key = new_key(f);
	struct ur_umr_list *list = list_for(low, 1, 4);
	uint16_t place[32];
	uint32_t n = 0;

	block(list, 0, f->mr, base, 4, 10); /* 0-3, 10-13, 20-23, 30-33 */
	assert_int_equal(fill(f, list), 0);
	list = list_for(key, 2, 2);
	block(list, 0, low, BASE + 2, 5, 6); /* its bytes 2-6 and 8-12 */
	block(list, 1, f->mr, base + 1000, 3, 50);
	assert_int_equal(fill(f, list), 0);
	for (uint32_t r = 0; r < 2; r++) {
		for (uint32_t j = 0; j < 5; j++) {
			uint32_t i = 2 + r * 6 + j;

			place[n++] = (uint16_t)(i / 4 * 10 + i % 4);
		}
		for (uint32_t j = 0; j < 3; j++)
			place[n++] = (uint16_t)(1000 + r * 50 + j);
	}
	agrees(f, key, place, n);
}

/* Each was filled while the other was not yet over it. */
static void a_cycle_ends(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *a = key_over(f, f->mr, (uintptr_t)f->buf, 64);
	struct ur_mr *b = key_over(f, a, BASE, 64);
	struct ur_umr_list *list = list_for(a, 1, 1);
	uint8_t *at;

	block(list, 0, b, BASE, 64, 0);
	assert_int_equal(fill(f, list), 0);
	assert_int_equal(reach(f, a, BASE, 8, UR_ACCESS_REMOTE_READ, &at),
			 -EACCES);
}

static void atomics_need_one_aligned_piece(void **state)
{
	struct fixture *f = *state;
	uint64_t base = (uintptr_t)f->buf;
	struct ur_mr *key = new_key(f);
	struct ur_umr_list *list = list_for(key, 3, 1);
	uint32_t access = UR_ACCESS_REMOTE_ATOMIC;
	uint8_t *at;

	block(list, 0, f->mr, base + 64, 12, 0);
	block(list, 1, f->mr, base + 76, 12, 0); /* adjacent: still another */
	block(list, 2, f->mr, base + 1, 8, 0);
	assert_int_equal(fill(f, list), 0);
	assert_int_equal(reach(f, key, BASE, 8, access, &at), 0);
	assert_ptr_equal(at, f->buf + 64);
	assert_int_equal(reach(f, key, BASE + 8, 8, access, &at), -ERANGE);
	assert_int_equal(reach(f, key, BASE + 16, 8, access, &at), 0);
	assert_ptr_equal(at, f->buf + 80);
	assert_int_equal(reach(f, key, BASE + 24, 8, access, &at), -ERANGE);
}

/* Extended atomics have operands of other sizes. */
static void atomics_are_aligned_to_their_size(void **state)
{
	struct fixture *f = *state;
	uint64_t base = (uintptr_t)f->buf;
	struct ur_mr *key = new_key(f);
	struct ur_umr_list *list = list_for(key, 2, 1);
	uint32_t access = UR_ACCESS_REMOTE_ATOMIC;
	uint8_t *at;

	assert_int_equal(base % 16, 0);
	block(list, 0, f->mr, base + 64, 24, 0);
	block(list, 1, f->mr, base + 104, 16, 0); /* 8 modulo 16 */
	assert_int_equal(fill(f, list), 0);
	assert_int_equal(reach(f, key, BASE, 16, access, &at), 0);
	assert_ptr_equal(at, f->buf + 64);
	assert_int_equal(reach(f, key, BASE + 4, 4, access, &at), 0);
	assert_ptr_equal(at, f->buf + 68);
	assert_int_equal(reach(f, key, BASE + 2, 4, access, &at), -ERANGE);
	assert_int_equal(reach(f, key, BASE + 16, 16, access, &at), -ERANGE);
	assert_int_equal(reach(f, key, BASE + 24, 16, access, &at), -ERANGE);
	assert_int_equal(reach(f, key, BASE + 24, 8, access, &at), 0);
}

static void null_regions_are_holes(void **state)
{
	struct fixture *f = *state;
	uint64_t base = (uintptr_t)f->buf;
	struct ur_mr *key = new_key(f), *null;
	struct ur_umr_list *list = list_for(key, 3, 1);
	struct ur_mr_ref m = { &f->t, &f->pd, &f->qp, key->key, BASE };
	uint8_t data[24], *at;

	assert_int_equal(ur_mr_create_null(&f->t, &f->pd, &null), 0);
	block(list, 0, f->mr, base, 8, 0);
	block(list, 1, null, 0, 8, 0);
	block(list, 2, f->mr, base + 8, 8, 0);
	assert_int_equal(fill(f, list), 0);
	memset(data, 7, sizeof(data));
	assert_int_equal(ur_mr_put(&m, data, 24), 0);
	assert_memory_equal(f->buf, data, 16);
	assert_int_equal(ur_mr_get(&m, data, 24), 0);
	assert_memory_equal(data + 8, (uint8_t[8]){ 0 }, 8);
	assert_int_equal(data[7] + data[16], 14);
	assert_int_equal(reach(f, key, BASE + 8, 8, UR_ACCESS_REMOTE_ATOMIC,
			       &at),
			 -EACCES);
}

static void many_pieces_come_in_parts(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *key = new_key(f);
	struct ur_umr_list *list = list_for(key, 1, 64);
	struct ur_sge s = { BASE, 64, key->key };
	struct ur_mr_ref m = { &f->t, &f->pd, &f->qp, key->key, BASE };
	struct iovec iov[64];

	block(list, 0, f->mr, (uintptr_t)f->buf, 1, 2);
	assert_int_equal(fill(f, list), 0);
	assert_int_equal(ur_sge_gather(&f->t, &f->pd, &s, 1, 0, 64, iov, 64),
			 64);
	assert_int_equal(ur_sge_gather(&f->t, &f->pd, &s, 1, 0, 64, iov, 32),
			 -E2BIG);
	assert_ptr_equal(iov[31].iov_base, f->buf + 62);
	assert_int_equal(ur_mr_pieces(&m, 64, UR_ACCESS_REMOTE_WRITE, iov, 64),
			 64);
	assert_ptr_equal(iov[63].iov_base, f->buf + 126);
	assert_int_equal(ur_mr_pieces(&m, 64, UR_ACCESS_REMOTE_WRITE, iov, 63),
			 -E2BIG);
}

/* Code for plain regions, windows and re-registration refuses such a key. */
static void it_is_no_plain_region(void **state)
{
	struct fixture *f = *state;
	uint64_t base = (uintptr_t)f->buf;
	struct ur_mr *key = key_over(f, f->mr, base, 64);
	struct ur_mw_bind b = { .addr = BASE,
				.length = 8,
				.lkey = key->key,
				.access = UR_ACCESS_REMOTE_READ };

	assert_null(ur_mr_translate(key, &f->pd, BASE, 8, 0));
	assert_int_equal(ur_mw_check(UR_MW_TYPE_2, &b, key), -EINVAL);
	assert_int_equal(ur_mr_rereg(&f->t, &key, UR_REREG_ACCESS, &f->pd, NULL,
				     0, ALL),
			 -EOPNOTSUPP);
	assert_int_equal(ur_mw_may_invalidate(&f->t, &f->qp, key->key),
			 -EACCES);
}

static uint32_t waited;

static void wait_readers(void *arg)
{
	waited++;
}

/* It drops packets of any queue pair. */
static void quiesce(void *arg)
{
	fail();
}

/* Lists of flushed requests, and replaced ones, are freed (ASan looks). */
static void nothing_is_left(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *key = new_key(f);
	uint64_t base = (uintptr_t)f->buf;

	f->t.quiesce = quiesce;
	f->t.wait_readers = wait_readers;
	for (uint32_t i = 0; i < 10000; i++) {
		struct ur_umr_list *list = list_for(key, 3, 1);
		struct ur_swqe *w = stage(f, UR_WR_UMR_FILL, 0);

		for (uint32_t j = 0; j < 3; j++)
			block(list, j, f->mr, base, 8, 0);
		assert_int_equal(ur_umr_list_check(list), 0);
		free(ur_umr_post(&f->qp, w, list));
		if (i % 3)
			assert_int_equal(ur_mw_request(&f->qp, w), 0);
		ur_sq_pop(&f->qp.sq);
		ur_umr_reap(&f->t);
	}
	assert_in_range(waited, 5, 8);
	f->t.quiesce = NULL;
	f->t.wait_readers = NULL;
	stage(f, UR_WR_UMR_FILL, 0);
	free(ur_umr_post(&f->qp, ur_sq_slot(&f->qp.sq, ur_sq_head(&f->qp.sq)),
			 list_for(key, 1, 1)));
	assert_int_equal(ur_mr_destroy(&f->t, key), 0);
	assert_int_equal(f->pd.users, 1);
}

/* What was posted is gone, and its memory is free. */
static void a_reset_frees_lists(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *key = new_key(f);
	struct ur_swqe *w = stage(f, UR_WR_UMR_FILL, 0);
	struct ur_umr_list *list = list_for(key, 1, 1);

	block(list, 0, f->mr, (uintptr_t)f->buf, 8, 0);
	assert_int_equal(ur_umr_list_check(list), 0);
	free(ur_umr_post(&f->qp, w, list));
	(void)ur_qp_clear(&f->qp);
	ur_qp_set_state(&f->qp, UR_QPS_RESET);
	for (uint32_t i = 0; i <= f->qp.sq.mask; i++)
		assert_null(f->qp.umr[i]);
	assert_int_equal(ur_mw_request(&f->qp, w), -EINVAL);
	list = list_for(key, 1, 1);
	block(list, 0, f->mr, (uintptr_t)f->buf, 8, 0);
	assert_int_equal(fill(f, list), 0);
}

/* Address 0 is a valid one of such a region, but no memory. */
static void no_piece_is_without_address(void **state)
{
	struct fixture *f = *state;
	struct ur_mr_ref m = { &f->t, &f->pd, &f->qp, 0, 0 };
	struct ur_mr *zero;
	struct iovec iov[2];

	assert_int_equal(ur_mr_create(&f->t, &f->pd, NULL, LEN, 0,
				      ALL | UR_ACCESS_ON_DEMAND, &zero),
			 0);
	m.key = zero->key;
	assert_int_equal(ur_mr_pieces(&m, 8, UR_ACCESS_REMOTE_READ, iov, 2),
			 -ENOENT);
	assert_int_equal(ur_mr_pieces(&m, 0, UR_ACCESS_REMOTE_READ, iov, 2), 0);
	m.va = 8;
	assert_int_equal(ur_mr_pieces(&m, 8, UR_ACCESS_REMOTE_READ, iov, 2), 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_list_is_one_range),
		T(repeated_blocks_interleave),
		T(what_a_list_must_be),
		T(what_cannot_be_filled),
		T(rights_are_those_of_the_key),
		T(an_invalid_key_is_of_no_use),
		T(a_region_may_go),
		T(keys_nest_to_the_depth),
		T(a_nested_list_agrees),
		T(a_cycle_ends),
		T(atomics_need_one_aligned_piece),
		T(atomics_are_aligned_to_their_size),
		T(null_regions_are_holes),
		T(many_pieces_come_in_parts),
		T(it_is_no_plain_region),
		T(nothing_is_left),
		T(a_reset_frees_lists),
		T(no_piece_is_without_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
