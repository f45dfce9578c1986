/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues. Producers are lanes, consumers application threads; both
 * sides take cq->lock, and only the emptiness check goes without it.
 *
 * Arm, check and signal are one protocol under that lock, so that no event is
 * lost: ur_cq_push() on an armed queue disarms and signals. Arming looks
 * forward only (IBTA 11.4.2.2): a program polls once more after arming, before
 * it sleeps. Programs rely on that: ibv_rc_pingpong treats an event without a
 * new entry as an error. Only of a channel that does not block there may be such
 * an event (ur_cq_take_idle()).
 *
 * A queue can be made late (a fault, urnic-fault(7)): completions are then kept
 * behind the tail, in order, until ur_cq_show() moves it.
 */
#ifndef UR_CORE_CQ_H
#define UR_CORE_CQ_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/latch.h"
#include "base/list.h"
#include "core/event.h"
#include "core/ringmem.h"
#include "core/types.h"

struct ur_qp;

/* The kind of object that ur_cqe.qp points to */
enum ur_cqe_owner {
	UR_CQE_QP = 0,
	UR_CQE_SRQ, /* one with a CQ of its own (XRC, tag matching) */
	UR_CQE_DCT, /* a target of DC */
	UR_CQE_RAW, /* a QP or work queue that receives raw packets */
};

struct ur_cqe {
	uint64_t wr_id;
	/* The lane's clock at completion; approximate if the queue is not
	 * `stamped`. */
	uint64_t ts_ns;
	/* The owner: an identity to compare, never dereferenced once queued. */
	const void *qp;
	uint32_t qpn;
	uint32_t src_qp;
	uint32_t byte_len;
	uint32_t imm_be; /* immediate data, or the invalidated rkey */
	union {
		uint32_t vendor_err;
		uint32_t tm_priv; /* of a message that matched */
	};
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t status; /* enum ur_wc_status */
	uint8_t opcode; /* enum ur_wc_opcode */
	uint8_t flags;	/* UR_WC_ */
	uint8_t sl;
	uint8_t dlid_path_bits;
	uint8_t owner; /* enum ur_cqe_owner */
	union {
		/* Raw packets: the stripped VLAN tag, the flow's tag */
		struct {
			uint16_t cvlan;
			uint32_t flow_tag;
		};
		uint64_t tm_tag; /* of a message that matched (core/tm.h) */
	};
};

enum ur_cq_armed {
	UR_CQ_IDLE,
	UR_CQ_ARMED_SOLICITED,
	UR_CQ_ARMED_ANY,
};

struct ur_cq;

/* Under cq->lock: until when its next completion, the `number`th since the queue was
 * made, is not to be seen; 0: it is seen at once. */
typedef uint64_t ur_cq_late_fn(void *arg, const struct ur_cq *cq,
			       uint64_t number);

struct ur_cq {
	struct ur_latch lock;
	struct ur_cqe *ring; /* capacity a power of two */
	uint32_t mask;
	uint32_t cqe; /* usable entries: mask, at least as many as requested */
	uint32_t limit;		/* the same, or 0: exhausted or late; lock */
	_Atomic uint32_t tail;	/* producer; written under lock */
	_Atomic uint32_t head;	/* consumer; written under lock */
	_Atomic uint32_t armed; /* enum ur_cq_armed; written under lock */
	bool overrun;
	bool exhausted;		     /* ur_cq_exhaust(); lock */
	_Atomic bool ignore_overrun; /* written under lock; see ur_cq_push() */
	bool waited_for;	     /* `waiting` may have members; lock */
	bool stamped; /* constant: the application may read the entries' ts_ns */
	/* Entries that it has had; with ignore_overrun those lost too; lock. */
	uint64_t pushed;
	/* Moderation (ur_cq_moderate()); lock. */
	uint32_t mod_count; /* 0: none */
	uint32_t mod_seen;  /* completions that would have signalled */
	uint64_t mod_period_ns;
	_Atomic uint64_t fire_at_ns; /* UR_NEVER: no signal is pending */
	struct ur_list moderated;    /* the engine's, under its lock */
	struct ur_evq *channel;	     /* NULL: none */
	struct ur_evq *async;	     /* receives CQ_ERR; NULL: none */
	/* Cross-channel queue pairs that wait for completions (core/cross.h);
	 * lock. */
	struct ur_list waiting;
	struct ur_ev event;		  /* its entry in the channel's queue */
	struct ur_ev_source source;	  /* completion events */
	struct ur_ev_source async_source; /* asynchronous events */
	void *object;			  /* the ABI layer's ibv_cq */
	_Atomic uint64_t lanes;	   /* bit i: lane i has a QP on this queue */
	_Atomic uint64_t armed_ns; /* the engine's: when it was last armed */
	_Atomic uint32_t users;	   /* QPs attached: destroying needs 0 */
	/* Threads that yield, since they polled and the lane was taken */
	_Atomic uint32_t yielders;
	/* ur_cq_set_late(); lock. */
	ur_cq_late_fn *late; /* NULL: the queue is not late */
	void *late_arg;
	uint32_t held; /* entries behind the tail */
	bool held_solicited;
	uint64_t show_at_ns; /* UR_NEVER: none are held */
	/* The ring's source; NULL: default memory. */
	const struct ur_ring_source *ring_source;
	/*
	 * For diagnostics from other processes; the engine's, under its lock.
	 */
	struct ur_list listed;
	uint32_t handle; /* the ABI's handle; constant */
};

