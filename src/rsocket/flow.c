/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/flow.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { GROWTH = 4 }; /* a ring grows by this factor */

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
	f->sbuf_most = conf->sbuf_most;
	f->target = target;
	f->rq_size = conf->rq_size;
	f->recv_mark = conf->rq_size / 2;
	f->rbuf_most = conf->rbuf_most & ~1u;
	f->half = conf->rbuf_size / 2;
	/* The hello grants the first half; the second is due. */
	f->granted = f->half;
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

/* Space in the send buffer below which one cannot send. */
static uint32_t send_low(const struct urs_flow *f)
{
	return f->sbuf_size < URS_SEND_LOW ? f->sbuf_size : URS_SEND_LOW;
}

bool urs_flow_can_write(const struct urs_flow *f)
{
	return f->sq_free >= requests_per_message(f) &&
	       f->sbuf_free >= send_low(f);
}

bool urs_flow_can_send(const struct urs_flow *f)
{
	return urs_flow_can_write(f) && f->send_seq != f->send_limit &&
	       f->target[f->target_at].length != 0;
}

/* Moves over `n` bytes of the ring, in one piece or two. */
static void take_sbuf(struct urs_flow *f, uint32_t n, struct urs_chunk *c)
{
	uint32_t left = f->sbuf_base + f->sbuf_size - f->sbuf_pos;

	c->copied = n;
	c->at[0] = f->sbuf_pos;
	c->at[1] = f->sbuf_base;
	c->len[0] = n < left ? n : left;
	c->len[1] = n - c->len[0];
	f->sbuf_free -= n;
	f->sbuf_pos += n;
	if (f->sbuf_pos >= f->sbuf_base + f->sbuf_size)
		f->sbuf_pos -= f->sbuf_size;
}

static uint32_t grown(uint32_t size, uint32_t most)
{
	if (size >= most)
		return 0;
	return size < most / GROWTH ? size * GROWTH : most;
}

uint32_t urs_flow_send_growth(const struct urs_flow *f, uint32_t want)
{
	uint32_t room = f->target[f->target_at].length;

	if (want > room)
		want = room;
	if (f->sbuf_old || f->sbuf_free >= want ||
	    f->sq_free < requests_per_message(f) ||
	    f->send_seq == f->send_limit)
		return 0;
	return grown(f->sbuf_size, f->sbuf_most);
}

void urs_flow_grow_send(struct urs_flow *f, uint32_t size)
{
	assert(!f->sbuf_old);
	f->sbuf_old = f->sbuf_size - f->sbuf_free;
	f->sbuf_base += f->sbuf_size;
	f->sbuf_pos = f->sbuf_base;
	f->sbuf_size = size;
	f->sbuf_free = size;
}

struct urs_chunk urs_flow_write(struct urs_flow *f, uint32_t want,
				uint32_t inline_max)
{
	struct urs_chunk c = { .length = want, .requests = 1 };

	assert(urs_flow_can_write(f));
	if (want > inline_max) {
		if (want > f->sbuf_free)
			c.length = f->sbuf_free;
		take_sbuf(f, c.length, &c);
	}
	f->sq_free--;
	return c;
}

static void add_message(struct urs_flow *f, struct urs_chunk *c)
{
	f->send_seq++;
	c->requests = requests_per_message(f);
	f->sq_free -= c->requests - 1;
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
	add_message(f, out);
	return true;
}

struct urs_chunk urs_flow_send_note(struct urs_flow *f, uint32_t want,
				    uint32_t inline_max)
{
	struct urs_chunk c = urs_flow_write(f, want, inline_max);

	add_message(f, &c);
	return c;
}

/*
 * A completion costs an event, a wake-up and an entry of the queue, so there is
 * one for a quarter of either resource; and what is left unsignaled may never
 * be all that a writer waits for.
 */
static bool is_signal_due(const struct urs_flow *f)
{
	uint32_t bytes = f->sbuf_size / 4;

	if (bytes > f->sbuf_size - send_low(f))
		bytes = f->sbuf_size - send_low(f);
	return f->unsignaled >= f->sq_size / 4 || f->unsignaled_copied > bytes;
}

void urs_flow_signal_ctrl(struct urs_flow *f, uint32_t *requests,
			  uint32_t *copied)
{
	*requests = f->unsignaled;
	*copied = f->unsignaled_copied;
	f->unsignaled = 0;
	f->unsignaled_copied = 0;
}

