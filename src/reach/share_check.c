/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When private memory may be turned into shared memory.  The lists name what
 * is known to be harmless; everything else forbids it.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reach/share.h"
#include "reach/share_internal.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif

static _Atomic int own_threads;

void ur_share_thread_begin(void)
{
	atomic_fetch_add(&own_threads, 1);
}

void ur_share_thread_end(void)
{
	atomic_fetch_sub(&own_threads, 1);
}

int ur_share_own_threads(void)
{
	return atomic_load(&own_threads);
}

/* A directory's links are its subdirectories and two; io_uring's count too. */
static bool is_alone(void)
{
	struct stat st;

	return stat("/proc/self/task", &st) == 0 &&
	       (long)st.st_nlink - 2 == ur_share_own_threads() + 1;
}

static bool begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static bool is_in(const char *s, const char *const *list)
{
	for (; *list; list++)
		if (begins(s, *list))
			return true;
	return false;
}

/* Sockets of AF_XDP pin memory for a device. */
static bool socket_ok(int fd)
{
	int domain = AF_XDP;
	socklen_t len = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
	       domain != AF_XDP;
}

/* What stands behind a descriptor writes to memory only when it is asked. */
static bool descriptor_ok(int fd, const char *path)
{
	static const char *const devices[] = { "/dev/null",    "/dev/zero",
					       "/dev/full",    "/dev/random",
					       "/dev/urandom", "/dev/tty",
					       "/dev/pts/",    "/dev/console",
					       "/dev/shm/",    NULL };
	static const char *const others[] = {
		"pipe:[",
		"anon_inode:[eventpoll]",
		"anon_inode:[eventfd]",
		"anon_inode:[timerfd]",
		"anon_inode:[signalfd]",
		"anon_inode:[pidfd]",
		"anon_inode:inotify",
		"/memfd:",
		NULL,
	};

	if (begins(path, "/dev/"))
		return is_in(path, devices);
	if (begins(path, "socket:["))
		return socket_ok(fd);
	return path[0] == '/' || is_in(path, others);
}

static bool descriptors_ok(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	bool ok = dir != NULL;

	while (ok && (entry = readdir(dir))) {
		char path[256];
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, path,
				       sizeof(path) - 1);

		if (n < 0)
			continue; /* "." and ".." */
		path[n] = 0;
		ok = descriptor_ok((int)strtol(entry->d_name, NULL, 10), path);
	}
	if (dir)
		closedir(dir);
	return ok;
}

/* Path of a line of /proc/self/maps; "" if there is none. */
static const char *path_of(const char *line)
{
	int at = 0;

	sscanf(line, "%*s %*s %*s %*s %*s %n", &at);
	return line + at;
}

/* A device's memory, or a kernel's ring whose descriptor may be closed. */
static bool mapping_ok(const char *line)
{
	const char *path = path_of(line);

	if (begins(path, "/dev/"))
		return begins(path, "/dev/zero") || begins(path, "/dev/shm/");
	return !begins(path, "/[aio]") && !begins(path, "anon_inode:");
}

#define MAPS_MAX 30000 /* the kernel's limit is 65,530 */

static bool mappings_ok(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t capacity = 0;
	bool ok = maps != NULL;
	uint32_t n = 0;

	while (ok && getline(&line, &capacity, maps) > 0)
		ok = ++n < MAPS_MAX && mapping_ok(line);
	free(line);
	if (maps)
		fclose(maps);
	return ok;
}

/*
 * Other allocators than the C library's give pages back by MADV_DONTNEED and
 * expect them to be zero; so do sanitizers and valgrind, in a way.
 */
static bool allocator_ok(void)
{
	void *libc = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
	void *alloc = dlsym(RTLD_DEFAULT, "malloc");
	Dl_info a, b;

	return libc && alloc && dladdr(libc, &a) && dladdr(alloc, &b) &&
	       a.dli_fbase == b.dli_fbase;
}

bool ur_share_process_ok(void)
{
	return allocator_ok() && is_alone() && descriptors_ok() &&
	       mappings_ok() && is_alone();
}

/* Flags of a mapping that has nothing special: any other is one too many. */
static bool flags_ok(const char *line)
{
	static const char known[] = " rd wr mr mw me ac sd nr ";
	char flag[8], with_blanks[12];
	int at = 0, n;

	while (sscanf(line + at, "%7s%n", flag, &n) == 1) {
		snprintf(with_blanks, sizeof(with_blanks), " %s ", flag);
		if (!strstr(known, with_blanks))
			return false;
		at += n;
	}
	return true;
}

/* A first line of a mapping in /proc/self/smaps. */
static bool head_ok(const char *line, const char *prot)
{
	const char *path = path_of(line);

	return strcmp(prot, "rw-p") == 0 &&
	       (path[0] == '\n' || path[0] == 0 || begins(path, "[heap]") ||
		begins(path, "[anon:"));
}

/* Our own stack is not ours to move. */
static bool on_stack(unsigned long start, unsigned long end)
{
	uintptr_t here = (uintptr_t)&start;

	return here >= start && here < end;
}

bool ur_share_range_ok(uint64_t at, uint64_t end)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long start = 0, stop = 0;
	char *line = NULL, prot[5];
	size_t capacity = 0;
	bool ok = smaps != NULL;

	while (ok && at < end && getline(&line, &capacity, smaps) > 0) {
		if (sscanf(line, "%lx-%lx %4s", &start, &stop, prot) == 3)
			ok = stop <= at ||
			     (start <= at && head_ok(line, prot) &&
			      !on_stack(start, stop));
		else if (stop > at && begins(line, "VmFlags:")) {
			ok = flags_ok(line + strlen("VmFlags:"));
			at = stop;
		}
	}
	free(line);
	if (smaps)
		fclose(smaps);
	return ok && at >= end;
}
