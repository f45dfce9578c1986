/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files near*.c share; a queue pair's part is in roce/internal.h. */
#ifndef UR_SHM_INTERNAL_H
#define UR_SHM_INTERNAL_H

#include "roce/internal.h"
#include "shm/shm.h"

/* Payload of a cell beyond its body: what stays in the first-level cache. */
#define UR_SHM_CHUNK	  8192u
/* Of a WRITE, what is left of the body behind address, key and length. */
#define UR_SHM_WRITE_BODY 16u
/* Requests done that are told at the latest, … */
#define UR_SHM_ACK_EVERY  16u
/* … if nobody waits for one of them, … */
#define UR_SHM_LATE_EVERY 32u
/* … or nothing has come in so many looks. */
#define UR_SHM_LATE_LOOKS 32u
/* Answers that may wait for a request to ride with, without one coming. */
#define UR_SHM_RIDE_SCORE 8u

enum ur_shm_kind {
	UR_SHM_HELLO = 1, /* the sender is in RTR */
	UR_SHM_ASK,	  /* body.index: the requester's first PSN */
	/* To the requester: */
	UR_SHM_READY,
	UR_SHM_REFUSED, /* body.index: 1: data could not be pulled */
	UR_SHM_FAULT,	/* body.index: status of the oldest */
	UR_SHM_DONE,
	UR_SHM_DATA,  /* of a READ: body.index, body.total: offset */
	UR_SHM_OLD,   /* of an atomic: body.index, body.value[0] */
	UR_SHM_PULLS, /* body.rkey: region */
	/* To the responder: */
	UR_SHM_SEND, /* beside its body: body.rkey: could it be pulled? or 0 */
	UR_SHM_WRITE,
	UR_SHM_READ, /* body.index is given back with the data */
	UR_SHM_CMP_SWAP,
	UR_SHM_FETCH_ADD,
	UR_SHM_DATAGRAM, /* shm_ud.c */
	UR_SHM_PULL,	 /* as SEND; body.index bytes at body.va of body.rkey */
};

enum ur_shm_flag {
	UR_SHM_FIRST = 1 << 0,
	UR_SHM_LAST = 1 << 1,
	UR_SHM_IMM = 1 << 2,
	UR_SHM_SOLICITED = 1 << 3,
	UR_SHM_IN_BODY = 1 << 4, /* the payload is in the cell */
	UR_SHM_ACK = 1 << 5,	 /* `ack`: what the sender has done */
	UR_SHM_BEHIND = 1 << 6,	 /* packets of the sender's go before */
	UR_SHM_V6 = 1 << 7,	 /* of a datagram: both addresses are */
	UR_SHM_LATER = 1 << 7,	 /* of a SEND or WRITE: nobody waits for it */
};

/* Numbers of QPs have 24 bits; above them in `to` stands the epoch. */
#define UR_SHM_EPOCH_SHIFT 24u

/* A READ or atomic of the peer that is not answered completely. */
struct ur_shm_res {
	bool read;	/* else an atomic */
	uint32_t index; /* the requester's name for it */
	uint32_t rkey;
	uint32_t len;
	uint32_t off; /* bytes answered */
	uint64_t va;
	uint64_t orig; /* atomic: the old value */
};

/* Cells that a QP has to send once there is room. */
enum ur_shm_due {
	UR_SHM_DUE_HELLO = 1 << 0,
	UR_SHM_DUE_ASK = 1 << 1,
	UR_SHM_DUE_READY = 1 << 2,
	UR_SHM_DUE_REFUSED = 1 << 3,
	UR_SHM_DUE_FAULT = 1 << 4,
	UR_SHM_DUE_DONE = 1 << 5,
	UR_SHM_DUE_PULLS = 1 << 6,
};

