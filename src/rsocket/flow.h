/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accounting of a stream: credits, granted receive memory, the rings of
 * both buffers, work requests in use.  It knows offsets and lengths only, no
 * verbs and no memory but the list that the peer writes; so two of them can be
 * run against each other in a test.  The owner's lock guards all of it.
 *
 * To send data one needs a credit (the peer's receive queue holds a request
 * for the message), room in the granted memory, free work requests and space
 * in the send buffer.  A side gives credits and memory back when the
 * application has read half of either; four work requests are kept for such
 * messages, which need no credit, so that two sides that wait for each other's
 * grants cannot lock up (the peer's receive queue may be empty then, and RNR
 * retries carry the message over the gap).
 *
 * Buffers are rings of offsets that grow as TCP's do, by moving to a larger
 * ring, whose offsets follow those of the former one.  The receive buffer grows
 * if the reader keeps up and the peer uses up its grants; the send buffer
 * if it alone keeps a message from leaving.  A former ring is in use until its
 * last byte is read or sent, and there is one at most.
 */
#ifndef UR_RSOCKET_FLOW_H
#define UR_RSOCKET_FLOW_H

#include "rsocket/proto.h"

enum {
	URS_CTRL_SLOTS = 4,
	URS_SEND_LOW = 2048, /* send space below which one cannot send */
};

struct urs_flow_conf {
	uint16_t sq_size;
	uint16_t rq_size;
	uint32_t sbuf_size;
	uint32_t rbuf_size; /* even */
	uint32_t sbuf_most; /* the buffers may grow to this; 0: fixed */
	uint32_t rbuf_most;
	bool paired; /* a message is a work request of its own */
};

struct urs_flow {
	/* sending */
	bool paired;
	bool swap;	     /* the peer has the other byte order */
	uint16_t send_seq;   /* messages sent that needed a credit */
	uint16_t send_limit; /* ... and how many of them may be */
	uint32_t sq_size;
	uint32_t sq_free;
	uint32_t ctrl_free;
	uint32_t unsignaled; /* data requests since the last signaled one */
	uint32_t unsignaled_copied;
	uint32_t sbuf_most;
	uint32_t sbuf_base; /* the ring is [sbuf_base, sbuf_base + sbuf_size) */
	uint32_t sbuf_size;
	uint32_t sbuf_free;
	uint32_t sbuf_pos;
	uint32_t sbuf_old; /* bytes of the former ring still being sent */
	volatile struct urs_sge *target; /* the peer writes it */
	unsigned int target_at;

	/* receiving */
	uint16_t rq_size;
	uint16_t recv_seq;  /* messages that the application has read */
	uint16_t recv_mark; /* number at which to grant again */
	uint32_t rbuf_most;
	uint32_t rbuf_base; /* the ring is [rbuf_base, rbuf_base + 2 * half) */
	uint32_t half;
	uint32_t rbuf_pos;  /* first unread byte */
	uint32_t rbuf_free; /* read and not granted again */
	uint32_t rbuf_next; /* to be granted next */
	uint32_t rbuf_old;  /* bytes of the former ring not read yet */
	bool caught_up;	    /* the reader had read all, since the last grant */
	uint32_t granted;   /* bytes that the peer may still write */
	uint32_t unread;
	uint32_t *msgs;	   /* lengths of unread messages: a ring of */
	uint32_t msgs_cap; /* rq_size entries */
	uint32_t msgs_head;
	uint32_t msgs_count;

	/* where grants go */
	struct urs_sge peer_sgl;
	uint32_t peer_at;
};

/* msgs has room for conf->rq_size numbers; target is URS_SGL_LEN entries. */
void urs_flow_init(struct urs_flow *f, const struct urs_flow_conf *conf,
		   volatile struct urs_sge *target, uint32_t *msgs);

/* What the peer said when the connection was made. */
void urs_flow_connect(struct urs_flow *f, const struct urs_hello *peer);

/* ---- sending ---- */

/* One work request's worth of data. */
struct urs_chunk {
	uint64_t addr; /* where at the peer */
	uint32_t key;
	uint32_t length;
	uint32_t copied; /* of it through the send buffer: all or nothing */
	uint32_t requests;
	uint32_t at[2]; /* pieces of the send buffer */
	uint32_t len[2];
};

