/* SPDX-License-Identifier: BSD-2-Clause */
#include "sharing/import_msg.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/passed.h"
#include "base/socket.h"
#include "base/sys.h"

int ur_import_send(int sock, const struct ur_import_msg *m, int fd)
{
	return ur_pass_fd(sock, m, sizeof(*m), fd);
}

int ur_import_recv(int sock, struct ur_import_msg *m, int *fd, int wait_ms)
{
	UR_FDS_SPACE(1) control;
	struct iovec iov = { m, sizeof(*m) };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	struct pollfd p = { .fd = sock, .events = POLLIN };
	ssize_t n;
	int rc;

	*fd = -1;
	if (wait_ms && ur_sys_poll(&p, 1, wait_ms) == 0)
		return -EAGAIN;
	n = ur_sys_recvmsg(sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
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
	int err = ur_sockopt_peer(sock, &c);

	if (err)
		return err;
	*pid = c.pid;
	return c.uid == geteuid() ? 0 : -EPERM;
}
