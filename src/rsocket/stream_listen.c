/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accepting.  The service thread answers requests as they come, so that a
 * program may connect to itself; raccept() gets connections that are made.
 * Until it is, a connection's events come through its listener's channel.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/log.h"
#include "rsocket/stream.h"

/* Requests whose peers have not said their last word: each holds a queue pair
 * and buffers, so there is an end to it. */
enum { BACKLOG_MOST = 4096, PENDING_MOST = 256 };

/* The id is the caller's alone. */
static void refuse(struct rdma_cm_id *id)
{
	rdma_reject(id, NULL, 0);
	rdma_destroy_id(id);
}

/* In no list (any more). */
static void drop_child(struct urs_stream *child)
{
	child->s.ops->close(&child->s);
	urs_sock_put(&child->s);
}

static void drop_pending(struct urs_stream *st, struct urs_stream *child)
{
	ur_list_del(&child->node);
	st->pending_count--;
	drop_child(child);
}

static int answer(struct urs_stream *child, struct rdma_conn_param *param,
		  const struct urs_hello *peer)
{
	struct urs_hello hello;
	uint8_t data[URS_HELLO_LEN];
	int rc = urs_ep_create(child);

	if (rc)
		return rc;
	urs_stream_meet(child, peer);
	hello = urs_ep_hello(child);
	urs_hello_encode(&hello, data);
	param->private_data = data;
	param->private_data_len = sizeof(data);
	child->state = URS_ACCEPTED;
	return rdma_accept(child->id, param) ? -errno : 0;
}

static void request(struct urs_stream *st, struct rdma_cm_id *id,
		    struct rdma_conn_param *param, const struct urs_hello *peer)
{
	struct urs_stream *child;
	int rc = urs_stream_alloc(st->s.domain, st, &child);

	if (rc) {
		refuse(id);
		return;
	}
	child->id = id;
	id->context = child;
	rc = answer(child, param, peer);
	if (!rc) {
		ur_list_add_tail(&st->pending, &child->node);
		st->pending_count++;
		return;
	}
	ur_info("rsocket %d: refuses a connection: %d", st->s.fd, -rc);
	rdma_reject(id, NULL, 0);
	urs_sock_put(&child->s);
}

/* Nothing of the event is used after it was acknowledged. */
static void handle_request(struct urs_stream *st, struct rdma_cm_event *ev)
{
	struct rdma_cm_id *id = ev->id;
	struct rdma_conn_param param = ev->param.conn;
	struct urs_hello peer;
	int rc = urs_hello_decode(param.private_data, param.private_data_len,
				  &peer);

	rdma_ack_cm_event(ev);
	if (rc || st->pending_count >= PENDING_MOST)
		refuse(id);
	else
		request(st, id, &param, &peer);
}

/* From the listener's channel to one of its own. */
static int move_out(struct urs_stream *child)
{
	child->chan = rdma_create_event_channel();
	if (!child->chan)
		return -errno;
	if (fcntl(child->chan->fd, F_SETFL, O_NONBLOCK) ||
	    rdma_migrate_id(child->id, child->chan))
		return -errno;
	return urs_sock_attach(&child->s, child->chan->fd);
}

/*
 * A pending child is for raccept() to return.  error: the peer has gone before
 * it confirmed the connection; the program then gets a socket that is reset, as
 * from TCP and from rdma-core, and does not wait for a client that was killed.
 * After the event was acknowledged, which migration waits for.
 */
static void hand_out(struct urs_stream *st, struct urs_stream *child, int error)
{
	if (child->state != URS_ACCEPTED)
		return;
	if (move_out(child)) {
		drop_pending(st, child);
		return;
	}
	if (error) {
		urs_stream_fail(child, error);
	} else {
		urs_stream_set_state(child, URS_CONNECTED);
		urs_stream_keep_alive(child);
	}
	ur_list_del(&child->node);
	st->pending_count--;
	ur_list_add_tail(&st->ready, &child->node);
	st->ready_count++;
	st->s.in_news++;
	urs_sock_wake(&st->s);
}

