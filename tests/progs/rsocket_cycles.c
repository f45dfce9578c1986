/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opens and closes connections: rsocket_cycles ADDRESS [COUNT].  Neither
 * memory nor descriptors may grow after the first ones.
 */
#include <dirent.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rsocket_pair.h"

enum { WARM_UP = 200, GROWTH_KB = 2048 };

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	MUST(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static long resident_kb(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long size = 0, pages = 0;

	MUST(f && fscanf(f, "%ld %ld", &size, &pages) == 2);
	fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Each way to end one: either side first, with or without a shutdown. */
static void cycle(int i)
{
	struct linger now = { 1, 0 };
	int fd[2];
	char b;

	make_pair(fd);
	if (i % 2) {
		send_all(fd[0], "x", 1);
		recv_all(fd[1], &b, 1);
	}
	if (i % 16 == 5)
		MUST(!rsetsockopt(fd[0], SOL_SOCKET, SO_LINGER, &now,
				  sizeof(now)));
	MUST(rclose(fd[i % 3 == 0]) == 0);
	MUST(rclose(fd[i % 3 != 0]) == 0);
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 1000;
	long kb = 0;
	int fds = 0;

	MUST(argc >= 2);
	listen_somewhere(argv[1]);
	for (int i = 0; i < WARM_UP + count; i++) {
		if (i == WARM_UP) {
			fds = count_fds();
			kb = resident_kb();
		}
		cycle(i);
	}
	printf("descriptors %d -> %d, memory %ld -> %ld KiB\n", fds,
	       count_fds(), kb, resident_kb());
	MUST(count_fds() <= fds + 8);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	/* Sanitizers delay the reuse of freed memory. */
	MUST(resident_kb() <= kb + GROWTH_KB);
#endif
	MUST(rclose(lfd) == 0);
	puts("all right");
	return 0;
}
