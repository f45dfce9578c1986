/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of roce/.  Everything here is accessed only under the
 * lane's lock.
 *
 * A QP's requester keeps three positions in the sequence of PSNs:
 *
 *      una            psn                 end
 *   ----|--------------|-------------------|---------->
 *    acked    in flight    sent before, to     never sent
 *                          be sent again
 *
 * una: oldest not acknowledged; psn: next to be sent; end: one beyond the
 * largest ever sent.  Retransmission is `psn = una` (go-back-N), but for what
 * rc_repair.c sends again alone.  Responses come in PSN order, from a peer that
 * repeats parts of them (selective repeat) nearly so; `una` is the next one that
 * a READ or atomic waits for.
 */
#ifndef UR_ROCE_INTERNAL_H
#define UR_ROCE_INTERNAL_H

#include <string.h>

#include "base/list.h"
#include "base/rng.h"
#include "base/timer.h"
#include "core/packet.h"
#include "core/qp.h"
#include "core/sge.h"
#include "roce/roce.h"
#include "wire/bth.h"
#include "wire/icrc.h"

#define UR_QP_INDEX_MASK ((1u << UR_SLOT_SHIFT) - 1u)
#define UR_GRH_LEN	 40u
#define UR_UD_MTU	 4096u

/* Window accounting: the overhead that a socket buffer charges per packet. */
#define UR_PKT_OVERHEAD 128u

/* A destination lane and a source address. */
struct ur_path_key {
	uint8_t src[16];
	uint8_t dst[16];
	uint32_t scope_id;
	uint16_t slot;
	uint8_t tclass;
	uint8_t hop_limit;
};

struct ur_path {
	struct ur_path_key key;
	struct ur_path *hash_next;
	uint32_t refs;
	struct ur_list active;	/* in ur_roce.paths while there is work */
	struct ur_list senders; /* ur_rqp.sending: data to send */
	struct ur_list ackers;	/* ur_rqp.acking: responses to send */
	bool acks_first; /* the last burst had no room for acknowledgements */
	uint16_t sport;
	struct ur_icrc_flow flow;
	uint32_t prefix_len[2]; /* packet lengths of the cached prefixes */
	uint32_t prefix[2];	/* ICRC prefixes for these lengths */
	/* Congestion control, in bytes with overhead (congestion.c). */
	uint64_t inflight;
	uint64_t cwnd;
	/*
	 * The QP whose packet filled the window: nothing is sent until there is
	 * room for a burst, or all of that QP's packets are acknowledged.
	 * Compared only. NULL: the window is open.
	 */
	const struct ur_rqp *filled_by;
	uint64_t ssthresh;
	uint64_t cut_at_ns; /* last reduction by a loss */
	uint64_t left;	    /* bytes that have left the window, in total */
	uint64_t marks_end; /* CNPs count again when `left` reaches this */
	/* One window, in which the share of losses is judged. */
	uint64_t round_size;
	uint64_t round_acked;
	uint64_t round_lost;
	uint64_t stall_at_ns; /* last reduction by a timeout */
	uint64_t srtt_ns;
	struct ur_list waiters; /* ur_rqp.sending: wait for the window */
	uint64_t probed_ns;	/* rc_full.c: last unanswered probe; 0: none */
	/* Pacing of UC and UD, which have no acknowledgements. */
	uint64_t pace_at_ns; /* when all that was sent will have been drained */
};

/* The responder's record of a READ or atomic, for its response and for
 * duplicates. */
struct ur_resource {
	uint8_t kind; /* enum ur_op_kind */
	bool active;  /* response not sent completely */
	bool again;   /* the response is for a duplicate request */
	bool valid;
	uint32_t first_psn;
	uint32_t last_psn;
	uint32_t start_psn; /* first PSN of the response */
	uint32_t next_psn;  /* its next packet */
	uint32_t msn;
	uint32_t rkey;
	uint32_t srqn; /* XRC */
	uint32_t len;
	uint32_t mtu; /* READ: payload of its responses except the last one */
	uint64_t va;
	uint64_t orig;	    /* atomic: the old value */
	uint64_t orig_high; /* of one with masks: the second word */
};