static void handle(struct urs_stream *st, struct rdma_cm_event *ev)
{
	struct urs_stream *child = ev->id->context;
	enum rdma_cm_event_type type = ev->event;
	bool own = ev->id == st->id;

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		handle_request(st, ev);
		return;
	}
	rdma_ack_cm_event(ev);
	if (own) {
		if (type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			urs_stream_fail(st, ENODEV);
		return;
	}
	if (type == RDMA_CM_EVENT_ESTABLISHED)
		hand_out(st, child, 0);
	else if (type != RDMA_CM_EVENT_TIMEWAIT_EXIT &&
		 type != RDMA_CM_EVENT_ADDR_CHANGE)
		hand_out(st, child, ECONNRESET);
}

/* In the service thread.  A full queue of connections is left to wait: their
 * peers' requests wait in the connection manager. */
static void incoming(struct urs_watch *w)
{
	struct urs_stream *st = ur_container_of(w, struct urs_stream, incoming);
	struct rdma_cm_event *ev;

	ur_lock_open(&st->s.lock);
	while (st->state == URS_LISTENING && st->ready_count < st->backlog &&
	       !rdma_get_cm_event(st->chan, &ev))
		handle(st, ev);
	st->paused = st->ready_count >= st->backlog;
	if (st->paused)
		urs_watch_stop(&urs_cm_service, w);
	ur_unlock_open(&st->s.lock);
}

static int begin_listen(struct urs_stream *st, int backlog)
{
	if (st->state != URS_INIT && st->state != URS_BOUND &&
	    st->state != URS_LISTENING)
		return -EINVAL;
	st->backlog = backlog < 1	       ? 1
		      : backlog > BACKLOG_MOST ? BACKLOG_MOST
					       : (unsigned)backlog;
	if (st->state == URS_LISTENING)
		return 0;
	if (rdma_listen(st->id, backlog))
		return -errno;
	/* From now on the channel is the service's. */
	urs_sock_detach(&st->s, st->chan->fd);
	urs_watch_init(&st->incoming, incoming);
	st->incoming.fd = st->chan->fd;
	urs_stream_set_state(st, URS_LISTENING);
	return 0;
}

int urs_stream_listen(struct urs_sock *s, int backlog)
{
	struct urs_stream *st = urs_stream_of(s);
	int rc;

	ur_lock_open(&s->lock);
	rc = begin_listen(st, backlog);
	ur_unlock_open(&s->lock);
	return rc ? rc : urs_watch_start(&urs_cm_service, &st->incoming);
}

static bool acceptable(struct urs_sock *s)
{
	struct urs_stream *st = urs_stream_of(s);

	return st->state != URS_LISTENING || !ur_list_empty(&st->ready);
}

static struct urs_stream *take_ready(struct urs_stream *st)
{
	struct ur_list *n = st->ready.next;

	ur_list_del(n);
	st->ready_count--;
	return ur_container_of(n, struct urs_stream, node);
}

int urs_stream_accept(struct urs_sock *s, struct urs_sock **out)
{
	struct urs_stream *st = urs_stream_of(s);
	bool paused = false;
	int rc = -EINVAL;

	ur_lock_open(&s->lock);
	if (st->state == URS_LISTENING)
		rc = urs_sock_wait(s, acceptable, urs_sock_nonblock(s, 0),
				   s->opts.rcv_timeout_ns);
	if (!rc && ur_list_empty(&st->ready)) {
		rc = st->s.error ? -st->s.error : -EINVAL;
	} else if (!rc) {
		*out = &take_ready(st)->s;
		paused = st->paused;
	}
	ur_unlock_open(&s->lock);
	if (paused)
		urs_watch_start(&urs_cm_service, &st->incoming);
	return rc;
}

static void move_all(struct ur_list *from, struct ur_list *to)
{
	while (!ur_list_empty(from)) {
		struct ur_list *n = from->next;

		ur_list_del(n);
		ur_list_add_tail(to, n);
	}
}

void urs_stream_unlisten(struct urs_stream *st)
{
	struct ur_list gone;

	urs_watch_stop(&urs_cm_service, &st->incoming);
	ur_list_init(&gone);
	ur_lock_open(&st->s.lock);
	move_all(&st->pending, &gone);
	move_all(&st->ready, &gone);
	st->pending_count = 0;
	st->ready_count = 0;
	ur_unlock_open(&st->s.lock);
	while (!ur_list_empty(&gone)) {
		struct ur_list *n = gone.next;

		ur_list_del(n);
		drop_child(ur_container_of(n, struct urs_stream, node));
	}
}
