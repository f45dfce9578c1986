/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes of a stream.  Data is copied into the send buffer (or inline) and
 * written to the peer's memory; a long send begins with small pieces, so that
 * the wire is busy while the rest is copied.
 *
 * The protocol does not set urgent data apart: MSG_OOB sends in line, as to a
 * socket with SO_OOBINLINE, and nothing is ever received with MSG_OOB.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "rsocket/stream.h"

enum {
	FIRST_PIECE = 2048, /* four times as much with each, up to */
	LAST_PIECE = 262144,
};

/*
 * Data leaves as long as our process lives, so closing waits until the peer's
 * adapter has all of it.  One that goes on refusing must not hold us for ever.
 */
#define PART_MOST_NS 10000000000

/* ---- receiving ---- */

static bool readable(struct urs_sock *s)
{
	struct urs_stream *st = urs_stream_of(s);

	return st->flow.unread || !st->can_read;
}

/* Is there nothing to read now, for a reason that is no error? */
static int why_empty(struct urs_stream *st)
{
	int error = st->s.error;

	if (st->state != URS_FAILED)
		return 0;
	st->s.error = 0;
	return -error;
}

/*
 * The bytes up to `end` are the reader's (rcv) until they are given back, so
 * they are copied without the lock.
 */
static size_t copy_out(struct urs_stream *st, const struct urs_iov *iov,
		       size_t done, bool peek)
{
	size_t want = iov->total - done;
	uint32_t n, at, got = 0;
	const uint8_t *from;

	if (want > st->flow.unread)
		want = st->flow.unread;
	while (got < want) {
		n = urs_flow_peek(&st->flow, got, &at);
		if (n > want - got)
			n = (uint32_t)(want - got);
		from = urs_ep_rbuf(st, at);
		ur_unlock_open(&st->s.lock);
		urs_iov_scatter(iov, done + got, from, n);
		ur_lock_open(&st->s.lock);
		got += n;
	}
	if (!peek)
		urs_flow_consume(&st->flow, got);
	return got;
}

static ssize_t recv_locked(struct urs_stream *st, const struct urs_iov *iov,
			   int flags)
{
	bool nonblock = urs_sock_nonblock(&st->s, flags);
	bool peek = flags & MSG_PEEK;
	size_t done = 0;
	int rc = 0;

	for (;;) {
		if (!st->flow.unread)
			rc = urs_sock_wait(&st->s, readable, nonblock,
					   st->s.opts.rcv_timeout_ns);
		if (rc)
			return done ? (ssize_t)done : rc;
		if (!st->flow.unread)
			return done ? (ssize_t)done : why_empty(st);
		done += copy_out(st, iov, done, peek);
		if (done == iov->total || peek || !(flags & MSG_WAITALL))
			break;
	}
	urs_ep_grant(st);
	return (ssize_t)done;
}

static int ready_for_io(struct urs_stream *st, int flags, int64_t timeout_ns)
{
	int rc;

	if (st->state < URS_ADDR)
		return -ENOTCONN;
	if (!urs_stream_opening(st))
		return 0;
	rc = urs_stream_finish_open(st, urs_sock_nonblock(&st->s, flags),
				    timeout_ns);
	return rc;
}

ssize_t urs_stream_recv(struct urs_sock *s, const struct urs_iov *iov,
			int flags, union urs_addr *src)
{
	struct urs_stream *st = urs_stream_of(s);
	ssize_t n;

	if (flags & MSG_OOB)
		return -EINVAL;
	ur_lock_open(&s->rcv);
	ur_lock_open(&s->lock);
	n = ready_for_io(st, flags, s->opts.rcv_timeout_ns);
	if (!n && iov->total)
		n = recv_locked(st, iov, flags);
	ur_unlock_open(&s->lock);
	ur_unlock_open(&s->rcv);
	if (n >= 0 && src)
		s->ops->name(s, true, src);
	return n;
}

/* ---- sending ---- */

