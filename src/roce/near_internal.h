/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files near*.c share; a queue pair's part is in roce/internal.h. */
#ifndef UR_ROCE_NEAR_INTERNAL_H
#define UR_ROCE_NEAR_INTERNAL_H

#include "roce/internal.h"
#include "roce/near.h"

/* Payload of a cell beyond its body: what stays in the first-level cache. */
#define UR_NEAR_CHUNK	   8192u
/* Of a WRITE, what is left of the body behind address, key and length. */
#define UR_NEAR_WRITE_BODY 16u
/* Requests done that are told at the latest, … */
#define UR_NEAR_ACK_EVERY  16u
/* … if nobody waits for one of them, … */
#define UR_NEAR_LATE_EVERY 32u
/* … or nothing has come in so many looks. */
#define UR_NEAR_LATE_LOOKS 32u
/* Answers that may wait for a request to ride with, without one coming. */
#define UR_NEAR_RIDE_SCORE 8u

enum ur_near_kind {
	UR_NEAR_HELLO = 1, /* the sender is in RTR */
	UR_NEAR_ASK,	   /* body.index: the requester's first PSN */
	/* To the requester: */
	UR_NEAR_READY,
	UR_NEAR_REFUSED, /* body.index: 1: data could not be pulled */
	UR_NEAR_FAULT,	 /* body.index: status of the oldest */
	UR_NEAR_DONE,
	UR_NEAR_DATA,  /* of a READ: body.index, body.total: offset */
	UR_NEAR_OLD,   /* of an atomic: body.index, body.value[0] */
	UR_NEAR_PULLS, /* body.rkey: region */
	/* To the responder: */
	UR_NEAR_SEND, /* beside its body: body.rkey: could it be pulled? or 0 */
	UR_NEAR_WRITE,
	UR_NEAR_READ, /* body.index is given back with the data */
	UR_NEAR_CMP_SWAP,
	UR_NEAR_FETCH_ADD,
	UR_NEAR_DATAGRAM, /* near_ud.c */
	UR_NEAR_PULL, /* as SEND; body.index bytes at body.va of body.rkey */
};

enum ur_near_flag {
	UR_NEAR_FIRST = 1 << 0,
	UR_NEAR_LAST = 1 << 1,
	UR_NEAR_IMM = 1 << 2,
	UR_NEAR_SOLICITED = 1 << 3,
	UR_NEAR_IN_BODY = 1 << 4, /* the payload is in the cell */
	UR_NEAR_ACK = 1 << 5,	  /* `ack`: what the sender has done */
	UR_NEAR_BEHIND = 1 << 6,  /* packets of the sender's go before */
	UR_NEAR_V6 = 1 << 7,	  /* of a datagram: both addresses are */
	UR_NEAR_LATER = 1 << 7,	  /* of a SEND or WRITE: nobody waits for it */
};

/* Numbers of QPs have 24 bits; above them in `to` stands the epoch. */
#define UR_NEAR_EPOCH_SHIFT 24u

/*
 * A cell to q's peer, of our requests' epoch (`asks`) or of the peer's; NULL:
 * no room, and q waits for some.  ur_near_send() publishes it, together with
 * what q has done.
 */
struct ur_cell *ur_near_cell(struct ur_rqp *q, enum ur_near_kind kind,
			     bool asks);
void ur_near_send(struct ur_rqp *q, struct ur_cell *c);
void ur_near_wait_room(struct ur_rqp *q);
/* Send it now or as soon as there is room. */
void ur_near_owe(struct ur_rqp *q, enum ur_near_due due);

/*
 * Before a request of q leaves: what other QPs have received by now is told,
 * so that it completes at the peer before what is asked next.
 */
void ur_near_tell_others(const struct ur_rqp *q);

/* The channel is not what it should be: its QPs fail. */
void ur_near_broken(struct ur_rqp *q);

/*
 * May the peer tell of it later than at once?  Nobody asked for its completion,
 * and a cell that goes back for each costs both sides as much as the request.
 */
static inline uint8_t ur_near_later(const struct ur_rqp *q,
				    const struct ur_swqe *w)
{
	return (w->flags & UR_SEND_SIGNALED) || q->qp->sq_sig_all ||
			       w->proto_state == UR_SWQE_OWN
		       ? 0
		       : UR_NEAR_LATER;
}

/* The oldest request is complete, and nobody wants to know (_later()). */
static inline void ur_near_pass(struct ur_rqp *q)
{
	ur_sq_pop(&q->qp->sq);
}

/*
 * near_fast.c: the request at the cursor, or the cell, if it is as most are.
 * False: it is not, and nothing has been done.
 */
bool ur_near_send_small(struct ur_rqp *q);
bool ur_near_take_small(struct ur_rqp *q, const struct ur_cell *c);
/* Where a request's only element lies in plain memory of the application, as
 * far as its data goes; or NULL. */
static inline uint8_t *ur_near_piece(const struct ur_rqp *q,
				     const struct ur_sge *s, uint32_t len,
				     uint32_t access, struct ur_mr_hint *hint)
{
	const struct ur_mr *mr = ur_mr_lookup_again(q->qp->mrs, s->lkey, hint);

	if (!mr || mr->kind != UR_MR_MEMORY || len > s->length)
		return NULL;
	return ur_mr_translate(mr, q->qp->pd, s->addr, len, access);
}

