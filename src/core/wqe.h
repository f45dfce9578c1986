/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send and receive queues: rings of fixed-size slots. Posters hold the queue's
 * lock and advance `tail`, the lane advances `head` when a request is complete.
 * Counters run freely; the slot is counter & mask.
 */
#ifndef UR_CORE_WQE_H
#define UR_CORE_WQE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/latch.h"
#include "core/mw.h"
#include "core/ringmem.h"
#include "core/types.h"

struct ur_cq;
struct ur_cross;

/* A send work request. */
struct ur_swqe {
	uint64_t wr_id;
	uint8_t opcode;	  /* enum ur_wr_opcode */
	uint8_t flags;	  /* UR_SEND_ */
	uint16_t num_sge; /* 0 with UR_SEND_INLINE */
	uint32_t length;  /* total bytes of SGEs or inline data */
	uint32_t imm_be;  /* immediate data or the key to invalidate or empty */
	/* Written by the protocol only. */
	uint32_t first_psn;
	uint32_t last_psn;
	uint8_t proto_state;
	/* RC: payload of its packets except the last one; of `even` ones, which are
	 * of one length (roce/full.h), the least, with headers behind the BTH. */
	bool even;
	uint16_t mtu;
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
		struct {
			uint8_t status; /* enum ur_wc_status it ends with */
		} nop;
		/* The next three are those of core/cross.h. */
		struct {
			struct ur_cq *cq;
			uint64_t until; /* entries that it must have had */
		} wait;
		struct {
			struct ur_cross *of;
			uint32_t until;
		} enable;
		struct {
			uint64_t remote_addr; /* as `rdma` so far */
			uint32_t rkey;
			uint32_t srqn;
			uint8_t op;   /* enum ur_calc_op */
			uint8_t type; /* enum ur_calc_type */
			uint8_t into; /* the opcode that the result goes by */
		} calc;
	} wr;
	/* num_sge entries, or `length` bytes of inline data */
	union {
		struct ur_sge sge[0];
		uint8_t inline_data[0];
	} data;
};

_Static_assert(offsetof(struct ur_swqe, wr.rdma.srqn) ==
		       offsetof(struct ur_swqe, wr.atomic.srqn),
	       "srqn");
_Static_assert(offsetof(struct ur_swqe, wr.rdma.srqn) ==
		       offsetof(struct ur_swqe, wr.calc.srqn),
	       "srqn");

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
	/* Of a cross-channel queue pair (core/cross.h): posters advance
	 * `posted`, and the lane advances `tail`. */
	bool gated; /* constant */
	_Atomic uint32_t posted;
	/* The ring's source; NULL: default memory. */
	const struct ur_ring_source *ring_source;
};

/* The header of a TSO request follows the slot's scatter/gather list. */
static inline uint8_t *ur_swqe_tso_hdr(const struct ur_sq *sq,
				       struct ur_swqe *w)
{
	return (uint8_t *)(w->data.sge + sq->max_sge);
}

/* So do the operands of an atomic with masks, which has no such header. */
struct ur_masked;
static inline struct ur_masked *ur_swqe_masked(const struct ur_sq *sq,
					       const struct ur_swqe *w)
{
	return (struct ur_masked *)(uintptr_t)(w->data.sge + sq->max_sge);
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
	/* Of a managed queue (core/cross.h): posters advance `posted`, and
	 * `tail` follows up to `enabled`; lock. */
	bool gated; /* constant */
	bool open;  /* its queue pair is in ERR: all are enabled */
	_Atomic uint32_t tail;
	_Atomic uint32_t head;
	_Atomic uint32_t posted;
	uint32_t enabled;
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
	atomic_store_explicit(sq->gated ? &sq->posted : &sq->tail, sq->staged,
			      memory_order_release);
}

/* One past the newest committed request. */
static inline uint32_t ur_sq_posted(const struct ur_sq *sq)
{
	return atomic_load_explicit(sq->gated ? &sq->posted : &sq->tail,
				    memory_order_acquire);
}

static inline void ur_sq_abort(struct ur_sq *sq)
{
	sq->staged = ur_sq_posted(sq);
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

/* Discard all requests that the lane sees. Returns the counter of the next. */
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

static inline bool ur_swqe_is_masked(const struct ur_swqe *w)
{
	return w->opcode == UR_WR_MASKED_CMP_SWP ||
	       w->opcode == UR_WR_MASKED_FETCH_ADD;
}

/* Does its response carry the old value? */
static inline bool ur_swqe_is_atomic(const struct ur_swqe *w)
{
	return w->opcode == UR_WR_CMP_SWP || w->opcode == UR_WR_FETCH_ADD ||
	       ur_swqe_is_masked(w);
}

static inline bool ur_swqe_is_cas(const struct ur_swqe *w)
{
	return w->opcode == UR_WR_CMP_SWP || w->opcode == UR_WR_MASKED_CMP_SWP;
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

/* Does it change an indirect key (umr.h)? */
static inline bool ur_swqe_is_umr(const struct ur_swqe *w)
{
	return w->opcode == UR_WR_UMR_FILL || w->opcode == UR_WR_UMR_INVALIDATE;
}

/* Does it send no packet? */
static inline bool ur_swqe_is_local(const struct ur_swqe *w)
{
	return w->opcode == UR_WR_BIND_MW || w->opcode == UR_WR_LOCAL_INV ||
	       w->opcode == UR_WR_NOP || ur_swqe_is_umr(w);
}

/* The status with which a failed one completes. */
static inline uint8_t ur_swqe_local_error(const struct ur_swqe *w)
{
	return w->opcode == UR_WR_NOP ? w->wr.nop.status : UR_WC_MW_BIND_ERR;
}

/* The same for receives, under rq->lock; the slot is visible when
 * ur_rq_commit() is called. */
static inline uint32_t ur_rq_posted(const struct ur_rq *rq)
{
	return atomic_load_explicit(rq->gated ? &rq->posted : &rq->tail,
				    memory_order_relaxed);
}

static inline struct ur_rwqe *ur_rq_stage(struct ur_rq *rq)
{
	uint32_t tail = ur_rq_posted(rq);
	uint32_t head = atomic_load_explicit(&rq->head, memory_order_acquire);

	if (tail - head >= rq->max_wr)
		return NULL;
	return ur_rq_slot(rq, tail);
}

/* A managed queue: its tail follows as far as it is enabled. */
void ur_rq_reveal(struct ur_rq *rq);

/* All receives before `end` are posted. */
static inline void ur_rq_commit_to(struct ur_rq *rq, uint32_t end)
{
	atomic_store_explicit(rq->gated ? &rq->posted : &rq->tail, end,
			      memory_order_release);
	if (rq->gated)
		ur_rq_reveal(rq);
}

static inline void ur_rq_commit(struct ur_rq *rq)
{
	ur_rq_commit_to(rq, ur_rq_posted(rq) + 1);
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

/* Discard all receives that the consumer sees. */
static inline void ur_rq_clear(struct ur_rq *rq)
{
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_acquire);

	atomic_store_explicit(&rq->head, tail, memory_order_release);
}

#endif
