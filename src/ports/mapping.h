/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two processes share: the memory of a channel (shm/chan.h), a nameless
 * file, and a socket beside it, which carries descriptors and tells when the
 * other one has ended.  Whoever makes it has side 0.  A child of fork() has
 * neither.
 */
#ifndef UR_PORTS_MAPPING_H
#define UR_PORTS_MAPPING_H

#include <stddef.h>
#include <sys/types.h>

#define UR_MAPPING_MAX_FDS 4u
#define UR_MAPPING_MSG_MAX 256u

struct ur_mapping {
	void *mem; /* NULL: none */
	int sock;
	unsigned int side;
	pid_t pid; /* the other process', as the kernel tells; 0: unknown */
};

/* Make one; fds[2] are for the other side, and the caller's.  0 or -errno. */
int ur_mapping_make(struct ur_mapping *s, int fds[2]);

/*
 * Take the other side of what somebody made; the descriptors are taken in any
 * case.  -EPROTO: not such a pair, or not as long as we need it; -EPERM:
 * another user's.
 */
int ur_mapping_take(struct ur_mapping *s, int fds[2]);

void ur_mapping_drop(struct ur_mapping *s);

/* In a child of fork(). */
void ur_mapping_abandon(const struct ur_mapping *s);

/* A message with descriptors, without waiting.  0, or -errno. */
int ur_mapping_say(const struct ur_mapping *s, const void *msg, size_t len,
		   const int *fds, unsigned int nfds);

/*
 * The next message: its length; -EAGAIN: none; -ECONNRESET: the other side has
 * ended.  The *nfds descriptors are the caller's.
 */
ssize_t ur_mapping_hear(const struct ur_mapping *s, void *msg, size_t cap,
			int fds[UR_MAPPING_MAX_FDS], unsigned int *nfds);

#endif
