/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/memcheck.h"
#include "base/remote.h"
#include "base/socket.h"
#include "base/sys.h"

#define EVENTS	       32
/* How long a peer may acknowledge nothing; the kernel's default is a quarter of
 * an hour. */
#define UNACKED_MAX_MS 60000
#define EVENTS_IN      (EPOLLIN | EPOLLRDHUP | EPOLLET)
#define SKIP_ALONE     64u /* polls without epoll_wait(), one connection */
#define SKIP_CROWD     8u  /* the same with several */
#define REMOTE_PIECE   16384u
#define HOT_READS      500u /* in a row; then it leaves the set */

static size_t total(const struct iovec *iov, uint32_t n)
{
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

static void make_readable(struct ur_tcp *t, struct ur_tcp_conn *c)
{
	if (ur_list_empty(&c->readable))
		ur_list_add_tail(&t->readable, &c->readable);
}

int ur_tcp_init(struct ur_tcp *t)
{
	*t = (struct ur_tcp){ .epfd = epoll_create1(EPOLL_CLOEXEC) };
	ur_list_init(&t->readable);
	ur_list_init(&t->writable);
	t->set.fd = -1;
	return t->epfd < 0 ? -errno : 0;
}

void ur_tcp_fini(struct ur_tcp *t)
{
	if (t->set.fd >= 0)
		ur_stream_set_fini(&t->set);
	close(t->epfd);
	t->epfd = -1;
}

int ur_tcp_add(struct ur_tcp *t, struct ur_tcp_conn *c, int fd)
{
	struct epoll_event ev = {
		.events = EVENTS_IN,
		.data.ptr = c,
	};
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 ||
	    (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK)))
		return -errno;
	(void)ur_sockopt_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	(void)ur_sockopt_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKED_MAX_MS);
	*c = (struct ur_tcp_conn){ .fd = fd };
	ur_list_init(&c->readable);
	ur_list_init(&c->writable);
	if (epoll_ctl(t->epfd, EPOLL_CTL_ADD, fd, &ev))
		return -errno;
	t->count++;
	make_readable(t, c);
	return 0;
}

/* Level triggered: edges of single streams are read from the set itself. */
static int make_set(struct ur_tcp *t)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL };
	int err = ur_stream_set_init(&t->set);

	if (err)
		return err;
	if (epoll_ctl(t->epfd, EPOLL_CTL_ADD, t->set.fd, &ev) == 0)
		return 0;
	err = -errno;
	ur_stream_set_fini(&t->set);
	return err;
}

int ur_tcp_add_stream(struct ur_tcp *t, struct ur_tcp_conn *c,
		      struct ur_stream *s)
{
	int err = t->set.fd < 0 ? make_set(t) : 0;

	if (err)
		return err;
	*c = (struct ur_tcp_conn){ .fd = -1, .stream = s };
	ur_list_init(&c->readable);
	ur_list_init(&c->writable);
	ur_stream_set_add(&t->set, s, c);
	t->count++;
	t->streams++;
	make_readable(t, c);
	return 0;
}

static uint32_t events_of(const struct ur_tcp_conn *c)
{
	return c->watched ? EVENTS_IN | EPOLLOUT : EVENTS_IN;
}

/* Bytes that are there already count as an edge. */
static void rejoin_set(struct ur_tcp *t)
{
	struct ur_tcp_conn *c = t->out;
	struct epoll_event ev = { .events = events_of(c), .data.ptr = c };

	t->out = NULL;
	t->hot_reads = 0;
	/* No memory: it is read by each poll until it brings nothing. */
	if (epoll_ctl(t->epfd, EPOLL_CTL_ADD, c->fd, &ev))
		t->out = c;
}

/* A hot connection that fell silent rejoins: the set reports if it closes. */
static void update_set(struct ur_tcp *t, bool quick)
{
	if (t->out) {
		if (!quick || t->blocked || t->out != t->hot ||
		    t->hot_reads == t->out_reads)
			rejoin_set(t);
	} else if (quick && t->hot && !t->blocked &&
		   t->hot_reads >= HOT_READS &&
		   !epoll_ctl(t->epfd, EPOLL_CTL_DEL, t->hot->fd, NULL)) {
		t->out = t->hot;
	}
	t->out_reads = t->hot_reads;
}

static void set_blocked(struct ur_tcp *t, struct ur_tcp_conn *c, bool blocked)
{
	if (c->blocked == blocked)
		return;
	c->blocked = blocked;
	t->blocked += blocked ? 1u : -1u;
}

/* Not just by close(): a forked child may have a copy of the descriptor. */
void ur_tcp_remove(struct ur_tcp *t, struct ur_tcp_conn *c)
{
	ur_list_del(&c->readable);
	ur_list_del(&c->writable);
	set_blocked(t, c, false);
	if (t->last == c)
		t->last = t->hot = NULL;
	if (t->out == c)
		t->out = NULL;
	t->count--;
	if (c->stream) {
		t->streams--;
		ur_stream_set_remove(c->stream);
		return;
	}
	(void)epoll_ctl(t->epfd, EPOLL_CTL_DEL, c->fd, NULL);
}

