/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/import_msg.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/passed.h"

union control {
	struct cmsghdr align;
	char bytes[UR_PASSED_SPACE];
};

int ur_import_send(int sock, const struct ur_import_msg *m, int fd)
{
	union control control = { .bytes = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)m, sizeof(*m) };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *c = &control.align;

		h.msg_control = control.bytes;
		h.msg_controllen = sizeof(control.bytes);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	if (sendmsg(sock, &h, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*m))
		return 0;
	return errno ? -errno : -EIO;
}

int ur_import_recv(int sock, struct ur_import_msg *m, int *fd, int wait_ms)
{
	union control control;
	struct iovec iov = { m, sizeof(*m) };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.bytes,
			    .msg_controllen = sizeof(control.bytes) };
	struct pollfd p = { .fd = sock, .events = POLLIN };
	ssize_t n;
	int rc;

	*fd = -1;
	if (wait_ms && poll(&p, 1, wait_ms) == 0)
		return -EAGAIN;
	n = recvmsg(sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EIO;
	rc = ur_passed_fd(&h, fd);
	if (!rc && n == sizeof(*m) && m->version == UR_IMPORT_VERSION &&
	    !(h.msg_flags & MSG_TRUNC))
		return 0;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return -EIO;
}

int ur_import_peer(int sock, pid_t *pid)
{
	struct ucred c;
	socklen_t len = sizeof(c);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &c, &len))
		return -errno;
	*pid = c.pid;
	return c.uid == geteuid() ? 0 : -EPERM;
}