static bool writable(struct urs_sock *s)
{
	struct urs_stream *st = urs_stream_of(s);

	return !st->can_write || urs_flow_can_send(&st->flow);
}

int urs_stream_wait_writable(struct urs_stream *st, urs_test ready, int flags)
{
	int rc = urs_sock_wait(&st->s, ready, urs_sock_nonblock(&st->s, flags),
			       st->s.opts.snd_timeout_ns);

	if (rc == -EAGAIN)
		st->blocked = true;
	if (rc)
		return rc;
	if (st->can_write)
		return 0;
	/* Why it broke is said once. */
	rc = st->state == URS_FAILED ? -st->s.error : 0;
	if (rc)
		st->s.error = 0;
	return rc ? rc : -EPIPE;
}

int urs_stream_stage(struct urs_stream *st, const struct urs_chunk *c,
		     const struct urs_iov *iov, size_t skip,
		     struct ibv_sge sge[2], unsigned int *flags)
{
	struct urs_ep *ep = &st->ep;
	int n = 0;

	if (!c->copied) {
		union {
			const void *p;
			uint64_t addr;
		} piece = { .p = urs_iov_piece(iov, skip, c->length) };

		/* Sent before the call returns: no need to register it. */
		*flags = IBV_SEND_INLINE;
		if (!piece.p) {
			piece.p = ep->scratch;
			urs_iov_gather(iov, skip, ep->scratch, c->length);
		}
		sge[0] = (struct ibv_sge){ .addr = piece.addr,
					   .length = c->length };
		return 1;
	}
	*flags = 0;
	for (int i = 0; i < 2 && c->len[i]; i++) {
		struct ibv_mr *mr;
		uint8_t *to = urs_ep_sbuf(st, c->at[i], &mr);

		urs_iov_gather(iov, skip, to, c->len[i]);
		sge[n++] = (struct ibv_sge){
			.addr = (uintptr_t)to,
			.length = c->len[i],
			.lkey = mr->lkey,
		};
		skip += c->len[i];
	}
	return n;
}

/*
 * While the wire is idle pieces begin small and grow, so that it is soon busy
 * while the rest is copied.  Once it is, they are as large as can be: each
 * costs a message and often a wake-up; but not all of the send buffer, which
 * would stand still until the last byte is acknowledged.
 */
static uint32_t piece_size(const struct urs_flow *f, size_t done, size_t left)
{
	size_t most =
		f->sbuf_size / 2 < LAST_PIECE ? f->sbuf_size / 2 : LAST_PIECE;
	size_t n = urs_flow_is_idle(f) || done ? FIRST_PIECE : LAST_PIECE;

	while (n < most && n <= done)
		n <<= 2;
	if (n > most)
		n = most;
	return (uint32_t)(n < left ? n : left);
}

static int send_piece(struct urs_stream *st, const struct urs_iov *iov,
		      size_t done, size_t *sent)
{
	struct urs_ep *ep = &st->ep;
	struct ibv_sge sge[2];
	struct urs_chunk c;
	unsigned int flags;
	int n, rc;

	*sent = 0;
	if (!urs_flow_send(&st->flow,
			   piece_size(&st->flow, done, iov->total - done),
			   ep->inline_max, &c))
		return 0;
	/* What was taken is the sender's (snd) until it is posted. */
	ur_unlock_open(&st->s.lock);
	n = urs_stream_stage(st, &c, iov, done, sge, &flags);
	ur_lock_open(&st->s.lock);
	rc = urs_ep_post_data(st, &c, sge, n, flags,
			      urs_msg(URS_OP_DATA, c.length));
	if (rc)
		urs_stream_fail(st, EIO);
	*sent = c.length;
	return rc;
}

