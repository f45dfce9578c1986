/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams that may be used by another process than the one that made them.
 *
 * Both sides begin with TCP.  A client of ours marks its SYN with a DSCP for
 * local use, which the server's kernel keeps (TCP_SAVE_SYN), so that a plain
 * client is never sent a byte of this.  At the first transfer the server's
 * process listens with an rsocket on a port of its own and names it in a word
 * on the TCP stream; the client connects there and proves by the word's nonce
 * that it is the peer of that stream.  Either side may stay with TCP: the
 * server says so by a word without a port, the client by sending data.  A word
 * that comes after that is taken out of the stream.
 *
 * A client takes the word of rdma-core's library, four zero bytes, as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>

#include "base/log.h"
#include "rsocket/epoll.h"
#include "rsocket/preload/preload.h"

#define MARK	  0xac /* DSCP 43 (RFC 2474, pool 2), no ECN */
#define DSCP_MASK 0xfc

/* All of it, and each wait alone. */
enum {
	WORD_MS = 1000,	   /* a client that wants to send, for the word */
	CONNECT_MS = 2000, /* a client, for the rsocket */
	CONFIRM_MS = 5000, /* a client, for the server's last word */
	SERVER_MS = 3000,  /* a server, for the client */
};

struct word {
	uint8_t magic[8];
	uint16_t port_be; /* 0: TCP it is */
	uint8_t nonce[14];
};

static const uint8_t magic[8] = { 0, 'u', 'r', 'n', 'i', 'c', 1, 0xff };

bool pre_fork_wanted(void)
{
	const char *v = getenv("RDMAV_FORK_SAFE");

	return v && strtol(v, NULL, 10) != 0;
}

/* ---- marks ---- */

void pre_fork_mark(int fd)
{
	const int mark = MARK;

	pre_real()->setsockopt(fd, IPPROTO_IP, IP_TOS, &mark, sizeof(mark));
	pre_real()->setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &mark,
			       sizeof(mark));
}

/* The SYN is through; what the program has set itself stays. */
static void unmark(int fd)
{
	static const struct {
		int level;
		int name;
	} both[] = { { IPPROTO_IP, IP_TOS }, { IPPROTO_IPV6, IPV6_TCLASS } };
	const int none = 0;

	for (int i = 0; i < 2; i++) {
		int tos = 0;
		socklen_t len = sizeof(tos);

		if (pre_real()->getsockopt(fd, both[i].level, both[i].name,
					   &tos, &len) == 0 &&
		    tos == MARK)
			pre_real()->setsockopt(fd, both[i].level, both[i].name,
					       &none, sizeof(none));
	}
}

void pre_fork_save_syn(int fd)
{
	const int one = 1;

	pre_real()->setsockopt(fd, IPPROTO_TCP, TCP_SAVE_SYN, &one,
			       sizeof(one));
}

bool pre_fork_is_marked(int fd)
{
	uint8_t syn[256] = { 0 };
	socklen_t len = sizeof(syn);
	unsigned int tos;

	if (pre_real()->getsockopt(fd, IPPROTO_TCP, TCP_SAVED_SYN, syn, &len) ||
	    len < 2)
		return false;
	tos = syn[0] >> 4 == 4 ? syn[1]
			       : ((unsigned int)syn[0] << 4 | syn[1] >> 4);
	return (tos & DSCP_MASK) == MARK;
}

/* ---- the program's number becomes an rsocket ---- */

/* Where streams that are not yet settled are waited for. */
static struct watch {
	bool used;
	int fd;
	int epfd;
	struct epoll_event ev;
} watches[256];
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;

bool pre_fork_watch(int epfd, int op, int fd, const struct epoll_event *ev)
{
	struct watch *slot = NULL;

	pthread_mutex_lock(&watch_lock);
	for (size_t i = 0; i < sizeof(watches) / sizeof(watches[0]); i++) {
		struct watch *w = &watches[i];

		if (w->used && w->fd == fd && w->epfd == epfd) {
			slot = w;
			break;
		}
		if (!w->used && !slot && op == EPOLL_CTL_ADD)
			slot = w;
	}
	if (slot) {
		slot->used = op != EPOLL_CTL_DEL;
		slot->fd = fd;
		slot->epfd = epfd;
		if (slot->used)
			slot->ev = *ev;
	}
	pthread_mutex_unlock(&watch_lock);
	return slot != NULL || op == EPOLL_CTL_DEL;
}

