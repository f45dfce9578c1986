/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs about rsockets share: pairs of them in one process. */
#ifndef TESTS_PROGS_RSOCKET_PAIR_H
#define TESTS_PROGS_RSOCKET_PAIR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

/* Ends the program, with the line and errno, unless it holds. */
void must(bool ok, const char *file, int line, const char *text);
#define MUST(cond) must((cond), __FILE__, __LINE__, #cond)
#define MUST_ERR(call, error)                                                  \
	MUST((errno = 0, (call) == -1) && errno == (error))

/* Where listen_somewhere() listens, and its rsocket. */
extern union any_addr {
	struct sockaddr sa;
	struct sockaddr_in in4;
	struct sockaddr_in6 in6;
} at;
extern socklen_t at_len;
extern int lfd;

/* On a free port of an IPv4 or IPv6 address. */
void listen_somewhere(const char *address);

/* Connected, in one thread: the listener answers by itself. */
void make_pair(int fd[2]);
void close_pair(int fd[2]);

void set_int(int fd, int level, int name, int value);
int get_int(int fd, int level, int name);

/* All of it, or the program ends. */
void send_all(int fd, const void *buf, size_t len);
void recv_all(int fd, void *buf, size_t len);

/* What rpoll() says of one after so many milliseconds. */
short poll_one(int fd, short events, int timeout_ms);

#endif
