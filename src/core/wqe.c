/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/wqe.h"

#include <errno.h>
#include <string.h>

#include "core/ringmem.h"

#define SLOT_ALIGN 64u

static uint32_t swqe_stride(uint32_t max_sge, uint32_t max_inline)
{
	size_t data = max_sge * sizeof(struct ur_sge);

	if (data < max_inline)
		data = max_inline;
	data += sizeof(struct ur_swqe);
	return (uint32_t)((data + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN);
}

static uint32_t rwqe_stride(uint32_t max_sge)
{
	return (uint32_t)(sizeof(struct ur_rwqe) +
			  max_sge * sizeof(struct ur_sge));
}

/* max_wr 0 makes no ring and is no error. */
static int ring_make(uint8_t **ring, uint32_t *mask, uint32_t max_wr,
		     uint32_t stride, const struct ur_ring_source **from,
		     enum ur_ring_what what)
{
	uint32_t slots = ur_pow2(max_wr);

	if (max_wr == 0)
		return 0;
	*ring = ur_ring_get(from, (size_t)slots * stride, what);
	if (!*ring)
		return -ENOMEM;
	*mask = slots - 1;
	return 0;
}

static size_t ring_bytes(uint32_t mask, uint32_t stride)
{
	return ((size_t)mask + 1) * stride;
}

static uint32_t at_least(uint32_t v, uint32_t least)
{
	return v > least ? v : least;
}

int ur_sq_init(struct ur_sq *sq, uint32_t max_wr, uint32_t max_sge,
	       uint32_t max_inline, uint32_t max_own)
{
	int ret;

	if (max_wr > UR_MAX_WR || max_sge > UR_MAX_SGE ||
	    max_inline > UR_MAX_INLINE)
		return -EINVAL;
	memset(sq, 0, sizeof(*sq));
	sq->stride = max_own ? swqe_stride(at_least(max_sge, 1),
					   at_least(max_inline, UR_OWN_INLINE))
			     : swqe_stride(max_sge, max_inline);
	sq->max_own = max_own;
	sq->max_wr = max_wr;
	sq->max_sge = max_sge;
	sq->max_inline = max_inline;
	ret = ring_make(&sq->ring, &sq->mask, max_wr + max_own, sq->stride,
			&sq->ring_source, UR_RING_SQ);
	if (!ret)
		ur_latch_init(&sq->lock);
	return ret;
}

void ur_sq_fini(struct ur_sq *sq)
{
	ur_ring_put(sq->ring_source, sq->ring, ring_bytes(sq->mask, sq->stride),
		    UR_RING_SQ);
}

bool ur_sq_begin_own(struct ur_sq *sq)
{
	return ur_latch_try(&sq->lock);
}

void ur_sq_end_own(struct ur_sq *sq, bool staged)
{
	if (staged)
		ur_sq_commit(sq);
	ur_latch_unlock(&sq->lock);
}

int ur_rq_init(struct ur_rq *rq, uint32_t max_wr, uint32_t max_sge,
	       uint32_t limit_wr)
{
	int ret;

	if (max_wr > limit_wr || max_sge > UR_MAX_SGE)
		return -EINVAL;
	memset(rq, 0, sizeof(*rq));
	rq->stride = rwqe_stride(max_sge);
	rq->max_wr = max_wr;
	rq->max_sge = max_sge;
	ret = ring_make(&rq->ring, &rq->mask, max_wr, rq->stride,
			&rq->ring_source, UR_RING_RQ);
	if (!ret)
		ur_latch_init(&rq->lock);
	return ret;
}

void ur_rq_fini(struct ur_rq *rq)
{
	ur_ring_put(rq->ring_source, rq->ring, ring_bytes(rq->mask, rq->stride),
		    UR_RING_RQ);
}

void ur_rq_reveal(struct ur_rq *rq)
{
	uint32_t end = ur_rq_posted(rq);

	if (!rq->open && (int32_t)(end - rq->enabled) > 0)
		end = rq->enabled;
	/* Not backwards: a receive that is visible stays so. */
	if ((int32_t)(end - atomic_load_explicit(&rq->tail,
						 memory_order_relaxed)) > 0)
		atomic_store_explicit(&rq->tail, end, memory_order_release);
}

int ur_rq_resize(struct ur_rq *rq, uint32_t max_wr)
{
	uint32_t head = atomic_load_explicit(&rq->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_relaxed);
	struct ur_rq to = { .stride = rq->stride,
			    .ring_source = rq->ring_source };
	int ret;

	if (max_wr == 0 || max_wr < tail - head)
		return -EINVAL;
	ret = ring_make(&to.ring, &to.mask, max_wr, rq->stride, &to.ring_source,
			UR_RING_RQ);
	if (ret)
		return ret;
	for (uint32_t i = head; i != tail; i++)
		memcpy(ur_rq_slot(&to, i), ur_rq_slot(rq, i), rq->stride);
	ur_ring_put(rq->ring_source, rq->ring, ring_bytes(rq->mask, rq->stride),
		    UR_RING_RQ);
	rq->ring = to.ring;
	rq->ring_source = to.ring_source;
	rq->mask = to.mask;
	rq->max_wr = max_wr;
	return 0;
}

/* A ring without slots needs no memory. */
static int set_ring_source(uint8_t **ring, size_t bytes, enum ur_ring_what what,
			   const struct ur_ring_source **current,
			   const struct ur_ring_source *source)
{
	void *to;

	if (!*ring)
		return 0;
	to = ur_ring_get(&source, bytes, what);
	if (!to)
		return -ENOMEM;
	ur_ring_put(*current, *ring, bytes, what);
	*ring = to;
	*current = source;
	return 0;
}

int ur_sq_set_ring_source(struct ur_sq *sq, const struct ur_ring_source *source)
{
	return set_ring_source(&sq->ring, ring_bytes(sq->mask, sq->stride),
			       UR_RING_SQ, &sq->ring_source, source);
}

int ur_rq_set_ring_source(struct ur_rq *rq, const struct ur_ring_source *source)
{
	return set_ring_source(&rq->ring, ring_bytes(rq->mask, rq->stride),
			       UR_RING_RQ, &rq->ring_source, source);
}