static ssize_t send_locked(struct urs_stream *st, const struct urs_iov *iov,
			   int flags)
{
	size_t done = 0, sent;
	int rc = 0;

	if (st->maps_untold)
		rc = urs_stream_tell_maps(st, flags);
	while (!rc && done < iov->total) {
		if (st->can_write)
			urs_ep_grow_send(st, piece_size(&st->flow, done,
							iov->total - done));
		if (!st->can_write || !urs_flow_can_send(&st->flow))
			rc = urs_stream_wait_writable(st, writable, flags);
		if (!rc)
			rc = send_piece(st, iov, done, &sent);
		if (!rc)
			done += sent;
	}
	return done ? (ssize_t)done : rc;
}

/* As in the kernel's TCP the address is of no interest. */
ssize_t urs_stream_send(struct urs_sock *s, const struct urs_iov *iov,
			int flags, const union urs_addr *dst)
{
	struct urs_stream *st = urs_stream_of(s);
	ssize_t n;

	ur_lock_open(&s->snd);
	ur_lock_open(&s->lock);
	n = ready_for_io(st, flags, s->opts.snd_timeout_ns);
	if (!n)
		n = send_locked(st, iov, flags);
	ur_unlock_open(&s->lock);
	ur_unlock_open(&s->snd);
	return n;
}

/* ---- closing ---- */

static bool can_say(struct urs_sock *s)
{
	struct urs_stream *st = urs_stream_of(s);

	return st->state != URS_CONNECTED || st->flow.ctrl_free;
}

static bool all_said(struct urs_sock *s)
{
	struct urs_stream *st = urs_stream_of(s);

	return st->state != URS_CONNECTED || urs_flow_all_sent(&st->flow);
}

/* Tells the peer; a farewell's completion closes the stream. */
static int say(struct urs_stream *st, enum urs_ctrl what, int64_t timeout_ns)
{
	bool bye = what == URS_CTRL_DISCONNECT;
	int rc = urs_sock_wait(&st->s, can_say, false, timeout_ns);

	if (rc || st->state != URS_CONNECTED || !urs_flow_ctrl_take(&st->flow))
		return rc;
	rc = urs_ep_post_ctrl(st, bye ? URS_WR_BYE : URS_WR_CTRL,
			      urs_msg(URS_OP_CTRL, what));
	if (rc)
		urs_stream_fail(st, EIO);
	return rc;
}

/* What to tell when `how` is shut; -1: nothing yet. */
static int farewell(struct urs_stream *st, int how)
{
	if (how != SHUT_RD)
		st->can_write = false;
	if (how != SHUT_WR)
		st->can_read = false;
	if (how == SHUT_RDWR || (!st->can_read && !st->can_write))
		return URS_CTRL_DISCONNECT;
	return how == SHUT_WR ? URS_CTRL_SHUTDOWN : -1;
}

static int shutdown_locked(struct urs_stream *st, int how, int64_t timeout_ns)
{
	int what, rc = 0;

	if (st->state == URS_CLOSED)
		return 0;
	if (st->state != URS_CONNECTED)
		return -ENOTCONN;
	what = farewell(st, how);
	st->s.in_news++;
	urs_sock_wake(&st->s);
	if (what >= 0)
		rc = say(st, (enum urs_ctrl)what, timeout_ns);
	if (!rc && what >= 0)
		rc = urs_sock_wait(&st->s, all_said, false, timeout_ns);
	if (st->state == URS_CLOSED)
		rdma_disconnect(st->id);
	return rc;
}

void urs_stream_part(struct urs_stream *st)
{
	const struct urs_opts *o = &st->s.opts;

	/* SO_LINGER without a time: an end without a farewell. */
	if (o->linger && !o->linger_s)
		return;
	ur_lock_open(&st->s.lock);
	shutdown_locked(st, SHUT_RDWR,
			o->linger ? o->linger_s * (int64_t)1000000000
				  : PART_MOST_NS);
	ur_unlock_open(&st->s.lock);
}

int urs_stream_shutdown(struct urs_sock *s, int how)
{
	struct urs_stream *st = urs_stream_of(s);
	int rc;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	ur_lock_open(&s->lock);
	rc = shutdown_locked(st, how, PART_MOST_NS);
	ur_unlock_open(&s->lock);
	return rc;
}