struct ur_requester {
	uint32_t una;
	uint32_t psn;
	uint32_t end;
	uint32_t cur;	      /* SQ counter of the request that holds `psn` */
	uint32_t fresh;	      /* first request that has no PSNs yet */
	uint64_t inflight;    /* window bytes of [una, psn), without READs */
	uint64_t rd_inflight; /* READ bytes requested and not received */
	uint32_t rd_last[UR_MAX_RD_ATOMIC]; /* last PSN of each outstanding */
	uint32_t rd_head;
	uint32_t rd_count;
	uint32_t since_ackreq; /* packets */
	uint8_t retries;       /* left */
	uint8_t rnr_retries;
	uint8_t early; /* early retransmissions until `recover` is acknowledged */
	uint32_t recover; /* PSN */
	bool rnr_wait;
	uint64_t rnr_until_ns;
	uint64_t retry_ns;	/* start of the running ack timeout */
	uint64_t early_from_ns; /* start of the early retransmission timeout */
	uint32_t rtt_psn;	/* an RTT sample is running for this PSN */
	uint64_t rtt_sent_ns;	/* 0: none */
	uint64_t rewind_ns;	/* last retransmission caused by a response */
	/* Since when it waits for a window with nothing in flight; 0: not. */
	uint64_t parked_ns;
	bool rewound;	/* by a response, with no progress since */
	bool probing;	/* the last packet is to be sent again */
	bool probed;	/* it was, with no progress since */
	bool repairing; /* rc_repair.c */
	bool asked; /* rc_masked.c: the oldest request waits for the answer */
	struct ur_repair *repair;
	bool window_wait;  /* on path->waiters or rd_waiters */
	bool sqd_reported; /* SQ_DRAINED was raised, or not requested */
};

/* tm.c: kind of the message in progress. */
enum ur_tm_msg {
	UR_TM_MSG_NO_TAG,
	UR_TM_MSG_EAGER,
	UR_TM_MSG_RNDV,
	UR_TM_MSG_UNEXPECTED,
};

/* In ur_swqe.proto_state: an internal request of the protocol. */
#define UR_SWQE_OWN 1u

struct ur_tm_tag;

struct ur_responder {
	uint32_t epsn;
	uint32_t msn;
	uint8_t kind; /* of the message in progress */
	bool in_message;
	bool on_shm;   /* UC: it comes through shared memory */
	bool nak_sent; /* PSN sequence or RNR; cleared by the expected PSN */
	uint64_t
		refused_ns; /* until then the requester waits after an RNR NAK */
	bool comm_est;
	struct ur_rwqe *rwqe; /* current receive; NULL: none */
	struct ur_rwqe *copy; /* buffer for a receive copied from an SRQ */
	uint32_t received;    /* bytes of the message so far */
	uint32_t srqn;	      /* XRC: the message's receive queue */
	/* WRITE in progress */
	uint64_t va;
	uint32_t rkey;
	uint32_t dma_len;
	/* Tag matching */
	uint8_t tm; /* enum ur_tm_msg */
	uint32_t tm_priv;
	uint64_t tm_tag;
	struct ur_tm_tag *tm_rndv; /* of a rendezvous, until it is complete */
	/* Pending acknowledgement. */
	bool ack_due;
	bool ack_deferred;
	uint8_t ack_syndrome;
	uint32_t ack_psn;
	uint64_t ack_at_ns;	  /* until then it may be piggybacked */
	uint8_t piggyback_score;  /* requests have followed receives at once */
	uint64_t recv_ns;	  /* last receive completion */
	uint64_t wrote_ns;	  /* last WRITE of one packet */
	struct ur_keeper *keeper; /* rc_keep.c; NULL: nothing was kept yet */
	struct ur_resource *res;  /* ring of max_dest_rd_atomic entries */
	uint32_t res_size;
	uint32_t res_next; /* entry of the next request: the oldest one */
	uint32_t res_todo; /* number of newest entries that may be active */
	bool cnp_due;
	uint16_t cnp_pkey;
	uint64_t cnp_ns; /* the last CNP; 0: none */
};

/* Packets longer than the path MTU (rc_full.c). */
struct ur_full {
	uint16_t max; /* payload that our interface has room for; 0: path MTU */
	uint16_t most; /* the largest `max` that the connection had */
	uint16_t size; /* agreed for our requests; 0: none */
	uint16_t answer_size;
	uint8_t probes;	 /* sent */
	uint8_t answers; /* sent */
	bool ended;	 /* the responder has ended the agreement */
	bool answer_due;
	bool end_due;
	uint32_t probe_psn; /* of the last probe */
	uint32_t answer_psn;
	uint32_t end_psn;
	uint64_t fragmented; /* value of *ur_roce.fragmented at the agreement */
	uint64_t reported;   /* its value that the requester knows of */
};

/* Is the peer of an RC QP a urnic, which understands our extensions? */
enum ur_peer_kind {
	UR_PEER_UNKNOWN,
	UR_PEER_URNIC,
	UR_PEER_OTHER,
};

