/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll() and rselect(): rsockets and other descriptors together. */
#include <errno.h>
#include <limits.h>
#include <rdma/rsocket.h>
#include <stdlib.h>

#include "rsocket/config.h"
#include "rsocket/sets.h"
#include "rsocket/sock.h"

enum { FEW = 16, ALWAYS = POLLERR | POLLHUP | POLLNVAL };

/* One call's view: arrays of n. */
struct set {
	struct pollfd *fds; /* the caller's */
	nfds_t n;
	struct urs_sock **sock; /* NULL: another descriptor */
	uint64_t *token;
	struct pollfd *real; /* what the kernel is asked; UR_WAIT_FDS more */
	struct ur_wait_lanes lanes;
	bool mixed; /* there are others */
};

struct few {
	struct urs_sock *sock[FEW];
	uint64_t token[FEW];
	struct pollfd real[FEW + UR_WAIT_FDS];
};

static int set_init(struct set *set, struct few *few, struct pollfd *fds,
		    nfds_t n)
{
	*set = (struct set){ .fds = fds, .n = n };
	if (n <= FEW) {
		set->sock = few->sock;
		set->token = few->token;
		set->real = few->real;
	} else {
		set->sock = calloc(n, sizeof(*set->sock));
		set->token = calloc(n, sizeof(*set->token));
		set->real = calloc(n + UR_WAIT_FDS, sizeof(*set->real));
	}
	if (!set->sock || !set->token || !set->real)
		return -ENOMEM;
	for (nfds_t i = 0; i < n; i++) {
		set->sock[i] = urs_sock_get(fds[i].fd);
		if (!set->sock[i] && fds[i].fd >= 0)
			set->mixed = true;
	}
	return 0;
}

static void set_fini(struct set *set, const struct few *few)
{
	for (nfds_t i = 0; set->sock && i < set->n; i++) {
		if (set->sock[i])
			urs_sock_put(set->sock[i]);
	}
	if (set->sock == few->sock)
		return;
	free(set->sock);
	free(set->token);
	free(set->real);
}

/* Under the rsocket's lock. */
static short current(struct urs_sock *s, const struct pollfd *p)
{
	if (s->closed)
		return POLLNVAL;
	return (short)(s->ops->poll(s) & (p->events | ALWAYS));
}

/* What the kernel said of the others; how many have something to say. */
static int report_others(struct set *set)
{
	int count = 0;

	for (nfds_t i = 0; i < set->n; i++) {
		if (set->sock[i])
			continue;
		set->fds[i].revents =
			(short)(set->fds[i].fd < 0 ? 0 : set->real[i].revents);
		count += set->fds[i].revents != 0;
	}
	return count;
}

/* The state of the others, without waiting. */
static int check_others(struct set *set)
{
	if (!set->mixed)
		return report_others(set);
	for (nfds_t i = 0; i < set->n; i++) {
		set->real[i] = set->fds[i];
		if (set->sock[i])
			set->real[i].fd = -1;
	}
	if (poll(set->real, set->n, 0) < 0)
		return -errno;
	return report_others(set);
}

/* How many rsockets have something to say; work: as of urs_ops.progress. */
static int check_rsockets(struct set *set, bool work)
{
	int count = 0;

	for (nfds_t i = 0; i < set->n; i++) {
		struct urs_sock *s = set->sock[i];

		if (!s)
			continue;
		ur_lock_open(&s->lock);
		s->ops->progress(s, work);
		set->fds[i].revents = current(s, &set->fds[i]);
		ur_unlock_open(&s->lock);
		count += set->fds[i].revents != 0;
	}
	return count;
}

/* From now on any news makes real[] readable; true: there is some already. */
static bool arm(struct set *set)
{
	bool any = false;

	for (nfds_t i = 0; i < set->n; i++) {
		struct urs_sock *s = set->sock[i];

		set->real[i] = set->fds[i];
		set->real[i].revents = 0;
		if (!s)
			continue;
		set->real[i].events = POLLIN;
		ur_lock_open(&s->lock);
		s->ops->arm(s);
		s->ops->progress(s, false);
		any |= current(s, &set->fds[i]) != 0;
		ur_wait_join(&set->lanes, &s->lanes);
		set->token[i] = urs_sock_sleep_begin(s);
		ur_unlock_open(&s->lock);
	}
	return any;
}

static void wake_up(struct set *set, bool polled)
{
	for (nfds_t i = 0; i < set->n; i++) {
		struct urs_sock *s = set->sock[i];

		if (!s)
			continue;
		ur_lock_open(&s->lock);
		urs_sock_sleep_end(s, set->token[i],
				   polled && set->real[i].revents);
		ur_unlock_open(&s->lock);
	}
}

/* How many have something to say now, or -errno. */
static int sleep_once(struct set *set, int64_t end)
{
	int64_t slice = (int64_t)urs_config()->wake_up_ms * 1000000;
	int64_t left = end == URS_NEVER ? slice : end - urs_now_ns();
	bool quiet = !arm(set);
	int n, others;

	if (left > slice)
		left = slice;
	if (left < 0 || !quiet)
		left = 0;
	n = ur_wait_poll(&set->lanes, set->real, set->n,
			 ur_clock_ns() + (uint64_t)left, urs_spin_ns());
	wake_up(set, n > 0);
	if (n < 0)
		return n;
	others = n ? report_others(set) : check_others(set);
	return others < 0 ? others : check_rsockets(set, false) + others;
}

static int poll_set(struct set *set, int timeout_ms)
{
	int64_t end = URS_NEVER;
	int rc = check_rsockets(set, !timeout_ms);

	/* The kernel is asked for the others here, or in the sleep. */
	if (rc || !timeout_ms) {
		int others = check_others(set);

		return others < 0 ? others : rc + others;
	}
	if (timeout_ms >= 0)
		end = urs_now_ns() + (int64_t)timeout_ms * 1000000;
	while (!rc) {
		rc = sleep_once(set, end);
		if (!rc && urs_now_ns() >= end)
			break;
	}
	return rc;
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct few few;
	struct set set;
	int rc = set_init(&set, &few, fds, nfds);

	if (!rc)
		rc = poll_set(&set, timeout);
	set_fini(&set, &few);
	if (rc >= 0)
		return rc;
	errno = -rc;
	return -1;
}

static bool any_invalid(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++) {
		if (fds[i].revents & POLLNVAL)
			return true;
	}
	return false;
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
	    struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	int ms = -1;
	nfds_t n;
	int rc;

	if (nfds < 0 || nfds > FD_SETSIZE) {
		errno = EINVAL;
		return -1;
	}
	n = urs_from_sets(nfds, readfds, writefds, exceptfds, fds);
	if (timeout && timeout->tv_sec < 0) {
		errno = EINVAL;
		return -1;
	}
	if (timeout && timeout->tv_sec < INT_MAX / 1000 - 1)
		ms = (int)(timeout->tv_sec * 1000 +
			   (timeout->tv_usec + 999) / 1000);
	rc = rpoll(fds, n, ms);
	if (rc < 0)
		return rc;
	if (any_invalid(fds, n)) {
		errno = EBADF;
		return -1;
	}
	return urs_to_sets(fds, n, readfds, writefds, exceptfds);
}
