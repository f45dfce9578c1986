/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams on rsockets: rsocket_dgram ADDRESS.  Like any datagram they may be
 * lost, so everything is asked again until it is answered.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rsocket_pair.h"

enum { MOST = 2000, TRIES = 50 };

static char sent[2048];
static char got[4096];

static int bound(union any_addr *name)
{
	socklen_t len = sizeof(*name);
	int fd = rsocket(at.sa.sa_family, SOCK_DGRAM, 0);

	MUST(fd >= 0);
	*name = at;
	name->in4.sin_port = 0; /* in the same place of both families */
	MUST(rbind(fd, &name->sa, at_len) == 0);
	MUST(rgetsockname(fd, &name->sa, &len) == 0);
	MUST(len == at_len && name->in4.sin_port != 0);
	return fd;
}

static bool same(const union any_addr *a, const union any_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family ||
	    a->in4.sin_port != b->in4.sin_port)
		return false;
	return a->sa.sa_family == AF_INET
		       ? a->in4.sin_addr.s_addr == b->in4.sin_addr.s_addr
		       : !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, 16);
}

/* `to` gets what `from` sends, of that size, with its name. */
static void deliver(int from, const union any_addr *from_name, int to,
		    const union any_addr *to_name, size_t size)
{
	union any_addr src;
	socklen_t len;
	ssize_t n;

	for (int i = 0; i < TRIES; i++) {
		MUST(rsendto(from, sent, size, 0, &to_name->sa, at_len) ==
		     (ssize_t)size);
		while (poll_one(to, POLLIN, 200) & POLLIN) {
			len = sizeof(src);
			n = rrecvfrom(to, got, sizeof(got), MSG_DONTWAIT,
				      &src.sa, &len);
			MUST(n >= 0 && len == at_len && same(&src, from_name));
			if ((size_t)n == size && !memcmp(got, sent, size))
				return;
		}
	}
	MUST(false); /* nothing came */
}

/* First by UDP, then by the adapter; those too long for it by UDP again. */
static void every_size(void)
{
	static const size_t sizes[] = { 0,    1,    8,	  63,	64,   1000,
					1015, 1016, 1017, 1024, 1500, MOST };
	union any_addr a, b;
	int fa = bound(&a), fb = bound(&b);

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			deliver(fa, &a, fb, &b, sizes[i]);
			deliver(fb, &b, fa, &a, sizes[i]);
		}
		usleep(20000);
	}
	MUST_ERR(rsendto(fa, sent, 2049, 0, &b.sa, at_len), EMSGSIZE);
	MUST(rclose(fa) == 0);
	MUST(rclose(fb) == 0);
}

static void pieces(void)
{
	union any_addr a, b;
	int fa = bound(&a), fb = bound(&b);

	for (int i = 0; i < 3; i++) {
		deliver(fa, &a, fb, &b, 100);
		usleep(20000);
	}
	/* Peeked at, and cut off. */
	MUST(rsendto(fa, sent, 100, 0, &b.sa, at_len) == 100);
	MUST(poll_one(fb, POLLIN, 5000) & POLLIN);
	MUST(rrecv(fb, got, 10, MSG_PEEK) == 10);
	MUST(rrecv(fb, got, 10, MSG_PEEK | MSG_TRUNC) == 100);
	MUST(rrecv(fb, got, 10, 0) == 10);
	MUST_ERR(rrecv(fb, got, 10, MSG_DONTWAIT), EAGAIN);
	MUST_ERR(rsend(fa, sent, 1, 0), EDESTADDRREQ);
	MUST(rclose(fa) == 0);
	MUST(rclose(fb) == 0);
}