/* The protocol's state of a QP. */
struct ur_rqp {
	struct ur_qp *qp;
	struct ur_roce *r;
	struct ur_path *path;
	struct ur_path *alt;	/* alternate path for migration; or NULL */
	struct ur_list sending; /* path->senders or a list of waiters */
	struct ur_list rndv;	/* ur_tm_tag.node: READs to be posted */
	struct ur_list acking;	/* path->ackers */
	struct ur_timer timer;
	struct ur_list paced; /* in ur_roce.paced (rate.c) */
	uint64_t rate_at_ns;
	uint32_t mtu;
	uint32_t index;
	enum ur_peer_kind peer;
	bool peer_masked;    /* a urnic that executes atomics with masks */
	bool overrun;	     /* a CQ overran: the QP has to fail */
	bool mig_err_raised; /* PATH_MIG_ERR was raised since the QP was armed */
	uint64_t rearm_ns;   /* when REARM began */
	struct ur_full full;
	struct ur_requester req;
	struct ur_responder rsp;
	struct ur_shm_qp *shm; /* shm/'s part; NULL: never had a channel */
	uint8_t wire_only;     /* why it uses no channel: */
#define UR_WIRE_PATHS  1u      /* it had a second path */
#define UR_WIRE_FAULTS 2u      /* ur_shm_pause() */
	struct ur_delegation *delegation; /* NULL: not shared */
	/* dc.h: of an initiator; of a target's responder; else NULL */
	struct ur_dci *dci;
	struct ur_dc_connection *connection;
};

struct ur_mcast {
	struct ur_list node;
	uint8_t gid[16];
	uint32_t count;
	uint32_t capacity;
	struct ur_rqp **members;
};

/* ICRC prefixes of inbound flows; direct-mapped. */
#define UR_RX_FLOWS 16u
struct ur_rx_flow {
	struct ur_icrc_flow flow;
	bool valid;
	uint32_t len[2];
	uint32_t prefix[2];
	struct ur_icrc_cache cache[2];
};

#define UR_PATH_BUCKETS 1024u

struct ur_roce {
	uint32_t slot;
	struct ur_sports sports;
	struct ur_mr_table *mrs;
	struct ur_srq_table *srqs;
	void (*comm_est)(uint32_t qpn);
	void (*want_peer)(void *arg, uint16_t slot); /* NULL: no shm */
	void *want_arg;
	struct ur_export *export;
	struct ur_shm *shm;	  /* shm/'s part of the lane */
	bool shm_paused;	  /* ur_shm_pause() */
	const struct ur_tap *tap; /* of shared memory; NULL: no capture */
	struct ur_rng rng;
	struct ur_rqp **qps; /* by index */
	uint32_t qp_count;
	uint32_t next_index;
	struct ur_timers timers;
	struct ur_list paths; /* with work */
	struct ur_path *buckets[UR_PATH_BUCKETS];
	uint32_t path_count;
	uint32_t flow_last; /* index of the last packet's flow */
	struct ur_rx_flow flows[UR_RX_FLOWS];
	struct ur_list mcasts;
	uint32_t mcast_count;
	uint64_t rd_window; /* limit of READ bytes in flight to us */
	uint64_t rd_inflight;
	uint32_t rd_chunk;
	struct ur_list rd_waiters;	/* ur_rqp.sending */
	struct ur_list deferred;	/* ur_rqp.acking: may be piggybacked */
	bool answers_late, timers_late; /* their functions: roce.h */
	uint32_t load;			/* ur_roce_set_load() */
	uint64_t defer_at_ns;		/* the earliest deadline of these */
	/* Packets that arrived then (ur_roce_replies_sent()). */
	uint64_t arrived_ns;
	uint64_t
		visible_since_ns; /* have been visible to the application since */
	struct ur_list paced;	  /* ur_rqp.paced: QPs above their rate limit */
	uint64_t paced_at_ns;	  /* when the first may send */
	/* XRC between processes (delegation.h) */
	const struct ur_xrc_ops *xrc; /* NULL: XRC domains are local */
	void *xrc_arg;
	struct ur_list delegations;	    /* ur_delegation.node */
	struct ur_list pending_delegations; /* ur_delegation.pending */
	struct ur_list delegates;	    /* ur_delegate.node */
	struct ur_list finished;	    /* ur_delegate.done */
	uint32_t delegate_count;
	uint32_t delegation_seq;
	uint64_t delegation_at_ns;     /* when to retry a delegation */
	uint8_t *delegation_buf;       /* the message under construction */
	uint8_t *scratch;	       /* pieces.c; NULL: not used yet */
	struct ur_timewaits *timewait; /* of destroyed QPs; NULL: none */
	struct ur_dc *dc;	       /* dc.h; NULL: there was no target */
	uint64_t kept_bytes;	       /* of all QPs (rc_keep.c) */
	uint64_t overflow_seen;	       /* of *rx_overflow, and since when */
	uint64_t overflow_ns;
	const uint64_t *rx_overflow; /* packets lost by our link; or NULL */
	const uint64_t
		*fragmented;	  /* bursts that it had to fragment; or NULL */
	struct ur_mr_hint placed; /* for WRITEs on the fast path */
	uint64_t now_ns;	  /* time argument of the running entry point */
	struct ur_roce_counters cnt;
};

