/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation. The region of an indirect key has no range and no rights
 * of its own (length and access are 0), so that code for plain regions refuses
 * it, without a test of its kind; the callers that resolve keys in general come
 * here then.
 *
 * The list of a request that is posted but not executed belongs to the slot of
 * the send queue. What is left there of a flushed request is freed by the poster
 * that uses the slot next, or by RESET.
 */
#include "core/umr.h"

#include <errno.h>
#include <stdlib.h>

#include "core/qp.h"
#include "core/sge.h"

/* Retired blocks that are worth taking every lane's lock: 160 KiB. */
#define REAP_BLOCKS 4096u

#define WRITES                                                                 \
	(UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |                      \
	 UR_ACCESS_REMOTE_ATOMIC)

/* The right that the regions of a list must grant: they are accessed as by a
 * local key. */
static uint32_t local_right(uint32_t access)
{
	return access & WRITES ? UR_ACCESS_LOCAL_WRITE : 0;
}

static const struct ur_umr_list *list_of(const struct ur_mr *mr)
{
	return atomic_load_explicit(&mr->list, memory_order_acquire);
}

int ur_umr_create(struct ur_mr_table *t, struct ur_pd *pd, uint32_t max,
		  struct ur_mr **out)
{
	struct ur_mr *mr;
	int ret;

	if (max == 0 || max > UR_UMR_BLOCKS)
		return -EINVAL;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->pd = pd;
	mr->kind = UR_MR_INDIRECT;
	mr->max_list = max;
	ret = ur_mr_table_add(t, mr, &t->count, UR_MAX_MR);
	if (ret) {
		free(mr);
		return ret;
	}
	atomic_fetch_add(&pd->users, 1);
	*out = mr;
	return 0;
}

struct ur_umr_list *ur_umr_list_new(uint32_t n)
{
	struct ur_umr_list *list =
		calloc(1, sizeof(*list) + n * sizeof(list->block[0]));

	if (list)
		list->n = n;
	return list;
}

/* Does [va + (repeats - 1) * stride, + bytes) exist? */
static bool wraps(const struct ur_umr_block *b, uint64_t repeats)
{
	uint64_t last;

	return __builtin_mul_overflow(b->stride, repeats - 1, &last) ||
	       __builtin_add_overflow(last, b->va, &last) ||
	       __builtin_add_overflow(last, b->bytes, &last);
}

int ur_umr_list_check(struct ur_umr_list *list)
{
	uint64_t end;

	if (list->n == 0 || list->n > UR_UMR_BLOCKS || list->repeats == 0)
		return -EINVAL;
	list->period = 0;
	for (uint32_t i = 0; i < list->n; i++) {
		struct ur_umr_block *b = &list->block[i];

		if (b->bytes == 0 || wraps(b, list->repeats))
			return -EINVAL;
		b->begin = list->period;
		if (__builtin_add_overflow(list->period, b->bytes,
					   &list->period))
			return -EINVAL;
	}
	if (__builtin_mul_overflow(list->period, list->repeats,
				   &list->length) ||
	    __builtin_add_overflow(list->length, list->iova, &end))
		return -EINVAL;
	return 0;
}

/* --- access --- */

static int admit(const struct ur_umr_list *list, uint64_t va, uint64_t len,
		 uint32_t access)
{
	uint64_t off;

	if (!list)
		return -ENOENT;
	off = va - list->iova;
	if ((list->access & access) != access)
		return -EACCES;
	if (va < list->iova || off > list->length || len > list->length - off)
		return -ERANGE;
	return 0;
}

/* The block that holds byte `off` of a repetition. */
static const struct ur_umr_block *block_at(const struct ur_umr_list *list,
					   uint64_t off)
{
	uint32_t low = 0, high = list->n;

	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (list->block[mid].begin <= off)
			low = mid;
		else
			high = mid;
	}
	return &list->block[low];
}

/* From an address of the list to that of a block; *len becomes what the block
 * has there. */
static const struct ur_umr_block *descend(const struct ur_umr_list *list,
					  uint64_t *va, uint64_t *len)
{
	uint64_t off = *va - list->iova, round = 0;
	const struct ur_umr_block *b;

	if (list->repeats > 1) {
		round = off / list->period;
		off %= list->period;
	}
	b = block_at(list, off);
	off -= b->begin;
	*va = b->va + round * b->stride + off;
	if (*len > b->bytes - off)
		*len = b->bytes - off;
	return b;
}

