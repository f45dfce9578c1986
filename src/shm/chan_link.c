/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/chan_link.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/passed.h"
#include "base/socket.h"
#include "shm/chan.h"
#include "shm/sealed.h"

_Static_assert(UR_CHAN_LINK_MAX_FDS <= UR_FDS_MAX, "in one message");

int ur_chan_link_make(struct ur_chan_link *s, int fds[2])
{
	int pair[2], fd;

	*s = (struct ur_chan_link){ .sock = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	fd = ur_sealed_make("urnic-channel", ur_chan_bytes(), &s->mem);
	if (fd < 0) {
		close(pair[0]);
		close(pair[1]);
		return fd;
	}
	ur_chan_format(s->mem);
	s->sock = pair[0];
	fds[0] = fd;
	fds[1] = pair[1];
	return 0;
}

/* Either end of a socket pair has the credentials of its maker. */
static int check_socket(struct ur_chan_link *s, int fd)
{
	struct ucred cred;

	if (ur_sockopt_peer(fd, &cred))
		return -EPROTO;
	if (cred.uid != getuid())
		return -EPERM;
	s->pid = cred.pid;
	return ur_sockopt_get(fd, SOL_SOCKET, SO_TYPE) == SOCK_SEQPACKET
		       ? 0
		       : -EPROTO;
}

int ur_chan_link_take(struct ur_chan_link *s, int fds[2])
{
	int err;

	*s = (struct ur_chan_link){ .sock = fds[1], .side = 1 };
	err = check_socket(s, fds[1]);
	if (!err)
		err = ur_sealed_map(fds[0], ur_chan_bytes(), &s->mem);
	close(fds[0]);
	if (err)
		close(fds[1]);
	return err;
}

void ur_chan_link_drop(struct ur_chan_link *s)
{
	if (s->mem)
		munmap(s->mem, ur_chan_bytes());
	s->mem = NULL;
	if (s->sock >= 0)
		close(s->sock);
	s->sock = -1;
}

void ur_chan_link_abandon(const struct ur_chan_link *s)
{
	if (s->sock >= 0)
		close(s->sock);
}

int ur_chan_link_send(const struct ur_chan_link *s, const void *msg, size_t len,
		      const int *fds, unsigned int nfds)
{
	return ur_fds_send(s->sock, msg, len, fds, nfds);
}

ssize_t ur_chan_link_recv(const struct ur_chan_link *s, void *msg, size_t cap,
			  int fds[UR_CHAN_LINK_MAX_FDS], unsigned int *nfds)
{
	int flags = 0;
	ssize_t len = ur_fds_recv(s->sock, msg, cap, fds, UR_CHAN_LINK_MAX_FDS,
				  nfds, &flags);

	return len ? len : -ECONNRESET;
}