void ur_tcp_del(struct ur_tcp *t, struct ur_tcp_conn *c, bool reset)
{
	struct linger hard = { .l_onoff = 1, .l_linger = 0 };

	ur_tcp_remove(t, c);
	if (c->stream) {
		ur_stream_close(c->stream, reset);
		c->stream = NULL;
		return;
	}
	if (reset)
		(void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard,
				 sizeof(hard));
	ur_sys_close(c->fd);
	c->fd = -1;
}

void ur_tcp_shut(struct ur_tcp_conn *c)
{
	if (c->stream)
		ur_stream_shut(c->stream);
	else
		(void)shutdown(c->fd, SHUT_WR);
}

/* May epoll_wait() be left out, and the hot connection be read? */
static bool skip_for_hot(struct ur_tcp *t)
{
	return t->hot && !t->blocked &&
	       ++t->skipped <= (t->count == 1 ? SKIP_ALONE : SKIP_CROWD);
}

static bool skip(struct ur_tcp *t)
{
	if (t->streams && t->streams == t->count)
		return ++t->skipped <= SKIP_ALONE;
	if (!skip_for_hot(t))
		return false;
	make_readable(t, t->hot);
	return true;
}

struct ur_tcp_conn *ur_tcp_hot(struct ur_tcp *t)
{
	if (t->streams || !ur_list_empty(&t->readable) || !skip_for_hot(t))
		return NULL;
	return t->hot;
}

static void make_writable(struct ur_tcp *t, struct ur_tcp_conn *c)
{
	if (c->blocked && ur_list_empty(&c->writable))
		ur_list_add_tail(&t->writable, &c->writable);
}

/* Reading and writing find out what happened; `lane` is the struct ur_tcp. */
static void on_stream(void *lane, void *user, bool ended)
{
	struct ur_tcp_conn *c = user;

	c->ended |= ended;
	make_readable(lane, user);
	make_writable(lane, user);
}

