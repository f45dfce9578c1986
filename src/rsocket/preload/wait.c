/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for several descriptors. */
#include <errno.h>
#include <limits.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>

#include "rsocket/epoll.h"
#include "rsocket/preload/preload.h"
#include "rsocket/sets.h"

enum { FEW = 64 };

/* Masks as of ppoll(): not in one step with the wait. */
static void mask_signals(const sigset_t *mask, sigset_t *old)
{
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, old);
}

static void restore_signals(const sigset_t *mask, const sigset_t *old)
{
	int error = errno;

	if (mask)
		pthread_sigmask(SIG_SETMASK, old, NULL);
	errno = error;
}

static int to_ms(const struct timespec *t)
{
	if (!t)
		return -1;
	if (t->tv_sec >= INT_MAX / 1000)
		return INT_MAX;
	return (int)(t->tv_sec * 1000 + (t->tv_nsec + 999999) / 1000000);
}

static bool has_rsocket(const struct pollfd *fds, nfds_t n)
{
	int rs;

	if (pre_inside)
		return false;
	for (nfds_t i = 0; i < n; i++) {
		pre_fork_await(fds[i].fd);
		if (pre_kind(fds[i].fd, &rs) == PRE_RSOCKET)
			return true;
	}
	return false;
}

/* With the rsockets' own descriptors. */
static int poll_mapped(struct pollfd *fds, nfds_t n, int timeout)
{
	struct pollfd few[FEW];
	struct pollfd *own = n <= FEW ? few : malloc(n * sizeof(*own));
	int rc;

	if (!own) {
		errno = ENOMEM;
		return -1;
	}
	for (nfds_t i = 0; i < n; i++) {
		own[i] = fds[i];
		if (pre_kind(fds[i].fd, &own[i].fd) != PRE_RSOCKET)
			own[i].fd = fds[i].fd;
	}
	rc = PRE_RS(rpoll(own, n, timeout));
	for (nfds_t i = 0; i < n && rc >= 0; i++)
		fds[i].revents = own[i].revents;
	if (own != few)
		free(own);
	return rc;
}

PRE_EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	return has_rsocket(fds, n) ? poll_mapped(fds, n, timeout)
				   : pre_real()->poll(fds, n, timeout);
}

PRE_EXPORT int ppoll(struct pollfd *fds, nfds_t n,
		     const struct timespec *timeout, const sigset_t *mask)
{
	sigset_t old;
	int rc;

	if (!has_rsocket(fds, n))
		return pre_real()->ppoll(fds, n, timeout, mask);
	mask_signals(mask, &old);
	rc = poll_mapped(fds, n, to_ms(timeout));
	restore_signals(mask, &old);
	return rc;
}

/* The C library names them.  NOLINTBEGIN(readability-identifier-naming) */
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		const sigset_t *mask, size_t room);

PRE_EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout,
			  size_t room)
{
	if (room / sizeof(*fds) < n)
		__builtin_trap();
	return poll(fds, n, timeout);
}

PRE_EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n,
			   const struct timespec *timeout, const sigset_t *mask,
			   size_t room)
{
	if (room / sizeof(*fds) < n)
		__builtin_trap();
	return ppoll(fds, n, timeout, mask);
}
/* NOLINTEND(readability-identifier-naming) */

static int select_mapped(struct pollfd *fds, nfds_t n, fd_set *r, fd_set *w,
			 fd_set *x, int timeout)
{
	int rc = poll_mapped(fds, n, timeout);

	return rc < 0 ? rc : urs_to_sets(fds, n, r, w, x);
}

PRE_EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *x,
		      struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	struct timespec t;
	nfds_t count;

	if (pre_inside || n < 0 || n > FD_SETSIZE)
		return pre_real()->select(n, r, w, x, timeout);
	count = urs_from_sets(n, r, w, x, fds);
	if (!has_rsocket(fds, count))
		return pre_real()->select(n, r, w, x, timeout);
	if (timeout)
		t = (struct timespec){ timeout->tv_sec,
				       timeout->tv_usec * 1000 };
	return select_mapped(fds, count, r, w, x, to_ms(timeout ? &t : NULL));
}

PRE_EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *x,
		       const struct timespec *timeout, const sigset_t *mask)
{
	struct pollfd fds[FD_SETSIZE];
	sigset_t old;
	nfds_t count;
	int rc;

	if (pre_inside || n < 0 || n > FD_SETSIZE)
		return pre_real()->pselect(n, r, w, x, timeout, mask);
	count = urs_from_sets(n, r, w, x, fds);
	if (!has_rsocket(fds, count))
		return pre_real()->pselect(n, r, w, x, timeout, mask);
	mask_signals(mask, &old);
	rc = select_mapped(fds, count, r, w, x, to_ms(timeout));
	restore_signals(mask, &old);
	return rc;
}

/* ---- epoll ---- */

PRE_EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	enum pre_kind kind;
	int rs, rc;

	pre_fork_await(fd);
	kind = pre_kind(fd, &rs);
	if (kind != PRE_RSOCKET) {
		rc = pre_real()->epoll_ctl(epfd, op, fd, ev);
		if (!rc && kind == PRE_FORK_ACTIVE &&
		    !pre_fork_watch(epfd, op, fd, ev))
			pre_fork_keep_tcp(fd);
		return rc;
	}
	rc = PRE_RS(repoll_ctl(epfd, op, rs, ev));
	if (!rc && op == EPOLL_CTL_ADD)
		pre_set(epfd, PRE_EPOLL, epfd);
	return rc;
}

PRE_EXPORT int epoll_wait(int epfd, struct epoll_event *events, int max,
			  int timeout)
{
	int same;

	return pre_kind(epfd, &same) == PRE_EPOLL
		       ? PRE_RS(repoll_wait(epfd, events, max, timeout))
		       : pre_real()->epoll_wait(epfd, events, max, timeout);
}

PRE_EXPORT int epoll_pwait(int epfd, struct epoll_event *events, int max,
			   int timeout, const sigset_t *mask)
{
	sigset_t old;
	int same, rc;

	if (pre_kind(epfd, &same) != PRE_EPOLL)
		return pre_real()->epoll_pwait(epfd, events, max, timeout,
					       mask);
	mask_signals(mask, &old);
	rc = PRE_RS(repoll_wait(epfd, events, max, timeout));
	restore_signals(mask, &old);
	return rc;
}
