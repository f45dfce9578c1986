/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/passed.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The first is kept, others are closed; how many there were. */
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
	if (n <= 1 && !(h->msg_flags & MSG_CTRUNC))
		return 0;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return -EPROTO;
}
