/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bare transfer by TCP: writes of -s bytes, as many as the socket takes, both
 * sides polling.  Prints Gbit/s, and millions of such writes a second.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "bench.h"

#define PIECE (256u << 10)

static void receive(struct shared *s, int listener)
{
	char *buf = private_bytes(PIECE);
	int fd = tcp_accept(listener);

	for (;;) {
		ssize_t n = recv(fd, buf, PIECE, MSG_DONTWAIT);

		if (n == 0)
			return;
		if (n > 0)
			atomic_fetch_add_explicit(&s->bytes, (uint64_t)n,
						  memory_order_release);
		else if (errno != EAGAIN)
			die("recv");
	}
}

static void send_all(int fd, const char *buf, size_t size)
{
	while (size > 0) {
		ssize_t n = send(fd, buf, size, MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN)
			die("send");
		if (n > 0) {
			buf += n;
			size -= (size_t)n;
		}
	}
}

int main(int argc, char **argv)
{
	struct options o = { .size = PIECE, .seconds = 1 };
	struct sockaddr_in addr;
	uint64_t sent = 0;

	options(&o, argc, argv);
	struct shared *s = shared_memory();
	int listener = tcp_listen(&o, &addr);
	pid_t child = start_receiver(receive, s, listener);
	int fd = tcp_call(&addr);
	char *buf = private_bytes(o.size);
	uint64_t start = now_ns();
	uint64_t end = start + (uint64_t)(o.seconds * 1e9);

	while (now_ns() < end) {
		send_all(fd, buf, o.size);
		sent += o.size;
	}
	if (!wait_window(s, sent, 0))
		die("the stream stands still");
	double took = (double)(now_ns() - start);

	end_receiver(child);
	printf("{\"gbits\": %.3f, \"mps\": %.4f}\n", (double)sent * 8 / took,
	       (double)sent / (double)o.size / took * 1e3);
	return 0;
}
