/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/group.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/socket.h"
#include "client/ipc_io.h"
#include "sockets/udp.h"

/* A window of every QP fits; needs CAP_NET_ADMIN, so urnicd sets it. */
#define RX_BUFFER (8 << 20)

/* Datagrams thrown away for one slot: more than its buffer can hold, and an
 * end when a peer sends faster than we read. */
#define DRAIN_MAX 65536

void ur_group_init(struct ur_group *g, uint16_t port)
{
	g->port = port;
	ur_slots_init(&g->slots);
	ur_slot_store_init(&g->store);
	ur_gate_init(&g->gate);
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
	socklen_t sl = sizeof(sa), cl = sizeof(uint64_t);
	uint64_t cookie = 0;

	memset(&sa, 0, sizeof(sa));
	if (ur_sockopt_get(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_UDP ||
	    getsockname(fd, (struct sockaddr *)&sa, &sl) ||
	    (sa.sin6_family != AF_INET6 && sa.sin6_family != AF_INET) ||
	    sa.sin6_port != htons(port) ||
	    getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &cl))
		return 0;
	return cookie;
}

/*
 * A number that no interface has.  A socket that is bound to it belongs to no
 * group, and is sent nothing.
 */
#define NOWHERE 0x7fffff00

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

/* Replacing records of a store after which it is replaced by a new one. */
#define REPLACED_MAX 64u

/* The holder of a slot's socket could otherwise replace the program that steers
 * the packets of all slots. */
void ur_group_lock_filter(int fd)
{
	(void)ur_sockopt_set(fd, SOL_SOCKET, SO_LOCK_FILTER, 1);
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
	}
	return 0;
}

/* On failure CM messages for new slots come to slot 0, and are passed on. */
static void steer(const struct ur_group *g, int fd, uint32_t slots)
{
	int err = ur_udp_steer(fd, slots);

	if (err)
		ur_warn("the steering of port %u stays as it was: %s", g->port,
			strerror(-err));
}

/* A new store, with the present sockets only. */
static int renew_store(struct ur_group *g)
{
	int fds[UR_SLOT_BATCH], err;
	struct ur_slot_store k;

	err = ur_slot_store_create(&k);
	for (unsigned int i = 0; i < g->slots.count && !err;
	     i += UR_SLOT_BATCH) {
		unsigned int n = 0;

		for (; n < UR_SLOT_BATCH && i + n < g->slots.count; n++)
			fds[n] = g->slots.slot[i + n].fd;
		err = ur_slot_store_add(&k, i, fds, n);
	}
	if (err) {
		ur_slot_store_close(&k);
		return err;
	}
	ur_slot_store_close(&g->store);
	g->store = k;
	g->replaced = 0;
	g->stores++;
	return 0;
}

/* If renewing fails the store goes on, until its queue is full. */
static int keep(struct ur_group *g, unsigned int slot, int fd)
{
	int err;

	if (g->replaced >= REPLACED_MAX)
		(void)renew_store(g);
	err = ur_slot_store_add(&g->store, slot, &fd, 1);
	g->replaced += !err;
	return err;
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
	err = ur_slot_store_add(&g->store, first, fds, n);
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
	int err = ur_slot_store_create(&g->store);

	if (err)
		return err;
	err = ur_group_grow(g, now_ns);
	if (err)
		ur_slot_store_close(&g->store);
	return err;
}

static int bound_to(int fd)
{
	return ur_sockopt_get(fd, SOL_SOCKET, SO_BINDTOIFINDEX);
}

bool ur_group_has_left(struct ur_group *g, unsigned int slot)
{
	int fd = g->slots.slot[slot].fd;
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);

	return getpeername(fd, (struct sockaddr *)&a, &len) == 0 ||
	       bound_to(fd) > 0 || ur_gate_has_left(&g->gate, fd);
}

/*
 * Binding to an interface takes it out of its group; so does disconnecting, if
 * the kernel refuses that one (before Linux 5.7, without CAP_NET_RAW).
 */
static void leave(int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	if (ur_sockopt_set(fd, SOL_SOCKET, SO_BINDTOIFINDEX, NOWHERE))
		(void)connect(fd, &none, sizeof(none));
}

