/* SPDX-License-Identifier: BSD-2-Clause */
/* The memfds that are mapped in the place of private memory. */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/backing.h"
#include "shm/share_internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ur_share_file kept[UR_SHARE_FILES];
static uint32_t nkept;

/* A file of /proc that stays open. */
struct proc_file {
	const char *path;
	int flags;
	int fd; /* -1: not yet */
	dev_t dev;
	ino_t ino;
};

static struct proc_file smaps = { "/proc/self/smaps", O_RDONLY, -1, 0, 0 };
static struct proc_file fds = { "/proc/self/fd", O_RDONLY | O_DIRECTORY, -1, 0,
				0 };

void ur_share_lock(void)
{
	pthread_mutex_lock(&lock);
}

void ur_share_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static bool is_same(int fd, dev_t dev, ino_t ino)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == dev &&
	       st.st_ino == ino;
}

static int proc_fd(struct proc_file *f)
{
	struct stat st;

	if (is_same(f->fd, f->dev, f->ino))
		return f->fd;
	f->fd = open(f->path, f->flags | O_CLOEXEC);
	if (f->fd < 0)
		return -1;
	if (fstat(f->fd, &st)) {
		close(f->fd);
		f->fd = -1;
		return -1;
	}
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	return f->fd;
}

/* In a child: the files describe the parent. */
static void proc_close(struct proc_file *f)
{
	if (is_same(f->fd, f->dev, f->ino))
		close(f->fd);
	f->fd = -1;
}

int ur_share_smaps(void)
{
	return proc_fd(&smaps);
}

int ur_share_fds(void)
{
	return proc_fd(&fds);
}

bool ur_share_keep(int fd, uint64_t bytes)
{
	struct stat st;

	if (nkept == UR_SHARE_FILES || fstat(fd, &st) || ur_share_smaps() < 0 ||
	    ur_share_fds() < 0)
		return false;
	kept[nkept++] = (struct ur_share_file){
		.fd = fd, .bytes = bytes, .dev = st.st_dev, .ino = st.st_ino
	};
	return true;
}

void ur_share_keep_less(int fd, uint64_t bytes)
{
	kept[nkept - 1].bytes = bytes;
	if (bytes)
		return;
	nkept--;
	close(fd);
}

uint64_t ur_share_bytes(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < nkept; i++)
		sum += kept[i].bytes;
	return sum;
}

static struct ur_share_file *find(dev_t dev, ino_t ino)
{
	for (uint32_t i = 0; i < nkept; i++)
		if (kept[i].ino == ino && kept[i].dev == dev)
			return &kept[i];
	return NULL;
}

struct ur_share_file *ur_share_file_of(const struct ur_map *m)
{
	return find(m->dev, m->ino);
}

bool ur_share_file_is_open(const struct ur_share_file *k)
{
	return is_same(k->fd, k->dev, k->ino);
}

/* The mapping of that descriptor stays shared through every fork. */
static void fix(int fd)
{
	struct ur_share_file *k;
	struct stat st;

	k = fstat(fd, &st) ? NULL : find(st.st_dev, st.st_ino);
	if (k)
		k->fixed = true;
}

/* No fork may happen between the two. */
int ur_backing_export(const void *addr, uint64_t length, struct ur_backing *out)
{
	int rc;

	ur_share_lock();
	rc = ur_backing_find(addr, length, out);
	if (rc == 0 && out->fd >= 0)
		fix(out->fd);
	ur_share_unlock();
	return rc;
}

struct ur_share_file *ur_share_file_next(struct ur_share_file *k)
{
	k = k ? k + 1 : kept;
	return k < kept + nkept ? k : NULL;
}

void ur_share_drop_unmapped(void)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < nkept; i++) {
		if (kept[i].mapped || kept[i].fixed)
			kept[left++] = kept[i];
		else if (ur_share_file_is_open(&kept[i]))
			close(kept[i].fd);
	}
	nkept = left;
}

void ur_share_drop_all(void)
{
	for (uint32_t i = 0; i < nkept; i++)
		if (ur_share_file_is_open(&kept[i]))
			close(kept[i].fd);
	nkept = 0;
	proc_close(&smaps);
	proc_close(&fds);
}
