/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How connections of rsockets begin and end: rsocket_ends ADDRESS.
 * 0 and "all right".
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rsocket_pair.h"

enum { ALL = POLLIN | POLLOUT | POLLRDHUP };

static void one_half_then_the_other(void)
{
	int fd[2];
	char b[8];

	make_pair(fd);
	send_all(fd[0], "last", 4);
	MUST(rshutdown(fd[0], SHUT_WR) == 0);
	MUST_ERR(rsend(fd[0], "x", 1, 0), EPIPE);
	MUST(!(poll_one(fd[0], POLLIN, 50) & POLLIN));
	recv_all(fd[1], b, 4);
	MUST(rrecv(fd[1], b, 1, 0) == 0);
	MUST(rrecv(fd[1], b, 1, MSG_DONTWAIT) == 0);
	MUST(poll_one(fd[1], ALL, 0) == (POLLIN | POLLOUT | POLLRDHUP));
	send_all(fd[1], "more", 4);
	recv_all(fd[0], b, 4);
	MUST(rshutdown(fd[1], SHUT_WR) == 0);
	MUST(rrecv(fd[0], b, 1, 0) == 0);
	MUST(poll_one(fd[0], ALL, 5000) & POLLHUP);
	MUST_ERR(rsend(fd[1], "x", 1, 0), EPIPE);
	close_pair(fd);
}

static void reading_half(void)
{
	int fd[2];
	char b;

	make_pair(fd);
	MUST(rshutdown(fd[0], SHUT_RD) == 0);
	MUST(rrecv(fd[0], &b, 1, 0) == 0);
	MUST(poll_one(fd[0], POLLIN, 0) & POLLIN);
	send_all(fd[0], "x", 1);
	recv_all(fd[1], &b, 1);
	close_pair(fd);
}

static void both_halves(void)
{
	int fd[2];
	char b[8];

	make_pair(fd);
	send_all(fd[0], "end", 3);
	MUST(rshutdown(fd[0], SHUT_RDWR) == 0);
	MUST_ERR(rsend(fd[0], "x", 1, 0), EPIPE);
	MUST(rrecv(fd[0], b, 1, 0) == 0);
	recv_all(fd[1], b, 3);
	MUST(rrecv(fd[1], b, 1, 0) == 0);
	MUST_ERR(rsend(fd[1], "x", 1, 0), EPIPE);
	MUST(rshutdown(fd[1], SHUT_RDWR) == 0);
	close_pair(fd);
	fd[0] = rsocket(at.sa.sa_family, SOCK_STREAM, 0);
	MUST_ERR(rshutdown(fd[0], SHUT_RDWR), ENOTCONN);
	MUST_ERR(rshutdown(fd[0], 77), EINVAL);
	MUST(rclose(fd[0]) == 0);
}

static void *close_later(void *arg)
{
	usleep(60000);
	MUST(rclose(*(int *)arg) == 0);
	return NULL;
}

/* A thread that sleeps in a call wakes when either side ends. */
static void sleepers(void)
{
	struct pollfd p = { .events = POLLIN | POLLRDHUP };
	pthread_t t;
	int fd[2];
	char b;

	make_pair(fd);
	MUST(!pthread_create(&t, NULL, close_later, &fd[1]));
	MUST(rrecv(fd[0], &b, 1, 0) == 0);
	MUST(!pthread_join(t, NULL));
	MUST(rclose(fd[0]) == 0);

	make_pair(fd);
	MUST(!pthread_create(&t, NULL, close_later, &fd[1]));
	p.fd = fd[0];
	MUST(rpoll(&p, 1, -1) == 1 && p.revents & POLLRDHUP);
	MUST(!pthread_join(t, NULL));
	MUST(rclose(fd[0]) == 0);

	make_pair(fd);
	MUST(!pthread_create(&t, NULL, close_later, &fd[0]));
	MUST(rrecv(fd[0], &b, 1, 0) <= 0); /* the end, or EBADF */
	MUST(!pthread_join(t, NULL));
	MUST(rclose(fd[1]) == 0);
}

/* Urgent data comes in line, and never out of band. */
static void urgent(void)
{
	int fd[2];
	char b[8];

	make_pair(fd);
	MUST(rsend(fd[0], "ab", 2, 0) == 2);
	MUST(rsend(fd[0], "!", 1, MSG_OOB) == 1);
	MUST(rsend(fd[0], "cd", 2, 0) == 2);
	MUST_ERR(rrecv(fd[1], b, 1, MSG_OOB), EINVAL);
	recv_all(fd[1], b, 5);
	MUST(!memcmp(b, "ab!cd", 5));
	MUST(!(poll_one(fd[1], POLLPRI, 0) & POLLPRI));
	close_pair(fd);
}

