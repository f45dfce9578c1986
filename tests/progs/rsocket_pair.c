/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

union any_addr at;
socklen_t at_len;
int lfd;

void must(bool ok, const char *file, int line, const char *text)
{
	if (ok)
		return;
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, text, strerror(errno));
	exit(1);
}

void listen_somewhere(const char *address)
{
	bool v6 = strchr(address, ':') != NULL;

	memset(&at, 0, sizeof(at));
	at.sa.sa_family = v6 ? AF_INET6 : AF_INET;
	at_len = v6 ? sizeof(at.in6) : sizeof(at.in4);
	MUST(inet_pton(at.sa.sa_family, address,
		       v6 ? (void *)&at.in6.sin6_addr
			  : (void *)&at.in4.sin_addr) == 1);
	lfd = rsocket(at.sa.sa_family, SOCK_STREAM, 0);
	MUST(lfd >= 0);
	MUST(rbind(lfd, &at.sa, at_len) == 0);
	MUST(rlisten(lfd, 8) == 0);
	MUST(rgetsockname(lfd, &at.sa, &at_len) == 0);
	MUST(at.in4.sin_port != 0);
}

void make_pair(int fd[2])
{
	union any_addr peer;
	socklen_t len = sizeof(peer);

	fd[0] = rsocket(at.sa.sa_family, SOCK_STREAM, 0);
	MUST(fd[0] >= 0);
	MUST(rconnect(fd[0], &at.sa, at_len) == 0);
	fd[1] = raccept(lfd, &peer.sa, &len);
	MUST(fd[1] >= 0);
	MUST(len == at_len && peer.in4.sin_port != 0);
}

void close_pair(int fd[2])
{
	MUST(rclose(fd[0]) == 0);
	MUST(rclose(fd[1]) == 0);
	MUST_ERR(rclose(fd[1]), EBADF);
}

void set_int(int fd, int level, int name, int value)
{
	MUST(rsetsockopt(fd, level, name, &value, sizeof(value)) == 0);
}

int get_int(int fd, int level, int name)
{
	int value = -12345;
	socklen_t len = sizeof(value);

	MUST(rgetsockopt(fd, level, name, &value, &len) == 0);
	MUST(len == sizeof(value));
	return value;
}

void send_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;
	ssize_t n;

	for (; len; len -= (size_t)n, p += n) {
		n = rsend(fd, p, len, 0);
		MUST(n > 0);
	}
}

void recv_all(int fd, void *buf, size_t len)
{
	char *p = buf;
	ssize_t n;

	for (; len; len -= (size_t)n, p += n) {
		n = rrecv(fd, p, len, 0);
		MUST(n > 0);
	}
}

short poll_one(int fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n = rpoll(&p, 1, timeout_ms);

	MUST(n == (p.revents != 0));
	return p.revents;
}