bool urs_flow_can_send(const struct urs_flow *f);

/*
 * Takes what sending at most `want` bytes needs.  Up to inline_max bytes go
 * without the send buffer.  false: one cannot send (any more: the peer may
 * take a grant back at any time).
 */
bool urs_flow_send(struct urs_flow *f, uint32_t want, uint32_t inline_max,
		   struct urs_chunk *out);

/* The same for a write into memory that the peer has mapped: needs no credit
 * and no granted memory.  addr and key are left to the caller. */
bool urs_flow_can_write(const struct urs_flow *f);
struct urs_chunk urs_flow_write(struct urs_flow *f, uint32_t want,
				uint32_t inline_max);

/* The same for a message that takes a credit but is no data of the stream: a
 * changed mapping. */
struct urs_chunk urs_flow_send_note(struct urs_flow *f, uint32_t want,
				    uint32_t inline_max);

/*
 * Shall the data request just taken be signaled?  If not, a later one stands
 * for it too, whose completion covers *requests data requests and *copied
 * bytes of the send buffer, its own included.
 */
bool urs_flow_signal(struct urs_flow *f, const struct urs_chunk *c,
		     uint32_t *requests, uint32_t *copied);
/* The same for a control message, which is always signaled. */
void urs_flow_signal_ctrl(struct urs_flow *f, uint32_t *requests,
			  uint32_t *copied);

/* Work requests have completed that held so much of the send buffer. */
void urs_flow_sent(struct urs_flow *f, uint32_t requests, uint32_t copied);
void urs_flow_ctrl_sent(struct urs_flow *f, uint32_t requests);

bool urs_flow_all_sent(const struct urs_flow *f);
/* As far as completions tell: those that are not signaled do not count. */
bool urs_flow_is_idle(const struct urs_flow *f);

/* The size that the send buffer should get before `want` bytes are sent; 0: it
 * is good as it is. */
uint32_t urs_flow_send_growth(const struct urs_flow *f, uint32_t want);
/* There is a ring of that size at the offset sbuf_base + sbuf_size. */
void urs_flow_grow_send(struct urs_flow *f, uint32_t size);

/* A control message takes a slot; false: none is free. */
bool urs_flow_ctrl_take(struct urs_flow *f);

/* ---- receiving ---- */

/* What a message of the peer means for the stream. */
enum urs_news {
	URS_NEWS_NONE, /* ... but for the bookkeeping, nothing */
	URS_NEWS_DATA,
	URS_NEWS_SHUTDOWN,   /* the peer sends no more */
	URS_NEWS_DISCONNECT, /* nor does it receive */
	URS_NEWS_BAD,	     /* breaks the protocol */
};

enum urs_news urs_flow_message(struct urs_flow *f, uint32_t msg);

/* A message of so many bytes came.  -EPROTO: more than was granted. */
int urs_flow_data(struct urs_flow *f, uint32_t length);
void urs_flow_credit(struct urs_flow *f, uint32_t limit);

/* The unread bytes from `skip` on that lie in one piece of the buffer. */
uint32_t urs_flow_peek(const struct urs_flow *f, uint32_t skip, uint32_t *at);
void urs_flow_consume(struct urs_flow *f, uint32_t bytes);

/* ---- granting ---- */

struct urs_grant {
	uint32_t msg;
	bool with_sge;
	struct urs_sge sge; /* its addr an offset into the receive buffer */
	uint64_t addr;	    /* where at the peer */
	uint32_t key;
};

/* The size that the receive buffer should get before the next grant; 0: it is
 * good as it is. */
uint32_t urs_flow_recv_growth(const struct urs_flow *f);
/* There is a ring of that size at the offset rbuf_base + 2 * half. */
void urs_flow_grow_recv(struct urs_flow *f, uint32_t size);

/* Is there something to give back, and a slot to say so? */
bool urs_flow_grant_due(const struct urs_flow *f);
struct urs_grant urs_flow_grant(struct urs_flow *f);

#endif
