/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The initiator's cache of its peer's queue pairs and regions, so that a
 * request costs two comparisons: our copy of an entry is valid while the entry
 * has the same sequence number.  All checks use the copy, which the peer cannot
 * change.
 */
#include "shm/direct_internal.h"

/* A region that is used this often is worth a mapping. */
#define ASK_AFTER 2u
/* An answer that takes so many uses was lost. */
#define ASK_AGAIN 4096u

/* A queue pair may have two entries: ur_export_rndv_key(). */
static uint32_t qp_place(uint32_t qpn)
{
	return (qpn ^ qpn >> 24) % UR_QP_VIEWS;
}

static const struct ur_qp_view *qp_view(struct ur_direct *r, uint32_t qpn)
{
	struct ur_qp_view *q = &r->qps[qp_place(qpn)];

	if (q->at && q->is.key == qpn && ur_seg_same(q->at, q->is.seq))
		return q;
	q->at = ur_seg_find(&r->seg->qps, qpn, &q->is);
	return q->at ? q : NULL;
}

static struct ur_view *set_of(struct ur_direct *r, uint32_t key)
{
	/* The upper bits are random. */
	return r->views[(key >> 8) % UR_VIEW_SETS];
}

struct ur_view *ur_view_find(struct ur_direct *r, uint32_t key, uint64_t seq)
{
	struct ur_view *set = set_of(r, key);

	for (uint32_t i = 0; i < UR_VIEW_WAYS; i++)
		if (set[i].state != UR_VIEW_FREE && set[i].is.key == key &&
		    set[i].is.seq == seq)
			return &set[i];
	return NULL;
}

/* A view without mapping may be evicted, the least used first. */
static struct ur_view *view_evict(struct ur_view *set)
{
	struct ur_view *v = NULL;

	for (uint32_t i = 0; i < UR_VIEW_WAYS; i++) {
		if (set[i].state == UR_VIEW_FREE)
			return &set[i];
		if (!set[i].object && (!v || set[i].uses < v->uses))
			v = &set[i];
	}
	return v;
}

static struct ur_view *view_make(struct ur_direct *r, uint32_t key)
{
	struct ur_seg_entry is;
	const struct ur_seg_entry *at = ur_seg_find(&r->seg->mrs, key, &is);
	struct ur_view *v;

	if (!at)
		return NULL;
	v = view_evict(set_of(r, key));
	if (v)
		*v = (struct ur_view){ .state = UR_VIEW_SEEN,
				       .at = at,
				       .is = is };
	return v;
}

static struct ur_view *mr_view(struct ur_direct *r, uint32_t key)
{
	struct ur_view *set = set_of(r, key);

	for (uint32_t i = 0; i < UR_VIEW_WAYS; i++)
		if (set[i].state != UR_VIEW_FREE && set[i].is.key == key &&
		    ur_seg_same(set[i].at, set[i].is.seq))
			return &set[i];
	return view_make(r, key);
}

/* IBTA 9.7.4.1.5 ff.: what a responder checks of the R_Key. */
static bool may_reach(const struct ur_seg_entry *mr, const struct ur_op *op)
{
	uint64_t off = op->va - mr->mr.iova;

	return (mr->access & op->access) == op->access &&
	       op->va >= mr->mr.iova && off <= mr->mr.length &&
	       op->len <= mr->mr.length - off;
}

/* Operations that pay for copying and remapping (power of two), */
#define REQUEST_AFTER 256u
/* for each of so many bytes. */
#define REQUEST_BYTES 4194304u

static void count_unmappable(struct ur_direct *r, struct ur_view *v)
{
	if (!v->sharable)
		return;
	v->uses++;
	/* After a refusal the request is repeated more and more rarely. */
	if (v->uses >= REQUEST_AFTER &&
	    v->uses / REQUEST_AFTER >= v->is.mr.length / REQUEST_BYTES &&
	    (v->uses & (v->uses - 1)) == 0)
		ur_msg_make_shared(r, &v->is);
}

/* Without an answer nothing is known of the memory. */
static void count_use(struct ur_direct *r, struct ur_view *v)
{
	if (v->state == UR_VIEW_NONE) {
		count_unmappable(r, v);
		return;
	}
	v->uses++;
	if (v->state == UR_VIEW_ASKED ? v->uses % ASK_AGAIN != 0
				      : v->uses < ASK_AFTER)
		return;
	if (ur_msg_ask(r, &v->is)) {
		v->state = UR_VIEW_ASKED;
		r->stats.asked++;
	}
}

bool ur_view_is_mapped(struct ur_direct *r, uint32_t key)
{
	struct ur_view *v = mr_view(r, key);

	if (v && v->state != UR_VIEW_MAPPED)
		count_use(r, v);
	return v && v->state == UR_VIEW_MAPPED;
}

bool ur_view_is_asked(struct ur_direct *r, uint32_t key)
{
	const struct ur_view *v = mr_view(r, key);

	return v && v->state == UR_VIEW_ASKED;
}

/*
 * The region's view, if queue pair and region permit the operation; else NULL.
 */
static struct ur_view *may(struct ur_direct *r, const struct ur_op *op,
			   const struct ur_qp_view *q)
{
	struct ur_view *v;

	if (!q || q->is.qp.dest_qpn != op->sqpn ||
	    (q->is.access & op->access) != op->access)
		return NULL;
	v = mr_view(r, op->rkey);
	if (!v || v->is.pd != q->is.pd || !may_reach(&v->is, op))
		return NULL;
	return v;
}

struct ur_view *ur_view_may(struct ur_direct *r, const struct ur_op *op)
{
	return may(r, op, qp_view(r, op->dqpn));
}

bool ur_view_still(const struct ur_direct *r, const struct ur_op *op,
		   const struct ur_view *v)
{
	const struct ur_qp_view *q = &r->qps[qp_place(op->dqpn)];

	atomic_thread_fence(memory_order_acquire);
	return ur_seg_same(q->at, q->is.seq) && ur_seg_same(v->at, v->is.seq);
}

bool ur_view_memo(struct ur_direct *r, const struct ur_op *op,
		  struct ur_memo *m)
{
	const struct ur_qp_view *q = qp_view(r, op->dqpn);
	const struct ur_view *v = may(r, op, q);
	uint32_t can = UR_ACCESS_REMOTE_READ;

	if (!v || v->state != UR_VIEW_MAPPED)
		return false;
	if (v->object->writable)
		can |= UR_ACCESS_REMOTE_WRITE | UR_ACCESS_REMOTE_ATOMIC;
	*m = (struct ur_memo){ .dqpn = op->dqpn,
			       .sqpn = op->sqpn,
			       .rkey = op->rkey,
			       .access = q->is.access & v->is.access & can,
			       .turn = r->turn,
			       .qp = q->at,
			       .mr = v->at,
			       .qp_seq = q->is.seq,
			       .mr_seq = v->is.seq,
			       .iova = v->is.mr.iova,
			       .length = v->is.mr.length,
			       .base = v->base };
	return true;
}

struct ur_view *ur_view_admit(struct ur_direct *r, const struct ur_op *op)
{
	struct ur_view *v = ur_view_may(r, op);

	if (v && v->state != UR_VIEW_MAPPED)
		count_use(r, v);
	return v;
}
