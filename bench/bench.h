/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the bare-socket programs share.  Each forks a receiver on core 1,
 * works itself on core 0, and prints one line of JSON: a lower or upper bound
 * of what any user-space RDMA over UDP can do on this machine now.
 */
#ifndef URNIC_BENCH_H
#define URNIC_BENCH_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Counters that both sides see; each has one writer. */
struct shared {
	_Atomic uint64_t bytes; /* received */
	_Atomic uint64_t packets;
	_Atomic bool ready;
	_Atomic bool stop;
	uint16_t port;
};

struct options {
	size_t size;	/* -s: bytes of a datagram */
	double seconds; /* -t */
	size_t window;	/* -w: bytes in flight */
};

void options(struct options *o, int argc, char **argv);
void die(const char *what) __attribute__((noreturn));
uint64_t now_ns(void);
struct shared *shared_memory(void);

/* A UDP socket with large buffers; bound to 127.0.0.1 if bound. */
int udp_socket(bool bound, struct sockaddr_in *addr);

/* Run fn(s, fd) in a child on core 1 that dies with us; we go to core 0. */
pid_t start_receiver(void (*fn)(struct shared *, int), struct shared *s,
		     int fd);

/* Wait until no more than window of the sent bytes are unreceived; false when
 * the receiver stands still for a second (the socket lost something). */
bool wait_window(struct shared *s, uint64_t sent, size_t window);

#endif
