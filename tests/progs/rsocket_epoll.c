/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll with rsockets: rsocket_epoll ADDRESS.  0 and "all right".
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rsocket_pair.h"

/* Older headers do not declare them, nor do older libraries have them. */
static int (*create)(int size);
static int (*ctl)(int epfd, int op, int fd, struct epoll_event *ev);
static int (*wait_for)(int epfd, struct epoll_event *ev, int max, int timeout);

static int set;

static void *symbol(const char *name)
{
	void *p = dlsym(RTLD_DEFAULT, name);

	MUST(p);
	return p;
}

static int change(int op, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.fd = fd };

	return ctl(set, op, fd, &ev);
}

/* The events of fd, which alone may have any, within so many milliseconds. */
static uint32_t events_of(int fd, int timeout)
{
	struct epoll_event ev[4];
	int n = wait_for(set, ev, 4, timeout);

	MUST(n == 0 || (n == 1 && ev[0].data.fd == fd));
	return n ? ev[0].events : 0;
}

static void one_byte(const int fd[2])
{
	char c;

	send_all(fd[1], "x", 1);
	MUST(events_of(fd[0], 5000) == EPOLLIN);
	recv_all(fd[0], &c, 1);
}

/* Programs take a descriptor out for as long as they do not wait for it. */
static void out_and_in(void)
{
	int fd[2];
	char c;

	make_pair(fd);
	MUST(change(EPOLL_CTL_ADD, fd[0], EPOLLIN) == 0);
	MUST_ERR(change(EPOLL_CTL_ADD, fd[0], EPOLLIN), EEXIST);
	for (int i = 0; i < 3; i++) {
		MUST(events_of(fd[0], 0) == 0);
		one_byte(fd);
		MUST(change(EPOLL_CTL_DEL, fd[0], 0) == 0);
		MUST_ERR(change(EPOLL_CTL_DEL, fd[0], 0), ENOENT);
		MUST_ERR(change(EPOLL_CTL_MOD, fd[0], EPOLLIN), ENOENT);
		send_all(fd[1], "x", 1);
		MUST(events_of(fd[0], 20) == 0);
		MUST(change(EPOLL_CTL_ADD, fd[0], EPOLLIN) == 0);
		MUST(events_of(fd[0], 5000) == EPOLLIN);
		recv_all(fd[0], &c, 1);
		MUST(change(EPOLL_CTL_MOD, fd[0], EPOLLIN | EPOLLOUT) == 0);
		MUST(events_of(fd[0], 0) == EPOLLOUT);
		MUST(change(EPOLL_CTL_MOD, fd[0], EPOLLIN) == 0);
	}
	MUST(change(EPOLL_CTL_DEL, fd[0], 0) == 0);
	close_pair(fd);
}

/* Taken out and not polled since: closing ends the connection all the same. */
static void closed_when_out(void)
{
	int fd[2];
	char c;

	make_pair(fd);
	MUST(change(EPOLL_CTL_ADD, fd[0], EPOLLIN) == 0);
	MUST(events_of(fd[0], 0) == 0);
	MUST(change(EPOLL_CTL_DEL, fd[0], 0) == 0);
	MUST(rclose(fd[0]) == 0);
	MUST(rrecv(fd[1], &c, 1, 0) == 0);
	MUST(rclose(fd[1]) == 0);
	MUST(events_of(-1, 0) == 0);
	/* Not even with the same number. */
	make_pair(fd);
	MUST(change(EPOLL_CTL_ADD, fd[0], EPOLLIN) == 0);
	MUST(events_of(fd[0], 0) == 0);
	one_byte(fd);
	close_pair(fd);
	MUST(events_of(-1, 0) == 0);
}

/* Room for one event: descriptors that are always ready get it in turn. */
static void room_for_one(void)
{
	int seen[2] = { 0 }, fd[2], other = eventfd(1, 0);
	struct epoll_event ev;

	make_pair(fd);
	MUST(change(EPOLL_CTL_ADD, fd[0], EPOLLOUT) == 0);
	MUST(change(EPOLL_CTL_ADD, other, EPOLLIN) == 0);
	for (int i = 0; i < 10; i++) {
		MUST(wait_for(set, &ev, 1, 1000) == 1);
		seen[ev.data.fd == other]++;
	}
	MUST(seen[0] >= 3 && seen[1] >= 3);
	close(other);
	close_pair(fd);
}

/* A set is a descriptor that others may wait for. */
static void set_is_readable(void)
{
	struct pollfd p = { .fd = set, .events = POLLIN };
	int fd[2];

	make_pair(fd);
	MUST(change(EPOLL_CTL_ADD, fd[0], EPOLLIN) == 0);
	MUST(events_of(fd[0], 0) == 0);
	MUST(poll(&p, 1, 0) == 0);
	send_all(fd[1], "x", 1);
	MUST(poll(&p, 1, 5000) == 1);
	MUST(events_of(fd[0], 5000) == EPOLLIN);
	close_pair(fd);
}

int main(int argc, char **argv)
{
	MUST(argc == 2);
	*(void **)&create = symbol("repoll_create");
	*(void **)&ctl = symbol("repoll_ctl");
	*(void **)&wait_for = symbol("repoll_wait");
	listen_somewhere(argv[1]);
	set = create(1);
	MUST(set >= 0);
	out_and_in();
	closed_when_out();
	room_for_one();
	set_is_readable();
	close(set);
	printf("all right\n");
	return 0;
}
