/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation. A window is a second view of a region, so it has a
 * `struct ur_mr` of its own in the key table, and peers' requests are checked
 * against it as against any region. Unlike a region it changes while it is in
 * the table: readers of other lanes copy what they need under its lock. A type
 * 2 window is accessible only through the QP that bound it, so its users are
 * all in one lane.
 *
 * A request in a send queue names window and region by keys, not by pointers:
 * either may be gone when it is executed. A bind looks them up and counts
 * itself at the region in one critical section under the table's lock, which
 * deregistration takes too to check for bound windows.
 */
#include "core/mw.h"

#include <errno.h>
#include <stdlib.h>

#include "base/guard.h"
#include "core/qp.h"
#include "core/umr.h"

static struct ur_mw *mw_of(const struct ur_mr *view)
{
	return view ? view->window : NULL;
}

int ur_mw_create(struct ur_mr_table *t, struct ur_pd *pd, enum ur_mw_type type,
		 struct ur_mw **out)
{
	struct ur_mw *mw;
	int ret;

	if (type != UR_MW_TYPE_1 && type != UR_MW_TYPE_2)
		return -EINVAL;
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return -ENOMEM;
	mw->win.pd = pd;
	mw->win.window = mw;
	mw->type = type;
	ur_list_init(&mw->node);
	ur_lock_init(&mw->lock);
	ret = ur_mr_table_add(t, &mw->win, &t->nviews, UR_MAX_MW);
	if (ret) {
		ur_lock_fini(&mw->lock);
		free(mw);
		return ret;
	}
	atomic_fetch_add(&pd->users, 1);
	*out = mw;
	return 0;
}

/* Removes its access rights; under the table's lock. */
static void unbind_locked(struct ur_mw *mw)
{
	if (mw->win.length)
		ur_record_key_gone(&mw->win, UR_REC_UNBOUND);
	if (mw->mr)
		mw->mr->windows--;
	mw->mr = NULL;
	ur_list_del(&mw->node);
	ur_lock(&mw->lock);
	mw->qp = NULL;
	mw->win.access = 0;
	mw->win.length = 0;
	mw->win.addr = NULL;
	ur_unlock(&mw->lock);
}

void ur_mw_destroy(struct ur_mr_table *t, struct ur_mw *mw)
{
	ur_lock(&t->lock);
	unbind_locked(mw);
	ur_unlock(&t->lock);
	ur_mr_table_remove(t, &mw->win, &t->nviews);
	atomic_fetch_sub(&mw->win.pd->users, 1);
	ur_lock_fini(&mw->lock);
	free(mw);
}

static bool in_region(const struct ur_mw_bind *b, const struct ur_mr *mr)
{
	uint64_t off = b->addr - mr->iova;

	return b->addr >= mr->iova && off <= mr->length &&
	       b->length <= mr->length - off;
}

/* IBTA 10.6.7.2: C10-72 to C10-75, o10-36.2.2, o10-37.2.40. */
int ur_mw_check(enum ur_mw_type type, const struct ur_mw_bind *b,
		const struct ur_mr *mr)
{
	bool writes =
		b->access & (UR_ACCESS_REMOTE_WRITE | UR_ACCESS_REMOTE_ATOMIC);

	if (b->access & ~(uint32_t)UR_MW_ACCESS)
		return -EINVAL;
	if (type == UR_MW_TYPE_1 && (b->access & UR_ACCESS_ZERO_BASED))
		return -EINVAL;
	if (type == UR_MW_TYPE_2 && b->length == 0)
		return -EINVAL;
	if (!mr)
		return b->length ? -EINVAL : 0;
	if (b->length == 0)
		return 0;
	if (!(mr->access & UR_ACCESS_MW_BIND) ||
	    (mr->access & UR_ACCESS_ZERO_BASED) ||
	    (writes && !(mr->access & UR_ACCESS_LOCAL_WRITE)))
		return -EINVAL;
	return in_region(b, mr) ? 0 : -EINVAL;
}

