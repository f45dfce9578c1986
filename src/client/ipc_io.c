/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/ipc_io.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/sys.h"

/* An abstract name is scoped to the network namespace, as port 4791 is. */
static const char ipc_name[] = "\0urnic";

#define IPC_BACKLOG 128

static socklen_t ipc_address(struct sockaddr_un *sa)
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	memcpy(sa->sun_path, ipc_name, sizeof(ipc_name) - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
			   sizeof(ipc_name) - 1);
}

static int ipc_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC,
			0);

	return fd < 0 ? -errno : fd;
}

int ur_ipc_listen(void)
{
	struct sockaddr_un sa;
	socklen_t len = ipc_address(&sa);
	int fd = ipc_socket(), err;

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
	socklen_t len = ipc_address(&sa);
	int fd = ipc_socket(), err;

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
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	*pid = cred.pid;
	*uid = cred.uid;
	return 0;
}

/* Room for the descriptors of one message, aligned as the kernel wants. */
union fd_space {
	struct cmsghdr align;
	char buf[CMSG_SPACE(UR_IPC_MAX_FDS * sizeof(int))];
};

static void put_fds(struct msghdr *mh, union fd_space *space, const int *fds,
		    unsigned int nfds)
{
	struct cmsghdr *c;

	memset(space, 0, sizeof(*space));
	mh->msg_control = space->buf;
	mh->msg_controllen = CMSG_SPACE(nfds * sizeof(int));
	c = CMSG_FIRSTHDR(mh);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
}

int ur_ipc_send(int fd, const struct ur_ipc_msg *msg, const int *fds,
		unsigned int nfds)
{
	uint8_t buf[UR_IPC_MAX];
	union fd_space space;
	struct msghdr mh = { .msg_iovlen = 1 };
	struct iovec iov = { .iov_base = buf };
	int len = ur_ipc_encode(msg, buf, sizeof(buf));

	if (len < 0)
		return len;
	iov.iov_len = (size_t)len;
	mh.msg_iov = &iov;
	if (nfds)
		put_fds(&mh, &space, fds, nfds);
	if (ur_sys_sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

static unsigned int get_fds(struct msghdr *mh, int fds[UR_IPC_MAX_FDS])
{
	unsigned int n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	}
	return n;
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
	union fd_space space;
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct msghdr mh = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = space.buf,
		.msg_controllen = sizeof(space.buf),
	};
	ssize_t len = ur_sys_recvmsg(fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int err = -EPROTO;

	if (len < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	for (unsigned int i = 0; i < UR_IPC_MAX_FDS; i++)
		fds[i] = -1;
	*nfds = get_fds(&mh, fds);
	if (mh.msg_flags & MSG_CTRUNC)
		err = -EMFILE;
	else if (len == 0)
		err = -ECONNRESET;
	else if (!(mh.msg_flags & MSG_TRUNC))
		err = ur_ipc_decode(msg, buf, (size_t)len, *nfds);
	if (err)
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	return err;
}