/*
 * 0, -EINVAL (cqe 0 or above UR_MAX_CQE), -ENOMEM.  cq->cqe is what was
 * granted: the next power of two, minus one.
 */
int ur_cq_init(struct ur_cq *cq, uint32_t cqe, struct ur_evq *channel,
	       struct ur_evq *async, void *object);

/*
 * Move the ring of an unpublished queue into memory of the source. 0, -ENOMEM.
 */
int ur_cq_set_ring_source(struct ur_cq *cq,
			  const struct ur_ring_source *source);

/* -EBUSY while QPs are attached.  Waits for unacknowledged events. */
int ur_cq_fini(struct ur_cq *cq);

/* -EINVAL if out of range or below the number of entries held. */
int ur_cq_resize(struct ur_cq *cq, uint32_t cqe);

/*
 * Add a completion. `solicited`: it completes a receive with the solicited bit,
 * or is not successful (IBTA 11.4.2.2). On overrun the entry is lost, CQ_ERR is
 * raised once, and false is returned: the QP must go to ERR. With
 * ignore_overrun the oldest entry is lost instead, without an event.
 */
bool ur_cq_push(struct ur_cq *cq, const struct ur_cqe *cqe, bool solicited);

/* The next completion overruns it, and all that follow; false: overruns are ignored. */
bool ur_cq_exhaust(struct ur_cq *cq);

/* Ask `late` from now on; NULL: not any more, and what is held is seen. */
void ur_cq_set_late(struct ur_cq *cq, ur_cq_late_fn *late, void *arg);

/* Completions that are held until now_ns are seen.  When the next ones are to be:
 * UR_NEVER if none are held. */
uint64_t ur_cq_show(struct ur_cq *cq, uint64_t now_ns);

/* At any time, also while QPs are attached. */
void ur_cq_ignore_overrun(struct ur_cq *cq, bool on);

/* Takes up to n entries in order; returns how many. */
uint32_t ur_cq_poll(struct ur_cq *cq, struct ur_cqe *out, uint32_t n);

/* The same without a copy: _open takes the lock and returns the number of
 * entries; _close removes the first n and releases the lock. */
static inline uint32_t ur_cq_open(struct ur_cq *cq)
{
	ur_latch_lock(&cq->lock);
	return atomic_load_explicit(&cq->tail, memory_order_acquire) -
	       atomic_load_explicit(&cq->head, memory_order_relaxed);
}

static inline const struct ur_cqe *ur_cq_entry(const struct ur_cq *cq,
					       uint32_t i)
{
	uint32_t at = atomic_load_explicit(&cq->head, memory_order_relaxed) + i;

	return &cq->ring[at & cq->mask];
}

static inline void ur_cq_close(struct ur_cq *cq, uint32_t n)
{
	uint32_t at = atomic_load_explicit(&cq->head, memory_order_relaxed) + n;

	atomic_store_explicit(&cq->head, at, memory_order_release);
	ur_latch_unlock(&cq->lock);
}

/* Needs no lock. */
static inline bool ur_cq_is_empty(const struct ur_cq *cq)
{
	return atomic_load_explicit(&cq->tail, memory_order_acquire) ==
	       atomic_load_explicit(&cq->head, memory_order_relaxed);
}

/*
 * IBTA 11.4.2.2: the next (solicited) completion signals the channel once.
 * Entries already there never signal: poll once more after arming.  A request
 * for any completion is not weakened by a later one for solicited ones.
 * Without a channel it does nothing.
 */
void ur_cq_arm(struct ur_cq *cq, bool solicited_only);

/* Takes an event without a completion: the queue is not armed afterwards, as
 * after any event. */
void ur_cq_take_idle(struct ur_cq *cq, struct ur_ev *out);

/*
 * Signal an armed queue only after `count` completions or `period_us` after the
 * first of them, whichever comes first; either 0: at once. Time is that of the
 * completions; the caller calls ur_cq_fire() at fire_at_ns.
 */
void ur_cq_moderate(struct ur_cq *cq, uint32_t count, uint32_t period_us);
void ur_cq_fire(struct ur_cq *cq, uint64_t now_ns);

/* Remove the entries of a QP that is being destroyed or reset, or of an SRQ
 * that completes on this queue. */
void ur_cq_purge(struct ur_cq *cq, const void *qp);

#endif