void ur_tcp_poll(struct ur_tcp *t, bool quick, uint64_t now_ns)
{
	struct epoll_event ev[EVENTS];
	int n;

	if (t->set.fd >= 0)
		ur_stream_set_poll(&t->set, quick, now_ns, on_stream, t);
	if (!quick && t->out)
		rejoin_set(t);
	if (!ur_list_empty(&t->readable) || (quick && skip(t)))
		return;
	t->skipped = 0;
	update_set(t, quick);
	if (t->out)
		make_readable(t, t->out);
	n = ur_sys_epoll_wait(t->epfd, ev, EVENTS, 0);
	for (int i = 0; i < n; i++) {
		struct ur_tcp_conn *c = ev[i].data.ptr;

		if (!c)
			continue;
		if (ev[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			c->ended = true;
		if (c->ended || (ev[i].events & EPOLLIN))
			make_readable(t, c);
		if (ev[i].events & (EPOLLOUT | EPOLLERR))
			make_writable(t, c);
	}
}

struct ur_tcp_conn *ur_tcp_next_readable(struct ur_tcp *t)
{
	struct ur_list *n = t->readable.next;

	if (ur_list_empty(&t->readable))
		return NULL;
	ur_list_del(n);
	return ur_container_of(n, struct ur_tcp_conn, readable);
}

struct ur_tcp_conn *ur_tcp_next_writable(struct ur_tcp *t)
{
	struct ur_list *n = t->writable.next;
	struct ur_tcp_conn *c;

	if (ur_list_empty(&t->writable))
		return NULL;
	ur_list_del(n);
	c = ur_container_of(n, struct ur_tcp_conn, writable);
	set_blocked(t, c, false);
	return c;
}

static ssize_t read_failed(struct ur_tcp *t, struct ur_tcp_conn *c, int err)
{
	switch (err) {
	case EAGAIN:
		return -EAGAIN;
	case EINTR:
		make_readable(t, c);
		return -EAGAIN;
	case EFAULT:
		make_readable(t, c);
		return -EFAULT;
	default:
		return c->error ? c->error : -err;
	}
}

/* Remote memory (base/remote.h) is not mapped, so recv() cannot write there. */
static ssize_t read_remote(int fd, const struct iovec *iov, uint32_t n)
{
	uint8_t buf[REMOTE_PIECE];
	size_t want = total(iov, n), done = 0;
	ssize_t len = ur_sys_recv(
		fd, buf, want < sizeof(buf) ? want : sizeof(buf), MSG_DONTWAIT);

	while (len > 0 && done < (size_t)len) {
		size_t part = (size_t)len - done < iov->iov_len
				      ? (size_t)len - done
				      : iov->iov_len;

		if (ur_guard_copy(iov->iov_base, buf + done, part)) {
			errno = EFAULT;
			return -1;
		}
		done += part;
		iov++;
	}
	return len;
}

/* recv() for a single piece: less for the kernel to check. */
static ssize_t receive(int fd, struct iovec *iov, uint32_t n)
{
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = n };

	return n == 1 ? ur_sys_recv(fd, iov->iov_base, iov->iov_len,
				    MSG_DONTWAIT)
		      : ur_sys_recvmsg(fd, &m, MSG_DONTWAIT);
}

static ssize_t transmit(int fd, const struct iovec *iov, uint32_t n)
{
	const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	struct msghdr m = {
		.msg_iov = (struct iovec *)(uintptr_t)iov,
		.msg_iovlen = n,
	};

	return n == 1 ? ur_sys_send(fd, iov->iov_base, iov->iov_len, flags)
		      : ur_sys_sendmsg(fd, &m, flags);
}

/*
 * A read that returned less than it had room for has emptied the socket
 * (epoll(7)); only its end may be left, which an earlier edge has reported.
 */
static ssize_t read_socket(struct ur_tcp *t, struct ur_tcp_conn *c,
			   struct iovec *iov, uint32_t n)
{
	bool remote = ur_remote_any(iov, n);
	ssize_t len =
		remote ? read_remote(c->fd, iov, n) : receive(c->fd, iov, n);

	if (len < 0)
		return read_failed(t, c, errno);
	if (len == 0)
		return c->error;
	t->hot = t->last == c ? c : NULL;
	t->hot_reads = t->hot ? t->hot_reads + 1 : 0;
	t->last = c;
	if (c->ended || remote || (size_t)len == total(iov, n))
		make_readable(t, c);
	return len;
}

static ssize_t read_stream(struct ur_tcp *t, struct ur_tcp_conn *c,
			   const struct iovec *iov, uint32_t n)
{
	bool more;
	ssize_t len = ur_stream_read(c->stream, iov, n, &more);

	c->ended = ur_stream_has_end(c->stream);
	if (more || len == -EFAULT)
		make_readable(t, c);
	if (len == 0)
		return c->error;
	return len < 0 && len != -EAGAIN && len != -EFAULT && c->error
		       ? c->error
		       : len;
}

ssize_t ur_tcp_read(struct ur_tcp *t, struct ur_tcp_conn *c, struct iovec *iov,
		    uint32_t n)
{
	return c->stream ? read_stream(t, c, iov, n)
			 : read_socket(t, c, iov, n);
}

void ur_tcp_again(struct ur_tcp *t, struct ur_tcp_conn *c)
{
	make_readable(t, c);
}

/* EPOLLOUT only once a write has failed: most connections always have room, and
 * would report it when they join the set, which wakes a thread for nothing. */
static void watch_room(struct ur_tcp *t, struct ur_tcp_conn *c)
{
	struct epoll_event ev = { .data.ptr = c };
	bool watched = c->watched;

	c->watched = true;
	ev.events = events_of(c);
	if (t->out == c)
		rejoin_set(t);
	else if (!watched && epoll_ctl(t->epfd, EPOLL_CTL_MOD, c->fd, &ev))
		c->watched = false;
}

/* The kernel reports room only after EAGAIN: a short write is not `blocked`
 * yet, and may have ended at unmapped memory. */
static ssize_t write_failed(struct ur_tcp *t, struct ur_tcp_conn *c, int err)
{
	if (err == EFAULT)
		return -EFAULT;
	if (err == EAGAIN) {
		set_blocked(t, c, true);
		if (!c->stream)
			watch_room(t, c);
		return 0;
	}
	c->error = -err;
	c->ended = true;
	make_readable(t, c);
	return 0;
}

ssize_t ur_tcp_write(struct ur_tcp *t, struct ur_tcp_conn *c,
		     const struct iovec *iov, uint32_t n)
{
	ssize_t len;

	if (c->stream) {
		len = ur_stream_write(c->stream, iov, n);
		return len > 0 ? len
			       : write_failed(t, c, len ? (int)-len : EAGAIN);
	}
	ur_memcheck_mute();
	do {
		len = transmit(c->fd, iov, n);
	} while (len < 0 && errno == EINTR);
	ur_memcheck_unmute();
	return len < 0 ? write_failed(t, c, errno) : len;
}

bool ur_tcp_delivered(const struct ur_tcp_conn *c)
{
	int left = 0;

	if (c->stream)
		return ur_stream_is_delivered(c->stream);
	return ioctl(c->fd, SIOCOUTQ, &left) != 0 || left == 0;
}

uint32_t ur_tcp_mss(const struct ur_tcp_conn *c)
{
	int mss;

	if (c->stream)
		return ur_stream_mss(c->stream);
	mss = ur_sockopt_get(c->fd, IPPROTO_TCP, TCP_MAXSEG);
	return mss > 0 ? (uint32_t)mss : 0;
}
