/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that knows sockets only, for the preload library:
 *
 *   plain_fork ADDRESS          broken pipes, and a fork while it is connected
 *   plain_fork ADDRESS workers  a server with a child for each connection
 *                               (RDMAV_FORK_SAFE=1)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(bool ok, int line, const char *text)
{
	if (ok)
		return;
	fprintf(stderr, "%d: line %d: %s: %s\n", (int)getpid(), line, text,
		strerror(errno));
	_exit(1);
}

#define MUST(cond) must((cond), __LINE__, #cond)

static struct sockaddr_in at;

static int listen_somewhere(void)
{
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_port = 0;
	MUST(fd >= 0);
	MUST(!bind(fd, (struct sockaddr *)&at, sizeof(at)));
	MUST(!listen(fd, 8));
	MUST(!getsockname(fd, (struct sockaddr *)&at, &len));
	return fd;
}

static int connect_there(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	MUST(fd >= 0);
	MUST(!connect(fd, (struct sockaddr *)&at, sizeof(at)));
	return fd;
}

static void make_pair(int lfd, int fd[2])
{
	fd[0] = connect_there();
	fd[1] = accept(lfd, NULL, NULL);
	MUST(fd[1] >= 0);
}

static void talk(const int fd[2])
{
	char b[8];
	int n = -1;

	MUST(write(fd[0], "ping", 4) == 4);
	MUST(recv(fd[1], b, 4, MSG_WAITALL) == 4 && !memcmp(b, "ping", 4));
	MUST(send(fd[1], "pong!", 5, 0) == 5);
	MUST(recv(fd[0], b, 1, MSG_PEEK) == 1);
	MUST(!ioctl(fd[0], FIONREAD, &n) && n == 5);
	MUST(recv(fd[0], b, 5, MSG_WAITALL) == 5 && !memcmp(b, "pong!", 5));
}

static volatile sig_atomic_t broken;

static void on_pipe(int sig)
{
	broken = broken + (sig == SIGPIPE);
}

static void broken_pipes(int lfd)
{
	struct iovec v = { .iov_base = &at, .iov_len = 4 };
	int fd[2];
	char b;

	signal(SIGPIPE, on_pipe);
	make_pair(lfd, fd);
	MUST(!close(fd[1]));
	MUST(read(fd[0], &b, 1) == 0);
	MUST(send(fd[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
	MUST(broken == 0);
	MUST(send(fd[0], "x", 1, 0) == -1 && errno == EPIPE && broken == 1);
	MUST(write(fd[0], "x", 1) == -1 && errno == EPIPE && broken == 2);
	MUST(writev(fd[0], &v, 1) == -1 && errno == EPIPE && broken == 3);
	MUST(!close(fd[0]));
}

static void child_of_a_connected_one(int lfd, const int old[2])
{
	struct pollfd p = { .events = POLLIN };
	int fd[2];
	char b;

	/* Its parent's connections are not its own ... */
	MUST(write(old[0], "x", 1) == -1 && errno == EBADF);
	MUST(recv(old[1], &b, 1, MSG_DONTWAIT) == -1 && errno == EBADF);
	MUST(!close(old[0]) && !close(old[1]) && !close(lfd));
	/* ... but it may have some. */
	lfd = listen_somewhere();
	make_pair(lfd, fd);
	talk(fd);
	p.fd = fd[1];
	MUST(poll(&p, 1, 20) == 0);
	MUST(write(fd[0], "x", 1) == 1);
	MUST(poll(&p, 1, 10000) == 1 && p.revents == POLLIN);
	MUST(!close(fd[0]) && !close(fd[1]) && !close(lfd));
}

static void reap(pid_t pid)
{
	int status;

	MUST(waitpid(pid, &status, 0) == pid);
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void fork_connected(int lfd)
{
	int fd[2], more[2];
	pid_t pid;

	make_pair(lfd, fd);
	talk(fd);
	pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		child_of_a_connected_one(lfd, fd);
		_exit(0);
	}
	talk(fd);
	reap(pid);
	talk(fd);
	make_pair(lfd, more);
	talk(more);
	MUST(!close(fd[0]) && !close(fd[1]));
	MUST(!close(more[0]) && !close(more[1]));
}

/* An rsocket's number is an epoll set to the kernel. */
static bool is_rsocket(int fd)
{
	char name[32], to[64];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, to, sizeof(to) - 1);
	MUST(n > 0);
	to[n] = '\0';
	return strstr(to, "eventpoll") != NULL;
}

/* In a child that may first poll, first epoll, or read at once. */
static void serve(int fd, int how)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int epfd = epoll_create1(0);
	char b[64];
	ssize_t n;

	if (how == 1)
		MUST(poll(&p, 1, 20000) == 1);
	if (how == 2)
		MUST(!epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) &&
		     epoll_wait(epfd, &ev, 1, 20000) == 1);
	while ((n = read(fd, b, sizeof(b))) > 0) {
		MUST(is_rsocket(fd));
		MUST(write(fd, b, (size_t)n) == n);
	}
	MUST(n == 0);
	close(epfd);
	MUST(!close(fd));
}

