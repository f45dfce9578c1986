/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams that may be used by another process than the one that made them.
 * As rdma-core's preload library does it, so that both can be mixed.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "rdmacm/rsocket/preload/preload.h"

/* What the server says first.  The second is ours alone. */
#define WORD_READY 0u
#define WORD_NO	   0xffffffffu

enum { PATIENCE_S = 10, TURN_S = 20 };

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

/*
 * Waits for the server's word, without taking it from the stream: any other
 * is the beginning of the data of a server that knows nothing of rsockets.
 */
static bool server_ready(int fd)
{
	const struct pre_real *real = pre_real();
	int flags = real->fcntl(fd, F_GETFL);
	uint32_t word = WORD_NO;
	ssize_t n;

	real->fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	n = real->recv(fd, &word, sizeof(word), MSG_PEEK | MSG_WAITALL);
	if (n == sizeof(word) && word == WORD_NO)
		n = real->recv(fd, &word, sizeof(word), MSG_WAITALL);
	real->fcntl(fd, F_SETFL, flags);
	return n == sizeof(word) && word == WORD_READY;
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
	const struct timeval patience = { .tv_sec = PATIENCE_S };
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
	/* A peer that knows nothing of rsockets does not come. */
	PRE_RS(rsetsockopt(rs, SOL_SOCKET, SO_RCVTIMEO, &patience,
			   sizeof(patience)));
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

/* The peer waits for a word before it sends: it shall go on by TCP.  (iWARP
 * has no port beside TCP's own, so there this is the rule.) */
static void say_no(int fd)
{
	const uint32_t word = WORD_NO;

	(void)!pre_real()->write(fd, &word, sizeof(word));
}

/* A process that died in its turn leaves it to whoever gets tired first. */
static void wait_turn(sem_t *turn)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += TURN_S;
	while (sem_timedwait(turn, &end) && errno == EINTR)
		;
}

static bool settle_passive(int fd)
{
	uint32_t word = WORD_READY;
	/* Processes that settle at once would take each other's. */
	sem_t *turn = sem_open("/rsocket_fork", O_CREAT | O_RDWR, 0770, 1);
	bool ok = false;
	int lfd, rs;

	if (turn == SEM_FAILED)
		return false;
	wait_turn(turn);
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
	else
		say_no(fd);
	sem_post(turn);
	sem_close(turn);
	return ok;
}

/*
 * The peer sends nothing before it has our word, so nobody should wait for it
 * to send before the word was given.
 */
void pre_fork_await(int fd)
{
	int rs;

	if (pre_kind(fd, &rs) == PRE_FORK_PASSIVE)
		pre_fork_settle(fd, PRE_FORK_PASSIVE);
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
