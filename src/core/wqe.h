/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send and receive queues: rings of fixed-size slots. Posters hold the queue's
 * lock and advance `tail`, the lane advances `head` when a request is complete.
 * Counters run freely; the slot is counter & mask.
 */
#ifndef UR_CORE_WQE_H
#define UR_CORE_WQE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/latch.h"
#include "core/mw.h"
#include "core/ringmem.h"
#include "core/types.h"

/* A send work request. */
struct ur_swqe {
	uint64_t wr_id;
	uint8_t opcode;	  /* enum ur_wr_opcode */
	uint8_t flags;	  /* UR_SEND_ */
	uint16_t num_sge; /* 0 with UR_SEND_INLINE */
	uint32_t length;  /* total bytes of SGEs or inline data */
	uint32_t imm_be;  /* immediate data or the key to invalidate */
	/* Written by the protocol only. */
	uint32_t first_psn;
	uint32_t last_psn;
	uint8_t proto_state;
	uint16_t mtu; /* RC: payload of its packets except the last one */
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
			uint32_t srqn; /* XRC: of SENDs as well */
		} rdma;
		struct ur_mw_bind bind;
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
			uint8_t placement; /* UR_FLUSH_ */
			uint8_t level;	   /* enum ur_flush_level */
		} flush; /* `length` is its range; it has no data */
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
			uint64_t value; /* if there is no other data */
		} atomic_write;
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
			uint32_t srqn; /* same offset as in the other members */
			uint64_t compare_add;
			uint64_t swap;
		} atomic;
		struct {
			struct ur_av av;
			uint32_t dqpn;
			uint32_t qkey;
		} ud;
		struct {
			uint16_t mss;
			uint16_t hdr_len; /* after the list, see below */
		} tso;
	} wr;
	/* num_sge entries, or `length` bytes of inline data */
	union {
		struct ur_sge sge[0];
		uint8_t inline_data[0];
	} data;
};

struct ur_sq {
	struct ur_latch lock; /* posters */
	uint8_t *ring;
	uint32_t stride; /* slot size, bytes, a multiple of 64 */
	uint32_t mask;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t staged;       /* uncommitted tail of a builder; lock */
	_Atomic uint32_t tail; /* committed; posters write under lock */
	_Atomic uint32_t
		head; /* oldest incomplete request; written by the lane */
	/*
	 * Internal requests of the protocol among them; not counted in max_wr.
	 */
	_Atomic uint32_t own;
	uint32_t max_own;
	/* The ring's source; NULL: default memory. */
	const struct ur_ring_source *ring_source;
};

/* The header of a TSO request follows the slot's scatter/gather list. */
static inline uint8_t *ur_swqe_tso_hdr(const struct ur_sq *sq,
				       struct ur_swqe *w)
{
	return (uint8_t *)(w->data.sge + sq->max_sge);
}

struct ur_rwqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t length;
	struct ur_sge sge[];
};

struct ur_rq {
	struct ur_latch lock; /* posters; for an SRQ the lanes as well */
	uint8_t *ring;
	uint32_t stride;
	uint32_t mask;
	uint32_t max_wr;
	uint32_t max_sge;
	_Atomic uint32_t tail;
	_Atomic uint32_t head;
	/* The ring's source; NULL: default memory. */
	const struct ur_ring_source *ring_source;
};

/* max_wr, max_sge, max_inline are granted exactly; -EINVAL above the limits
 * (of receives: limit_wr, that is UR_MAX_WR or UR_MAX_SRQ_WR), -ENOMEM.
 * max_wr 0 makes a queue on which nothing can be posted. Of a send queue,
 * max_own internal requests of the protocol have room beside these, with an SGE
 * and UR_OWN_INLINE bytes each. */
#define UR_OWN_INLINE 64u
int ur_sq_init(struct ur_sq *sq, uint32_t max_wr, uint32_t max_sge,
	       uint32_t max_inline, uint32_t max_own);
void ur_sq_fini(struct ur_sq *sq);
int ur_rq_init(struct ur_rq *rq, uint32_t max_wr, uint32_t max_sge,
	       uint32_t limit_wr);
void ur_rq_fini(struct ur_rq *rq);

/*
 * Move the ring of an unpublished queue into memory of the source. 0, -ENOMEM.
 */
int ur_sq_set_ring_source(struct ur_sq *sq,
			  const struct ur_ring_source *source);
int ur_rq_set_ring_source(struct ur_rq *rq,
			  const struct ur_ring_source *source);

/* Under rq->lock, which consumers take too: change max_wr, keep posted
 * receives. -EINVAL: 0 or below the number posted; -ENOMEM. */
int ur_rq_resize(struct ur_rq *rq, uint32_t max_wr);

static inline struct ur_swqe *ur_sq_slot(const struct ur_sq *sq, uint32_t i)
{
	return (struct ur_swqe *)(void *)(sq->ring +
					  (size_t)(i & sq->mask) * sq->stride);
}

static inline struct ur_rwqe *ur_rq_slot(const struct ur_rq *rq, uint32_t i)
{
	return (struct ur_rwqe *)(void *)(rq->ring +
					  (size_t)(i & rq->mask) * rq->stride);
}

/*
 * Posting, under sq->lock: ur_sq_stage() returns the next slot or NULL if
 * max_wr requests are outstanding; ur_sq_commit() makes all staged slots
 * visible to the lane; ur_sq_abort() discards them.
 */
