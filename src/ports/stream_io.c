/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: events of the plugin, and calls of their owners. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/guard.h"
#include "base/sys.h"
#include "ports/stream_internal.h"

#define PIECE 16384u
#define IPV4  1u
#define IPV6  2u

/* ---- From the plugin, under the lock ---- */

void ur_stream_news(void *stream, bool room)
{
	struct ur_stream *s = stream;
	struct ur_stream_set *set = s->set;

	if (room && !s->blocked)
		return;
	s->blocked = false;
	if (!set) {
		if (s->fd >= 0)
			ur_event_signal(s->fd);
		return;
	}
	if (!ur_list_empty(&s->news))
		return;
	ur_list_add_tail(&set->news, &s->news);
	if (set->signalled || set == ur_streams.polling)
		return;
	set->signalled = true;
	ur_event_signal(set->fd);
}

static struct ur_stream *new_stream(void)
{
	struct ur_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->hold = -1;
	s->fd = -1;
	ur_list_init(&s->news);
	ur_list_init(&s->all);
	return s;
}

static void free_stream(struct ur_stream *s)
{
	ur_list_del(&s->news);
	ur_list_del(&s->all);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

/* There may have been events before the descriptor existed. */
static int open_fd(struct ur_stream *s)
{
	if (s->fd < 0)
		s->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	return s->fd < 0 ? -errno : 0;
}

bool ur_stream_has_room(void *listener)
{
	const struct ur_stream_listener *l = listener;

	return l->waiting < l->backlog;
}

/* Half-open connections that were begun while there was room are accepted. */
void *ur_stream_accepted(void *listener, struct ur_stack_conn *c)
{
	struct ur_stream_listener *l = listener;
	struct ur_stack_end local, peer;
	struct ur_stream *s = new_stream();

	if (!s)
		return NULL;
	ur_streams.tcp->ends(c, &local, &peer);
	s->c = c;
	s->number = local.port;
	s->port = ur_stream_addr_find(local.addr)->port;
	ur_list_add_tail(&ur_streams.all, &s->all);
	ur_list_add_tail(&l->queue, &s->news);
	l->waiting++;
	ur_event_signal(l->fd);
	return s;
}

/* ---- Creation ---- */

int ur_stream_connect(const struct ur_stack_end *from,
		      const struct ur_stack_end *to, int hold, uint32_t lease,
		      struct ur_stream **out)
{
	struct ur_stream_addr *a;
	struct ur_stream *s;
	int err = -EADDRNOTAVAIL;

	if (!ur_streams_lock())
		return -ENODEV;
	a = ur_stream_addr_find(from->addr);
	s = a ? new_stream() : NULL;
	if (a)
		err = s ? open_fd(s) : -ENOMEM;
	if (!err)
		err = ur_streams.tcp->connect(a->at, from->port, to, s, &s->c);
	if (!err) {
		s->port = a->port;
		s->number = from->port;
		s->hold = hold;
		s->lease = lease;
		ur_list_add_tail(&ur_streams.all, &s->all);
		ur_stream_port_push(s->port);
		*out = s;
	} else if (s) {
		free_stream(s);
	}
	ur_streams_unlock();
	return err;
}

static bool is_wanted(const struct ur_stream_addr *a, const uint8_t *addr,
		      uint32_t families)
{
	if (addr)
		return !memcmp(a->ip, addr, 16);
	return families & (ur_addr_is_v4(a->ip) ? IPV4 : IPV6);
}

static void end_listener(struct ur_stream_listener *l)
{
	for (uint32_t i = 0; i < l->count; i++)
		ur_streams.tcp->close(l->conns[i], false);
	ur_list_each_safe(struct ur_stream, s, &l->queue, news) {
		if (s->c)
			ur_streams.tcp->close(s->c, true);
		ur_stream_port_flush(s->port);
		free_stream(s);
	}
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}

static int listen_all(struct ur_stream_listener *l, const uint8_t *addr,
		      uint32_t families, uint16_t port)
{
	uint32_t n = atomic_load(&ur_streams.naddrs);

	for (uint32_t i = 0; i < n; i++) {
		const struct ur_stream_addr *a = &ur_streams.addrs[i];
		int err;

		if (!is_wanted(a, addr, families))
			continue;
		err = ur_streams.tcp->listen(a->at, port, l,
					     &l->conns[l->count]);
		if (err)
			return err;
		l->count++;
	}
	return l->count ? 0 : -ENOENT;
}

int ur_stream_listen(const uint8_t *addr, uint32_t families, uint16_t port,
		     uint32_t backlog, struct ur_stream_listener **out)
{
	uint32_t n = atomic_load(&ur_streams.naddrs);
	struct ur_stream_listener *l;
	int err;

	if (!n || !ur_streams_lock())
		return -ENOENT;
	l = calloc(1,
		   sizeof(*l) + (size_t)UR_STREAM_ADDRS * sizeof(l->conns[0]));
	if (!l) {
		ur_streams_unlock();
		return -ENOMEM;
	}
	ur_list_init(&l->queue);
	l->backlog = backlog;
	l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = l->fd < 0 ? -errno : listen_all(l, addr, families, port);
	if (err)
		end_listener(l);
	else
		*out = l;
	ur_streams_unlock();
	return err;
}

void ur_stream_listener_close(struct ur_stream_listener *l)
{
	if (!ur_streams_lock())
		return;
	end_listener(l);
	ur_streams_unlock();
}

int ur_stream_listener_fd(const struct ur_stream_listener *l)
{
	return l->fd;
}

static int accept_locked(struct ur_stream_listener *l, struct ur_stream **out)
{
	struct ur_stream *s =
		ur_container_of(l->queue.next, struct ur_stream, news);
	int err;

	if (ur_list_empty(&l->queue)) {
		ur_event_clear(l->fd);
		return -EAGAIN;
	}
	err = open_fd(s);
	if (err)
		return err;
	ur_list_del(&s->news);
	l->waiting--;
	*out = s;
	return 0;
}

int ur_stream_accept(struct ur_stream_listener *l, struct ur_stream **out)
{
	int err;

	if (!ur_streams_lock())
		return -EAGAIN;
	err = accept_locked(l, out);
	ur_streams_unlock();
	return err;
}

/* ---- Until it is in a set ---- */

int ur_stream_fd(struct ur_stream *s)
{
	return s->fd;
}

void ur_stream_heard(struct ur_stream *s)
{
	ur_event_clear(s->fd);
}

int ur_stream_state(struct ur_stream *s)
{
	int err = -ENODEV;

	if (!ur_streams_lock())
		return err;
	if (s->c) {
		err = ur_streams.tcp->error(s->c);
		if (!err && !ur_streams.tcp->is_connected(s->c))
			err = -EINPROGRESS;
	}
	ur_streams_unlock();
	return err;
}

void ur_stream_set_add(struct ur_stream_set *set, struct ur_stream *s,
		       void *user)
{
	if (!ur_streams_lock())
		return;
	s->set = set;
	s->user = user;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	ur_streams_unlock();
}

void ur_stream_set_remove(struct ur_stream *s)
{
	if (!ur_streams_lock())
		return;
	ur_list_del(&s->news);
	s->set = NULL;
	ur_streams_unlock();
}

/* ---- Bytes ---- */

/* Copy adjacent pieces into one buffer; bytes, or -EFAULT. */
static ssize_t read_piece(struct ur_stack_conn *c, const struct iovec *v,
			  size_t off)
{
	const uint8_t *at;
	uint32_t len = ur_streams.tcp->peek(c, &at);

	if (len > v->iov_len - off)
		len = (uint32_t)(v->iov_len - off);
	if (len && ur_guard_copy((uint8_t *)v->iov_base + off, at, len))
		return -EFAULT;
	if (len)
		ur_streams.tcp->eat(c, len);
	return len;
}

static ssize_t read_all(struct ur_stack_conn *c, const struct iovec *iov,
			uint32_t n)
{
	ssize_t done = 0;
	size_t off = 0;

	for (uint32_t i = 0; i < n;) {
		ssize_t len;

		if (off == iov[i].iov_len) {
			i++;
			off = 0;
			continue;
		}
		len = read_piece(c, &iov[i], off);
		if (len <= 0)
			return done || !len ? done : len;
		off += (size_t)len;
		done += len;
	}
	return done;
}

static ssize_t read_locked(struct ur_stream *s, const struct iovec *iov,
			   uint32_t n, bool *more)
{
	const struct ur_stack_plugin *tcp = ur_streams.tcp;
	const uint8_t *at;
	ssize_t len;

	*more = false;
	if (!s->c)
		return -ENOTCONN;
	len = read_all(s->c, iov, n);
	if (len == 0)
		return tcp->error(s->c)	    ? tcp->error(s->c)
		       : tcp->has_end(s->c) ? 0
					    : -EAGAIN;
	*more = tcp->peek(s->c, &at) || tcp->has_end(s->c) || tcp->error(s->c);
	/* Room in the window is told, perhaps. */
	ur_stream_port_push(s->port);
	return len;
}

ssize_t ur_stream_read(struct ur_stream *s, const struct iovec *iov, uint32_t n,
		       bool *more)
{
	ssize_t len;

	if (!ur_streams_lock())
		return -ENOTCONN;
	len = read_locked(s, iov, n, more);
	ur_streams_unlock();
	return len;
}

/* Through a buffer: the plugin must not access memory that may be unmapped. */
static ssize_t write_iov(struct ur_stack_conn *c, const struct iovec *v)
{
	uint8_t buf[PIECE];
	size_t done = 0;

	while (done < v->iov_len) {
		size_t len = v->iov_len - done;
		uint32_t room = ur_streams.tcp->room(c), got;

		len = len < sizeof(buf) ? len : sizeof(buf);
		len = len < room ? len : room;
		if (!len)
			break;
		if (ur_guard_copy(buf, (uint8_t *)v->iov_base + done, len))
			return done ? (ssize_t)done : -EFAULT;
		got = ur_streams.tcp->write(c, buf, (uint32_t)len);
		done += got;
		if (got < len)
			break;
	}
	return (ssize_t)done;
}

static ssize_t write_locked(struct ur_stream *s, const struct iovec *iov,
			    uint32_t n)
{
	ssize_t done = 0;
	int err = s->c ? ur_streams.tcp->error(s->c) : -EPIPE;

	if (err)
		return err;
	for (uint32_t i = 0; i < n; i++) {
		ssize_t len = write_iov(s->c, &iov[i]);

		if (len < 0)
			return done ? done : len;
		done += len;
		if ((size_t)len < iov[i].iov_len)
			break;
	}
	s->blocked = !done;
	if (done) {
		ur_streams.tcp->push(s->c);
		ur_stream_port_push(s->port);
	}
	return done;
}

ssize_t ur_stream_write(struct ur_stream *s, const struct iovec *iov,
			uint32_t n)
{
	ssize_t len;

	if (!ur_streams_lock())
		return -EPIPE;
	len = write_locked(s, iov, n);
	ur_streams_unlock();
	return len;
}

bool ur_stream_has_end(struct ur_stream *s)
{
	bool yes = true;

	if (!ur_streams_lock())
		return yes;
	if (s->c)
		yes = ur_streams.tcp->has_end(s->c) ||
		      ur_streams.tcp->error(s->c);
	ur_streams_unlock();
	return yes;
}

bool ur_stream_is_delivered(struct ur_stream *s)
{
	bool yes = true;

	if (!ur_streams_lock())
		return yes;
	if (s->c)
		yes = ur_streams.tcp->is_delivered(s->c);
	ur_streams_unlock();
	return yes;
}

uint32_t ur_stream_mss(struct ur_stream *s)
{
	uint32_t mss = 0;

	if (!ur_streams_lock())
		return 0;
	if (s->c)
		mss = ur_streams.tcp->mss(s->c);
	ur_streams_unlock();
	return mss;
}

static void set_scope(const struct ur_stream *s, struct ur_stack_end *e)
{
	if (e->addr[0] == 0xfe && (e->addr[1] & 0xc0) == 0x80)
		e->scope = ur_stream_port_ifindex(s->port);
}

void ur_stream_ends(struct ur_stream *s, struct ur_stack_end *local,
		    struct ur_stack_end *peer)
{
	memset(local, 0, sizeof(*local));
	memset(peer, 0, sizeof(*peer));
	if (!ur_streams_lock())
		return;
	if (s->c)
		ur_streams.tcp->ends(s->c, local, peer);
	set_scope(s, local);
	set_scope(s, peer);
	ur_streams_unlock();
}

void ur_stream_shut(struct ur_stream *s)
{
	if (!ur_streams_lock())
		return;
	if (s->c)
		ur_streams.tcp->shut(s->c);
	ur_stream_port_push(s->port);
	ur_streams_unlock();
}

void ur_stream_close(struct ur_stream *s, bool reset)
{
	if (!ur_streams_lock())
		return;
	if (s->c)
		ur_streams.tcp->close(s->c, reset);
	if (s->hold >= 0)
		ur_stream_hold(s);
	ur_stream_port_push(s->port);
	free_stream(s);
	ur_streams_unlock();
}
