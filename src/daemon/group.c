/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/group.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/ipc_io.h"
#include "link/udp.h"

/* A window of every QP fits; only root may give so much, so we do for others. */
#define RX_BUFFER (8 << 20)

/* Datagrams thrown away for one slot: more than its buffer can hold, and an
 * end when a peer sends faster than we read. */
#define DRAIN_MAX 65536

void ur_group_init(struct ur_group *g, uint16_t port)
{
	g->port = port;
	ur_slots_init(&g->slots);
	ur_keeper_init(&g->keeper);
}

int ur_group_probe(const struct ur_group *g)
{
	int fd = ur_udp_sole_socket(g->port);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

uint64_t ur_group_cookie(int fd, uint16_t port)
{
	struct sockaddr_in6 sa;
	socklen_t len = sizeof(int), sl = sizeof(sa), cl = sizeof(uint64_t);
	uint64_t cookie = 0;
	int proto = 0;

	memset(&sa, 0, sizeof(sa));
	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &proto, &len) ||
	    proto != IPPROTO_UDP ||
	    getsockname(fd, (struct sockaddr *)&sa, &sl) ||
	    (sa.sin6_family != AF_INET6 && sa.sin6_family != AF_INET) ||
	    sa.sin6_port != htons(port) ||
	    getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &cl))
		return 0;
	return cookie;
}

/*
 * Who has a slot's socket could otherwise replace the program that steers the
 * packets of everybody.
 */
static void lock_filter(int fd)
{
	int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof(one));
}

/* The last sockets of a group can be closed without moving another one. */
static void close_batch(int *fds, unsigned int n)
{
	while (n)
		ur_ipc_close_fds(&fds[--n], 1);
}

static int open_batch(const struct ur_group *g, int *fds, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		bool own = g->slots.count + i == 0;

		fds[i] = ur_udp_slot_socket(g->port, own);
		if (fds[i] < 0) {
			int err = fds[i];

			close_batch(fds, i);
			return err;
		}
		if (!own)
			lock_filter(fds[i]);
	}
	return 0;
}

/* Without it CM messages for new slots come to us, and we pass them on. */
static void steer(const struct ur_group *g, int fd, uint32_t slots)
{
	int err = ur_udp_steer(fd, slots);

	if (err)
		ur_warn("the steering of port %u stays as it was: %s", g->port,
			strerror(-err));
}

int ur_group_grow(struct ur_group *g, uint64_t now_ns)
{
	unsigned int n = UR_SLOT_BATCH, first = g->slots.count;
	int fds[UR_SLOT_BATCH], err;

	if (n > UR_SLOTS - first)
		n = UR_SLOTS - first;
	if (n == 0)
		return -ENOSPC;
	err = open_batch(g, fds, n);
	if (err)
		return err;
	err = ur_keeper_add(&g->keeper, first, fds, n);
	if (err) {
		close_batch(fds, n);
		return err;
	}
	steer(g, first ? g->slots.slot[0].fd : fds[0], first + n);
	for (unsigned int i = 0; i < n; i++)
		ur_slots_add(&g->slots, fds[i],
			     ur_group_cookie(fds[i], g->port), UR_SLOT_FREE,
			     now_ns);
	ur_debug("slots %u to %u opened", first, first + n - 1);
	return 0;
}

int ur_group_create(struct ur_group *g, uint64_t now_ns)
{
	int err = ur_keeper_create(&g->keeper);

	if (err)
		return err;
	err = ur_group_grow(g, now_ns);
	if (err)
		ur_keeper_close(&g->keeper);
	return err;
}

/* Every socket must be one of the port's group, and none may come twice. */
static int check_restored(const struct ur_group *g, const int *fds,
			  uint64_t *cookies, int n)
{
	for (int i = 0; i < n; i++) {
		cookies[i] = ur_group_cookie(fds[i], g->port);
		if (!cookies[i])
			return -EPROTO;
		for (int j = 0; j < i; j++) {
			if (cookies[j] == cookies[i])
				return -EPROTO;
		}
	}
	return n ? 0 : -EPROTO;
}

int ur_group_restore(struct ur_group *g, const struct ur_keeper *keeper,
		     uint64_t now_ns)
{
	uint64_t cookies[UR_SLOTS];
	int fds[UR_SLOTS], err;
	int n = ur_keeper_read(keeper, fds);

	if (n < 0)
		return n;
	err = check_restored(g, fds, cookies, n);
	if (err) {
		ur_ipc_close_fds(fds, (unsigned int)n);
		return err;
	}
	for (int i = 0; i < n; i++)
		ur_slots_add(&g->slots, fds[i], cookies[i], UR_SLOT_ORPHAN,
			     now_ns);
	g->keeper = *keeper;
	/* The last daemon may have been of another version. */
	steer(g, fds[0], (uint32_t)n);
	return 0;
}

static void drain(int fd)
{
	uint8_t byte;

	for (int i = 0; i < DRAIN_MAX; i++) {
		if (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) < 0 &&
		    errno != EINTR && errno != ECONNREFUSED)
			break;
	}
}

/* What an owner may have done to the socket that others would suffer from. */
static void undo_changes(int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	fcntl(fd, F_SETOWN, 0);
	if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0)
		(void)connect(fd, &none, sizeof(none));
}

int ur_group_clean(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };
	int buffer = RX_BUFFER;

	ur_mcast_leave_all(fd);
	undo_changes(fd);
	drain(fd);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
	/* shutdown() cannot be undone. */
	if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP)))
		return -EIO;
	return 0;
}
