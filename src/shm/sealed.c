/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memfile.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static int map(int fd, size_t bytes, void **mem)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	(void)madvise(at, bytes, MADV_DONTFORK);
	*mem = at;
	return 0;
}

int ur_sealed_make(const char *name, size_t bytes, void **mem)
{
	int fd = ur_memfd(name);
	int err;

	if (fd < 0)
		return fd;
	err = ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, SEALS)
		      ? -errno
		      : map(fd, bytes, mem);
	if (!err)
		return fd;
	close(fd);
	return err;
}

static bool is_sealed(int fd, size_t bytes)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	       (size_t)st.st_size == bytes &&
	       (fcntl(fd, F_GET_SEALS) & SEALS) == SEALS;
}

int ur_sealed_map(int fd, size_t bytes, void **mem)
{
	return is_sealed(fd, bytes) ? map(fd, bytes, mem) : -EPROTO;
}