/* near_req.c.  _sent: the request at the cursor has left. */
void ur_near_sent(struct ur_rqp *q);
void ur_near_pump(struct ur_rqp *q);
void ur_near_take_ready(struct ur_rqp *q);
void ur_near_take_refused(struct ur_rqp *q, bool pull);
void ur_near_take_fault(struct ur_rqp *q, uint32_t status);
void ur_near_take_ack(struct ur_rqp *q, uint32_t count);
void ur_near_take_answer(struct ur_rqp *q, const struct ur_cell *c);
/* What is not complete goes by the wire. */
void ur_near_leave(struct ur_rqp *q);

/*
 * near_direct.c: done by ourselves in the peer's memory, if that is possible;
 * nothing of before is under way.  False: it was not, the channel is the way.
 */
bool ur_near_do_directly(struct ur_rqp *q, const struct ur_swqe *w);
/* Bytes at a time that are done so; then q is to _rest until the next poll. */
#define UR_NEAR_DIRECT_BYTES (1u << 20)
void ur_near_rest(struct ur_rqp *q);
/* Should it wait until the channel is done with those before it, since then
 * we could do it? */
bool ur_near_waits_direct(struct ur_rqp *q, const struct ur_swqe *w);

/*
 * near_pull.c: data that stays where it is, for the peer to take.  _piece: may
 * the next bytes of the SEND at the cursor go so?  If not, out->len is 0, and
 * out->key what the peer is to be asked about, or 0.
 */
#define UR_NEAR_PULL_MIN 4096u
#define UR_NEAR_PULL_MAX 262144u /* UR_REACH_CHUNK: by and by */

struct ur_near_named {
	uint32_t key;
	uint32_t len;
	uint64_t va;
};

void ur_near_pull_piece(struct ur_rqp *q, const struct ur_swqe *w,
			struct ur_near_named *out);
/* Is there room for so many more bytes to be named?  _named: the newest cell
 * names them. */
bool ur_near_pull_room(struct ur_near_peer *p, uint32_t len);
void ur_near_pull_named(struct ur_near_peer *p, uint32_t len);
/* The peer takes data of a region, or has refused to. */
void ur_near_take_pulls(struct ur_rqp *q, const struct ur_cell *c);
void ur_near_pull_refused(struct ur_rqp *q);
/* What it takes from now on it does not use: the memory is the application's
 * again. */
void ur_near_pull_end(struct ur_rqp *q);

/* Responder: the peer asks about a region; its data into the receive. */
void ur_near_pull_asked(struct ur_rqp *q, uint32_t key);
bool ur_near_pull_place(struct ur_rqp *q, const struct ur_cell *c);

/* near_resp.c.  _count_done: one more request of the peer's, whose last cell
 * this is. */
void ur_near_count_done(struct ur_rqp *q, const struct ur_cell *c);
/* Of a SEND's or WRITE's cell; NULL: its numbers are not what we write. */
const uint8_t *ur_near_payload(const struct ur_rqp *q, const struct ur_cell *c);
void ur_near_take_ask(struct ur_rqp *q, const struct ur_cell *c);
void ur_near_take_request(struct ur_rqp *q, const struct ur_cell *c);
/* Answers to READs and atomics; false: there was no room for all. */
bool ur_near_answer(struct ur_rqp *q);
/* No more requests until the peer asks again. */
void ur_near_stop_serving(struct ur_rqp *q);

/* The data of a SEND or WRITE at the cursor.  -EAGAIN: no room for all of
 * it, go on later; -EFAULT: the request's own memory is not accessible. */
int ur_near_send_message(struct ur_rqp *q, const struct ur_swqe *w);
/* [off, off + len) of its data; the errors of ur_sge_gather(), -EFAULT. */
int ur_near_copy_out(const struct ur_rqp *q, const struct ur_swqe *w,
		     uint32_t off, uint32_t len, uint8_t *to);

/*
 * near_loose.c: requesters of UC and UD.  _pump sends what may be sent;
 * _part: the peer is gone.
 */
void ur_near_loose_pump(struct ur_rqp *q);
void ur_near_loose_part(struct ur_rqp *q);

/* near_uc.c.  _join: a channel to the peer has opened. */
void ur_near_uc_join(struct ur_rqp *q);
void ur_near_uc_take(struct ur_rqp *q, const struct ur_cell *c);

/*
 * near_ud.c.  _peer: the channel by which the request may go; NULL: the wire.
 * _send: as ur_near_send_message().  _wants: datagrams go there often.
 */
struct ur_near_peer *ur_near_ud_peer(struct ur_rqp *q, const struct ur_swqe *w);
int ur_near_ud_send(struct ur_rqp *q, const struct ur_swqe *w);
void ur_near_ud_take(struct ur_roce *r, const struct ur_cell *c);
bool ur_near_ud_wants(const struct ur_roce *r, uint16_t slot);

#endif
