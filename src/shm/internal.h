/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the transport; direct access has direct_internal.h. */
#ifndef UR_SHM_INTERNAL_H
#define UR_SHM_INTERNAL_H

#include "core/capture.h"
#include "roce/internal.h"
#include "shm/shm.h"

/* Payload of a descriptor outside its body: small enough for the L1 cache. */
#define UR_SHM_CHUNK	       8192u
/* A WRITE's body holds this much payload behind address, key and length. */
#define UR_SHM_WRITE_BODY      16u
/* Unacknowledged requests, at most, while an acknowledgement waits to piggyback. */
#define UR_SHM_ACK_EVERY       16u
/* The same if the requester waits for none of their completions. */
#define UR_SHM_LATE_EVERY      32u
/* Empty polls before such a delayed acknowledgement is sent. */
#define UR_SHM_LATE_POLLS      32u
/* Failed piggybacks before acknowledgements are no longer delayed. */
#define UR_SHM_PIGGYBACK_SCORE 8u

enum ur_shm_kind {
	UR_SHM_HELLO = 1, /* the sender is in RTR */
	UR_SHM_ASK,	  /* body.index: the requester's first PSN */
	/* To the requester: */
	UR_SHM_READY,
	UR_SHM_REFUSED, /* body.index: 1: the rendezvous failed */
	UR_SHM_FAULT,	/* body.index: completion status of the oldest */
	UR_SHM_DONE,
	UR_SHM_DATA,	/* of a READ: body.index, body.total: offset */
	UR_SHM_OLD,	/* of an atomic: body.index, body.value */
	UR_SHM_RNDV_OK, /* body.rkey: the region that can be mapped */
	/* To the responder: */
	UR_SHM_SEND,  /* not in the body: body.rkey: asks for RNDV_OK, or 0 */
	UR_SHM_WRITE, /* not in the body: body.value[0]: the same */
	UR_SHM_READ,  /* body.index is returned with the data */
	/* With payload: struct ur_masked, and body.total is the operand's size. */
	UR_SHM_CMP_SWAP,
	UR_SHM_FETCH_ADD,
	UR_SHM_DATAGRAM, /* ud.c */
	UR_SHM_RNDV,	 /* a SEND; body.index bytes at body.va of body.rkey */
	/* A WRITE; body.index bytes at body.value[0] of the region body.at. */
	UR_SHM_RNDV_WRITE,
};

enum ur_shm_flag {
	UR_SHM_FIRST = 1 << 0,
	UR_SHM_LAST = 1 << 1,
	UR_SHM_IMM = 1 << 2,
	UR_SHM_SOLICITED = 1 << 3,
	UR_SHM_IN_BODY = 1 << 4, /* the payload is in the body */
	UR_SHM_ACK =
		1 << 5, /* `ack` is valid: requests that the sender has done */
	UR_SHM_BEHIND = 1 << 6, /* the sender sent packets before it */
	UR_SHM_V6 = 1 << 7,	/* datagram: both addresses are IPv6 */
	UR_SHM_ACK_LATE =
		1 << 7, /* SEND or WRITE: its completion is not awaited */
};

/* `to`: a QP number of 24 bits, and the epoch above it. */
#define UR_SHM_EPOCH_SHIFT 24u

/* A READ or atomic of the peer that is not completely answered. */
struct ur_shm_res {
	bool read;	/* else an atomic */
	uint32_t index; /* returned with the answer */
	uint32_t rkey;
	uint32_t len;
	uint32_t off; /* bytes answered */
	uint64_t va;
	uint64_t orig[2]; /* atomic: the old value */
};

/* Descriptors that a QP sends as soon as there is room. */
enum ur_shm_due {
	UR_SHM_DUE_HELLO = 1 << 0,
	UR_SHM_DUE_ASK = 1 << 1,
	UR_SHM_DUE_READY = 1 << 2,
	UR_SHM_DUE_REFUSED = 1 << 3,
	UR_SHM_DUE_FAULT = 1 << 4,
	UR_SHM_DUE_DONE = 1 << 5,
	UR_SHM_DUE_RNDV_OK = 1 << 6,
};