/* An inbound packet. */
struct ur_in {
	const struct ur_rx *rx;
	struct ur_hdr hdr;
	const uint8_t *payload;
	size_t payload_len;
	uint64_t now_ns;
	uint8_t *at; /* of the RETH's range, once checked; NULL: pieces */
};

/* A packet for the fast path (demux.c). */
struct ur_plain {
	const uint8_t *bth;
	const uint8_t *payload;
	uint32_t len; /* of the payload */
	bool write;   /* else a SEND */
};

static inline struct ur_rqp *ur_rqp_of(const struct ur_qp *qp)
{
	return qp->proto;
}

/* The lane's QP of that number; NULL: none. */
static inline struct ur_rqp *ur_rqp_find(const struct ur_roce *r, uint32_t qpn)
{
	return qpn >> UR_SLOT_SHIFT == r->slot ? r->qps[qpn & UR_QP_INDEX_MASK]
					       : NULL;
}

static inline enum ur_qp_state ur_rqp_state(const struct ur_rqp *q)
{
	return atomic_load_explicit(&q->qp->state, memory_order_relaxed);
}

/* IBTA 10.3.1: states in which a QP accepts packets. */
static inline bool ur_rqp_receives(const struct ur_rqp *q)
{
	enum ur_qp_state s = ur_rqp_state(q);

	return s == UR_QPS_RTR || s == UR_QPS_RTS || s == UR_QPS_SQD ||
	       s == UR_QPS_SQE;
}

/* demux.c: the upper bits of the QP's opcodes. */
enum ur_transport ur_transport_of(const struct ur_qp *qp);

/* The QP's transport's variant of an RC opcode. */
static inline uint8_t ur_opcode_for(const struct ur_rqp *q, uint8_t rc)
{
	return (uint8_t)(ur_transport_of(q->qp) | rc);
}

/*
 * xrc.c: the shared receive queue named by a request to a target; NULL: none.
 */
struct ur_srq *ur_xrc_srq(const struct ur_rqp *q, uint32_t srqn);

/* The queue that supplies receives; srqn is used for an XRC target only. */
static inline struct ur_srq *ur_resp_srq(const struct ur_rqp *q, uint32_t srqn)
{
	if (__builtin_expect(q->qp->type != UR_QPT_XRC_RECV, 1))
		return q->qp->srq;
	return ur_xrc_srq(q, srqn);
}

/* The PD that remote keys are checked against; NULL: the XRC queue is gone. */
static inline const struct ur_pd *ur_resp_pd(const struct ur_rqp *q,
					     uint32_t srqn)
{
	const struct ur_srq *srq;

	if (__builtin_expect(q->qp->type != UR_QPT_XRC_RECV, 1))
		return q->qp->pd;
	srq = ur_xrc_srq(q, srqn);
	return srq ? srq->pd : NULL;
}

/* qp.c. To ERR: flush everything, raise `event` unless it is -1. */
void ur_rqp_fail(struct ur_rqp *q, int event);
void ur_rqp_flush(struct ur_rqp *q);

/* A responder without a QP number, and its end; NULL: out of memory. */
struct ur_rqp *ur_rqp_new(struct ur_roce *r, struct ur_qp *qp);
void ur_rqp_free(struct ur_rqp *q);
/* Sets the peer and the number of READs served at once. -ENOMEM. */
int ur_rqp_retarget(struct ur_rqp *q, const struct ur_av *av, uint32_t dqpn,
		    uint32_t resources);

/*
 * delegation.c: a target that other processes share. _open: allow delegation;
 * -ENOMEM. _stop: drop held packets and end the delegation. _run: all responses
 * have left, so process held packets; true: that made new responses.
 */
int ur_delegation_open(struct ur_rqp *q);
void ur_delegation_stop(struct ur_rqp *q);
void ur_delegation_close(struct ur_rqp *q);
void ur_delegation_request(struct ur_rqp *q, struct ur_in *in);
bool ur_delegation_run(struct ur_roce *r);
static inline bool ur_delegation_is_idle(const struct ur_roce *r)
{
	return ur_list_empty(&r->pending_delegations) &&
	       ur_list_empty(&r->finished);
}

/* path.c */
/* `ecn`: its packets may be marked, since CNPs for them reduce what is sent. */
struct ur_path *ur_path_get(struct ur_roce *r, const struct ur_av *av,
			    uint32_t dqpn, bool ecn);