bool urs_flow_signal(struct urs_flow *f, const struct urs_chunk *c,
		     uint32_t *requests, uint32_t *copied)
{
	f->unsignaled += c->requests;
	f->unsignaled_copied += c->copied;
	*requests = 0;
	*copied = 0;
	if (!is_signal_due(f))
		return false;
	urs_flow_signal_ctrl(f, requests, copied);
	return true;
}

void urs_flow_sent(struct urs_flow *f, uint32_t requests, uint32_t copied)
{
	uint32_t old = copied < f->sbuf_old ? copied : f->sbuf_old;

	f->sq_free += requests;
	f->sbuf_old -= old;
	f->sbuf_free += copied - old;
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

bool urs_flow_is_idle(const struct urs_flow *f)
{
	return f->sq_free + f->unsignaled == f->sq_size &&
	       f->ctrl_free == URS_CTRL_SLOTS;
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
	if (length > f->granted || f->msgs_count == f->msgs_cap)
		return -EPROTO;
	f->msgs[(f->msgs_head + f->msgs_count) % f->msgs_cap] = length;
	f->msgs_count++;
	f->caught_up |= f->unread == 0;
	f->granted -= length;
	f->unread += length;
	return 0;
}

void urs_flow_credit(struct urs_flow *f, uint32_t limit)
{
	f->send_limit = (uint16_t)limit;
}

/* A message that took a credit, but has no data. */
static void note(struct urs_flow *f)
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
		note(f);
		return URS_NEWS_NONE;
	case URS_OP_CTRL:
		return control(arg);
	default:
		return URS_NEWS_BAD;
	}
}

/* Offsets of the former ring lie below, and are followed by those of the ring. */
static uint32_t wrap(const struct urs_flow *f, uint32_t pos)
{
	uint32_t size = 2 * f->half;

	return pos < f->rbuf_base + size ? pos : pos - size;
}

uint32_t urs_flow_peek(const struct urs_flow *f, uint32_t skip, uint32_t *at)
{
	uint32_t pos = wrap(f, f->rbuf_pos + skip);
	uint32_t end = f->rbuf_base + (pos < f->rbuf_base ? 0 : 2 * f->half);
	uint32_t n = f->unread - skip;

	*at = pos;
	return n < end - pos ? n : end - pos;
}

void urs_flow_consume(struct urs_flow *f, uint32_t bytes)
{
	uint32_t old = bytes < f->rbuf_old ? bytes : f->rbuf_old;

	assert(bytes <= f->unread);
	f->unread -= bytes;
	f->rbuf_old -= old;
	f->rbuf_free += bytes - old;
	f->rbuf_pos = wrap(f, f->rbuf_pos + bytes);
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

/*
 * The peer's list has two entries, so of three halves in a row the first has
 * to be read before the last is granted.  Of a new ring none is granted yet.
 */
static bool can_grant(const struct urs_flow *f)
{
	return f->rbuf_free >= f->half &&
	       (!f->rbuf_old || f->rbuf_free == 2 * f->half);
}

uint32_t urs_flow_recv_growth(const struct urs_flow *f)
{
	if (f->rbuf_next != f->rbuf_base || !can_grant(f) || !f->caught_up ||
	    f->granted > f->half / 2)
		return 0;
	return grown(2 * f->half, f->rbuf_most);
}

void urs_flow_grow_recv(struct urs_flow *f, uint32_t size)
{
	uint32_t old = 2 * f->half;

	assert(f->rbuf_next == f->rbuf_base && can_grant(f));
	f->rbuf_old = old - f->rbuf_free;
	f->rbuf_base += old;
	f->rbuf_next = f->rbuf_base;
	/* All is read: the position was that of the ring's first byte. */
	if (!f->rbuf_old)
		f->rbuf_pos = f->rbuf_base;
	f->half = size / 2;
	f->rbuf_free = size;
}

bool urs_flow_grant_due(const struct urs_flow *f)
{
	bool memory = can_grant(f);
	bool credits = (int16_t)(uint16_t)(f->recv_seq - f->recv_mark) >= 0;

	return (memory || credits) && f->ctrl_free >= requests_per_message(f);
}

struct urs_grant urs_flow_grant(struct urs_flow *f)
{
	struct urs_grant g = { 0 };

	assert(urs_flow_grant_due(f));
	g.msg = urs_msg(URS_OP_SGL, (uint16_t)(f->recv_seq + f->rq_size));
	g.with_sge = can_grant(f);
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
	f->rbuf_next =
		f->rbuf_base + (f->rbuf_next == f->rbuf_base ? f->half : 0);
	f->caught_up = false;
	f->rbuf_free -= f->half;
	f->granted += f->half;
	f->peer_at = (f->peer_at + 1) % f->peer_sgl.length;
	return g;
}