/* A queue pair on a channel; the holder of the lane's lock. */
struct ur_shm_qp {
	struct ur_rqp *q;
	struct ur_shm_peer *peer; /* NULL: no channel */
	struct ur_list node;	  /* peer->qps */
	struct ur_list full;	  /* peer->full */
	struct ur_list acking;	  /* peer->acks */
	struct ur_list more;	  /* ur_shm.more */
	uint8_t due;		  /* UR_SHM_DUE_ */
	/* Requester. */
	/*
	 * The peer accepts requests of `epoch`. They go there while qp->on_shm
	 * is set; then none is outstanding on the wire.
	 */
	bool ready;
	bool again;	/* `refused` goes by the wire; ASK when it is done */
	uint8_t epoch;	/* of our requests */
	uint8_t stuck;	/* timer checks without progress */
	uint32_t off;	/* bytes of the request at the cursor already sent */
	uint32_t sent;	/* requests sent in this epoch */
	uint32_t acked; /* requests that the peer has done */
	uint32_t completed;	/* requests complete, with all before them */
	uint32_t answers;	/* READs and atomics outstanding */
	uint32_t progress;	/* descriptors that brought progress */
	uint32_t progress_seen; /* `progress` at the last timer check */
	uint32_t refused;	/* SQ counter */
	uint32_t cq_head;	/* that of the send CQ when `run` began */
	uint32_t run;		/* small requests by CMA since */
	uint64_t direct;	/* bytes by direct access in this turn */
	uint32_t passed; /* bytes that outstanding requests kept from it */
	bool draining;	 /* no request is sent until none is outstanding */
	bool no_piece;	 /* direct_fast.c cannot do the next request */
	bool is_useless; /* direct access to useless_key failed */
	uint32_t useless_key;
	uint32_t useless_at;	/* `passed` at that time */
	uint32_t at_seen;	/* the channel's tail at the last timer check */
	bool rndv_open;		/* the peer may get the data of our messages */
	struct ur_mr_hint out;	/* memory of requests */
	struct ur_mr_hint into; /* memory of receives */
	uint64_t wired;		/* ur_shm.wire at the last packet of ours */
	/* UC and UD (unreliable.c). */
	uint32_t last;	   /* the channel's head behind our last descriptor */
	uint32_t at_tail;  /* the channel's tail when the wait began */
	uint64_t since_ns; /* when the wait began; 0: does not wait */
	/* Responder. */
	bool serves; /* requests of serves_epoch are executed */
	bool in_message;
	bool just_received; /* no request of ours has followed yet */
	uint8_t serves_epoch;
	uint8_t piggyback_score; /* how often requests of ours follow receives */
	uint8_t kind;		 /* of the message in progress */
	uint32_t total;		 /* bytes of the message */
	uint32_t received;	 /* bytes received so far */
	uint32_t done;		 /* requests done in this epoch */
	uint32_t acked_done;	 /* of these, acknowledged */
	bool rndv_failed; /* the refused request was a rendezvous that failed */
	uint32_t rndv_key;  /* region that RNDV_OK is about */
	bool ack_requested; /* a requester waits for the acknowledgement */
	uint32_t rkey;
	uint64_t va;
	struct ur_shm_res *res; /* a ring of res_size */
	uint32_t res_size;
	uint32_t res_head;
	uint32_t res_count;
};

#define UR_SHM_SLOTS (1u << 10)

/* The part of a lane; the holder of the lane's lock. */
struct ur_shm {
	struct ur_list peers; /* ur_shm_peer.node */
	struct ur_list more;  /* ur_shm_qp.more: continue at the next poll */
	bool acks;	      /* some acknowledgements wait to piggyback */
	uint8_t late;	      /* empty polls for which others wait */
	uint8_t rounds;	      /* polls in a row after which some waited */
	bool asleep;	      /* only a wakeup fd brings a thread here */
	bool look;	      /* a QP waits for room since, while asleep */
	bool held;	      /* a descriptor waits for the link to be empty */
	uint32_t rndv_bytes;  /* bytes, since the present channel's turn */
	uint64_t wire;	      /* requests of UC and UD by wire to this host */
	uint32_t ud[UR_SHM_SLOTS];  /* those of UD, by slot */
	const struct ur_chan *from; /* the channel of the present descriptor */
};

static inline struct ur_shm_peer *ur_shm_peer_of(const struct ur_rqp *q)
{
	return q->shm ? q->shm->peer : NULL;
}

/* Requests that the peer has not done, or that left in part. */
static inline bool ur_shm_outstanding(const struct ur_shm_qp *n)
{
	return n->sent != n->completed || n->off;
}

/* Make q->shm; false: no memory, so it stays on the wire. */
bool ur_shm_qp_make(struct ur_rqp *q);

/*
 * The next descriptor for q's peer, of our requests' epoch (`asks`) or of the
 * peer's; NULL: no room, and q waits for some. ur_shm_send() publishes it, with
 * an acknowledgement of what q has done.
 */
struct ur_desc *ur_shm_desc(struct ur_rqp *q, enum ur_shm_kind kind, bool asks);
void ur_shm_send(struct ur_rqp *q, struct ur_desc *c);
void ur_shm_wait_room(struct ur_rqp *q);
/* Send it now or as soon as there is room. */
void ur_shm_send_due(struct ur_rqp *q, enum ur_shm_due due);