static void peeking(void)
{
	int fd[2];
	char b[8];

	make_pair(fd);
	send_all(fd[0], "abcd", 4);
	MUST(poll_one(fd[1], POLLIN, 5000) == POLLIN);
	MUST(rrecv(fd[1], b, 2, MSG_PEEK) == 2 && !memcmp(b, "ab", 2));
	MUST(rrecv(fd[1], b, 8, MSG_PEEK) == 4 && !memcmp(b, "abcd", 4));
	MUST(rrecv(fd[1], b, 8, 0) == 4);
	MUST_ERR(rrecv(fd[1], b, 8, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
	close_pair(fd);
}

static int open_nonblock(void)
{
	int fd = rsocket(at.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int rc = rconnect(fd, &at.sa, at_len);

	MUST(fd >= 0 && (rc == 0 || errno == EINPROGRESS));
	return fd;
}

/* Each way in which programs wait for a connection. */
static void connect_in_every_order(void)
{
	int fd[2], rc;

	/* The usual one. */
	fd[0] = open_nonblock();
	MUST(poll_one(fd[0], POLLOUT, 10000) == POLLOUT);
	MUST(get_int(fd[0], SOL_SOCKET, SO_ERROR) == 0);
	MUST_ERR(rconnect(fd[0], &at.sa, at_len), EISCONN);
	MUST((fd[1] = raccept(lfd, NULL, NULL)) >= 0);
	close_pair(fd);

	/* Accepted before the other side looks at all. */
	fd[0] = open_nonblock();
	MUST((fd[1] = raccept(lfd, NULL, NULL)) >= 0);
	send_all(fd[1], "x", 1);
	MUST(poll_one(fd[0], POLLIN, 10000) == POLLIN);
	MUST(poll_one(fd[0], POLLOUT, 0) == POLLOUT);
	close_pair(fd);

	/* Asking again and again. */
	fd[0] = open_nonblock();
	while (rconnect(fd[0], &at.sa, at_len) && errno != EISCONN)
		MUST(errno == EALREADY || errno == EINPROGRESS);
	MUST((fd[1] = raccept(lfd, NULL, NULL)) >= 0);
	close_pair(fd);

	/* Just trying to write. */
	fd[0] = open_nonblock();
	while ((rc = (int)rsend(fd[0], "y", 1, 0)) != 1)
		MUST(rc == -1 && errno == EAGAIN);
	MUST((fd[1] = raccept(lfd, NULL, NULL)) >= 0);
	close_pair(fd);

	/* Blocking after all. */
	fd[0] = open_nonblock();
	MUST(rfcntl(fd[0], F_SETFL, 0) == 0);
	MUST(rsend(fd[0], "z", 1, 0) == 1);
	MUST((fd[1] = raccept(lfd, NULL, NULL)) >= 0);
	close_pair(fd);

	/* Not waiting for it at all. */
	fd[0] = open_nonblock();
	MUST(rclose(fd[0]) == 0);
	while (poll_one(lfd, POLLIN, 300) & POLLIN) {
		MUST((fd[1] = raccept(lfd, NULL, NULL)) >= 0);
		MUST(rclose(fd[1]) == 0);
	}
}

static void nobody_there(union any_addr *nobody)
{
	int tmp = rsocket(at.sa.sa_family, SOCK_STREAM, 0);
	socklen_t len = sizeof(*nobody);

	*nobody = at;
	nobody->in4.sin_port = 0; /* in the same place of both families */
	MUST(rbind(tmp, &nobody->sa, at_len) == 0);
	MUST(rgetsockname(tmp, &nobody->sa, &len) == 0);
	MUST(rclose(tmp) == 0);
}

static void refused(void)
{
	union any_addr nobody;
	short events;
	int fd, rc;

	nobody_there(&nobody);
	fd = rsocket(at.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	rc = rconnect(fd, &nobody.sa, at_len);
	MUST(rc == -1 && (errno == EINPROGRESS || errno == ECONNREFUSED));
	if (errno == EINPROGRESS) {
		events = poll_one(fd, POLLOUT, 10000);
		MUST(events & POLLERR && events & POLLHUP);
		MUST(get_int(fd, SOL_SOCKET, SO_ERROR) == ECONNREFUSED);
	}
	MUST(get_int(fd, SOL_SOCKET, SO_ERROR) == 0);
	/* The same one may try again, there and elsewhere. */
	MUST(rfcntl(fd, F_SETFL, 0) == 0);
	MUST_ERR(rconnect(fd, &nobody.sa, at_len), ECONNREFUSED);
	MUST(rconnect(fd, &at.sa, at_len) == 0);
	rc = raccept(lfd, NULL, NULL);
	MUST(rc >= 0 && rclose(rc) == 0);
	MUST(rclose(fd) == 0);
}

static void mixed_poll(void)
{
	struct pollfd p[6] = { 0 };
	int fd[2], pipes[2];

	make_pair(fd);
	MUST(pipe(pipes) == 0);
	p[0] = (struct pollfd){ .fd = -1, .events = POLLIN, .revents = 7 };
	p[1] = (struct pollfd){ .fd = fd[0], .events = POLLIN };
	p[2] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	p[3] = (struct pollfd){ .fd = fd[1], .events = POLLIN };
	p[4] = (struct pollfd){ .fd = lfd, .events = POLLIN };
	p[5] = (struct pollfd){ .fd = fd[1], .events = 0 };
	MUST(rpoll(p, 6, 30) == 0 && p[0].revents == 0);
	MUST(write(pipes[1], "x", 1) == 1);
	send_all(fd[0], "y", 1);
	MUST(poll_one(fd[1], POLLIN, 5000) == POLLIN);
	MUST(rpoll(p, 6, 0) == 2);
	MUST(p[2].revents == POLLIN && p[3].revents == POLLIN);
	MUST(!p[0].revents && !p[1].revents && !p[4].revents && !p[5].revents);
	p[0].fd = 900; /* nothing at all */
	MUST(rpoll(p, 6, 0) == 3 && p[0].revents == POLLNVAL);
	close(pipes[1]);
	p[0].fd = -1;
	MUST(rpoll(p, 6, 0) == 2 && p[2].revents & POLLHUP);
	close(pipes[0]);
	close_pair(fd);
	MUST(rpoll(NULL, 0, 20) == 0);
}

static void selecting(void)
{
	struct timeval tv = { .tv_usec = 30000 }, now = { 0, 0 };
	fd_set r, w, x;
	int fd[2];

	make_pair(fd);
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&x);
	FD_SET(fd[1], &r);
	MUST(rselect(FD_SETSIZE, &r, NULL, NULL, &tv) == 0);
	MUST(!FD_ISSET(fd[1], &r));
	send_all(fd[0], "y", 1);
	MUST(poll_one(fd[1], POLLIN, 5000) == POLLIN);
	FD_SET(fd[1], &r);
	FD_SET(fd[1], &w);
	FD_SET(fd[1], &x);
	FD_SET(fd[0], &r);
	MUST(rselect(FD_SETSIZE, &r, &w, &x, &now) == 2);
	MUST(FD_ISSET(fd[1], &r) && FD_ISSET(fd[1], &w));
	MUST(!FD_ISSET(fd[1], &x) && !FD_ISSET(fd[0], &r));
	MUST(rclose(fd[0]) == 0);
	FD_ZERO(&r);
	FD_SET(fd[1], &r);
	MUST(rselect(fd[1] + 1, &r, NULL, NULL, NULL) == 1);
	MUST(rclose(fd[1]) == 0);
	FD_SET(900, &r);
	MUST_ERR(rselect(FD_SETSIZE, &r, NULL, NULL, &now), EBADF);
	MUST_ERR(rselect(FD_SETSIZE + 1, &r, NULL, NULL, &now), EINVAL);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

static void interrupted(void)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	int fd[2];
	char b;

	make_pair(fd);
	sigaction(SIGALRM, &sa, NULL);
	ualarm(30000, 0);
	MUST_ERR(rrecv(fd[0], &b, 1, 0), EINTR);
	ualarm(30000, 0);
	MUST(rpoll(&(struct pollfd){ .fd = fd[0], .events = POLLIN }, 1,
		   10000) == -1 &&
	     errno == EINTR);
	ualarm(30000, 0);
	MUST_ERR(raccept(lfd, NULL, NULL), EINTR);
	MUST(alarms == 3);
	close_pair(fd);
}

int main(int argc, char **argv)
{
	MUST(argc == 2);
	listen_somewhere(argv[1]);
	one_half_then_the_other();
	reading_half();
	both_halves();
	sleepers();
	urgent();
	peeking();
	connect_in_every_order();
	refused();
	mixed_poll();
	selecting();
	interrupted();
	MUST(rclose(lfd) == 0);
	puts("all right");
	return 0;
}