void ur_path_put(struct ur_roce *r, struct ur_path *p);
/* Would a packet to `dst`, one of our addresses, from `src` come by it? */
bool ur_path_joins(const struct ur_path *p, const uint8_t src[16],
		   const uint8_t dst[16]);
void ur_path_activate(struct ur_roce *r, struct ur_path *p);
uint32_t ur_path_prefix(struct ur_path *p, uint32_t len);
void ur_rqp_want_send(struct ur_rqp *q); /* put on path->senders */
void ur_rqp_want_ack(struct ur_rqp *q);	 /* put on path->ackers */
/* Does no other QP have something to send on that path? */
static inline bool ur_path_is_exclusive(const struct ur_path *p)
{
	return p->senders.next == p->senders.prev && ur_list_empty(&p->waiters);
}

/*
 * migrate.c: what attr.path_mig_state, the migration state, allows. _check: is
 * the modification legal? -EINVAL. _load: set the alternate path; -ENOMEM.
 * _modify: apply the checked state. _escape: the primary path has failed;
 * false: no alternate. _admit: did the packet come by a path that q accepts?
 * dst is our address.
 */
int ur_mig_check(const struct ur_rqp *q, const struct ur_qp_attr *a,
		 uint32_t mask);
int ur_mig_load(struct ur_rqp *q, const struct ur_qp_attr *a, uint32_t mask);
void ur_mig_modify(struct ur_rqp *q, enum ur_mig_state state);
void ur_mig_reset(struct ur_rqp *q);
bool ur_mig_escape(struct ur_rqp *q);
bool ur_mig_admit(struct ur_rqp *q, const struct ur_in *in,
		  const uint8_t dst[16]);
/* The MigReq bit of packets that q sends. */
static inline bool ur_mig_bit(const struct ur_rqp *q)
{
	return q->qp->attr.path_mig_state == UR_MIG_MIGRATED;
}

/* rate.c: may the QP send now? If not, it is kicked when it may. _sent accounts
 * for bytes of UDP payload; expire kicks QPs whose time has come. */
bool ur_rate_allows(struct ur_rqp *q, uint64_t now_ns);
void ur_rate_spend(struct ur_rqp *q, uint32_t bytes, uint64_t now_ns);
void ur_rate_expire(struct ur_roce *r, uint64_t now_ns);

/* burst.c */
enum ur_fit {
	UR_FIT_NO, /* not into this burst */
	UR_FIT_OK,
};
void ur_burst_start(struct ur_burst *t, const struct ur_path *p);
enum ur_fit ur_burst_fits(const struct ur_burst *t, uint32_t pkt_len);
/*
 * Is there room for n packets of that length, of the same size as earlier ones?
 */
bool ur_burst_holds(const struct ur_burst *t, uint32_t pkt_len, uint32_t n);
/*
 * Append a packet: h's headers (length, pad and PSN set), payload from iov.
 * `stable`: the memory does not change until the burst is sent, so a large
 * payload may be sent without a copy. -EFAULT: memory is unmapped, nothing was
 * appended.
 */
int ur_burst_add(struct ur_burst *t, struct ur_path *p, struct ur_hdr *h,
		 const struct iovec *iov, uint32_t niov, uint32_t payload_len,
		 bool stable);
uint32_t ur_pkt_len(const struct ur_opcode *op, uint32_t payload_len);
/* Append a packet of that length that is already in the linear buffer, after
 * its end, except for the ICRC. */
void ur_burst_put(struct ur_burst *t, struct ur_path *p, uint32_t dqpn,
		  uint32_t len);

/* Maximum payload of the fast paths (rc_req.c, rc_resp.c): without pad, and
 * cheaper to copy than to read twice. */
#define UR_PLAIN_MAX 256u

static inline bool ur_is_plain_len(uint32_t len)
{
	return len && len <= UR_PLAIN_MAX && !(len & 3u);
}

/* An emitter's result for the scheduler in roce.c. */
enum ur_emit {
	UR_EMIT_OK,    /* one packet was appended */
	UR_EMIT_IDLE,  /* nothing to send now */
	UR_EMIT_FULL,  /* has more, but not for this burst */
	UR_EMIT_DEFER, /* has more, but not yet */
};

/* roce.c */
void ur_rqp_check_overrun(struct ur_rqp *q);

