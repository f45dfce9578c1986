/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: attributes, state and queues. The protocol's state is behind
 * `proto`. State and attributes are written under the lane's lock. */
#ifndef UR_CORE_QP_H
#define UR_CORE_QP_H

#include "base/list.h"
#include "core/cq.h"
#include "core/event.h"
#include "core/mr.h"
#include "core/record.h"
#include "core/srq.h"
#include "core/types.h"
#include "core/watch.h"
#include "core/wq.h"
#include "core/wqe.h"

struct ur_cross;
struct ur_lane;
struct ur_xrcd;

struct ur_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
};

/* Attributes in the order and meaning of ibv_qp_attr. */
struct ur_qp_attr {
	enum ur_qp_state state;
	enum ur_qp_state cur_state;
	uint32_t path_mtu; /* code 1..5 */
	enum ur_mig_state path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qpn;
	uint32_t access; /* UR_ACCESS_ */
	struct ur_qp_cap cap;
	struct ur_av av;
	struct ur_av alt_av;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	bool en_sqd_async_notify;
	bool sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit; /* kbit/s; 0: none */
	uint32_t rate_burst; /* bytes; 0: the protocol's default */
	uint64_t dc_key;     /* DC_TGT: the access key */
};

/* The target of a request of a DC initiator. */
struct ur_dc_target {
	struct ur_av av;
	uint32_t dctn;
	uint64_t key;
};

#define UR_MAX_TSO     65000u /* payload of a request */
#define UR_MAX_TSO_HDR 256u

/* Attributes of raw packet QPs only. */
struct ur_qp_raw {
	struct ur_rss rss; /* with a table it has no queues of its own */
	bool strip_vlan;
	uint16_t max_tso_header; /* 0: no TSO */
};

struct ur_qp_init {
	enum ur_qp_type type;
	struct ur_pd *pd;      /* NULL: XRC_RECV, which has xrcd instead */
	struct ur_cq *send_cq; /* NULL: XRC_RECV, DC_TGT */
	struct ur_cq *recv_cq; /* NULL: XRC_SEND, XRC_RECV, DC_INI */
	struct ur_srq *srq;    /* NULL: an own receive queue */
	struct ur_xrcd *xrcd;
	struct ur_qp_cap cap;
	bool sq_sig_all;
	struct ur_qp_raw raw;
	uint32_t max_atomic_arg; /* bytes, of atomics with masks; 0: none */
	struct ur_evq *async;
	void *object;
	const struct ur_ring_source *rings; /* NULL: default memory */
	struct ur_lane *lane;		    /* NULL: the adapter chooses */
};

struct ur_qp {
	enum ur_qp_type type;
	_Atomic enum ur_qp_state state; /* written under the lane's lock */
	uint32_t qpn;			/* UR_QPN_SLOT() */
	uint32_t source_qpn; /* the QP number in sent datagrams; 0: qpn */
	bool sq_sig_all;
	bool on_shm; /* requests go through shared memory (shm/shm.h); lane */
	/* It has `cross`, or is watched: more is to be done for its requests.
	 * Written under the lane's lock. */
	_Atomic bool aside;
	uint32_t sends_taken;	/* send_cq->head at the last doorbell; lane */
	struct ur_cross *cross; /* core/cross.h; NULL: no such queue pair */
	struct ur_pd *pd;
	struct ur_cq *send_cq;
	struct ur_cq *recv_cq;
	struct ur_srq *srq;
	struct ur_xrcd *xrcd; /* XRC_RECV */
	struct ur_sq sq;
	struct ur_rq rq;
	struct ur_qp_attr attr;
	struct ur_lane *lane; /* never changes */
	struct ur_mr_table *mrs;
	struct ur_list windows;	  /* ur_mw.node; lock of the key table */
	struct ur_umr_list **umr; /* of posted requests, by slot; or NULL */
	struct ur_dc_target *dc;  /* DC_INI: the same */
	/* DC_TGT */
	_Atomic uint32_t key_violations;
	_Atomic bool armed;  /* the next one raises an event */
	uint32_t dct_events; /* raised; lane */
	void *proto;	     /* the protocol's part */
	struct ur_evq *async;
	struct ur_ev_source async_source;
	void *object; /* the ABI layer's ibv_qp */
	/* XRC_RECV: informs all handles, instead of `async`; or NULL. Called
	 * under the lane's lock. */
	void (*on_event)(struct ur_qp *qp, enum ur_event_type type);
	/* Doorbell: linked from ringing until the lane has seen it. */
	struct ur_qp *_Atomic db_next;
	_Atomic bool db_rung;
	struct ur_qp_raw raw;
	uint32_t max_atomic_arg; /* bytes, of atomics with masks; 0: none */
	struct ur_record_writer record; /* lane */
	struct ur_qp_watch *watch;	/* NULL: it was never watched */
	/* Of this queue pair alone what the lane counts; lane. */
	uint64_t retransmitted;
	uint64_t rnr_received;
	uint64_t rnr_sent;
};

