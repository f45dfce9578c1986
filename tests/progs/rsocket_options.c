/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of rsockets: rsocket_options ADDRESS.  0 and "all right". */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "rsocket_pair.h"

static const struct {
	int level;
	int name;
	int usual;
	int value;
} plain[] = {
	{ SOL_SOCKET, SO_KEEPALIVE, 0, 1 },
	{ SOL_SOCKET, SO_REUSEADDR, 0, 1 },
	{ SOL_SOCKET, SO_OOBINLINE, 0, 1 },
	{ SOL_SOCKET, SO_RCVLOWAT, 1, 4 },
	{ IPPROTO_TCP, TCP_NODELAY, 0, 1 },
	{ IPPROTO_TCP, TCP_CORK, 0, 1 },
	{ IPPROTO_TCP, TCP_KEEPIDLE, 7200, 30 },
	{ IPPROTO_TCP, TCP_KEEPINTVL, 75, 5 },
	{ IPPROTO_TCP, TCP_KEEPCNT, 9, 3 },
	{ IPPROTO_TCP, TCP_USER_TIMEOUT, 0, 7000 },
	{ IPPROTO_TCP, TCP_QUICKACK, 1, 0 },
	{ IPPROTO_IP, IP_TOS, 0, 0x20 },
	{ IPPROTO_IP, IP_TTL, 64, 32 },
	{ IPPROTO_IPV6, IPV6_V6ONLY, 0, 1 },
	{ IPPROTO_IPV6, IPV6_TCLASS, 0, 0x40 },
	{ IPPROTO_IPV6, IPV6_UNICAST_HOPS, 64, 9 },
};

static int fresh(void)
{
	int fd = rsocket(at.sa.sa_family, SOCK_STREAM, 0);

	MUST(fd >= 0);
	return fd;
}

static void read_back(void)
{
	int fd = fresh();

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		if (plain[i].level == IPPROTO_IPV6 &&
		    at.sa.sa_family != AF_INET6)
			continue;
		if (plain[i].name != TCP_KEEPIDLE)
			MUST(get_int(fd, plain[i].level, plain[i].name) ==
			     plain[i].usual);
		set_int(fd, plain[i].level, plain[i].name, plain[i].value);
		MUST(get_int(fd, plain[i].level, plain[i].name) ==
		     plain[i].value);
	}
	MUST(rclose(fd) == 0);
}

static void what_it_is(void)
{
	int fd = fresh();

	MUST(get_int(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	MUST(get_int(fd, SOL_SOCKET, SO_DOMAIN) == at.sa.sa_family);
	MUST(get_int(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP);
	MUST(get_int(fd, SOL_SOCKET, SO_ERROR) == 0);
	MUST(get_int(fd, SOL_SOCKET, SO_ACCEPTCONN) == 0);
	MUST(get_int(lfd, SOL_SOCKET, SO_ACCEPTCONN) == 1);
	MUST(rclose(fd) == 0);
}

static void refused_options(void)
{
	int fd = fresh(), one = 1, rc;
	socklen_t len = 1;

	rc = rsetsockopt(fd, SOL_SOCKET, 9999, &one, sizeof(one));
	MUST(rc == -1 && errno == ENOPROTOOPT);
	rc = rsetsockopt(fd, IPPROTO_TCP, 9999, &one, sizeof(one));
	MUST(rc == -1 && errno == ENOPROTOOPT);
	rc = rsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, 1);
	MUST(rc == -1 && errno == EINVAL);
	rc = rgetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, &len);
	MUST(rc == -1 && errno == EINVAL);
	one = 0;
	rc = rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof(one));
	MUST(rc == -1 && errno == EINVAL);
	MUST(rclose(fd) == 0);
}

/* Doubled as by the kernel, and fixed once they exist. */
static void buffers(void)
{
	int fd[2], size;

	make_pair(fd);
	size = get_int(fd[0], SOL_SOCKET, SO_RCVBUF);
	set_int(fd[0], SOL_SOCKET, SO_RCVBUF, 1 << 20);
	MUST(get_int(fd[0], SOL_SOCKET, SO_RCVBUF) == size);
	close_pair(fd);
	fd[0] = fresh();
	set_int(fd[0], SOL_SOCKET, SO_SNDBUF, 50000);
	MUST(get_int(fd[0], SOL_SOCKET, SO_SNDBUF) == 100000);
	set_int(fd[0], SOL_RDMA, RDMA_SQSIZE, 100);
	MUST(get_int(fd[0], SOL_RDMA, RDMA_SQSIZE) == 100);
	set_int(fd[0], SOL_RDMA, RDMA_INLINE, 0);
	MUST(rconnect(fd[0], &at.sa, at_len) == 0);
	fd[1] = raccept(lfd, NULL, NULL);
	MUST(get_int(fd[0], SOL_RDMA, RDMA_SQSIZE) == 100);
	close_pair(fd);
}

