/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memfile.h"

#define SIZE  sizeof(struct ur_record_file)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* Beyond the limit of file sizes the process would get a signal. */
static bool may_be_so_large(void)
{
	struct rlimit l;

	return !getrlimit(RLIMIT_FSIZE, &l) &&
	       (l.rlim_cur == RLIM_INFINITY || l.rlim_cur >= SIZE);
}

int ur_record_file_make(struct ur_record_file **map)
{
	int fd, err;

	if (!may_be_so_large())
		return -EFBIG;
	fd = ur_memfd("urnic-record");
	if (fd < 0)
		return fd;
	if (ftruncate(fd, SIZE) || fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL))
		goto close_fd;
	*map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*map == MAP_FAILED)
		goto close_fd;
	/* It need not be resident: after mlockall() it must not count against
	 * RLIMIT_MEMLOCK. */
	(void)munlock(*map, SIZE);
	return fd;
close_fd:
	err = -errno;
	close(fd);
	return err;
}

void ur_record_file_leave(struct ur_record_file *map)
{
	(void)mmap(map, SIZE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

bool ur_record_file_usable(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &st) &&
	       st.st_size == (off_t)SIZE;
}