/* rc_req.c, rc_comp.c */
enum ur_emit ur_rc_emit(struct ur_rqp *q, struct ur_burst *t, uint64_t now_ns);
void ur_rc_response(struct ur_rqp *q, struct ur_in *in);
void ur_rc_timeout(struct ur_rqp *q, uint64_t now_ns);
void ur_rc_timer_update(struct ur_rqp *q, uint64_t now_ns);
/* The path has changed: retransmit everything in flight, with fresh retries. */
void ur_rc_restart(struct ur_rqp *q, uint64_t now_ns);
void ur_rc_check_drained(struct ur_rqp *q);
uint64_t ur_rc_ack_timeout_ns(const struct ur_rqp *q); /* UR_NEVER: none */
void ur_req_complete(struct ur_rqp *q, const struct ur_swqe *w,
		     enum ur_wc_status status);
/* Fail the oldest send request and the QP. */
void ur_req_fail(struct ur_rqp *q, enum ur_wc_status status);
/* PSNs of a request (IBTA 9.7.3.2) with that much payload per packet. */
uint32_t ur_swqe_pkts(const struct ur_swqe *w, uint32_t mtu);
/* Header of packet i of a SEND or WRITE, and the packet (RC, UC). */
void ur_message_header(const struct ur_rqp *q, const struct ur_swqe *w,
		       uint32_t i, struct ur_hdr *h);
int ur_req_add_packet(struct ur_rqp *q, struct ur_burst *t, struct ur_path *p,
		      const struct ur_swqe *w, struct ur_hdr *h, uint32_t off,
		      uint32_t len, bool stable);

/* IBTA 9.8.3: a datagram is one packet; its limit is the path MTU, that of the
 * interface when the address handle was created. */
static inline bool ur_ud_fits(const struct ur_swqe *w)
{
	uint8_t code = w->wr.ud.av.mtu;

	return w->length <= (code ? ur_mtu_bytes(code) : UR_UD_MTU);
}

/* local.c: requests that send no packet. */
/* Execute and complete the one at the cursor. False: it waits for earlier
 * requests, or it failed and the QP with it. */
bool ur_local_run(struct ur_rqp *q, const struct ur_swqe *w);

/* rc_resp.c: inbound requests; rc_answer.c: their responses. */
void ur_rc_request(struct ur_rqp *q, struct ur_in *in);
enum ur_emit ur_rc_answer(struct ur_rqp *q, struct ur_burst *t,
			  uint64_t now_ns);
void ur_rc_ack_later(struct ur_rqp *q, uint8_t syndrome, uint32_t psn,
		     uint64_t now_ns);
/* Of threads that sleep: how soon a request follows what it answers, and how
 * long an acknowledgement waits for it (docs/decisions/0021). */
#define UR_LATE_ANSWER_NS 50000u

/* The same without waiting for a packet to piggyback on. */
void ur_rc_ack_now(struct ur_rqp *q, uint8_t syndrome, uint32_t psn,
		   uint64_t now_ns);
/* A message ended without an ack request; its requester is a urnic, which
 * tolerates a short delay of the acknowledgement (docs/wire/roce.md). */
void ur_rc_ack_unrequested(struct ur_rqp *q, uint32_t psn, uint64_t now_ns);

/*
 * rc_piggyback.c: acknowledgements between urnics in a request's packet
 * (docs/wire/roce.md). _attach puts the pending one, if any, into the header of
 * the last packet that q has to send, which becomes UR_PIGGYBACK_LEN longer;
 * _sent: it was sent. _received handles an inbound one.
 */
void ur_rc_piggyback_attach(const struct ur_rqp *q, const struct ur_burst *t,
			    uint32_t payload_len, struct ur_hdr *h);
void ur_rc_piggyback_sent(struct ur_rqp *q);
void ur_rc_piggyback_received(struct ur_rqp *q, const struct ur_in *in);
/* Detects from an inbound packet whether the peer is a urnic. */
void ur_rc_peer_detect(struct ur_rqp *q, const struct ur_in *in);
/*
 * Sets the bit by which the peer detects a urnic, in each packet of an RC QP.
 */
static inline void ur_rc_peer_announce(const struct ur_rqp *q, struct ur_hdr *h)
{
	h->bth.urnic = q->peer != UR_PEER_OTHER;
	h->bth.masked = h->bth.urnic;
}

/* The BTH of a packet of an RC QP; `rc` as for ur_opcode_for(). */
static inline struct ur_bth ur_rc_bth(const struct ur_rqp *q, uint8_t rc,
				      uint32_t psn)
{
	return (struct ur_bth){ .opcode = ur_opcode_for(q, rc),
				.migreq = ur_mig_bit(q),
				.pkey = 0xffff,
				.dqpn = q->qp->attr.dest_qpn,
				.urnic = q->peer != UR_PEER_OTHER,
				.masked = q->peer != UR_PEER_OTHER,
				.psn = psn };
}
void ur_rc_acked(struct ur_rqp *q, uint32_t psn, uint64_t now_ns);

