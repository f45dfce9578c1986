/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs expect of sockets, on rsockets, within one process and mostly
 * one thread: rsocket_rules ADDRESS.  Ends with 0 and "all right".
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rsocket_pair.h"

static void data_and_end(void)
{
	char one[] = "one ", two[] = "two";
	struct iovec v[3] = { { one, 4 }, { one, 0 }, { two, 3 } };
	struct iovec r[2];
	char a[3], b[16];
	int fd[2];

	make_pair(fd);
	MUST(rrecv(fd[1], b, sizeof(b), MSG_DONTWAIT) == -1 && errno == EAGAIN);
	MUST(rwritev(fd[0], v, 3) == 7);
	MUST(rrecv(fd[1], b, 7, MSG_PEEK | MSG_WAITALL) > 0);
	r[0] = (struct iovec){ a, 3 };
	r[1] = (struct iovec){ b, sizeof(b) };
	MUST(rreadv(fd[1], r, 2) == 7);
	MUST(!memcmp(a, "one", 3) && !memcmp(b, " two", 4));
	MUST(rshutdown(fd[0], SHUT_WR) == 0);
	MUST(rsend(fd[0], "x", 1, 0) == -1 && errno == EPIPE);
	MUST(rread(fd[1], b, 1) == 0);
	/* The other direction goes on. */
	MUST(rsend(fd[1], "back", 4, 0) == 4);
	MUST(rrecv(fd[0], b, 4, MSG_WAITALL) == 4);
	MUST(rclose(fd[1]) == 0);
	MUST(rread(fd[0], b, 1) == 0);
	MUST(rclose(fd[0]) == 0);
}

static void *feed(void *arg)
{
	usleep(50000);
	MUST(rwrite(*(int *)arg, "late", 4) == 4);
	return NULL;
}

static void waiting(void)
{
	struct pollfd p[2];
	struct timeval tv = { .tv_sec = 5 };
	int fd[2], pipe_fd[2];
	pthread_t t;
	fd_set set;
	char b[8];

	make_pair(fd);
	MUST(pipe(pipe_fd) == 0);
	p[0] = (struct pollfd){ .fd = fd[1], .events = POLLIN };
	p[1] = (struct pollfd){ .fd = pipe_fd[0], .events = POLLIN };
	MUST(rpoll(p, 2, 20) == 0);
	MUST(write(pipe_fd[1], "x", 1) == 1);
	MUST(rpoll(p, 2, -1) == 1 && p[1].revents == POLLIN && !p[0].revents);
	MUST(read(pipe_fd[0], b, 1) == 1);
	MUST(pthread_create(&t, NULL, feed, &fd[0]) == 0);
	MUST(rpoll(p, 2, 5000) == 1 && p[0].revents == POLLIN);
	MUST(pthread_join(t, NULL) == 0);
	MUST(rread(fd[1], b, 8) == 4);
	MUST(pthread_create(&t, NULL, feed, &fd[0]) == 0);
	FD_ZERO(&set);
	FD_SET(fd[1], &set);
	FD_SET(pipe_fd[0], &set);
	MUST(rselect(1024, &set, NULL, NULL, &tv) == 1);
	MUST(FD_ISSET(fd[1], &set) && !FD_ISSET(pipe_fd[0], &set));
	MUST(pthread_join(t, NULL) == 0);
	p[0].events = POLLOUT;
	MUST(rpoll(p, 1, 0) == 1 && p[0].revents == POLLOUT);
	close_pair(fd);
	close(pipe_fd[0]);
	close(pipe_fd[1]);
}