static void show_locked(struct ur_mw *mw, struct ur_qp *qp,
			const struct ur_mw_bind *b, struct ur_mr *mr)
{
	unbind_locked(mw);
	ur_lock(&mw->lock);
	mw->win.key = (mw->win.key & ~0xffu) | (b->key & 0xffu);
	if (b->length && mr) {
		mw->win.access = b->access & ~(uint32_t)UR_ACCESS_LOCAL_WRITE;
		mw->win.iova = b->access & UR_ACCESS_ZERO_BASED ? 0 : b->addr;
		mw->win.length = b->length;
		mw->win.addr = mr->addr + (b->addr - mr->iova);
		mw->qp = mw->type == UR_MW_TYPE_2 ? qp : NULL;
		mw->mr = mr;
		mr->windows++;
	}
	ur_unlock(&mw->lock);
	if (mw->qp)
		ur_list_add_tail(&qp->windows, &mw->node);
}

static int bind_locked(struct ur_mr_table *t, struct ur_qp *qp,
		       const struct ur_mw_bind *b)
{
	struct ur_mw *mw = mw_of(ur_mr_find_family(t, b->window));
	struct ur_mr *mr = NULL;
	int ret;

	if (!mw || mw->win.pd != qp->pd)
		return -EINVAL;
	if (mw->type == UR_MW_TYPE_2 && mw->mr)
		return -EINVAL; /* o10-37.2.30: it is not free */
	if (b->lkey) {
		mr = ur_mr_lookup(t, b->lkey);
		if (!mr || mr->pd != qp->pd)
			return -EINVAL;
	}
	ret = ur_mw_check(mw->type, b, mr);
	if (!ret)
		show_locked(mw, qp, b, mr);
	return ret;
}

int ur_mw_bind(struct ur_mr_table *t, struct ur_qp *qp,
	       const struct ur_mw_bind *b)
{
	int ret;

	ur_lock(&t->lock);
	ret = bind_locked(t, qp, b);
	ur_unlock(&t->lock);
	return ret;
}

int ur_mw_invalidate(struct ur_mr_table *t, const struct ur_qp *qp,
		     uint32_t key)
{
	struct ur_mw *mw;
	int ret = -EINVAL;

	ur_lock(&t->lock);
	mw = mw_of(ur_mr_find(t, key));
	if (mw && mw->type == UR_MW_TYPE_2 && mw->win.pd == qp->pd &&
	    (!mw->mr || mw->qp == qp)) {
		unbind_locked(mw);
		ret = 0;
	}
	ur_unlock(&t->lock);
	return ret;
}

int ur_mw_request(struct ur_qp *qp, const struct ur_swqe *w)
{
	if (w->opcode == UR_WR_NOP)
		return w->wr.nop.status == UR_WC_SUCCESS ? 0 : -EIO;
	if (ur_swqe_is_umr(w))
		return ur_umr_request(qp, w);
	return w->opcode == UR_WR_BIND_MW
		       ? ur_mw_bind(qp->mrs, qp, &w->wr.bind)
		       : ur_mw_invalidate(qp->mrs, qp, w->imm_be);
}

int ur_mw_may_invalidate(const struct ur_mr_table *t, const struct ur_qp *qp,
			 uint32_t key)
{
	const struct ur_mr *view = ur_mr_find(t, key);
	struct ur_mw *mw = mw_of(view);
	const struct ur_qp *bound;

	if (!view)
		return -ENOENT;
	if (!mw || mw->type == UR_MW_TYPE_1)
		return -EACCES;
	ur_lock(&mw->lock);
	bound = mw->qp;
	ur_unlock(&mw->lock);
	if (!bound)
		return -ENOENT;
	return bound == qp ? 0 : -EPERM;
}

void ur_mw_release(struct ur_mr_table *t, struct ur_qp *qp)
{
	ur_lock(&t->lock);
	ur_list_each_safe(struct ur_mw, m, &qp->windows, node)
		unbind_locked(m);
	ur_unlock(&t->lock);
}

/* `mr` is a region, or a copy of a window's view. */
static int reach(const struct ur_mr *mr, const struct ur_pd *pd, uint64_t va,
		 uint64_t len, uint32_t access, uint8_t **at)
{
	uint64_t off = va - mr->iova;

	if (mr->pd != pd)
		return -EPERM;
	if ((mr->access & access) != access)
		return -EACCES;
	if (!at)
		return 0;
	if (va < mr->iova || off > mr->length || len > mr->length - off)
		return -ERANGE;
	*at = mr->addr + off;
	return 0;
}

