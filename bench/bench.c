/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"

#include <arpa/inet.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void die(const char *what)
{
	perror(what);
	exit(1);
}

void options(struct options *o, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "s:t:w:")) != -1) {
		switch (c) {
		case 's':
			o->size = strtoul(optarg, NULL, 10);
			break;
		case 't':
			o->seconds = strtod(optarg, NULL);
			break;
		case 'w':
			o->window = strtoul(optarg, NULL, 10);
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

struct shared *shared_memory(void)
{
	void *p = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

int udp_socket(bool bound, struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int size = 8 << 20;
	socklen_t len = sizeof(*addr);

	if (fd < 0)
		die("socket");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (!bound)
		return fd;
	*addr = (struct sockaddr_in){ .sin_family = AF_INET };
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)addr, sizeof(*addr)) ||
	    getsockname(fd, (struct sockaddr *)addr, &len))
		die("bind");
	return fd;
}

static void pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
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