static void without_blocking(void)
{
	static char big[1 << 20];
	struct pollfd p;
	socklen_t len = sizeof(int);
	size_t sent = 0, got = 0;
	ssize_t n;
	int fd[2], error = -1;

	fd[0] = rsocket(AF_INET, SOCK_STREAM, 0);
	MUST(rfcntl(fd[0], F_SETFL, O_NONBLOCK) == 0);
	MUST(rfcntl(fd[0], F_GETFL) & O_NONBLOCK);
	n = rconnect(fd[0], &at.sa, at_len);
	MUST(n == 0 || errno == EINPROGRESS);
	p = (struct pollfd){ .fd = fd[0], .events = POLLOUT };
	MUST(rpoll(&p, 1, 10000) == 1 && p.revents == POLLOUT);
	MUST(rgetsockopt(fd[0], SOL_SOCKET, SO_ERROR, &error, &len) == 0);
	MUST(error == 0);
	fd[1] = raccept(lfd, NULL, NULL);
	MUST(fd[1] >= 0);
	while ((n = rsend(fd[0], big, sizeof(big), 0)) > 0)
		sent += (size_t)n;
	MUST(n == -1 && errno == EAGAIN && sent > 0);
	p.events = POLLOUT;
	MUST(rpoll(&p, 1, 0) == 0);
	while (got < sent) {
		n = rread(fd[1], big, sizeof(big));
		MUST(n > 0);
		got += (size_t)n;
	}
	MUST(rpoll(&p, 1, 10000) == 1 && p.revents == POLLOUT);
	close_pair(fd);
}

static void refused(void)
{
	struct sockaddr_in nobody = at.in4;
	socklen_t len = sizeof(nobody);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	int tmp = rsocket(AF_INET, SOCK_STREAM, 0);
	struct timeval tv = { .tv_usec = 30000 };
	char b;

	nobody.sin_port = 0;
	MUST(rbind(tmp, (struct sockaddr *)&nobody, sizeof(nobody)) == 0);
	MUST(rgetsockname(tmp, (struct sockaddr *)&nobody, &len) == 0);
	MUST(rclose(tmp) == 0);
	MUST(rread(fd, &b, 1) == -1 && errno == ENOTCONN);
	MUST(rgetpeername(fd, (struct sockaddr *)&nobody, &len) == -1);
	MUST(errno == ENOTCONN);
	MUST(rconnect(fd, (struct sockaddr *)&nobody, sizeof(nobody)) == -1);
	MUST(errno == ECONNREFUSED);
	MUST(rclose(fd) == 0);
	MUST(rsetsockopt(lfd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0);
	MUST(raccept(lfd, NULL, NULL) == -1 && errno == EAGAIN);
	tv.tv_usec = 0;
	MUST(rsetsockopt(lfd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0);
	MUST(rsocket(AF_UNIX, SOCK_STREAM, 0) == -1 && errno == ENOTSUP);
	MUST(rread(12345, &b, 1) == -1 && errno == EBADF);
}

/* Two threads, one direction each, on the same rsockets. */
enum { PUMPED = 20000000 };

static void *pump(void *arg)
{
	static char from[65536];
	size_t left = PUMPED;
	ssize_t n;

	while (left) {
		n = rwrite(*(int *)arg, from,
			   left < sizeof(from) ? left : sizeof(from));
		MUST(n > 0);
		left -= (size_t)n;
	}
	return NULL;
}

static void *drain(void *arg)
{
	char to[40000];
	size_t left = PUMPED;
	ssize_t n;

	while (left) {
		n = rread(*(int *)arg, to, sizeof(to));
		MUST(n > 0);
		left -= (size_t)n;
	}
	return NULL;
}

static void both_ways(void)
{
	pthread_t t[4];
	int fd[2];

	make_pair(fd);
	MUST(!pthread_create(&t[0], NULL, pump, &fd[0]));
	MUST(!pthread_create(&t[1], NULL, pump, &fd[1]));
	MUST(!pthread_create(&t[2], NULL, drain, &fd[0]));
	MUST(!pthread_create(&t[3], NULL, drain, &fd[1]));
	for (int i = 0; i < 4; i++)
		MUST(!pthread_join(t[i], NULL));
	close_pair(fd);
}

int main(int argc, char **argv)
{
	MUST(argc == 2);
	listen_somewhere(argv[1]);
	data_and_end();
	waiting();
	without_blocking();
	refused();
	both_ways();
	MUST(rclose(lfd) == 0);
	puts("all right");
	return 0;
}
