/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bare packet rate by sendmmsg() into recvmmsg(), 32 datagrams of -s bytes
 * (64 B WRITE with its headers) a call: the best that a program without
 * GSO can do.  Prints millions of packets a second.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "bench.h"

#define BATCH 32u
#define MAX   2048u

static char buf[BATCH][MAX];

static void prepare(struct mmsghdr *m, struct iovec *v, size_t size)
{
	memset(m, 0, BATCH * sizeof(*m));
	for (unsigned int i = 0; i < BATCH; i++) {
		v[i] = (struct iovec){ buf[i], size };
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
}

static void receive(struct shared *s, int fd)
{
	struct mmsghdr m[BATCH];
	struct iovec v[BATCH];

	prepare(m, v, MAX);
	while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
		int n = recvmmsg(fd, m, BATCH, MSG_DONTWAIT, NULL);
		uint64_t bytes = 0;

		for (int i = 0; i < n; i++)
			bytes += m[i].msg_len;
		if (n > 0)
			atomic_fetch_add_explicit(&s->bytes, bytes,
						  memory_order_release);
	}
}

int main(int argc, char **argv)
{
	/* Small datagrams cost the receiver's buffer ten times their size. */
	struct options o = { .size = 80, .seconds = 1, .window = 64 << 10 };
	struct mmsghdr m[BATCH];
	struct iovec v[BATCH];
	struct sockaddr_in addr;
	uint64_t sent = 0;

	options(&o, argc, argv);
	if (o.size > MAX)
		o.size = MAX;
	struct shared *s = shared_memory();
	int rx = open_socket(&o, SOCK_DGRAM, true, &addr);
	pid_t child = start_receiver(receive, s, rx);
	int tx = open_socket(&o, SOCK_DGRAM, false, NULL);

	if (connect(tx, (struct sockaddr *)&addr, sizeof(addr)))
		die("connect");
	prepare(m, v, o.size);
	uint64_t start = now_ns();
	uint64_t end = start + (uint64_t)(o.seconds * 1e9);

	while (now_ns() < end) {
		if (!wait_window(s, sent, o.window))
			die("lost datagrams");
		int n = sendmmsg(tx, m, BATCH, 0);

		if (n < 0)
			die("sendmmsg");
		sent += (uint64_t)n * o.size;
	}
	wait_window(s, sent, 0);
	double took = (double)(now_ns() - start);

	atomic_store(&s->stop, true);
	waitpid(child, NULL, 0);
	printf("{\"mpps\": %.4f}\n",
	       (double)sent / (double)o.size / took * 1e3);
	return 0;
}
