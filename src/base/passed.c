/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/passed.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/sys.h"

int ur_pass_fd(int sock, const void *msg, size_t len, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[UR_PASSED_SPACE];
	} control = { .bytes = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)msg, len };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		struct cmsghdr *c = &control.align;

		h.msg_control = control.bytes;
		h.msg_controllen = sizeof(control.bytes);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	n = ur_sys_sendmsg(sock, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

/* Keeps the first descriptor and closes others; returns how many there were. */
static size_t take(const struct cmsghdr *c, int *kept)
{
	size_t n;

	if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len < CMSG_LEN(0))
		return 0;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		if (*kept < 0)
			*kept = fd;
		else
			close(fd);
	}
	return n;
}

int ur_passed_fd(struct msghdr *h, int *fd)
{
	size_t n = 0;

	*fd = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c))
		n += take(c, fd);
	if (n == 0 || (n == 1 && !(h->msg_flags & MSG_CTRUNC)))
		return 0;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return -EPROTO;
}