/*
 * rc_resp.c, fast path of SEND Only and WRITE Only. _parse: do opcode and
 * length qualify? _awaits: does q accept it (except for path, ICRC and memory)?
 * _request: executes it after these checks. False: no, and nothing was done.
 */
bool ur_plain_parse(struct ur_plain *in, const struct ur_rx *rx);
bool ur_rc_awaits_plain(const struct ur_rqp *q, const struct ur_plain *in);
bool ur_rc_request_plain(struct ur_rqp *q, const struct ur_plain *in);

/* recv.c: consuming receives, shared by RC, UC and UD. */
bool ur_recv_take(struct ur_rqp *q);
int ur_recv_place(struct ur_rqp *q, uint32_t off, const void *data,
		  uint32_t len);
/*
 * pieces.c: payload of a packet as up to UR_MAX_SGE pieces, or an error of
 * ur_sge_gather() or ur_mr_reach(), or -ENOMEM. Pieces that are not `stable` are
 * valid until the next call: copy them.
 */
int ur_req_pieces(struct ur_rqp *q, const struct ur_swqe *w, uint32_t off,
		  uint32_t len, struct iovec *iov, bool *stable);
int ur_resp_pieces(struct ur_rqp *q, const struct ur_resource *x, uint32_t off,
		   uint32_t len, struct iovec *iov);
/* Payload of a WRITE to its place; errors as ur_mr_put(). */
int ur_resp_put(struct ur_rqp *q, uint32_t rkey, uint64_t va, const void *from,
		uint32_t len);

/* Locates [off, off + len) of the current receive; as ur_sge_locate(). */
int ur_recv_locate(const struct ur_rqp *q, uint32_t off, uint32_t len,
		   struct iovec *out, uint32_t max);
void ur_recv_complete(struct ur_rqp *q, const struct ur_in *in,
		      enum ur_wc_opcode opcode, uint32_t byte_len);
void ur_recv_fail(struct ur_rqp *q, enum ur_wc_status status);
void ur_recv_flush(struct ur_rqp *q);

/* tm.c: tag matching */
static inline bool ur_tm_is_on(const struct ur_rqp *q)
{
	return q->qp->srq && q->qp->srq->tm;
}
/* ur_recv_take() for a SEND to a tag-matching queue. */
bool ur_tm_take(struct ur_rqp *q, const struct ur_in *in);
/* Bytes at the start of the packet that do not go into the buffer. */
uint32_t ur_tm_strip(const struct ur_rqp *q, const struct ur_in *in);
void ur_tm_label(struct ur_rqp *q, struct ur_cqe *c);
void ur_tm_received(struct ur_rqp *q, enum ur_wc_status status);
void ur_tm_run(struct ur_rqp *q);
static inline void ur_tm_kick(struct ur_rqp *q)
{
	if (__builtin_expect(!ur_list_empty(&q->rndv), 0))
		ur_tm_run(q);
}
/* The oldest send request, an internal one, is complete. */
void ur_tm_own_done(struct ur_rqp *q, enum ur_wc_status status);
void ur_tm_flush(struct ur_rqp *q);
void ur_tm_reset(struct ur_rqp *q);

/*
 * Calls into shm/, the layer above, which defines these functions and owns the
 * structures.  A queue pair whose `shm` is NULL has no channel: each call then
 * returns at once (false), so hot paths test the pointer first.
 */
int ur_shm_create(struct ur_shm **out); /* 0 or -ENOMEM */
void ur_shm_destroy(struct ur_shm *s);
void ur_shm_qp_free(struct ur_shm_qp *n);

/*
 * RC requester: true if the request at the cursor does not go by the wire,
 * because it went through the channel, or will as soon as the wire is idle.
 */
bool ur_shm_takes(struct ur_rqp *q);
/* The peer accepts requests through the channel. */
bool ur_shm_is_ready(const struct ur_rqp *q);
/* Requests are outstanding on the channel. */
bool ur_shm_busy(const struct ur_rqp *q);
/* The ack timeout has expired.  False: the queue pair failed. */
bool ur_shm_timeout(struct ur_rqp *q);
/* Requests that the channel refused may be complete on the wire by now. */
void ur_shm_wire_done(struct ur_rqp *q);

/* The queue pair has entered this state. */
void ur_shm_enter(struct ur_rqp *q, enum ur_qp_state state);
/* Its attributes have changed: export what the peer may access directly. */
void ur_shm_export_qp(struct ur_rqp *q);
/* Stop its requester; its responder; or both, and leave the channel. */
void ur_shm_req_stop(struct ur_rqp *q);
void ur_shm_resp_stop(struct ur_rqp *q);
void ur_shm_stop(struct ur_rqp *q);
/* Acknowledge requests that were done, before the queue pair fails. */
void ur_shm_ack_last(struct ur_rqp *q);

