/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/socket.h"
#include "base/sys.h"
#include "shm/chan.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static int map(struct ur_mapping *s, int fd)
{
	void *mem = mmap(NULL, ur_chan_bytes(), PROT_READ | PROT_WRITE,
			 MAP_SHARED, fd, 0);

	if (mem == MAP_FAILED)
		return -errno;
	(void)madvise(mem, ur_chan_bytes(), MADV_DONTFORK);
	s->mem = mem;
	return 0;
}

/* Sealed: nobody can cut it off under the other's feet. */
static int memory(struct ur_mapping *s)
{
	int fd = memfd_create("urnic-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)ur_chan_bytes()) ||
	    fcntl(fd, F_ADD_SEALS, SEALS))
		err = -errno;
	if (!err)
		err = map(s, fd);
	if (err) {
		close(fd);
		return err;
	}
	ur_chan_format(s->mem);
	return fd;
}

int ur_mapping_make(struct ur_mapping *s, int fds[2])
{
	int pair[2], fd;

	*s = (struct ur_mapping){ .sock = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	fd = memory(s);
	if (fd < 0) {
		close(pair[0]);
		close(pair[1]);
		return fd;
	}
	s->sock = pair[0];
	fds[0] = fd;
	fds[1] = pair[1];
	return 0;
}

static bool is_memory(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	       (size_t)st.st_size == ur_chan_bytes() &&
	       (fcntl(fd, F_GET_SEALS) & SEALS) == SEALS;
}

/* Both ends of a pair tell who made it. */
static int check_socket(struct ur_mapping *s, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -EPROTO;
	if (cred.uid != getuid())
		return -EPERM;
	s->pid = cred.pid;
	return ur_sockopt_get(fd, SOL_SOCKET, SO_TYPE) == SOCK_SEQPACKET
		       ? 0
		       : -EPROTO;
}

int ur_mapping_take(struct ur_mapping *s, int fds[2])
{
	int err;

	*s = (struct ur_mapping){ .sock = fds[1], .side = 1 };
	err = check_socket(s, fds[1]);
	if (!err && !is_memory(fds[0]))
		err = -EPROTO;
	if (!err)
		err = map(s, fds[0]);
	close(fds[0]);
	if (err)
		close(fds[1]);
	return err;
}

void ur_mapping_drop(struct ur_mapping *s)
{
	if (s->mem)
		munmap(s->mem, ur_chan_bytes());
	s->mem = NULL;
	if (s->sock >= 0)
		close(s->sock);
	s->sock = -1;
}

void ur_mapping_abandon(const struct ur_mapping *s)
{
	if (s->sock >= 0)
		close(s->sock);
}

union fd_space {
	struct cmsghdr align;
	char buf[CMSG_SPACE(UR_MAPPING_MAX_FDS * sizeof(int))];
};

int ur_mapping_say(const struct ur_mapping *s, const void *msg, size_t len,
		   const int *fds, unsigned int nfds)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)msg,
			     .iov_len = len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	union fd_space space;
	struct cmsghdr *c;

	memset(&space, 0, sizeof(space));
	if (nfds) {
		mh.msg_control = space.buf;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	if (ur_sys_sendmsg(s->sock, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

ssize_t ur_mapping_hear(const struct ur_mapping *s, void *msg, size_t cap,
			int fds[UR_MAPPING_MAX_FDS], unsigned int *nfds)
{
	struct iovec iov = { .iov_base = msg, .iov_len = cap };
	union fd_space space;
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = space.buf,
			     .msg_controllen = sizeof(space.buf) };
	ssize_t len =
		ur_sys_recvmsg(s->sock, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c;

	*nfds = 0;
	if (len < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	c = CMSG_FIRSTHDR(&mh);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		*nfds = (unsigned int)((c->cmsg_len - CMSG_LEN(0)) /
				       sizeof(int));
		memcpy(fds, CMSG_DATA(c), *nfds * sizeof(int));
	}
	return len ? len : -ECONNRESET;
}