/* DC_INI: the target of the request with that counter; under sq.lock until it is
 * committed, then the lane's. */
static inline struct ur_dc_target *ur_qp_dc_target(const struct ur_qp *qp,
						   uint32_t i)
{
	return &qp->dc[i & qp->sq.mask];
}

/* Does some device support the type? */
static inline bool ur_qp_type_known(enum ur_qp_type type)
{
	switch (type) {
	case UR_QPT_RC:
	case UR_QPT_UC:
	case UR_QPT_UD:
	case UR_QPT_RAW_PACKET:
	case UR_QPT_XRC_SEND:
	case UR_QPT_XRC_RECV:
	case UR_QPT_DC_INI:
	case UR_QPT_DC_TGT:
		return true;
	}
	return false;
}

/* Acknowledged service: RC, or either half of it (XRC, DC). */
static inline bool ur_qp_type_reliable(enum ur_qp_type type)
{
	return type == UR_QPT_RC || type == UR_QPT_XRC_SEND ||
	       type == UR_QPT_XRC_RECV || type == UR_QPT_DC_INI ||
	       type == UR_QPT_DC_TGT;
}

static inline bool ur_qp_type_dc(enum ur_qp_type type)
{
	return type == UR_QPT_DC_INI || type == UR_QPT_DC_TGT;
}

/* Does it consume receives, its own or those of its SRQ? */
static inline bool ur_qp_type_receives(enum ur_qp_type type)
{
	return type != UR_QPT_XRC_SEND && type != UR_QPT_XRC_RECV &&
	       type != UR_QPT_DC_INI;
}

/*
 * Clear *qp, create the queues and take references on pd, CQs and SRQ;
 * init->cap gets the granted sizes: as requested, and no receives of its own
 * with an SRQ. -EINVAL beyond a limit, -ENOMEM.
 */
int ur_qp_init(struct ur_qp *qp, struct ur_qp_init *init);

/* Removes its completions and events and waits until delivered events are
 * acknowledged, so no lock may be held. */
void ur_qp_fini(struct ur_qp *qp);

/* Remove its completions from its CQs. */
void ur_qp_purge(struct ur_qp *qp);

/*
 * IBTA 11.2.5.2: is from → to legal for the type with exactly these
 * attributes?  0 or -EINVAL.  `mask` is of UR_QP_ bits.  `from` is the
 * state it is in (with UR_QP_CUR_STATE the caller has compared the two); `to`
 * equals it if UR_QP_STATE is not in the mask.
 */
int ur_qp_state_check(enum ur_qp_type type, enum ur_qp_state from,
		      enum ur_qp_state to, uint32_t mask);

/* The masks that it takes: all of *required and none outside of *allowed.
 * -EINVAL: there is no such transition. */
int ur_qp_state_masks(enum ur_qp_type type, enum ur_qp_state from,
		      enum ur_qp_state to, uint32_t *required,
		      uint32_t *allowed);

/* "RC", "RTS"; "?" for a number that is none. */
const char *ur_qp_type_name(uint32_t type);
const char *ur_qp_state_name(enum ur_qp_state state);

/* Under the lane's lock, for RESET: discard all posted sends and receives.
 * Returns the counter of the next send. */
uint32_t ur_qp_clear(struct ur_qp *qp);

/* Under the lane's lock. Once in ERR, no poster sees an older state. */
void ur_qp_set_state(struct ur_qp *qp, enum ur_qp_state state);

