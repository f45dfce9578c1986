/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the programs without RDMA share.  Each forks a receiver on one core,
 * works itself on another (BENCH_CORES=NEAR,FAR in the environment, else 0
 * and 1; on any if it is empty), and prints one line of JSON: a lower or upper bound of what any
 * adapter in user space can do on this machine now.
 */
#ifndef URNIC_BENCH_H
#define URNIC_BENCH_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MAX_SIZES 16u

/* Counters that both sides see; each has one writer. */
struct shared {
	_Atomic uint64_t bytes; /* received */
	_Atomic uint64_t packets;
	_Atomic bool ready;
	_Atomic bool stop;
	uint16_t port;
};

struct options {
	size_t size;		 /* -s: bytes of a message, the first of */
	size_t sizes[MAX_SIZES]; /* a list with commas between */
	unsigned int n_sizes;	 /* 0: none was given */
	double seconds;		 /* -t: length of a measurement */
	size_t window;		 /* -w: bytes in flight */
	const char *address;	 /* -a: of the receiver, default loopback */
	const char *netns;	 /* -n: the receiver's, NULL: ours */
	const char *mode;	 /* -m: the program's own */
};

/* A list of sizes with commas between. */
void parse_sizes(struct options *o, const char *text);

/* Exits with the usage's status if there is anything it does not know. */
void options(struct options *o, int argc, char **argv);
void die(const char *what) __attribute__((noreturn));
uint64_t now_ns(void);
struct shared *shared_memory(void);

/* Memory that the processes forked later share; never given back. */
void *shared_bytes(size_t bytes);

/* Zeroed private memory on a page of its own; never given back. */
void *private_bytes(size_t bytes);

/* A socket of that type with large buffers, in the receiver's namespace and
 * bound to its address if bound. */
int open_socket(const struct options *o, int type, bool bound,
		struct sockaddr_in *addr);

/* A connection by TCP without delays: listener in the receiver's namespace,
 * the caller's end (blocking). */
int tcp_listen(const struct options *o, struct sockaddr_in *addr);
int tcp_call(const struct sockaddr_in *addr);
int tcp_accept(int listener);

/* Go to the network namespace of that name (`ip netns`). */
void enter_netns(const char *name);

/* Go to the core of side 0, the sender's, or of side 1, the receiver's; nowhere
 * if BENCH_CORES is empty. */
void pin(unsigned int side);

/* Run fn(s, fd) in a child on the receiver's core that dies with us; we go to
 * the sender's. */
pid_t start_receiver(void (*fn)(struct shared *, int), struct shared *s,
		     int fd);

/* Wait until no more than window of the sent bytes are unreceived; false when
 * the receiver stands still for a second (the socket lost something). */
bool wait_window(struct shared *s, uint64_t sent, size_t window);

/* Ends a receiver that runs until it is killed. */
void end_receiver(pid_t pid);

/* Print the median and percentiles of n round trips as one-way microseconds,
 * with that mean; sorts them. */
void print_latency(uint32_t *round_trip_ns, size_t n, double mean_us);

#endif