/* Requests that pass through shared memory (near.h). */
struct ur_shm_qp {
	struct ur_rqp *q;
	struct ur_shm_peer *peer; /* NULL: no channel */
	struct ur_list node;	  /* peer->qps */
	struct ur_list full;	  /* peer->full */
	struct ur_list acking;	  /* peer->acks */
	struct ur_list more;	  /* ur_roce.shm_more */
	uint8_t due;		  /* UR_SHM_DUE_ */
	/* Requester: */
	/* The peer takes requests of `epoch`.  They go there while on_shm of
	 * the QP is set; then nothing is under way on the wire. */
	bool ready;
	bool again;	/* `refused` goes by the wire; ask when it is done */
	uint8_t epoch;	/* of our requests */
	uint8_t stuck;	/* looks of the timer without progress */
	uint32_t off;	/* bytes of the request at the cursor that left */
	uint32_t sent;	/* requests, since the peer agreed … */
	uint32_t acked; /* … the peer has done … */
	uint32_t completed; /* … and complete: all before are */
	uint32_t answers;   /* READs and atomics under way */
	uint32_t heard;	    /* cells that brought something … */
	uint32_t seen;	    /* … at the last look of the timer */
	uint32_t refused;   /* SQ counter */
	uint32_t cq_head;   /* of the send queue's, when `run` began … */
	uint32_t run;	    /* … requests that we did ourselves since */
	uint64_t direct;    /* bytes of such, in this turn */
	uint32_t passed;    /* bytes that others, under way, kept from it */
	bool drains;	    /* until they are not, so that we do the next one */
	bool no_piece;	    /* the next one is none for shm/piece */
	bool is_useless;    /* the mapped region … */
	uint32_t useless;   /* … of this key, … */
	uint32_t gave_up;   /* … when `passed` was that */
	uint32_t at_seen;   /* the channel's tail then */
	bool open_to_pull;  /* the peer may take what our SENDs name */
	struct ur_mr_hint out;	/* of the data of requests … */
	struct ur_mr_hint into; /* … and of receives */
	/* UC and UD (shm_loose.c): */
	uint64_t wired;	   /* ur_roce.shm_wire at the last local packet */
	uint32_t last;	   /* the channel's head behind the last cell */
	uint32_t at_tail;  /* the channel's tail when the wait began … */
	uint64_t since_ns; /* … and when that was; 0: does not wait */
	/* Responder: */
	bool serves; /* requests of serves_epoch are taken */
	bool in_message;
	bool just_received; /* no request of ours has followed yet */
	uint8_t serves_epoch;
	uint8_t piggyback_score; /* requests of ours follow receives at once */
	uint8_t kind;		 /* of the message under way */
	uint32_t total;		 /* its bytes … */
	uint32_t received;	 /* … so far */
	uint32_t done;		 /* requests, since we agreed … */
	uint32_t told;		 /* … the peer knows */
	bool no_pull;	    /* what we refuse named data that we cannot reach */
	uint32_t pulls_key; /* region that we can take data from */
	bool urged;	    /* it waits to hear of one that it does not know */
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
	uint32_t pulled;      /* bytes, since the present channel's turn */
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
 * A cell to q's peer, of our requests' epoch (`asks`) or of the peer's; NULL:
 * no room, and q waits for some.  ur_shm_send() publishes it, together with
 * what q has done.
 */
struct ur_cell *ur_shm_cell(struct ur_rqp *q, enum ur_shm_kind kind, bool asks);
void ur_shm_send(struct ur_rqp *q, struct ur_cell *c);
void ur_shm_wait_room(struct ur_rqp *q);
/* Send it now or as soon as there is room. */
void ur_shm_owe(struct ur_rqp *q, enum ur_shm_due due);

/*
 * Before a request of q leaves: what other QPs have received by now is told,
 * so that it completes at the peer before what is asked next.
 */
void ur_shm_tell_others(const struct ur_rqp *q);
/* Descriptors were taken: acknowledge what must not wait longer. */
void ur_shm_ack_taken(struct ur_roce *r);

/* The channel is not what it should be: its QPs fail. */
void ur_shm_broken(struct ur_rqp *q);

/*
 * May the peer tell of it later than at once?  Nobody asked for its completion,
 * and a cell that goes back for each costs both sides as much as the request.
 */
static inline uint8_t ur_shm_later(const struct ur_rqp *q,
				   const struct ur_swqe *w)
{
	return (w->flags & UR_SEND_SIGNALED) || q->qp->sq_sig_all ||
			       w->proto_state == UR_SWQE_OWN
		       ? 0
		       : UR_SHM_LATER;
}

/* The oldest request is complete, and nobody wants to know (_later()). */
static inline void ur_shm_pass(struct ur_rqp *q)
{
	ur_sq_pop(&q->qp->sq);
}

/*
 * shm_fast.c: the request at the cursor, or the cell, if it is as most are.
 * False: it is not, and nothing has been done.
 */
bool ur_shm_send_small(struct ur_rqp *q);
bool ur_shm_take_small(struct ur_rqp *q, const struct ur_cell *c);
/* Where a request's only element lies in plain memory of the application, as
 * far as its data goes; or NULL. */
static inline uint8_t *ur_shm_piece(const struct ur_rqp *q,
				    const struct ur_sge *s, uint32_t len,
				    uint32_t access, struct ur_mr_hint *hint)
{
	const struct ur_mr *mr = ur_mr_lookup_again(q->qp->mrs, s->lkey, hint);

	if (!mr || mr->kind != UR_MR_MEMORY || len > s->length)
		return NULL;
	return ur_mr_translate(mr, q->qp->pd, s->addr, len, access);
}

/* shm_req.c.  _sent: the request at the cursor has left. */
void ur_shm_sent(struct ur_rqp *q);
void ur_shm_take_ready(struct ur_rqp *q);
void ur_shm_take_refused(struct ur_rqp *q, bool pull);
void ur_shm_take_fault(struct ur_rqp *q, uint32_t status);
void ur_shm_take_ack(struct ur_rqp *q, uint32_t count);
void ur_shm_take_answer(struct ur_rqp *q, const struct ur_cell *c);
/* What is not complete goes by the wire. */
void ur_shm_leave(struct ur_rqp *q);

/*
 * shm_direct.c: done by ourselves in the peer's memory, if that is possible;
 * nothing of before is under way.  False: it was not, the channel is the way.
 */
bool ur_shm_do_directly(struct ur_rqp *q, const struct ur_swqe *w);
/* Bytes at a time that are done so; then q is to _rest until the next poll. */
#define UR_SHM_DIRECT_BYTES (1u << 20)
void ur_shm_rest(struct ur_rqp *q);
/* Should it wait until the channel is done with those before it, since then
 * we could do it? */
bool ur_shm_waits_direct(struct ur_rqp *q, const struct ur_swqe *w);

/*
 * shm_pull.c: data that stays where it is, for the peer to take.  _piece: may
 * the next bytes of the SEND at the cursor go so?  If not, out->len is 0, and
 * out->key what the peer is to be asked about, or 0.
 */
#define UR_SHM_PULL_MIN 4096u
#define UR_SHM_PULL_MAX 262144u /* UR_DIRECT_CHUNK: by and by */

struct ur_shm_named {
	uint32_t key;
	uint32_t len;
	uint64_t va;
};

void ur_shm_pull_piece(struct ur_rqp *q, const struct ur_swqe *w,
		       struct ur_shm_named *out);
/* Is there room for so many more bytes to be named?  _named: the newest cell
 * names them. */
bool ur_shm_pull_room(struct ur_shm_peer *p, uint32_t len);
void ur_shm_pull_named(struct ur_shm_peer *p, uint32_t len);
/* The peer takes data of a region, or has refused to. */
void ur_shm_take_pulls(struct ur_rqp *q, const struct ur_cell *c);
void ur_shm_pull_refused(struct ur_rqp *q);
/* What it takes from now on it does not use: the memory is the application's
 * again. */
void ur_shm_pull_end(struct ur_rqp *q);

/* Responder: the peer asks about a region; its data into the receive. */
void ur_shm_pull_asked(struct ur_rqp *q, uint32_t key);
bool ur_shm_pull_place(struct ur_rqp *q, const struct ur_cell *c);

/* shm_resp.c.  _count_done: one more request of the peer's, whose last cell
 * this is. */
void ur_shm_count_done(struct ur_rqp *q, const struct ur_cell *c);
/* Of a SEND's or WRITE's cell; NULL: its numbers are not what we write. */
const uint8_t *ur_shm_payload(const struct ur_rqp *q, const struct ur_cell *c);
void ur_shm_take_ask(struct ur_rqp *q, const struct ur_cell *c);
void ur_shm_take_request(struct ur_rqp *q, const struct ur_cell *c);
/* Answers to READs and atomics; false: there was no room for all. */
bool ur_shm_answer(struct ur_rqp *q);
/* No more requests until the peer asks again. */
void ur_shm_stop_serving(struct ur_rqp *q);

/* The data of a SEND or WRITE at the cursor.  -EAGAIN: no room for all of
 * it, go on later; -EFAULT: the request's own memory is not accessible. */
int ur_shm_send_message(struct ur_rqp *q, const struct ur_swqe *w);
/* [off, off + len) of its data; the errors of ur_sge_gather(), -EFAULT. */
int ur_shm_copy_out(const struct ur_rqp *q, const struct ur_swqe *w,
		    uint32_t off, uint32_t len, uint8_t *to);

/*
 * shm_loose.c: requesters of UC and UD.  _pump sends what may be sent;
 * _part: the peer is gone.
 */
void ur_shm_loose_pump(struct ur_rqp *q);
void ur_shm_loose_part(struct ur_rqp *q);

/* shm_uc.c.  _join: a channel to the peer has opened. */
void ur_shm_uc_join(struct ur_rqp *q);
void ur_shm_uc_take(struct ur_rqp *q, const struct ur_cell *c);

/*
 * shm_ud.c.  _peer: the channel by which the request may go; NULL: the wire.
 * _send: as ur_shm_send_message().  _wants: datagrams go there often.
 */
struct ur_shm_peer *ur_shm_ud_peer(struct ur_rqp *q, const struct ur_swqe *w);
int ur_shm_ud_send(struct ur_rqp *q, const struct ur_swqe *w);
void ur_shm_ud_take(struct ur_roce *r, const struct ur_cell *c);
bool ur_shm_ud_wants(const struct ur_roce *r, uint16_t slot);

#endif
