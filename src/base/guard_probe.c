/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A query must cost the same for 1 GiB as for a page, so it looks at mappings,
 * not at pages.  Since Linux 6.11 an ioctl on /proc/self/maps describes one
 * mapping (5 us altogether); before that the text has to be read (20 us and
 * more, depending on the number of mappings).  Without /proc there is
 * msync(MS_ASYNC), which walks the mappings and does nothing, but checks no
 * access rights.
 */
#include "base/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/lock.h"

#define PAGE_BYTES 4096u

/* The kernel's struct procmap_query; headers older than 6.11 lack it. */
struct maps_query {
	uint64_t size;
	uint64_t flags;
	uint64_t addr;
	uint64_t start;
	uint64_t end;
	uint64_t vma_flags;
	uint64_t page_size;
	uint64_t offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t name_size;
	uint32_t build_id_size;
	uint64_t name_addr;
	uint64_t build_id_addr;
};

#define MAPS_QUERY    _IOWR('f', 17, struct maps_query)
#define MAPS_READABLE 0x1u
#define MAPS_WRITABLE 0x2u

enum answer { NO, YES, UNKNOWN };

/* UNKNOWN: this kernel has no such query. */
static enum answer ask_kernel(int fd, uintptr_t at, uintptr_t end,
			      bool want_write)
{
	while (at < end) {
		struct maps_query q = {
			.size = sizeof(q),
			.flags = want_write ? MAPS_READABLE | MAPS_WRITABLE
					    : MAPS_READABLE,
			.addr = at,
		};

		if (ioctl(fd, MAPS_QUERY, &q))
			return errno == ENOENT ? NO : UNKNOWN;
		at = q.end;
	}
	return YES;
}

/* Lines are "start-end rwxp ..." in ascending order; takes fd. */
static enum answer read_maps(int fd, uintptr_t at, uintptr_t end,
			     bool want_write)
{
	FILE *maps = fdopen(fd, "r");
	char *line = NULL;
	size_t capacity = 0;

	if (!maps) {
		close(fd);
		return UNKNOWN;
	}
	while (at < end && getline(&line, &capacity, maps) > 0) {
		char *rest;
		uintptr_t from = strtoul(line, &rest, 16);
		uintptr_t to = strtoul(rest + 1, &rest, 16);

		if (to <= at)
			continue;
		if (from > at || rest[1] != 'r' ||
		    (want_write && rest[2] != 'w'))
			break;
		at = to;
	}
	free(line);
	fclose(maps);
	return at < end ? NO : YES;
}

static bool is_mapped(uintptr_t at, uintptr_t end)
{
	uintptr_t first = at & ~(uintptr_t)(PAGE_BYTES - 1);

	return msync((void *)first, end - first, MS_ASYNC) == 0;
}

static bool probe(uintptr_t at, uintptr_t end, int want_write)
{
	enum answer answer = UNKNOWN;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		answer = ask_kernel(fd, at, end, want_write);
		if (answer == UNKNOWN)
			answer = read_maps(fd, at, end, want_write);
		else
			close(fd);
	}
	return answer == UNKNOWN ? is_mapped(at, end) : answer == YES;
}

int ur_guard_probe(const void *addr, size_t len, int want_write)
{
	uintptr_t at = (uintptr_t)addr;
	bool is;

	if (at + len < at)
		return false;
	ur_cancel_off(); /* or its descriptor would stay */
	is = probe(at, at + len, want_write);
	ur_cancel_on();
	return is;
}