/* Children of a listener have what it has. */
static void inherited(void)
{
	int fd[2];

	set_int(lfd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(lfd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
	set_int(lfd, IPPROTO_TCP, TCP_NODELAY, 1);
	make_pair(fd);
	MUST(get_int(fd[1], SOL_SOCKET, SO_KEEPALIVE) == 1);
	MUST(get_int(fd[1], IPPROTO_TCP, TCP_KEEPIDLE) == 1);
	MUST(get_int(fd[1], IPPROTO_TCP, TCP_NODELAY) == 1);
	MUST(get_int(fd[0], SOL_SOCKET, SO_KEEPALIVE) == 0);
	/* Keepalives are sent, and are no news. */
	MUST(poll_one(fd[0], POLLIN, 2300) == 0);
	MUST(poll_one(fd[1], POLLIN, 0) == 0);
	send_all(fd[1], "still", 5);
	MUST(poll_one(fd[0], POLLIN, 5000) == POLLIN);
	close_pair(fd);
	set_int(lfd, SOL_SOCKET, SO_KEEPALIVE, 0);
}

static void timeouts(void)
{
	struct timeval tv = { .tv_usec = 50000 }, got;
	socklen_t len = sizeof(got);
	static char big[1 << 20];
	int fd[2], n;
	char b;

	make_pair(fd);
	MUST(!rsetsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	MUST(!rgetsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &got, &len));
	MUST(len == sizeof(got) && got.tv_sec == 0 && got.tv_usec == 50000);
	MUST_ERR(rrecv(fd[0], &b, 1, 0), EAGAIN);
	MUST(!rsetsockopt(fd[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	n = (int)rsend(fd[0], big, sizeof(big), 0);
	MUST(n > 0 && n < (int)sizeof(big));
	MUST_ERR(rsend(fd[0], big, sizeof(big), 0), EAGAIN);
	tv.tv_usec = 1000000;
	n = rsetsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	MUST(n == -1 && errno == EDOM);
	close_pair(fd);
}

/* With no time to linger the peer is told of no orderly end. */
static void linger(void)
{
	struct linger l = { 1, 0 }, got = { 0, 0 };
	socklen_t len = sizeof(got);
	int fd[2];
	char b;

	make_pair(fd);
	MUST(!rgetsockopt(fd[0], SOL_SOCKET, SO_LINGER, &got, &len));
	MUST(!got.l_onoff);
	MUST(!rsetsockopt(fd[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	MUST(!rgetsockopt(fd[0], SOL_SOCKET, SO_LINGER, &got, &len));
	MUST(got.l_onoff && got.l_linger == 0);
	MUST(rclose(fd[0]) == 0);
	MUST_ERR(rrecv(fd[1], &b, 1, 0), ECONNRESET);
	MUST(rrecv(fd[1], &b, 1, 0) == 0);
	MUST(rclose(fd[1]) == 0);

	make_pair(fd);
	l.l_linger = 5;
	MUST(!rsetsockopt(fd[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	send_all(fd[0], "x", 1);
	MUST(rclose(fd[0]) == 0);
	MUST(rrecv(fd[1], &b, 1, 0) == 1 && b == 'x');
	MUST(rrecv(fd[1], &b, 1, 0) == 0);
	MUST(rclose(fd[1]) == 0);
}

static void tcp_info(void)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	int fd[2];

	make_pair(fd);
	MUST(!rgetsockopt(fd[0], IPPROTO_TCP, TCP_INFO, &info, &len));
	MUST(info.tcpi_state == TCP_ESTABLISHED && info.tcpi_snd_mss > 0);
	MUST(get_int(fd[0], IPPROTO_TCP, TCP_MAXSEG) == (int)info.tcpi_snd_mss);
	close_pair(fd);
}

int main(int argc, char **argv)
{
	MUST(argc == 2);
	listen_somewhere(argv[1]);
	read_back();
	what_it_is();
	refused_options();
	buffers();
	inherited();
	timeouts();
	linger();
	tcp_info();
	MUST(rclose(lfd) == 0);
	puts("all right");
	return 0;
}
