/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams that may be used by another process than the one that made them.
 * As rdma-core's preload library does it, so that both can be mixed.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/rsocket/preload/preload.h"

bool pre_fork_wanted(void)
{
	const char *v = getenv("RDMAV_FORK_SAFE");

	return v && strtol(v, NULL, 10) != 0;
}

/* The program's number means the rsocket from now on. */
static bool replace(int fd, int rs)
{
	pre_apply_env(rs);
	pre_copy_options(fd, false, rs, true);
	pre_real()->shutdown(fd, SHUT_RDWR);
	if (pre_real()->dup2(rs, fd) < 0)
		return false;
	return pre_set(fd, PRE_RSOCKET, rs);
}

/* Waits for the server's word, without taking it from the stream. */
static bool server_ready(int fd)
{
	const struct pre_real *real = pre_real();
	int flags = real->fcntl(fd, F_GETFL);
	uint32_t word = 1;
	ssize_t n;

	real->fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	n = real->recv(fd, &word, sizeof(word), MSG_PEEK | MSG_WAITALL);
	real->fcntl(fd, F_SETFL, flags);
	return n == sizeof(word) && word == 0;
}

static bool settle_active(int fd)
{
	struct sockaddr_storage peer = { 0 };
	struct sockaddr *sa = (struct sockaddr *)&peer;
	socklen_t len = sizeof(peer);
	int rs;

	if (!server_ready(fd) || pre_real()->getpeername(fd, sa, &len))
		return false;
	rs = PRE_RS(rsocket(peer.ss_family, SOCK_STREAM, 0));
	if (rs < 0)
		return false;
	if (!PRE_RS(rconnect(rs, sa, len)) && replace(fd, rs))
		return true;
	PRE_RS(rclose(rs));
	return false;
}

/* Any address, the port of the TCP connection. */
static int listen_beside(int fd)
{
	struct sockaddr_storage own;
	struct sockaddr *sa = (struct sockaddr *)&own;
	socklen_t len = sizeof(own);
	uint16_t port;
	int one = 1;
	int rs;

	memset(&own, 0, sizeof(own));
	if (pre_real()->getsockname(fd, sa, &len))
		return -1;
	port = own.ss_family == AF_INET6
		       ? ((struct sockaddr_in6 *)&own)->sin6_port
		       : ((struct sockaddr_in *)&own)->sin_port;
	rs = PRE_RS(rsocket(own.ss_family, SOCK_STREAM, 0));
	if (rs < 0)
		return -1;
	PRE_RS(rsetsockopt(rs, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	memset((char *)&own + sizeof(own.ss_family), 0,
	       sizeof(own) - sizeof(own.ss_family));
	if (own.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&own)->sin6_port = port;
	else
		((struct sockaddr_in *)&own)->sin_port = port;
	if (!PRE_RS(rbind(rs, sa, len)) && !PRE_RS(rlisten(rs, 1)))
		return rs;
	PRE_RS(rclose(rs));
	return -1;
}

static bool settle_passive(int fd)
{
	const uint32_t word = 0;
	/* Processes that settle at once would take each other's. */
	sem_t *turn = sem_open("/rsocket_fork", O_CREAT | O_RDWR, 0770, 1);
	bool ok = false;
	int lfd, rs;

	if (turn == SEM_FAILED)
		return false;
	sem_wait(turn);
	lfd = listen_beside(fd);
	if (lfd >= 0 &&
	    pre_real()->write(fd, &word, sizeof(word)) == sizeof(word)) {
		rs = PRE_RS(raccept(lfd, NULL, NULL));
		ok = rs >= 0 && replace(fd, rs);
		if (rs >= 0 && !ok)
			PRE_RS(rclose(rs));
	}
	if (lfd >= 0)
		PRE_RS(rclose(lfd));
	sem_post(turn);
	sem_close(turn);
	return ok;
}

void pre_fork_settle(int fd, enum pre_kind kind)
{
	bool ok = kind == PRE_FORK_ACTIVE ? settle_active(fd)
					  : settle_passive(fd);

	if (!ok)
		pre_set(fd, PRE_NORMAL, fd);
}

bool pre_data(int fd, int *rs)
{
	enum pre_kind kind = pre_kind(fd, rs);

	if (kind == PRE_FORK_ACTIVE || kind == PRE_FORK_PASSIVE) {
		pre_fork_settle(fd, kind);
		kind = pre_kind(fd, rs);
	}
	return kind == PRE_RSOCKET;
}
