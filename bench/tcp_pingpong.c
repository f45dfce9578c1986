/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ping-pong of -s bytes over a TCP connection that both sides poll, or with
 * `-m sleep` wait for in the kernel.  Prints one-way microseconds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bench.h"

#define MAX_SAMPLES 4000000u
#define MAX	    65536u

static size_t message; /* bytes */
static int wait_flag = MSG_DONTWAIT;

/* A whole message; false when the peer has gone. */
static bool take(int fd, char *buf)
{
	size_t got = 0;

	while (got < message) {
		ssize_t n = recv(fd, buf + got, message - got, wait_flag);

		if (n == 0)
			return false;
		if (n < 0 && errno != EAGAIN)
			die("recv");
		if (n > 0)
			got += (size_t)n;
	}
	return true;
}

static void give(int fd, const char *buf)
{
	if (send(fd, buf, message, 0) != (ssize_t)message)
		die("send");
}

static void answer(struct shared *s, int listener)
{
	static char buf[MAX];
	int fd = tcp_accept(listener);

	(void)s;
	while (take(fd, buf))
		give(fd, buf);
}

int main(int argc, char **argv)
{
	struct options o = { .size = 64, .seconds = 1 };
	static char buf[MAX];
	struct sockaddr_in addr;
	size_t n = 0;

	options(&o, argc, argv);
	message = o.size < MAX ? o.size : MAX;
	if (o.mode && strcmp(o.mode, "sleep") == 0)
		wait_flag = 0;
	int listener = tcp_listen(&o, &addr);
	pid_t child = start_receiver(answer, shared_memory(), listener);
	int fd = tcp_call(&addr);
	uint32_t *samples = private_bytes(MAX_SAMPLES * sizeof(*samples));
	uint64_t start = now_ns();
	uint64_t end = start + (uint64_t)(o.seconds * 1e9);
	uint64_t t = start;

	while (t < end && n < MAX_SAMPLES) {
		uint64_t before = t;

		give(fd, buf);
		if (!take(fd, buf))
			die("the peer is gone");
		t = now_ns();
		samples[n++] = (uint32_t)(t - before);
	}
	end_receiver(child);
	print_latency(samples, n, (double)(t - start) / (double)n / 2e3);
	return 0;
}
