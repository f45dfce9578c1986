/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/refused.h"

int ur_memfd(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0)
		return fd;
	if (errno != EMFILE && errno != ENFILE && errno != ENOMEM)
		ur_refused_note(UR_REFUSED_MEMFD, errno);
	return -errno;
}

int ur_memfile(const char *name)
{
	int fd = ur_memfd(name);

	if (fd >= 0)
		return fd;
	fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return fd >= 0 ? fd : -errno;
}

bool ur_memfile_is(int fd)
{
	struct statfs fs;
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && !fstatfs(fd, &fs) &&
	       fs.f_type == TMPFS_MAGIC;
}