static int reach_window(struct ur_mw *mw, const struct ur_pd *pd,
			const struct ur_qp *qp, uint32_t key, uint64_t va,
			uint64_t len, uint32_t access, uint8_t **at)
{
	int ret;

	ur_lock(&mw->lock);
	if (mw->win.key != key || !mw->win.length)
		ret = -ENOENT;
	else if (mw->type == UR_MW_TYPE_2 && mw->qp != qp)
		ret = -EPERM;
	else
		ret = reach(&mw->win, pd, va, len, access, at);
	ur_unlock(&mw->lock);
	return ret;
}

int ur_mr_reach(const struct ur_mr_table *t, const struct ur_pd *pd,
		const struct ur_qp *qp, uint32_t key, uint64_t va, uint64_t len,
		uint32_t access, uint8_t **at)
{
	const struct ur_mr *mr = ur_mr_find(t, key);
	int ret;

	if (!mr)
		return -ENOENT;
	if (mr->window)
		return reach_window(mr->window, pd, qp, key, va, len, access,
				    at);
	ret = reach(mr, pd, va, len, access, at);
	if (ret && mr->kind == UR_MR_INDIRECT)
		return ur_umr_reach(t, mr, pd, va, len, access, at);
	return ret;
}

/* A range of several pieces, after ur_mr_reach() has accepted it. NULL: the key
 * has been removed since. */
static const struct ur_mr *indirect(const struct ur_mr_table *t, uint32_t key)
{
	const struct ur_mr *mr = ur_mr_lookup(t, key);

	return mr && mr->kind == UR_MR_INDIRECT ? mr : NULL;
}

int ur_mr_pieces(const struct ur_mr_ref *m, uint32_t len, uint32_t access,
		 struct iovec *out, uint32_t max)
{
	const struct ur_mr *mr;
	uint64_t va = m->va;
	uint32_t n = 0;
	uint8_t *at;
	int ret = ur_mr_reach(m->t, m->pd, m->qp, m->key, va, len, access, &at);

	if (ret)
		return ret;
	if (at) {
		out[0] = (struct iovec){ at, len };
		return 1;
	}
	mr = indirect(m->t, m->key);
	if (!mr && len)
		return -ENOENT;
	while (len > 0) {
		int64_t size;

		if (n == max)
			return -E2BIG;
		size = ur_umr_piece(m->t, mr, m->pd, va, len, access, &at);
		if (size < 0)
			return (int)size;
		out[n++] = (struct iovec){ at, (size_t)size };
		va += (uint64_t)size;
		len -= (uint32_t)size;
	}
	return (int)n;
}

/* Pieces copied at a time */
#define COPY_PIECES 16u

static int copy(const struct ur_mr_ref *m, uint32_t access, uint8_t *buf,
		uint32_t len)
{
	struct ur_mr_ref from = *m;

	while (len > 0) {
		struct iovec iov[COPY_PIECES] = { { 0 } };
		int n = ur_mr_pieces(&from, len, access, iov, COPY_PIECES);

		if (n == -E2BIG)
			n = COPY_PIECES;
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++) {
			size_t size = iov[i].iov_len;
			bool out = access == UR_ACCESS_REMOTE_READ;

			if (ur_guard_copy(out ? buf : iov[i].iov_base,
					  out ? iov[i].iov_base : buf, size))
				return -EFAULT;
			buf += size;
			from.va += size;
			len -= (uint32_t)size;
		}
	}
	return 0;
}

int ur_mr_put(const struct ur_mr_ref *m, const void *src, uint32_t len)
{
	uint8_t *at;
	int ret = ur_mr_reach(m->t, m->pd, m->qp, m->key, m->va, len,
			      UR_ACCESS_REMOTE_WRITE, &at);

	if (ret)
		return ret;
	if (at)
		return ur_guard_copy(at, src, len);
	/* copy() does not write to buf when writing to memory. */
	return copy(m, UR_ACCESS_REMOTE_WRITE, (uint8_t *)(uintptr_t)src, len);
}

int ur_mr_get(const struct ur_mr_ref *m, void *dst, uint32_t len)
{
	uint8_t *at;
	int ret = ur_mr_reach(m->t, m->pd, m->qp, m->key, m->va, len,
			      UR_ACCESS_REMOTE_READ, &at);

	if (ret)
		return ret;
	return at ? ur_guard_copy(dst, at, len)
		  : copy(m, UR_ACCESS_REMOTE_READ, dst, len);
}
