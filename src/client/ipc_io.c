/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/ipc_io.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/passed.h"
#include "base/socket.h"

#define IPC_NAME    "urnic"
#define IPC_BACKLOG 128

_Static_assert(UR_IPC_MAX_FDS <= UR_FDS_MAX, "in one message");

static int ipc_socket(struct sockaddr_un *sa, socklen_t *len)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC,
			0);

	*len = ur_sockaddr_abstract(sa, IPC_NAME);
	return fd < 0 ? -errno : fd;
}

int ur_ipc_listen(void)
{
	struct sockaddr_un sa;
	socklen_t len;
	int fd = ipc_socket(&sa, &len), err;

	if (fd < 0)
		return fd;
	if (!bind(fd, (struct sockaddr *)&sa, len) && !listen(fd, IPC_BACKLOG))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int ur_ipc_connect(void)
{
	struct sockaddr_un sa;
	socklen_t len;
	int fd = ipc_socket(&sa, &len), err;

	if (fd < 0)
		return fd;
	if (!connect(fd, (struct sockaddr *)&sa, len))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int ur_ipc_peer(int fd, pid_t *pid, uid_t *uid)
{
	struct ucred cred;
	int err = ur_sockopt_peer(fd, &cred);

	if (err)
		return err;
	*pid = cred.pid;
	*uid = cred.uid;
	return 0;
}

int ur_ipc_send(int fd, const struct ur_ipc_msg *msg, const int *fds,
		unsigned int nfds)
{
	uint8_t buf[UR_IPC_MAX];
	int len = ur_ipc_encode(msg, buf, sizeof(buf));

	return len < 0 ? len : ur_fds_send(fd, buf, (size_t)len, fds, nfds);
}

void ur_ipc_close_fds(int *fds, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

int ur_ipc_recv(int fd, struct ur_ipc_msg *msg, int fds[UR_IPC_MAX_FDS],
		unsigned int *nfds)
{
	uint8_t buf[UR_IPC_MAX];
	int err = -EPROTO, flags = 0;
	ssize_t len;

	for (unsigned int i = 0; i < UR_IPC_MAX_FDS; i++)
		fds[i] = -1;
	len = ur_fds_recv(fd, buf, sizeof(buf), fds, UR_IPC_MAX_FDS, nfds,
			  &flags);
	/* A peer that ends with messages unread resets the connection.  Its own
	 * messages can still be read. */
	if (len == -ECONNRESET)
		len = ur_fds_recv(fd, buf, sizeof(buf), fds, UR_IPC_MAX_FDS,
				  nfds, &flags);
	if (len < 0)
		return (int)len;
	if (flags & MSG_CTRUNC)
		err = *nfds < UR_IPC_MAX_FDS ? -EMFILE : -EPROTO;
	else if (len == 0)
		err = -ECONNRESET;
	else if (!(flags & MSG_TRUNC))
		err = ur_ipc_decode(msg, buf, (size_t)len, *nfds);
	if (err)
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	return err;
}
