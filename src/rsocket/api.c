/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of rdma/rsocket.h: lookups, errno, and which kind it is. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "rsocket/option.h"
#include "rsocket/sock.h"

static int fail(int error)
{
	errno = error;
	return -1;
}

static int result(int rc)
{
	return rc < 0 ? fail(-rc) : rc;
}

/* Gives the reference back. */
static ssize_t finish(struct urs_sock *s, ssize_t rc)
{
	urs_sock_put(s);
	return rc < 0 ? fail((int)-rc) : rc;
}

static struct urs_sock *get(int fd)
{
	struct urs_sock *s = urs_sock_get(fd);

	if (!s)
		errno = EBADF;
	return s;
}

/* The table of descriptors takes the reference. */
static int publish(struct urs_sock *s)
{
	int rc = urs_fds_set(s->fd, &s->ref);

	if (!rc)
		return s->fd;
	s->ops->close(s);
	urs_sock_put(s);
	return rc;
}

int rsocket(int domain, int type, int protocol)
{
	int flags = type & (SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct urs_sock *s;
	int rc;

	type &= ~flags;
	if ((domain != AF_INET && domain != AF_INET6) ||
	    !((type == SOCK_STREAM && (!protocol || protocol == IPPROTO_TCP)) ||
	      (type == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP))))
		return fail(ENOTSUP);
	rc = type == SOCK_STREAM ? urs_stream_create(domain, &s)
				 : urs_dgram_create(domain, &s);
	if (rc)
		return fail(-rc);
	if (flags & SOCK_NONBLOCK)
		s->flags |= O_NONBLOCK;
	if (flags & SOCK_CLOEXEC)
		fcntl(s->fd, F_SETFD, FD_CLOEXEC);
	return result(publish(s));
}

/* rbind() and rconnect(): the operation takes an address. */
static int with_addr(int socket, const struct sockaddr *addr, socklen_t addrlen,
		     bool connects)
{
	struct urs_sock *s = get(socket);
	union urs_addr a;
	int rc;

	if (!s)
		return -1;
	rc = urs_addr_set(&a, addr, addrlen);
	if (!rc)
		rc = connects ? s->ops->connect(s, &a) : s->ops->bind(s, &a);
	return (int)finish(s, rc);
}

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	return with_addr(socket, addr, addrlen, false);
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	return with_addr(socket, addr, addrlen, true);
}

int rlisten(int socket, int backlog)
{
	struct urs_sock *s = get(socket);

	if (!s)
		return -1;
	return (int)finish(s, s->ops->listen(s, backlog));
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct urs_sock *s = get(socket);
	struct urs_sock *child;
	union urs_addr peer;
	int rc;

	if (!s)
		return -1;
	rc = s->ops->accept(s, &child);
	if (!rc) {
		child->ops->name(child, true, &peer);
		rc = publish(child);
		if (rc >= 0 && addr)
			urs_addr_get(&peer, addr, addrlen);
	}
	return (int)finish(s, rc);
}

int rshutdown(int socket, int how)
{
	struct urs_sock *s = get(socket);

	if (!s)
		return -1;
	return (int)finish(s, s->ops->shutdown(s, how));
}

/* In a child of fork() the adapter's side is the parent's. */
static int close_orphan(int fd)
{
	return urs_fds_clear(fd, URS_KIND_SOCK) ? close(fd) : fail(EBADF);
}

int rclose(int socket)
{
	struct urs_ref *r = urs_fds_clear(socket, URS_KIND_EPOLL);
	struct urs_sock *s;

	if (r) {
		urs_fds_put(r);
		return close(socket);
	}
	s = urs_sock_get(socket);
	if (!s)
		return close_orphan(socket);
	r = urs_fds_clear(socket, URS_KIND_SOCK);
	if (!r)
		return (int)finish(s, -EBADF);
	s->ops->close(s);
	urs_fds_put(r);
	urs_sock_put(s);
	return 0;
}

/* ---- data ---- */

static int iov_init(struct urs_iov *out, const struct iovec *v, int count)
{
	size_t total = 0;

	if (count < 0 || count > IOV_MAX)
		return -EINVAL;
	for (int i = 0; i < count; i++) {
		if (v[i].iov_len > (size_t)SSIZE_MAX - total)
			return -EINVAL;
		total += v[i].iov_len;
	}
	*out = (struct urs_iov){ v, count, total };
	return 0;
}

static ssize_t receive(int fd, const struct iovec *v, int count, int flags,
		       struct sockaddr *src, socklen_t *src_len)
{
	struct urs_sock *s = get(fd);
	union urs_addr from = { 0 };
	struct urs_iov iov;
	ssize_t n;

