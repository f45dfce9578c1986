/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wakefd.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/socket.h"
#include "base/sys.h"
#include "engine/internal.h"
#include "engine/shm_peers.h"

#define EVENTS 16
/* Enough to empty a socket, bounded against a peer that goes on writing. */
#define READS  64

/* Not an eventfd: it shares its flags, so the peer could make us block. */
int ur_wakefd_create(struct ur_lane *l, int *theirs)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int pair[2], err;

	if (l->peer_wakefds < 0)
		l->peer_wakefds = epoll_create1(EPOLL_CLOEXEC);
	if (l->peer_wakefds < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	ev.data.fd = pair[0];
	if (epoll_ctl(l->peer_wakefds, EPOLL_CTL_ADD, pair[0], &ev)) {
		err = -errno;
		close(pair[0]);
		close(pair[1]);
		return err;
	}
	l->sole_wakefd = l->peer_count++ ? -1 : pair[0];
	*theirs = pair[1];
	return pair[0];
}

/* A forked child may have a copy, so close() alone would not remove it. */
void ur_wakefd_destroy(struct ur_lane *l, int ours)
{
	epoll_ctl(l->peer_wakefds, EPOLL_CTL_DEL, ours, NULL);
	close(ours);
	l->peer_count--;
	if (l->sole_wakefd == ours)
		l->sole_wakefd = -1;
}

/*
 * Not the set if there is one peer: behind a set the woken thread preempts the
 * one that signals instead of waiting until that sleeps (1.9 context switches
 * for a request of redis instead of 1.1).
 */
int ur_wakefd_polled(const struct ur_lane *l)
{
	return l->sole_wakefd >= 0 ? l->sole_wakefd : l->peer_wakefds;
}

/* False: the peer has closed its end. */
static bool empty(int fd)
{
	uint8_t buf[4096];
	ssize_t n = sizeof(buf);

	for (int i = 0; i < READS && n == (ssize_t)sizeof(buf); i++)
		n = ur_sys_recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	return n != 0;
}

static void drain_set(const struct ur_lane *l)
{
	struct epoll_event ev[EVENTS];
	int n = EVENTS;

	/* Each descriptor once, although peers may go on signalling. */
	for (unsigned int seen = 0; n == EVENTS && seen <= UR_SHM_MAX;
	     seen += EVENTS) {
		n = ur_sys_epoll_wait(l->peer_wakefds, ev, EVENTS, 0);
		for (int i = 0; i < n; i++)
			(void)empty(ev[i].data.fd);
	}
}

void ur_wakefd_drain(struct ur_lane *l)
{
	if (l->sole_wakefd < 0) {
		if (l->peer_wakefds >= 0)
			drain_set(l);
	} else if (!empty(l->sole_wakefd)) {
		/* It is readable for ever; the set says so only once. */
		l->sole_wakefd = -1;
		drain_set(l);
	}
}

/* Writing to another kind of descriptor could block, or raise SIGPIPE. */
bool ur_wakefd_is_valid(int theirs)
{
	return ur_sockopt_get(theirs, SOL_SOCKET, SO_DOMAIN) == AF_UNIX &&
	       ur_sockopt_get(theirs, SOL_SOCKET, SO_TYPE) == SOCK_STREAM;
}

/* If the socket is full, earlier signals are still unread: no need for more. */
void ur_wakefd_signal(int theirs)
{
	uint8_t one = 1;

	if (ur_sys_send(theirs, &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		ur_debug("wakeup fd: errno %d", errno);
}