static int64_t leaf(const struct ur_mr *mr, const struct ur_pd *pd, uint64_t va,
		    uint64_t len, uint32_t access, uint8_t **at)
{
	uint32_t right = local_right(access);

	if (mr->kind == UR_MR_NULL) {
		if (mr->pd != pd || (access & UR_ACCESS_REMOTE_ATOMIC))
			return -EACCES;
		return (int64_t)ur_null_piece(len, right, at);
	}
	*at = ur_mr_translate(mr, pd, va, len, right);
	return *at ? (int64_t)len : -EACCES;
}

/* The region of the first piece of a range that the list admits; NULL: none, or
 * not accessible. Lists may have been replaced since they were checked, even by
 * ones that contain each other: the depth limits the search. */
static const struct ur_mr *region(const struct ur_mr_table *t,
				  const struct ur_umr_list *list,
				  const struct ur_pd *pd, uint32_t access,
				  uint64_t *va, uint64_t *len)
{
	for (uint32_t i = 0; i < UR_UMR_DEPTH; i++) {
		const struct ur_umr_block *b = descend(list, va, len);
		const struct ur_mr *mr = ur_mr_lookup(t, b->lkey);

		if (!mr || mr->kind != UR_MR_INDIRECT)
			return mr;
		list = list_of(mr);
		if (mr->pd != pd || admit(list, *va, *len, local_right(access)))
			return NULL;
	}
	return NULL;
}

int64_t ur_umr_piece(const struct ur_mr_table *t, const struct ur_mr *mr,
		     const struct ur_pd *pd, uint64_t va, uint64_t len,
		     uint32_t access, uint8_t **at)
{
	const struct ur_umr_list *list = list_of(mr);
	int ret = mr->pd == pd ? admit(list, va, len, access) : -EPERM;

	if (ret)
		return ret;
	mr = region(t, list, pd, access, &va, &len);
	return mr ? leaf(mr, pd, va, len, access, at) : -EACCES;
}

const struct ur_mr *ur_umr_region(const struct ur_mr_table *t,
				  const struct ur_mr *mr,
				  const struct ur_pd *pd, uint64_t *va,
				  uint64_t *len)
{
	const struct ur_umr_list *list = list_of(mr);

	if (mr->pd != pd || admit(list, *va, *len, 0))
		return NULL;
	return region(t, list, pd, 0, va, len);
}

int ur_umr_reach(const struct ur_mr_table *t, const struct ur_mr *mr,
		 const struct ur_pd *pd, uint64_t va, uint64_t len,
		 uint32_t access, uint8_t **at)
{
	const struct ur_umr_list *list = list_of(mr);
	int64_t n;

	if (mr->pd != pd)
		return -EPERM;
	if (!at || len == 0) {
		if (at)
			*at = NULL;
		return admit(list, at || !list ? va : list->iova, 0, access);
	}
	n = ur_umr_piece(t, mr, pd, va, len, access, at);
	if (n < 0)
		return (int)n;
	/* The operand of an atomic is in one piece, and aligned to its size. */
	if ((access & UR_ACCESS_REMOTE_ATOMIC) &&
	    ((uint64_t)n < len || ((uintptr_t)*at & (len - 1))))
		return -ERANGE;
	if ((uint64_t)n < len)
		*at = NULL;
	return 0;
}

/* --- requests --- */

int ur_umr_enable(struct ur_qp *qp)
{
	if (!qp->sq.ring)
		return 0;
	qp->umr = calloc((size_t)qp->sq.mask + 1, sizeof(struct ur_umr_list *));
	return qp->umr ? 0 : -ENOMEM;
}

static struct ur_umr_list **place_of(const struct ur_qp *qp,
				     const struct ur_swqe *w)
{
	size_t at = (size_t)((const uint8_t *)w - qp->sq.ring);

	return &qp->umr[at / qp->sq.stride];
}

struct ur_umr_list *ur_umr_post(struct ur_qp *qp, const struct ur_swqe *w,
				struct ur_umr_list *list)
{
	struct ur_umr_list **at = place_of(qp, w), *was = *at;

	*at = list;
	return was;
}

static void free_posted(struct ur_qp *qp)
{
	for (size_t i = 0; i <= qp->sq.mask; i++) {
		free(qp->umr[i]);
		qp->umr[i] = NULL;
	}
}