/* A connected one receives from its peer, and from no other. */
static void connected(void)
{
	union any_addr a, b, c, name;
	int fa = bound(&a), fb = bound(&b), fc = bound(&c);
	socklen_t len = sizeof(name);

	deliver(fc, &c, fa, &a, 9);
	deliver(fa, &a, fc, &c, 9);
	deliver(fc, &c, fa, &a, 9);
	MUST(rconnect(fa, &b.sa, at_len) == 0);
	MUST(rgetpeername(fa, &name.sa, &len) == 0 && same(&name, &b));
	while (rrecv(fa, got, sizeof(got), MSG_DONTWAIT) >= 0)
		;
	for (int i = 0; i < 5; i++) {
		MUST(rsendto(fc, sent, 7, 0, &a.sa, at_len) == 7);
		MUST(rsend(fa, sent, 5, 0) == 5);
		deliver(fb, &b, fa, &a, 11);
	}
	while (rrecv(fa, got, sizeof(got), MSG_DONTWAIT) >= 0)
		MUST(got[0] == sent[0]);
	MUST(poll_one(fa, POLLIN, 100) == 0);
	MUST(rshutdown(fa, SHUT_RD) == 0);
	MUST(rrecv(fa, got, 1, 0) == 0);
	MUST(rclose(fa) == 0);
	MUST(rclose(fb) == 0);
	MUST(rclose(fc) == 0);
}

static void nobody(void)
{
	union any_addr a;
	int fd = bound(&a), n;

	MUST(rclose(fd) == 0);
	fd = rsocket(at.sa.sa_family, SOCK_DGRAM, 0);
	MUST(rconnect(fd, &a.sa, at_len) == 0);
	MUST(rsend(fd, sent, 1, 0) == 1);
	MUST(poll_one(fd, POLLIN, 5000) & POLLERR);
	n = (int)rrecv(fd, got, 1, MSG_DONTWAIT);
	MUST(n == -1 && errno == ECONNREFUSED);
	MUST_ERR(rlisten(fd, 1), EOPNOTSUPP);
	MUST_ERR(raccept(fd, NULL, NULL), EOPNOTSUPP);
	MUST(get_int(fd, SOL_SOCKET, SO_TYPE) == SOCK_DGRAM);
	MUST(rclose(fd) == 0);
}

/* Many at once: some are lost, none comes changed. */
static void flood(void)
{
	union any_addr a, b;
	int fa = bound(&a), fb = bound(&b), count = 0;

	for (int i = 0; i < 3; i++) {
		deliver(fa, &a, fb, &b, 500);
		usleep(20000);
	}
	for (int i = 0; i < 5000; i++)
		MUST(rsendto(fa, sent, 500, 0, &b.sa, at_len) == 500);
	while (poll_one(fb, POLLIN, 200) & POLLIN) {
		MUST(rrecv(fb, got, sizeof(got), MSG_DONTWAIT) == 500);
		MUST(!memcmp(got, sent, 500));
		count++;
	}
	MUST(count > 0 && count <= 5000);
	MUST(rclose(fa) == 0);
	MUST(rclose(fb) == 0);
}

/* Each from another port; what is kept of peers has an end. */
static void many_peers(void)
{
	union any_addr a, b;
	int fa = bound(&a), fb;

	for (int i = 0; i < 30; i++) {
		fb = bound(&b);
		deliver(fb, &b, fa, &a, 33);
		deliver(fa, &a, fb, &b, 33);
		MUST(rclose(fb) == 0);
	}
	MUST(rclose(fa) == 0);
}

int main(int argc, char **argv)
{
	bool v6;

	MUST(argc == 2);
	v6 = strchr(argv[1], ':') != NULL;
	at.sa.sa_family = v6 ? AF_INET6 : AF_INET;
	at_len = v6 ? sizeof(at.in6) : sizeof(at.in4);
	MUST(inet_pton(at.sa.sa_family, argv[1],
		       v6 ? (void *)&at.in6.sin6_addr
			  : (void *)&at.in4.sin_addr) == 1);
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (char)(i * 13 + 1);
	every_size();
	pieces();
	connected();
	nobody();
	flood();
	many_peers();
	puts("all right");
	return 0;
}
