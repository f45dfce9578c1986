/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/passed.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/sys.h"

void ur_fds_put(struct msghdr *h, void *space, const int *fds, unsigned int n)
{
	struct cmsghdr *c = space;

	if (!n)
		return;
	memset(space, 0, CMSG_SPACE(n * sizeof(int)));
	h->msg_control = space;
	h->msg_controllen = CMSG_SPACE(n * sizeof(int));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
}

/* Those of one control message, behind the n that were found before. */
static unsigned int take(const struct cmsghdr *c, int *fds, unsigned int n,
			 unsigned int max)
{
	size_t count;

	if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len < CMSG_LEN(0))
		return n;
	count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		if (n < max)
			fds[n++] = fd;
		else
			close(fd);
	}
	return n;
}

int ur_fds_send(int sock, const void *msg, size_t len, const int *fds,
		unsigned int n)
{
	UR_FDS_SPACE(UR_FDS_MAX) space;
	struct iovec iov = { (void *)(uintptr_t)msg, len };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	ur_fds_put(&h, &space, fds, n);
	sent = ur_sys_sendmsg(sock, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0)
		return -errno;
	return (size_t)sent == len ? 0 : -EIO;
}

ssize_t ur_fds_recv(int sock, void *buf, size_t cap, int *fds, unsigned int max,
		    unsigned int *n, int *flags)
{
	UR_FDS_SPACE(UR_FDS_MAX) space;
	struct iovec iov = { buf, cap };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &space,
			    .msg_controllen = CMSG_SPACE(max * sizeof(int)) };
	ssize_t len;

	*n = 0;
	do
		len = ur_sys_recvmsg(sock, &h,
				     *flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (len < 0 && errno == EINTR);
	if (len < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c))
		*n = take(c, fds, *n, max);
	*flags = h.msg_flags;
	return len;
}

int ur_pass_fd(int sock, const void *msg, size_t len, int fd)
{
	return ur_fds_send(sock, msg, len, &fd, fd >= 0);
}

int ur_take_fd(int sock, void *msg, size_t len, int *fd)
{
	int fds[2], flags = 0;
	unsigned int n;
	ssize_t got = ur_fds_recv(sock, msg, len, fds, 2, &n, &flags);

	*fd = -1;
	if (got < 0)
		return (int)got;
	if ((size_t)got == len && !(flags & MSG_TRUNC) &&
	    (n == 0 || (n == 1 && !(flags & MSG_CTRUNC)))) {
		*fd = n ? fds[0] : -1;
		return 0;
	}
	while (n)
		close(fds[--n]);
	return -EPROTO;
}