static inline struct ur_swqe *ur_sq_stage(struct ur_sq *sq)
{
	uint32_t head = atomic_load_explicit(&sq->head, memory_order_acquire);

	if (sq->staged - head -
		    atomic_load_explicit(&sq->own, memory_order_relaxed) >=
	    sq->max_wr)
		return NULL;
	return ur_sq_slot(sq, sq->staged++);
}

static inline bool ur_sq_has_own(const struct ur_sq *sq, uint32_t n)
{
	return atomic_load_explicit(&sq->own, memory_order_relaxed) + n <=
	       sq->max_own;
}

/*
 * The lane stages internal requests: begin, stage while ur_sq_has_own(), end,
 * which makes them visible if any were staged. False: a poster holds the lock,
 * and will kick the QP when it is done.
 */
bool ur_sq_begin_own(struct ur_sq *sq);
void ur_sq_end_own(struct ur_sq *sq, bool staged);
static inline struct ur_swqe *ur_sq_stage_own(struct ur_sq *sq)
{
	atomic_fetch_add_explicit(&sq->own, 1, memory_order_relaxed);
	return ur_sq_slot(sq, sq->staged++);
}

/* An internal request is complete. Called before the head advances: in between
 * a poster may see too many internal requests, never too few. */
static inline void ur_sq_release_own(struct ur_sq *sq)
{
	atomic_fetch_sub_explicit(&sq->own, 1, memory_order_release);
}

static inline void ur_sq_commit(struct ur_sq *sq)
{
	atomic_store_explicit(&sq->tail, sq->staged, memory_order_release);
}

static inline void ur_sq_abort(struct ur_sq *sq)
{
	sq->staged = atomic_load_explicit(&sq->tail, memory_order_relaxed);
}

/* The lane: the oldest incomplete request, and one past the newest posted. */
static inline uint32_t ur_sq_head(const struct ur_sq *sq)
{
	return atomic_load_explicit(&sq->head, memory_order_relaxed);
}

static inline uint32_t ur_sq_tail(const struct ur_sq *sq)
{
	return atomic_load_explicit(&sq->tail, memory_order_acquire);
}

/* The oldest is complete: frees its slot. */
static inline void ur_sq_pop(struct ur_sq *sq)
{
	atomic_store_explicit(&sq->head, ur_sq_head(sq) + 1,
			      memory_order_release);
}

/* Discard all posted requests. Returns the counter of the next one. */
static inline uint32_t ur_sq_clear(struct ur_sq *sq)
{
	uint32_t tail = ur_sq_tail(sq);

	atomic_store_explicit(&sq->head, tail, memory_order_release);
	return tail;
}

static inline bool ur_swqe_is_read(const struct ur_swqe *w)
{
	return w->opcode == UR_WR_RDMA_READ;
}

static inline bool ur_swqe_is_write(const struct ur_swqe *w)
{
	return w->opcode == UR_WR_RDMA_WRITE ||
	       w->opcode == UR_WR_RDMA_WRITE_IMM;
}

/* Does its response carry the old value? */
static inline bool ur_swqe_is_atomic(const struct ur_swqe *w)
{
	return w->opcode == UR_WR_CMP_SWP || w->opcode == UR_WR_FETCH_ADD;
}

/* IBTA A19: FLUSH and ATOMIC WRITE are answered by an empty READ response. */
static inline bool ur_swqe_is_placed(const struct ur_swqe *w)
{
	return w->opcode == UR_WR_FLUSH || w->opcode == UR_WR_ATOMIC_WRITE;
}

/* Is it completed by a response, not an acknowledgement? */
static inline bool ur_swqe_is_answered(const struct ur_swqe *w)
{
	return ur_swqe_is_read(w) || ur_swqe_is_atomic(w) ||
	       ur_swqe_is_placed(w);
}

/* Does it send no packet? */
static inline bool ur_swqe_is_local(const struct ur_swqe *w)
{
	return w->opcode == UR_WR_BIND_MW || w->opcode == UR_WR_LOCAL_INV ||
	       w->opcode == UR_WR_NOP;
}

/* The same for receives; the slot is visible when ur_rq_commit() is called. */
static inline struct ur_rwqe *ur_rq_stage(struct ur_rq *rq)
{
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_relaxed);
	uint32_t head = atomic_load_explicit(&rq->head, memory_order_acquire);

	if (tail - head >= rq->max_wr)
		return NULL;
	return ur_rq_slot(rq, tail);
}

static inline void ur_rq_commit(struct ur_rq *rq)
{
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_relaxed);

	atomic_store_explicit(&rq->tail, tail + 1, memory_order_release);
}

/* The consumer: the oldest receive; NULL: none. */
static inline struct ur_rwqe *ur_rq_first(const struct ur_rq *rq)
{
	uint32_t head = atomic_load_explicit(&rq->head, memory_order_relaxed);

	if (head == atomic_load_explicit(&rq->tail, memory_order_acquire))
		return NULL;
	return ur_rq_slot(rq, head);
}

/* It is complete: frees its slot. */
static inline void ur_rq_pop(struct ur_rq *rq)
{
	uint32_t head = atomic_load_explicit(&rq->head, memory_order_relaxed);

	atomic_store_explicit(&rq->head, head + 1, memory_order_release);
}

/* Discard all posted receives. */
static inline void ur_rq_clear(struct ur_rq *rq)
{
	atomic_store_explicit(&rq->head,
			      atomic_load_explicit(&rq->tail,
						   memory_order_acquire),
			      memory_order_release);
}

#endif
