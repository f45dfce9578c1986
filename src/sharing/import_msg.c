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
	struct pollfd p = { .fd = sock, .events = POLLIN };
	int err;

	*fd = -1;
	if (wait_ms && ur_sys_poll(&p, 1, wait_ms) == 0)
		return -EAGAIN;
	err = ur_take_fd(sock, m, sizeof(*m), fd);
	if (err)
		return err == -EAGAIN ? err : -EIO;
	if (m->version == UR_IMPORT_VERSION)
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
