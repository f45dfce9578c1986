// SPDX-License-Identifier: BSD-2-Clause
/*
 * The same ping-pong over plain UDP, for comparison.
 *
 *     udp_pingpong [-p PORT] [-e]                              the server
 *     udp_pingpong [-p PORT] [-e] [-n COUNT] [-s SIZE] HOST    the client
 *
 * UDP loses, and what RDMA's reliable connection does in the adapter is here
 * the program's: each ping has a number, a lost one is sent again, an answer
 * to an earlier one is dropped.  The server only echoes, for ever.
 */
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "options.h"

#define MAX_SIZE  65000 /* of a datagram, less what IPv6 and UDP need */
#define RESEND_NS 100000000u
#define TRIES	  20 /* two seconds without an answer are the end */

/* A socket bound to the port, or connected to the host; -1, and told. */
static int open_socket(const struct options *o)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM,
				  .ai_family = o->host ? AF_UNSPEC : AF_INET6,
				  .ai_flags = o->host ? 0 : AI_PASSIVE },
			*found;
	int err = getaddrinfo(o->host, o->port, &hints, &found);
	int fd;

	if (err)
		return complain("%s: %s", o->host ? o->host : o->port,
				gai_strerror(err));
	fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		complain_errno("socket");
	/* An IPv6 socket on any address serves IPv4 too. */
	else if (o->host ? connect(fd, found->ai_addr, found->ai_addrlen)
			 : bind(fd, found->ai_addr, found->ai_addrlen)) {
		complain_errno(o->host ? "connect" : "bind");
		close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	return fd;
}

/* A datagram by `until`, polling or sleeping: its length, 0 if none came. */
static ssize_t receive(int fd, char *buf, bool sleep, uint64_t until,
		       struct sockaddr_storage *from, socklen_t *from_len)
{
	for (;;) {
		uint64_t now = now_ns();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		n = recvfrom(fd, buf, MAX_SIZE, MSG_DONTWAIT,
			     (struct sockaddr *)from, from_len);
		if (n >= 0)
			return n;
		if (errno != EAGAIN && errno != EINTR)
			return complain_errno("recvfrom");
		if (now >= until)
			return 0;
		if (sleep)
			poll(&p, 1, (int)((until - now) / 1000000) + 1);
	}
}

static int be_server(int fd, const struct options *o)
{
	static char buf[MAX_SIZE];
	struct sockaddr_storage from;

	printf("waiting at port %s\n", o->port);
	fflush(stdout);
	for (;;) {
		socklen_t len = sizeof(from);
		ssize_t n = receive(fd, buf, o->sleep, now_ns() + 1000000000u,
				    &from, &len);

		if (n < 0)
			return -1;
		if (n == 0)
			continue;
		if (sendto(fd, buf, (size_t)n, 0, (struct sockaddr *)&from,
			   len) < 0)
			complain_errno("sendto");
	}
}

/* Send ping number `number`, again when it is lost, until its answer comes. */
static int ping(int fd, const struct options *o, const char *out, char *in,
		unsigned long *resent)
{
	for (unsigned int i = 0; i < TRIES; i++) {
		uint64_t until = now_ns() + RESEND_NS;
		ssize_t n;

		if (send(fd, out, o->size, 0) < 0)
			return complain_errno("send");
		*resent += i > 0;
		do {
			n = receive(fd, in, o->sleep, until, NULL, NULL);
			if (n < 0)
				return -1;
			if ((size_t)n == o->size &&
			    memcmp(in, out, o->size) == 0)
				return 0;
		} while (n > 0);
	}
	return complain("no answer from %s", o->host);
}

static int be_client(int fd, const struct options *o)
{
	static char out[MAX_SIZE], in[MAX_SIZE];
	unsigned long resent = 0;
	uint64_t *took = calloc(o->count, sizeof(*took));
	int err = 0;

	if (!took)
		return complain_errno("calloc");
	for (unsigned long i = 0; i < o->count && !err; i++) {
		uint64_t number_be = htobe64(i), begun;

		memset(out, (int)(i % 251), o->size);
		memcpy(out, &number_be, sizeof(number_be));
		begun = now_ns();
		err = ping(fd, o, out, in, &resent);
		took[i] = now_ns() - begun;
	}
	if (!err) {
		print_latency(took, o->count);
		printf("%lu were sent again\n", resent);
	}
	free(took);
	return err;
}

int main(int argc, char **argv)
{
	struct options o = parse_options(argc, argv, MAX_SIZE);
	int fd, err;

	fd = open_socket(&o);
	if (fd < 0)
		return 1;
	err = o.host ? be_client(fd, &o) : be_server(fd, &o);
	close(fd);
	return err ? 1 : 0;
}
