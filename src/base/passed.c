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

unsigned int ur_fds_get(struct msghdr *h, int *fds, unsigned int max)
{
	unsigned int n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c))
		n = take(c, fds, n, max);
	return n;
}

int ur_pass_fd(int sock, const void *msg, size_t len, int fd)
{
	UR_FDS_SPACE(1) space;
	struct iovec iov = { (void *)(uintptr_t)msg, len };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	ur_fds_put(&h, &space, &fd, fd >= 0);
	n = ur_sys_sendmsg(sock, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

int ur_passed_fd(struct msghdr *h, int *fd)
{
	int fds[2] = { -1, -1 };
	unsigned int n = ur_fds_get(h, fds, 2);

	*fd = -1;
	if (n == 0)
		return 0;
	if (n == 1 && !(h->msg_flags & MSG_CTRUNC)) {
		*fd = fds[0];
		return 0;
	}
	for (unsigned int i = 0; i < n; i++)
		close(fds[i]);
	return -EPROTO;
}
