/* SPDX-License-Identifier: BSD-2-Clause */
/* The two kinds of connections that conn_rate compares. */
#ifndef URNIC_BENCH_CONN_RATE_H
#define URNIC_BENCH_CONN_RATE_H

#include <netinet/in.h>

#include "bench.h"

#define CONN_BACKLOG 1024

struct run {
	unsigned int total; /* connections to make */
	unsigned int at_once;
	unsigned int begun;
	unsigned int usable;
	unsigned int ended;
	uint32_t *sample; /* nanoseconds until usable */
};

struct conn_side {
	void (*serve)(struct shared *s); /* until killed; sets s->port */
	void (*call)(struct run *r, uint16_t port);
};

extern const struct conn_side conn_tcp;
extern const struct conn_side conn_rdma;
extern const struct conn_side conn_tcp_blocking; /* run.at_once is 1 */
extern const struct conn_side conn_rdma_blocking;

/* Where both sides are: the loopback address, or what was asked for. */
extern struct in_addr conn_address;

/* An epoll set of these, for reading; data.fd says which. */
int watch_all(const int *fds, unsigned int n);

void run_usable(struct run *r, uint64_t begun_ns);

#endif
