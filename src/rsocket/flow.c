/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/flow.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void urs_flow_init(struct urs_flow *f, const struct urs_flow_conf *conf,
		   volatile struct urs_sge *target, uint32_t *msgs)
{
	memset(f, 0, sizeof(*f));
	f->paired = conf->paired;
	f->sq_size = conf->sq_size - URS_CTRL_SLOTS;
	f->sq_free = f->sq_size;
	f->ctrl_free = URS_CTRL_SLOTS;
	f->sbuf_size = conf->sbuf_size;
	f->sbuf_free = conf->sbuf_size;
	f->target = target;
	f->rq_size = conf->rq_size;
	f->recv_mark = conf->rq_size / 2;
	f->half = conf->rbuf_size / 2;
	/* The hello lends the first half; the second is to be granted. */
	f->lent = f->half;
	f->rbuf_free = f->half;
	f->rbuf_next = f->half;
	f->msgs = msgs;
	f->msgs_cap = conf->rq_size;
}

void urs_flow_connect(struct urs_flow *f, const struct urs_hello *peer)
{
	f->send_limit = peer->credits;
	f->swap = peer->big_endian != urs_big_endian();
	f->peer_sgl = peer->sgl;
	/* Entry 0 was in our hello. */
	f->peer_at = peer->sgl.length > 1 ? 1 : 0;
	f->target[0].addr = peer->data.addr;
	f->target[0].key = peer->data.key;
	f->target[0].length = peer->data.length;
}

static uint32_t requests_per_message(const struct urs_flow *f)
{
	return f->paired ? 2 : 1;
}

bool urs_flow_can_write(const struct urs_flow *f)
{
	uint32_t low =
		f->sbuf_size < URS_SEND_LOW ? f->sbuf_size : URS_SEND_LOW;

	return f->sq_free >= requests_per_message(f) && f->sbuf_free >= low;
}

bool urs_flow_can_send(const struct urs_flow *f)
{
	return urs_flow_can_write(f) && f->send_seq != f->send_limit &&
	       f->target[f->target_at].length != 0;
}

/* Moves over `n` bytes of the ring, in one piece or two. */
static void take_sbuf(struct urs_flow *f, uint32_t n, struct urs_chunk *c)
{
	uint32_t left = f->sbuf_size - f->sbuf_pos;

	c->copied = n;
	c->at[0] = f->sbuf_pos;
	c->len[0] = n < left ? n : left;
	c->len[1] = n - c->len[0];
	f->sbuf_free -= n;
	f->sbuf_pos += n;
	if (f->sbuf_pos >= f->sbuf_size)
		f->sbuf_pos -= f->sbuf_size;
}

struct urs_chunk urs_flow_write(struct urs_flow *f, uint32_t want,
				uint32_t inline_max)
{
	struct urs_chunk c = { .length = want };

	assert(urs_flow_can_write(f));
	if (want > inline_max) {
		if (want > f->sbuf_free)
			c.length = f->sbuf_free;
		take_sbuf(f, c.length, &c);
	}
	f->sq_free--;
	return c;
}

/* The peer may write the entry while we look at it, so the length is read but
 * once.  It is written last; what it covers is valid with it. */
bool urs_flow_send(struct urs_flow *f, uint32_t want, uint32_t inline_max,
		   struct urs_chunk *out)
{
	volatile struct urs_sge *t = &f->target[f->target_at];
	uint32_t room = t->length;

	if (!room || !urs_flow_can_write(f) || f->send_seq == f->send_limit)
		return false;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	*out = urs_flow_write(f, want < room ? want : room, inline_max);
	out->addr = t->addr;
	out->key = t->key;
	/* Before the message leaves: once the peer has read all of it, it may
	 * write this entry again. */
	t->addr += out->length;
	t->length = room - out->length;
	if (room == out->length)
		f->target_at = (f->target_at + 1) % URS_SGL_LEN;
	f->send_seq++;
	f->sq_free -= requests_per_message(f) - 1;
	return true;
}

struct urs_chunk urs_flow_send_note(struct urs_flow *f, uint32_t want,
				    uint32_t inline_max)
{
	struct urs_chunk c = urs_flow_write(f, want, inline_max);

	f->send_seq++;
	f->sq_free -= requests_per_message(f) - 1;
	return c;
}

void urs_flow_sent(struct urs_flow *f, uint32_t requests, uint32_t copied)
{
	f->sq_free += requests;
	f->sbuf_free += copied;
	assert(f->sq_free <= f->sq_size && f->sbuf_free <= f->sbuf_size);
}

