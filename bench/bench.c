/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void die(const char *what)
{
	perror(what);
	exit(1);
}

void parse_sizes(struct options *o, const char *text)
{
	char *end;

	for (o->n_sizes = 0; o->n_sizes < MAX_SIZES; text = end + 1) {
		o->sizes[o->n_sizes++] = strtoul(text, &end, 10);
		if (*end != ',')
			break;
	}
	o->size = o->sizes[0];
}

void options(struct options *o, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "s:t:w:a:n:m:")) != -1) {
		switch (c) {
		case 's':
			parse_sizes(o, optarg);
			break;
		case 't':
			o->seconds = strtod(optarg, NULL);
			break;
		case 'w':
			o->window = strtoul(optarg, NULL, 10);
			break;
		case 'a':
			o->address = optarg;
			break;
		case 'n':
			o->netns = optarg;
			break;
		case 'm':
			o->mode = optarg;
			break;
		default:
			exit(2);
		}
	}
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void *shared_bytes(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

void *private_bytes(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

struct shared *shared_memory(void)
{
	return shared_bytes(sizeof(struct shared));
}

void enter_netns(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(path);
	close(fd);
}

/* A socket belongs to the namespace in which it was made. */
static int socket_in(const char *netns, int type)
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int fd;

	if (netns)
		enter_netns(netns);
	fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	if (fd < 0 || (netns && setns(home, CLONE_NEWNET)))
		die("socket");
	close(home);
	return fd;
}

int open_socket(const struct options *o, int type, bool bound,
		struct sockaddr_in *addr)
{
	int fd = socket_in(bound ? o->netns : NULL, type);
	int size = 8 << 20;
	socklen_t len = sizeof(*addr);

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (!bound)
		return fd;
	*addr = (struct sockaddr_in){ .sin_family = AF_INET };
	if (!inet_aton(o->address ? o->address : "127.0.0.1", &addr->sin_addr))
		die("the address");
	if (bind(fd, (struct sockaddr *)addr, sizeof(*addr)) ||
	    getsockname(fd, (struct sockaddr *)addr, &len))
		die("bind");
	return fd;
}

/* The kernel's own sizing of TCP's buffers is better than any fixed one. */
int tcp_listen(const struct options *o, struct sockaddr_in *addr)
{
	int fd = socket_in(o->netns, SOCK_STREAM);
	socklen_t len = sizeof(*addr);

	*addr = (struct sockaddr_in){ .sin_family = AF_INET };
	if (!inet_aton(o->address ? o->address : "127.0.0.1", &addr->sin_addr))
		die("the address");
	if (bind(fd, (struct sockaddr *)addr, sizeof(*addr)) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)addr, &len))
		die("listen");
	return fd;
}

static void no_delay(int fd)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		die("TCP_NODELAY");
}

int tcp_call(const struct sockaddr_in *addr)
{
	int fd = socket_in(NULL, SOCK_STREAM);

	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		die("connect");
	no_delay(fd);
	return fd;
}

int tcp_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		die("accept");
	no_delay(fd);
	return fd;
}

void pin(unsigned int side)
{
	const char *cores = getenv("BENCH_CORES");
	unsigned long core[2] = { 0, 1 };
	cpu_set_t set;
	char *end;

	if (cores && !*cores)
		return;
	if (cores) {
		core[0] = strtoul(cores, &end, 10);
		core[1] = *end == ',' ? strtoul(end + 1, NULL, 10) : core[0];
	}
	CPU_ZERO(&set);
	CPU_SET(core[side], &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

pid_t start_receiver(void (*fn)(struct shared *, int), struct shared *s, int fd)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(1);
		atomic_store(&s->ready, true);
		fn(s, fd);
		_exit(0);
	}
	pin(0);
	while (!atomic_load(&s->ready))
		usleep(100);
	return pid;
}

void end_receiver(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

bool wait_window(struct shared *s, uint64_t sent, size_t window)
{
	uint64_t start = 0;
	unsigned int turns = 0;

	while (sent - atomic_load_explicit(&s->bytes, memory_order_acquire) >
	       window) {
		if (++turns % 1024)
			continue;
		if (start == 0)
			start = now_ns();
		else if (now_ns() - start > 1000000000u)
			return false;
	}
	return true;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Of a hundred, so many are faster; v is sorted. */
static double one_way_us(const uint32_t *v, size_t n, double percent)
{
	size_t at = (size_t)((double)(n - 1) * percent / 100);

	return (double)v[at] / 2e3;
}

void print_latency(uint32_t *round_trip_ns, size_t n, double mean_us)
{
	static const double part[] = { 1,  10, 25,   50,    75,
				       90, 99, 99.9, 99.99, 100 };
	const char *before = "";

	qsort(round_trip_ns, n, sizeof(*round_trip_ns), compare);
	printf("{\"mean_us\": %.4f, \"median_us\": %.4f, "
	       "\"percentiles\": [",
	       mean_us, one_way_us(round_trip_ns, n, 50));
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		printf("%s[%g, %.4f]", before, part[i],
		       one_way_us(round_trip_ns, n, part[i]));
		before = ", ";
	}
	printf("]}\n");
}
