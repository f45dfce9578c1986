/* SPDX-License-Identifier: BSD-2-Clause */
/* The sets of select() as descriptors of poll(), and back. */
#ifndef UR_RSOCKET_SETS_H
#define UR_RSOCKET_SETS_H

#include <poll.h>
#include <sys/select.h>

/* Those below n that are in a set, which may be NULL; returns how many. */
static inline nfds_t urs_from_sets(int n, const fd_set *r, const fd_set *w,
				   const fd_set *x, struct pollfd *fds)
{
	nfds_t count = 0;

	for (int fd = 0; fd < n; fd++) {
		short events = 0;

		if (r && FD_ISSET(fd, r))
			events |= POLLIN;
		if (w && FD_ISSET(fd, w))
			events |= POLLOUT;
		if (x && FD_ISSET(fd, x))
			events |= POLLPRI;
		if (events)
			fds[count++] =
				(struct pollfd){ .fd = fd, .events = events };
	}
	return count;
}

static inline int urs_to_set(const struct pollfd *fds, nfds_t n, short asked,
			     short bits, fd_set *out)
{
	int count = 0;

	if (!out)
		return 0;
	FD_ZERO(out);
	for (nfds_t i = 0; i < n; i++) {
		if (!(fds[i].events & asked) || !(fds[i].revents & bits))
			continue;
		FD_SET(fds[i].fd, out);
		count++;
	}
	return count;
}

/* What poll() has found, into the sets; returns what select() does. */
static inline int urs_to_sets(const struct pollfd *fds, nfds_t n, fd_set *r,
			      fd_set *w, fd_set *x)
{
	int rc = urs_to_set(fds, n, POLLIN, POLLIN | POLLHUP | POLLERR, r);

	rc += urs_to_set(fds, n, POLLOUT, POLLOUT | POLLERR, w);
	/* A broken rsocket is an exception, as in rdma-core. */
	return rc + urs_to_set(fds, n, POLLPRI, POLLPRI | POLLERR, x);
}

#endif
