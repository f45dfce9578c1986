/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "rdmacm/id.h"

/* Events are read from a descriptor, completions from memory: in an open
 * connection the former are looked at only now and then. */
enum { IDLE_LOOKS = 64 };

static const struct urs_ops stream_ops;

static void connecting_event(struct urs_watch *w)
{
	struct urs_stream *st =
		ur_container_of(w, struct urs_stream, connecting);
	bool done;

	ur_lock_open(&st->s.lock);
	urs_stream_cm_progress(st);
	done = !urs_stream_opening(st);
	ur_unlock_open(&st->s.lock);
	if (done)
		urs_watch_stop(&urs_cm_service, w);
}

int urs_stream_alloc(int domain, const struct urs_stream *from,
		     struct urs_stream **out)
{
	struct urs_stream *st = calloc(1, sizeof(*st));
	int rc;

	if (!st)
		return -ENOMEM;
	rc = urs_sock_init(&st->s, &stream_ops, domain, SOCK_STREAM);
	if (rc) {
		free(st);
		return rc;
	}
	if (from)
		st->s.opts = from->s.opts;
	ur_list_init(&st->mappings);
	ur_list_init(&st->ready);
	ur_list_init(&st->pending);
	ur_list_init(&st->node);
	urs_watch_init(&st->connecting, connecting_event);
	urs_watch_init(&st->incoming, NULL);
	urs_watch_init(&st->alive, urs_stream_alive_due);
	*out = st;
	return 0;
}

static void stream_free(struct urs_sock *s)
{
	struct urs_stream *st = urs_stream_of(s);

	/* A call that was under way when it was closed may have started one. */
	urs_watch_stop(&urs_cm_service, &st->connecting);
	urs_watch_stop(&urs_cm_service, &st->alive);
	urs_stream_unlisten(st);
	urs_stream_unmap_all(st);
	urs_ep_destroy(st);
	if (st->id)
		rdma_destroy_id(st->id);
	if (st->chan) {
		urs_sock_detach(s, st->chan->fd);
		urc_channel_free(st->chan);
	}
	free(st->path);
	urs_sock_fini(s);
	free(st);
}

int urs_stream_create(int domain, struct urs_sock **out)
{
	struct urs_stream *st;
	int rc = urs_stream_alloc(domain, NULL, &st);

	if (rc)
		return rc;
	st->chan = rdma_create_event_channel();
	if (!st->chan || fcntl(st->chan->fd, F_SETFL, O_NONBLOCK)) {
		rc = -errno;
		goto put;
	}
	rc = urs_sock_attach(&st->s, st->chan->fd);
	if (rc)
		goto put;
	st->connecting.fd = st->chan->fd;
	if (rdma_create_id(st->chan, &st->id, st, RDMA_PS_TCP)) {
		rc = -errno;
		goto put;
	}
	urc_id(st->id)->quiet = true;
	*out = &st->s;
	return 0;

put:
	urs_sock_put(&st->s);
	return rc;
}

static int bind_locked(struct urs_stream *st)
{
	if (rdma_bind_addr(st->id, &st->local.sa))
		return -errno;
	st->bound = true;
	st->state = URS_BOUND;
	return 0;
}

static int stream_bind(struct urs_sock *s, const union urs_addr *a)
{
	struct urs_stream *st = urs_stream_of(s);
	int rc = -EINVAL;

	ur_lock_open(&s->lock);
	if (st->state == URS_INIT) {
		st->local = *a;
		rc = bind_locked(st);
	}
	ur_unlock_open(&s->lock);
	return rc;
}

int urs_stream_renew(struct urs_stream *st)
{
	struct rdma_cm_id *id;

	if (st->met)
		return -ECONNABORTED;
	if (rdma_create_id(st->chan, &id, st, RDMA_PS_TCP))
		return -errno;
	urs_ep_destroy(st);
	rdma_destroy_id(st->id);
	st->id = id;
	urc_id(id)->quiet = true;
	urs_stream_apply_options(st);
	st->state = URS_INIT;
	return st->bound ? bind_locked(st) : 0;
}