	if (!s)
		return -1;
	n = iov_init(&iov, v, count);
	if (!n)
		n = s->ops->recv(s, &iov, flags, src ? &from : NULL);
	if (n >= 0 && src && from.sa.sa_family != AF_UNSPEC)
		urs_addr_get(&from, src, src_len);
	else if (n >= 0 && src && src_len)
		*src_len = 0;
	return finish(s, n);
}

static ssize_t transmit(int fd, const struct iovec *v, int count, int flags,
			const struct sockaddr *dst, socklen_t dst_len)
{
	struct urs_sock *s = get(fd);
	struct urs_iov iov;
	union urs_addr to;
	ssize_t n;

	if (!s)
		return -1;
	n = iov_init(&iov, v, count);
	if (!n && dst && dst_len)
		n = urs_addr_set(&to, dst, dst_len);
	if (!n)
		n = s->ops->send(s, &iov, flags, dst && dst_len ? &to : NULL);
	return finish(s, n);
}

/* An iovec is not const, whichever way the bytes go. */
static struct iovec piece(const void *buf, size_t len)
{
	union {
		const void *from;
		void *base;
	} u = { .from = buf };

	return (struct iovec){ .iov_base = u.base, .iov_len = len };
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	struct iovec v = { .iov_base = buf, .iov_len = len };

	return receive(socket, &v, 1, flags, NULL, NULL);
}

ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags,
		  struct sockaddr *src_addr, socklen_t *addrlen)
{
	struct iovec v = { .iov_base = buf, .iov_len = len };

	return receive(socket, &v, 1, flags, src_addr, addrlen);
}

/* There are no control messages: none are sent, none come. */
ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	ssize_t n = receive(socket, msg->msg_iov, (int)msg->msg_iovlen, flags,
			    msg->msg_name, &msg->msg_namelen);

	if (n >= 0) {
		msg->msg_controllen = 0;
		msg->msg_flags = 0;
	}
	return n;
}

ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	return receive(socket, iov, iovcnt, 0, NULL, NULL);
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	struct iovec v = piece(buf, len);

	return transmit(socket, &v, 1, flags, NULL, 0);
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen)
{
	struct iovec v = piece(buf, len);

	return transmit(socket, &v, 1, flags, dest_addr, addrlen);
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	if (msg->msg_control && msg->msg_controllen)
		return fail(ENOTSUP);
	return transmit(socket, msg->msg_iov, (int)msg->msg_iovlen, flags,
			msg->msg_name, msg->msg_namelen);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	return transmit(socket, iov, iovcnt, 0, NULL, 0);
}

/* ---- names and options ---- */

static int name_of(int fd, bool peer, struct sockaddr *addr, socklen_t *len)
{
	struct urs_sock *s = get(fd);
	union urs_addr a;
	int rc;

	if (!s)
		return -1;
	rc = s->ops->name(s, peer, &a);
	if (!rc)
		urs_addr_get(&a, addr, len);
	return (int)finish(s, rc);
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return name_of(socket, true, addr, addrlen);
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return name_of(socket, false, addr, addrlen);
}

int rsetsockopt(int socket, int level, int optname, const void *optval,
		socklen_t optlen)
{
	struct urs_sock *s = get(socket);

	if (!s)
		return -1;
	return (int)finish(s,
			   urs_option_set(s, level, optname, optval, optlen));
}

int rgetsockopt(int socket, int level, int optname, void *optval,
		socklen_t *optlen)
{
	struct urs_sock *s = get(socket);

	if (!s)
		return -1;
	return (int)finish(s,
			   urs_option_get(s, level, optname, optval, optlen));
}

static int set_flags(struct urs_sock *s, int flags)
{
	ur_lock_open(&s->lock);
	s->flags = (s->flags & O_ACCMODE) | (flags & ~O_ACCMODE);
	ur_unlock_open(&s->lock);
	return 0;
}

/* The flags of the file are ours, those of the descriptor the kernel's. */
int rfcntl(int socket, int cmd, ... /* arg */)
{
	struct urs_sock *s = get(socket);
	va_list args;
	long arg;
	int rc;

	if (!s)
		return -1;
	va_start(args, cmd);
	arg = va_arg(args, long);
	va_end(args);
	switch (cmd) {
	case F_GETFL:
		rc = s->flags;
		break;
	case F_SETFL:
		rc = set_flags(s, (int)arg);
		break;
	case F_GETFD:
	case F_SETFD:
		rc = fcntl(s->fd, cmd, (int)arg);
		rc = rc < 0 ? -errno : rc;
		break;
	default:
		rc = -ENOTSUP;
		break;
	}
	return (int)finish(s, rc);
}