void urs_flow_ctrl_sent(struct urs_flow *f, uint32_t requests)
{
	f->ctrl_free += requests;
	assert(f->ctrl_free <= URS_CTRL_SLOTS);
}

bool urs_flow_all_sent(const struct urs_flow *f)
{
	return f->sq_free == f->sq_size && f->ctrl_free == URS_CTRL_SLOTS;
}

bool urs_flow_ctrl_take(struct urs_flow *f)
{
	if (!f->ctrl_free)
		return false;
	f->ctrl_free--;
	return true;
}

int urs_flow_data(struct urs_flow *f, uint32_t length)
{
	if (length == 0) {
		f->recv_seq++;
		return 0;
	}
	if (length > f->lent || f->msgs_count == f->msgs_cap)
		return -EPROTO;
	f->msgs[(f->msgs_head + f->msgs_count) % f->msgs_cap] = length;
	f->msgs_count++;
	f->lent -= length;
	f->unread += length;
	return 0;
}

void urs_flow_credit(struct urs_flow *f, uint32_t limit)
{
	f->send_limit = (uint16_t)limit;
}

void urs_flow_note(struct urs_flow *f)
{
	f->recv_seq++;
}

static enum urs_news control(uint32_t what)
{
	switch (what) {
	case URS_CTRL_DISCONNECT:
		return URS_NEWS_DISCONNECT;
	case URS_CTRL_SHUTDOWN:
		return URS_NEWS_SHUTDOWN;
	default:
		return URS_NEWS_NONE; /* keepalive, and what may come yet */
	}
}

enum urs_news urs_flow_message(struct urs_flow *f, uint32_t msg)
{
	uint32_t arg = urs_msg_arg(msg);

	switch (urs_msg_op(msg)) {
	case URS_OP_DATA:
		return urs_flow_data(f, arg) ? URS_NEWS_BAD : URS_NEWS_DATA;
	case URS_OP_SGL:
		urs_flow_credit(f, arg);
		return URS_NEWS_NONE;
	case URS_OP_IOMAP:
		/* The mapping is in our list; it took a credit to say so. */
		urs_flow_note(f);
		return URS_NEWS_NONE;
	case URS_OP_CTRL:
		return control(arg);
	default:
		return URS_NEWS_BAD;
	}
}

uint32_t urs_flow_peek(const struct urs_flow *f, uint32_t skip, uint32_t *at)
{
	uint32_t size = 2 * f->half;
	uint32_t pos = (f->rbuf_pos + skip) % size;
	uint32_t n = f->unread - skip;

	*at = pos;
	return n < size - pos ? n : size - pos;
}

void urs_flow_consume(struct urs_flow *f, uint32_t bytes)
{
	assert(bytes <= f->unread);
	f->unread -= bytes;
	f->rbuf_free += bytes;
	f->rbuf_pos = (f->rbuf_pos + bytes) % (2 * f->half);
	while (bytes) {
		uint32_t *m = &f->msgs[f->msgs_head];

		if (bytes < *m) {
			*m -= bytes;
			return;
		}
		bytes -= *m;
		f->msgs_head = (f->msgs_head + 1) % f->msgs_cap;
		f->msgs_count--;
		f->recv_seq++;
	}
}

bool urs_flow_grant_due(const struct urs_flow *f)
{
	bool memory = f->rbuf_free >= f->half;
	bool credits = (int16_t)(uint16_t)(f->recv_seq - f->recv_mark) >= 0;

	return (memory || credits) && f->ctrl_free >= requests_per_message(f);
}

struct urs_grant urs_flow_grant(struct urs_flow *f)
{
	struct urs_grant g = { 0 };

	assert(urs_flow_grant_due(f));
	g.msg = urs_msg(URS_OP_SGL, (uint16_t)(f->recv_seq + f->rq_size));
	g.with_sge = f->rbuf_free >= f->half;
	f->recv_mark = (uint16_t)(f->recv_seq + f->rq_size / 2);
	f->ctrl_free--;
	if (!g.with_sge)
		return g;
	if (f->paired)
		f->ctrl_free--;
	g.sge.addr = f->rbuf_next;
	g.sge.length = f->half;
	g.addr = f->peer_sgl.addr + f->peer_at * sizeof(struct urs_sge);
	g.key = f->peer_sgl.key;
	f->rbuf_next = f->rbuf_next ? 0 : f->half;
	f->rbuf_free -= f->half;
	f->lent += f->half;
	f->peer_at = (f->peer_at + 1) % f->peer_sgl.length;
	return g;
}
