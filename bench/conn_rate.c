/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections per second, and how long each takes to be usable: from the
 * client's first call to the first byte of the server, over TCP or over
 * rdma_cm (under `urnic run`).  Each connection is ended before its place is
 * used again.  One thread and one epoll set on either side, or blocking calls
 * and one connection at once.
 *
 *     conn_rate tcp|rdma [CONNECTIONS [AT_ONCE [ADDRESS]]]
 *     conn_rate tcp-blocking|rdma-blocking [CONNECTIONS [1 [ADDRESS]]]
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "conn_rate.h"

struct in_addr conn_address;
static struct run run = { .total = 5000, .at_once = 1 };

static const struct conn_side *side_of(const char *name)
{
	if (strcmp(name, "tcp") == 0)
		return &conn_tcp;
	if (strcmp(name, "rdma") == 0)
		return &conn_rdma;
	if (strcmp(name, "tcp-blocking") == 0)
		return &conn_tcp_blocking;
	if (strcmp(name, "rdma-blocking") == 0)
		return &conn_rdma_blocking;
	fprintf(stderr,
		"conn_rate tcp|rdma|tcp-blocking|rdma-blocking [CONNECTIONS [AT_ONCE [ADDRESS]]]\n");
	exit(2);
}

int watch_all(const int *fds, unsigned int n)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (ep < 0)
		die("epoll_create1");
	for (unsigned int i = 0; i < n; i++) {
		struct epoll_event ev = { .events = EPOLLIN,
					  .data.fd = fds[i] };

		if (epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &ev))
			die("epoll_ctl");
	}
	return ep;
}

void run_usable(struct run *r, uint64_t begun_ns)
{
	r->sample[r->usable++] = (uint32_t)(now_ns() - begun_ns);
}

static const struct conn_side *side;

static void serve(struct shared *s, int fd)
{
	(void)fd;
	side->serve(s);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Of a hundred, so many are faster. */
static double percentile_us(const struct run *r, unsigned int percent)
{
	size_t at = (size_t)r->usable * percent / 100;

	return (double)r->sample[at] / 1e3;
}

static void report(const struct run *r, uint64_t ns)
{
	qsort(r->sample, r->usable, sizeof(*r->sample), compare);
	printf("{\"per_s\": %.0f, \"median_us\": %.1f, \"p99_us\": %.1f}\n",
	       (double)r->total * 1e9 / (double)ns, percentile_us(r, 50),
	       percentile_us(r, 99));
}

int main(int argc, char **argv)
{
	struct shared *s = shared_memory();
	uint64_t start;

	side = side_of(argc > 1 ? argv[1] : "");
	if (argc > 2)
		run.total = (unsigned int)strtoul(argv[2], NULL, 10);
	if (argc > 3)
		run.at_once = (unsigned int)strtoul(argv[3], NULL, 10);
	if (!inet_aton(argc > 4 ? argv[4] : "127.0.0.1", &conn_address))
		die("the address");
	run.sample = calloc(run.total, sizeof(*run.sample));
	if (!run.sample)
		die("calloc");
	start_receiver(serve, s, -1);
	while (!atomic_load((_Atomic uint16_t *)&s->port))
		usleep(1000);
	start = now_ns();
	side->call(&run, s->port);
	report(&run, now_ns() - start);
	free(run.sample);
	return 0; /* the server dies with us */
}