/*
 * Acknowledge what other queue pairs have received before a request of q
 * leaves: at the peer those completions come before that request.
 */
void ur_shm_ack_others(const struct ur_rqp *q);
/* Descriptors were taken: acknowledge what must not wait longer. */
void ur_shm_ack_taken(struct ur_roce *r);

/* The peer has violated the protocol: its queue pairs fail. */
void ur_shm_broken(struct ur_rqp *q);

/*
 * May the peer acknowledge it late?  The program does not wait for its
 * completion, and an acknowledgement of its own costs both sides as much as the
 * request. A NOP of a cross-channel queue pair waits for all earlier ones.
 */
static inline uint8_t ur_shm_ack_late(const struct ur_rqp *q,
				      const struct ur_swqe *w)
{
	return (w->flags & UR_SEND_SIGNALED) || q->qp->sq_sig_all ||
			       q->qp->cross || w->proto_state == UR_SWQE_OWN
		       ? 0
		       : UR_SHM_ACK_LATE;
}

/* What the other queue pairs do not need. */
void ur_shm_complete_aside(struct ur_qp *qp);

/* Complete the oldest request, which is unsignaled (ur_shm_ack_late()). */
static inline void ur_shm_complete_silently(struct ur_rqp *q)
{
	if (ur_qp_is_aside(q->qp))
		ur_shm_complete_aside(q->qp);
	ur_sq_pop(&q->qp->sq);
}

/*
 * fast.c: send the request at the cursor, or execute the descriptor, if it is
 * of the common kind.  False: it is not, and nothing was done.
 */
bool ur_shm_send_small(struct ur_rqp *q);
bool ur_shm_take_small(struct ur_rqp *q, const struct ur_desc *c);
/*
 * The address of a request's only element if it is ordinary memory of the
 * application that holds `len` bytes; else NULL.
 */
static inline uint8_t *ur_shm_piece(const struct ur_rqp *q,
				    const struct ur_sge *s, uint32_t len,
				    uint32_t access, struct ur_mr_hint *hint)
{
	const struct ur_mr *mr = ur_mr_lookup_again(q->qp->mrs, s->lkey, hint);

	if (!mr || mr->kind != UR_MR_MEMORY || len > s->length)
		return NULL;
	return ur_mr_translate(mr, q->qp->pd, s->addr, len, access);
}

/* req.c. _sent: the request at the cursor has left. */
void ur_shm_sent(struct ur_rqp *q);
void ur_shm_take_ready(struct ur_rqp *q);
void ur_shm_take_refused(struct ur_rqp *q, bool pull);
void ur_shm_take_fault(struct ur_rqp *q, uint32_t status);
void ur_shm_take_ack(struct ur_rqp *q, uint32_t count);
void ur_shm_take_answer(struct ur_rqp *q, const struct ur_desc *c);
/* Return to the wire with all requests that are not complete. */
void ur_shm_leave(struct ur_rqp *q);

/*
 * req_direct.c: do the request by direct access, while none is outstanding.
 * False: not possible, use the ring.
 */
bool ur_shm_do_directly(struct ur_rqp *q, const struct ur_swqe *w);
/* Bytes by direct access after which q yields until the next poll (_rest). */
#define UR_SHM_DIRECT_BYTES (1u << 20)
void ur_shm_rest(struct ur_rqp *q);
/*
 * Should it wait until none is outstanding, to be done by direct access then?
 */
bool ur_shm_waits_direct(struct ur_rqp *q, const struct ur_swqe *w);

/*
 * rendezvous.c.  _piece: can the next bytes of the message at the cursor stay
 * where they are?  If not, out->len is 0, and out->key is a region to ask
 * about, or 0.
 */
#define UR_SHM_RNDV_MIN 4096u
#define UR_SHM_RNDV_MAX 262144u /* UR_DIRECT_CHUNK: piece by piece */

struct ur_shm_rndv_data {
	uint32_t key;
	uint32_t len;
	uint64_t va;
};

void ur_shm_rndv_piece(struct ur_rqp *q, const struct ur_swqe *w,
		       struct ur_shm_rndv_data *out);
/* May descriptors name so many more bytes? _sent: the newest one names them. */
bool ur_shm_rndv_room(struct ur_shm_peer *p, uint32_t len);
void ur_shm_rndv_sent(struct ur_shm_peer *p, uint32_t len);
/* RNDV_OK came; a rendezvous was refused. */
void ur_shm_rndv_take_ok(struct ur_rqp *q, const struct ur_desc *c);
void ur_shm_rndv_refused(struct ur_rqp *q);
/* Take the right back: what the peer gets from now on it does not use. */
void ur_shm_rndv_end(struct ur_rqp *q);

