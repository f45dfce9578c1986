/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a stream gets connected: every step is the answer to an event of the
 * connection manager, so that blocking and non-blocking connects are the same
 * and differ only in which thread waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rsocket/stream.h"

enum {
	RESOLVE_MS = 1000, /* doubled with each try */
	RESOLVE_TRIES = 7,
	TRANSPORT_RETRIES = 7,
};

void urs_stream_set_state(struct urs_stream *st, enum urs_state state)
{
	if (st->state == state)
		return;
	ur_debug("rsocket %d: state %d -> %d", st->s.fd, st->state, state);
	st->state = state;
	st->met |= state == URS_CONNECTED;
	st->can_read = state == URS_CONNECTED;
	st->can_write = state == URS_CONNECTED;
	st->s.in_news++;
	st->s.out_news++;
	urs_sock_wake(&st->s);
}

/* A broken stream is also ended: the peer may neither write into our memory any
 * more nor wait for us. */
void urs_stream_fail(struct urs_stream *st, int error)
{
	if (st->state == URS_FAILED || st->state == URS_CLOSED)
		return;
	if (st->state == URS_CONNECTED && rdma_disconnect(st->id))
		ur_debug("rsocket %d: disconnect: %s", st->s.fd,
			 strerror(errno));
	st->s.error = error;
	urs_stream_set_state(st, URS_FAILED);
}

void urs_stream_closed(struct urs_stream *st)
{
	if (st->state == URS_CONNECTED)
		urs_stream_set_state(st, URS_CLOSED);
}

bool urs_stream_opening(const struct urs_stream *st)
{
	return st->state >= URS_ADDR && st->state <= URS_ACCEPTED;
}

static void resolve_addr(struct urs_stream *st)
{
	int ms = RESOLVE_MS << st->retries++;

	urs_stream_set_state(st, URS_ADDR);
	if (rdma_resolve_addr(st->id, NULL, &st->id->route.addr.dst_addr, ms))
		urs_stream_fail(st, errno);
}

static void resolve_route(struct urs_stream *st)
{
	int ms = RESOLVE_MS << st->retries++;
	int rc;

	urs_stream_set_state(st, URS_ROUTE);
	if (st->path)
		rc = rdma_set_option(st->id, RDMA_OPTION_IB,
				     RDMA_OPTION_IB_PATH, st->path,
				     st->path_len);
	else
		rc = rdma_resolve_route(st->id, ms);
	if (rc)
		urs_stream_fail(st, errno);
}

static void request_connection(struct urs_stream *st)
{
	uint8_t data[URS_HELLO_LEN];
	struct rdma_conn_param param = {
		.private_data = data,
		.private_data_len = sizeof(data),
		.flow_control = 1,
		.retry_count = TRANSPORT_RETRIES,
		.rnr_retry_count = TRANSPORT_RETRIES,
	};
	struct urs_hello hello;
	int rc = urs_ep_create(st);

	if (rc) {
		urs_stream_fail(st, -rc);
		return;
	}
	hello = urs_ep_hello(st);
	urs_hello_encode(&hello, data);
	/* iWARP may read once while it makes the connection. */
	param.initiator_depth = st->ep.paired;
	urs_stream_set_state(st, URS_CONNECTING);
	if (rdma_connect(st->id, &param))
		urs_stream_fail(st, errno);
}

void urs_stream_meet(struct urs_stream *st, const struct urs_hello *peer)
{
	urs_flow_connect(&st->flow, peer);
	/* The peer's list of mappings lies behind its list of buffers. */
	st->map_addr =
		peer->sgl.addr + peer->sgl.length * sizeof(struct urs_sge);
	st->map_key = peer->sgl.key;
	st->map_size = peer->iomap_size;
}

static void established(struct urs_stream *st, const struct rdma_cm_event *ev)
{
	struct urs_hello peer;
	int rc;

	if (st->state == URS_ACCEPTED) {
		urs_stream_set_state(st, URS_CONNECTED);
		return;
	}
	if (st->state != URS_CONNECTING)
		return;
	rc = urs_hello_decode(ev->param.conn.private_data,
			      ev->param.conn.private_data_len, &peer);
	if (rc) {
		urs_stream_fail(st, -rc);
		return;
	}
	urs_stream_meet(st, &peer);
	urs_stream_set_state(st, URS_CONNECTED);
}