/* Takes one away; false: there is none. */
static bool take_watch(int fd, struct watch *out)
{
	bool found = false;

	pthread_mutex_lock(&watch_lock);
	for (size_t i = 0; i < sizeof(watches) / sizeof(watches[0]); i++) {
		struct watch *w = &watches[i];

		if (!w->used || w->fd != fd)
			continue;
		*out = *w;
		w->used = false;
		found = true;
		break;
	}
	pthread_mutex_unlock(&watch_lock);
	return found;
}

void pre_fork_forget(int fd)
{
	struct watch w;

	while (take_watch(fd, &w))
		;
}

static bool replace(int fd, int rs)
{
	struct watch w;

	pre_apply_env(rs);
	pre_copy_options(fd, false, rs, true);
	pre_real()->shutdown(fd, SHUT_RDWR);
	if (pre_real()->dup2(rs, fd) < 0)
		return false;
	if (!pre_set(fd, PRE_RSOCKET, rs))
		return false;
	while (take_watch(fd, &w)) {
		if (!PRE_RS(repoll_ctl(w.epfd, EPOLL_CTL_ADD, rs, &w.ev)))
			pre_set(w.epfd, PRE_EPOLL, w.epfd);
	}
	return true;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void limit_receiving(int rs, int ms)
{
	const struct timeval t = { .tv_sec = ms / 1000,
				   .tv_usec = ms % 1000 * 1000L };

	PRE_RS(rsetsockopt(rs, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
}

static bool receive(int rs, void *buf, size_t len, int ms)
{
	limit_receiving(rs, ms > 0 ? ms : 1);
	if (PRE_RS(rrecv(rs, buf, len, MSG_WAITALL)) != (ssize_t)len)
		return false;
	limit_receiving(rs, 0);
	return true;
}

static void set_port(struct sockaddr_storage *a, uint16_t port_be)
{
	if (a->ss_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = port_be;
	else
		((struct sockaddr_in *)a)->sin_port = port_be;
}

static uint16_t port_of(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET6
		       ? ((const struct sockaddr_in6 *)a)->sin6_port
		       : ((const struct sockaddr_in *)a)->sin_port;
}

/* ---- the client ---- */

/* Bounded: where RoCE is filtered, nothing comes back for long. */
static bool connect_bounded(int rs, const struct sockaddr *sa, socklen_t len)
{
	struct pollfd p = { .fd = rs, .events = POLLOUT };
	int error = 0;
	socklen_t size = sizeof(error);

	PRE_RS(rfcntl(rs, F_SETFL, (long)O_NONBLOCK));
	if (PRE_RS(rconnect(rs, sa, len))) {
		if (errno != EINPROGRESS ||
		    PRE_RS(rpoll(&p, 1, CONNECT_MS)) != 1 ||
		    PRE_RS(rgetsockopt(rs, SOL_SOCKET, SO_ERROR, &error,
				       &size)) ||
		    error)
			return false;
	}
	PRE_RS(rfcntl(rs, F_SETFL, 0L));
	return true;
}

/* w NULL: the word was rdma-core's. */
static bool become_rsocket(int fd, const struct word *w)
{
	struct sockaddr_storage peer = { 0 };
	struct sockaddr *sa = (struct sockaddr *)&peer;
	socklen_t len = sizeof(peer);
	char last = 0;
	int rs;

	if (pre_real()->getpeername(fd, sa, &len))
		return false;
	if (w)
		set_port(&peer, w->port_be);
	rs = PRE_RS(rsocket(peer.ss_family, SOCK_STREAM, 0));
	if (rs < 0)
		return false;
	if (!connect_bounded(rs, sa, len))
		goto close_rs;
	if (w && (PRE_RS(rsend(rs, w->nonce, sizeof(w->nonce), 0)) !=
			  (ssize_t)sizeof(w->nonce) ||
		  !receive(rs, &last, 1, CONFIRM_MS)))
		goto close_rs;
	if (replace(fd, rs))
		return true;
close_rs:
	PRE_RS(rclose(rs));
	return false;
}

enum look {
	LOOK_NOTHING, /* has come yet */
	LOOK_DATA,    /* or the end */
	LOOK_WORD,
	LOOK_RDMA_CORE,
};

static bool wait_for_data(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return pre_real()->poll(&p, 1, ms) > 0;
}

/* What stands first in the stream, without taking it. */
static enum look look_at(int fd, struct word *w)
{
	const int64_t end = now_ms() + WORD_MS;

	for (;;) {
		ssize_t n = pre_real()->recv(fd, w, sizeof(*w),
					     MSG_PEEK | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN ? LOOK_NOTHING : LOOK_DATA;
		if (n >= 4 && !memcmp(w->magic, "\0\0\0\0", 4))
			return LOOK_RDMA_CORE;
		if (n == 0 ||
		    memcmp(w->magic, magic,
			   (size_t)n < sizeof(magic) ? (size_t)n
						     : sizeof(magic)) != 0)
			return LOOK_DATA;
		if (n == sizeof(*w))
			return LOOK_WORD;
		/* A part of it, which stays readable: look again soon. */
		if (now_ms() >= end)
			return LOOK_DATA;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

static void take_word(int fd, struct word *w)
{
	(void)!pre_real()->recv(fd, w, sizeof(*w), 0);
}

static bool is_nonblocking(int fd)
{
	return pre_real()->fcntl(fd, F_GETFL) & O_NONBLOCK;
}

static bool is_connected(int fd)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);

	return !pre_real()->getpeername(fd, (struct sockaddr *)&peer, &len);
}

/* ms -1: until something comes. */
static void settle_active(int fd, int ms)
{
	enum pre_kind next = PRE_NORMAL;
	struct word w;

	if (!is_connected(fd))
		return;
	if (ms)
		wait_for_data(fd, ms);
	switch (look_at(fd, &w)) {
	case LOOK_NOTHING:
		if (ms == 0)
			return;
		next = PRE_FORK_LATE;
		break;
	case LOOK_DATA:
		break;
	case LOOK_RDMA_CORE:
		unmark(fd);
		if (become_rsocket(fd, NULL))
			return;
		break;
	case LOOK_WORD:
		take_word(fd, &w);
		unmark(fd);
		if (w.port_be && become_rsocket(fd, &w))
			return;
		break;
	}
	unmark(fd);
	pre_fork_forget(fd);
	pre_set(fd, next, fd);
}

/* TCP for good; only a late word is not for the program. */
static void strip_late_word(int fd, bool wait)
{
	struct word w;

	if (wait)
		wait_for_data(fd, -1);
	switch (look_at(fd, &w)) {
	case LOOK_NOTHING:
		return;
	case LOOK_WORD:
		take_word(fd, &w);
		break;
	case LOOK_DATA:
	case LOOK_RDMA_CORE:
		break;
	}
	pre_set(fd, PRE_NORMAL, fd);
}

/* ---- the server ---- */

/* Any address, any port: all devices. */
static int listen_beside(int fd, uint16_t *port_be)
{
	struct sockaddr_storage own = { 0 };
	struct sockaddr *sa = (struct sockaddr *)&own;
	socklen_t len = sizeof(own);
	sa_family_t family;
	int rs;

	if (pre_real()->getsockname(fd, sa, &len))
		return -1;
	family = own.ss_family;
	memset(&own, 0, sizeof(own));
	own.ss_family = family;
	rs = PRE_RS(rsocket(family, SOCK_STREAM, 0));
	if (rs < 0)
		return -1;
	if (PRE_RS(rbind(rs, sa, len)) || PRE_RS(rlisten(rs, 8)) ||
	    PRE_RS(rgetsockname(rs, sa, &len))) {
		PRE_RS(rclose(rs));
		return -1;
	}
	*port_be = port_of(&own);
	return rs;
}

static bool say(int fd, const struct word *w)
{
	return pre_real()->send(fd, w, sizeof(*w), MSG_NOSIGNAL) == sizeof(*w);
}

static void say_no(int fd)
{
	struct word w = { .port_be = 0 };

	memcpy(w.magic, magic, sizeof(magic));
	(void)say(fd, &w);
}

/* The next that comes to lfd; -1: not the peer of our stream. */
static int meet(int lfd, const struct word *w, int64_t end)
{
	uint8_t nonce[sizeof(w->nonce)];
	int rs = PRE_RS(raccept(lfd, NULL, NULL));

	if (rs < 0)
		return -1;
	if (receive(rs, nonce, sizeof(nonce), (int)(end - now_ms())) &&
	    !memcmp(nonce, w->nonce, sizeof(nonce)) &&
	    PRE_RS(rsend(rs, "y", 1, 0)) == 1)
		return rs;
	PRE_RS(rclose(rs));
	return -1;
}

/* Until the client comes to lfd, or says by TCP that it does not. */
static bool await_client(int fd, int lfd, const struct word *w)
{
	const int64_t end = now_ms() + SERVER_MS;

	for (;;) {
		struct pollfd p[2] = { { .fd = lfd, .events = POLLIN },
				       { .fd = fd, .events = POLLIN } };
		int64_t left = end - now_ms();
		int rs;

		if (left <= 0 || PRE_RS(rpoll(p, 2, (int)left)) <= 0 ||
		    !p[0].revents)
			return false;
		rs = meet(lfd, w, end);
		if (rs < 0)
			continue;
		if (replace(fd, rs))
			return true;
		PRE_RS(rclose(rs));
		return false;
	}
}

static bool settle_passive(int fd)
{
	struct word w;
	bool ok = false;
	int lfd;

	/* A client that waits no longer has sent data. */
	if (wait_for_data(fd, 0))
		return false;
	memcpy(w.magic, magic, sizeof(magic));
	if (getrandom(w.nonce, sizeof(w.nonce), 0) != sizeof(w.nonce)) {
		say_no(fd);
		return false;
	}
	lfd = listen_beside(fd, &w.port_be);
	if (lfd < 0) {
		say_no(fd);
		return false;
	}
	if (say(fd, &w))
		ok = await_client(fd, lfd, &w);
	PRE_RS(rclose(lfd));
	return ok;
}

/* ---- */

/* A client's stream that is waited for may still be connecting. */
void pre_fork_await(int fd)
{
	int rs;
	enum pre_kind kind = pre_kind(fd, &rs);

	if (kind == PRE_FORK_PASSIVE && !settle_passive(fd))
		pre_set(fd, PRE_NORMAL, fd);
}

void pre_fork_keep_tcp(int fd)
{
	int rs;
	enum pre_kind kind = pre_kind(fd, &rs);

	if (kind == PRE_FORK_PASSIVE) {
		say_no(fd);
		pre_set(fd, PRE_NORMAL, fd);
	} else if (kind == PRE_FORK_ACTIVE) {
		pre_fork_forget(fd);
		pre_set(fd, PRE_FORK_LATE, fd);
	}
}

static _Atomic bool forked;

static void in_child(void)
{
	forked = true;
	pthread_mutex_init(&watch_lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

void pre_fork_check(int rs)
{
	static _Atomic bool told;
	int type, saved = errno;
	socklen_t len = sizeof(type);

	if (!forked || told)
		return;
	if (PRE_RS(rgetsockopt(rs, SOL_SOCKET, SO_TYPE, &type, &len)) &&
	    errno == EBADF && !atomic_exchange(&told, true))
		ur_warn("rsocket: this process uses an rsocket of its parent: "
			"set RDMAV_FORK_SAFE=1 for servers that fork, and for "
			"their clients");
	errno = saved;
}

bool pre_data(int fd, int *rs)
{
	enum pre_kind kind = pre_kind(fd, rs);

	if (kind == PRE_NORMAL)
		return false;
	if (kind == PRE_FORK_ACTIVE)
		settle_active(fd, WORD_MS);
	else
		pre_fork_await(fd);
	return pre_kind(fd, rs) == PRE_RSOCKET;
}

bool pre_data_in(int fd, int *rs, int flags)
{
	enum pre_kind kind = pre_kind(fd, rs);
	bool wait;

	if (kind == PRE_FORK_ACTIVE || kind == PRE_FORK_LATE) {
		wait = !(flags & MSG_DONTWAIT) && !is_nonblocking(fd);
		if (kind == PRE_FORK_ACTIVE)
			settle_active(fd, wait ? -1 : 0);
		else
			strip_late_word(fd, wait);
		return pre_kind(fd, rs) == PRE_RSOCKET;
	}
	return pre_data(fd, rs);
}
