/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations on one piece of mapped memory.  Nearly always queue pair and
 * region are the same as before, so the result of the lookup is kept (struct
 * ur_memo), and only its validity is checked: inside, like all checks
 * (direct.c).
 */
#include <errno.h>

#include "base/guard.h"
#include "base/guard_word.h"
#include "core/masked.h"
#include "shm/direct_internal.h"

static inline bool holds(const struct ur_direct *r, const struct ur_memo *m,
			 const struct ur_op *op)
{
	return m->turn == r->turn && m->rkey == op->rkey &&
	       m->sqpn == op->sqpn && m->dqpn == op->dqpn &&
	       ur_seg_same(m->qp, m->qp_seq) && ur_seg_same(m->mr, m->mr_seq);
}

static inline struct ur_memo *memo_of(struct ur_direct *r,
				      const struct ur_op *op)
{
	return &r->memos[(op->sqpn ^ op->rkey >> 8) % UR_MEMOS];
}

/* Few bytes must be aligned, since words that others write or poll must move in
 * one piece; an atomic to its size, which its caller has checked of the address. */
static inline bool is_aligned(const struct ur_op *op, const uint8_t *at)
{
	if (op->len > UR_DIRECT_WORDS)
		return true;
	if (op->access & UR_ACCESS_REMOTE_ATOMIC)
		return ((uintptr_t)at & (op->len - 1)) == 0;
	return ((uintptr_t)at | op->va) % 8 == 0;
}

/*
 * The address of the operation's memory here, if it is permitted, mapped and
 * aligned, else NULL.  The caller is inside.
 */
static inline uint8_t *place(struct ur_direct *r, const struct ur_op *op)
{
	struct ur_memo *m = memo_of(r, op);
	uint64_t off;

	if (__builtin_expect(!holds(r, m, op), 0) && !ur_view_memo(r, op, m))
		return NULL;
	off = op->va - m->iova;
	if ((m->access & op->access) != op->access || op->va < m->iova ||
	    off > m->length || op->len > m->length - off ||
	    !is_aligned(op, m->base + off))
		return NULL;
	return m->base + off;
}

static inline int copy(const struct ur_direct *r, void *dst, const void *src,
		       uint64_t len)
{
	if (ur_direct_is_whole(r))
		return ur_guard_copy_whole(dst, src, len);
	return len <= UR_DIRECT_WORDS ? ur_guard_copy_words(dst, src, len)
				      : ur_guard_copy(dst, src, len);
}

int ur_direct_piece(struct ur_direct *r, const struct ur_op *op, void *here)
{
	uint8_t *there;
	int rc = -EAGAIN;

	if (!ur_direct_enter(r))
		return -EAGAIN;
	there = place(r, op);
	if (there)
		rc = op->access & UR_ACCESS_REMOTE_WRITE
			     ? copy(r, there, here, op->len)
			     : copy(r, here, there, op->len);
	if (!(op->access & UR_ACCESS_REMOTE_WRITE) &&
	    (ur_direct_is_too_late(r) || !holds(r, memo_of(r, op), op)))
		rc = -EAGAIN;
	ur_direct_leave(r);
	if (rc)
		return -EAGAIN;
	r->stats.mapped++;
	return 0;
}

/* Leaves the peer's memory after an atomic on it; `there` is NULL if none was
 * done. */
static int atomic_done(struct ur_direct *r, const struct ur_op *op,
		       const uint8_t *there, int rc)
{
	if (!there)
		(void)ur_view_admit(r,
				    op); /* a use, so it comes to be mapped */
	ur_direct_leave(r);
	if (rc == 0)
		r->stats.mapped++;
	else
		r->stats.again++;
	return rc ? -EAGAIN : 0;
}

/* NOLINTNEXTLINE(readability-function-size): the request's own fields */
int ur_direct_atomic(struct ur_direct *r, uint32_t dqpn, uint32_t sqpn,
		     uint32_t rkey, uint64_t va, bool cas, uint64_t compare_add,
		     uint64_t swap, uint64_t *old)
{
	const struct ur_op op = { dqpn, sqpn, rkey, UR_ACCESS_REMOTE_ATOMIC,
				  va,	8 };
	uint8_t *there;
	int rc = -EAGAIN;

	if (!ur_direct_enter(r))
		return -EAGAIN;
	there = place(r, &op);
	if (there)
		rc = cas ? ur_guard_cmp_swap64(there, compare_add, swap, old)
			 : ur_guard_fetch_add64(there, compare_add, old);
	return atomic_done(r, &op, there, rc);
}

int ur_direct_masked(struct ur_direct *r, const struct ur_op *op, bool cas,
		     const struct ur_masked *m, uint64_t old[2])
{
	uint8_t *there;
	int rc = -EAGAIN;

	if ((op->va & (op->len - 1)) || !ur_direct_enter(r))
		return -EAGAIN;
	there = place(r, op);
	if (there)
		rc = ur_masked_run(there, m, cas, (uint32_t)op->len, old);
	return atomic_done(r, op, there, rc);
}
