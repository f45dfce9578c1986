/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When private memory may be converted into shared memory.  The lists name what
 * is known to be harmless; anything else forbids it.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/aiopoll.h"
#include "base/socket.h"
#include "shm/maps.h"
#include "shm/share.h"
#include "shm/share_internal.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif

static _Atomic int own_threads;
static __thread bool is_own;

void ur_share_thread_begin(void)
{
	is_own = true;
	atomic_fetch_add(&own_threads, 1);
}

void ur_share_thread_end(void)
{
	is_own = false;
	atomic_fetch_sub(&own_threads, 1);
}

void ur_share_threads_forget(void)
{
	atomic_store(&own_threads, 0);
}

int ur_share_own_threads(void)
{
	return atomic_load(&own_threads);
}

/*
 * A directory has two links more than subdirectories.  Counts threads of
 * io_uring too.
 */
static bool is_alone(void)
{
	struct stat st;

	return !is_own && stat("/proc/self/task", &st) == 0 &&
	       (long)st.st_nlink - 2 == ur_share_own_threads() + 1;
}

static bool is_in(const char *s, const char *const *list)
{
	for (; *list; list++)
		if (ur_map_begins(s, *list))
			return true;
	return false;
}

/* Sockets of AF_XDP pin memory for a device. */
static bool socket_ok(int fd)
{
	int domain = ur_sockopt_get(fd, SOL_SOCKET, SO_DOMAIN);

	return domain >= 0 && domain != AF_XDP;
}

/* Does the object write to memory only during a call of this process? */
static bool descriptor_ok(int fd, const char *path)
{
	static const char *const devices[] = {
		"/dev/null",	"/dev/zero",	"/dev/full", "/dev/random",
		"/dev/urandom", "/dev/tty",	"/dev/pts/", "/dev/console",
		"/dev/shm/",	"/dev/net/tun", NULL
	};
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

	if (ur_map_begins(path, "/dev/"))
		return is_in(path, devices);
	if (ur_map_begins(path, "socket:["))
		return socket_ok(fd);
	return path[0] == '/' || is_in(path, others);
}

/* The kernel's format. */
struct directory_entry {
	uint64_t ino;
	int64_t off;
	uint16_t length;
	uint8_t type;
	char name[];
};

static bool entry_ok(int dir, const char *name)
{
	char path[256];
	ssize_t n = readlinkat(dir, name, path, sizeof(path) - 1);

	if (n < 0)
		return true; /* "." and ".." */
	path[n] = 0;
	return descriptor_ok((int)strtol(name, NULL, 10), path);
}

/* Without allocating memory: also for fork() handlers. */
bool ur_share_descriptors_ok(int dir)
{
	_Alignas(struct directory_entry) char buf[4096];
	long n = -1;

	if (dir < 0 || lseek(dir, 0, SEEK_SET) != 0)
		return false;
	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n;) {
			const struct directory_entry *e =
				(const void *)(buf + at);

			if (!entry_ok(dir, e->name))
				return false;
			at += e->length;
		}
	}
	return n == 0;
}

static bool descriptors_ok(void)
{
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool ok = ur_share_descriptors_ok(dir);

	if (dir >= 0)
		close(dir);
	return ok;
}

/* A device's memory, or a ring of the kernel whose descriptor may be closed. */
bool ur_share_map_ok(const struct ur_map *m)
{
	const char *path = m->path;

	if (ur_map_begins(path, "/dev/"))
		return ur_map_begins(path, "/dev/zero") ||
		       ur_map_begins(path, "/dev/shm/");
	if (ur_map_begins(path, "/[aio]"))
		return ur_aiopoll_is_ring(m->start);
	return !ur_map_begins(path, "anon_inode:");
}

#define MAPS_MAX 30000 /* the kernel's limit is 65,530 */

static bool mappings_ok(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t capacity = 0;
	bool ok = maps != NULL;
	uint32_t n = 0;

	while (ok && getline(&line, &capacity, maps) > 0) {
		struct ur_map m;

		ok = ++n < MAPS_MAX && ur_map_parse(line, &m) &&
		     ur_share_map_ok(&m);
	}
	free(line);
	if (maps)
		fclose(maps);
	return ok;
}

/*
 * Other allocators than the C library's return pages by MADV_DONTNEED and
 * expect zeros afterwards; sanitizers and valgrind track memory.
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
	return is_alone() && allocator_ok() && descriptors_ok() &&
	       mappings_ok() && is_alone();
}

/* Any flag beyond the known ones forbids it. */
bool ur_share_flags_ok(const char *line, const char *known)
{
	for (line += strspn(line, " "); *line > ' '; line += 3) {
		const char flag[] = { ' ', line[0], line[1], ' ', 0 };

		if (line[1] <= ' ' || line[2] != ' ' || !strstr(known, flag))
			return false;
	}
	return true;
}

/* A file of ours that a fork has made private (share_fork.c). */
static bool is_again(const struct ur_map *m)
{
	return ur_map_begins(m->path, "/memfd:" UR_SHARE_NAME);
}

/* Private memory that can be read and written. */
static bool head_ok(const struct ur_map *m)
{
	return strcmp(m->prot, "rw-p") == 0 &&
	       (m->path[0] == 0 || strcmp(m->path, "[heap]") == 0 ||
		ur_map_begins(m->path, "[anon:") || is_again(m));
}

/* The stack of this thread is in use. */
static bool on_stack(const struct ur_map *m)
{
	uintptr_t here = (uintptr_t)&m;

	return here >= m->start && here < m->end;
}

bool ur_share_range_ok(uint64_t at, uint64_t end, bool *again)
{
	static const char known[] = " rd wr mr mw me ac sd nr ";
	FILE *smaps = fopen("/proc/self/smaps", "re");
	struct ur_map m = { .end = 0 }, next;
	char *line = NULL;
	size_t capacity = 0;
	bool ok = smaps != NULL;

	*again = false;
	while (ok && at < end && getline(&line, &capacity, smaps) > 0) {
		if (ur_map_parse(line, &next)) {
			m = next;
			*again = *again ||
				 (m.end > at && m.start < end && is_again(&m));
			ok = m.end <= at ||
			     (m.start <= at && head_ok(&m) && !on_stack(&m));
		} else if (m.end > at && ur_map_begins(line, "VmFlags:")) {
			ok = ur_share_flags_ok(line + strlen("VmFlags:"),
					       known);
			at = m.end;
		}
	}
	free(line);
	if (smaps)
		fclose(smaps);
	return ok && at >= end;
}
