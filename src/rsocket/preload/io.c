/* SPDX-License-Identifier: BSD-2-Clause */
/* Data.  The _chk functions are what compilers make of calls whose buffer they
 * know the size of. */
#include <errno.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "rsocket/preload/preload.h"

enum { FILE_PIECE = 65536 };

/* rsockets raise no signals, but programs may count on SIGPIPE to end. */
static ssize_t sent(ssize_t n, int flags)
{
	if (n >= 0 || errno != EPIPE || flags & MSG_NOSIGNAL)
		return n;
	pthread_kill(pthread_self(), SIGPIPE);
	errno = EPIPE;
	return n;
}

PRE_EXPORT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	int rs;

	return pre_data_in(fd, &rs, flags)
		       ? PRE_RS(rrecv(rs, buf, len, flags))
		       : pre_real()->recv(fd, buf, len, flags);
}

PRE_EXPORT ssize_t recvfrom(int fd, void *buf, size_t len, int flags,
			    __SOCKADDR_ARG addr, socklen_t *addr_len)
{
	int rs;

	return pre_data_in(fd, &rs, flags)
		       ? PRE_RS(rrecvfrom(rs, buf, len, flags,
					  addr.__sockaddr__, addr_len))
		       : pre_real()->recvfrom(fd, buf, len, flags, addr,
					      addr_len);
}

PRE_EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	int rs;

	return pre_data_in(fd, &rs, flags)
		       ? PRE_RS(rrecvmsg(rs, msg, flags))
		       : pre_real()->recvmsg(fd, msg, flags);
}

PRE_EXPORT ssize_t read(int fd, void *buf, size_t count)
{
	int rs;

	return pre_data_in(fd, &rs, 0) ? PRE_RS(rread(rs, buf, count))
				       : pre_real()->read(fd, buf, count);
}

PRE_EXPORT ssize_t readv(int fd, const struct iovec *iov, int count)
{
	int rs;

	return pre_data_in(fd, &rs, 0) ? PRE_RS(rreadv(rs, iov, count))
				       : pre_real()->readv(fd, iov, count);
}

/* The C library names them.  NOLINTBEGIN(readability-identifier-naming) */
ssize_t __read_chk(int fd, void *buf, size_t count, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t room, int flags,
		       __SOCKADDR_ARG addr, socklen_t *addr_len);

PRE_EXPORT ssize_t __read_chk(int fd, void *buf, size_t count, size_t room)
{
	if (count > room)
		__builtin_trap();
	return read(fd, buf, count);
}

PRE_EXPORT ssize_t __recv_chk(int fd, void *buf, size_t len, size_t room,
			      int flags)
{
	if (len > room)
		__builtin_trap();
	return recv(fd, buf, len, flags);
}

PRE_EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t room,
				  int flags, __SOCKADDR_ARG addr,
				  socklen_t *addr_len)
{
	if (len > room)
		__builtin_trap();
	return recvfrom(fd, buf, len, flags, addr, addr_len);
}
/* NOLINTEND(readability-identifier-naming) */

PRE_EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	int rs;

	return pre_data(fd, &rs)
		       ? sent(PRE_RS(rsend(rs, buf, len, flags)), flags)
		       : pre_real()->send(fd, buf, len, flags);
}

PRE_EXPORT ssize_t sendto(int fd, const void *buf, size_t len, int flags,
			  __CONST_SOCKADDR_ARG addr, socklen_t addr_len)
{
	int rs;

	return pre_data(fd, &rs)
		       ? sent(PRE_RS(rsendto(rs, buf, len, flags,
					     addr.__sockaddr__, addr_len)),
			      flags)
		       : pre_real()->sendto(fd, buf, len, flags, addr,
					    addr_len);
}

PRE_EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	int rs;

	return pre_data(fd, &rs) ? sent(PRE_RS(rsendmsg(rs, msg, flags)), flags)
				 : pre_real()->sendmsg(fd, msg, flags);
}

PRE_EXPORT ssize_t write(int fd, const void *buf, size_t count)
{
	int rs;

	return pre_data(fd, &rs) ? sent(PRE_RS(rwrite(rs, buf, count)), 0)
				 : pre_real()->write(fd, buf, count);
}

PRE_EXPORT ssize_t writev(int fd, const struct iovec *iov, int count)
{
	int rs;

	return pre_data(fd, &rs) ? sent(PRE_RS(rwritev(rs, iov, count)), 0)
				 : pre_real()->writev(fd, iov, count);
}

/* From `at` of the file on; what the rsocket did not take is not consumed. */
static ssize_t send_file(int rs, int in, off_t at, size_t count)
{
	char piece[FILE_PIECE];
	size_t done = 0;

	while (done < count) {
		size_t want = count - done;
		ssize_t n, taken;

		if (want > sizeof(piece))
			want = sizeof(piece);
		n = pread(in, piece, want, at + (off_t)done);
		if (n <= 0)
			return done ? (ssize_t)done : n;
		taken = sent(PRE_RS(rsend(rs, piece, (size_t)n, 0)), 0);
		if (taken < 0)
			return done ? (ssize_t)done : -1;
		done += (size_t)taken;
		if (taken < n)
			break;
	}
	return (ssize_t)done;
}

PRE_EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
	off_t at;
	ssize_t n;
	int rs;

	if (!pre_data(out, &rs))
		return pre_real()->sendfile(out, in, offset, count);
	at = offset ? *offset : lseek(in, 0, SEEK_CUR);
	if (at < 0)
		return -1;
	n = send_file(rs, in, at, count);
	if (n <= 0)
		return n;
	if (offset)
		*offset = at + n;
	else
		lseek(in, at + n, SEEK_SET);
	return n;
}

PRE_EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t count)
{
	_Static_assert(sizeof(off_t) == sizeof(off64_t), "64-bit files only");

	return sendfile(out, in, offset, count);
}
