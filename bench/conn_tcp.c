/* SPDX-License-Identifier: BSD-2-Clause */
/* conn_rate over the kernel's TCP. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn_rate.h"

#define EVENTS 64

struct call {
	int fd;
	uint64_t begun_ns;
};

static struct sockaddr_in address_of(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port) };

	a.sin_addr = conn_address;
	return a;
}

static int listen_somewhere(struct shared *s)
{
	struct sockaddr_in a = address_of(0);
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) ||
	    listen(fd, CONN_BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)&a, &len))
		die("listen");
	s->port = ntohs(a.sin_port);
	return fd;
}

static void accept_all(int ep, int listener)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

		if (write(fd, "", 1) != 1)
			die("write");
		if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev))
			die("epoll_ctl");
	}
}

static void serve(struct shared *s)
{
	int listener = listen_somewhere(s);
	int ep = watch_all(&listener, 1);
	struct epoll_event ev[EVENTS];

	for (;;) {
		int n = epoll_wait(ep, ev, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			if (ev[i].data.fd == listener)
				accept_all(ep, listener);
			else
				close(ev[i].data.fd);
		}
	}
}

static void begin(struct run *r, int ep, struct call *c, uint16_t port)
{
	struct sockaddr_in a = address_of(port);
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };

	r->begun++;
	c->begun_ns = now_ns();
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0 || (connect(c->fd, (struct sockaddr *)&a, sizeof(a)) &&
			  errno != EINPROGRESS))
		die("connect");
	if (epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev))
		die("epoll_ctl");
}

static void call(struct run *r, uint16_t port)
{
	struct call *calls = calloc(r->at_once, sizeof(*calls));
	struct epoll_event ev[EVENTS];
	int ep = watch_all(NULL, 0);
	char byte;

	if (!calls)
		die("calloc");
	for (unsigned int i = 0; i < r->at_once && r->begun < r->total; i++)
		begin(r, ep, &calls[i], port);
	while (r->ended < r->total) {
		int n = epoll_wait(ep, ev, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			struct call *c = ev[i].data.ptr;

			if (read(c->fd, &byte, 1) != 1)
				die("read");
			run_usable(r, c->begun_ns);
			close(c->fd);
			r->ended++;
			if (r->begun < r->total)
				begin(r, ep, c, port);
		}
	}
	free(calls);
}

const struct conn_side conn_tcp = { serve, call };
