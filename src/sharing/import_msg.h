/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between an owner of objects and their importers.  Both ends are of
 * one build, which the version says, so they are plain structures.
 */
#ifndef UR_SHARING_IMPORT_MSG_H
#define UR_SHARING_IMPORT_MSG_H

#include "sharing/import.h"

#define UR_IMPORT_VERSION 2u

enum ur_import_type {
	UR_IMPORT_HELLO = 1, /* token, news */
	UR_IMPORT_ASK,	     /* o.kind, o.handle */
	UR_IMPORT_END,	     /* likewise */
	UR_IMPORT_NEWS,	     /* of the owner: o */
	UR_IMPORT_REPLY,     /* seq as asked, error */
};

struct ur_import_msg {
	uint8_t type;
	uint8_t news; /* HELLO: the connection is for NEWS */
	uint16_t version;
	int32_t error; /* 0 or -errno */
	uint32_t seq;
	uint32_t pad;
	uint8_t token[UR_IMPORT_TOKEN];
	/* Reply to HELLO: where the owner has these bytes in its memory */
	uint8_t secret[16];
	uint64_t secret_addr;
	struct ur_import_object o;
};

/* fd: -1, or passed along and still the caller's.  0 or -errno; no wait. */
int ur_import_send(int sock, const struct ur_import_msg *m, int fd);

/*
 * The next message, waiting for it so long at most (0: not at all).  0,
 * -EAGAIN, or -EIO: the connection has ended, or it is no message of ours.
 * *fd: -1, or the caller's.
 */
int ur_import_recv(int sock, struct ur_import_msg *m, int *fd, int wait_ms);

/* The other end is of our user: 0 or -EPERM; *pid is its number here. */
int ur_import_peer(int sock, pid_t *pid);

/* importer.c, for the watcher: as ur_import_fds() and ur_import_work(). */
unsigned int ur_import_link_fds(struct pollfd *fds);
void ur_import_link_work(const struct pollfd *fd);
void ur_import_link_abandon(void);

#endif