static void ask(int count)
{
	char b[16], want[16];

	for (int i = 0; i < count; i++) {
		int fd = connect_there();

		for (int k = 0; k < 20; k++) {
			int n = snprintf(want, sizeof(want), "%d-%d", i, k);

			MUST(write(fd, want, (size_t)n) == n);
			MUST(recv(fd, b, (size_t)n, MSG_WAITALL) == n);
			MUST(!memcmp(b, want, (size_t)n));
			MUST(is_rsocket(fd));
		}
		MUST(!close(fd));
	}
}

static void workers(void)
{
	enum { COUNT = 6 };
	int lfd = listen_somewhere();
	pid_t client = fork(), child[COUNT];

	MUST(client >= 0);
	if (!client) {
		MUST(!close(lfd));
		ask(COUNT);
		_exit(0);
	}
	for (int i = 0; i < COUNT; i++) {
		int fd = accept(lfd, NULL, NULL);

		MUST(fd >= 0);
		child[i] = fork();
		MUST(child[i] >= 0);
		if (!child[i]) {
			MUST(!close(lfd));
			serve(fd, i % 3);
			_exit(0);
		}
		MUST(!close(fd));
	}
	for (int i = 0; i < COUNT; i++)
		reap(child[i]);
	reap(client);
	MUST(!close(lfd));
}

/* A stream in two numbers, or of a server that does not use it by itself,
 * stays TCP, and neither side waits for the other or reads what is not its. */
static void copies(void)
{
	int lfd = listen_somewhere(), fd, copy;
	pid_t client = fork();
	char b[8];

	MUST(client >= 0);
	if (!client) {
		fd = connect_there();
		MUST(write(fd, "ping", 4) == 4);
		MUST(recv(fd, b, 5, MSG_WAITALL) == 5);
		MUST(!memcmp(b, "pong!", 5));
		MUST(!is_rsocket(fd) && !close(fd));
		_exit(0);
	}
	fd = accept(lfd, NULL, NULL);
	MUST(fd >= 0);
	copy = dup(fd);
	MUST(copy >= 0 && !close(fd));
	MUST(recv(copy, b, 4, MSG_WAITALL) == 4 && !memcmp(b, "ping", 4));
	MUST(send(copy, "pong!", 5, 0) == 5);
	reap(client);
	MUST(!close(copy) && !close(lfd));
}

/* A server that is slow to look at a connection: the client does not wait for
 * ever but goes on by TCP, and so does the server then. */
static void slow_server(void)
{
	int lfd = listen_somewhere(), fd;
	pid_t client = fork();
	char b[8];

	MUST(client >= 0);
	if (!client) {
		fd = connect_there();
		MUST(write(fd, "ping", 4) == 4);
		MUST(recv(fd, b, 5, MSG_WAITALL) == 5);
		MUST(!memcmp(b, "pong!", 5) && !is_rsocket(fd) && !close(fd));
		_exit(0);
	}
	fd = accept(lfd, NULL, NULL);
	MUST(fd >= 0);
	usleep(1500000);
	MUST(recv(fd, b, 4, MSG_WAITALL) == 4 && !memcmp(b, "ping", 4));
	MUST(send(fd, "pong!", 5, 0) == 5);
	reap(client);
	MUST(!close(fd) && !close(lfd));
}

int main(int argc, char **argv)
{
	int lfd;

	MUST(argc >= 2);
	at.sin_family = AF_INET;
	MUST(inet_pton(AF_INET, argv[1], &at.sin_addr) == 1);
	if (argc > 2) {
		workers();
		copies();
		slow_server();
	} else {
		lfd = listen_somewhere();
		broken_pipes(lfd);
		fork_connected(lfd);
		MUST(!close(lfd));
	}
	puts("all right");
	return 0;
}
