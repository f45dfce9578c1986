/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How two processes share a channel: its memory (chan.h, sealed.h) and a socket,
 * which carries file descriptors and tells when the other process has ended.  Its
 * maker has side 0.  A child of fork() has neither.
 */
#ifndef UR_SHM_CHAN_LINK_H
#define UR_SHM_CHAN_LINK_H

#include <stddef.h>
#include <sys/types.h>

#define UR_CHAN_LINK_MAX_FDS 4u
#define UR_CHAN_LINK_MSG_MAX 256u

struct ur_chan_link {
	void *mem; /* NULL: none */
	int sock;
	unsigned int side;
	pid_t pid; /* the other process, as the kernel tells; 0: unknown */
};

/* Make both; fds[2] are for the other side, and the caller's. 0 or -errno. */
int ur_chan_link_make(struct ur_chan_link *s, int fds[2]);

/*
 * Take the other side from fds, which are taken in any case. -EPROTO: not such
 * a pair, or a memory of another size; -EPERM: of another user.
 */
int ur_chan_link_take(struct ur_chan_link *s, int fds[2]);

void ur_chan_link_drop(struct ur_chan_link *s);

/* In a child of fork(). */
void ur_chan_link_abandon(const struct ur_chan_link *s);

/* Send a message with file descriptors; does not wait. 0 or -errno. */
int ur_chan_link_send(const struct ur_chan_link *s, const void *msg, size_t len,
		      const int *fds, unsigned int nfds);

/*
 * Receive the next message: its length; -EAGAIN: none; -ECONNRESET: the other
 * side has ended.  The *nfds descriptors are the caller's.
 */
ssize_t ur_chan_link_recv(const struct ur_chan_link *s, void *msg, size_t cap,
			  int fds[UR_CHAN_LINK_MAX_FDS], unsigned int *nfds);

#endif