/* Responder: may the peer use a rendezvous for that region? Get the data. */
void ur_shm_rndv_asked(struct ur_rqp *q, uint32_t key);
bool ur_shm_rndv_place(struct ur_rqp *q, const struct ur_desc *c);
static inline bool ur_shm_is_rndv(const struct ur_desc *c)
{
	return c->kind == UR_SHM_RNDV || c->kind == UR_SHM_RNDV_WRITE;
}
/*
 * Where [done, done + len) of the named data goes: how many pieces, of which the first
 * UR_DIRECT_PIECES are in `out`, or an error of ur_mr_pieces().  How many bytes
 * pieces have.
 */
int ur_shm_rndv_target(const struct ur_rqp *q, const struct ur_desc *c,
		       uint32_t done, uint32_t len, struct iovec *out);
uint32_t ur_shm_rndv_size(const struct iovec *iov, int pieces);
/* The memory of [va, va + ...) of a remote key. */
static inline struct ur_mr_ref ur_shm_memory(const struct ur_rqp *q,
					     uint32_t rkey, uint64_t va)
{
	return (struct ur_mr_ref){ .t = q->qp->mrs,
				   .pd = q->qp->pd,
				   .qp = q->qp,
				   .key = rkey,
				   .va = va };
}

/*
 * resp.c. _count_done: c is the last descriptor of one more request that is
 * done.
 */
void ur_shm_count_done(struct ur_rqp *q, const struct ur_desc *c);
/*
 * The payload of a SEND's or WRITE's descriptor; NULL: it violates the
 * protocol.
 */
const uint8_t *ur_shm_payload(const struct ur_rqp *q, const struct ur_desc *c);
void ur_shm_take_ask(struct ur_rqp *q, const struct ur_desc *c);
void ur_shm_take_request(struct ur_rqp *q, const struct ur_desc *c);
/* Answer READs and atomics; false: no room for all. */
bool ur_shm_answer(struct ur_rqp *q);
/* Execute no more requests until the peer sends ASK. */
void ur_shm_stop_serving(struct ur_rqp *q);

/*
 * Send the data of the SEND or WRITE at the cursor. -EAGAIN: no room for the
 * rest, continue later; -EFAULT: the request's own memory is not accessible.
 */
int ur_shm_send_message(struct ur_rqp *q, const struct ur_swqe *w);
/* Copy [off, off + len) of its data; errors as ur_sge_gather(), and -EFAULT. */
int ur_shm_copy_out(const struct ur_rqp *q, const struct ur_swqe *w,
		    uint32_t off, uint32_t len, uint8_t *to);

/*
 * unreliable.c: requesters of UC and UD. _pump sends what it may; _part: the
 * channel has ended.
 */
void ur_shm_unreliable_pump(struct ur_rqp *q);
void ur_shm_unreliable_part(struct ur_rqp *q);

/* uc.c. _join: a channel to the peer has opened. */
void ur_shm_uc_join(struct ur_rqp *q);
void ur_shm_uc_take(struct ur_rqp *q, const struct ur_desc *c);

/*
 * ud.c. _peer: the channel that the request may use; NULL: the wire. _send: as
 * ur_shm_send_message(). _wants: enough datagrams go there.
 */
struct ur_shm_peer *ur_shm_ud_peer(struct ur_rqp *q, const struct ur_swqe *w);
/* Of a datagram: its addresses, and its payload if that is in the body. */
void ur_shm_ud_addresses(const struct ur_desc *c, uint8_t src[16],
			 uint8_t dst[16]);
const uint8_t *ur_shm_ud_body(const struct ur_desc *c);
int ur_shm_ud_send(struct ur_rqp *q, const struct ur_swqe *w);
void ur_shm_ud_take(struct ur_roce *r, const struct ur_desc *c);
bool ur_shm_ud_wants(const struct ur_roce *r, uint16_t slot);

/*
 * tap.c, only while r->tap is set.  _sent: about to be published; _taken: about to
 * be executed, q is NULL for a datagram; _fetched: the data of a rendezvous has
 * come; _direct: done by direct access.
 */
void ur_shm_tap_sent(const struct ur_rqp *q, const struct ur_desc *c);
void ur_shm_tap_taken(const struct ur_roce *r, const struct ur_rqp *q,
		      const struct ur_desc *c);
void ur_shm_tap_fetched(const struct ur_rqp *q, const struct ur_desc *c);
void ur_shm_tap_direct(const struct ur_rqp *q, const struct ur_swqe *w);

#endif
