/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links to other processes of an XRC domain, and the thread that reads them.
 * One lock guards all; it is inside the lanes' and no other is taken under it.
 * The thread alone reads and closes links.
 */
#ifndef UR_SHARING_XRC_LINK_H
#define UR_SHARING_XRC_LINK_H

#include "base/list.h"
#include "sharing/xrc.h"
#include "sharing/xrc_msg.h"

struct ur_xrc_domain {
	struct ur_list node;
	struct ur_xrc_file file;
	struct ur_xrcd *core;
	struct ur_adapter *adapter;
};

struct ur_xrc_link {
	struct ur_list node;
	uint32_t via;
	int fd;
	struct ur_xrc_file file; /* of the domain that it is for */
	uint32_t slot;		 /* one of the other process' */
	struct ur_adapter *adapter;
	struct ur_list records; /* that wait for room */
	uint32_t nrecords;
	bool doomed; /* to be closed by the thread */
};

/* A call that waits for a REPLY. */
struct ur_xrc_call {
	struct ur_list node;
	uint32_t via;
	uint32_t seq;
	bool done;
	int err;
	struct ur_qp_attr *attr; /* NULL: none is expected */
};

struct ur_xrc_state {
	struct ur_lock lock;
	pthread_cond_t replied;
	struct ur_list domains; /* ur_xrc_domain */
	struct ur_list links;	/* ur_xrc_link */
	struct ur_list wants;	/* links to be made */
	struct ur_list calls;	/* ur_xrc_call */
	const struct ur_xrc_hooks *hooks;
	uint32_t last_via;
	uint32_t last_seq;
	bool running;
	int epfd;
	int wake_fd;
};
extern struct ur_xrc_state ur_xrc;

/* Start the thread, which calls the hooks: 0 or -errno. */
int ur_xrc_start(const struct ur_xrc_hooks *hooks);

/* The lock is held: */
struct ur_xrc_domain *ur_xrc_domain_find(const struct ur_xrc_file *file);
struct ur_xrc_link *ur_xrc_link_to(const struct ur_xrc_file *file,
				   uint32_t slot);
struct ur_xrc_link *ur_xrc_link_get(uint32_t via);
/* -ENOENT: no such process; -EAGAIN: the thread will ask. */
int ur_xrc_want(struct ur_adapter *a, const struct ur_xrc_file *file,
		uint32_t slot);
void ur_xrc_doom(struct ur_xrc_link *l);
/*
 * Send a record.  -EAGAIN: no room; with `must` it is kept then, and goes when
 * there is.  -EIO: there is no such link.
 */
int ur_xrc_send(struct ur_xrc_link *l, const struct ur_xrc_head *h,
		const void *body, size_t len, bool must);

/* Without the lock: take the socket over.  -ENOENT: no such domain here. */
int ur_xrc_link_add(const struct ur_xrc_file *file, uint32_t slot, int fd);

/* xrc.c: a record has come; false: the other side is not to be trusted. */
bool ur_xrc_message(const struct ur_xrc_link *l, const void *msg, size_t len);

#endif
