/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ping-pong of -s bytes over unconnected UDP sockets that both sides poll: what
 * the kernel costs a user-space protocol that has one socket for all peers.
 * Prints one-way microseconds.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "bench.h"

#define MAX_SAMPLES 4000000u

/* One datagram and where it came from. */
static ssize_t poll_one(int fd, char *buf, size_t size,
			struct sockaddr_in *from)
{
	socklen_t len;
	ssize_t n;

	do {
		len = sizeof(*from);
		n = recvfrom(fd, buf, size, MSG_DONTWAIT,
			     (struct sockaddr *)from, &len);
	} while (n < 0 && errno == EAGAIN);
	if (n < 0)
		die("recvfrom");
	return n;
}

static void reply_to(int fd, const char *buf, size_t size,
		     const struct sockaddr_in *to)
{
	if (sendto(fd, buf, size, 0, (const struct sockaddr *)to,
		   sizeof(*to)) != (ssize_t)size)
		die("sendto");
}

/* Until killed. */
static void answer(struct shared *s, int fd)
{
	static char buf[65536];
	struct sockaddr_in from;

	(void)s;
	for (;;) {
		ssize_t n = poll_one(fd, buf, sizeof(buf), &from);

		reply_to(fd, buf, (size_t)n, &from);
	}
}

int main(int argc, char **argv)
{
	struct options o = { .size = 64, .seconds = 1 };
	static char buf[65536];
	struct sockaddr_in addr;
	struct sockaddr_in from;
	size_t n = 0;

	options(&o, argc, argv);
	if (o.size > sizeof(buf))
		o.size = sizeof(buf);
	struct shared *s = shared_memory();
	int rx = open_socket(&o, SOCK_DGRAM, true, &addr);
	pid_t child = start_receiver(answer, s, rx);
	int tx = open_socket(&o, SOCK_DGRAM, false, NULL);
	uint32_t *samples = malloc(MAX_SAMPLES * sizeof(*samples));

	if (!samples)
		die("malloc");
	uint64_t start = now_ns();
	uint64_t end = start + (uint64_t)(o.seconds * 1e9);
	uint64_t t = start;

	while (t < end && n < MAX_SAMPLES) {
		uint64_t before = t;

		reply_to(tx, buf, o.size, &addr);
		poll_one(tx, buf, sizeof(buf), &from);
		t = now_ns();
		samples[n++] = (uint32_t)(t - before);
	}
	end_receiver(child);
	print_latency(samples, n, (double)(t - start) / (double)n / 2e3);
	free(samples);
	return 0;
}
