/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/exit_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memfile.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Beyond the limit of file sizes the process would get a signal. */
static bool may_be_so_large(void)
{
	struct rlimit l;

	return !getrlimit(RLIMIT_FSIZE, &l) &&
	       (l.rlim_cur == RLIM_INFINITY ||
		l.rlim_cur >= sizeof(struct ur_exit_layout));
}

/* Pages take memory only once they are written. */
int ur_exit_file_open(struct ur_exit_file *f)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	void *map;
	int fd, err;

	if (!may_be_so_large())
		return -EFBIG;
	fd = ur_memfd("urnic-exit");
	if (fd < 0)
		return fd;
	if (ftruncate(fd, sizeof(*f->map)) || fcntl(fd, F_ADD_SEALS, SEALS) ||
	    fcntl(fd, F_SETLK, &lock))
		goto close_fd;
	map = mmap(NULL, sizeof(*f->map), PROT_READ | PROT_WRITE, MAP_SHARED,
		   fd, 0);
	if (map == MAP_FAILED)
		goto close_fd;
	*f = (struct ur_exit_file){ .map = map, .fd = fd };
	f->map->head.magic = UR_EXIT_MAGIC;
	return 0;
close_fd:
	err = -errno;
	close(fd);
	return err;
}

void ur_exit_file_close(struct ur_exit_file *f)
{
	if (!f->map)
		return;
	munmap(f->map, sizeof(*f->map));
	close(f->fd);
	free(f->unused);
	*f = (struct ur_exit_file){ .map = NULL };
}

/* There is room in `unused` for every entry that was handed out. */
static int32_t take_entry(struct ur_exit_file *f)
{
	uint32_t n = f->map->head.conns;
	uint32_t *more, cap = f->cap ? 2 * f->cap : 64;

	if (f->nunused)
		return (int32_t)f->unused[--f->nunused];
	if (n == UR_EXIT_CONNS)
		return -1;
	if (n == f->cap) {
		more = realloc(f->unused, cap * sizeof(*more));
		if (!more)
			return -1;
		f->unused = more;
		f->cap = cap;
	}
	f->map->head.conns = n + 1;
	return (int32_t)n;
}

int32_t ur_exit_file_add(struct ur_exit_file *f, const struct ur_cm_dgram *d)
{
	int32_t entry = take_entry(f);
	struct ur_exit_conn *e;

	if (entry < 0)
		return -1;
	e = &f->map->conn[entry];
	memcpy(e->src, d->src, sizeof(e->src));
	memcpy(e->dst, d->dst, sizeof(e->dst));
	memcpy(e->mad, d->mad, sizeof(e->mad));
	e->scope_id = d->scope_id;
	e->tclass = d->tclass;
	atomic_store_explicit(&e->valid, 1, memory_order_release);
	return entry;
}

void ur_exit_file_del(struct ur_exit_file *f, int32_t entry)
{
	atomic_store_explicit(&f->map->conn[entry].valid, 0,
			      memory_order_release);
	f->unused[f->nunused++] = (uint32_t)entry;
}

void ur_exit_file_acks(struct ur_exit_file *f, const struct ur_timewait *acks,
		       uint32_t n)
{
	uint32_t at = f->map->head.acks;

	if (n > UR_EXIT_ACKS - at)
		n = UR_EXIT_ACKS - at;
	memcpy(f->map->ack + at, acks, n * sizeof(*acks));
	atomic_store_explicit(&f->map->head.acks, at + n, memory_order_release);
}
