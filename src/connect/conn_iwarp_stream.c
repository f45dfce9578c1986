/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections whose TCP is not the kernel's (ports/stream.h).  The kernel is
 * asked for everything but the bytes: routes, addresses and port numbers are
 * those of the host's side of the port.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/socket.h"
#include "base/sys.h"
#include "connect/conn_iwarp.h"
#include "engine/internal.h"

#define ACCEPTS_PER_ROUND 32
#define IPV4		  1u
#define IPV6		  2u

static void end_of(const struct sockaddr_storage *a, struct ur_stack_end *out)
{
	ur_addr_from_sockaddr(out->addr, a);
	out->port = ur_sockaddr_port(a);
}

void iw_ends(const struct iw_conn *i, struct sockaddr_storage *local,
	     struct sockaddr_storage *peer)
{
	socklen_t llen = sizeof(*local), plen = sizeof(*peer);
	struct ur_stack_end ours, theirs;

	local->ss_family = AF_UNSPEC;
	if (peer)
		peer->ss_family = AF_UNSPEC;
	if (!i->stream) {
		(void)getsockname(i->fd, (struct sockaddr *)local, &llen);
		if (peer)
			(void)getpeername(i->fd, (struct sockaddr *)peer,
					  &plen);
		return;
	}
	ur_stream_ends(i->stream, &ours, &theirs);
	ur_sockaddr_from_gid(ours.addr, ours.scope, ours.port, local);
	if (peer)
		ur_sockaddr_from_gid(theirs.addr, theirs.scope, theirs.port,
				     peer);
}

ssize_t iw_send_bytes(const struct iw_conn *i, const void *p, size_t len)
{
	struct iovec v = { (void *)(uintptr_t)p, len };
	ssize_t n;

	if (!i->stream) {
		n = ur_sys_send(i->fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		return n < 0 ? -errno : n;
	}
	n = ur_stream_write(i->stream, &v, 1);
	return n ? n : -EAGAIN;
}

ssize_t iw_recv_bytes(const struct iw_conn *i, void *p, size_t len)
{
	struct iovec v = { p, len };
	ssize_t n;
	bool more;

	if (i->stream)
		return ur_stream_read(i->stream, &v, 1, &more);
	n = ur_sys_recv(i->fd, p, len, MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

int iw_connect_result(const struct iw_conn *i)
{
	int err;

	if (i->stream)
		return ur_stream_state(i->stream);
	err = ur_sockopt_get(i->fd, SOL_SOCKET, SO_ERROR);
	return err < 0 ? err : -err;
}

/* In order: what was said last is still to arrive. */
void iw_stream_drop(struct iw_conn *i)
{
	if (i->stream)
		ur_stream_close(i->stream, false);
	i->stream = NULL;
}

/* ---- Active side ---- */

/* Where the call comes from: the address that the socket has, or would get, and
 * the port number that it has, or 0. */
static int find_source(const struct iw_conn *i, struct sockaddr_storage *src)
{
	uint16_t port;
	int err;

	iw_ends(i, src, NULL);
	if (src->ss_family == AF_UNSPEC)
		return -ENOTCONN;
	if (!ur_conn_addr_any(src))
		return 0;
	port = ur_sockaddr_port(src);
	err = ur_conn_route(&i->to, src);
	if (!err)
		ur_sockaddr_set_port(src, port);
	return err;
}

/* False: the kernel's TCP is used, through the host's interface. */
static bool lease(const struct iw_conn *i, uint32_t *handle)
{
	struct ur_client *c = ur_process_client();
	int err = c ? ur_client_tcp_lease(c, i->fd, handle) : -ENOENT;

	if (err && err != -ENOENT)
		ur_warn_some("urnicd leases no TCP port number: %s",
			     strerror(-err));
	return !err;
}

static void put_lease(uint32_t handle)
{
	struct ur_client *c = ur_process_client();

	if (handle && c)
		ur_client_tcp_put(c, handle);
}

int iw_stream_call(struct iw_conn *i, bool *done)
{
	struct sockaddr_storage src;
	struct ur_stack_end from, to;
	uint32_t handle = 0;
	bool ours;
	int err;

	/* Else connect() says what is wrong. */
	if (!ur_streams_are_there() || find_source(i, &src))
		return 0;
	end_of(&src, &from);
	end_of(&i->to, &to);
	if (!ur_streams_carry(from.addr, to.addr))
		return 0;
	ours = !from.port;
	if (ours) {
		i->from = src;
		err = iw_take_port(i);
		if (err)
			return err;
		from.port = i->port;
	}
	if (ur_streams_need_lease(from.addr) && !lease(i, &handle)) {
		if (ours)
			ur_sockaddr_set_port(&i->from, 0);
		return 0;
	}
	err = ur_stream_connect(&from, &to, i->fd, handle, &i->stream);
	if (err) {
		put_lease(handle);
		return err;
	}
	/* TCP may still use the number when we call again. */
	if (ours)
		ur_sockaddr_set_port(&i->from, 0);
	iw_fd_del(i);
	i->fd = -1;
	*done = true;
	return 0;
}

/* ---- Listening ---- */

static void on_ready(struct ur_cmt_source *src, uint32_t events)
{
	struct iw_conn *l = ur_container_of(src, struct iw_conn, stream_source);
	struct ur_stream *s;

	for (int n = 0; n < ACCEPTS_PER_ROUND && !l->paused; n++) {
		int err = iw_make_room(l) ? ur_stream_accept(l->streams, &s)
					  : -EBUSY;

		if (err == -EAGAIN)
			return;
		if (err)
			iw_pause_listener(l);
		else
			iw_take_in(l, -1, s);
	}
}

int iw_stream_watch(struct iw_conn *l)
{
	int err;

	if (!l->streams || l->stream_source.fd >= 0)
		return 0;
	l->stream_source.fd = ur_stream_listener_fd(l->streams);
	l->stream_source.ready = on_ready;
	err = ur_cmt_watch(l->c.cmt, &l->stream_source, EPOLLIN);
	if (err)
		l->stream_source.fd = -1;
	return err;
}

void iw_stream_pause(struct iw_conn *l)
{
	if (l->stream_source.fd >= 0)
		ur_cmt_unwatch(l->c.cmt, &l->stream_source);
}

int iw_stream_listen(struct iw_conn *l)
{
	struct sockaddr_storage a;
	uint32_t families = IPV4;
	const uint8_t *addr;
	struct ur_stack_end at;
	int err;

	iw_ends(l, &a, NULL);
	end_of(&a, &at);
	if (a.ss_family == AF_INET6)
		families = l->c.opts.afonly ? IPV6 : IPV4 | IPV6;
	addr = ur_conn_addr_any(&a) ? NULL : at.addr;
	err = ur_stream_listen(addr, families, at.port, IW_STREAMS_MAX,
			       &l->streams);
	if (err)
		return err == -ENOENT ? 0 : err;
	return iw_stream_watch(l);
}

void iw_stream_claim(struct iw_conn *l)
{
	struct sockaddr_storage a;
	struct ur_stack_end at;

	if (!l->streams)
		return;
	iw_ends(l, &a, NULL);
	end_of(&a, &at);
	/* Without it all connections come to the kernel's listener. */
	if (ur_streams_need_lease(ur_conn_addr_any(&a) ? NULL : at.addr))
		(void)lease(l, &l->lease);
}

void iw_stream_listen_end(struct iw_conn *l)
{
	iw_stream_pause(l);
	put_lease(l->lease);
	l->lease = 0;
	if (l->streams)
		ur_stream_listener_close(l->streams);
	l->streams = NULL;
}
