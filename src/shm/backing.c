/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The object behind memory of this process: /proc/self/maps names it, and then
 * a file descriptor of it is searched.  Done when a peer asks, not at
 * registration, which stays cheap.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/direct_internal.h"
#include "shm/maps.h"

/* Mappings that are adjacent in memory and in their object. */
struct run {
	uint64_t start; /* the first one's */
	uint64_t first_end;
	uint64_t end;
	uint64_t offset;
	dev_t dev;
	ino_t ino;
	bool writable; /* all of them */
	char path[4096];
};

/* A SysV segment's inode is its number, and the first one has 0. */
static bool is_sysv(const char *path)
{
	return strncmp(path, "/SYSV", 5) == 0;
}

/* Shared memory of an object, which may begin a run. */
static bool is_shared(const struct ur_map *m)
{
	return m->prot[0] == 'r' && m->prot[3] == 's' &&
	       (m->ino != 0 || is_sysv(m->path));
}

static void run_begin(struct run *run, const struct ur_map *m)
{
	*run = (struct run){
		.start = m->start,
		.first_end = m->end,
		.end = m->end,
		.offset = m->offset,
		.dev = m->dev,
		.ino = m->ino,
		.writable = m->prot[1] == 'w',
	};
	strncpy(run->path, m->path, sizeof(run->path) - 1);
}

static bool follows(const struct run *run, const struct ur_map *next)
{
	return next->start == run->end && next->dev == run->dev &&
	       next->ino == run->ino &&
	       next->offset == run->offset + (run->end - run->start);
}

/* Does one object lie behind all of [at, end)? */
static bool read_maps(FILE *maps, uint64_t at, uint64_t end, struct run *run)
{
	char *line = NULL;
	size_t capacity = 0;
	bool found = false, ok = false;
	struct ur_map m;

	while (!ok && getline(&line, &capacity, maps) > 0) {
		if (!ur_map_parse(line, &m) || m.end <= at)
			continue;
		if (!is_shared(&m) ||
		    (found ? !follows(run, &m) : m.start > at))
			break;
		if (found) {
			run->end = m.end;
			run->writable = run->writable && m.prot[1] == 'w';
		} else {
			run_begin(run, &m);
		}
		found = true;
		ok = run->end >= end;
	}
	free(line);
	return ok;
}

static bool is_object(int fd, const struct run *run)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == run->dev &&
	       st.st_ino == run->ino && S_ISREG(st.st_mode);
}

/*
 * By its name, if that is still the same file; else by map_files, which needs a
 * capability.
 */
static int open_by_name(const struct run *run, int flags)
{
	char name[64];
	int fd = -1;

	if (run->path[0] == '/')
		fd = open(run->path, flags | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0 && is_object(fd, run))
		return fd;
	if (fd >= 0)
		close(fd);
	snprintf(name, sizeof(name), "/proc/self/map_files/%llx-%llx",
		 (unsigned long long)run->start,
		 (unsigned long long)run->first_end);
	fd = open(name, flags);
	if (fd >= 0 && is_object(fd, run))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Is it a descriptor of that object, with the access mode of the mapping? */
static bool is_candidate(int fd, const struct run *run)
{
	char name[64], path[4096];
	ssize_t n;
	int flags;

	if (!is_object(fd, run))
		return false;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_WRONLY ||
	    (run->writable && (flags & O_ACCMODE) != O_RDWR))
		return false;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = 0;
	return strcmp(path, run->path) == 0;
}

static int find_open(const struct run *run)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	int found = -1;

	if (!dir)
		return -1;
	while (found < 0 && (entry = readdir(dir))) {
		int fd = (int)strtol(entry->d_name, NULL, 10);

		if (entry->d_name[0] == '.' || fd == dirfd(dir) ||
		    !is_candidate(fd, run))
			continue;
		/* Another thread may have closed and reused it in between. */
		found = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (found >= 0 && !is_object(found, run)) {
			close(found);
			found = -1;
		}
	}
	closedir(dir);
	return found;
}

int ur_backing_find(const void *addr, uint64_t length, struct ur_backing *out)
{
	uint64_t at = (uintptr_t)addr;
	FILE *maps = fopen("/proc/self/maps", "re");
	struct run *run = malloc(sizeof(*run));
	int flags, rc = -ENOENT;

	if (!maps || !run || !read_maps(maps, at, at + length, run))
		goto out;
	*out = (struct ur_backing){ .fd = -1,
				    .shmid = -1,
				    .offset = run->offset + (at - run->start) };
	if (is_sysv(run->path)) {
		out->shmid = (int)run->ino;
		rc = 0;
		goto out;
	}
	flags = (run->writable ? O_RDWR : O_RDONLY) | O_CLOEXEC;
	out->fd = open_by_name(run, flags);
	if (out->fd < 0)
		out->fd = find_open(run);
	rc = out->fd < 0 ? -ENOENT : 0;
out:
	free(run);
	if (maps)
		fclose(maps);
	return rc;
}