/* The reason of a failure as programs know it from connect(). */
static int error_of(const struct rdma_cm_event *ev)
{
	if (ev->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	if (ev->status < 0)
		return -ev->status;
	if (ev->event == RDMA_CM_EVENT_ADDR_ERROR)
		return ENETUNREACH;
	if (ev->event == RDMA_CM_EVENT_ROUTE_ERROR)
		return EHOSTUNREACH;
	return ETIMEDOUT;
}

static void unresolved(struct urs_stream *st, const struct rdma_cm_event *ev)
{
	if (ev->status != -ETIMEDOUT || st->retries >= RESOLVE_TRIES)
		urs_stream_fail(st, error_of(ev));
	else if (st->state == URS_ADDR)
		resolve_addr(st);
	else
		resolve_route(st);
}

/*
 * The peer's last messages are in our queue before its disconnect.  One that
 * closes says so by a message; if there was none, it has died.
 */
static void disconnected(struct urs_stream *st)
{
	urs_ep_progress(st, true);
	if (st->state == URS_CONNECTED && !st->can_read)
		urs_stream_closed(st);
	else
		urs_stream_fail(st, ECONNRESET);
}

static void cm_event(struct urs_stream *st, const struct rdma_cm_event *ev)
{
	switch ((int)ev->event) { /* newer releases have more events */
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (st->state != URS_ADDR)
			break;
		st->retries = 0;
		resolve_route(st);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (st->state == URS_ROUTE)
			request_connection(st);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		unresolved(st, ev);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		established(st, ev);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		urs_stream_fail(st, error_of(ev));
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		disconnected(st);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		urs_stream_fail(st, ENODEV);
		break;
	default:
		break;
	}
}

/*
 * An event is acknowledged after it was used; its private data goes with it.
 * What comes while one is handled is found by the next round.
 */
void urs_stream_cm_progress(struct urs_stream *st)
{
	struct rdma_cm_event *ev;
	int saved = errno;

	if (st->state < URS_ADDR || !st->chan)
		return;
	while (!rdma_get_cm_event(st->chan, &ev)) {
		cm_event(st, ev);
		rdma_ack_cm_event(ev);
	}
	/* That there is no more is no error of the caller's. */
	errno = saved;
}

static bool settled(struct urs_sock *s)
{
	return !urs_stream_opening(urs_stream_of(s));
}

int urs_stream_finish_open(struct urs_stream *st, bool nonblock,
			   int64_t timeout_ns)
{
	int rc = urs_sock_wait(&st->s, settled, nonblock, timeout_ns);

	if (rc)
		return rc;
	if (st->state == URS_FAILED) {
		rc = -st->s.error;
		st->s.error = 0;
		return rc ? rc : -ECONNREFUSED;
	}
	return 0;
}

static void set_out(struct urs_stream *st, const union urs_addr *a)
{
	memcpy(&st->id->route.addr.dst_storage, a, urs_addr_len(a));
	st->retries = 0;
	resolve_addr(st);
}

static int begin_connect(struct urs_stream *st, const union urs_addr *a)
{
	int rc;

	switch (st->state) {
	case URS_INIT:
	case URS_BOUND:
		set_out(st, a);
		return 0;
	case URS_ADDR:
	case URS_ROUTE:
	case URS_CONNECTING:
	case URS_ACCEPTED:
		return -EALREADY;
	case URS_CONNECTED:
	case URS_CLOSED:
		return -EISCONN;
	case URS_FAILED:
		if (st->s.error) /* the waiting thread returns it */
			return 0;
		rc = urs_stream_renew(st);
		if (!rc)
			set_out(st, a);
		return rc;
	case URS_LISTENING:
		break;
	}
	return -EOPNOTSUPP;
}

int urs_stream_connect(struct urs_sock *s, const union urs_addr *a)
{
	struct urs_stream *st = urs_stream_of(s);
	bool nonblock;
	int rc;

	ur_lock_open(&s->lock);
	rc = begin_connect(st, a);
	nonblock = s->flags & O_NONBLOCK;
	if (!rc)
		rc = urs_stream_finish_open(st, nonblock,
					    s->opts.snd_timeout_ns);
	ur_unlock_open(&s->lock);
	if (rc != -EAGAIN)
		return rc;
	/* The thread goes on if the application does not come back. */
	rc = nonblock ? urs_watch_start(&urs_cm_service, &st->connecting) : 0;
	return rc ? rc : -EINPROGRESS;
}