/*
 * UC and UD.  _takes, while no packet of q is in a burst: the requests went, or
 * go, through the channel.  _may: the request at the cursor could.  _ud_wired: one
 * of UD went by the wire, and after some a channel is requested.
 */
bool ur_shm_unreliable_takes(struct ur_rqp *q);
bool ur_shm_unreliable_may(struct ur_rqp *q);
void ur_shm_ud_wired(struct ur_rqp *q, uint32_t dqpn);
/* q sent packets to its peer: it reads them before what q sends by the channel. */
void ur_shm_sent_by_wire(struct ur_rqp *q);

/* Continue with the requests of a queue pair that is on a channel. */
void ur_shm_pump(struct ur_rqp *q);

/* demux.c: handles the first packet received in RTR. */
void ur_rqp_first_packet(struct ur_rqp *q);

/* recv.c: complete the current receive. */
void ur_recv_push(struct ur_rqp *q, struct ur_cqe *c, bool solicited);

/* uc.c, ud.c */
enum ur_emit ur_uc_emit(struct ur_rqp *q, struct ur_burst *t, uint64_t now_ns);
void ur_uc_request(struct ur_rqp *q, struct ur_in *in);
/* Begin a message; process one of its packets, in order. */
void ur_uc_begin(struct ur_rqp *q, const struct ur_in *in);
void ur_uc_take(struct ur_rqp *q, struct ur_in *in);
enum ur_emit ur_ud_emit(struct ur_rqp *q, struct ur_burst *t, uint64_t now_ns);
void ur_ud_route(struct ur_rqp *q); /* sets q->path for the next request */
/* The request at the cursor is done; an error stops the send queue. */
void ur_ud_complete(struct ur_rqp *q, struct ur_swqe *w,
		    enum ur_wc_status status);
void ur_ud_request(struct ur_rqp *q, struct ur_in *in);

/* mcast.c */
void ur_mcast_deliver(struct ur_roce *r, struct ur_in *in);
void ur_mcast_remove_qp(struct ur_roce *r, struct ur_rqp *q);

/* timewait.c: acknowledgements of QPs that are gone (timewait.h) */
void ur_timewait_enter(struct ur_rqp *q); /* q is reset or destroyed */
/* A packet for no QP, if r->timewait is there; _output gives a burst. */
void ur_timewait_input(struct ur_roce *r, const struct ur_rx *rx,
		       uint32_t dqpn);
bool ur_timewait_is_due(const struct ur_roce *r);
bool ur_timewait_output(struct ur_roce *r, struct ur_burst *t);
void ur_timewait_fini(struct ur_roce *r);

/* record.c: counters and flight recorder. */
void ur_record_attach(struct ur_qp *qp);
void ur_record_drop(struct ur_qp *qp, enum ur_record_reason reason,
		    uint64_t found, uint64_t expected);
void ur_record_req_fail(struct ur_rqp *q, const struct ur_swqe *w,
			enum ur_wc_status status);
void ur_record_recv_fail(struct ur_rqp *q, enum ur_wc_status status);
/* A READ's memory cannot be read any more. */
void ur_record_read_fault(struct ur_rqp *q, uint32_t rkey, uint64_t va,
			  uint32_t len);

/* fault.c */
enum ur_fault {
	UR_FAULT_NONE,
	UR_FAULT_DROP, /* silent; counted by the check */
	UR_FAULT_DUPLICATE,
	UR_FAULT_PSN_SEQ,
	UR_FAULT_AHEAD, /* as the last one, but it is kept (rc_keep.c) */
	UR_FAULT_RNR,
	UR_FAULT_BAD_OPCODE, /* out of sequence or not for this QP */
	UR_FAULT_TOO_LONG,   /* longer than the receive's buffers */
	UR_FAULT_BAD_LENGTH, /* payload does not match opcode, MTU, RETH */
	UR_FAULT_ACCESS,     /* rkey, range or rights */
	UR_FAULT_LOCAL_PROT, /* the receive's own memory */
	UR_FAULT_RESOURCES,  /* more READs than negotiated */
	UR_FAULT_INVALIDATE, /* SEND with a key that may not be invalidated */
	UR_FAULT_COUNT,
};

struct ur_fault_row {
	uint8_t syndrome; /* of the NAK (RC) */
	uint8_t status;	  /* of the current receive */
	bool fatal;	  /* the QP goes to ERR (RC) */
	int8_t event;	  /* enum ur_event_type or -1 */
};

extern const struct ur_fault_row ur_fault_rows[UR_FAULT_COUNT];

/* record.c: a request is refused. */
void ur_record_fault(struct ur_rqp *q, const struct ur_in *in, enum ur_fault f);

#endif