/* cross.c: the oldest request of a cross-channel queue pair is complete; its
 * slot is about to be freed. */
void ur_cross_completes(struct ur_qp *qp);

/* For ur_qp_complete(). */
static inline bool ur_qp_finish(struct ur_qp *qp, const struct ur_swqe *w,
				enum ur_wc_status status, uint64_t now_ns)
{
	static const uint8_t opcodes[] = {
		[UR_WR_RDMA_WRITE] = UR_WC_RDMA_WRITE,
		[UR_WR_RDMA_WRITE_IMM] = UR_WC_RDMA_WRITE,
		[UR_WR_SEND] = UR_WC_SEND,
		[UR_WR_SEND_IMM] = UR_WC_SEND,
		[UR_WR_RDMA_READ] = UR_WC_RDMA_READ,
		[UR_WR_CMP_SWP] = UR_WC_COMP_SWAP,
		[UR_WR_FETCH_ADD] = UR_WC_FETCH_ADD,
		[UR_WR_LOCAL_INV] = UR_WC_LOCAL_INV,
		[UR_WR_BIND_MW] = UR_WC_BIND_MW,
		[UR_WR_SEND_INV] = UR_WC_SEND,
		[UR_WR_TSO] = UR_WC_TSO,
		[UR_WR_FLUSH] = UR_WC_FLUSH,
		[UR_WR_ATOMIC_WRITE] = UR_WC_ATOMIC_WRITE,
		[UR_WR_NOP] = UR_WC_SEND,
		[UR_WR_MASKED_CMP_SWP] = UR_WC_MASKED_COMP_SWAP,
		[UR_WR_MASKED_FETCH_ADD] = UR_WC_MASKED_FETCH_ADD,
		[UR_WR_UMR_FILL] = UR_WC_UMR,
		[UR_WR_UMR_INVALIDATE] = UR_WC_UMR,
	};
	bool failed = status != UR_WC_SUCCESS;
	struct ur_cqe c;

	if (!failed && !qp->sq_sig_all && !(w->flags & UR_SEND_SIGNALED)) {
		ur_sq_pop(&qp->sq);
		return true;
	}
	if (__builtin_expect(failed, 0))
		ur_record_wc(qp, w, status);
	c = (struct ur_cqe){ .wr_id = w->wr_id,
			     .ts_ns = now_ns,
			     .qp = qp,
			     .qpn = qp->qpn,
			     .byte_len = w->length,
			     .status = (uint8_t)status,
			     .opcode = opcodes[w->opcode] };
	/* Free the slot first: the completion permits another post. */
	ur_sq_pop(&qp->sq);
	return ur_cq_push(qp->send_cq, &c, failed);
}

/* cross.c: ur_qp_complete() of a cross-channel queue pair. */
bool ur_cross_complete(struct ur_qp *qp, const struct ur_swqe *w,
		       enum ur_wc_status status, uint64_t now_ns);

/* ur_qp_complete() with `aside`. */
bool ur_qp_complete_aside(struct ur_qp *qp, const struct ur_swqe *w,
			  enum ur_wc_status status, uint64_t now_ns);

static inline bool ur_qp_is_aside(const struct ur_qp *qp)
{
	return __builtin_expect(
		atomic_load_explicit(&qp->aside, memory_order_relaxed), 0);
}

/*
 * Under the lane's lock: `w`, the oldest send request, is complete. Writes its
 * completion, if requested or failed, and frees its slot. False: the completion
 * is lost (ur_cq_push()).
 */
static inline bool ur_qp_complete(struct ur_qp *qp, const struct ur_swqe *w,
				  enum ur_wc_status status, uint64_t now_ns)
{
	if (ur_qp_is_aside(qp))
		return ur_qp_complete_aside(qp, w, status, now_ns);
	return ur_qp_finish(qp, w, status, now_ns);
}

/* Raise an asynchronous event about the QP. */
void ur_qp_event(struct ur_qp *qp, enum ur_event_type type);

/*
 * DC_TGT: the same.  Peers can cause any number of errors, so those are no events
 * while the program has not taken UR_DCT_EVENTS_MAX earlier ones.
 */
#define UR_DCT_EVENTS_MAX 64
void ur_qp_dct_event(struct ur_qp *qp, enum ur_event_type type);

#endif
