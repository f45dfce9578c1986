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

/*
 * The address of the operation's memory here, if it is permitted and mapped.
 * NULL also for few bytes that are not aligned, since words that others write
 * or poll must move in one piece.  The caller is inside.
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
	    (op->len <= UR_DIRECT_WORDS &&
	     ((uintptr_t)(m->base + off) | op->va) % 8 != 0))
		return NULL;
	return m->base + off;
}

static inline int copy(void *dst, const void *src, uint64_t len)
{
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
			     ? copy(there, here, op->len)
			     : copy(here, there, op->len);
	if (!(op->access & UR_ACCESS_REMOTE_WRITE) &&
	    (ur_direct_is_too_late(r) || !holds(r, memo_of(r, op), op)))
		rc = -EAGAIN;
	ur_direct_leave(r);
	if (rc)
		return -EAGAIN;
	r->stats.mapped++;
	return 0;
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
	else
		(void)ur_view_admit(r,
				    &op); /* a use, so it comes to be mapped */
	ur_direct_leave(r);
	if (rc == 0)
		r->stats.mapped++;
	else
		r->stats.again++;
	return rc ? -EAGAIN : 0;
}