/* Each slot gets the socket that is at its index in the group. */
static void swap(struct ur_group *g, unsigned int a, unsigned int b)
{
	struct ur_slot *x = &g->slots.slot[a], *y = &g->slots.slot[b];
	int fd = x->fd;

	(void)keep(g, a, y->fd);
	(void)keep(g, b, fd);
	x->fd = y->fd;
	x->cookie = ur_group_cookie(x->fd, g->port);
	x->given = true; /* the other slot's packets may wait in it */
	y->fd = fd;
	y->cookie = ur_group_cookie(y->fd, g->port);
	y->given = true;
}

/*
 * An owner took the socket out of the group, so the last slot's socket is in its
 * place, and the new one in that of the last slot.  The two slots swap their
 * sockets, once the last slot has no owner.
 */
static int set_right(struct ur_group *g, unsigned int slot)
{
	unsigned int last = g->slots.count - 1;

	if (slot == last)
		return 0;
	if (g->slots.slot[last].state == UR_SLOT_USED) {
		ur_err("slot %u gets no packets any more, because uid %u took "
		       "the socket of slot %u out of the group",
		       last, (unsigned int)g->slots.slot[slot].uid, slot);
		g->slots.slot[slot].swapped = (uint16_t)last;
		return -EIO;
	}
	swap(g, slot, last);
	return -EAGAIN;
}

void ur_group_settle(struct ur_group *g, unsigned int slot, uint64_t now_ns)
{
	for (unsigned int i = 1; i < g->slots.count; i++) {
		struct ur_slot *sl = &g->slots.slot[i];

		if (sl->swapped != slot)
			continue;
		sl->swapped = 0;
		swap(g, i, slot);
		ur_slots_mend(&g->slots, i, now_ns);
	}
}

int ur_group_replace(struct ur_group *g, unsigned int slot)
{
	struct ur_slot *sl = &g->slots.slot[slot];
	int fd = ur_udp_slot_socket(g->port, 0), err;
	bool left;

	if (fd < 0)
		return fd;
	err = keep(g, slot, fd);
	if (err) {
		close(fd); /* the last one */
		return err;
	}
	left = ur_group_has_left(g, slot);
	ur_gate_shut(&g->gate, sl->cookie);
	leave(sl->fd);
	close(sl->fd);
	ur_slots_renew(&g->slots, slot, fd, ur_group_cookie(fd, g->port));
	return left ? set_right(g, slot) : 0;
}

unsigned int ur_group_shrink(struct ur_group *g, unsigned int keep_count,
			     uint64_t now_ns)
{
	unsigned int n = ur_slots_idle(&g->slots, keep_count, now_ns);
	int fds[UR_SLOTS];

	if (n == 0)
		return 0;
	for (unsigned int i = 0; i < n; i++) {
		fds[i] = g->slots.slot[g->slots.count - 1].fd;
		ur_gate_shut(&g->gate,
			     g->slots.slot[g->slots.count - 1].cookie);
		ur_slots_cut(&g->slots);
	}
	steer(g, g->slots.slot[0].fd, g->slots.count);
	for (unsigned int i = 0; i < n; i++) {
		leave(fds[i]);
		close(fds[i]);
	}
	(void)renew_store(g);
	ur_debug("slots from %u on closed", g->slots.count);
	return n;
}

/* Every socket must be one of the port's group, and none may come twice. */
static int check_restored(const struct ur_group *g, const int *fds,
			  uint64_t *cookies, int n)
{
	for (int i = 0; i < n; i++) {
		cookies[i] = ur_group_cookie(fds[i], g->port);
		if (!cookies[i])
			return -EPROTO;
		if (bound_to(fds[i]) == NOWHERE)
			return -ESTALE;
		for (int j = 0; j < i; j++) {
			if (cookies[j] == cookies[i])
				return -EPROTO;
		}
	}
	return n ? 0 : -EPROTO;
}

int ur_group_restore(struct ur_group *g, const struct ur_slot_store *store,
		     uint64_t now_ns)
{
	uint64_t cookies[UR_SLOTS];
	int fds[UR_SLOTS], err;
	int n = ur_slot_store_read(store, fds);

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
	g->store = *store;
	/* The last urnicd may have been of another version. */
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

/* Undo changes by an owner that would affect the next one. */
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

	ur_mcast_leave_all(fd);
	undo_changes(fd);
	drain(fd);
	(void)ur_sockopt_set(fd, SOL_SOCKET, SO_RCVBUFFORCE, RX_BUFFER);
	/* shutdown() cannot be undone. */
	if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP)))
		return -EIO;
	return 0;
}
