/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A child must have a copy of what was private memory.  Before the fork the
 * pages are copied to private memory, which fork() treats as it should; the
 * child moves the copies to where the originals are, the parent drops them.
 * What is ours is told by /proc/self/maps, so that the application may have
 * unmapped, moved, grown or protected it since.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "reach/maps.h"
#include "reach/share.h"
#include "reach/share_internal.h"

#define KEPT_MAX   256u
#define PIECES_MAX 1024u

/* A memfd that is mapped somewhere. */
struct kept {
	int fd;
	uint64_t bytes;
	dev_t dev;
	ino_t ino;
};

/* A piece of one, for the child. */
struct piece {
	void *copy;
	void *at;
	size_t len;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept kept[KEPT_MAX];
static uint32_t nkept;
static struct piece pieces[PIECES_MAX];
static uint32_t npieces;

void ur_share_lock(void)
{
	pthread_mutex_lock(&lock);
}

void ur_share_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

bool ur_share_keep(int fd, uint64_t bytes)
{
	struct stat st;

	if (nkept == KEPT_MAX || fstat(fd, &st))
		return false;
	kept[nkept++] = (struct kept){ fd, bytes, st.st_dev, st.st_ino };
	return true;
}

uint64_t ur_share_bytes(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < nkept; i++)
		sum += kept[i].bytes;
	return sum;
}

static const struct kept *kept_of(const struct ur_map *m)
{
	for (uint32_t i = 0; i < nkept; i++)
		if (kept[i].ino == m->ino && kept[i].dev == m->dev)
			return &kept[i];
	return NULL;
}

static int protection(const char *text)
{
	return (text[0] == 'r' ? PROT_READ : 0) |
	       (text[1] == 'w' ? PROT_WRITE : 0) |
	       (text[2] == 'x' ? PROT_EXEC : 0);
}

/* The application may have closed what it did not open. */
static bool is_open(const struct kept *k)
{
	struct stat st;

	return fstat(k->fd, &st) == 0 && st.st_dev == k->dev &&
	       st.st_ino == k->ino;
}

int ur_share_fd(const struct ur_map *m)
{
	const struct kept *k = kept_of(m);

	return k && is_open(k) ? k->fd : -1;
}

static ssize_t read_memory(void *to, uint64_t at, size_t len)
{
	const struct iovec here = { to, len };
	const struct iovec there = { (void *)(uintptr_t)at, len };

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0);
}

/* From the file, if we can: the mapping may be protected by now. */
static void copy_piece(const struct kept *k, const struct ur_map *m)
{
	size_t len = m->end - m->start, done = 0;
	bool from_file = is_open(k);
	uint8_t *copy = mmap(NULL, len, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED || npieces == PIECES_MAX) {
		ur_err("a child shares %zu bytes of its parent's memory", len);
		return;
	}
	while (done < len) {
		ssize_t n = from_file
				    ? pread(k->fd, copy + done, len - done,
					    (off_t)(m->offset + done))
				    : read_memory(copy + done, m->start + done,
						  len - done);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	mprotect(copy, len, protection(m->prot));
	pieces[npieces++] =
		(struct piece){ copy, (void *)(uintptr_t)m->start, len };
}

static void copy_all(FILE *maps)
{
	char *line = NULL;
	size_t capacity = 0;

	while (getline(&line, &capacity, maps) > 0) {
		const struct kept *k;
		struct ur_map m;

		if (!ur_map_parse(line, &m) || m.prot[3] != 's' ||
		    ur_share_is_pin(&m))
			continue;
		k = kept_of(&m);
		if (k)
			copy_piece(k, &m);
	}
	free(line);
}

static void before_fork(void)
{
	FILE *maps;

	pthread_mutex_lock(&lock);
	npieces = 0;
	maps = nkept ? fopen("/proc/self/maps", "re") : NULL;
	if (!maps)
		return;
	copy_all(maps);
	fclose(maps);
}

static void in_parent(void)
{
	for (uint32_t i = 0; i < npieces; i++)
		munmap(pieces[i].copy, pieces[i].len);
	npieces = 0;
	pthread_mutex_unlock(&lock);
}

/* Only system calls here: another thread may have held any lock. */
static void in_child(void)
{
	for (uint32_t i = 0; i < npieces; i++)
		mremap(pieces[i].copy, pieces[i].len, pieces[i].len,
		       MREMAP_MAYMOVE | MREMAP_FIXED, pieces[i].at);
	for (uint32_t i = 0; i < nkept; i++)
		if (is_open(&kept[i]))
			close(kept[i].fd);
	npieces = 0;
	nkept = 0;
	ur_share_threads_forget(); /* none of them is here */
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}