void ur_umr_reset(struct ur_qp *qp)
{
	ur_latch_lock(&qp->sq.lock);
	free_posted(qp);
	ur_latch_unlock(&qp->sq.lock);
}

void ur_umr_disable(struct ur_qp *qp)
{
	if (!qp->umr)
		return;
	free_posted(qp);
	free(qp->umr);
}

static void retire(struct ur_mr_table *t, struct ur_umr_list *list)
{
	if (!list)
		return;
	list->next = atomic_load_explicit(&t->retired, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&t->retired, &list->next, list))
		;
	atomic_fetch_add(&t->retired_blocks, list->n + 1);
}

void ur_umr_free_all(struct ur_umr_list *list)
{
	while (list) {
		struct ur_umr_list *next = list->next;

		free(list);
		list = next;
	}
}

void ur_umr_reap(struct ur_mr_table *t)
{
	struct ur_umr_list *list;

	if (atomic_load_explicit(&t->retired_blocks, memory_order_relaxed) <
	    REAP_BLOCKS)
		return;
	atomic_store(&t->retired_blocks, 0);
	list = atomic_exchange(&t->retired, NULL);
	if (t->wait_readers)
		t->wait_readers(t->quiesce_arg);
	ur_umr_free_all(list);
}

void ur_umr_free(struct ur_mr *mr)
{
	free(atomic_load(&mr->list));
}

void ur_umr_table_fini(struct ur_mr_table *t)
{
	ur_umr_free_all(atomic_load(&t->retired));
}

/* Are all repetitions of a block within the range? No stride is negative, so the
 * last one is the farthest. */
static bool spans(uint64_t from, uint64_t length, const struct ur_umr_block *b,
		  uint64_t repeats)
{
	uint64_t off = b->va - from;
	uint64_t bytes = b->stride * (repeats - 1) + b->bytes;

	return b->va >= from && off <= length && bytes <= length - off;
}

static int check_block(const struct ur_mr_table *t, const struct ur_pd *pd,
		       struct ur_umr_list *list, const struct ur_umr_block *b)
{
	uint32_t right = local_right(list->access);
	const struct ur_mr *mr = ur_mr_lookup(t, b->lkey);
	const struct ur_umr_list *in;

	if (!mr || mr->pd != pd)
		return -EINVAL;
	if (mr->kind != UR_MR_INDIRECT)
		return (mr->access & right) == right &&
				       spans(mr->iova, mr->length, b,
					     list->repeats)
			       ? 0
			       : -EINVAL;
	in = list_of(mr);
	if (!in || in->depth >= UR_UMR_DEPTH || (in->access & right) != right ||
	    !spans(in->iova, in->length, b, list->repeats))
		return -EINVAL;
	if (list->depth <= in->depth)
		list->depth = in->depth + 1;
	return 0;
}

static int check(const struct ur_mr_table *t, const struct ur_pd *pd,
		 struct ur_umr_list *list)
{
	int ret = 0;

	list->depth = 1;
	for (uint32_t i = 0; i < list->n && !ret; i++)
		ret = check_block(t, pd, list, &list->block[i]);
	return ret;
}

/* Another lane may do the same at the same time. */
static int replace(struct ur_qp *qp, uint32_t key, struct ur_umr_list *list)
{
	struct ur_mr *mr = ur_mr_lookup(qp->mrs, key);

	if (!mr || mr->kind != UR_MR_INDIRECT || mr->pd != qp->pd ||
	    (list && list->n > mr->max_list))
		return -EINVAL;
	retire(qp->mrs, atomic_exchange(&mr->list, list));
	return 0;
}

static int fill(struct ur_qp *qp, struct ur_umr_list *list)
{
	int ret = check(qp->mrs, qp->pd, list);

	if (!ret)
		ret = replace(qp, list->key, list);
	if (ret)
		retire(qp->mrs, list);
	return ret;
}

int ur_umr_request(struct ur_qp *qp, const struct ur_swqe *w)
{
	struct ur_umr_list **at, *list;

	if (w->opcode == UR_WR_UMR_INVALIDATE)
		return replace(qp, w->imm_be, NULL);
	at = place_of(qp, w);
	list = *at;
	*at = NULL;
	return list ? fill(qp, list) : -EINVAL;
}