static int stream_name(struct urs_sock *s, bool peer, union urs_addr *out)
{
	struct urs_stream *st = urs_stream_of(s);
	struct sockaddr *sa;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	out->sa.sa_family = (sa_family_t)s->domain;
	ur_lock_open(&s->lock);
	if (peer && st->state != URS_CONNECTED && st->state != URS_CLOSED)
		rc = -ENOTCONN;
	sa = peer ? rdma_get_peer_addr(st->id) : rdma_get_local_addr(st->id);
	if (!rc && sa->sa_family == AF_INET)
		memcpy(&out->in4, sa, sizeof(out->in4));
	else if (!rc && sa->sa_family == AF_INET6)
		memcpy(&out->in6, sa, sizeof(out->in6));
	ur_unlock_open(&s->lock);
	return rc;
}

static void stream_progress(struct urs_sock *s, bool work)
{
	struct urs_stream *st = urs_stream_of(s);

	if (urs_stream_opening(st) || ++st->idle % IDLE_LOOKS == 0)
		urs_stream_cm_progress(st);
	urs_ep_progress(st, work);
}

static void stream_arm(struct urs_sock *s)
{
	struct urs_ep *ep = &urs_stream_of(s)->ep;

	if (ep->cq && !ep->armed)
		ep->armed = !ibv_req_notify_cq(ep->cq, 0);
}

/* Armed once there is one event at most. */
static bool stream_consume(struct urs_sock *s, int fd)
{
	struct urs_stream *st = urs_stream_of(s);
	struct urs_ep *ep = &st->ep;
	int saved = errno;
	struct ibv_cq *cq;
	void *context;

	if (!ep->channel || fd != ep->channel->fd) {
		urs_stream_cm_progress(st);
		return false;
	}
	if (ibv_get_cq_event(ep->channel, &cq, &context)) {
		errno = saved;
		return false;
	}
	ep->unacked++;
	ep->armed = false;
	return true;
}

static short stream_poll(struct urs_sock *s)
{
	struct urs_stream *st = urs_stream_of(s);
	short now = 0;

	switch (st->state) {
	case URS_INIT:
	case URS_BOUND:
		return POLLOUT | POLLHUP;
	case URS_LISTENING:
		return ur_list_empty(&st->ready) ? 0 : POLLIN;
	case URS_ADDR:
	case URS_ROUTE:
	case URS_CONNECTING:
	case URS_ACCEPTED:
		return 0;
	case URS_CONNECTED:
		if (st->flow.unread || !st->can_read)
			now |= POLLIN;
		if (!st->can_read)
			now |= POLLRDHUP;
		if (!st->can_write || urs_flow_can_send(&st->flow))
			now |= POLLOUT;
		else
			st->blocked = true;
		return now;
	case URS_CLOSED:
		/* Programs that take a hang-up for an error read first. */
		if (st->flow.unread)
			return POLLIN | POLLOUT | POLLRDHUP;
		return POLLIN | POLLOUT | POLLHUP | POLLRDHUP;
	case URS_FAILED:
		break;
	}
	return POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP;
}

static void stream_close(struct urs_sock *s)
{
	struct urs_stream *st = urs_stream_of(s);
	bool open, listening;

	urs_watch_stop(&urs_cm_service, &st->connecting);
	urs_watch_stop(&urs_cm_service, &st->alive);
	ur_lock_open(&s->lock);
	listening = st->state == URS_LISTENING;
	open = st->state == URS_CONNECTED;
	ur_unlock_open(&s->lock);
	if (listening)
		urs_stream_unlisten(st);
	if (open)
		urs_stream_part(st);
	ur_lock_open(&s->lock);
	s->closed = true;
	urs_sock_wake(s);
	ur_unlock_open(&s->lock);
}

static const struct urs_ops stream_ops = {
	.bind = stream_bind,
	.listen = urs_stream_listen,
	.accept = urs_stream_accept,
	.connect = urs_stream_connect,
	.recv = urs_stream_recv,
	.send = urs_stream_send,
	.shutdown = urs_stream_shutdown,
	.close = stream_close,
	.name = stream_name,
	.set_option = urs_stream_set_option,
	.get_option = urs_stream_get_option,
	.free = stream_free,
	.progress = stream_progress,
	.arm = stream_arm,
	.consume = stream_consume,
	.poll = stream_poll,
};
