/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that knows sockets only, for the preload library: it waits for a
 * connection together with a descriptor that is always ready, so that each wait
 * ends before the connection brings anything.
 *
 *   plain_ready poll|epoll ADDRESS PORT MESSAGES           the server, an echo
 *   plain_ready client ADDRESS PORT MESSAGES
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static void must(bool ok, int line, const char *text)
{
	if (ok)
		return;
	fprintf(stderr, "line %d: %s: %s\n", line, text, strerror(errno));
	_exit(1);
}

#define MUST(cond) must((cond), __LINE__, #cond)

static struct sockaddr_in at;

static int accept_one(void)
{
	int one = 1, fd, listener = socket(AF_INET, SOCK_STREAM, 0);

	MUST(listener >= 0);
	MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one,
			sizeof(one)) == 0);
	MUST(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0);
	MUST(listen(listener, 8) == 0);
	fd = accept(listener, NULL, NULL);
	MUST(fd >= 0);
	close(listener);
	return fd;
}

/* Is there something to read from fd?  ready: it is always. */
static bool look_by_poll(int fd, int ready)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN },
			      { .fd = ready, .events = POLLIN } };

	MUST(poll(p, 2, -1) >= 1);
	MUST(p[1].revents == POLLIN);
	return p[0].revents;
}

static bool look_by_epoll(int set, int fd)
{
	struct epoll_event ev[2];
	int n = epoll_wait(set, ev, 2, -1);
	bool found = false;

	MUST(n >= 1);
	for (int i = 0; i < n; i++)
		found |= ev[i].data.fd == fd;
	return found;
}

static void add(int set, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev) == 0);
}

static void echo(bool by_poll, int messages)
{
	int fd = accept_one(), ready = eventfd(1, EFD_CLOEXEC), set = -1;
	uint64_t message;

	if (!by_poll) {
		set = epoll_create1(EPOLL_CLOEXEC);
		MUST(set >= 0);
		add(set, fd);
		add(set, ready);
	}
	while (messages) {
		if (!(by_poll ? look_by_poll(fd, ready)
			      : look_by_epoll(set, fd)))
			continue;
		MUST(recv(fd, &message, sizeof(message), MSG_WAITALL) ==
		     sizeof(message));
		MUST(send(fd, &message, sizeof(message), 0) == sizeof(message));
		messages--;
	}
	MUST(recv(fd, &message, 1, 0) == 0);
	close(fd);
}

static void ask(int messages)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	MUST(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	for (int i = 0; i < messages; i++) {
		uint64_t message = (uint64_t)i, answer;

		MUST(send(fd, &message, sizeof(message), 0) == sizeof(message));
		MUST(recv(fd, &answer, sizeof(answer), MSG_WAITALL) ==
		     sizeof(answer));
		MUST(answer == message);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	MUST(argc == 5);
	at.sin_family = AF_INET;
	at.sin_port = htons((uint16_t)atoi(argv[3]));
	MUST(inet_pton(AF_INET, argv[2], &at.sin_addr) == 1);
	if (!strcmp(argv[1], "client"))
		ask(atoi(argv[4]));
	else
		echo(!strcmp(argv[1], "poll"), atoi(argv[4]));
	return 0;
}
