/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bare transfer by UDP_SEGMENT bursts into a UDP_GRO socket: datagrams of -s
 * bytes (an RDMA WRITE packet with its 16 bytes of headers), as many in one
 * call as fit, no protocol at all.  Prints Gbit/s of datagram payload
 * and millions of datagrams a second.
 */
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "bench.h"

#define MAX_SEGMENTS 64u
#define MAX_TRAIN    65507u

static void receive(struct shared *s, int fd)
{
	static char buf[65536];
	int one = 1;

	if (setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof(one)))
		die("UDP_GRO");
	while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

		if (n > 0)
			atomic_fetch_add_explicit(&s->bytes, (uint64_t)n,
						  memory_order_release);
	}
}

int main(int argc, char **argv)
{
	struct options o = { .size = 4112, .seconds = 1, .window = 512 << 10 };
	struct sockaddr_in addr;
	uint64_t sent = 0;

	options(&o, argc, argv);
	struct shared *s = shared_memory();
	int rx = open_socket(&o, SOCK_DGRAM, true, &addr);
	pid_t child = start_receiver(receive, s, rx);
	int tx = open_socket(&o, SOCK_DGRAM, false, NULL);
	int segment = (int)o.size;
	size_t count = MAX_TRAIN / o.size;

	if (count > MAX_SEGMENTS)
		count = MAX_SEGMENTS;
	size_t train = count * o.size;
	char *buf = calloc(1, train);

	if (!buf || connect(tx, (struct sockaddr *)&addr, sizeof(addr)) ||
	    setsockopt(tx, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)))
		die("sender");
	uint64_t start = now_ns();
	uint64_t end = start + (uint64_t)(o.seconds * 1e9);

	while (now_ns() < end) {
		if (!wait_window(s, sent + train, o.window))
			die("lost datagrams");
		if (send(tx, buf, train, 0) != (ssize_t)train)
			die("send");
		sent += train;
	}
	wait_window(s, sent, 0);
	double took = (double)(now_ns() - start);

	atomic_store(&s->stop, true);
	waitpid(child, NULL, 0);
	free(buf);
	printf("{\"gbits\": %.3f, \"mpps\": %.4f}\n", (double)sent * 8 / took,
	       (double)sent / (double)o.size / took * 1e3);
	return 0;
}
