/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the flight recorder: why an access was refused, found out by the
 * checks of core/mw.c again, one after the other, and which keys were removed.
 */
#include <errno.h>
#include <string.h>

#include "core/mw.h"
#include "core/qp.h"

static uint32_t handle_of(const struct ur_pd *pd)
{
	return pd ? pd->handle : 0;
}

static uint64_t pair(uint32_t low, uint32_t high)
{
	return low | (uint64_t)high << 32;
}

/* The first check that fails. -EFAULT: none, so the memory is not mapped;
 * -ENOLINK: none, so a block of an indirect key fails. */
static int why(const struct ur_mr *mr, const struct ur_qp *qp,
	       const struct ur_record_access *a)
{
	uint64_t off = a->va - mr->iova;
	const struct ur_mw *mw = mr->window;

	if (mw && !mw->win.length)
		return -ENOENT;
	if (mw && (mw->type == UR_MW_TYPE_2) && mw->qp != qp)
		return -EXDEV;
	if (mr->pd != a->pd)
		return -EPERM;
	if ((mr->access & a->need) != a->need)
		return -EACCES;
	if (a->va < mr->iova || off > mr->length ||
	    a->length > mr->length - off)
		return -ERANGE;
	return mr->kind == UR_MR_INDIRECT ? -ENOLINK : -EFAULT;
}

static int describe(const struct ur_mr *mr, const struct ur_qp *qp,
		    const struct ur_record_access *a, struct ur_record *e)
{
	int err = why(mr, qp, a);

	e->arg[UR_RECK_IOVA] = mr->iova;
	e->arg[UR_RECK_HAS] = mr->length;
	e->arg[UR_RECK_GRANTS] = pair(mr->access, handle_of(mr->pd));
	if (mr->window)
		e->arg[UR_RECK_NEED] |=
			pair(0, mr->window->qp ? mr->window->qp->qpn : 0) |
			UR_RECK_WINDOW;
	return err;
}

void ur_record_access(struct ur_qp *qp, const struct ur_record_access *a)
{
	struct ur_record e = { .type = UR_REC_KEY, .side = (uint8_t)a->side };
	const struct ur_mr *mr;
	int err = -ENOENT;

	if (!qp->record.ring)
		return;
	e.arg[UR_RECK_KEY] = pair(a->key, handle_of(a->pd));
	e.arg[UR_RECK_VA] = a->va;
	e.arg[UR_RECK_LENGTH] = a->length;
	e.arg[UR_RECK_NEED] = a->need;
	mr = ur_mr_find(qp->mrs, a->key);
	if (mr && mr->window && a->side != UR_REC_REMOTE)
		mr = NULL; /* not a local key */
	if (mr && mr->window) {
		ur_lock(&mr->window->lock);
		err = describe(mr, qp, a, &e);
		ur_unlock(&mr->window->lock);
	} else if (mr) {
		err = describe(mr, qp, a, &e);
	}
	e.code = (uint8_t)-err;
	ur_record_add(qp, &e);
}

static bool may_use(const struct ur_qp *qp, const struct ur_pd *pd,
		    const struct ur_sge *s, uint32_t need)
{
	const struct ur_mr *mr = ur_mr_lookup(qp->mrs, s->lkey);

	if (!mr)
		return false;
	if (mr->kind == UR_MR_NULL || mr->kind == UR_MR_INDIRECT)
		return mr->pd == pd;
	return ur_mr_translate(mr, pd, s->addr, s->length, need) ||
	       (mr->addr == NULL && mr->pd == pd);
}

/* If all may be used, the first one with data is not mapped. */
void ur_record_list(struct ur_qp *qp, const struct ur_pd *pd,
		    const struct ur_sge *sge, uint32_t n, uint32_t need,
		    enum ur_record_side side)
{
	const struct ur_sge *bad = NULL;

	if (!qp->record.ring)
		return;
	for (uint32_t i = 0; i < n; i++) {
		if (!sge[i].length)
			continue;
		if (!bad)
			bad = &sge[i];
		if (!may_use(qp, pd, &sge[i], need)) {
			bad = &sge[i];
			break;
		}
	}
	if (bad)
		ur_record_access(
			qp, &(struct ur_record_access){ .pd = pd,
							.key = bad->lkey,
							.need = need,
							.va = bad->addr,
							.length = bad->length,
							.side = side });
}

void ur_record_key_gone(const struct ur_mr *mr, enum ur_record_why reason)
{
	struct ur_recorder *r =
		atomic_load_explicit(&ur_recorder, memory_order_acquire);
	struct ur_record_key *k;
	uint32_t v;

	if (!r)
		return;
	ur_lock(&r->lock);
	k = &r->file->key[r->keys++ % UR_RECORD_KEYS];
	v = atomic_load_explicit(&k->version, memory_order_relaxed);
	atomic_store_explicit(&k->version, v | 1u, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	k->key = atomic_load_explicit(&mr->key, memory_order_relaxed);
	k->access = mr->access;
	k->pd = handle_of(mr->pd);
	k->iova = mr->iova;
	k->length = mr->length;
	k->gone_ns = r->now();
	k->thread = r->thread();
	k->why = reason;
	atomic_store_explicit(&k->version, (v | 1u) + 1, memory_order_release);
	ur_unlock(&r->lock);
}
