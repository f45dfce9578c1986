/* SPDX-License-Identifier: BSD-2-Clause */
#include "share_faults.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"

/* NOLINTBEGIN(readability-identifier-naming): the linker's */

enum fault fault;
_Atomic unsigned int *errors;

void *__real_mmap64(void *addr, size_t len, int prot, int flags, int fd,
		    off_t off);
void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd,
		    off_t off);

void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd,
		    off_t off)
{
	bool fails = fault == MMAP_ALL;

	if (flags & MAP_ANONYMOUS)
		fails = fails || fault == MMAP_ANONYMOUS;
	else if (flags & MAP_PRIVATE)
		fails = fails || fault == MMAP_PRIVATE;
	else
		fails = fails || fault == MMAP_SHARED;
	errno = ENOMEM;
	return fails ? MAP_FAILED
		     : __real_mmap64(addr, len, prot, flags, fd, off);
}

void *__real_mremap(void *at, size_t was, size_t is, int flags, void *to);
void *__wrap_mremap(void *at, size_t was, size_t is, int flags, void *to);

void *__wrap_mremap(void *at, size_t was, size_t is, int flags, void *to)
{
	errno = ENOMEM;
	return fault == MREMAP ? MAP_FAILED
			       : __real_mremap(at, was, is, flags, to);
}

ssize_t __real_pread64(int fd, void *buf, size_t len, off_t off);
ssize_t __wrap_pread64(int fd, void *buf, size_t len, off_t off);

ssize_t __wrap_pread64(int fd, void *buf, size_t len, off_t off)
{
	static bool again;

	if (fault == READ_SHORT && again)
		return 0;
	if (fault == READ_SHORT || fault == READ_PARTS)
		again = !again;
	if (fault == READ_SHORT)
		return __real_pread64(fd, buf, len / 2, off);
	if (fault == READ_PARTS && !again)
		return __real_pread64(fd, buf, 4096, off);
	if (fault != READ_PARTS && fault != READ_ERROR)
		return __real_pread64(fd, buf, len, off);
	errno = fault == READ_PARTS ? EINTR : EIO;
	return -1;
}

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *to,
				unsigned long nto, const struct iovec *from,
				unsigned long nfrom, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to,
				unsigned long nto, const struct iovec *from,
				unsigned long nfrom, unsigned long flags);

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to,
				unsigned long nto, const struct iovec *from,
				unsigned long nfrom, unsigned long flags)
{
	if (fault != READ_MEMORY)
		return __real_process_vm_readv(pid, to, nto, from, nfrom,
					       flags);
	errno = EPERM;
	return -1;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e,
		    long f);

/* read() of what tells of mappings: ur_sys_read(). */
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	static unsigned int n;
	long got;

	if (number != SYS_read || fault < SMAPS_PARTS || fault > SMAPS_ERROR)
		return __real_syscall(number, a, b, c, d, e, f);
	n++;
	if (fault == SMAPS_CUT) {
		got = n % 2 ? __real_syscall(number, a, b, 1001L) : 0;
		/* In the middle of a line, whatever the path of this program. */
		return got > 0 && ((char *)b)[got - 1] == '\n' ? got - 1 : got;
	}
	if (fault == SMAPS_PARTS && n % 2)
		return __real_syscall(number, a, b, c < 301 ? c : 301L);
	errno = fault == SMAPS_PARTS ? EINTR : EIO;
	return -1;
}

int __wrap_mprotect(void *addr, size_t len, int prot);

int __wrap_mprotect(void *addr, size_t len, int prot)
{
	errno = ENOMEM;
	return fault == MPROTECT ? -1 : __real_mprotect(addr, len, prot);
}

int __real_memfd_create(const char *name, unsigned int flags);
int __wrap_memfd_create(const char *name, unsigned int flags);

int __wrap_memfd_create(const char *name, unsigned int flags)
{
	errno = EMFILE;
	return fault == MEMFD ? -1 : __real_memfd_create(name, flags);
}

int __real_ftruncate64(int fd, off_t len);
int __wrap_ftruncate64(int fd, off_t len);

int __wrap_ftruncate64(int fd, off_t len)
{
	errno = EFBIG;
	return fault == TRUNCATE ? -1 : __real_ftruncate64(fd, len);
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

int __wrap_open64(const char *path, int flags, ...)
{
	errno = EMFILE;
	return fault == OPEN ? -1 : __real_open64(path, flags);
}

ssize_t __real_pwrite64(int fd, const void *buf, size_t len, off_t off);
ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t off);

ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t off)
{
	static bool again;

	if (fault != WRITE_SHORT)
		return __real_pwrite64(fd, buf, len, off);
	again = !again;
	errno = ENOSPC;
	return again ? __real_pwrite64(fd, buf, len / 2, off) : -1;
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, long argument);

int __wrap_fcntl64(int fd, int command, long argument)
{
	errno = EPERM;
	return fault == SEAL && command == F_ADD_SEALS
		       ? -1
		       : __real_fcntl64(fd, command, argument);
}

int __real_madvise(void *addr, size_t len, int advice);
int __wrap_madvise(void *addr, size_t len, int advice);

int __wrap_madvise(void *addr, size_t len, int advice)
{
	errno = ENOMEM;
	return fault == MADVISE ? -1 : __real_madvise(addr, len, advice);
}

void __wrap_ur_log_write(enum ur_log_level level, const char *fmt, ...);

void __wrap_ur_log_write(enum ur_log_level level, const char *fmt, ...)
{
	(void)fmt;
	*errors += level == UR_LOG_ERROR;
}
/* NOLINTEND(readability-identifier-naming) */
